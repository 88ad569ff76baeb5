"""One question to a server that speaks OpenAI's chat completions; busy servers are asked again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
from collections.abc import Callable
from urllib import parse

from ragen_envs.extras import import_extra
from ragen_envs.tree import Tree
from rllib_ragen.credit.rewards.ask import RewardError

_BUSY = {408, 429, 500, 502, 503, 504}
"""Statuses after which the same request may succeed."""
_ATTEMPTS = 4
"""Requests of one question at most: with the pauses between them, a server's short trouble is sat out."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
"""Pause before the second attempt where the server names none, doubled from then on; and the most that it may ask."""
_MAX_BYTES = 1_000_000
"""Bytes of an answer that are read: far more than a number and a thought take."""
_SHOWN = 200
"""Characters of a server's message that are shown."""
_VARIABLE = re.compile(r"[A-Za-z_]\w*")


class ChatClient:
    """Asks. The key comes from the environment, is sent to `base_url` alone, and is in no message."""

    def __init__(self, base_url: str, key_variable: str) -> None:
        """Raises ValueError for an address or a variable's name that is none, or if httpx is not installed."""
        import_extra("httpx", "httpx", "judge", "a judge")
        address = parse.urlsplit(base_url) if isinstance(base_url, str) else None
        if address is None or address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError(f"base_url must begin with http:// or https://, got {base_url!r}")
        if address.username or address.password:
            raise ValueError("base_url must hold no user name and no password; name a variable (key_variable)")
        if not isinstance(key_variable, str) or not _VARIABLE.fullmatch(key_variable):
            raise ValueError(f"key_variable must be the name of an environment variable, got {key_variable!r}")
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._variable = key_variable
        self._verify: ssl.SSLContext | None = None

    async def reply(self, request: Tree, count: Callable[[], None], limit_s: float) -> str:
        """Returns the text of the first choice.

        Args:
            request: the body.
            count: called before each attempt; what it raises comes out here.
            limit_s: longest wait, over all attempts.

        Raises:
            RewardError: there is none; the end of a sentence.
        """
        trouble = ""
        try:
            async with asyncio.timeout(limit_s):
                for attempt in range(_ATTEMPTS):
                    count()
                    content, trouble, pause_s = await self._attempt(request, _FIRST_PAUSE_S * 2**attempt)
                    if content is not None:
                        return content
                    if pause_s is None or attempt + 1 == _ATTEMPTS:
                        break
                    await asyncio.sleep(min(pause_s, _LONGEST_PAUSE_S))
        except TimeoutError:
            before = f"; before, it {trouble}" if trouble else ""
            raise RewardError(f"got no answer within {limit_s:g} s{before}") from None
        raise RewardError(trouble)

    async def _attempt(self, request: Tree, pause_s: float) -> tuple[str | None, str, float | None]:
        """Returns (text, what went wrong, seconds until the next attempt: the server's, or `pause_s`; None: never)."""
        import httpx

        key = os.environ.get(self._variable)
        try:
            status, body, wait_s = await self._post(request, key)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            return None, f"does not answer at {self._url}: {type(error).__name__} {error}".strip(), pause_s
        if status == 200:
            return _content(body), "", None
        trouble = f"answered {status} {_shown(body, key)}".strip()
        if status in (401, 403) and not key:
            trouble += f" (its key is read from {self._variable}, which is not set)"
        return None, trouble, (pause_s if wait_s is None else wait_s) if status in _BUSY else None

    async def _post(self, request: Tree, key: str | None) -> tuple[int, bytes, float | None]:
        """Returns (status, body, seconds that the server asks to wait)."""
        import httpx

        if self._verify is None:
            self._verify = ssl.create_default_context()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with (
            httpx.AsyncClient(headers=headers, timeout=None, verify=self._verify) as client,
            client.stream("POST", self._url, json=request) as response,
        ):
            body = b""
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _MAX_BYTES:
                    raise RewardError(f"answered more than {_MAX_BYTES} bytes")
            asked = response.headers.get("retry-after", "")
            return response.status_code, body, float(asked) if re.fullmatch(r"[0-9]{1,6}", asked) else None


def _shown(body: bytes, key: str | None) -> str:
    said = " ".join(body[: 10 * _SHOWN].decode("utf-8", "replace").split())
    return (said.replace(key, "…") if key else said)[:_SHOWN]


def _content(body: bytes) -> str:
    try:
        found: object = json.loads(body)["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise RewardError(f"gave an answer that is no chat completion: {type(error).__name__} {error}") from None
    if not isinstance(found, str):
        raise RewardError("gave a chat completion without text")
    return found

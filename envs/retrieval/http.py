"""A retriever behind HTTP, with the protocol of Search-R1's retrieval server."""

from __future__ import annotations

import json
from urllib import error, parse, request

from ragen_envs.retrieval.documents import Document, document_of
from ragen_envs.tree import Tree

_TIMEOUT_S = 20.0
"""Longest wait for an answer in seconds: chosen freely, far above the seconds of one search."""
_MAX_BYTES = 10_000_000
"""Most bytes of an answer that are read: chosen freely, far above passages of text and far below the memory."""


class RetrieverError(RuntimeError):
    """The server does not answer, or its answer is invalid; the message is a sentence."""


class HttpRetriever:
    """POST `{"queries": [q], "topk": n, "return_scores": false}` → `{"result": [[document, …]]}`.

    A document is `{"contents": "title\\ntext"}` or `{"title": …, "text": …}`, itself or under the key `document`.
    """

    def __init__(self, url: str, timeout_s: float = _TIMEOUT_S) -> None:
        """Raises ValueError if `url` is not an http(s) address, or its server does not answer a first query."""
        if parse.urlsplit(url).scheme not in ("http", "https") or not parse.urlsplit(url).netloc:
            raise ValueError(f"the retriever's address must begin with http:// or https://, got {url!r}")
        self._url = url
        self._timeout_s = timeout_s
        try:
            self.search("test", 1)
        except RetrieverError as failed:
            raise ValueError(str(failed)) from None

    def search(self, query: str, count: int) -> list[Document]:
        """Returns at most `count` documents of the server. Raises RetrieverError."""
        body = json.dumps({"queries": [query], "topk": count, "return_scores": False}).encode()
        asked = request.Request(self._url, body, {"Content-Type": "application/json"}, method="POST")
        try:
            with request.urlopen(asked, timeout=self._timeout_s) as answer:
                text = answer.read(_MAX_BYTES)
        except (OSError, error.URLError) as failed:
            reason = getattr(failed, "reason", None) or failed
            raise RetrieverError(f"the retriever {self._url} does not answer: {reason}") from None
        try:
            return [_document(found) for found in json.loads(text)["result"][0][:count]]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as failed:
            said = f"{type(failed).__name__} {failed}"
            raise RetrieverError(f"the retriever {self._url} answers with no documents: {said}") from None


def _document(found: Tree) -> Document:
    return document_of(found.get("document", found))

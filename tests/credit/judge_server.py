"""A server on loopback that answers as a judge's may when things go wrong; and vLLM's own, for when they do not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib import error, request

from tests.patience import PATIENCE_S, wait_until

Said = tuple[int, bytes, Mapping[str, str]]
"""Status, body, headers."""


def completion(text: Any) -> bytes:
    """What a server says whose model says `text`."""
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


@dataclass
class Stub:
    """What was asked of the server, in order."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    """Ends the requests that `None` keeps waiting."""


@contextmanager
def stub_server(answer: Callable[[int, dict[str, Any]], Said | None]) -> Iterator[Stub]:
    """Answers the k-th request (from 0) as `answer(k, body)` says; None: not before the end."""
    stub, lock = Stub(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = len(stub.asked)
                stub.asked.append(body)
                stub.keys.append(self.headers.get("Authorization"))
            said = answer(number, body)
            if said is None:
                stub.released.wait(PATIENCE_S)
                return
            status, content, headers = said
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_port}/v1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield stub
    finally:
        stub.released.set()
        server.shutdown()
        server.server_close()


@contextmanager
def vllm_server(folder: Path, log: Path) -> Iterator[str]:
    """vLLM's OpenAI server on the model in `folder` → its base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["--model", str(folder), "--served-model-name", "judge", "--host", "127.0.0.1", "--port", str(port)]
    words += ["--dtype", "float32", "--max-model-len", "1024", "--max-num-seqs", "8", "--block-size", "32"]
    words += ["--kv-cache-memory-bytes", str(64 * 2**20), "--enforce-eager", "--no-enable-chunked-prefill"]
    environment = {
        **os.environ,
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "TORCHDYNAMO_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    with log.open("w", encoding="utf-8") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *words],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    def answers() -> bool:
        assert server.poll() is None, log.read_text(encoding="utf-8")[-3000:]
        try:
            with request.urlopen(url, timeout=5):
                return True
        except (OSError, error.URLError):
            return False

    wait_until(answers, f"{url} answers")

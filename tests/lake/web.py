"""Web servers of this process, which answer as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Quiet", "serving"]


class Quiet(BaseHTTPRequestHandler):
    """Logs nothing."""

    def say(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Answer a request; that to a HEAD has no body."""
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | dict(headers)).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[str]:
    """Serve in a thread until the end of the block; gives the address."""
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""Ctrl-C ends a command that waits for a server in many threads."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cli_runner import PROGRAM

pytest.importorskip("obstore")

KEY = "<Contents><Key>t/{}.puffin</Key><LastModified>2015-10-21T07:28:00.000Z</LastModified><Size>9</Size></Contents>"
LIST = f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(map(KEY.format, range(50)))}</ListBucketResult>"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("mode", ["stalls", "throttles"])
def test_ctrl_c(mode: str) -> None:
    asked = threading.Event()
    ended = threading.Event()

    class Answer(BaseHTTPRequestHandler):
        def answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.answer(404)

        def do_GET(self) -> None:
            if "list-type" in self.path:
                self.answer(200, LIST.encode())
                return
            asked.set()
            if mode == "stalls":
                ended.wait()
            else:
                self.answer(503)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    given = {"endpoint": f"http://127.0.0.1:{server.server_port}", "allow_http": "true", "max_retries": "20"}
    given |= {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
    options = [part for pair in given.items() for part in ("--storage-option", "=".join(pair))]
    # A background job may ignore it.
    program = [PROGRAM[0], "-c", f"import signal; signal.signal(2, signal.default_int_handler); {PROGRAM[2]}"]
    process = subprocess.Popen([*program, "verify", "s3://lake/t", *options], stderr=subprocess.PIPE)
    try:
        assert asked.wait()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    finally:
        process.kill()
        process.communicate()
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join()

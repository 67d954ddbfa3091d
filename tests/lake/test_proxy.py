"""The proxy and the servers themselves: what counts and breaks requests has to be right first."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from interop.driver import need
from lake import servers
from lake.proxy import Exchange, Fault, Proxy, Traffic


class Handler(BaseHTTPRequestHandler):
    """Answers with what it was asked; ``/chunked`` and ``/closed`` in the other two ways to end a body."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = f"{self.command} {self.path} {self.headers['Host']} ".encode() + self.rfile.read(size)
        self.send_response(200)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        elif self.path == "/closed":
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        self.answer()

    def do_HEAD(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.answer()

    def log_message(self, *args: object) -> None:
        """Print nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@pytest.fixture
def target() -> Iterator[str]:
    with _Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def proxy(target: str) -> Iterator[Proxy]:
    with Proxy(target) as found:
        yield found


class Client:
    """One connection to the proxy."""

    def __init__(self, proxy: Proxy) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=600)

    def ask(self, method: str, path: str, **request: Any) -> tuple[int, bytes]:
        try:
            self._connection.request(method, path, **request)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Client]:
    found = Client(proxy)
    yield found
    found.close()


def test_requests_are_passed_on_as_they_are_and_logged(proxy: Proxy, client: Client) -> None:
    host = urlsplit(proxy.url).netloc
    for path in ("/a%20b?x=1&y", "/chunked", "/closed"):
        for _ in range(2):
            assert client.ask("GET", path) == (200, f"GET {path} {host} ".encode())
    assert client.ask("HEAD", "/h") == (200, b"")
    assert client.ask("PUT", "/p", body=b"123") == (200, f"PUT /p {host} ".encode() + b"123")
    assert client.ask("GET", "/r", headers={"Range": "bytes=0-9"})[0] == 200
    seen = proxy.traffic()
    assert [(one.method, one.path, one.query) for one in seen][:2] == [("GET", "/a%20b", "x=1&y")] * 2
    assert seen.kinds == {"GET": 7, "HEAD": 1, "PUT": 1}
    last = seen.exchanges[-1]
    assert (last.range, last.received, last.sent) == ("bytes=0-9", 0, len(f"GET /r {host} "))
    assert seen.exchanges[-2].received == 3
    assert [one[1] for one in seen.repeated] == ["/a%20b", "/chunked", "/closed"]
    assert seen.most_at_once == 1
    proxy.clear()
    assert not len(proxy.traffic())


def test_delays_of_concurrent_requests_overlap(proxy: Proxy) -> None:
    proxy.delay(0.2)
    gate = threading.Barrier(8)

    def run() -> None:
        own = Client(proxy)
        gate.wait()
        own.ask("GET", "/x")
        own.close()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = proxy.traffic()
    assert (len(seen), seen.most_at_once) == (8, 8)
    assert all(one.end - one.start >= 0.2 for one in seen)
    assert 0.2 <= seen.busy <= seen.seconds < 1.2


def test_each_fault(proxy: Proxy, client: Client) -> None:
    proxy.fail(
        Fault("error", path="/e", skip=1, status=403, code="AccessDenied", message="No."),
        Fault("reset", path="/reset"),
        Fault("lost", path="/lost"),
        Fault("truncate", path="/t"),
        Fault("garbage", path="/g", times=None),
    )
    assert [client.ask("GET", "/e")[0] for _ in range(3)] == [200, 403, 200]
    assert [client.ask("GET", "/g")[1][:5] for _ in range(2)] == [b"\0 thi"] * 2
    for path in ("/reset", "/lost"):
        with pytest.raises(ConnectionResetError):
            client.ask("GET", path)
        assert client.ask("GET", path)[0] == 200
    with pytest.raises(http.client.IncompleteRead) as cut:
        client.ask("GET", "/t")
    assert abs(len(cut.value.partial) - (cut.value.expected or 0)) <= 1
    assert [one.fault for one in proxy.traffic() if one.fault] == [
        "error",
        "garbage",
        "garbage",
        "reset",
        "lost",
        "truncate",
    ]


def test_figures_of_traffic() -> None:
    def one(start: float, end: float, path: str = "/b/k", query: str = "", wanted: str | None = None) -> Exchange:
        return Exchange("GET", path, query, wanted, 200, 0, 10, start, end, None)

    seen = Traffic(
        (one(0, 1), one(0.5, 2), one(3, 4), one(4, 5, "/b", "list-type=2&prefix=x"), one(6, 7, wanted="bytes=0-1"))
    )
    assert seen.kinds == {"GET": 4, "LIST": 1}
    assert len(seen.repeated) == 2
    assert (seen.most_at_once, seen.seconds, seen.busy, seen.sent) == (2, 7, 5, 50)
    assert Traffic().seconds == Traffic().busy == Traffic().most_at_once == 0


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[1])
from lake import servers
from lake.proxy import Proxy
with servers.versitygw() as server, Proxy(server.url) as proxy:
    print(server.url, proxy.url, flush=True)
    sys.stdin.read()
"""


@pytest.mark.lake
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends the children of a killed process on Linux only")
def test_nothing_outlives_a_killed_run() -> None:
    need(servers.VERSITYGW.is_file(), "versitygw (make interop-servers)")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(Path(__file__).parents[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        addresses = [urlsplit(url).netloc for url in run.stdout.readline().split()]
        assert len(addresses) == 2
        os.kill(run.pid, signal.SIGKILL)
    until = time.monotonic() + 600
    while still := [address for address in addresses if is_open(address)]:
        assert time.monotonic() < until, f"still there: {still}"
        time.sleep(0.05)


def is_open(address: str) -> bool:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.connect()
    except OSError:
        return False
    connection.close()
    return True

"""A forwarding HTTP/1.1 proxy that counts, delays and breaks requests.

A client is given the proxy's address as its endpoint. The `Host` header is passed on as it came, so that signatures
over it stay valid. The proxy is a child process of its own: it measures the client without sharing its interpreter, and
ends when its standard input does, however the parent ended. The parent talks to it in JSON lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from typing_extensions import Self

CHUNK = 1 << 18
LONGEST_HEAD = 1 << 16


@dataclass(frozen=True, slots=True)
class Fault:
    """What to do to some requests instead of answering them.

    `error` answers with `status` and a body of S3's kind (or `body`). `late` does so after the server has done what was
    asked. `reset` aborts the connection before the server is asked. `lost` asks the server, and resets without an
    answer. `truncate` promises the whole body, sends half of it and closes. `garbage` answers 200 with `body` in place
    of what the server says. `stall` never answers. `unconditional` takes ``If-None-Match`` off the request, as older
    servers do; it is for servers that check no signature.
    """

    kind: Literal["error", "late", "reset", "lost", "truncate", "garbage", "stall", "unconditional"]
    method: str | None = None
    path: str = ""
    """Part of the path and query of the requests that are meant, as they are on the wire."""
    skip: int = 0
    """How many matching requests pass before the first that is broken."""
    times: int | None = 1
    """How many requests are broken; None: all."""
    status: int = 503
    code: str = "SlowDown"
    message: str = "Please reduce your request rate."
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and what became of it. Times are seconds of one monotonic clock; `sent` counts bytes of the body."""

    method: str
    path: str
    query: str
    range: str | None
    status: int
    received: int
    sent: int
    start: float
    end: float
    fault: str | None

    @property
    def kind(self) -> str:
        """The method, or ``LIST`` where the request lists objects (in S3's, Azure's and Google's spelling)."""
        names = {pair.partition("=")[0] for pair in self.query.split("&")}
        listing = "list-type" in names or "comp=list" in self.query or (self.path.endswith("/o") and "prefix" in names)
        return "LIST" if self.method == "GET" and listing else self.method


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests in the order in which they began."""

    exchanges: tuple[Exchange, ...] = ()

    def __len__(self) -> int:
        return len(self.exchanges)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self.exchanges)

    @property
    def kinds(self) -> dict[str, int]:
        """How many requests of each kind there were."""
        return dict(sorted(Counter(one.kind for one in self.exchanges).items()))

    def count(self, kind: str) -> int:
        return sum(one.kind == kind for one in self.exchanges)

    @property
    def repeated(self) -> list[tuple[str, str, str, str | None]]:
        """Requests that had been answered before: same method, object, query and range. One entry for each extra."""
        keys = [(one.method, one.path, one.query, one.range) for one in self.exchanges if one.fault is None]
        return sorted((Counter(keys) - Counter(set(keys))).elements(), key=str)

    @property
    def objects(self) -> dict[str, int]:
        """How many GET and HEAD requests each object had."""
        return dict(Counter(one.path for one in self.exchanges if one.kind in {"GET", "HEAD"}))

    @property
    def most_at_once(self) -> int:
        steps = sorted([(one.end, -1) for one in self.exchanges] + [(one.start, 1) for one in self.exchanges])
        now = most = 0
        for _, step in steps:
            now += step
            most = max(most, now)
        return most

    @property
    def seconds(self) -> float:
        """From the beginning of the first request to the end of the last."""
        return max(one.end for one in self.exchanges) - self.exchanges[0].start if self.exchanges else 0.0

    @property
    def sent(self) -> int:
        return sum(one.sent for one in self.exchanges)


class Proxy:
    """A proxy before `target` (``http://host:port``) in a process of its own; a context manager.

    Args:
        target: the real server.
        delay: seconds that every request waits before it is passed on; concurrent requests wait at the same time.
    """

    def __init__(self, target: str, *, delay: float = 0.0) -> None:
        self._child = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()
        assert self._child.stdout is not None
        self.url: str = "http://127.0.0.1:" + self._child.stdout.readline().strip()
        if delay:
            self.delay(delay)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.communicate()

    def delay(self, seconds: float) -> None:
        self._ask("delay", seconds=seconds)

    def fail(self, *faults: Fault) -> None:
        """Break requests from now on; for each request, the first fault that fits."""
        self._ask("fail", faults=[asdict(one) for one in faults])

    def clear(self) -> None:
        """Forget the log and the faults."""
        self._ask("clear")

    def traffic(self) -> Traffic:
        """What was asked since the last `clear`. Waits for requests under way, but for stalled ones."""
        rows: list[dict[str, Any]] = self._ask("traffic")
        return Traffic(tuple(sorted((Exchange(**row) for row in rows), key=lambda one: one.start)))

    @contextlib.contextmanager
    def watch(self) -> Iterator[list[Traffic]]:
        """Clear, run the block, and append what it asked for to the list that the block is given."""
        self.clear()
        found: list[Traffic] = []
        yield found
        found.append(self.traffic())

    def _ask(self, op: str, **arguments: object) -> Any:
        with self._lock:
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            self._child.stdin.write(json.dumps({"op": op} | arguments) + "\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        if not line:
            raise RuntimeError("the proxy has ended")
        return json.loads(line)


# What follows runs in the child.

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Gone(Exception):
    """The connection to the client is of no more use."""


@dataclass
class _Head:
    start: bytes
    lines: list[bytes]
    fields: dict[bytes, bytes]

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> _Head:
        start, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
        pairs = (line.split(b":", 1) for line in lines)
        return cls(start, lines, {name.lower(): value.strip() for name, value in pairs})

    def without(self, names: Iterable[bytes]) -> list[bytes]:
        gone = tuple(name + b":" for name in names)
        return [line for line in self.lines if not line.lower().startswith(gone)]

    async def body(self, reader: asyncio.StreamReader, *, to_end: bool) -> bytes:
        """Read a body whole; `to_end`: without a length, it lasts until the connection closes."""
        if b"content-length" in self.fields:
            return await reader.readexactly(int(self.fields[b"content-length"]))
        if self.fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            parts = []
            while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
                parts.append(await reader.readexactly(size))
                await reader.readexactly(2)
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass
            return b"".join(parts)
        return await reader.read() if to_end else b""


@dataclass
class _Rule:
    fault: Fault
    seen: int = 0

    def hits(self, method: str, target: str) -> bool:
        if self.fault.method not in {None, method} or self.fault.path not in target:
            return False
        self.seen += 1
        last = self.fault.times is None or self.seen <= self.fault.skip + self.fault.times
        return self.seen > self.fault.skip and last


@dataclass
class _Forwarder:
    host: str
    port: int
    delay: float = 0.0
    rules: list[_Rule] = field(default_factory=list)
    log: list[Exchange] = field(default_factory=list)
    idle: list[Streams] = field(default_factory=list)
    under_way: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = await _Head.read(reader)
                await self._answer(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, _Gone):
            pass
        finally:
            writer.close()

    async def _answer(self, head: _Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        start = time.monotonic()
        method, target = (part.decode("latin-1") for part in head.start.split(b" ")[:2])
        if head.fields.get(b"expect", b"").lower() == b"100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.under_way += 1
        status = received = sent = 0
        # Every rule counts, not only those before the first that fits.
        fault = next((rule.fault for rule in [rule for rule in self.rules if rule.hits(method, target)]), None)
        try:
            body = await head.body(reader, to_end=False)
            received = len(body)
            if self.delay:
                await asyncio.sleep(self.delay)
            if fault is not None and fault.kind == "unconditional":
                head = _Head(head.start, head.without([b"if-none-match"]), head.fields)
            if fault is None or fault.kind == "unconditional":
                answer, content = await self._ask(method, head, body)
                status = int(answer.start.split(b" ")[1])
                sent = len(content)
                writer.write(_response(answer, content, method))
                await writer.drain()
                return
            if fault.kind == "stall":
                self.under_way -= 1
                try:
                    await reader.read()  # until the client gives up
                finally:
                    self.under_way += 1
                raise _Gone
            if fault.kind == "late":
                await self._ask(method, head, body)
            if fault.kind in {"error", "late", "garbage"}:
                status = 200 if fault.kind == "garbage" else fault.status
                content = _made_up(fault, target)
                sent = 0 if method == "HEAD" else len(content)
                writer.write(_own_response(status, content, method))
                await writer.drain()
                return
            status, sent = await self._break_off(fault, method, head, body, writer)
            raise _Gone
        finally:
            self.under_way -= 1
            path, _, query = target.partition("?")
            wanted = head.fields.get(b"range", head.fields.get(b"x-ms-range"))
            self.log.append(
                Exchange(
                    *(method, path, query, wanted.decode("latin-1") if wanted else None, status, received, sent),
                    *(start, time.monotonic(), fault.kind if fault else None),
                )
            )

    async def _break_off(
        self, fault: Fault, method: str, head: _Head, body: bytes, writer: asyncio.StreamWriter
    ) -> tuple[int, int]:
        """Reset or close within an answer; returns the status that was sent and the bytes of its body."""
        status = sent = 0
        if fault.kind == "truncate":
            answer, content = await self._ask(method, head, body)
            status = int(answer.start.split(b" ")[1])
            sent = len(content) // 2
            writer.write(_response(answer, content, method)[: -len(content) + sent or None])
            await writer.drain()
            await asyncio.sleep(0.02)  # a reset may overtake what was sent
            return status, sent
        if fault.kind == "lost":
            await self._ask(method, head, body)
        # Closed without lingering, a connection is reset.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return status, sent

    async def _ask(self, method: str, head: _Head, body: bytes) -> tuple[_Head, bytes]:
        """Ask the server, over a connection that is kept where it allows that."""
        lines = head.without([b"connection", b"expect", b"transfer-encoding", b"content-length"])
        if body or method in {"PUT", "POST"}:
            lines.append(b"content-length: %d" % len(body))
        request = b"\r\n".join([head.start, *lines, b"", body])
        while True:
            kept = bool(self.idle)
            streams = (
                self.idle.pop() if kept else await asyncio.open_connection(self.host, self.port, limit=LONGEST_HEAD)
            )
            reader, writer = streams
            try:
                writer.write(request)
                answer = await _Head.read(reader)
                while answer.start.split(b" ")[1] == b"100":
                    answer = await _Head.read(reader)
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                writer.close()
                if kept and not getattr(error, "partial", b""):
                    continue  # the server had closed it meanwhile
                raise _Gone from error
            empty = method == "HEAD" or answer.start.split(b" ")[1] in {b"204", b"304"}
            content = b"" if empty else await answer.body(reader, to_end=True)
            closes = answer.fields.get(b"connection", b"").lower() == b"close" or answer.start.startswith(b"HTTP/1.0")
            if closes and answer.fields.get(b"connection", b"").lower() != b"keep-alive":
                writer.close()
            else:
                self.idle.append(streams)
            return answer, content

    async def command(self, given: dict[str, Any]) -> object:
        """What the parent asks for."""
        if given["op"] == "delay":
            self.delay = given["seconds"]
        elif given["op"] == "fail":
            self.rules += [_Rule(Fault(**one)) for one in given["faults"]]
        elif given["op"] == "clear":
            self.log, self.rules = [], []
        else:
            while self.under_way:
                await asyncio.sleep(0.001)
            return [asdict(one) for one in self.log]
        return None


def _response(head: _Head, content: bytes, method: str) -> bytes:
    """An answer as it goes to the client: with a length, over a connection that stays."""
    lines = head.without([b"connection", b"keep-alive", b"transfer-encoding"])
    if b"content-length" not in head.fields and method != "HEAD":
        lines.append(b"Content-Length: %d" % len(content))
    return b"\r\n".join([b"HTTP/1.1" + head.start[8:], *lines, b"", content])


def _own_response(status: int, content: bytes, method: str) -> bytes:
    lines = [f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}", "Content-Type: application/xml"]
    lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else content)


def _made_up(fault: Fault, target: str) -> bytes:
    if fault.body is not None:
        return fault.body.encode()
    if fault.kind == "garbage":
        return b"\x00 this is not what was asked for"
    resource = target.partition("?")[0].replace("&", "&amp;").replace("<", "&lt;")
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{fault.code}</Code><Message>{fault.message}</Message>'
        f"<Resource>{resource}</Resource><RequestId>4442587FB7D0A2F9</RequestId></Error>"
    ).encode()


async def _main(target: str) -> None:
    parts = urlsplit(target)
    forwarder = _Forwarder(parts.hostname or "127.0.0.1", parts.port or 80)
    listening = await asyncio.start_server(forwarder.serve, "127.0.0.1", 0, limit=LONGEST_HEAD, backlog=1024)
    print(listening.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await forwarder.command(json.loads(line))), flush=True)


def main(arguments: Sequence[str]) -> None:
    (target,) = arguments
    asyncio.run(_main(target))


if __name__ == "__main__":
    main(sys.argv[1:])

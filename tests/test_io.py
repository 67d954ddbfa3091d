"""Where bytes come from and where they go."""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec
import numpy as np
import pytest
from fsspec import AbstractFileSystem

from cases import each
from dvcodec import Truncated, UsageError
from dvcodec.io import (
    RandomAccess,
    SinkFile,
    Source,
    Storage,
    is_url,
    open_sink,
    open_source,
    read_window,
    remove,
)
from dvcodec.io.opening import open_mapped
from dvcodec.io.source import ReadAhead, _RangeSource, read_within

DATA = bytes(range(256)) * 4
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions, links and devices")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    return path


# ---------------------------------------------------------------------------------------------------- URLs


@each(
    ("target", "url"),
    [
        ("s3://bucket/key", True),
        ("file:/tmp/x", True),
        ("zip://inner::s3://bucket/outer.zip", True),
        ("part:0.bin", False),
        ("c://dv.bin", False),
        ("/tmp/s3://x", False),
        (Path("s3://bucket/key"), False),
    ],
)
def test_is_url(target: object, url: bool) -> None:
    assert is_url(target) == url


# ---------------------------------------------------------------------------------------------------- sources


class Stream(io.RawIOBase):
    """A stream that cannot seek and gives a few bytes at a time, as sockets and pipes do."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part, self.data = self.data[:7], self.data[7:]
        buffer[: len(part)] = part
        return len(part)


def mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as opened:
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


def remote_file(path: Path) -> str:
    url = "memory://dvcodec-io-source/data.bin"
    fsspec.filesystem("memory").pipe_file("/dvcodec-io-source/data.bin", path.read_bytes())
    return url


class PathLike:
    """A path-like object that is not a Path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "bytes": Path.read_bytes,
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview of words": lambda path: memoryview(path.read_bytes()).cast("I"),
    "mmap": mapped,
    "numpy of words": lambda path: np.fromfile(path, np.int64).reshape(-1, 2),
    "str": str,
    "Path": Path,
    "path-like": PathLike,
    "open file": lambda path: path.open("rb"),
    "stream": lambda path: Stream(path.read_bytes()),
    "file URL": Path.as_uri,
    "memory URL": remote_file,
    "fsspec memory file": lambda path: fsspec.open(remote_file(path)).open(),
}


@needs_posix
def test_only_regular_files_are_opened(tmp_path: Path, file: Path) -> None:
    """A pipe that no one writes to would wait for ever, a device may never end; who has opened one may hand it over."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "good").symlink_to(file)
    for path in (str(tmp_path / "pipe"), tmp_path / "link", f"file:{tmp_path}/pipe", "/dev/zero"):
        with pytest.raises(OSError, match="Not a regular file") as caught, open_source(path):
            pass
        assert str(caught.value.filename) in str(path)
    with open_source(tmp_path / "good") as source:
        assert source.size == len(DATA)
    with pytest.raises(IsADirectoryError), open_source(tmp_path):
        pass
    with Path("/dev/null").open("rb") as null, open_source(null) as source:
        assert source.size == 0


def close(target: Any) -> None:
    if isinstance(target, io.IOBase) or type(target).__module__.startswith("fsspec"):
        target.close()


@pytest.mark.parametrize("kind", SOURCES)
def test_source(kind: str, file: Path) -> None:
    target = SOURCES[kind](file)
    with open_source(target, name="given") as source:
        assert isinstance(source, Source)
        assert (source.name, source.size) == ("given", len(DATA))
        for offset, size in ((0, 0), (0, 1), (0, 1024), (1023, 1), (1024, 0), (500, 100), (3, 7)):
            view = source.read(offset, size)
            assert isinstance(view, memoryview)
            assert view.readonly
            assert bytes(view) == DATA[offset : offset + size]
        for offset, size in [(0, 1025), (1024, 1), (1025, 0), (-1, 1), (5, -1), (2**70, 1), (0, 2**70)]:
            with pytest.raises(Truncated) as caught:
                source.read(offset, size)
            expected = (f"{size} bytes", f"{max(1024 - offset, 0)} left of 1024")
            expected = ("an offset of 0 or more", str(offset)) if offset < 0 else expected
            assert (str(caught.value.expected), str(caught.value.actual)) == expected
            assert (caught.value.source, caught.value.offset) == ("given", offset)
        assert (read_window(source).end, read_window(source, 1000).end, read_window(source, 1024).end) == (1024, 24, 0)
        for offset in (0, 1000, 1024):
            assert read_within(source, "max_vector_bytes", offset=offset).end == 1024 - offset
        ahead = ReadAhead(source, (10, 30))
        for offset, size in ((10, 20), (9, 5), (25, 10), (0, 5)):
            assert bytes(ahead.read(offset, size)) == DATA[offset : offset + size]
    close(target)
    target = SOURCES[kind](file)
    with open_mapped(target) as source:
        assert (source.size, bytes(source.read(500, 100))) == (len(DATA), DATA[500:600])
    close(target)


def test_a_window_that_the_file_does_not_fill_is_read_once() -> None:
    reads: list[tuple[int, int]] = []

    def fetch(offset: int, size: int) -> bytes:
        reads.append((offset, size))
        return DATA[offset : offset + size]

    ahead = ReadAhead(_RangeSource("x", len(DATA), fetch), (1000, 5000))
    for offset in (1010, 2000, 1010):
        with suppress(Truncated):
            ahead.read(offset, 10)
    assert reads == [(1000, 24)]


def test_what_is_no_target_is_named(file: Path) -> None:
    with file.open("r", encoding="latin-1") as text:
        for target, said in ((None, "None"), (5, "int"), (text, r"data\.bin is open in text mode: open it in binary")):
            for opened in (open_source, open_mapped, open_sink):
                with pytest.raises(UsageError, match=rf"\b{said}\b"), opened(cast("BinaryIO", target)):
                    pass


def test_file_that_shrinks_gives_a_short_read(file: Path) -> None:
    with open_source(file) as source:
        file.write_bytes(DATA[:100])
        with pytest.raises(Truncated, match="short read") as caught:
            source.read(50, 100)
    assert (caught.value.offset, caught.value.expected, caught.value.actual) == (50, "100 bytes", "50 bytes")


def test_range_reads_of_one_open_file_from_many_threads(file: Path) -> None:
    class Slow(io.FileIO):
        """Lets other threads in between seek and read."""

        def seek(self, offset: int, whence: int = 0) -> int:
            where = super().seek(offset, whence)
            time.sleep(0)
            return where

    data = np.random.default_rng(1).integers(0, 256, 1 << 16, np.uint8).tobytes()
    file.write_bytes(data)
    ranges = [(i * 37 % 60_000, 1 + i % 4000) for i in range(2000)]
    with Slow(file) as opened, open_source(opened) as source, ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda where: bytes(source.read(*where)), ranges))
    assert read == [data[offset : offset + size] for offset, size in ranges]


@each("name", ["a b", "a%20b", "größe", "a#b", "a?b=c", "100%", "a+b", "a@b", "a:b"])
def test_file_url_is_percent_encoded(name: str, tmp_path: Path) -> None:
    if sys.platform == "win32" and set(name) & {"?", ":"}:
        pytest.skip("not a file name on Windows")
    (tmp_path / name).write_bytes(DATA)
    with open_source((tmp_path / name).as_uri()) as source:
        assert source.name == str(tmp_path / name)
        assert source.size == len(DATA)


# ---------------------------------------------------------------------------------------------------- remote


class Store(AbstractFileSystem):  # type: ignore[misc]
    """A store that fails as real ones do, or does not know sizes."""

    protocol = "dvtest"
    cachable = False
    error: Exception | None = None
    fails: tuple[str, ...] = ()
    known_size: int | None = len(DATA)

    def info(self, path: str, **_: object) -> dict[str, Any]:
        self._maybe_fail("size")
        return {"name": path, "size": self.known_size, "type": "file"}

    def cat_file(self, _: str, start: int | None = None, end: int | None = None) -> bytes:
        self._maybe_fail("read")
        return DATA[start:end]

    def pipe_file(self, *_: object) -> None:
        self._maybe_fail("write")

    def _maybe_fail(self, what: str) -> None:
        if self.error is not None and what in self.fails:
            raise self.error


fsspec.register_implementation("dvtest", Store, clobber=True)


class NoCredentialsError(Exception):
    """As botocore has it: not an OSError."""


@each("step", ["size", "read", "write"])
@each(
    ("error", "text", "kind"),
    [
        (FileNotFoundError("b/k"), "no such object: b/k", FileNotFoundError),
        (PermissionError("Forbidden"), "denied: Forbidden", PermissionError),
        (IsADirectoryError("b"), "failed: b", OSError),
        (NoCredentialsError(), "failed: NoCredentialsError", OSError),
        (ConnectionRefusedError("by all"), "endpoint not reachable: by all", ConnectionError),
        (ValueError("no such region"), "dvtest://b/k: no such region", UsageError),
    ],
    ids=str,
)
def test_error_of_a_store_names_the_url(
    step: str, error: Exception, text: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "error", error)
    monkeypatch.setattr(Store, "fails", (step,))
    opening: Any = open_sink if step == "write" else open_source
    with pytest.raises(kind) as caught, opening("dvtest://b/k") as opened:
        opened.write(b"x") if step == "write" else opened.read(0, 1)
    assert str(caught.value).startswith("dvtest://b/k: ")
    assert str(caught.value).endswith(text)


# ---------------------------------------------------------------------------------------------------- sinks


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_sink_counts_offsets(tmp_path: Path) -> None:
    with open_sink(tmp_path / "out") as sink:
        parts: list[Any] = [b"abc", bytearray(b"de"), memoryview(b""), np.arange(3, dtype=np.uint8), b"f"]
        assert [sink.write(part) for part in parts] == [0, 3, 5, 5, 8]
        assert sink.position == 9
        assert sink.name == str(tmp_path / "out")
        assert names(tmp_path) != ["out"], "not there before it is whole"
    assert (tmp_path / "out").read_bytes() == b"abcde\x00\x01\x02f"
    assert names(tmp_path) == ["out"]


@each("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit], ids=lambda e: e.__name__)
@each("old", [None, b"old"])
def test_sink_is_whole_or_not_at_all(error: type[BaseException], old: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "out"
    if old is not None:
        path.write_bytes(old)

    def write_half() -> None:
        with open_sink(path) as sink:
            sink.write(DATA)
            raise error

    with pytest.raises(error):
        write_half()
    assert names(tmp_path) == ([] if old is None else ["out"])
    assert old is None or path.read_bytes() == old


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_sink_that_fails_at_its_end_leaves_the_old_file(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(step, fail)
    with pytest.raises(OSError, match="No space left"), open_sink(path) as sink:
        sink.write(DATA)
    assert names(tmp_path) == ["out"]
    assert path.read_bytes() == b"old"


def no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("links", [True, False])
def test_exclusive_sink_replaces_nothing(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    with open_sink(path, exclusive=True) as sink:
        sink.write(b"first")
        other = open_sink(path, exclusive=True)
        other.__enter__().write(b"second")
    with pytest.raises(FileExistsError) as caught:
        other.__exit__(None, None, None)
    assert caught.value.filename == str(path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("out", b"first")]


@needs_posix
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_new_file_has_the_permissions_of_the_umask(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        with open_sink(tmp_path / "out") as sink:
            sink.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o666 & ~umask


@needs_posix
@pytest.mark.parametrize("there", [True, False])
def test_symbolic_link_stays_one(there: bool, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    real, link = tmp_path / "far" / "real", tmp_path / "link"
    if there:
        real.write_bytes(b"old")
    link.symlink_to(Path("far") / "real")
    with open_sink(link) as sink:
        sink.write(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert names(tmp_path) == ["far", "link"]
    assert names(tmp_path / "far") == ["real"]


def test_sink_in_a_missing_folder_or_onto_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path, kind in ((tmp_path / "no" / "out", FileNotFoundError), (tmp_path / "folder", IsADirectoryError)):
        with pytest.raises(kind) as caught, open_sink(path):
            pass
        assert caught.value.filename == str(path), "the name the user gave, not a temporary one"
        assert (names(tmp_path), names(tmp_path / "folder")) == (["folder"], [])


@needs_posix
def test_named_pipe_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with open_sink(path) as sink:
            sink.write(DATA)
        assert os.read(reading, 4096) == DATA
    finally:
        os.close(reading)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


def test_sink_on_an_open_file(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as opened:
        opened.write(b"before")
        with open_sink(opened) as sink:
            sink.write(b"abc")
            sink.write(b"def")
        assert sink.name == str(tmp_path / "out")
        opened.write(b"after")
    assert (tmp_path / "out").read_bytes() == b"beforeabcdefafter"


def test_sink_on_a_raw_file_that_takes_a_part_at_a_time() -> None:
    class Raw(io.RawIOBase):
        taken = b""

        def write(self, data: Any) -> int:
            self.taken += bytes(data[:7])
            return min(len(data), 7)

    out = Raw()
    with open_sink(cast("BinaryIO", out)) as sink:
        sink.write(DATA)
    assert out.taken == DATA


# ---------------------------------------------------------------------------------------------------- removing


@pytest.mark.parametrize("kind", [str, Path, Path.as_uri, PathLike], ids=lambda kind: kind.__name__)
def test_file_is_removed(kind: Callable[[Path], Any], file: Path) -> None:
    remove(kind(file))
    assert names(file.parent) == []
    remove(kind(file))


# ---------------------------------------------------------------------- as files of other libraries


def test_a_source_as_a_file(file: Path) -> None:
    """As pyarrow and zipfile read it; closing it leaves the source open."""
    pa = pytest.importorskip("pyarrow")
    with open_source(file) as source:
        opened = RandomAccess(source)
        assert (opened.seek(10), opened.read(4), opened.tell()) == (10, DATA[10:14], 14)
        assert (opened.seek(-4, os.SEEK_CUR), opened.seek(-4, os.SEEK_END), opened.read()) == (10, 1020, DATA[-4:])
        assert opened.read(5) == b""
        assert opened.read(-1) == b""
        with pa.PythonFile(opened) as wrapped:  # the mode is what the file says of itself
            assert (wrapped.readable(), wrapped.writable(), wrapped.seekable()) == (True, False, True)
            assert wrapped.read_at(4, 100) == DATA[100:104]
        assert opened.closed
        assert bytes(source.read(0, 4)) == DATA[:4]


def test_a_sink_as_a_file(tmp_path: Path) -> None:
    """Buffered, as libraries do; closing it does not end the file."""
    with open_sink(tmp_path / "out") as sink:
        with io.BufferedWriter(SinkFile(sink)) as opened:
            assert opened.writable()
            opened.write(DATA)
            assert opened.tell() == len(DATA)
        sink.write(b"more")
    assert (tmp_path / "out").read_bytes() == DATA + b"more"


# ---------------------------------------------------------------------- one file, opened once


def test_a_held_file_is_the_one_that_is_opened(file: Path) -> None:
    with Storage().hold(str(file)) as held:
        with open_source(str(file)) as one, open_source(file) as other:
            assert one is other is held
        with open_source(file.as_uri()) as another:  # spelled otherwise
            assert another is not held
        assert bytes(held.read(0, 4)) == DATA[:4]  # who opened it did not close it
    with open_source(str(file)) as later:
        assert later is not held

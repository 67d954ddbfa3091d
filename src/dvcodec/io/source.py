"""Reading by byte ranges."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import BinaryIO, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from dvcodec.core.cursor import BytesLike, Cursor, as_view
from dvcodec.core.errors import Truncated
from dvcodec.io.target import errors_name, filesystem_of, local_path, remote_errors

__all__ = ["RandomAccess", "Source", "SourceTarget", "hold_source", "list_names", "open_source", "read_window"]


@runtime_checkable
class Source(Protocol):
    """Bytes that can be read by range. `name` stands in errors, `size` is in bytes."""

    name: str
    size: int

    def read(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes from `offset`.

        Raises:
            Truncated: the range does not lie in the source.
            OSError: it cannot be read.
        """


SourceTarget: TypeAlias = "Source | BytesLike | str | os.PathLike[str] | BinaryIO"


class _RangeSource:
    """A source over one function that reads a range."""

    def __init__(self, name: str, size: int, fetch: Callable[[int, int], BytesLike]) -> None:
        self.name = name
        self.size = size
        self._fetch = fetch

    def read(self, offset: int, size: int) -> memoryview:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise Truncated(
                "byte range",
                source=self.name,
                offset=offset,
                expected=f"{size} bytes",
                actual=f"{max(self.size - offset, 0)} left of {self.size}",
            )
        data = as_view(self._fetch(offset, size)) if size else memoryview(b"")
        if len(data) != size:
            raise Truncated(
                "short read", source=self.name, offset=offset, expected=f"{size} bytes", actual=f"{len(data)} bytes"
            )
        return data


@contextmanager
def open_source(target: SourceTarget, *, name: str | None = None) -> Iterator[Source]:
    """Open anything that has bytes.

    Args:
        target: bytes-like, path, URL (``file:`` needs nothing, others fsspec), binary file, or a `Source`. A path is
            that of a regular file, or of a link to one: a pipe or device may never end, and has to be opened first.
        name: what to call it in errors.

    Raises:
        UsageError: not a source, a ``file:`` URL that names a host, or a protocol that fsspec does not know.
        MissingExtra: a URL, and fsspec is not installed.
        OSError: it cannot be opened.
    """
    if isinstance(target, (str, os.PathLike)):
        held = _HELD.get().get(os.fspath(target))
        local = local_path(target)
        if held is not None:
            yield held
        elif local is None:
            yield _remote(str(target), name)
        else:
            # A pipe that no one writes to would wait when it is opened, so it is asked before.
            if not stat.S_ISREG(mode := local.stat().st_mode) and not stat.S_ISDIR(mode):
                raise OSError(errno.EINVAL, "Not a regular file", str(local))
            with local.open("rb") as file:
                yield _file_source(file, name or str(local))
    elif isinstance(target, (bytes, bytearray, memoryview, mmap.mmap, np.ndarray)) or not (
        isinstance(target, Source) or hasattr(target, "read")
    ):
        view = as_view(cast("BytesLike", target))
        yield _RangeSource(name or "<bytes>", len(view), lambda offset, size: view[offset : offset + size])
    elif isinstance(target, Source) and not hasattr(target, "seek"):  # fsspec's files have name and size too
        yield target
    else:
        yield _file_source(cast("BinaryIO", target), name or str(getattr(target, "name", "<file>")))


_HELD: ContextVar[Mapping[str, Source]] = ContextVar("held sources", default=MappingProxyType({}))


@contextmanager
def hold_source(target: str, ahead: tuple[int, int] | None = None) -> Iterator[Source]:
    """Open a path or URL once for all who open it within the block, in this thread: `open_source` gives them this one.

    For many ranges of one file, each read by who knows nothing of the others: a remote file is asked for its size once.

    Args:
        target: path or URL, spelled as it will be opened.
        ahead: offset and size of a range to be read at once; ranges in it are then cut out of that.

    Raises:
        Truncated: `ahead` is not in the file.
        UsageError: see `open_source`.
        OSError: it cannot be opened, or `ahead` cannot be read.
    """
    with open_source(target) as source:
        held = source if ahead is None else _read_ahead(source, *ahead)
        token = _HELD.set({**_HELD.get(), target: held})
        try:
            yield held
        finally:
            _HELD.reset(token)


def _read_ahead(source: Source, start: int, size: int) -> Source:
    data = source.read(start, size)

    def fetch(offset: int, count: int) -> memoryview:
        if start <= offset and offset + count <= start + size:
            return data[offset - start : offset - start + count]
        return source.read(offset, count)

    return _RangeSource(source.name, source.size, fetch)


def _file_source(file: BinaryIO, name: str) -> Source:
    if not file.seekable():
        data = file.read()
        return _RangeSource(name, len(data), lambda offset, size: data[offset : offset + size])
    lock = threading.Lock()

    def fetch(offset: int, size: int) -> bytes:
        with lock, errors_name(name):
            file.seek(offset)
            return file.read(size)

    with errors_name(name):
        end = file.seek(0, os.SEEK_END)
    return _RangeSource(name, end, fetch)


def _remote(url: str, name: str | None) -> Source:
    filesystem, path = filesystem_of(url)

    def fetch(offset: int, size: int) -> bytes:
        with remote_errors(url):
            return cast("bytes", filesystem.cat_file(path, offset, offset + size))

    with remote_errors(url):
        size = filesystem.size(path)
        if size is None:  # some web servers do not say
            data = filesystem.cat_file(path)
            return _RangeSource(name or url, len(data), lambda offset, count: data[offset : offset + count])
    return _RangeSource(name or url, int(size), fetch)


class RandomAccess:
    """A `Source` as the read-only file object that pyarrow wants."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0
        self.closed = False

    def read(self, size: int | None = None) -> bytes:
        """Return `size` bytes, or all that are left.

        Raises:
            Truncated: the source has become shorter.
            OSError: they cannot be read.
        """
        left = max(self._source.size - self._at, 0)
        count = left if size is None or size < 0 else min(size, left)
        data = bytes(self._source.read(self._at, count))
        self._at += count
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move; return where to."""
        self._at = offset + (0, self._at, self._source.size)[whence]
        return self._at

    def tell(self) -> int:
        """Return where it stands."""
        return self._at

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def seekable(self) -> bool:
        """Tell that it can be read in any order."""
        return True

    def writable(self) -> bool:
        """Tell that it cannot be written."""
        return False

    def flush(self) -> None:
        """Nothing to flush."""

    def close(self) -> None:
        """Nothing to close: the source is its opener's."""
        self.closed = True


def read_window(source: Source, offset: int = 0, size: int | None = None) -> Cursor:
    """Read a byte range (default: to the end) and stand a cursor on it that knows where it came from.

    Raises:
        Truncated: the range does not lie in the source.
        OSError: it cannot be read.
    """
    if size is None:
        size = max(source.size - offset, 0)
    return Cursor(source.read(offset, size), source=source.name, base=offset)


def list_names(folder: str) -> list[str]:
    """Return the bare names of what lies in a folder (path or URL), in no order.

    Raises:
        OSError: there is no such folder, or it cannot be read.
        UsageError: a ``file:`` URL that names a host, or a protocol that fsspec does not know.
        MissingExtra: a URL, and fsspec is not installed.
    """
    local = local_path(folder)
    if local is not None:
        return [entry.name for entry in os.scandir(local)]
    filesystem, path = filesystem_of(folder)
    with remote_errors(folder):
        return [str(name).rstrip("/").rpartition("/")[2] for name in filesystem.ls(path, detail=False)]

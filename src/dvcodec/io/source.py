"""Reading by byte ranges; ranges that are close together with one request of a few megabytes at most."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from io import RawIOBase, TextIOBase
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Protocol, TypeAlias, TypeGuard, cast, runtime_checkable

import numpy as np

from dvcodec.core.cursor import BytesLike, Cursor, as_view
from dvcodec.core.errors import Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.ragged import Index
from dvcodec.io.target import errors_name


@runtime_checkable
class Source(Protocol):
    """Bytes that can be read by range. `name` is shown in errors, `size` is in bytes."""

    name: str

    @property
    def size(self) -> int:
        """Bytes."""

    def read(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes from `offset`.

        Raises:
            Truncated: the range reaches beyond the end of the source.
            OSError: it cannot be read.
        """


SourceTarget: TypeAlias = "Source | BytesLike | str | os.PathLike[str] | BinaryIO"
BUFFERS = (bytes, bytearray, memoryview, mmap.mmap, np.ndarray)
"""Types that are used as bytes in memory."""


def beyond_end(source: Source, offset: int, size: int) -> Truncated:
    """Return the error for a byte range that is not within a source."""
    if offset < 0:
        expected = "an offset of 0 or more"
        return Truncated("byte range", source=source.name, offset=offset, expected=expected, actual=offset)
    left = f"{max(source.size - offset, 0)} left of {source.size}"
    return Truncated("byte range", source=source.name, offset=offset, expected=f"{size} bytes", actual=left)


class _RangeSource:
    """A source that reads ranges by a function."""

    def __init__(self, name: str, size: int, fetch: Callable[[int, int], BytesLike]) -> None:
        self.name = name
        self.size = size
        self._fetch = fetch

    def read(self, offset: int, size: int) -> memoryview:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise beyond_end(self, offset, size)
        data = as_view(self._fetch(offset, size)) if size else memoryview(b"")
        if len(data) != size:
            raise Truncated(
                "short read", source=self.name, offset=offset, expected=f"{size} bytes", actual=f"{len(data)} bytes"
            )
        return data


def object_source(target: object, name: str | None = None) -> Source:
    """Return a buffer, a binary file or a `Source` as a source.

    Raises:
        UsageError: another type.
    """
    if isinstance(target, BUFFERS) or not hasattr(target, "read"):
        view = _as_bytes(target)
        return _RangeSource(name or "<bytes>", len(view), lambda offset, size: view[offset : offset + size])
    if _is_source(target):
        return target
    if isinstance(target, TextIOBase):
        raise UsageError(f"{getattr(target, 'name', 'the file')} is open in text mode: open it in binary mode")
    return _file_source(cast("BinaryIO", target), name or str(getattr(target, "name", "<file>")))


def _as_bytes(target: object) -> memoryview:
    try:
        memoryview(target)  # type: ignore[arg-type]  # what has no buffer is refused
    except TypeError:
        wanted = "a bytes-like object, a path, a URL or an open binary file"
        kind = "None" if target is None else type(target).__name__
        raise UsageError(f"what is read must be {wanted}, not {kind}") from None
    except ValueError:  # a closed map
        pass
    return as_view(cast("BytesLike", target))


_HELD: ContextVar[Mapping[str, Source]] = ContextVar("held sources", default=MappingProxyType({}))


def held_source(location: str) -> Source | None:
    """Return the source that `hold_source` set for this path or URL in this thread, if any."""
    return _HELD.get().get(location)


@contextmanager
def hold_source(location: str, source: Source) -> Iterator[None]:
    """Reuse a source whenever this path or URL is opened within the block, in this thread; see `Storage.hold`."""
    token = _HELD.set({**_HELD.get(), location: source})
    try:
        yield
    finally:
        _HELD.reset(token)


def _is_source(target: object) -> TypeGuard[Source]:
    """Whether an object is a `Source`, without reading `size`, which costs a request for remote sources.

    fsspec's files have `name` and `size` too, but also `seek`.
    """
    own = getattr(target, "__dict__", {})
    return not hasattr(target, "seek") and all(hasattr(type(target), part) or part in own for part in ("name", "size"))


def check_regular(path: Path) -> None:
    """Refuse pipes and devices: opening a pipe without a writer would block.

    Raises:
        OSError: not a regular file (opening a folder names its own error), or it does not exist.
    """
    if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))


@contextmanager
def open_local(path: Path, *, name: str | None = None) -> Iterator[Source]:
    """Open a regular file.

    Raises:
        OSError: not a regular file, or it cannot be opened.
    """
    check_regular(path)
    with path.open("rb") as file:
        yield _file_source(file, name or str(path))


def read_small(path: str, most: int) -> bytes | None:
    """Read a regular local file at once, in a third of the time of `open_local`; None if it is larger, or another kind.

    Args:
        path: of the file.
        most: bytes.

    Raises:
        OSError: it cannot be read.
    """
    found = os.stat(path)  # noqa: PTH116  (no `Path` for each of 100,000)
    if not stat.S_ISREG(found.st_mode) or found.st_size > most:
        return None
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return file.read(most)


def _file_source(file: BinaryIO, name: str) -> Source:
    if not file.seekable():
        return object_source(file.read(), name)
    lock = threading.Lock()

    def fetch(offset: int, size: int) -> bytes:
        with lock, errors_name(name):
            file.seek(offset)
            return file.read(size)

    with errors_name(name):
        end = file.seek(0, os.SEEK_END)
    return _RangeSource(name, end, fetch)


class RandomAccess(RawIOBase):
    """A `Source` as a read-only file object for pyarrow; closing it leaves the source open.

    Attributes:
        limit: one of `limits` that bounds each read, while it is set.
        limits: bounds on what the bytes may claim.
    """

    def __init__(self, source: Source, limit: str | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limit = limit
        self.limits = limits
        self._source = source
        self._at = 0

    def read(self, size: int | None = None) -> bytes:
        """Return `size` bytes, or all remaining ones.

        Raises:
            LimitExceeded: more bytes than `limit`.
            Truncated: the source was shortened.
            OSError: they cannot be read.
        """
        left = max(self._source.size - self._at, 0)
        count = left if size is None or size < 0 else min(size, left)
        if self.limit is not None:
            self.limits.check(self.limit, count, Cursor(b"", source=self._source.name, base=self._at), 0)
        data = bytes(self._source.read(self._at, count))
        self._at += count
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move; return the new position."""
        self._at = offset + (0, self._at, self._source.size)[whence]
        return self._at

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True: reads may come in any order."""
        return True


def read_window(source: Source, offset: int = 0, size: int | None = None) -> Cursor:
    """Read a byte range (default: to the end) and return a cursor whose errors carry file offsets.

    Raises:
        Truncated: the range reaches beyond the end of the source.
        OSError: it cannot be read.
    """
    if size is None:
        size = max(source.size - offset, 0)
    return Cursor(source.read(offset, size), source=source.name, base=offset)


def read_within(
    source: Source, limit: str, limits: Limits = DEFAULT_LIMITS, *, offset: int = 0, size: int | None = None
) -> Cursor:
    """Read a byte range (default: to the end) that one of `Limits` bounds, which is checked before bytes are requested.

    Raises:
        LimitExceeded: the range is larger than the limit.
        Truncated: the range reaches beyond the end of the source.
        OSError: it cannot be read.
    """
    check_limits(limits)
    if size is None:
        size = max(source.size - offset, 0)
    limits.check(limit, size, Cursor(b"", source=source.name, base=offset), 0)
    return read_window(source, offset, size)


def read_up_to(source: Source, offset: int, size: int) -> Cursor:
    """Read a byte range, clipped to the end of the source. The size of a remote file is not requested first.

    Raises:
        OSError: it cannot be read.
    """
    clipped: Callable[[int, int], memoryview] | None = getattr(source, "read_up_to", None)
    if clipped is None:
        data = source.read(offset, min(size, source.size - offset)) if offset < source.size else b""
        return Cursor(data, source=source.name, base=offset)
    return Cursor(clipped(offset, size), source=source.name, base=offset)


WINDOW_BYTES = 1 << 24
WINDOW_VECTORS = 1 << 15
REMOTE_WINDOW_BYTES = 1 << 25
_GAP = 1 << 17
"""Largest gap between two vectors that one window spans."""


def coalesce(offsets: Index, lengths: Index, window: int | None = None) -> Iterator[tuple[int, int, int, int]]:
    """Group vectors in file order into windows, each read at once.

    Args:
        offsets: int64[n], first byte of each vector, ascending (not checked).
        lengths: int64[n], bytes of each.
        window: maximum bytes of a window, unless a single vector is larger; None = `WINDOW_BYTES`.

    Yields:
        For each window: its first vector, the one after its last, its first byte, and its end.
    """
    ends = np.maximum.accumulate(offsets + lengths) if len(offsets) else offsets
    breaks = np.flatnonzero(offsets[1:] > ends[:-1] + _GAP) + 1
    first = 0
    while first < len(offsets):
        start = int(offsets[first])
        last = max(
            int(np.searchsorted(ends, start + (WINDOW_BYTES if window is None else window), side="right")), first + 1
        )
        gap = int(np.searchsorted(breaks, first, side="right"))
        last = min(last, first + WINDOW_VECTORS, int(breaks[gap]) if gap < len(breaks) else len(offsets))
        yield first, last, start, int((offsets + lengths)[first:last].max())
        first = last


def by_windows(source: Source, offsets: Sequence[int], sizes: Sequence[int]) -> Source:
    """Return a source that reads these byte ranges of a remote file in windows.

    This saves requests where many small ranges are read one after another. Other ranges are read directly; a local
    file is returned unchanged.

    Args:
        source: the file.
        offsets: first byte of each range, in any order; ranges outside the file are ignored.
        sizes: bytes of each.
    """
    if len(offsets) < 2 or not getattr(source, "remote", False):
        return source
    starts, lengths = np.array(offsets, np.int64), np.array(sizes, np.int64)
    there = (starts >= 0) & (lengths > 0) & (lengths <= source.size - starts)
    order = np.argsort(starts[there], kind="stable")
    windows = coalesce(starts[there][order], lengths[there][order], REMOTE_WINDOW_BYTES)
    return ReadAhead(source, *((start, stop) for _, _, start, stop in windows))


class ReadAhead:
    """A source that reads ranges of another whole, when the first of their bytes are asked for, and keeps the last one.

    Args:
        source: the underlying source.
        windows: first byte and end of each range, ascending; clipped to the end of the source.
    """

    def __init__(self, source: Source, *windows: tuple[int, int]) -> None:
        self.name = source.name
        self.remote = getattr(source, "remote", False)
        self._source, self._windows = source, windows
        self._starts = [start for start, _ in windows]
        self._start, self._data = -1, memoryview(b"")

    @property
    def size(self) -> int:
        """Bytes of the source."""
        return self._source.size

    def read(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes from `offset`; see `Source.read`."""
        if not self._start <= offset <= offset + size <= self._start + len(self._data):
            found = bisect_right(self._starts, offset) - 1
            if found < 0 or size < 0 or offset + size > self._windows[found][1]:
                return self._source.read(offset, size)
            start, stop = self._windows[found]
            if start != self._start:
                self._start, self._data = start, read_up_to(self._source, start, stop - start).view
            if offset + size > start + len(self._data):
                return self._source.read(offset, size)  # beyond the end, which it says
        return self._data[offset - self._start :][:size]


BLOCK_BYTES = 1 << 16
MAX_BLOCKS = 256
"""Maximum number of cached blocks (16 MiB); the least recently used are evicted."""


class BlockSource:
    """A source that reads another in cached blocks; large reads bypass the cache.

    It saves requests where many small structures point at each other (fields, dictionaries, lists).
    """

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self.size = source.size
        self._source = source
        self._blocks: OrderedDict[int, memoryview] = OrderedDict()

    def read(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes from `offset`.

        Raises:
            Truncated: the range reaches beyond the end of the source.
            OSError: it cannot be read.
        """
        first, last = offset // BLOCK_BYTES, (offset + size - 1) // BLOCK_BYTES
        if offset < 0 or size <= 0 or offset + size > self.size or last > first + 1:
            return self._source.read(offset, size)
        start = first * BLOCK_BYTES
        if first == last:
            return self._block(first)[offset - start : offset - start + size]
        return memoryview((bytes(self._block(first)) + bytes(self._block(last)))[offset - start :][:size])

    def _block(self, number: int) -> memoryview:
        if number in self._blocks:
            self._blocks.move_to_end(number)
        else:
            start = number * BLOCK_BYTES
            self._blocks[number] = self._source.read(start, min(BLOCK_BYTES, self.size - start))
            if len(self._blocks) > MAX_BLOCKS:
                self._blocks.popitem(last=False)
        return self._blocks[number]

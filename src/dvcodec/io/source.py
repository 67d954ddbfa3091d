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
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias, TypeGuard, cast, runtime_checkable

import numpy as np

from dvcodec.core.cursor import BytesLike, Cursor, as_view
from dvcodec.core.errors import Truncated, UsageError
from dvcodec.io.target import errors_name, local_path

if TYPE_CHECKING:
    from dvcodec.io.storage import Storage
    from dvcodec.io.store import StoreOptions

__all__ = [
    "RandomAccess",
    "ReadAhead",
    "Source",
    "SourceTarget",
    "StorageOptions",
    "held_source",
    "hold_source",
    "list_names",
    "open_local",
    "open_source",
    "options_of",
    "read_up_to",
    "read_window",
]


def options_of(storage_options: StorageOptions) -> Mapping[str, object] | StoreOptions | None:
    """Return the options themselves."""
    if storage_options is None or isinstance(storage_options, Mapping):
        return storage_options
    found: StoreOptions | None = getattr(storage_options, "options", None)
    if found is None:
        raise UsageError(f"storage_options must be a mapping of options or a Storage, not {storage_options!r:.40}")
    return found


@runtime_checkable
class Source(Protocol):
    """Bytes that can be read by range. `name` stands in errors, `size` is in bytes."""

    name: str

    @property
    def size(self) -> int:
        """Bytes."""

    def read(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes from `offset`.

        Raises:
            Truncated: the range does not lie in the source.
            OSError: it cannot be read.
        """


SourceTarget: TypeAlias = "Source | BytesLike | str | os.PathLike[str] | BinaryIO"
StorageOptions: TypeAlias = "Mapping[str, object] | Storage | None"
"""How stores are reached: options as deltalake and polars spell them, see `dvcodec.io.store.options`."""


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
def open_source(
    target: SourceTarget, *, name: str | None = None, storage_options: StorageOptions = None
) -> Iterator[Source]:
    """Open anything that has bytes.

    Args:
        target: bytes-like, path, URL (``file:`` needs nothing, others the extra ``remote``), binary file, or a
            `Source`. A path is that of a regular file, or of a link to one: a pipe or device may never end, and has to
            be opened first.
        name: what to call it in errors.
        storage_options: for URLs: how the store is reached.

    Raises:
        UsageError: not a source, a ``file:`` URL that names a host, an unknown protocol, or an unknown option.
        MissingExtra: a URL, and what serves its protocol is not installed.
        OSError: it cannot be opened.
    """
    if isinstance(target, (str, os.PathLike)):
        held = held_source(os.fspath(target))
        local = local_path(target)
        if held is not None:
            yield held
        elif local is None:
            from dvcodec.io.storage import open_remote  # noqa: PLC0415  (which opens local files by this module)

            yield open_remote(str(target), storage_options, name=name)
        else:
            with open_local(local, name=name) as source:
                yield source
    elif isinstance(target, (bytes, bytearray, memoryview, mmap.mmap, np.ndarray)) or not hasattr(target, "read"):
        view = as_view(cast("BytesLike", target))
        yield _RangeSource(name or "<bytes>", len(view), lambda offset, size: view[offset : offset + size])
    elif _is_source(target):
        yield target
    else:
        yield _file_source(cast("BinaryIO", target), name or str(getattr(target, "name", "<file>")))


_HELD: ContextVar[Mapping[str, Source]] = ContextVar("held sources", default=MappingProxyType({}))


def held_source(location: str) -> Source | None:
    """Return the source that is open for all who open this path or URL in this thread; see `Storage.hold`."""
    return _HELD.get().get(location)


@contextmanager
def hold_source(location: str, source: Source) -> Iterator[None]:
    """Give a source to all who open this path or URL within the block, in this thread."""
    token = _HELD.set({**_HELD.get(), location: source})
    try:
        yield
    finally:
        _HELD.reset(token)


def _is_source(target: object) -> TypeGuard[Source]:
    """Whether something is a `Source`, without a look at its size: a remote one would have to be asked for it.

    Files of fsspec have name and size too, but can be moved in.
    """
    own = getattr(target, "__dict__", {})
    return not hasattr(target, "seek") and all(hasattr(type(target), part) or part in own for part in ("name", "size"))


@contextmanager
def open_local(path: Path, *, name: str | None = None) -> Iterator[Source]:
    """Open a regular file.

    Raises:
        OSError: it is not one, or cannot be opened.
    """
    # A pipe that no one writes to would wait when it is opened, so it is asked before.
    if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    with path.open("rb") as file:
        yield _file_source(file, name or str(path))


class ReadAhead:
    """A source in front of another, one range of which was read at once.

    Args:
        source: the other.
        start: offset of the range in bytes.
        size: of the range in bytes.

    Raises:
        Truncated: the range is not in the source.
        OSError: it cannot be read.
    """

    def __init__(self, source: Source, start: int, size: int) -> None:
        self.name = source.name
        self._source, self._start, self._data = source, start, source.read(start, size)

    @property
    def size(self) -> int:
        """Bytes of the source."""
        return self._source.size

    def read(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes from `offset`; see `Source.read`."""
        at = offset - self._start
        if at >= 0 and at + size <= len(self._data):
            return self._data[at : at + size]
        return self._source.read(offset, size)


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


def read_up_to(source: Source, offset: int, size: int) -> Cursor:
    """Read a byte range, or as much of it as there is. A remote file is not asked for its size before.

    Raises:
        OSError: it cannot be read.
    """
    clipped: Callable[[int, int], memoryview] | None = getattr(source, "read_up_to", None)
    if clipped is None:
        return read_window(source, min(offset, source.size), max(min(size, source.size - offset), 0))
    return Cursor(clipped(offset, size), source=source.name, base=offset)


def list_names(folder: str, *, storage_options: StorageOptions = None) -> list[str]:
    """Return the bare names of what is in a folder (path or URL), in no order.

    Raises:
        OSError: there is no such folder, or it cannot be read.
        UsageError: a ``file:`` URL that names a host, or an unknown protocol.
        MissingExtra: a URL, and what serves its protocol is not installed.
    """
    from dvcodec.io.storage import storage_of  # noqa: PLC0415

    return storage_of(storage_options).names(folder)

"""Where bytes come from and where they go: byte ranges in, whole files out.

A source is anything that can be read by (offset, size): bytes, a path, an open file, a URL (fsspec, extra
``remote``). A sink is a path, a writable file or a URL; what is written appears as a whole or not at all.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias, cast, runtime_checkable
from urllib.parse import unquote

import numpy as np

from dvcodec.core.cursor import BytesLike, Cursor, as_view
from dvcodec.core.errors import DvcodecError, MissingExtra, Truncated, UsageError

__all__ = [
    "Sink",
    "SinkTarget",
    "Source",
    "SourceTarget",
    "is_url",
    "open_sink",
    "open_source",
    "read_window",
    "target_name",
]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?:://|::)|file:/", re.IGNORECASE)
_ERRNOS = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES, IsADirectoryError: errno.EISDIR}


@runtime_checkable
class Source(Protocol):
    """Bytes that can be read by range. `name` stands in errors, `size` is in bytes."""

    name: str
    size: int

    def read(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes from `offset`, or raise `Truncated`."""


SourceTarget: TypeAlias = "Source | BytesLike | str | os.PathLike[str] | BinaryIO"
SinkTarget: TypeAlias = "str | os.PathLike[str] | BinaryIO"


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


def is_url(target: object) -> bool:
    """Whether `target` is a string with a scheme: ``s3://bucket/key``, ``file:/path``, ``zip://part::s3://bucket/key``.

    A colon alone makes no URL: ``part:0.bin`` is a file.
    """
    return isinstance(target, str) and _URL.match(target) is not None


@contextmanager
def open_source(target: SourceTarget, *, name: str | None = None) -> Iterator[Source]:
    """Open anything that has bytes.

    Args:
        target: bytes-like, path, URL (``file:`` needs nothing, others fsspec), seekable binary file, or a `Source`.
        name: what to call it in errors.

    Raises:
        UsageError: not a source.
        OSError: it cannot be opened.
    """
    if isinstance(target, (bytes, bytearray, memoryview, mmap.mmap, np.ndarray)) or not (
        isinstance(target, (str, os.PathLike, Source)) or hasattr(target, "read")
    ):
        view = as_view(cast("BytesLike", target))
        yield _RangeSource(name or "<bytes>", len(view), lambda offset, size: view[offset : offset + size])
    elif isinstance(target, Source) and not hasattr(target, "seek"):  # fsspec's files have name and size too
        yield target
    elif isinstance(target, (str, os.PathLike)):
        local = _local_path(target)
        if local is None:
            yield _remote(str(target), name)
        else:
            with local.open("rb") as file:
                yield _file_source(file, name or str(local))
    else:
        yield _file_source(cast("BinaryIO", target), name or str(getattr(target, "name", "<file>")))


def target_name(target: SinkTarget) -> str:
    """Return the path or URL of a sink, or the name of an open file."""
    return str(target) if isinstance(target, (str, os.PathLike)) else str(getattr(target, "name", "<file>"))


def _local_path(target: str | os.PathLike[str]) -> Path | None:
    """Return the local path that `target` means, None for a URL elsewhere."""
    if not is_url(target):
        return Path(target)
    scheme, _, rest = str(target).partition(":")
    if scheme.lower() != "file" or rest.startswith(":"):
        return None
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise UsageError(f"{target}: a file URL must not name a host")
        rest = f"/{path}"
    return Path(unquote(rest))


def _file_source(file: BinaryIO, name: str) -> Source:
    if not file.seekable():
        data = file.read()
        return _RangeSource(name, len(data), lambda offset, size: data[offset : offset + size])
    lock = threading.Lock()

    def fetch(offset: int, size: int) -> bytes:
        with lock, _errors_name(name):
            file.seek(offset)
            return file.read(size)

    with _errors_name(name):
        end = file.seek(0, os.SEEK_END)
    return _RangeSource(name, end, fetch)


@contextmanager
def _errors_name(name: str) -> Iterator[None]:
    """Let an error of the operating system say which file it is about."""
    try:
        yield
    except OSError as err:
        if err.filename is None:
            err.filename = name
        raise


def _filesystem(url: str) -> tuple[Any, str]:
    try:
        import fsspec  # noqa: PLC0415  (extra "remote")
    except ImportError:
        raise MissingExtra("fsspec", "remote") from None
    with _remote_errors(url):
        filesystem, path = fsspec.core.url_to_fs(url)
    return filesystem, path


@contextmanager
def _remote_errors(url: str) -> Iterator[None]:
    """Give what the stores behind fsspec raise one form: an error that names the URL."""
    try:
        yield
    except DvcodecError:
        raise
    except (ImportError, ValueError) as err:  # the store's package is not installed, or there is no such protocol
        raise UsageError(f"{url}: {err}") from None
    except Exception as err:  # no such object, no credentials, no connection
        code = getattr(err, "errno", None) or next((no for kind, no in _ERRNOS.items() if isinstance(err, kind)), 0)
        if code:
            raise OSError(code, os.strerror(code), url) from err
        raise OSError(f"{url}: {str(err) or type(err).__name__}") from err


def _remote(url: str, name: str | None) -> Source:
    filesystem, path = _filesystem(url)

    def fetch(offset: int, size: int) -> bytes:
        with _remote_errors(url):
            return cast("bytes", filesystem.cat_file(path, offset, offset + size))

    with _remote_errors(url):
        size = filesystem.size(path)
        if size is None:  # some web servers do not say
            data = filesystem.cat_file(path)
            return _RangeSource(name or url, len(data), lambda offset, count: data[offset : offset + count])
    return _RangeSource(name or url, int(size), fetch)


def read_window(source: Source, offset: int = 0, size: int | None = None) -> Cursor:
    """Read a byte range (default: to the end) and stand a cursor on it that knows where it came from."""
    if size is None:
        size = max(source.size - offset, 0)
    return Cursor(source.read(offset, size), source=source.name, base=offset)


class Sink:
    """Counts what goes through it; see `open_sink`."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name = name
        self.position = 0
        self._file = file

    def write(self, data: BytesLike) -> int:
        """Append `data`; return the offset it begins at."""
        start = self.position
        view = as_view(data)
        with _errors_name(self.name):
            self._file.write(view)
        self.position += len(view)
        return start


@contextmanager
def open_sink(target: SinkTarget) -> Iterator[Sink]:
    """Open something to write to, whole or not at all.

    A local file is written under a temporary name beside it, synced and renamed when the block ends well; if
    it does not, the temporary file is removed and an old file stays as it was. What is replaced keeps its
    permissions, and a symbolic link stays one. Other targets (open files, URLs, devices, pipes) get all bytes
    in one call at the end.

    Raises:
        OSError: the target cannot be written.
    """
    if not isinstance(target, (str, os.PathLike)):
        with _buffered(target_name(target), target.write) as sink:
            yield sink
        return
    local = _local_path(target)
    if local is None:
        url = str(target)
        filesystem, path = _filesystem(url)
        with _buffered(url, lambda data: filesystem.pipe_file(path, data), _remote_errors) as sink:
            yield sink
        return
    mode = _mode(local)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(local))
    if mode and not stat.S_ISREG(mode):  # renaming over /dev/null would replace the device
        with _buffered(str(local), local.write_bytes) as sink:
            yield sink
        return
    final = Path(os.path.realpath(local))
    partial = final.with_name(f".{final.name[:48]}.{secrets.token_hex(8)}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as err:
        raise OSError(err.errno, err.strerror, str(local)) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield Sink(str(local), file)
            file.flush()
            os.fsync(file.fileno())
        if mode:
            partial.chmod(stat.S_IMODE(mode))
        partial.replace(final)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    _sync_folder(final.parent)


@contextmanager
def _buffered(
    name: str,
    write: Callable[[bytes], object],
    errors: Callable[[str], AbstractContextManager[None]] = _errors_name,
) -> Iterator[Sink]:
    """Collect all bytes and hand them over at the end."""
    buffer = BytesIO()
    yield Sink(name, buffer)
    with errors(name):
        left = buffer.getbuffer()
        while True:
            done = write(bytes(left))
            if not isinstance(done, int) or done >= len(left):  # a raw file may take less than it is given
                break
            if done <= 0:
                raise OSError(errno.EIO, "nothing could be written", name)
            left = left[done:]


def _mode(path: Path) -> int:
    """Return type and permissions of a file, 0 if there is none (or its folder cannot be read)."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where folders can be synced."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

"""Sinks: atomic writes of whole files."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import RawIOBase, TextIOBase
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from dvcodec.core.cursor import BytesLike, as_view
from dvcodec.core.errors import UsageError
from dvcodec.io.target import errors_name

SinkTarget: TypeAlias = "str | os.PathLike[str] | BinaryIO"
_PARTIAL = re.compile(r"\..*\.[0-9a-f]{16}\.partial", re.DOTALL)


def is_partial(name: str) -> bool:
    """Whether a bare file name is a writer's temporary one, left behind if the process was killed."""
    return _PARTIAL.fullmatch(name) is not None


def target_name(target: SinkTarget) -> str:
    """Return the path or URL of a sink, or the name of an open file."""
    return str(target) if isinstance(target, (str, os.PathLike)) else str(getattr(target, "name", "<file>"))


def check_writable(target: object) -> None:
    """Refuse an object that bytes cannot be written to.

    Raises:
        UsageError: it is not a file, or open in text mode.
    """
    if not hasattr(target, "write"):
        kind = "None" if target is None else type(target).__name__
        raise UsageError(f"target must be a path, a URL or an open binary file, not {kind}")
    if isinstance(target, TextIOBase):
        raise UsageError(f"{getattr(target, 'name', 'target')} is open in text mode: open it in binary mode")


class Sink:
    """A file open for writing that counts its bytes; see `open_sink`."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name = name
        self.position = 0
        self._file = file

    def write(self, data: BytesLike) -> int:
        """Append `data`; return the byte offset it begins at.

        Raises:
            UsageError: `data` is not a contiguous buffer.
            OSError: it cannot be written; the error names the target.
        """
        start = self.position
        view = as_view(data)
        with errors_name(self.name):
            self._file.write(view)
        self.position += len(view)
        return start


class SinkFile(RawIOBase):
    """A `Sink` as a writable file object for pyarrow."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._sink.position

    def write(self, data: Any) -> int:
        """Append bytes; return how many.

        Raises:
            UsageError: `data` is not a contiguous buffer.
            OSError: it cannot be written.
        """
        view = as_view(data)
        self._sink.write(view)
        return len(view)


@contextmanager
def open_local_sink(local: Path, *, exclusive: bool = False, whole: bool = False) -> Iterator[Sink]:
    """Open a local file for an atomic write; see `open_sink`.

    Args:
        local: path of the file.
        exclusive: whether it must not exist yet.
        whole: for an exclusive file: whether to fail if readers could see it empty for a moment, as on file systems
            without hard links.

    Raises:
        FileExistsError: the file exists, and `exclusive` is set.
        OSError: it cannot be written.
    """
    mode = _mode(local)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(local))
    if mode and not stat.S_ISREG(mode):  # renaming over /dev/null would replace the device
        with buffered(str(local), local.write_bytes) as sink:
            yield sink
        return
    final = Path(os.path.realpath(local))
    partial = final.with_name(f".{final.name[:48]}.{secrets.token_hex(8)}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with _errors_of(local):  # never with more permissions than the old file
        file = os.fdopen(os.open(partial, flags, stat.S_IMODE(mode) if mode else 0o666), "wb")
    try:
        yield Sink(str(local), file)
        with _errors_of(local):
            file.flush()
            if mode:
                partial.chmod(stat.S_IMODE(mode))
            os.fsync(file.fileno())
            file.close()
            if exclusive:
                _rename_exclusively(partial, final, whole=whole)
            else:
                partial.replace(final)
    except BaseException:
        with suppress(OSError):  # closing flushes, which may fail again
            file.close()
        with suppress(OSError):
            partial.unlink()
        raise
    sync_folder(final.parent)


def _rename_exclusively(partial: Path, final: Path, *, whole: bool) -> None:
    """Rename a file; raise `FileExistsError` if the new name exists."""
    try:
        os.link(partial, final)
    except FileExistsError:
        raise
    except OSError as err:  # a file system without links
        if whole:
            raise OSError(err.errno, f"{err.strerror}: a commit requires hard links", str(final)) from None
        # Reserve the name first.
        os.close(os.open(final, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        partial.replace(final)
    else:
        with suppress(OSError):
            partial.unlink()


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Let errors name the target, not the temporary file."""
    try:
        yield
    except OSError as err:
        raise OSError(err.errno, err.strerror, str(path)) from None


class _Parts:
    """Collects written data for one join at the end; immutable bytes are not copied."""

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []

    def write(self, data: memoryview) -> None:
        self.pieces.append(data if isinstance(data.obj, bytes) else bytes(data))


@contextmanager
def buffered(name: str, write: Callable[[bytes], object]) -> Iterator[Sink]:
    """Collect all bytes and pass them to `write` once, at the end."""
    parts = _Parts()
    yield Sink(name, cast("BinaryIO", parts))
    with errors_name(name):
        left = b"".join(parts.pieces)
        while True:
            done = write(left)
            if not isinstance(done, int) or done >= len(left):  # a raw file may write only a part
                break
            if done <= 0:
                raise OSError(errno.EIO, "no byte was written", name)
            left = left[done:]


def _mode(path: Path) -> int:
    """Return type and permissions of a file, 0 if it does not exist. A loop of links is an error."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0


def sync_folder(folder: Path) -> None:
    """Make the rename durable, where folders can be synced.

    Raises:
        OSError: the system failed to write the folder: after a crash, the file may be gone.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders; one that may be written but not read
        return
    try:
        os.fsync(descriptor)
    except OSError as err:
        if err.errno not in _NO_SYNC:
            raise OSError(err.errno, f"{os.strerror(err.errno or 0)} (syncing the folder)", str(folder)) from None
    finally:
        os.close(descriptor)


_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EPERM, errno.EACCES)
"""Errors of file systems that do not sync folders."""

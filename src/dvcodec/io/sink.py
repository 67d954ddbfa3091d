"""Writing whole files, or none."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import BytesIO, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from dvcodec.core.cursor import BytesLike, as_view
from dvcodec.core.errors import DvcodecError
from dvcodec.io.target import errors_name, filesystem_of, local_path, remote_errors

__all__ = ["Sink", "SinkFile", "SinkTarget", "open_sink", "remove", "target_name"]

SinkTarget: TypeAlias = "str | os.PathLike[str] | BinaryIO"


def target_name(target: SinkTarget) -> str:
    """Return the path or URL of a sink, or the name of an open file."""
    return str(target) if isinstance(target, (str, os.PathLike)) else str(getattr(target, "name", "<file>"))


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
        with errors_name(self.name):
            self._file.write(view)
        self.position += len(view)
        return start


class SinkFile(RawIOBase):
    """A `Sink` as the file object that pyarrow wants to write to."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def writable(self) -> bool:
        """Whether it can be written: yes."""
        return True

    def tell(self) -> int:
        """Return how many bytes there are."""
        return self._sink.position

    def write(self, data: Any) -> int:
        """Append bytes."""
        view = as_view(data)
        self._sink.write(view)
        return len(view)


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
    local = local_path(target)
    if local is None:
        url = str(target)
        filesystem, path = filesystem_of(url)
        with _buffered(url, lambda data: filesystem.pipe_file(path, data), remote_errors) as sink:
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
    errors: Callable[[str], AbstractContextManager[None]] = errors_name,
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


def remove(target: str | os.PathLike[str]) -> None:
    """Remove a file that was just written, if that is possible: what went wrong before is to be told, not this."""
    local = local_path(target)
    with suppress(OSError, DvcodecError):
        if local is not None:
            local.unlink()
        else:
            filesystem, path = filesystem_of(str(target))
            with remote_errors(str(target)):
                filesystem.rm_file(path)


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

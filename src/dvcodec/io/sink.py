"""Writing whole files, or none."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from dvcodec.core.cursor import BytesLike, as_view
from dvcodec.core.errors import DvcodecError
from dvcodec.io.source import StorageOptions, options_of
from dvcodec.io.store import open_store
from dvcodec.io.target import errors_name, local_path

__all__ = ["Sink", "SinkFile", "SinkTarget", "can_exclude", "is_partial", "open_sink", "remove", "target_name"]

SinkTarget: TypeAlias = "str | os.PathLike[str] | BinaryIO"
_PARTIAL = re.compile(r"\..*\.[0-9a-f]{16}\.partial", re.DOTALL)


def is_partial(name: str) -> bool:
    """Whether a bare file name is one that a writer uses until its file is whole, and leaves if it is killed."""
    return _PARTIAL.fullmatch(name) is not None


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
        """Append `data`; return the byte offset it begins at.

        Raises:
            UsageError: `data` is no contiguous buffer.
            OSError: it cannot be written; the error names the target.
        """
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
        """Append bytes; return how many.

        Raises:
            UsageError: `data` is no contiguous buffer.
            OSError: it cannot be written.
        """
        view = as_view(data)
        self._sink.write(view)
        return len(view)


@contextmanager
def open_sink(target: SinkTarget, *, exclusive: bool = False, storage_options: StorageOptions = None) -> Iterator[Sink]:
    """Open something to write to, whole or not at all.

    A local file is written under a temporary name beside it, synced and renamed when the block ends well; if
    it does not, the temporary file is removed and an old file stays as it was. A file or object that is there is
    replaced, unless `exclusive` says otherwise. A process that is killed leaves the
    temporary file, ``.<name>.<16 hexadecimal digits>.partial``, which nothing reads. What is replaced keeps its
    permissions, and a symbolic link stays one. Other targets (open files, URLs, devices, pipes) get all bytes
    in one call at the end.

    Args:
        target: path, URL or writable file.
        exclusive: whether a file or object must not be there yet. That is looked at when it gets its name: of several
            processes that write it at once, one succeeds.
        storage_options: for URLs: how the store is reached.

    Raises:
        FileExistsError: it is there, and that is not wanted.
        OSError: the target cannot be written; the error names the target.
        UsageError: a ``file:`` URL that names a host, an unknown protocol or option, or a store that cannot write
            exclusively.
        MissingExtra: a URL, and what serves its protocol is not installed.
    """
    if not isinstance(target, (str, os.PathLike)):
        with _buffered(target_name(target), target.write) as sink:
            yield sink
        return
    local = local_path(target)
    if local is None:
        store, key = open_store(str(target), options_of(storage_options))
        write = store.put_if_absent if exclusive else store.put

        def put(data: bytes) -> None:
            with _changes(str(target), storage_options):
                write(key, data)

        with _buffered(str(target), put) as sink:
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
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with _errors_of(local):  # with no more permissions than the old file has, from its first byte on
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
                _name(partial, final)
            else:
                partial.replace(final)
    except BaseException:
        with suppress(OSError):  # it tries again to write what it could not
            file.close()
        with suppress(OSError):
            partial.unlink()
        raise
    _sync_folder(final.parent)


def _name(partial: Path, final: Path) -> None:
    """Give a whole file its name, unless another has that name by now."""
    try:
        os.link(partial, final)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: the name is taken first
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
    """What was written, put together once in the end; of bytes that cannot change, no copy is held."""

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []

    def write(self, data: memoryview) -> None:
        self.pieces.append(data if isinstance(data.obj, bytes) else bytes(data))


@contextmanager
def _buffered(name: str, write: Callable[[bytes], object]) -> Iterator[Sink]:
    """Collect all bytes and hand them over at the end."""
    parts = _Parts()
    yield Sink(name, cast("BinaryIO", parts))
    with errors_name(name):
        left = b"".join(parts.pieces)
        while True:
            done = write(left)
            if not isinstance(done, int) or done >= len(left):  # a raw file may take less than it is given
                break
            if done <= 0:
                raise OSError(errno.EIO, "nothing could be written", name)
            left = left[done:]


def can_exclude(target: str, storage_options: StorageOptions = None) -> bool:
    """Whether a file or object at a path or URL can be written only if it is not there yet; see `open_sink`.

    Raises:
        UsageError, MissingExtra: see `open_sink`.
    """
    return local_path(target) is not None or open_store(target, options_of(storage_options))[0].excludes


def remove(target: str | os.PathLike[str], *, storage_options: StorageOptions = None) -> None:
    """Remove a file that was just written, if that is possible: what went wrong before is to be told, not this."""
    with suppress(OSError, DvcodecError):
        local = local_path(target)
        if local is not None:
            local.unlink()
        else:
            store, key = open_store(str(target), options_of(storage_options))
            with _changes(str(target), storage_options):
                store.delete(key)


def _changes(location: str, storage_options: StorageOptions) -> AbstractContextManager[None]:
    """Let a storage forget what the block writes or removes; options by themselves know nothing."""
    if storage_options is None or isinstance(storage_options, Mapping):
        return nullcontext()
    return storage_options.changes(location)


def _mode(path: Path) -> int:
    """Return type and permissions of a file, 0 if there is none. A circle of links is an error."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where folders can be synced."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

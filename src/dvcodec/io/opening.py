"""Opening paths, URLs, buffers and files to read or to write; the only module that maps a target to a store."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from dvcodec.core.errors import DvcodecError
from dvcodec.io.blocks import BlockSource
from dvcodec.io.sink import Sink, SinkTarget, buffered, open_local_sink, target_name
from dvcodec.io.source import BUFFERS, Source, SourceTarget, held_source, object_source, open_local
from dvcodec.io.storage import Storage, StorageOptions, open_remote, options_of, storage_of
from dvcodec.io.store import open_store
from dvcodec.io.target import local_path

__all__ = ["can_exclude", "list_names", "open_mapped", "open_sink", "open_source", "remove"]


@contextmanager
def open_source(
    target: SourceTarget, *, name: str | None = None, storage_options: StorageOptions = None
) -> Iterator[Source]:
    """Open bytes, a file or a URL for reading by ranges.

    Args:
        target: bytes-like, path, URL (``file:`` needs nothing, others the extra ``remote``), binary file, or a
            `Source`. A path must be a regular file, or a link to one: a pipe or device may never end, so open it first.
        name: name for errors.
        storage_options: for URLs: how the store is reached.

    Raises:
        UsageError: not a source, a ``file:`` URL with a host, an unknown protocol, or an unknown option.
        MissingExtra: a URL whose protocol needs a package that is not installed.
        OSError: it cannot be opened.
    """
    if not isinstance(target, (str, os.PathLike)):
        yield object_source(target, name)
    elif (held := held_source(os.fspath(target))) is not None:
        yield held
    elif (local := local_path(target)) is None:
        yield open_remote(str(target), storage_options, name=name)
    else:
        with open_local(local, name=name) as source:
            yield source


@contextmanager
def open_mapped(target: SourceTarget, *, storage_options: StorageOptions = None) -> Iterator[Source]:
    """Open what `open_source` opens: local files memory-mapped, remote ones read in blocks.

    Raises:
        UsageError: not a source.
        OSError: it cannot be opened.
    """
    if not isinstance(target, (str, os.PathLike)):
        source = object_source(target)
        yield source if isinstance(target, BUFFERS) else BlockSource(source)
    elif (local := local_path(target)) is None:
        yield BlockSource(held_source(os.fspath(target)) or open_remote(str(target), storage_options))
    else:
        with local.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        yield object_source(data, str(local))


@contextmanager
def open_sink(target: SinkTarget, *, exclusive: bool = False, storage_options: StorageOptions = None) -> Iterator[Sink]:
    """Open something to write to, whole or not at all.

    A local file is written under a temporary name beside it, synced and renamed when the block ends well; if it does
    not, the temporary file is removed and an old file stays as it was. An existing file or object is replaced, unless
    `exclusive` is set. A process that is killed leaves the temporary file,
    ``.<name>.<16 hexadecimal digits>.partial``, which nothing reads. What is replaced keeps its permissions, and a
    symbolic link stays one. Other targets (open files, URLs, devices, pipes) get all bytes in one call at the end.

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
        with buffered(target_name(target), target.write) as sink:
            yield sink
    elif (local := local_path(target)) is not None:
        with open_local_sink(local, exclusive=exclusive) as sink:
            yield sink
    else:
        store, key = open_store(str(target), options_of(storage_options))
        write = store.put_if_absent if exclusive else store.put

        def put(data: bytes) -> None:
            with _changes(str(target), storage_options):
                write(key, data)

        with buffered(str(target), put) as sink:
            yield sink


def can_exclude(target: str, storage_options: StorageOptions = None) -> bool:
    """Whether a file or object at a path or URL can be written only if it is not there yet; see `open_sink`.

    Raises:
        UsageError, MissingExtra: see `open_sink`.
    """
    return local_path(target) is not None or open_store(target, options_of(storage_options))[0].excludes


def remove(target: str | os.PathLike[str], *, storage_options: StorageOptions = None) -> None:
    """Remove a file that was just written, if possible: an error here must not hide the one before."""
    with suppress(OSError, DvcodecError):
        local = local_path(target)
        if local is not None:
            local.unlink()
        else:
            store, key = open_store(str(target), options_of(storage_options))
            with _changes(str(target), storage_options):
                store.delete(key)


def _changes(location: str, storage_options: StorageOptions) -> AbstractContextManager[None]:
    """Let a storage forget what the block writes or removes; options by themselves cache nothing."""
    return storage_options.changes(location) if isinstance(storage_options, Storage) else nullcontext()


def list_names(folder: str, *, storage_options: StorageOptions = None) -> list[str]:
    """Return the bare names in a folder (path or URL), unordered.

    Raises:
        OSError: the folder does not exist or cannot be read.
        UsageError: a ``file:`` URL with a host, or an unknown protocol.
        MissingExtra: a URL whose protocol needs a package that is not installed.
    """
    return storage_of(storage_options).names(folder)

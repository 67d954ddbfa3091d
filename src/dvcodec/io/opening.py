"""Open paths, URLs, buffers and files for reading or writing; the only module that maps a target to a store."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dvcodec.core.errors import DvcodecError, UsageError
from dvcodec.core.limits import enough_memory
from dvcodec.io.allowed_locations import hide_values
from dvcodec.io.coalesce import BlockSource
from dvcodec.io.sink import Sink, SinkTarget, buffered, check_writable, open_local_sink, target_name
from dvcodec.io.source import BUFFERS, Source, SourceTarget, check_regular, held_source, object_source, open_local
from dvcodec.io.storage import Storage, StorageOptions, open_remote, storage_of
from dvcodec.io.store import open_store
from dvcodec.io.target import local_path, with_slashes


@contextmanager
def open_source(
    target: SourceTarget, *, name: str | None = None, storage_options: StorageOptions = None
) -> Iterator[Source]:
    """Open bytes, a file or a URL for reading by ranges.

    Args:
        target: bytes-like, path, URL (``file:`` needs nothing, others the extra ``remote``), binary file, or a
            `Source`. A path must be a regular file, or a link to one: a pipe or device may never end, so open it first.
        name: name for errors.
        storage_options: for URLs: how to reach the store.

    Raises:
        UsageError: not a source, a ``file:`` URL with a host, an unknown protocol, or an unknown option.
        MissingExtra: the package for the URL's protocol is not installed.
        LimitExceeded: an allocation failed in the block.
        OSError: it cannot be opened.
    """
    if not isinstance(target, (str, os.PathLike)):
        source = object_source(target, name)
        with enough_memory("what is read", source.name):
            yield source
        return
    location = os.fspath(target)
    with hide_values(location, _home(storage_options)), enough_memory("what is read", name or location):
        if (held := held_source(location)) is not None:
            yield held
        elif (local := local_path(target)) is None:
            yield open_remote(str(target), storage_options, name=name)
        else:
            with open_local(local, name=name) as source:
                yield source


def _home(storage_options: StorageOptions) -> str | None:
    return storage_options.home if isinstance(storage_options, Storage) else None


@contextmanager
def open_mapped(target: SourceTarget, *, storage_options: StorageOptions = None) -> Iterator[Source]:
    """Open a source as `open_source` does, with local files memory-mapped and remote ones read in blocks.

    Raises:
        UsageError: not a source.
        OSError: it cannot be opened.
    """
    if not isinstance(target, (str, os.PathLike)):
        source = object_source(target)
        yield source if isinstance(target, BUFFERS) else BlockSource(source)
    elif (local := local_path(target)) is None:
        with hide_values(os.fspath(target), _home(storage_options)):
            yield BlockSource(held_source(os.fspath(target)) or open_remote(str(target), storage_options))
    else:
        check_regular(local)
        with local.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        with hide_values(os.fspath(target), _home(storage_options)):
            yield object_source(data, str(local))


@contextmanager
def open_sink(target: SinkTarget, *, exclusive: bool = False, storage_options: StorageOptions = None) -> Iterator[Sink]:
    """Open a target for an atomic write.

    A local file is written under a temporary name in the same folder, ``.<name>.<16 hexadecimal digits>.partial``. When
    the block ends, it is synced and renamed; on an exception it is removed, and an existing file stays unchanged. A
    killed process leaves the temporary file behind; readers ignore it. An existing file or object is replaced, unless
    `exclusive` is set; permissions and symbolic links are kept. Other targets (open files, URLs, devices, pipes)
    receive all bytes in one call at the end.

    Args:
        target: path, URL or writable file.
        exclusive: whether the file or object must not exist yet. This is checked at the end, atomically: only one of
            several concurrent writers succeeds.
        storage_options: for URLs: how to reach the store.

    Raises:
        FileExistsError: it exists, and `exclusive` is set.
        OSError: the target cannot be written; the error names the target.
        UsageError: not a target, a local name that ends with a slash, a ``file:`` URL with a host, an unknown protocol
            or option, or a store without exclusive writes.
        MissingExtra: the package for the URL's protocol is not installed.
    """
    if not isinstance(target, (str, os.PathLike)):
        check_writable(target)
        with buffered(target_name(target), target.write) as sink:
            yield sink
    elif (local := local_path(target)) is not None:
        if with_slashes(target).endswith("/") and not local.is_dir():  # a folder is refused when it is opened
            raise UsageError(f"{target}: a name that ends with a slash is a folder's: name a file")
        with open_local_sink(local, exclusive=exclusive) as sink:
            yield sink
    else:
        storage = storage_of(storage_options)
        store, key = open_store(str(target), storage.options)
        write = store.put_if_absent if exclusive else store.put

        def put(data: bytes) -> None:
            with storage.changes(str(target)):
                write(key, data)

        with buffered(str(target), put) as sink:
            yield sink


def can_exclude(target: str, storage_options: StorageOptions = None) -> bool:
    """Whether the storage of a path or URL supports exclusive writes; see `open_sink`.

    Raises:
        UsageError, MissingExtra: see `open_sink`.
    """
    return local_path(target) is not None or open_store(target, storage_of(storage_options).options)[0].excludes


def remove(target: str | os.PathLike[str], *, storage_options: StorageOptions = None) -> None:
    """Remove a file that was just written; errors are ignored, because they must not hide an earlier one."""
    with suppress(OSError, DvcodecError):
        local = local_path(target)
        if local is not None:
            local.unlink()
        else:
            storage_of(storage_options).remove(str(target))


def list_names(folder: str, *, storage_options: StorageOptions = None) -> list[str]:
    """Return the bare names in a folder (path or URL), unordered.

    Raises:
        OSError: the folder does not exist or cannot be read.
        UsageError: a ``file:`` URL with a host, or an unknown protocol.
        MissingExtra: the package for the URL's protocol is not installed.
    """
    return storage_of(storage_options).names(folder)

"""Open paths, URLs, buffers and files for reading or writing; the only module that maps a target to a store.

A URL may name an object, a folder's files, or the matches of a pattern.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from dvcodec.core.errors import DvcodecError, UsageError
from dvcodec.core.limits import enough_memory
from dvcodec.io.sink import Sink, SinkTarget, buffered, check_writable, open_local_sink, target_name
from dvcodec.io.source import (
    BUFFERS,
    BlockSource,
    Source,
    SourceTarget,
    check_regular,
    held_source,
    object_source,
    open_local,
)
from dvcodec.io.storage import Listed, Storage, StorageOptions, open_remote, storage_of
from dvcodec.io.store import Reason, StoreError, open_store
from dvcodec.io.target import hide_values, join, local_path, with_slashes


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


_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files found for a URL.

    Attributes:
        files: sorted by location.
        folder: the folder that was listed: the URL, or the part of a pattern before its first wildcard; None for an
            object.
        is_pattern: whether the URL was used as a pattern.
    """

    files: list[Listed]
    folder: str | None = None
    is_pattern: bool = False


def has_pattern(url: str) -> bool:
    """Whether the key of a URL, without query, has ``*``, ``?`` or ``[``."""
    return _MAGIC.search(without_query(url.partition("::")[0]).partition("://")[2]) is not None


def without_query(url: str) -> str:
    """Return a web address without its query, any other URL unchanged."""
    return url.partition("?")[0] if url.lower().startswith(("http:", "https:")) else url


def find_remote(url: str, storage: Storage) -> FoundFiles | None:
    """Find the files of a URL; None if there are none.

    The URL is tried as an object, then as a folder, then as a pattern, where ``*`` and ``?`` match within one path
    component and ``**`` matches any number of them.

    Args:
        url: with a scheme, not ``file:``.
        storage: to look it up.

    Raises:
        UsageError: an unknown protocol or option.
        OSError: the store cannot be reached.
    """
    _, key = open_store(url, storage.options)
    denied: StoreError | None = None
    if key and not url.endswith("/"):
        try:
            found = storage.stat(url)
        except StoreError as err:
            if err.reason in (Reason.DENIED, Reason.BAD_CREDENTIALS):
                denied = err  # S3's answer for a missing object too, without a message: the listing below has one
            elif err.reason is not Reason.NO_OBJECT:
                raise
        else:
            return FoundFiles([found])
    try:
        if has_pattern(url):
            matching = _matching(url, storage)
        else:
            inside = sorted(storage.walk(url), key=lambda file: file.location)
            matching = FoundFiles(inside, url.rstrip("/")) if inside else None
    except StoreError:
        if denied is None or not url.lower().startswith("http"):
            raise
        raise denied from None  # web servers without listings give unhelpful errors
    if matching is None and denied is not None:
        raise denied
    return matching


def _matching(url: str, storage: Storage) -> FoundFiles | None:
    """Return the files in the folder of that exact name, else those that match: one listing of the prefix has both."""
    inner, chain, outer = url.partition("::")
    before = "".join(_MAGIC.split(inner, maxsplit=1)[0].rpartition("/")[:2])
    if not before.rstrip("/").endswith(":"):  # not the root of zip:// or hdfs:///
        before = before[:-1]
    base = before + chain + outer
    matches = pattern_regex(inner[len(before) :].strip("/"))
    start = len(join(before, ""))
    inside: list[Listed] = []
    files: list[Listed] = []
    for file in _without_markers(list(storage.walk(base))):
        spelled = file.location[: len(file.location) - len(chain + outer)]
        if spelled.startswith(f"{inner.rstrip('/')}/"):
            inside.append(file)
        elif matches.fullmatch(spelled[start:]):
            files.append(file)
    if inside:
        return FoundFiles(sorted(inside, key=lambda file: file.location), url.rstrip("/"))
    return FoundFiles(sorted(files, key=lambda file: file.location), base, True) if files else None


def pattern_regex(pattern: str) -> re.Pattern[str]:
    """Translate a pattern into a regular expression for whole names.

    >>> [bool(pattern_regex("a/**/*.bin").fullmatch(name)) for name in ("a/x.bin", "a/b/c/x.bin", "a/x.puffin")]
    [True, True, False]
    """
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            parts.append("(?:[^/]+/)*")
            at += 3
        elif pattern[at] == "*":
            parts.append(".*" if pattern[at:] == "**" else "[^/]*")
            at += 2 if pattern[at:] == "**" else 1
        elif pattern[at] == "?":
            parts.append("[^/]")
            at += 1
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2 + pattern.startswith(("!", "^"), at + 1))) > 0:
            parts.append(_set_regex(pattern[at + 1 : end]))
            at = end + 1
        else:
            parts.append(re.escape(pattern[at]))
            at += 1
    return re.compile("".join(parts), re.DOTALL)


def _set_regex(inside: str) -> str:
    """Translate the inside of brackets; a reversed range matches nothing."""
    letters = re.sub(r"([\\\[\]&~|])", r"\\\1", inside[1:] if inside[0] in "!^" else inside).replace("--", "-\\-")
    try:
        re.compile(found := f"[{'^' if inside[0] in '!^' else ''}{letters}]")
    except re.error:
        return "(?!)"
    return found


def _without_markers(files: list[Listed]) -> list[Listed]:
    """Drop folder markers: empty objects such as ``t/`` in a listing of ``t``, and ``t/sub`` beside ``t/sub/x``."""
    empty = {file.location.rstrip("/") for file in files if not file.size}
    if not empty:
        return files
    folders: set[str] = set()
    for file in files:
        folder = file.location.rstrip("/").rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return [file for file in files if file.size or not (file.location.endswith("/") or file.location in folders)]

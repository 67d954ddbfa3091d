"""Targets of commands: files, globs, folders, ``path@offset:size``, URLs and ``-``."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from dvcodec.cli.storage import storage
from dvcodec.core import vector
from dvcodec.core.errors import DecodeError, Truncated, Unsupported, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import UNCOUNTED, Magic, Vector
from dvcodec.io import Source, is_partial, is_url, open_source, read_window
from dvcodec.io.opening import find_remote, has_pattern, without_query
from dvcodec.io.source import beyond_end
from dvcodec.io.store import Reason, StoreError, open_store
from dvcodec.io.target import is_local
from dvcodec.ops.read import Container, VectorRef, ahead, read_vector, refuse_segment, sniff_source

_SLICE = re.compile(r"^(?P<path>.+)@(?P<offset>\d+)(?::(?P<size>\d+))?$", re.DOTALL)
# File names of deletion vectors in Iceberg, Delta and Lance. Paimon's index files share their names with its hash
# indexes.
_VECTOR_FILE = re.compile(r"(\.puffin|/deletion_vector_[0-9a-f-]{36}\.bin|/_deletions/[^/]+\.(arrow|bin))$")
_DESCRIPTORS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""What is open already, such as ``<(...)`` of a shell; other pipes are refused, as a pipe without a writer blocks."""
_SMALLEST = 8
"""Bytes of the smallest vector: a bare bitmap without rows."""
_SEGMENT_FILE = re.compile(r"\.zap$")


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to read.

    Attributes:
        path: file, URL, or ``-`` for standard input.
        offset: first byte, None for the whole file.
        size: bytes, None for the vector that begins at `offset`, or for the rest of the file.
        found: whether it was found in a folder; a file without vectors is then not an error.
    """

    path: str
    offset: int | None = None
    size: int | None = None
    found: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """An open container.

    Attributes:
        source: the whole file.
        container: result of sniffing the file, or the named part of it; offsets are in the file.
        named: the whole file, or the named part of it.
    """

    source: Source
    container: Container
    named: Source

    def errors_of_file(self) -> AbstractContextManager[None]:
        """Make offsets of errors in `named` relative to the file."""
        return self.named.errors_of_file() if isinstance(self.named, Part) else nullcontext()

    def read(self, ref: VectorRef) -> Vector:
        """Read and walk one vector."""
        return read_vector(self.source, ref, limits=storage().limits)

    def rows(self) -> Iterator[tuple[VectorRef, RowSet]]:
        """Read all vectors."""
        for ref in self.container.vectors:
            yield ref, self.read(ref).load()


def expand(names: list[str]) -> list[Target]:
    """Resolve names to targets, in order; files of folders and globs are sorted.

    Raises:
        UsageError: a glob or folder without files, an empty name, or a part of a file that is not a byte range.
    """
    return [target for name in names for target in _expand(name)]


def only(name: str) -> Target:
    """Resolve a name to exactly one target.

    Raises:
        UsageError: a folder, or a glob of several files.
    """
    targets = expand([name])
    if len(targets) != 1 or targets[0].found:
        raise UsageError(f"{name}: expected one file, found {len(targets)} in a folder or glob")
    return targets[0]


def check_name(name: str) -> None:
    """Refuse an empty name, which the operating system takes for the current folder.

    Raises:
        UsageError: it is empty.
    """
    if not name:
        raise UsageError("expected a target, found an empty name")


def _expand(name: str) -> list[Target]:
    check_name(name)
    path = Path(name)
    if name == "-":
        return [Target(name)]
    if is_url(name) and not is_local(name):
        return _expand_remote(name)
    if path.is_dir():
        files = [Target(str(file), found=True) for file in sorted(_walk(path)) if file.is_file()]
        if not files:
            raise UsageError(f"{name}: no files in this folder")
        return files
    if path.exists():
        return [Target(name)]
    match = _SLICE.match(name)
    if match:
        return [_slice(match)]
    if glob.has_magic(name):
        matches = [Target(str(found)) for found in sorted(_glob(path)) if found.is_file()]
        if not matches:
            raise UsageError(f"{name}: no such files")
        return matches
    file, at, part = name.rpartition("@")
    if at and Path(file).is_file():
        raise UsageError(f"{name}: after @ expected OFFSET or OFFSET:SIZE in bytes, found {part!r}")
    return [Target(name)]


def _expand_remote(name: str) -> list[Target]:
    """Expand a URL; if it matches nothing, opening it fails with the store's error."""
    match = _SLICE.match(name)
    if match:
        if _is_object(name):
            return [Target(name)]
        if has_pattern(match["path"]) and not _is_object(match["path"]):
            raise UsageError(f"{name}: an offset needs one file, not a pattern")
        return [_slice(match)]
    if not (has_pattern(name) or name.endswith("/")) and _is_named_so(name, segments=True):
        return [Target(name)]
    found = find_remote(name, storage())
    if found is None:
        if has_pattern(name) or name.endswith("/"):
            raise UsageError(f"{name}: no such files")
        return [Target(name)]
    return [Target(file.location, found=found.folder is not None and not found.is_pattern) for file in found.files]


def _slice(match: re.Match[str]) -> Target:
    size = match["size"]
    return Target(match["path"], int(match["offset"]), None if size is None else int(size))


def _is_object(name: str) -> bool:
    """Whether there is an object of exactly this name; False if the store refuses the request."""
    store, key = open_store(name, storage().options)
    try:
        store.head(key)
    except StoreError as err:
        if err.reason in (Reason.UNREACHABLE, Reason.TIMEOUT):
            raise
        return False
    return True


def _walk(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder, except unfinished ones of killed writers; links are not followed."""
    for parent, _, files in os.walk(folder):
        yield from (Path(parent, file) for file in files if not is_partial(file))


def _glob(pattern: Path) -> Iterator[Path]:
    """Yield matches, as a shell does: ``*`` does not match hidden files.

    ``**`` does not follow links, which may form cycles.
    """
    parts = [part if part == "**" else re.sub(r"\*+", "*", part) for part in pattern.parts[bool(pattern.anchor) :]]
    wanted = Path(*parts, "*") if parts[-1] == "**" else Path(*parts)
    hidden = any(map(_is_hidden, parts))
    for found in Path(pattern.anchor).glob(str(wanted)):
        if hidden or not any(map(_is_hidden, found.parts)):
            yield found


def _is_hidden(part: str) -> bool:
    return part.startswith(".") and part != ".."


class Part:
    """A part of a source, from byte `base` of the file, as a source."""

    def __init__(self, source: Source, base: int, size: int) -> None:
        self.name, self.base, self.size = source.name, base, size
        self._source = source

    def read(self, offset: int, size: int) -> memoryview:
        """Return bytes, or raise `Truncated`."""
        if offset < 0 or offset + size > self.size:
            raise beyond_end(self, offset, size)
        return self._source.read(self.base + offset, size)

    @contextmanager
    def errors_of_file(self) -> Iterator[None]:
        """Make offsets of errors relative to the file."""
        try:
            yield
        except DecodeError as err:
            if err.offset is not None:
                err.offset += self.base
            raise


def _part(source: Source, target: Target) -> Part:
    """Return the named part. As in `decode_at`, its size is the frame's, or 8 bytes less as in Delta's log."""
    base, size = target.offset or 0, target.size
    left = source.size - base
    if size is not None and left < size:
        raise beyond_end(source, base, size)
    if left < 1:
        actual = f"{max(left, 0)} left of {source.size}"
        raise Truncated("byte range", source=source.name, offset=base, expected="a vector", actual=actual)
    named = left if size is None else size
    if named < _SMALLEST:  # the single byte 1 is a file without vectors, but not a vector
        expected, actual = f"a vector of at least {_SMALLEST} bytes", f"{named} bytes"
        raise Truncated("byte range", source=source.name, offset=base, expected=expected, actual=actual)
    head = read_window(source, base, min(left, 8))
    if Magic.find(bytes(head.view[4:])) is not None:
        claimed = vector.peek_size(head)
        if claimed <= left and (size is None or size + UNCOUNTED == claimed):
            size = claimed
    return Part(source, base, left if size is None else size)


@contextmanager
def _open_file(target: Target) -> Iterator[Source]:
    if target.path == "-" and sys.stdin is None:
        raise UsageError("standard input is closed")
    if target.path == "-":
        with open_source(sys.stdin.buffer.read(), name="<stdin>") as source:
            yield source
    elif target.path.startswith(_DESCRIPTORS):
        with Path(target.path).open("rb") as file, open_source(file, name=target.path) as source:
            yield source
    else:
        with open_source(target.path, storage_options=storage()) as source:
            yield source


@contextmanager
def open_source_of(target: Target) -> Iterator[Source]:
    """Open the bytes of a target; offsets of errors are relative to the file, even for a part of it."""
    with _open_file(target) as file, _cut(file, target) as named:
        yield named


@contextmanager
def _cut(file: Source, target: Target) -> Iterator[Source]:
    """Yield the part of an open file that the target names; offsets of errors are relative to the file."""
    if target.offset is None:
        yield file
    else:
        part = _part(file, target)
        with part.errors_of_file():
            yield part


@contextmanager
def open_target(target: Target, *, segments: bool = False) -> Iterator[Opened | None]:
    """Open and sniff a target; None for a file of a folder that the command does not handle.

    A file in a folder that is named like a container must be one; otherwise it is corrupt.

    Args:
        target: what to open.
        segments: whether the command handles search segments too.
    """
    with _open_file(target) as file:
        try:
            with _cut(file, target) as named:
                container = sniff_source(named, limits=storage().limits)
            if not segments:
                refuse_segment(container)
        except Unsupported:
            if not target.found or _is_named_so(target.path, segments):
                raise
            yield None
            return
        if isinstance(named, Part):
            container = replace(container, vectors=tuple(_moved(ref, named.base) for ref in container.vectors))
        yield Opened(ahead(file, container.vectors), container, named)


def _is_named_so(path: str, segments: bool) -> bool:
    """Whether a file is named like a container; ``._name`` is what macOS keeps beside a file on other file systems."""
    name = without_query(path) if is_url(path) else Path(path).absolute().as_posix()
    return not name.rpartition("/")[2].startswith("._") and bool(
        _VECTOR_FILE.search(name) or (segments and _SEGMENT_FILE.search(name))
    )


def _moved(ref: VectorRef, base: int) -> VectorRef:
    blob = ref.blob and replace(ref.blob, offset=ref.blob.offset + base)
    return replace(ref, offset=ref.offset + base, blob=blob)

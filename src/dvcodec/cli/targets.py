"""What a user may name: files, globs, folders, ``path@offset:size``, URLs and ``-``."""

from __future__ import annotations

import glob
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import Vector
from dvcodec.io import Source, is_url, open_source
from dvcodec.ops.sniff import Container, VectorRef, read_vector, sniff_source

__all__ = ["Opened", "Target", "expand", "open_target"]

_SLICE = re.compile(r"^(?P<path>.+)@(?P<offset>\d+)(?::(?P<size>\d+))?$")


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to read.

    Attributes:
        path: file, URL, or ``-`` for standard input.
        offset: where to begin in it.
        size: bytes from there, None for all the rest.
        found: whether it was found in a folder, so that a file without vectors is no error.
    """

    path: str
    offset: int = 0
    size: int | None = None
    found: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """A container that is open for reading its vectors."""

    source: Source
    container: Container

    def read(self, ref: VectorRef) -> Vector:
        """Read and walk one vector."""
        return read_vector(self.source, ref)

    def rows(self) -> Iterator[tuple[VectorRef, RowSet]]:
        """Read all vectors."""
        for ref in self.container.vectors:
            yield ref, self.read(ref).load()


def expand(names: list[str]) -> list[Target]:
    """Turn what the user typed into targets, in the order typed; folders and globs are sorted.

    Raises:
        UsageError: a glob or folder that holds no file.
    """
    return [target for name in names for target in _expand(name)]


def _expand(name: str) -> list[Target]:
    path = Path(name)
    if name == "-" or (is_url(name) and not _SLICE.match(name)):
        return [Target(name)]
    if path.is_dir():
        files = [Target(str(file), found=True) for file in sorted(path.rglob("*")) if file.is_file()]
        if not files:
            raise UsageError(f"{name}: no files in this folder")
        return files
    if path.exists():
        return [Target(name)]
    match = _SLICE.match(name)
    if match:
        size = match["size"]
        return [Target(match["path"], int(match["offset"]), None if size is None else int(size))]
    if glob.has_magic(name):
        matches = [Target(found) for found in sorted(glob.glob(name, recursive=True)) if Path(found).is_file()]  # noqa: PTH207
        if not matches:
            raise UsageError(f"{name}: no such files")
        return matches
    return [Target(name)]


class _Slice:
    """A part of a source as a source of its own; errors keep the file's offsets."""

    def __init__(self, source: Source, target: Target) -> None:
        self._source, self._offset = source, target.offset
        self.name = f"{source.name}@{target.offset}"
        self.size = max(source.size - target.offset, 0) if target.size is None else target.size

    def read(self, offset: int, size: int) -> memoryview:
        return self._source.read(self._offset + offset, size)


@contextmanager
def open_source_of(target: Target) -> Iterator[Source]:
    """Open the bytes of a target."""
    whole = sys.stdin.buffer.read() if target.path == "-" else target.path
    with open_source(whole, name="<stdin>" if target.path == "-" else None) as source:
        yield source if target.offset == 0 and target.size is None else _Slice(source, target)


@contextmanager
def open_target(target: Target) -> Iterator[Opened | None]:
    """Open a target and tell what it is; None for a file of a folder that is no container of vectors."""
    with open_source_of(target) as source:
        try:
            container = sniff_source(source)
        except Unsupported:
            if not target.found:
                raise
            yield None
        else:
            yield Opened(source, container)

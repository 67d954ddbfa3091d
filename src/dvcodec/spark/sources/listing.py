"""Find the files to read, and distribute them among tasks. The driver does not open small files.

Files are packed in order into partitions of bounded size; each adds an open cost, that of a request if it is remote.
A larger file is split between its vectors: a Puffin file by byte ranges, as each task finds its vectors in the footer;
a file of frames at the start of a frame, found by hopping over length fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.datasource import InputPartition

from dvcodec.core import frame
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError, NotCanonical, Truncated
from dvcodec.core.frame import FRAME_OVERHEAD, Magic
from dvcodec.core.limits import DEFAULT_LIMITS
from dvcodec.core.ragged import cut_by_weight
from dvcodec.io import Source, Storage
from dvcodec.io.frames import VERSION, check_version
from dvcodec.io.paths import join, split
from dvcodec.io.target import is_local
from dvcodec.ops.sniff import ContainerKind
from dvcodec.puffin import MAGIC as PUFFIN_MAGIC
from dvcodec.spark.sources import storage
from dvcodec.spark.sources.manifest import Committed, committed_in
from dvcodec.spark.sources.options import OPEN_COST_BYTES, REMOTE_OPEN_COST_BYTES, ReadOptions
from dvcodec.spark.sources.storage import FileEntry, Found

__all__ = ["Frames", "Share", "Unit", "hop", "plan"]

_BLOCK = 1 << 18
"""Bytes of one read while hopping: small frames are read through, large ones are skipped."""
_HEAD = 16
_AT_ONCE = 16
"""Large files opened at once: each remote one is a round trip."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A file, or the vectors of it that begin in a byte range.

    Attributes:
        path: path of the file.
        size: bytes of the file; -1 if a manifest names it but it is missing.
        start: first byte of the range.
        stop: byte after the range.
        kind: kind of the container, if the driver determined it; the range then begins and ends between two frames.
        listed: whether the file was found in a folder, not named.
        manifest: the manifest that names the file.
    """

    path: str
    size: int
    start: int
    stop: int
    kind: ContainerKind | None = None
    listed: bool = False
    manifest: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the range is the file."""
        return self.stop - self.start >= self.size


@dataclass(frozen=True)
class Share(InputPartition):
    """The files that one task reads, in order."""

    units: tuple[Unit, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """The frames of a file.

    Attributes:
        offsets: int64[n], bytes.
        sizes: int64[n], bytes.
        has_32_bit: whether one has the magic of Paimon's 32-bit vectors.
    """

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    has_32_bit: bool


def hop(source: Source, start: int, stop: int) -> Frames:
    """Find adjacent frames in a byte range by their length fields.

    Raises:
        DecodeError: an invalid length, or more frames than a file may have.
    """
    offsets: list[int] = []
    small, at, block = Magic.PAIMON32.value, start, Cursor(b"")
    has_32_bit = False
    while at < stop:
        if not block.base <= at <= block.base + block.end - 8:
            block = Cursor(source.read(at, min(_BLOCK, stop - at)), source=source.name, base=at)
        block.pos = at - block.base
        size = frame.peek_size(block)
        if not FRAME_OVERHEAD + 4 <= size <= stop - at:
            kind = Truncated if size > stop - at else NotCanonical
            raise block.error(kind, "length field", expected=f"8 to {stop - at - 8}", actual=size - 8)
        has_32_bit |= block.view[block.pos + 4 : block.pos + 8] == small
        offsets.append(at)
        DEFAULT_LIMITS.check("max_blobs", len(offsets), block)
        at += size
    found = np.array(offsets, np.int64)
    return Frames(found, np.diff(found, append=stop), has_32_bit)


def plan(options: ReadOptions) -> list[Share]:
    """Find the files and distribute them. The same files give the same shares in the same order.

    Raises:
        UsageError: a path that does not exist.
        OSError: a folder or file that cannot be read.
        DecodeError: a manifest that is corrupt.
    """
    stores = Storage(dict(options.storage_options))
    units = list(_units(options, stores))
    large = [unit for unit in units if unit.size > options.partition_bytes]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        cut = dict(zip(large, pool.map(lambda unit: _cut(unit, options.partition_bytes, stores), large), strict=True))
    pieces = [piece for unit in units for piece in cut.get(unit, [unit])]
    costs = np.array([piece.stop - piece.start + _open_cost(piece, options) for piece in pieces], np.int64)
    return [Share(tuple(pieces[part])) for part in cut_by_weight(costs, options.partition_bytes)]


def _units(options: ReadOptions, stores: Storage) -> Iterator[Unit]:
    seen: set[str] = set()
    committed: dict[str, Committed] = {}
    for found in storage.find_all(options.paths, stores):
        for unit in _found(found, committed if options.committed else None, stores):
            if unit.path not in seen:
                seen.add(unit.path)
                yield unit


def _found(found: Found, committed: dict[str, Committed] | None, stores: Storage) -> Iterator[Unit]:
    """Skip files of uncommitted writes; add files that manifests name but that are missing."""
    if committed is None:
        yield from map(_unit, found.files)
        return
    for folder, hidden in found.folders.items():
        committed[folder] = committed_in(folder, hidden, stores)
    there: set[tuple[str, str]] = set()
    for entry in found.files:
        folder, name = split(entry.path)
        if folder not in committed:
            # Web servers do not list their files.
            names = () if folder.lower().startswith(("http://", "https://")) else None
            committed[folder] = committed_in(folder, names, stores)
        there.add((folder, name))
        if not entry.listed or committed[folder].shows(name):
            yield _unit(entry, committed[folder].containers.get(name))
    for folder in found.folders:
        for name, manifest in sorted(committed[folder].containers.items()):
            if (folder, name) not in there:
                yield _unit(FileEntry(join(folder, name), -1, listed=True), manifest)


def _unit(entry: FileEntry, manifest: str | None = None) -> Unit:
    return Unit(entry.path, entry.size, 0, max(entry.size, 0), None, entry.listed, manifest)


def _open_cost(unit: Unit, options: ReadOptions) -> int:
    if options.open_cost is not None:
        return options.open_cost
    return OPEN_COST_BYTES if is_local(unit.path) else REMOTE_OPEN_COST_BYTES


def _cut(unit: Unit, size: int, stores: Storage) -> list[Unit]:
    """Split a large file; a corrupt one, or one of one vector, stays whole: its task reports errors."""
    with stores.open(unit.path, size=unit.size) as source:
        head = bytes(source.read(0, min(source.size, _HEAD)))
        if head[:4] == PUFFIN_MAGIC:
            count = -(-unit.size // size)
            bounds = [unit.size * i // count for i in range(count + 1)]
            return [replace(unit, start=a, stop=b) for a, b in pairwise(bounds)]
        if head[:1] != bytes([VERSION]) or Magic.find(head[5:9]) is None:
            return [unit]
        try:
            frames = hop(source, check_version(source).pos, unit.size)
        except DecodeError:
            return [unit]
    kind = ContainerKind.PAIMON if frames.has_32_bit else ContainerKind.DELTA
    group = (frames.offsets - 1) // size
    first = np.flatnonzero(np.diff(group, prepend=-1))
    bounds = [*frames.offsets[first].tolist(), unit.size]
    return [replace(unit, start=a, stop=b, kind=kind) for a, b in pairwise(bounds)]

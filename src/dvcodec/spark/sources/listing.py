"""Find the files to read, and distribute them among tasks. The driver does not open small files.

Files are packed in order into partitions of bounded size; each adds an open cost, that of a request if it is remote.
A larger file is split between its vectors: a Puffin file by byte ranges, as each task finds its vectors in the footer;
a file of frames at the start of a frame, found by hopping over length fields.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec.core import vector
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError, NotCanonical, Truncated, Unsupported
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import Index, cut_by_weight
from dvcodec.core.vector import FRAME_OVERHEAD, Magic
from dvcodec.formats import Container, ContainerKind, VectorRef
from dvcodec.io import Source, Storage
from dvcodec.io.frames import VERSION, check_version
from dvcodec.io.target import file_key, is_local, join, split
from dvcodec.ops.read import refuse_segment, sniff_source
from dvcodec.puffin import MAGIC as PUFFIN_MAGIC
from dvcodec.spark.compat import datasource
from dvcodec.spark.sources import storage
from dvcodec.spark.sources.manifest import committed_in, stored_in
from dvcodec.spark.sources.options import OPEN_COST_BYTES, REMOTE_OPEN_COST_BYTES, ReadOptions
from dvcodec.spark.sources.storage import FileEntry, FoundFiles

_BLOCK = 1 << 18
"""Bytes of one read while hopping: small frames are read through, large ones are skipped."""
_HEAD = 16
_AT_ONCE = 16
"""Large files opened at once: each remote one is a round trip."""


@dataclass(frozen=True, slots=True)
class FileSplit:
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
class FilePartition(datasource.InputPartition):
    """The files that one task reads, in order."""

    splits: tuple[FileSplit, ...]


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


def find_frames(source: Source, start: int, stop: int, limits: Limits = DEFAULT_LIMITS) -> Frames:
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
        size = vector.peek_size(block)
        if not FRAME_OVERHEAD + 4 <= size <= stop - at:
            kind = Truncated if size > stop - at else NotCanonical
            raise block.error(kind, "length field", expected=f"8 to {stop - at - 8}", actual=size - 8)
        has_32_bit |= block.view[block.pos + 4 : block.pos + 8] == small
        offsets.append(at)
        limits.check("max_records", len(offsets), block)
        at += size
    found = np.array(offsets, np.int64)
    return Frames(found, np.diff(found, append=stop), has_32_bit)


def plan(options: ReadOptions) -> list[FilePartition]:
    """Find the files and distribute them. The same files give the same partitions in the same order.

    Raises:
        UsageError: a path that does not exist.
        OSError: a folder or file that cannot be read.
        DecodeError: a manifest that is corrupt.
    """
    stores = Storage(dict(options.storage_options), options.limits)
    splits = list(_splits(options, stores))
    large = [part for part in splits if part.size > options.partition_bytes]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        cut = dict(zip(large, pool.map(lambda part: _cut(part, options.partition_bytes, stores), large), strict=True))
    pieces = [piece for part in splits for piece in cut.get(part, [part])]
    costs = np.array([piece.stop - piece.start + _open_cost(piece, options) for piece in pieces], np.int64)
    return [FilePartition(tuple(pieces[part])) for part in cut_by_weight(costs, options.partition_bytes)]


def _splits(options: ReadOptions, stores: Storage) -> Iterator[FileSplit]:
    seen: set[str] = set()
    committed: dict[str, dict[str, str] | None] = {}
    for found in storage.find_all(options.paths, stores):
        for part in _found(found, committed if options.committed else None, stores):
            if part.path not in seen:
                seen.add(part.path)
                yield part


def _found(
    found: FoundFiles, committed: dict[str, dict[str, str] | None] | None, stores: Storage
) -> Iterator[FileSplit]:
    """Skip files that no manifest of their folder names; add files that manifests name but that are missing."""
    if committed is None:
        yield from map(_split, found.files)
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
        containers = committed[folder]
        if not entry.listed or containers is None or name in containers:
            yield _split(entry, (containers or {}).get(name))
    for folder in found.folders:
        for name, manifest in sorted((committed[folder] or {}).items()):
            if (folder, name) not in there:
                path, size = join(folder, name), -1
                with suppress(FileNotFoundError):  # the commit may have been after the listing
                    size = stores.stat(path).size
                yield _split(FileEntry(path, size, listed=True), manifest)


def _split(entry: FileEntry, manifest: str | None = None) -> FileSplit:
    return FileSplit(entry.path, entry.size, 0, max(entry.size, 0), None, entry.listed, manifest)


def _open_cost(part: FileSplit, options: ReadOptions) -> int:
    if options.open_cost is not None:
        return options.open_cost
    return OPEN_COST_BYTES if is_local(part.path) else REMOTE_OPEN_COST_BYTES


def _cut(part: FileSplit, size: int, stores: Storage) -> list[FileSplit]:
    """Split a large file; a corrupt one, or one of one vector, stays whole: its task reports errors."""
    with stores.open(part.path, size=part.size) as source:
        head = bytes(source.read(0, min(source.size, _HEAD)))
        if head[:4] == PUFFIN_MAGIC:
            count = -(-part.size // size)
            bounds = [part.size * i // count for i in range(count + 1)]
            return [replace(part, start=a, stop=b) for a, b in pairwise(bounds)]
        if head[:1] != bytes([VERSION]) or Magic.find(head[5:9]) is None:
            return [part]
        try:
            frames = find_frames(source, check_version(source).pos, part.size, stores.limits)
        except DecodeError:
            return [part]
    kind = ContainerKind.PAIMON if frames.has_32_bit else ContainerKind.DELTA
    group = (frames.offsets - 1) // size
    first = np.flatnonzero(np.diff(group, prepend=-1))
    bounds = [*frames.offsets[first].tolist(), part.size]
    return [replace(part, start=a, stop=b, kind=kind) for a, b in pairwise(bounds)]


@dataclass(frozen=True, slots=True, eq=False)
class VectorRanges:
    """Byte ranges of the vectors in one container, and their metadata.

    Attributes:
        path: path or URL of the container.
        kind: kind of the container; decides which vector layouts are valid.
        format: value of the column ``format``, None for null.
        offsets: int64[n], first byte of each vector; -1 if unknown.
        lengths: int64[n], bytes of each; -1 if unknown.
        stated: int64[n], cardinality in the metadata; -1 if it has none.
        data_files: data file of each.
        refs: as `sniff_source` returns them; None for ranges found otherwise.
    """

    path: str
    kind: ContainerKind
    format: str | None
    offsets: Index
    lengths: Index
    stated: Index
    data_files: list[str | None]
    refs: tuple[VectorRef, ...] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, index: Index) -> VectorRanges:
        """Return the ranges at these indices."""
        where = index.tolist()
        return replace(
            self,
            offsets=self.offsets[index],
            lengths=self.lengths[index],
            stated=self.stated[index],
            data_files=[self.data_files[i] for i in where],
            refs=None if self.refs is None else tuple(self.refs[i] for i in where),
        )

    def ref(self, i: int) -> VectorRef:
        """Return one range as a `VectorRef`."""
        if self.refs is not None:
            return replace(self.refs[i], cardinality=None if self.stated[i] < 0 else int(self.stated[i]))
        return VectorRef(self.kind, int(self.offsets[i]), int(self.lengths[i]))


@dataclass(frozen=True, slots=True)
class Want:
    """What to read from each container.

    Attributes:
        kind: the only kind accepted, None for any.
        ignore_others: whether files of a folder that are not such containers are skipped.
        verify_checksum: False skips the CRCs.
        content: False does not read the vectors' bytes.
        data_files: only vectors of these data files, spelled exactly so; None for all.
        file_keys: only vectors of data files with these keys (`io.target.file_key`); None for all.
    """

    kind: ContainerKind | None = None
    ignore_others: bool = False
    verify_checksum: bool = True
    content: bool = True
    data_files: frozenset[str] | None = None
    file_keys: frozenset[str] | None = None


def index_vectors(source: Source, part: FileSplit, limits: Limits = DEFAULT_LIMITS) -> VectorRanges:
    """Find the vectors of a container: by hopping if the driver determined its kind, else by its own metadata.

    Raises:
        DecodeError: it is not a container, or is corrupt.
        OSError: it cannot be read.
    """
    if part.kind is not None:
        frames = find_frames(source, part.start, part.stop, limits)
        n, kind = len(frames.offsets), part.kind
        unknown = np.full(n, -1, np.int64)
        return VectorRanges(part.path, kind, kind.value, frames.offsets, frames.sizes, unknown, [None] * n)
    with _uncollected():
        return _of_container(part.path, refuse_segment(sniff_source(source, limits=limits)))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause garbage collection while a footer is parsed into thousands of objects.

    Repeated scans would take a third of the time. A task parses in one thread; threads that fetch files ahead create
    no reference cycles.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _of_container(path: str, container: Container) -> VectorRanges:
    refs = container.vectors
    stated = (-1 if ref.cardinality is None else ref.cardinality for ref in refs)
    return VectorRanges(
        path,
        container.kind,
        container.kind.value,
        np.array([ref.offset for ref in refs], np.int64),
        np.array([ref.size for ref in refs], np.int64),
        np.fromiter((min(count, 2**63 - 1) for count in stated), np.int64, len(refs)),
        [ref.data_file for ref in refs],
        refs,
    )


def expected(found: VectorRanges, source: Source, want: Want) -> VectorRanges:
    """Check the kind. A file of 64-bit vectors may be Delta's or Paimon's.

    Raises:
        Unsupported: it is not the kind that is wanted.
    """
    if want.kind is None or found.kind is want.kind:
        return found
    if want.kind is ContainerKind.PAIMON and found.kind is ContainerKind.DELTA:
        refs = found.refs and tuple(replace(ref, kind=want.kind) for ref in found.refs)
        return replace(found, kind=want.kind, format=want.kind.value, refs=refs)
    raise Unsupported("container", source=source.name, expected=want.kind.value, actual=found.kind.value)


def wanted(found: VectorRanges, part: FileSplit, source: Source, want: Want, stores: Storage) -> VectorRanges:
    """Add the manifest's metadata, and keep the vectors of this split and of the requested data files.

    Args:
        found: the vectors of a container.
        part: the container, or a part of it.
        source: source of the container.
        want: what to read.
        stores: opens the manifest.

    Raises:
        NotCanonical: the manifest is corrupt.
        OSError: it cannot be read.
    """
    if part.manifest and found.kind in (ContainerKind.DELTA, ContainerKind.PAIMON):
        found = _named(found, stored_in(part.manifest, split(part.path)[1], stores))
    keep = np.ones(len(found), np.bool_)
    if part.kind is None and not part.is_whole:
        begins = np.clip(found.offsets, 0, max(source.size - 1, 0))
        keep &= (part.start <= begins) & (begins < part.stop)
    if want.data_files is not None:
        keep &= np.array([name in want.data_files for name in found.data_files], np.bool_)
    if want.file_keys is not None:
        keep &= np.array([name is not None and file_key(name) in want.file_keys for name in found.data_files], np.bool_)
    return found if keep.all() else found.take(np.flatnonzero(keep))


def _named(found: VectorRanges, stored: pa.Table) -> VectorRanges:
    """Add the data files and cardinalities of a manifest, by offset."""
    if not len(stored):
        return found
    stored = stored.sort_by("offset")
    offsets = stored["offset"].to_numpy()
    index = np.minimum(np.searchsorted(offsets, found.offsets), len(offsets) - 1)
    there = offsets[index] == found.offsets
    stated = np.where(there, stored["cardinality"].to_numpy()[index], -1)
    names = stored["data_file"].take(pa.array(index, mask=~there)).to_pylist()
    return replace(found, stated=stated, data_files=names)

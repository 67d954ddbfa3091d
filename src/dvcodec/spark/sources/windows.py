"""The vectors of containers, read in windows: pieces of some megabytes, each read at once.

The vectors are those of a file, or those that a table's metadata names. Vectors that are not plain frames (bare
bitmaps, footer entries out of range) are read one by one by `ops.read`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec.core.errors import DecodeError, DvcodecError, Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import Index, u32
from dvcodec.core.vector import FRAME_OVERHEAD, UNCOUNTED, Magic
from dvcodec.formats import ContainerKind, VectorRef
from dvcodec.iceberg import CARDINALITY
from dvcodec.io import Source, Storage, open_source
from dvcodec.io.frames import VERSION
from dvcodec.io.source import WINDOW_BYTES, BlockSource, beyond_end, coalesce
from dvcodec.io.storage import HEAD_BYTES, WHOLE_BYTES
from dvcodec.io.target import file_key, is_local, split
from dvcodec.ops.convert import GapKeys, portable_frame
from dvcodec.ops.read import ALLOWED, read_vector, refuse_segment, sniff_source
from dvcodec.puffin import MAGIC as PUFFIN_MAGIC
from dvcodec.spark.columns import numbers, texts_of
from dvcodec.spark.sources.files import FileSplit, run_ahead
from dvcodec.spark.sources.options import ReadOptions
from dvcodec.spark.sources.writer import stored_in


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
        refs: as `sniff_source` returns them; empty for ranges found otherwise.
    """

    path: str
    kind: ContainerKind
    format: str | None
    offsets: Index
    lengths: Index
    stated: Index
    data_files: list[str | None]
    refs: tuple[VectorRef, ...] = ()

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
            refs=tuple(self.refs[i] for i in where) if self.refs else (),
        )

    def ref(self, i: int) -> VectorRef:
        """Return one range as a `VectorRef`."""
        return replace(self.refs[i], cardinality=None if self.stated[i] < 0 else int(self.stated[i]))


def index_vectors(source: Source, path: str, limits: Limits = DEFAULT_LIMITS) -> VectorRanges:
    """Find the vectors of a container.

    Raises:
        DecodeError: it is not a container, or is corrupt.
        OSError: it cannot be read.
    """
    container = refuse_segment(sniff_source(source, limits=limits))
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


def expected(found: VectorRanges, source: Source, kind: ContainerKind | None) -> VectorRanges:
    """Check the kind. A file of 64-bit vectors may be Delta's or Paimon's.

    Raises:
        Unsupported: it is not the kind that is wanted.
    """
    if kind is None or found.kind is kind:
        return found
    if kind is ContainerKind.PAIMON and found.kind is ContainerKind.DELTA:
        refs = tuple(replace(ref, kind=kind) for ref in found.refs)
        return replace(found, kind=kind, format=kind.value, refs=refs)
    raise Unsupported("container", source=source.name, expected=kind.value, actual=found.kind.value)


def wanted(found: VectorRanges, part: FileSplit, source: Source, options: ReadOptions, stores: Storage) -> VectorRanges:
    """Add the manifest's metadata, and keep the vectors of this split and of the requested data files.

    Args:
        found: the vectors of a container.
        part: the container, or a part of it.
        source: source of the container.
        options: what to read.
        stores: opens the manifest.

    Raises:
        NotCanonical: the manifest is corrupt.
        OSError: it cannot be read.
    """
    if part.manifest and found.kind in (ContainerKind.DELTA, ContainerKind.PAIMON):
        found = _named(found, stored_in(part.manifest, split(part.path)[1], stores))
    keep = np.ones(len(found), np.bool_)
    if not part.is_whole:
        begins = np.clip(found.offsets, 0, max(source.size - 1, 0))
        keep &= (part.start <= begins) & (begins < part.stop)
    names, keys = options.pushed, options.file_keys
    if names is not None:
        keep &= np.array([name in names for name in found.data_files], np.bool_)
    if keys is not None:
        keep &= np.array([name is not None and file_key(name) in keys for name in found.data_files], np.bool_)
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


_SMALL = 1 << 20
"""Files of at most this many bytes are read whole before they are identified."""
HEAD = 16
"""Bytes by which most kinds of container are known."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Vectors of one container that were read together.

    Attributes:
        ranges: ranges of the vectors.
        data: bytes of the frames, and perhaps others.
        starts: int64[n], first byte of each frame in `data`.
        sizes: int64[n], bytes of each frame in `data`; 0 for none.
        base: offset of `data` in the file.
        name: name of the source, for errors.
        error: why none of them could be read.
        mix: containers of each kind in the file, of a vector that was framed here.
    """

    ranges: VectorRanges
    data: NDArray[np.uint8]
    starts: Index
    sizes: Index
    base: int = 0
    name: str = ""
    error: str | None = None
    mix: tuple[int, int, int] | None = None

    @classmethod
    def unread(cls, ranges: VectorRanges, error: str | None = None) -> Window:
        """Return a window without bytes."""
        none = np.zeros(len(ranges), np.int64)
        return cls(ranges, np.zeros(0, np.uint8), none, none, error=error)


def windows(part: FileSplit, options: ReadOptions, stores: Storage, *, content: bool = True) -> Iterator[Window]:
    """Read the vectors of a split. Corrupt bytes give a window of one row with the error; they never raise.

    Args:
        part: a file, or a part of one.
        options: what to read of it.
        stores: opens it.
        content: False does not read the bytes of vectors.

    Raises:
        OSError: the file cannot be read.
    """
    if part.size < 0:
        why = f"{part.manifest} names it" if part.manifest else "a broken link"
        yield _failure(part, None, f"{part.path}: no such file ({why})")
        return
    with stores.open(part.path, size=part.size) as opened, _near(opened, part, content) as source:
        kind = None
        try:
            found = index_vectors(source, part.path, stores.limits)
            kind = found.kind
            found = expected(found, source, options.kind)
        except DecodeError as err:
            ignored = options.ignore_others and part.listed and isinstance(err, Unsupported)
            if part.start == 0 and not ignored:
                yield _failure(part, kind, str(err))
            return
        found = wanted(found, part, source, options, stores)
        if not content:
            if len(found):
                yield Window.unread(found)
        elif found.kind in ALLOWED:
            yield from _framed(source, found, options)
        else:
            for i in range(len(found)):
                yield _alone(source, found.take(np.array([i])), options)


def _failure(part: FileSplit, kind: ContainerKind | None, error: str) -> Window:
    unknown = np.full(1, -1, np.int64)
    format_name = None if kind is None else kind.value
    ranges = VectorRanges(part.path, kind or ContainerKind.BLOB, format_name, unknown, unknown, unknown, [None])
    return Window.unread(ranges, error)


@contextmanager
def _near(opened: Source, part: FileSplit, content: bool) -> Iterator[Source]:
    """Read a container whole if all of it will be needed; read other files in small blocks."""
    if not part.is_whole or not content:
        yield BlockSource(opened)
        return
    if opened.size > _SMALL:
        head = bytes(opened.read(0, HEAD))
        known = head[:4] == PUFFIN_MAGIC or Magic.find(head[4:8]) or (head[0] == VERSION and Magic.find(head[5:9]))
        if not known or opened.size > 2 * WINDOW_BYTES:
            yield BlockSource(opened)
            return
    with open_source(opened.read(0, opened.size), name=opened.name) as held:
        yield held


def _framed(source: Source, found: VectorRanges, options: ReadOptions) -> Iterator[Window]:
    plain = (found.offsets >= 0) & (found.lengths > 0) & (found.lengths <= source.size - found.offsets)
    for i, ref in enumerate(found.refs):  # `read_vector` refuses these before it reads
        blob = ref.blob
        if blob is not None and (
            blob.compression_codec is not None or (CARDINALITY in blob.properties and ref.cardinality is None)
        ):
            plain[i] = False
    for i in np.flatnonzero(~plain).tolist():
        yield _alone(source, found.take(np.array([i])), options)
    if not plain.all():
        found = found.take(np.flatnonzero(plain))
    order = np.argsort(found.offsets, kind="stable")
    if (np.diff(order) < 0).any():
        found = found.take(order)
    yield from _together(source, found, found.lengths)


def _together(source: Source, found: VectorRanges, sizes: Index, beyond: int = 0) -> Iterator[Window]:
    """Read vectors in the order of their offsets, neighbours at once, and so many bytes beyond them."""
    for first, last, start, stop in coalesce(found.offsets, sizes):
        part = found if last - first == len(found) else found.take(np.arange(first, last))
        try:
            data = np.frombuffer(source.read(start, min(stop + beyond, source.size) - start), np.uint8)
        except DecodeError as err:  # the file has shrunk
            yield Window.unread(part, str(err))
            continue
        yield Window(part, data, part.offsets - start, sizes[first:last], start, source.name)


def _alone(source: Source, found: VectorRanges, options: ReadOptions) -> Window:
    """Read one vector by itself, and frame it if it has no frame."""
    try:
        vector = read_vector(source, found.ref(0), verify_checksum=options.verify_checksum)
        vector.check()
        data = np.frombuffer(bytes(portable_frame(vector, GapKeys())), np.uint8)
    except (DecodeError, UsageError) as err:
        return Window.unread(found, str(err))
    return Window(found, data, np.zeros(1, np.int64), np.full(1, len(data), np.int64), mix=vector.view.mix)


def located_windows(containers: Iterable[VectorRanges], stores: Storage) -> Iterator[Window]:
    """Read the vectors of containers in order; remote ones of few vectors are read ahead.

    Errors, a missing container included, are reported in the rows and never raised.
    """

    def job(places: VectorRanges) -> tuple[int, Callable[[], list[Window]]] | None:
        size = int(np.where(places.lengths < 0, HEAD_BYTES, places.lengths).sum())
        return None if size > WHOLE_BYTES else (size, lambda: list(_windows(places, stores)))

    left = iter(containers)
    for first in left:
        every = chain([first], left)
        if _is_local(first.path):
            yield from chain.from_iterable(_windows(places, stores) for places in every)
        else:
            for places, found in run_ahead(every, job, stores.threads(first.path)):
                yield from _windows(places, stores) if found is None else found


def _is_local(path: str) -> bool:
    """Whether a path is local; an invalid path is an error of its container."""
    try:
        return is_local(path)
    except UsageError:
        return True


def _windows(places: VectorRanges, stores: Storage) -> Iterator[Window]:
    try:
        with stores.open(places.path) as source:
            places = places.take(np.argsort(places.offsets, kind="stable"))
            yield from _read(source, places)
    except (OSError, DvcodecError) as err:
        yield Window.unread(places, str(err))


def _read(source: Source, places: VectorRanges) -> Iterator[Window]:
    room = source.size - places.offsets
    asked = np.where(places.lengths < 0, FRAME_OVERHEAD, places.lengths)
    outside = (places.offsets < 0) | (asked > room)
    for i in np.flatnonzero(outside).tolist():
        one = places.take(np.array([i]))
        offset, size = int(one.offsets[0]), int(one.lengths[0])
        yield Window.unread(one, str(beyond_end(source, offset, size)))
    places = places.take(np.flatnonzero(~outside))
    sizes = np.where(places.lengths < 0, _claimed(source, places), places.lengths)
    # A frame may be 8 bytes longer than its stated size.
    for window in _together(source, places, sizes, UNCOUNTED):
        data, starts, lengths = window.data, window.starts, window.sizes.copy()
        whole = np.flatnonzero(lengths >= 4)
        claimed = u32(data, starts[whole]).astype("<u4").byteswap().astype(np.int64)
        short = whole[(claimed == lengths[whole]) & (starts[whole] + claimed + UNCOUNTED <= len(data))]
        lengths[short] += UNCOUNTED
        yield replace(window, sizes=lengths)


def _claimed(source: Source, places: VectorRanges) -> Index:
    """Return the size of each frame by its length field, at most to the end of the file."""
    out = np.zeros(len(places), np.int64)
    for i in np.flatnonzero(places.lengths < 0).tolist():
        offset = int(places.offsets[i])
        length = int.from_bytes(source.read(offset, 4), "big")
        out[i] = min(length + UNCOUNTED, source.size - offset)
    return out


def containers_of(batch: pa.RecordBatch) -> Iterator[VectorRanges]:
    """Split a sorted batch of ``container, offset, size, cardinality, data_file, format`` by container.

    An offset is that of a frame's length field; a size is that of the whole frame, or of magic and bitmap; -1 leaves it
    to the frame.
    """
    containers, data_files, formats = (texts_of(batch.column(name)) for name in ("container", "data_file", "format"))
    offsets, sizes, stated = (numbers(batch.column(name)) for name in ("offset", "size", "cardinality"))
    codes = batch.column("container").dictionary_encode().indices.to_numpy(zero_copy_only=False)
    bounds = [*np.flatnonzero(np.diff(codes, prepend=-1)).tolist(), len(codes)]
    for a, b in pairwise(bounds):
        columns = (offsets[a:b], sizes[a:b], stated[a:b], data_files[a:b])
        yield VectorRanges(containers[a], ContainerKind.BLOB, formats[a], *columns)

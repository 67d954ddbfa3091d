"""Windows: pieces of a container of some megabytes, each read at once, and the vectors in them.

The vectors are those of a file, or those that a table's metadata names. Vectors that are not plain frames (bare
bitmaps, footer entries out of range) are read one by one by `ops.read`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec.core.errors import DecodeError, DvcodecError, Truncated, Unsupported, UsageError
from dvcodec.core.ragged import Index, u32
from dvcodec.core.vector import FRAME_OVERHEAD, UNCOUNTED, Magic
from dvcodec.formats import ContainerKind
from dvcodec.iceberg import CARDINALITY
from dvcodec.io import Source, Storage, open_source
from dvcodec.io.frames import VERSION
from dvcodec.io.source import WINDOW_BYTES, BlockSource, beyond_end, coalesce
from dvcodec.io.storage import HEAD_BYTES, WHOLE_BYTES
from dvcodec.io.target import is_local
from dvcodec.ops.convert import GapKeys, portable_frame
from dvcodec.ops.read import ALLOWED, read_vector
from dvcodec.puffin import MAGIC as PUFFIN_MAGIC
from dvcodec.spark.columns import numbers, texts_of
from dvcodec.spark.sources.listing import FileSplit, VectorRanges, Want, expected, index_vectors, wanted
from dvcodec.spark.sources.requests import run_ahead

_SMALL = 1 << 20
"""Files of at most this many bytes are read whole before they are identified."""
_HEAD = 16


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of reading one vector (or of a file that gives one row)."""

    error: str | None
    cardinality: int = 0
    min: int = -1
    max: int = -1
    mix: tuple[int, int, int] = (0, 0, 0)


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
        outcomes: results that are known already, by index.
    """

    ranges: VectorRanges
    data: NDArray[np.uint8]
    starts: Index
    sizes: Index
    base: int = 0
    name: str = ""
    outcomes: dict[int, Outcome] = field(default_factory=dict)

    @classmethod
    def unread(cls, ranges: VectorRanges, error: str | None = None) -> Window:
        """Return a window without bytes; with an error, every vector of it has this error."""
        none = np.zeros(len(ranges), np.int64)
        outcomes = {} if error is None else dict.fromkeys(range(len(ranges)), Outcome(error))
        return cls(ranges, np.zeros(0, np.uint8), none, none, outcomes=outcomes)


def windows(part: FileSplit, want: Want, stores: Storage) -> Iterator[Window]:
    """Read the vectors of a split. Corrupt bytes give a window of one row with the error; they never raise.

    Args:
        part: a file, or a part of one.
        want: what to read of it.
        stores: opens it.

    Raises:
        OSError: the file cannot be read.
    """
    if part.size < 0:
        why = f"{part.manifest} names it" if part.manifest else "a broken link"
        yield _failure(part, None, f"{part.path}: no such file ({why})")
        return
    with stores.open(part.path, size=part.size) as opened, _near(opened, part, want) as source:
        kind = None
        try:
            found = index_vectors(source, part, stores.limits)
            kind = found.kind
            found = expected(found, source, want)
        except DecodeError as err:
            ignored = want.ignore_others and part.listed and isinstance(err, Unsupported)
            if part.start == 0 and not ignored:
                yield _failure(part, kind, str(err))
            return
        found = wanted(found, part, source, want, stores)
        if not want.content:
            if len(found):
                yield Window.unread(found)
        elif found.kind in ALLOWED:
            yield from _framed(source, found, want)
        else:
            for i in range(len(found)):
                yield _alone(source, found.take(np.array([i])), want)


def _failure(part: FileSplit, kind: ContainerKind | None, error: str) -> Window:
    unknown = np.full(1, -1, np.int64)
    format_name = None if kind is None else kind.value
    ranges = VectorRanges(part.path, kind or ContainerKind.BLOB, format_name, unknown, unknown, unknown, [None])
    return Window.unread(ranges, error)


@contextmanager
def _near(opened: Source, part: FileSplit, want: Want) -> Iterator[Source]:
    """Read a container whole if all of it will be needed; read other files in small blocks."""
    if not part.is_whole or not want.content:
        yield opened if part.kind else BlockSource(opened)
        return
    if opened.size > _SMALL:
        head = bytes(opened.read(0, _HEAD))
        known = head[:4] == PUFFIN_MAGIC or Magic.find(head[4:8]) or (head[0] == VERSION and Magic.find(head[5:9]))
        if not known or opened.size > 2 * WINDOW_BYTES:
            yield BlockSource(opened)
            return
    with open_source(opened.read(0, opened.size), name=opened.name) as held:
        yield held


def _framed(source: Source, found: VectorRanges, want: Want) -> Iterator[Window]:
    plain = (found.offsets >= 0) & (found.lengths > 0) & (found.lengths <= source.size - found.offsets)
    for i, ref in enumerate(found.refs or ()):  # `read_vector` refuses these before it reads
        blob = ref.blob
        if blob is not None and (
            blob.compression_codec is not None or (CARDINALITY in blob.properties and ref.cardinality is None)
        ):
            plain[i] = False
    for i in np.flatnonzero(~plain).tolist():
        yield _alone(source, found.take(np.array([i])), want)
    if not plain.all():
        found = found.take(np.flatnonzero(plain))
    order = np.argsort(found.offsets, kind="stable")
    if (np.diff(order) < 0).any():
        found = found.take(order)
    for first, last, start, stop in coalesce(found.offsets, found.lengths):
        part = found if last - first == len(order) else found.take(np.arange(first, last))
        try:
            data = np.frombuffer(source.read(start, stop - start), np.uint8)
        except Truncated as err:  # the file has shrunk
            yield Window.unread(part, str(err))
            continue
        yield Window(part, data, part.offsets - start, part.lengths, start, source.name)


def _alone(source: Source, found: VectorRanges, want: Want) -> Window:
    """Read one vector by itself, and frame it if it has no frame."""
    try:
        vector = read_vector(source, found.ref(0), verify_checksum=want.verify_checksum)
        vector.check()
        data = np.frombuffer(bytes(portable_frame(vector, GapKeys())), np.uint8)
    except (DecodeError, UsageError) as err:
        return Window.unread(found, str(err))
    view = vector.view
    low, high = (-1, -1) if view.min is None or view.max is None else (view.min, view.max)
    outcome = Outcome(None, vector.cardinality, low, high, view.mix)
    start, size = np.zeros(1, np.int64), np.full(1, len(data), np.int64)
    return Window(found, data, start, size, outcomes={0: outcome})


def located_windows(containers: Iterable[VectorRanges], stores: Storage) -> Iterator[Window]:
    """Read the vectors of containers in order; of remote ones the next are prefetched.

    Errors, a missing container included, are reported in the rows and never raised.
    """
    for places, found in _ahead(containers, stores):
        yield from _windows(places, stores) if found is None else found


def _ahead(containers: Iterable[VectorRanges], stores: Storage) -> Iterator[tuple[VectorRanges, list[Window] | None]]:
    """Return containers in order, remote ones of few vectors with their windows."""
    found: dict[int, list[Window]] = {}

    def job(one: tuple[int, VectorRanges]) -> tuple[int, Callable[[], object]] | None:
        number, places = one
        size = int(np.where(places.lengths < 0, HEAD_BYTES, places.lengths).sum())
        if size > WHOLE_BYTES:
            return None
        return size, lambda: found.update({number: list(_windows(places, stores))})

    left = iter(containers)
    first = next(left, None)
    if first is None:
        return
    if _is_local(first.path):
        yield from ((places, None) for places in chain([first], left))
        return
    threads = stores.threads(first.path)
    for number, places in run_ahead(enumerate(chain([first], left)), job, threads):
        yield places, found.pop(number, None)


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
    for first, last, start, stop in coalesce(places.offsets, sizes):
        part = places.take(np.arange(first, last))
        try:
            # The frame may be 8 bytes longer than its stated size.
            data = np.frombuffer(source.read(start, min(stop + UNCOUNTED, source.size) - start), np.uint8)
        except DecodeError as err:
            yield Window.unread(part, str(err))
            continue
        starts, lengths = part.offsets - start, sizes[first:last].copy()
        whole = np.flatnonzero(lengths >= 4)
        claimed = u32(data, starts[whole]).astype("<u4").byteswap().astype(np.int64)
        short = whole[(claimed == lengths[whole]) & (starts[whole] + claimed + UNCOUNTED <= len(data))]
        lengths[short] += UNCOUNTED
        yield Window(part, data, starts, lengths, start, source.name)


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

"""Vectors at ranges that a table's metadata names; adjacent ranges are read together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa

from dvcodec.core.errors import DecodeError, DvcodecError, UsageError
from dvcodec.core.frame import FRAME_OVERHEAD, UNCOUNTED
from dvcodec.core.ragged import Index, u32
from dvcodec.io import Source, Storage
from dvcodec.io.coalesce import coalesce
from dvcodec.io.remote import HEAD_BYTES, WHOLE_BYTES
from dvcodec.io.source import beyond_end
from dvcodec.io.target import is_local
from dvcodec.ops.sniff import ContainerKind
from dvcodec.spark.columns import numbers, texts_of
from dvcodec.spark.sources.ahead import run_ahead
from dvcodec.spark.sources.listing import VectorRanges
from dvcodec.spark.sources.read_windows import Window

__all__ = ["containers_of", "located_windows"]


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

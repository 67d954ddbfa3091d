"""Vectors whose places a table's metadata names: read by byte ranges, neighbours together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec.core.errors import DecodeError, DvcodecError, Truncated, UsageError
from dvcodec.core.frame import FRAME_OVERHEAD, UNCOUNTED
from dvcodec.core.scattered import u32
from dvcodec.io import Source, Storage
from dvcodec.io.remote import HEAD_BYTES, WHOLE_BYTES
from dvcodec.io.stretches import stretches
from dvcodec.io.target import local_path
from dvcodec.ops.sniff import ContainerKind
from dvcodec.spark.sources.ahead import run_ahead
from dvcodec.spark.sources.windows import Outcome, Window

__all__ = ["Located", "containers_of", "located_windows"]

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """Places of vectors in one container.

    Attributes:
        path: the container.
        offsets: int64[n], where each frame's length field is.
        sizes: int64[n], bytes: the whole frame, or magic and bitmap alone; -1 for as long as the frame says.
        promised: int64[n], rows that metadata promises; -1 where it does not.
        data_files: whose rows these are.
        format: what metadata calls the format, None where it does not.
    """

    path: str
    offsets: Index
    sizes: Index
    promised: Index
    data_files: list[str | None]
    format: str | None = None

    def take(self, index: Index) -> Located:
        """Return some of them."""
        names = [self.data_files[i] for i in index.tolist()]
        return replace(
            self, offsets=self.offsets[index], sizes=self.sizes[index], promised=self.promised[index], data_files=names
        )

    def window(self, **more: object) -> Window:
        """Return what is read of them."""
        return Window(
            self.path,
            ContainerKind.BLOB,
            self.offsets,
            self.sizes,
            self.promised,
            self.data_files,
            label=self.format,
            **more,  # type: ignore[arg-type]
        )

    def failed(self, error: str) -> Window:
        """Return rows that all have an error."""
        none = np.zeros(len(self.offsets), np.int64)
        return self.window(starts=none, sizes=none, outcomes=dict.fromkeys(range(len(none)), Outcome(error)))


def located_windows(containers: Iterable[Located], stores: Storage) -> Iterator[Window]:
    """Read the vectors of containers in their order, of remote ones the next ahead.

    What is wrong, the absence of a container too, is in the rows, never raised.
    """
    for places, found in _ahead(containers, stores):
        yield from _windows(places, stores) if found is None else found


def _ahead(containers: Iterable[Located], stores: Storage) -> Iterator[tuple[Located, list[Window] | None]]:
    """Return containers in their order, those that are remote and of few vectors with their windows."""
    found: dict[int, list[Window]] = {}

    def job(one: tuple[int, Located]) -> tuple[int, Callable[[], object]] | None:
        number, places = one
        size = int(np.where(places.sizes < 0, HEAD_BYTES, places.sizes).sum())
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
    """Whether a path is local; one that no path can be is an error of its container."""
    try:
        return local_path(path) is not None
    except UsageError:
        return True


def _windows(places: Located, stores: Storage) -> Iterator[Window]:
    try:
        with stores.open(places.path) as source:
            places = places.take(np.argsort(places.offsets, kind="stable"))
            yield from _read(source, places)
    except (OSError, DvcodecError) as err:
        yield places.failed(str(err))


def _read(source: Source, places: Located) -> Iterator[Window]:
    room = source.size - places.offsets
    asked = np.where(places.sizes < 0, FRAME_OVERHEAD, places.sizes)
    outside = (places.offsets < 0) | (asked > room)
    for i in np.flatnonzero(outside).tolist():
        one = places.take(np.array([i]))
        offset, size = int(one.offsets[0]), int(one.sizes[0])
        error = Truncated(
            "byte range",
            source=source.name,
            offset=offset,
            expected=f"{size} bytes",
            actual=f"{max(source.size - offset, 0)} left",
        )
        yield one.failed(str(error))
    places = places.take(np.flatnonzero(~outside))
    sizes = np.where(places.sizes < 0, _claimed(source, places), places.sizes)
    for first, last, start, stop in stretches(places.offsets, sizes):
        part = places.take(np.arange(first, last))
        try:
            # The frame may be 8 bytes longer than the size that is stated.
            data = np.frombuffer(source.read(start, min(stop + UNCOUNTED, source.size) - start), np.uint8)
        except DecodeError as err:
            yield part.failed(str(err))
            continue
        starts, lengths = part.offsets - start, sizes[first:last].copy()
        whole = np.flatnonzero(lengths >= 4)
        claimed = u32(data, starts[whole]).astype("<u4").byteswap().astype(np.int64)
        short = whole[(claimed == lengths[whole]) & (starts[whole] + claimed + UNCOUNTED <= len(data))]
        lengths[short] += UNCOUNTED
        yield part.window(data=data, starts=starts, sizes=lengths, base=start, name=source.name)


def _claimed(source: Source, places: Located) -> Index:
    """Return the size of each frame as its length field has it, cut to the file."""
    out = np.zeros(len(places.offsets), np.int64)
    for i in np.flatnonzero(places.sizes < 0).tolist():
        offset = int(places.offsets[i])
        length = int.from_bytes(source.read(offset, 4), "big")
        out[i] = min(length + UNCOUNTED, source.size - offset)
    return out


def containers_of(batch: pa.RecordBatch) -> Iterator[Located]:
    """Cut a batch of ``container, offset, size, cardinality, data_file, format``, sorted, where a container begins."""
    containers, data_files, formats = (batch.column(name).to_pylist() for name in ("container", "data_file", "format"))
    offsets, sizes, promised = (_numbers(batch.column(name)) for name in ("offset", "size", "cardinality"))
    codes = batch.column("container").dictionary_encode().indices.to_numpy(zero_copy_only=False)
    bounds = [*np.flatnonzero(np.diff(codes, prepend=-1)).tolist(), len(codes)]
    for a, b in pairwise(bounds):
        yield Located(containers[a], offsets[a:b], sizes[a:b], promised[a:b], data_files[a:b], formats[a])


def _numbers(column: pa.Array) -> Index:
    return np.asarray(column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), np.int64)

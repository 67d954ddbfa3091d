"""The vectors of a container, in windows: pieces of a file of some megabytes, and where its vectors are in them.

A window is read at once, however many vectors lie in it. What is no plain frame in its place (bare bitmaps, entries of
a footer that cannot be) is read by itself, as the rest of the library does.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec.core.errors import DecodeError, Truncated, Unsupported, UsageError
from dvcodec.core.frame import Magic
from dvcodec.iceberg.blobs import CARDINALITY
from dvcodec.io import Source, open_source
from dvcodec.io.blocks import BlockSource
from dvcodec.io.frames import VERSION
from dvcodec.io.paths import split
from dvcodec.io.stretches import WINDOW_BYTES, stretches
from dvcodec.ops.convert import portable_frame
from dvcodec.ops.read import ALLOWED, read_vector
from dvcodec.ops.sniff import Container, ContainerKind, VectorRef, refuse_segment, sniff_source
from dvcodec.puffin import MAGIC as PUFFIN_MAGIC
from dvcodec.spark.sources.listing import Unit, hop
from dvcodec.spark.sources.manifest import stored_in

__all__ = ["Outcome", "Want", "Window", "windows"]

Index = NDArray[np.int64]

_SMALL = 1 << 20
"""Bytes of a file that is read whole before anything is known of it."""
_HEAD = 16


@dataclass(frozen=True, slots=True)
class Want:
    """What is to be read of every container.

    Attributes:
        kind: the only kind that is wanted, None for any.
        ignore_others: whether a file of a folder that is no such container is passed over.
        verify_checksum: False skips the CRCs.
        content: False leaves the vectors' bytes alone.
        data_files: vectors of these alone; None for all.
    """

    kind: ContainerKind | None = None
    ignore_others: bool = False
    verify_checksum: bool = True
    content: bool = True
    data_files: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of one vector (or of a file that gives one row)."""

    error: str | None
    cardinality: int = 0
    min: int = -1
    max: int = -1
    mix: tuple[int, int, int] = (0, 0, 0)
    crc_ok: bool | None = None
    """None: there is no CRC, or it was not looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Vectors of one container that were read together.

    Attributes:
        path: the container.
        kind: None if it is not known.
        offsets: int64[n], where each is in the file; -1 for unknown.
        lengths: int64[n], bytes in the file; -1 for unknown.
        promised: int64[n], rows that metadata promises; -1 where it does not.
        data_files: whose rows these are.
        data: bytes of the frames, and perhaps others.
        starts: int64[n], where each frame is in `data`.
        sizes: int64[n], bytes of each frame in `data`; 0 where there is none.
        base: offset of `data` in the file.
        name: of the source, as errors name it.
        outcomes: by index, vectors of which all is known.
        label: what the column ``format`` says, None for null; by custom the kind.
    """

    path: str
    kind: ContainerKind | None
    offsets: Index
    lengths: Index
    promised: Index
    data_files: list[str | None]
    data: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    starts: Index = field(default_factory=lambda: np.zeros(0, np.int64))
    sizes: Index = field(default_factory=lambda: np.zeros(0, np.int64))
    base: int = 0
    name: str = ""
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    label: str | None = ""

    @property
    def format(self) -> str | None:
        """What the column ``format`` says."""
        return self.label if self.label != "" else self.kind and self.kind.value


@dataclass(frozen=True, slots=True, eq=False)
class _Refs:
    """Where the vectors of a container are, and what metadata says of them."""

    kind: ContainerKind
    offsets: Index
    lengths: Index
    promised: Index
    data_files: list[str | None]
    refs: tuple[VectorRef, ...] | None
    """As `sniff_source` tells them; None for frames found by hopping."""

    def take(self, index: Index) -> _Refs:
        where = index.tolist()
        return _Refs(
            self.kind,
            self.offsets[index],
            self.lengths[index],
            self.promised[index],
            [self.data_files[i] for i in where],
            None if self.refs is None else tuple(self.refs[i] for i in where),
        )

    def ref(self, i: int) -> VectorRef:
        if self.refs is not None:
            return replace(self.refs[i], cardinality=None if self.promised[i] < 0 else int(self.promised[i]))
        return VectorRef(self.kind, int(self.offsets[i]), int(self.lengths[i]))

    def window(self, path: str, **more: object) -> Window:
        return Window(path, self.kind, self.offsets, self.lengths, self.promised, self.data_files, **more)  # type: ignore[arg-type]


def windows(unit: Unit, want: Want) -> Iterator[Window]:
    """Read the vectors of a unit. Bytes that are wrong are a window of one row with the error, never raised.

    Raises:
        OSError: the file cannot be read.
    """
    if unit.size < 0:
        name = f"{unit.manifest} names it" if unit.manifest else "a broken link"
        yield _failure(unit, None, f"{unit.path}: there is no such file ({name})")
        return
    with open_source(unit.path) as opened, _near(opened, unit, want) as source:
        kind = None
        try:
            found = _refs(source, unit)
            kind = found.kind
            found = _expected(found, source, want)
        except DecodeError as err:
            ignored = want.ignore_others and unit.listed and isinstance(err, Unsupported)
            if unit.start == 0 and not ignored:
                yield _failure(unit, kind, str(err))
            return
        found = _wanted(found, unit, source, want)
        if not want.content:
            if len(found.offsets):
                yield found.window(unit.path)
        elif found.kind in ALLOWED:
            yield from _framed(source, found, unit, want)
        else:
            for i in range(len(found.offsets)):
                yield _alone(source, found.take(np.array([i])), unit, want)


def _failure(unit: Unit, kind: ContainerKind | None, error: str) -> Window:
    unknown = np.full(1, -1, np.int64)
    none = np.zeros(1, np.int64)
    return Window(
        unit.path, kind, unknown, unknown, unknown, [None], starts=none, sizes=none, outcomes={0: Outcome(error)}
    )


@contextmanager
def _near(opened: Source, unit: Unit, want: Want) -> Iterator[Source]:
    """Read a container whole where all of it will be needed; look into what may be none by small pieces."""
    if not unit.is_whole or not want.content:
        yield opened if unit.kind else BlockSource(opened)
        return
    if opened.size > _SMALL:
        head = bytes(opened.read(0, _HEAD))
        known = head[:4] == PUFFIN_MAGIC or Magic.find(head[4:8]) or (head[0] == VERSION and Magic.find(head[5:9]))
        if not known or opened.size > 2 * WINDOW_BYTES:
            yield BlockSource(opened)
            return
    with open_source(opened.read(0, opened.size), name=opened.name) as held:
        yield held


def _refs(source: Source, unit: Unit) -> _Refs:
    if unit.kind is not None:
        frames = hop(source, unit.start, unit.stop)
        count = len(frames.offsets)
        nothing: list[str | None] = [None] * count
        return _Refs(unit.kind, frames.offsets, frames.sizes, np.full(count, -1, np.int64), nothing, None)
    with _uncollected():
        return _of_container(refuse_segment(sniff_source(source)))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Hold the garbage collector off while a footer becomes thousands of objects, none of them garbage.

    It would look through them again and again, for a third of the whole time. A task is one thread.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _of_container(container: Container) -> _Refs:
    refs = container.vectors
    promised = (-1 if ref.cardinality is None else ref.cardinality for ref in refs)
    return _Refs(
        container.kind,
        np.array([ref.offset for ref in refs], np.int64),
        np.array([ref.size for ref in refs], np.int64),
        np.fromiter((min(count, 2**63 - 1) for count in promised), np.int64, len(refs)),
        [ref.data_file for ref in refs],
        refs,
    )


def _expected(found: _Refs, source: Source, want: Want) -> _Refs:
    """Hold the kind against the one that was asked for. Files of 64-bit vectors are Delta's and Paimon's alike."""
    if want.kind is None or found.kind is want.kind:
        return found
    if want.kind is ContainerKind.PAIMON and found.kind is ContainerKind.DELTA:
        refs = found.refs and tuple(replace(ref, kind=want.kind) for ref in found.refs)
        return replace(found, kind=want.kind, refs=refs)
    raise Unsupported("container", source=source.name, expected=want.kind.value, actual=found.kind.value)


def _wanted(found: _Refs, unit: Unit, source: Source, want: Want) -> _Refs:
    """Add what a manifest knows, and keep the vectors of this unit and of the data files asked for."""
    if unit.manifest and found.kind in (ContainerKind.DELTA, ContainerKind.PAIMON):
        found = _named(found, stored_in(unit.manifest, split(unit.path)[1]))
    keep = np.ones(len(found.offsets), np.bool_)
    if unit.kind is None and not unit.is_whole:
        at = np.clip(found.offsets, 0, max(source.size - 1, 0))
        keep &= (unit.start <= at) & (at < unit.stop)
    if want.data_files is not None:
        keep &= np.array([name in want.data_files for name in found.data_files], np.bool_)
    return found if keep.all() else found.take(np.flatnonzero(keep))


def _named(found: _Refs, stored: pa.Table) -> _Refs:
    """Add the data files and cardinalities that a manifest knows by offset."""
    if not len(stored):
        return found
    stored = stored.sort_by("offset")
    offsets = stored["offset"].to_numpy()
    at = np.minimum(np.searchsorted(offsets, found.offsets), len(offsets) - 1)
    there = offsets[at] == found.offsets
    promised = np.where(there, stored["cardinality"].to_numpy()[at], -1)
    names = stored["data_file"].take(pa.array(at, mask=~there)).to_pylist()
    return replace(found, promised=promised, data_files=names)


def _framed(source: Source, found: _Refs, unit: Unit, want: Want) -> Iterator[Window]:
    plain = (found.offsets >= 0) & (found.lengths > 0) & (found.lengths <= source.size - found.offsets)
    for i, ref in enumerate(found.refs or ()):  # what `read_vector` refuses before it reads
        blob = ref.blob
        if blob is not None and (
            blob.compression_codec is not None or (CARDINALITY in blob.properties and ref.cardinality is None)
        ):
            plain[i] = False
    for i in np.flatnonzero(~plain).tolist():
        yield _alone(source, found.take(np.array([i])), unit, want)
    if not plain.all():
        found = found.take(np.flatnonzero(plain))
    order = np.argsort(found.offsets, kind="stable")
    if (np.diff(order) < 0).any():
        found = found.take(order)
    for first, last, start, stop in stretches(found.offsets, found.lengths):
        part = found if last - first == len(order) else found.take(np.arange(first, last))
        try:
            data = np.frombuffer(source.read(start, stop - start), np.uint8)
        except Truncated as err:  # the file is shorter than it was
            yield part.window(
                unit.path,
                starts=np.zeros(last - first, np.int64),
                sizes=np.zeros(last - first, np.int64),
                outcomes=dict.fromkeys(range(last - first), Outcome(str(err))),
            )
            continue
        yield part.window(
            unit.path, data=data, starts=part.offsets - start, sizes=part.lengths, base=start, name=source.name
        )


def _alone(source: Source, found: _Refs, unit: Unit, want: Want) -> Window:
    """Read one vector by itself, and put it into a frame where it has none."""
    try:
        vector = read_vector(source, found.ref(0), verify_checksum=want.verify_checksum)
        vector.check()
        data = np.frombuffer(bytes(portable_frame(vector)), np.uint8)
    except (DecodeError, UsageError) as err:
        none = np.zeros(1, np.int64)
        return found.window(unit.path, starts=none, sizes=none, outcomes={0: Outcome(str(err))})
    view = vector.view
    low, high = (-1, -1) if view.min is None or view.max is None else (view.min, view.max)
    outcome = Outcome(None, vector.cardinality, low, high, view.mix)
    place, size = np.zeros(1, np.int64), np.full(1, len(data), np.int64)
    return found.window(unit.path, data=data, starts=place, sizes=size, outcomes={0: outcome})

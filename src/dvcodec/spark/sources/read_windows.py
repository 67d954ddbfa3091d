"""The bytes of a container's vectors, in windows: pieces of a file of some megabytes, and where vectors are in them.

A window is read at once, however many vectors lie in it. What is no plain frame in its place (bare bitmaps, entries of
a footer that cannot be) is read by itself, as the rest of the library does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import DecodeError, Truncated, Unsupported, UsageError
from dvcodec.core.frame import Magic
from dvcodec.iceberg.blobs import CARDINALITY
from dvcodec.io import Source, Storage, open_source
from dvcodec.io.blocks import BlockSource
from dvcodec.io.coalesce import WINDOW_BYTES, coalesce
from dvcodec.io.frames import VERSION
from dvcodec.ops.convert import portable_frame
from dvcodec.ops.read import ALLOWED, read_vector
from dvcodec.ops.sniff import ContainerKind
from dvcodec.puffin import MAGIC as PUFFIN_MAGIC
from dvcodec.spark.sources.listing import Unit
from dvcodec.spark.sources.vector_index import Refs, Want, expected, refs_of, wanted

__all__ = ["Outcome", "Window", "windows"]

Index = NDArray[np.int64]

_SMALL = 1 << 20
"""Bytes of a file that is read whole before anything is known of it."""
_HEAD = 16


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


def windows(unit: Unit, want: Want, stores: Storage) -> Iterator[Window]:
    """Read the vectors of a unit. Bytes that are wrong are a window of one row with the error, never raised.

    Args:
        unit: a file, or a part of one.
        want: what is to be read of it.
        stores: by which it is opened.

    Raises:
        OSError: the file cannot be read.
    """
    if unit.size < 0:
        name = f"{unit.manifest} names it" if unit.manifest else "a broken link"
        yield _failure(unit, None, f"{unit.path}: there is no such file ({name})")
        return
    with stores.open(unit.path, size=unit.size) as opened, _near(opened, unit, want) as source:
        kind = None
        try:
            found = refs_of(source, unit)
            kind = found.kind
            found = expected(found, source, want)
        except DecodeError as err:
            ignored = want.ignore_others and unit.listed and isinstance(err, Unsupported)
            if unit.start == 0 and not ignored:
                yield _failure(unit, kind, str(err))
            return
        found = wanted(found, unit, source, want, stores)
        if not want.content:
            if len(found.offsets):
                yield _window(found, unit.path)
        elif found.kind in ALLOWED:
            yield from _framed(source, found, unit, want)
        else:
            for i in range(len(found.offsets)):
                yield _alone(source, found.take(np.array([i])), unit, want)


def _window(found: Refs, path: str, **more: object) -> Window:
    return Window(path, found.kind, found.offsets, found.lengths, found.promised, found.data_files, **more)  # type: ignore[arg-type]


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


def _framed(source: Source, found: Refs, unit: Unit, want: Want) -> Iterator[Window]:
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
    for first, last, start, stop in coalesce(found.offsets, found.lengths):
        part = found if last - first == len(order) else found.take(np.arange(first, last))
        try:
            data = np.frombuffer(source.read(start, stop - start), np.uint8)
        except Truncated as err:  # the file is shorter than it was
            yield _window(
                part,
                unit.path,
                starts=np.zeros(last - first, np.int64),
                sizes=np.zeros(last - first, np.int64),
                outcomes=dict.fromkeys(range(last - first), Outcome(str(err))),
            )
            continue
        yield _window(
            part, unit.path, data=data, starts=part.offsets - start, sizes=part.lengths, base=start, name=source.name
        )


def _alone(source: Source, found: Refs, unit: Unit, want: Want) -> Window:
    """Read one vector by itself, and put it into a frame where it has none."""
    try:
        vector = read_vector(source, found.ref(0), verify_checksum=want.verify_checksum)
        vector.check()
        data = np.frombuffer(bytes(portable_frame(vector)), np.uint8)
    except (DecodeError, UsageError) as err:
        none = np.zeros(1, np.int64)
        return _window(found, unit.path, starts=none, sizes=none, outcomes={0: Outcome(str(err))})
    view = vector.view
    low, high = (-1, -1) if view.min is None or view.max is None else (view.min, view.max)
    outcome = Outcome(None, vector.cardinality, low, high, view.mix)
    place, size = np.zeros(1, np.int64), np.full(1, len(data), np.int64)
    return _window(found, unit.path, data=data, starts=place, sizes=size, outcomes={0: outcome})

"""Where the vectors of a container are, what metadata says of them, and which of them are wanted."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec.core.errors import Unsupported
from dvcodec.io import Source, Storage
from dvcodec.io.file_key import file_key
from dvcodec.io.paths import split
from dvcodec.ops.sniff import Container, ContainerKind, VectorRef, refuse_segment, sniff_source
from dvcodec.spark.sources.listing import Unit, hop
from dvcodec.spark.sources.manifest import stored_in

__all__ = ["Refs", "Want", "expected", "refs_of", "wanted"]

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Want:
    """What is to be read of every container.

    Attributes:
        kind: the only kind that is wanted, None for any.
        ignore_others: whether a file of a folder that is no such container is passed over.
        verify_checksum: False skips the CRCs.
        content: False leaves the vectors' bytes alone.
        data_files: vectors of these alone, letter for letter; None for all.
        file_keys: vectors of the data files of these keys (`io.file_key.file_key`) alone; None for all.
    """

    kind: ContainerKind | None = None
    ignore_others: bool = False
    verify_checksum: bool = True
    content: bool = True
    data_files: frozenset[str] | None = None
    file_keys: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Refs:
    """Where the vectors of a container are, and what metadata says of them.

    Attributes:
        kind: of the container.
        offsets: int64[n], where each is in the file; -1 for unknown.
        lengths: int64[n], bytes in the file; -1 for unknown.
        promised: int64[n], rows that metadata promises; -1 where it does not.
        data_files: whose rows these are.
        refs: as `sniff_source` tells them; None for frames found by hopping.
    """

    kind: ContainerKind
    offsets: Index
    lengths: Index
    promised: Index
    data_files: list[str | None]
    refs: tuple[VectorRef, ...] | None

    def take(self, index: Index) -> Refs:
        """Return some of them."""
        where = index.tolist()
        return Refs(
            self.kind,
            self.offsets[index],
            self.lengths[index],
            self.promised[index],
            [self.data_files[i] for i in where],
            None if self.refs is None else tuple(self.refs[i] for i in where),
        )

    def ref(self, i: int) -> VectorRef:
        """Return what a reader of a single vector takes."""
        if self.refs is not None:
            return replace(self.refs[i], cardinality=None if self.promised[i] < 0 else int(self.promised[i]))
        return VectorRef(self.kind, int(self.offsets[i]), int(self.lengths[i]))


def refs_of(source: Source, unit: Unit) -> Refs:
    """Find the vectors of a container: by hopping where the driver has looked, by what it says of itself elsewhere.

    Raises:
        DecodeError: it is none, or is damaged.
        OSError: it cannot be read.
    """
    if unit.kind is not None:
        frames = hop(source, unit.start, unit.stop)
        count = len(frames.offsets)
        nothing: list[str | None] = [None] * count
        return Refs(unit.kind, frames.offsets, frames.sizes, np.full(count, -1, np.int64), nothing, None)
    with _uncollected():
        return _of_container(refuse_segment(sniff_source(source)))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Hold the garbage collector off while a footer becomes thousands of objects, none of them garbage.

    It would look through them again and again, for a third of the whole time. A task parses in one thread; those that
    fetch files ahead leave no cycles behind.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _of_container(container: Container) -> Refs:
    refs = container.vectors
    promised = (-1 if ref.cardinality is None else ref.cardinality for ref in refs)
    return Refs(
        container.kind,
        np.array([ref.offset for ref in refs], np.int64),
        np.array([ref.size for ref in refs], np.int64),
        np.fromiter((min(count, 2**63 - 1) for count in promised), np.int64, len(refs)),
        [ref.data_file for ref in refs],
        refs,
    )


def expected(found: Refs, source: Source, want: Want) -> Refs:
    """Hold the kind against the one that was asked for. Files of 64-bit vectors are Delta's and Paimon's alike.

    Raises:
        Unsupported: it is another.
    """
    if want.kind is None or found.kind is want.kind:
        return found
    if want.kind is ContainerKind.PAIMON and found.kind is ContainerKind.DELTA:
        refs = found.refs and tuple(replace(ref, kind=want.kind) for ref in found.refs)
        return replace(found, kind=want.kind, refs=refs)
    raise Unsupported("container", source=source.name, expected=want.kind.value, actual=found.kind.value)


def wanted(found: Refs, unit: Unit, source: Source, want: Want, stores: Storage) -> Refs:
    """Add what a manifest knows, and keep the vectors of this unit and of the data files asked for.

    Args:
        found: the vectors of a container.
        unit: the container, or a part of it.
        source: of the container.
        want: what is to be read.
        stores: by which the manifest is opened.

    Raises:
        NotCanonical: the manifest is not sound.
        OSError: it cannot be read.
    """
    if unit.manifest and found.kind in (ContainerKind.DELTA, ContainerKind.PAIMON):
        found = _named(found, stored_in(unit.manifest, split(unit.path)[1], stores))
    keep = np.ones(len(found.offsets), np.bool_)
    if unit.kind is None and not unit.is_whole:
        at = np.clip(found.offsets, 0, max(source.size - 1, 0))
        keep &= (unit.start <= at) & (at < unit.stop)
    if want.data_files is not None:
        keep &= np.array([name in want.data_files for name in found.data_files], np.bool_)
    if want.file_keys is not None:
        keep &= np.array([name is not None and file_key(name) in want.file_keys for name in found.data_files], np.bool_)
    return found if keep.all() else found.take(np.flatnonzero(keep))


def _named(found: Refs, stored: pa.Table) -> Refs:
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

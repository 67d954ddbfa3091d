"""Index of the vectors in a container: from its own metadata, by hopping over frames, or from a manifest."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from dvcodec.core.errors import Unsupported
from dvcodec.io import Source, Storage
from dvcodec.io.file_key import file_key
from dvcodec.io.paths import split
from dvcodec.ops.sniff import Container, ContainerKind, refuse_segment, sniff_source
from dvcodec.spark.sources.listing import Unit, hop
from dvcodec.spark.sources.manifest import stored_in
from dvcodec.spark.sources.vector_ranges import VectorRanges

__all__ = ["Want", "expected", "index_vectors", "wanted"]


@dataclass(frozen=True, slots=True)
class Want:
    """What to read from each container.

    Attributes:
        kind: the only kind accepted, None for any.
        ignore_others: whether files of a folder that are not such containers are skipped.
        verify_checksum: False skips the CRCs.
        content: False does not read the vectors' bytes.
        data_files: only vectors of these data files, spelled exactly so; None for all.
        file_keys: only vectors of data files with these keys (`io.file_key.file_key`); None for all.
    """

    kind: ContainerKind | None = None
    ignore_others: bool = False
    verify_checksum: bool = True
    content: bool = True
    data_files: frozenset[str] | None = None
    file_keys: frozenset[str] | None = None


def index_vectors(source: Source, unit: Unit) -> VectorRanges:
    """Find the vectors of a container: by hopping if the driver determined its kind, else by its own metadata.

    Raises:
        DecodeError: it is not a container, or is corrupt.
        OSError: it cannot be read.
    """
    if unit.kind is not None:
        frames = hop(source, unit.start, unit.stop)
        n, kind = len(frames.offsets), unit.kind
        unknown = np.full(n, -1, np.int64)
        return VectorRanges(unit.path, kind, kind.value, frames.offsets, frames.sizes, unknown, [None] * n)
    with _uncollected():
        return _of_container(unit.path, refuse_segment(sniff_source(source)))


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


def wanted(found: VectorRanges, unit: Unit, source: Source, want: Want, stores: Storage) -> VectorRanges:
    """Add the manifest's metadata, and keep the vectors of this unit and of the requested data files.

    Args:
        found: the vectors of a container.
        unit: the container, or a part of it.
        source: source of the container.
        want: what to read.
        stores: opens the manifest.

    Raises:
        NotCanonical: the manifest is corrupt.
        OSError: it cannot be read.
    """
    if unit.manifest and found.kind in (ContainerKind.DELTA, ContainerKind.PAIMON):
        found = _named(found, stored_in(unit.manifest, split(unit.path)[1], stores))
    keep = np.ones(len(found), np.bool_)
    if unit.kind is None and not unit.is_whole:
        begins = np.clip(found.offsets, 0, max(source.size - 1, 0))
        keep &= (unit.start <= begins) & (begins < unit.stop)
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

"""The vectors of index files, as the index manifest records them.

The index manifest gives the length of a 32-bit vector without its frame's 8 bytes, that of a 64-bit one with them, and
does not record which of the two a vector is: its magic does (see `dvcodec.paimon`). Vectors are adjacent, so
the next offset or the file's size gives the end of each, and thus the convention, without opening the file. If the
records leave gaps, the magic is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from dvcodec.core.errors import DecodeError
from dvcodec.core.ragged import Flags, Index
from dvcodec.core.vector import UNCOUNTED, Magic
from dvcodec.io import Storage
from dvcodec.io.frames import check_version, read_frames
from dvcodec.io.source import read_up_to
from dvcodec.paimon import DELETION_VECTORS, FORMATS, DeletionVectorMeta, IndexManifestEntry
from dvcodec.tables.columns import MOST_NUMBER, numbers_of
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import DeletionVector, OnDemand, Record
from dvcodec.tables.snapshots.findings import Finding

_HEADS_BYTES = 1 << 14
"""Bytes that are read at once for the heads of vectors."""
BITS32, BITS64 = FORMATS[Magic.PAIMON32], FORMATS[Magic.PORTABLE64]


@dataclass(frozen=True, slots=True)
class IndexedVector(Record):
    """What the index manifest records of a vector.

    Attributes:
        meta: the vector.
        row_count: vectors of its index file.
    """

    meta: DeletionVectorMeta
    row_count: int


class IndexVectors(OnDemand[DeletionVector]):
    """The vectors of an index file, in the manifest's order.

    Attributes:
        path: of the index file.
        location: where it can be opened.
        wide: which are 64-bit vectors.
        offsets: int64.
        sizes: int64, bytes of whole frames.
        cardinalities: see `VectorColumns`.
        file_sizes: int64.

    Args:
        entry: an entry of the index manifest; other kinds of index have none.
        folder: the table's.
        path: path of the index file, as `Layout.index_file` has it.
        data_file: returns `DataFile.path` for the bare name of a data file.
        bitmap64: table option ``deletion-vectors.bitmap64``, for vectors whose kind neither the metadata nor the file
            shows.
    """

    def __init__(
        self, entry: IndexManifestEntry, folder: Folder, path: str, data_file: Callable[[str], str], *, bitmap64: bool
    ) -> None:
        metas = (entry.vectors or ()) if entry.index_type == DELETION_VECTORS else ()
        location = folder.locate(path) if entry.index_type == DELETION_VECTORS else ""
        self.offsets = np.array([meta.offset for meta in metas], np.int64)
        lengths = np.array([meta.length for meta in metas], np.int64)
        wide = _are_wide(self.offsets, lengths, entry.file_size, location, folder.storage, bitmap64)
        sizes = np.where(wide, lengths, lengths + UNCOUNTED)
        self.path, self.location, self.wide, self.sizes = path, location, wide, sizes
        self.cardinalities = numbers_of(meta.cardinality for meta in metas)
        self.file_sizes = numbers_of([entry.file_size]).repeat(len(metas))
        names = [data_file(meta.data_file) for meta in metas]

        def make(number: int) -> DeletionVector:
            meta = metas[number]
            return DeletionVector(
                BITS64 if wide[number] else BITS32,
                names[number],
                path,
                location,
                meta.offset,
                int(sizes[number]),
                meta.cardinality,
                entry.file_size,
                entry.partition,
                bucket=entry.bucket,
                record=IndexedVector(meta, entry.row_count),
            )

        super().__init__(len(metas), make, names)


def _are_wide(offsets: Index, lengths: Index, file_size: int, location: str, storage: Storage, bitmap64: bool) -> Flags:
    """Return which vectors are 64-bit ones: by what is between them, by their magics, or by the table's option."""
    starts = np.unique(offsets)
    ends = np.append(starts[1:], min(file_size, MOST_NUMBER))[np.searchsorted(starts, offsets)]
    rooms = ends - offsets
    wide: Flags = rooms == lengths
    unknown = np.flatnonzero(~wide & (rooms != lengths + UNCOUNTED))
    if len(unknown):
        read = _kinds_by_magic(location, offsets[unknown].tolist(), storage)
        wide[unknown] = [read.get(one, BITS64 if bitmap64 else BITS32) == BITS64 for one in offsets[unknown].tolist()]
    return wide


def _kinds_by_magic(location: str, offsets: Sequence[int], storage: Storage) -> dict[int, str]:
    """Return the kinds of the vectors at these offsets, by offset, as far as the file shows them."""
    found = {}
    left = sorted(set(offsets), reverse=True)
    with suppress(OSError, DecodeError), storage.open(location) as source:
        while left:
            start = left[-1]
            heads = read_up_to(source, start, _HEADS_BYTES).view
            while left and (at := left[-1] - start) + 8 <= _HEADS_BYTES:
                magic = Magic.find(bytes(heads[at + 4 : at + 8]))
                if magic in FORMATS:
                    found[left[-1]] = FORMATS[magic]
                left.pop()
    return found


def check_index_file(location: str, vectors: Sequence[DeletionVector], storage: Storage) -> Iterator[Finding]:
    """Compare an index file with what the metadata records of it and of all its vectors.

    Checks: for each vector ``record`` (a frame of its size begins at its offset), and ``count`` (the file has
    ``_ROW_COUNT`` vectors). The contents of the frames are not checked.

    Raises:
        DecodeError: the file is corrupt.
        OSError: it cannot be read.
    """
    with storage.open(location) as source:
        check_version(source)
        frames = {cursor.base: cursor.remaining for cursor in read_frames(source, limits=storage.limits)}
    for vector in vectors:
        size = None if vector.offset is None else frames.get(vector.offset)
        if size is None:
            actual = "none begins there"
            yield Finding.of_vector("record", vector, "vector", f"{vector.size} bytes", actual)
        elif size != vector.size:
            yield Finding.of_vector("record", vector, "size of the vector", vector.size, size)
    for count in dict.fromkeys(IndexedVector.of(vector).row_count for vector in vectors):
        if count != len(frames):
            expected = f"{count} vectors (metadata)"
            yield Finding.failed("count", "_ROW_COUNT", expected, len(frames), path=location)

"""Deletion vectors of a snapshot: what the index manifest records, and checks of their files.

The metadata gives the length of a 32-bit vector without its frame's 8 bytes, that of a 64-bit one with them, and does
not record which of the two a vector is: its magic does (see `dvcodec.paimon.vectors`). Vectors are adjacent, so the
next offset or the file's size gives the end of each, and thus the convention, without opening the file. If the records
leave gaps, the magic is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dvcodec.core.errors import DecodeError
from dvcodec.core.vector import UNCOUNTED, Magic
from dvcodec.io import Storage
from dvcodec.io.frames import check_version, read_frames
from dvcodec.io.source import read_up_to
from dvcodec.paimon import DELETION_VECTORS, DeletionVectorMeta, IndexManifestEntry
from dvcodec.paimon.vectors import FORMATS
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import DeletionVector, Record
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


def vectors_of_entry(
    entry: IndexManifestEntry, folder: Folder, path: str, data_file: Callable[[str], str], *, bitmap64: bool
) -> Iterator[DeletionVector]:
    """Yield the vectors of an index file, in the manifest's order.

    Args:
        entry: an entry of the index manifest; other kinds of index have none.
        folder: the table's.
        path: path of the index file, as `Layout.index_file` has it.
        data_file: returns `DataFile.path` for the bare name of a data file.
        bitmap64: table option ``deletion-vectors.bitmap64``, for vectors whose kind neither the metadata nor the file
            shows.
    """
    if entry.index_type != DELETION_VECTORS:
        return
    metas = entry.vectors or ()
    location = folder.locate(path)
    ends = _ends(metas, entry.file_size)
    rooms = [ends[meta.offset] - meta.offset for meta in metas]
    known = [room in (meta.length, meta.length + UNCOUNTED) for meta, room in zip(metas, rooms, strict=True)]
    unknown = [meta.offset for meta, is_known in zip(metas, known, strict=True) if not is_known]
    read = _kinds_by_magic(location, unknown, folder.storage) if unknown else {}
    for meta, room, is_known in zip(metas, rooms, known, strict=True):
        if is_known:
            kind = BITS64 if room == meta.length else BITS32
        else:
            kind = read.get(meta.offset, BITS64 if bitmap64 else BITS32)
        yield DeletionVector(
            kind,
            data_file(meta.data_file),
            path,
            location,
            meta.offset,
            meta.length + (UNCOUNTED if kind == BITS32 else 0),
            meta.cardinality,
            entry.file_size,
            entry.partition,
            bucket=entry.bucket,
            record=IndexedVector(meta, entry.row_count),
        )


def _ends(metas: Sequence[DeletionVectorMeta], file_size: int) -> dict[int, int]:
    """Return where the vector at each offset ends, if they are back to back up to the file's end."""
    offsets = sorted({meta.offset for meta in metas})
    return dict(zip(offsets, [*offsets[1:], file_size], strict=True)) if offsets else {}


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

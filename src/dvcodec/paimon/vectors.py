"""Paimon deletion vectors, 32- and 64-bit, and the index files that hold them.

Specification: Paimon's "Table Index", section "Deletion Vectors Index"; Java classes ``BitmapDeletionVector`` (32-bit),
``Bitmap64DeletionVector``, ``DeletionVectorsIndexFile`` and ``DeletionFileWriter``. A file is a version byte and frames
back to back (see `io.frames`), of either kind or mixed; the index manifest names the data file of each::

    u8 1 | frame | frame | ...          (only the version byte in a file without vectors)
    frame = u32 BE L | magic and bitmap (L bytes) | u32 BE CRC-32
    magic = 5E 43 F2 D0: one 32-bit portable roaring, LE; D1 D3 39 64: 64-bit portable roaring, LE

The manifest's ``length`` is L for a 32-bit vector, but L + 8, the whole frame, for a 64-bit one.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from dvcodec.core import vector
from dvcodec.core.cursor import BytesLike, Cursor, as_view
from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import as_count, check_choice, check_integer, check_type
from dvcodec.core.vector import UNCOUNTED, DvLocation, Magic, StoredFrame, Vector, checked_frames
from dvcodec.io import (
    SinkTarget,
    Source,
    SourceTarget,
    StorageOptions,
    frames,
    open_source,
    read_up_to,
    remove,
    target_name,
)
from dvcodec.io.coalesce import by_windows
from dvcodec.io.frames import MAX_FILE_BYTES, check_version, encoded, load_ranges, write_frames

FORMATS = {Magic.PAIMON32: "paimon32", Magic.PORTABLE64: "paimon64"}
"""`DvLocation.format` of a vector: which length convention its metadata follows."""


@dataclass(frozen=True, slots=True)
class DeletionVectorMeta:
    """One vector in the index manifest (Java class of the same name).

    Attributes:
        data_file: bare name of the data file whose rows these are.
        offset: byte offset of the frame's length field in the index file.
        length: bytes of magic and bitmap for a 32-bit vector; of the whole frame, 8 more, for a 64-bit one.
        cardinality: number of deleted rows, None if the writer omitted it (Paimon 0.9).

    Raises:
        UsageError: a value of a wrong type, or out of range for the manifest's types.
    """

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None

    def __post_init__(self) -> None:
        check_type(self.data_file, str, "data_file", "a str")
        count = 0 if self.cardinality is None else self.cardinality
        numbers = ("offset", self.offset, 2**31), ("length", self.length, 2**31), ("cardinality", count, 2**63)
        for name, value, top in numbers:
            if type(value) is not int:
                check_integer(value, name)
            if not 0 <= value < top:
                raise UsageError(
                    f"deletion vector of {self.data_file!r}: {name} {value} is not between 0 and {top - 1}"
                )

    @classmethod
    def from_location(cls, location: DvLocation) -> DeletionVectorMeta:
        """Return the metadata of a written vector.

        Raises:
            UsageError: not a `DvLocation`, its data file is unknown, or it is not in a Paimon file.
        """
        check_type(location, DvLocation, "location", "a DvLocation")
        if location.data_file is None or location.format not in FORMATS.values():
            raise UsageError(f"{location.path} at byte {location.offset}: not a Paimon vector of a known data file")
        length = location.size - (UNCOUNTED if location.format == FORMATS[Magic.PAIMON32] else 0)
        return cls(location.data_file, location.offset, length, location.cardinality)


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One written index file.

    Attributes:
        path: path or URL.
        file_size: bytes.
        vectors: its vectors, in file order.
    """

    path: str
    file_size: int
    vectors: tuple[DeletionVectorMeta, ...]

    @classmethod
    def of(cls, written: Sequence[DvLocation]) -> IndexFile:
        """Return a file by the locations of all its vectors, in file order.

        Raises:
            UsageError: not a sequence of `DvLocation`, or an empty one.
        """
        check_type(written, Sequence, "written", "a sequence of DvLocation")
        if not written:
            raise UsageError("written must not be empty: an index file is known by its vectors")
        vectors = tuple(map(DeletionVectorMeta.from_location, written))
        last = written[-1]
        return cls(last.path, last.offset + last.size, vectors)


MAGICS = (Magic.PAIMON32, Magic.PORTABLE64)
_HEAD_BYTES = 8
"""Length and magic of a frame."""
_LAYOUTS = {"bitmap32": Magic.PAIMON32, "bitmap64": Magic.PORTABLE64}


def magic_of(layout: str) -> Magic:
    """Return the magic of a layout.

    Raises:
        UsageError: an unknown layout.
    """
    check_choice(layout, _LAYOUTS, "layout")
    return _LAYOUTS[layout]


def decode(
    buf: BytesLike,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    source: str | None = None,
    base: int = 0,
) -> RowSet:
    """Decode one framed vector, 32- or 64-bit.

    Args:
        buf: exactly the frame, length field and CRC included.
        cardinality: from the index manifest; None skips the check.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC (as Paimon's own readers do since 1.0).
        source: name of the index file, for errors.
        base: byte offset of the frame in that file, for errors.

    Returns:
        The deleted rows, 0-based physical positions. Not checked: positions against the data file's row count.

    Raises:
        DecodeError: the frame is corrupt: `Truncated`, `ChecksumMismatch`, `BadMagic`, `NotCanonical`,
            `CardinalityMismatch` or `LimitExceeded`.
        UsageError: `buf` is not a contiguous buffer, or another argument has a wrong type or is negative.

    >>> decode(encode(RowSet([1, 3, 5]), layout="bitmap64"), cardinality=3)
    RowSet([1, 3, 5])
    """
    vector.check_count(cardinality)
    cursor = Cursor(buf, source=source, base=base)
    return vector.read(cursor, MAGICS, cardinality, limits, verify_checksum=verify_checksum).load()


def encode(rows: RowSet, *, layout: str = "bitmap32", run_optimize: bool = True) -> bytes:
    """Encode one framed vector.

    Args:
        rows: the deleted rows.
        layout: ``bitmap32``, Paimon's default, or ``bitmap64`` (table option ``deletion-vectors.bitmap64``): Iceberg's
            bytes.
        run_optimize: True gives Java's bytes; False writes no run containers, as pypaimon and pypaimon-rust do.

    Raises:
        UsageError: not a `RowSet`, a position above 2**31 - 1 in ``bitmap32``, a vector that is too large, or an
            unknown layout.
    """
    magic = magic_of(layout)
    return vector.build(magic, *vector.encode_pieces(rows, magic, run_optimize=run_optimize))


TARGET_SIZE = 2 * 1024 * 1024
"""An index file of an append table is full at this many bytes (``deletion-vector.index-file.target-size``)."""


def load(
    location: DvLocation | DeletionVectorMeta,
    source: SourceTarget | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    storage_options: StorageOptions = None,
) -> RowSet:
    """Read one vector by its byte range and check it against its location, length convention included.

    Args:
        location: metadata from the index manifest, or what `write_deletion_vectors` returned.
        source: the index file; None opens `DvLocation.path`. Its version byte is not checked (as in Paimon's scan).
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the vector is corrupt, or its length or cardinality differs from the metadata.
        UsageError: not a location, or metadata without `source`: the index manifest names the file.
        OSError: the file cannot be opened or read.
    """
    return load_vector(
        location, source, limits=limits, verify_checksum=verify_checksum, storage_options=storage_options
    ).load()


def load_vector(
    location: DvLocation | DeletionVectorMeta,
    source: SourceTarget | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    storage_options: StorageOptions = None,
) -> Vector:
    """`load` without expanding the rows, for callers that need the vector's statistics too.

    Raises:
        DecodeError: see `load`. Not checked: array order and bitset population (`Vector.check`).
        UsageError: see `load`.
        OSError: the file cannot be opened or read.
    """
    check_limits(limits)
    meta = _meta_of(location)
    if source is None:
        if not isinstance(location, DvLocation):
            raise UsageError(f"vector of {meta.data_file!r}: the index file is missing: pass it as source")
        source = location.path
    with open_source(source, storage_options=storage_options) as opened:
        return read_vector(opened, meta, limits, verify_checksum=verify_checksum)


def read_vector(
    source: Source, meta: DeletionVectorMeta, limits: Limits = DEFAULT_LIMITS, *, verify_checksum: bool = True
) -> Vector:
    """`load_vector` of an open index file, by checked arguments.

    Raises:
        DecodeError: see `load`.
        OSError: the file cannot be read.
    """
    cursor = _frame_at(source, meta, limits)
    return vector.read(cursor, MAGICS, meta.cardinality, limits, verify_checksum=verify_checksum)


def _frame_at(source: Source, meta: DeletionVectorMeta, limits: Limits) -> Cursor:
    # One read gets the whole frame; of a vector over the limit only the head is read, for the error.
    ahead = meta.length + UNCOUNTED if meta.length <= limits.max_vector_bytes else _HEAD_BYTES
    head = read_up_to(source, meta.offset, ahead)
    size = _frame_size(head, meta)
    limits.check("max_vector_bytes", size, head)
    return Cursor(head.view[:size], source=source.name, base=meta.offset)


def _frame_size(head: Cursor, meta: DeletionVectorMeta) -> int:
    """Return the size of a frame; its magic determines the length that `meta` must have."""
    size = vector.peek_size(head)
    is_32_bit = vector.check_magic(head, 4, bytes(head.view[4:8]), MAGICS) is Magic.PAIMON32
    expected = size - (UNCOUNTED if is_32_bit else 0)
    if meta.length != expected:
        counted = "magic and bitmap of a 32-bit vector" if is_32_bit else "the whole frame of a 64-bit vector"
        raise head.error(
            NotCanonical,
            "length in the metadata",
            expected=f"{expected} ({counted}, from its length field)",
            actual=meta.length,
        )
    return size


def read_deletion_vectors(
    source: SourceTarget,
    locations: Iterable[DvLocation | DeletionVectorMeta],
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    storage_options: StorageOptions = None,
) -> dict[str, RowSet]:
    """Read vectors of one index file by their byte ranges: data file -> deleted rows.

    The file does not name data files; use `load_frames` without the index manifest.

    Args:
        source: the index file: bytes, path, URL, open file or `Source`.
        locations: from the index manifest (`IndexManifestEntry.vectors`), or what `write_deletion_vectors` returned.
            Paths in them are ignored: all are read from `source`.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the file or a vector is corrupt, or a length or cardinality differs from the metadata.
        UsageError: not locations, or two of one data file.
        OSError: the file cannot be opened or read.
    """
    check_type(locations, Iterable, "locations", "an iterable of DvLocation or DeletionVectorMeta")
    metas: dict[str, DeletionVectorMeta] = {}
    with open_source(source, storage_options=storage_options) as opened:
        check_version(opened)
        for location in locations:
            meta = _meta_of(location)
            if meta.data_file in metas:
                raise UsageError(f"{opened.name}: two vectors for the data file {meta.data_file!r}")
            metas[meta.data_file] = meta
        all_ = metas.values()
        heads = by_windows(opened, [meta.offset for meta in all_], [meta.length + UNCOUNTED for meta in all_])
        sizes = [_frame_size(read_up_to(heads, meta.offset, _HEAD_BYTES), meta) for meta in all_]
        ranges = [(meta.offset, size, meta.cardinality) for meta, size in zip(all_, sizes, strict=True)]
        found = load_ranges(heads, ranges, allowed=MAGICS, limits=limits, verify_checksum=verify_checksum)
    return dict(zip(metas, found, strict=True))


def _meta_of(location: DvLocation | DeletionVectorMeta) -> DeletionVectorMeta:
    check_type(location, (DvLocation, DeletionVectorMeta), "location", "a DvLocation or a DeletionVectorMeta")
    return location if isinstance(location, DeletionVectorMeta) else DeletionVectorMeta.from_location(location)


def load_frames(
    source: SourceTarget,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    storage_options: StorageOptions = None,
) -> dict[int, RowSet]:
    """Read all vectors of an index file: offset of the frame -> deleted rows.

    Args:
        source: the index file: bytes, path, URL, open file or `Source`.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the file or a vector is corrupt.
        OSError: the file cannot be opened or read.
    """
    with open_source(source, storage_options=storage_options) as opened:
        return frames.load_frames(opened, allowed=MAGICS, limits=limits, verify_checksum=verify_checksum)


def write_deletion_vectors(
    target: SinkTarget,
    vectors: Mapping[str, RowSet],
    *,
    layout: str = "bitmap32",
    run_optimize: bool = True,
    storage_options: StorageOptions = None,
) -> list[DvLocation]:
    """Write one index file, as bucketed tables have it, in the order of the mapping.

    Args:
        target: path, URL or writable file.
        vectors: data file -> deleted rows. For an empty mapping the file is the version byte only, as Paimon
            writes it to replace an older file.
        layout: see `encode`.
        run_optimize: see `encode`.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The location of each vector; `DeletionVectorMeta.from_location` converts it to metadata.

    Raises:
        UsageError: not row sets by data file, a row set that does not fit, or a file of more than 2**31 - 1 bytes
            (nothing is written then).
        OSError: the file cannot be written (an existing file is kept).
    """
    return write_stored_vectors(target, _frames(vectors, layout, run_optimize), storage_options=storage_options)


def write_stored_vectors(
    target: SinkTarget, vectors: Iterable[StoredFrame], *, storage_options: StorageOptions = None
) -> list[DvLocation]:
    """Write frames unchanged, 32- and 64-bit: conversion without re-encoding. Only their magic is checked.

    Args:
        target: path, URL or writable file.
        vectors: the frames, written in this order.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        UsageError: not frames, a frame of another kind, or a file of more than 2**31 - 1 bytes (nothing is written
            then).
        OSError: the file cannot be written (an existing file is kept).
    """
    return _write(target, checked_frames(vectors), MAX_FILE_BYTES, storage_options)


def write_index_files(
    folder: str,
    vectors: Mapping[str, RowSet],
    *,
    layout: str = "bitmap32",
    run_optimize: bool = True,
    target_size: int = TARGET_SIZE,
    storage_options: StorageOptions = None,
) -> list[IndexFile]:
    """Write index files as append tables do: the vector that exceeds `target_size` is the last of its file.

    The files are named ``index-<uuid>-<n>``, with one new UUID for all and n from 0. No vectors: no files.

    Args:
        folder: path or URL, usually ``<table>/index``; it must exist.
        vectors: data file -> deleted rows, written in this order.
        layout: see `encode`.
        run_optimize: see `encode`.
        target_size: bytes. A file is larger by up to one vector.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        UsageError: not row sets by data file, a row set that does not fit, an unknown layout, or an empty `folder`.
        OSError: a file cannot be written. In both cases no file remains.
    """
    paths: list[str] = []
    items = _frames(vectors, layout, run_optimize)
    try:
        written = roll_index_files(folder, items, paths, target_size=target_size, storage_options=storage_options)
        return [IndexFile.of(file) for file in written]
    except BaseException:
        for path in paths:
            remove(path, storage_options=storage_options)
        raise


def roll_index_files(
    folder: str,
    vectors: Iterable[StoredFrame],
    paths: list[str],
    *,
    target_size: int = TARGET_SIZE,
    storage_options: StorageOptions = None,
) -> list[list[DvLocation]]:
    """Write frames unchanged, see `write_index_files`; return the locations file by file.

    Each file is appended to `paths` before it is written: the caller removes them after an error.
    """
    check_type(folder, (str, os.PathLike), "folder", "a path or URL")
    if not str(folder):
        raise UsageError("folder must not be empty")
    target_size = as_count(target_size, "target_size")
    prefix = f"{str(folder).rstrip('/')}/index-{uuid.uuid4()}"
    items = iter(vectors)
    files: list[list[DvLocation]] = []
    for first in items:
        paths.append(f"{prefix}-{len(files)}")
        files.append(_write(paths[-1], chain([first], items), target_size, storage_options))
    return files


def _frames(vectors: Mapping[str, RowSet], layout: str, run_optimize: bool) -> Iterator[StoredFrame]:
    magic_of(layout)
    return encoded(vectors, partial(encode, layout=layout, run_optimize=run_optimize))


def _write(
    target: SinkTarget, stored_frames: Iterator[StoredFrame], until: int, storage_options: StorageOptions
) -> list[DvLocation]:
    def format_of(stored: StoredFrame) -> str:
        magic = Magic.find(bytes(as_view(stored.data)[4:8]))
        if magic not in FORMATS:
            raise UsageError(f"{target_name(target)}: a Paimon index file contains 32- and 64-bit vectors only")
        return FORMATS[magic]

    return write_frames(target, stored_frames, format_of, until=until, storage_options=storage_options)

"""Iceberg deletion vectors, and the Puffin files that hold them, one per data file.

Specification: Apache Iceberg, "Puffin file format" (blob type deletion-vector-v1) and "Table spec" v3; the bytes are
those of Iceberg Java's ``BitmapPositionDeleteIndex`` and ``BaseDVFileWriter``. A blob is one frame::

    u32 BE length | D1 D3 39 64 | 64-bit portable roaring, LE | u32 BE CRC-32

Like Java engines, `decode` needs only the byte range from the manifest (`content_offset`, `content_size_in_bytes`), not
the footer. Positions are 0-based physical row positions in the data file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any, Literal

from dvcodec._version import __version__
from dvcodec.core import vector
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet, check_vectors
from dvcodec.core.usage import check_choice, check_type
from dvcodec.core.vector import FRAME_OVERHEAD, DvLocation, Magic, StoredFrame, checked_frames
from dvcodec.iceberg.blobs import BLOB_TYPE, CARDINALITY, NO_ID, ROW_POSITION_FIELD, check_blob, corrupt, vector_blobs
from dvcodec.iceberg.manifest import java_blob_order, location_of
from dvcodec.io import SinkTarget, SourceTarget, StorageOptions, open_source, target_name
from dvcodec.io.allowed_locations import check_reach, protocols
from dvcodec.io.file_key import check_data_file, file_key, file_keys, log_merged_spellings
from dvcodec.io.frames import Range, encoded, load_ranges, read_frame
from dvcodec.puffin import (
    CREATED_BY,
    MAGIC,
    REFERENCED_DATA_FILE,
    BlobMetadata,
    PuffinReader,
    PuffinWriter,
    open_puffin,
)
from dvcodec.puffin.footer import UniformBlobs

MAGICS = (Magic.PORTABLE64,)


def decode(
    buf: BytesLike,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    source: str | None = None,
    base: int = 0,
) -> RowSet:
    """Decode one blob.

    Args:
        buf: exactly the blob: `content_size_in_bytes` bytes from `content_offset`.
        cardinality: the manifest's `record_count`; None skips the check.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC.
        source: name of the file, for errors.
        base: byte offset of the vector in that file, for errors.

    Returns:
        The deleted rows, 0-based physical positions. Not checked: positions against the data file's row count.

    Raises:
        DecodeError: the vector is corrupt: `Truncated`, `ChecksumMismatch`, `BadMagic`, `NotCanonical`,
            `CardinalityMismatch` or `LimitExceeded`.
        UsageError: `buf` is not a contiguous buffer, or another argument has a wrong type or is negative.

    >>> decode(encode(RowSet([1, 3, 5])), cardinality=3)
    RowSet([1, 3, 5])
    """
    vector.check_count(cardinality)
    cursor = Cursor(buf, source=source, base=base)
    return vector.read(cursor, MAGICS, cardinality, limits, verify_checksum=verify_checksum).load()


def encode(rows: RowSet, *, run_optimize: bool = True, gap_keys: bool = True) -> bytes:
    """Encode one blob.

    The defaults give the bytes of Iceberg Java (positions deleted one by one, then serialized). After
    *range* deletes and merges with an older vector, Java may write other containers for the same rows.

    Args:
        rows: the deleted rows.
        run_optimize: False writes no run containers (iceberg-rust, DuckDB).
        gap_keys: False leaves out the empty bitmaps below the highest key (all but the Java writers).

    Raises:
        UsageError: not a `RowSet`, a position above 0x7ffffffe80000000, or a blob of more than 2**31 - 1 bytes.

    >>> encode(RowSet()).hex(" ", 4)
    '0000000c d1d33964 00000000 00000000 bf18480c'
    """
    magic = Magic.PORTABLE64
    return vector.build(magic, *vector.encode_pieces(rows, magic, run_optimize=run_optimize, gap_keys=gap_keys))


DEFAULT_CREATED_BY = f"dvcodec {__version__}"


def load(
    location: DvLocation | Mapping[str, Any],
    source: SourceTarget | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    allow: Iterable[str] = (),
    storage_options: StorageOptions = None,
) -> RowSet:
    """Read one vector by its byte range and check it against its location. The footer is not read.

    Args:
        location: a manifest's ``data_file`` struct (see `manifest_entry`), or what `write_deletion_vectors` returned.
        source: the Puffin file; None opens the path in `location`.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC.
        allow: protocols allowed in a manifest's path, besides local files and object stores: ``http``.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the vector is corrupt, or its size or cardinality differs from the manifest's.
        Unsupported: a path in a manifest that `allow` does not cover.
        UsageError: not a location, a member of the manifest entry is missing, or `allow` is not a collection of
            protocols.
        OSError: the file cannot be opened or read.
    """
    if not isinstance(location, DvLocation):
        check_type(location, Mapping, "location", "a DvLocation or a manifest entry")
        location = location_of(location)
        if source is None:
            check_reach(location.path, None, protocols(allow))
    with open_source(location.path if source is None else source, storage_options=storage_options) as opened:
        cursor = read_frame(opened, location.offset, location.size, limits)
        return vector.read(cursor, MAGICS, location.cardinality, limits, verify_checksum=verify_checksum).load()


def read_deletion_vectors(
    source: SourceTarget,
    *,
    duplicates: Literal["error", "union", "last"] = "error",
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    storage_options: StorageOptions = None,
) -> dict[str, RowSet]:
    """Read all deletion vectors of a Puffin file: data file -> deleted rows. Other blobs are ignored.

    Args:
        source: bytes, path, URL or open file.
        duplicates: what to do with two vectors for one data file. Iceberg forbids it (``error``); DuckLake keeps
            one cumulative vector per snapshot (``last``); ``union`` repairs a table that has both. Two spellings of
            one file are one data file; the first is kept.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the file or a vector is corrupt, or a `referenced-data-file` is missing or named twice.
        UsageError: not a source, or another word for `duplicates`.
        OSError: the file cannot be opened or read.
    """
    check_choice(duplicates, ("error", "union", "last"), "duplicates")
    with open_puffin(source, limits=limits, storage_options=storage_options) as reader:
        paths, ranges = _uniform(reader) or _listed(reader)
        found = load_ranges(reader.source, ranges, allowed=MAGICS, limits=limits, verify_checksum=verify_checksum)
        name = reader.source.name
    keys = file_keys(paths)
    if len(set(keys)) == len(keys):
        return dict(zip(paths, found, strict=True))
    rows: dict[str, RowSet] = {}
    spelled: dict[str, str] = {}
    merged: list[tuple[str, str]] = []
    for key, path, (offset, _, _), one in zip(keys, paths, ranges, found, strict=True):
        first = spelled.setdefault(key, path)
        if first in rows and duplicates == "error":
            actual = f"{path} twice" if path == first else f"{first} and {path}, which are one file"
            expected = "one vector for each data file"
            raise NotCanonical("referenced-data-file", source=name, offset=offset, expected=expected, actual=actual)
        if path != first:
            merged.append((path, first))
        rows[first] = rows[first] | one if first in rows and duplicates == "union" else one
    log_merged_spellings(merged)
    return rows


def _uniform(reader: PuffinReader) -> tuple[list[str], list[Range]] | None:
    """Return the data files of a file with a uniform footer and the ranges of their vectors; None for other files."""
    blobs = reader.footer.blobs
    if not isinstance(blobs, UniformBlobs) or blobs.first.type != BLOB_TYPE:
        return None
    paths, cardinalities = blobs.texts(REFERENCED_DATA_FILE), blobs.numbers(CARDINALITY)
    offsets, lengths, end = blobs.offsets, blobs.lengths, reader.footer.offset
    if paths is None or cardinalities is None or int(offsets.min()) < len(MAGIC) or int(lengths.min()) < FRAME_OVERHEAD:
        return None
    if (lengths > end - offsets).any() or int(lengths.sum()) > end:
        return None
    return paths, list(zip(offsets.tolist(), lengths.tolist(), cardinalities.tolist(), strict=True))


def _listed(reader: PuffinReader) -> tuple[list[str], list[Range]]:
    """Return the data files of a file and the ranges of their vectors.

    Raises:
        DecodeError: what the footer says of a vector is corrupt.
    """
    paths, ranges = [], []
    for blob in vector_blobs(reader.footer, reader.source.name):
        path = blob.properties.get(REFERENCED_DATA_FILE)
        if path is None:
            raise corrupt(blob, reader.source.name, "blob property referenced-data-file", "a path", "nothing")
        paths.append(path)
        ranges.append((blob.offset, blob.length, check_blob(blob, reader.source.name)))
        reader.check_range(blob)
    return paths, ranges


def write_deletion_vectors(
    target: SinkTarget,
    vectors: Mapping[str, RowSet],
    *,
    created_by: str = DEFAULT_CREATED_BY,
    order: Literal["java", "given"] = "java",
    run_optimize: bool = True,
    gap_keys: bool = True,
    storage_options: StorageOptions = None,
) -> list[DvLocation]:
    """Write one Puffin file with a vector for each data file.

    For the same vectors, `created_by` and order of first delete, the file equals that of Iceberg Java's
    ``BaseDVFileWriter``. No vectors: no file, as in Java.

    Args:
        target: path, URL or writable file.
        vectors: data file -> deleted rows (an empty set is written as an empty vector).
        created_by: file property ``created-by``.
        order: ``java`` orders the blobs as Java's writer does (see `java_blob_order`), ``given`` as the mapping does.
        run_optimize: see `encode`.
        gap_keys: see `encode`.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The location of each vector, in file order; `manifest_entry` converts it to a manifest entry.

    Raises:
        UsageError: not row sets by data file, a row set that does not fit, or another word for `order` (nothing is
            written then).
        OSError: the file cannot be written (an existing file is kept).
    """
    check_vectors(vectors)
    check_choice(order, ("java", "given"), "order")
    counts = {path: rows.cardinality for path, rows in vectors.items()}
    paths = java_blob_order(counts) if order == "java" else list(vectors)
    frames = encoded(
        {path: vectors[path] for path in paths}, partial(encode, run_optimize=run_optimize, gap_keys=gap_keys)
    )
    return write_stored_vectors(target, frames, created_by=created_by, storage_options=storage_options)


def write_stored_vectors(
    target: SinkTarget,
    vectors: Iterable[StoredFrame],
    *,
    created_by: str = DEFAULT_CREATED_BY,
    storage_options: StorageOptions = None,
) -> list[DvLocation]:
    """Write frames unchanged, in the order given: conversion without re-encoding.

    Args:
        target: path, URL or writable file.
        vectors: the frames; their contents are not checked. No frames: no file.
        created_by: file property ``created-by``.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        UsageError: not frames, a frame without a data file or with one whose name is not UTF-8, or two frames for one
            data file in any spelling (nothing is written then).
        OSError: the file cannot be written (an existing file is kept).
    """
    items = checked_frames(vectors)
    seen: dict[str, str] = {}
    first = next(items, None)
    if first is None:
        return []
    blobs = []
    with PuffinWriter(target, {CREATED_BY: created_by}, storage_options=storage_options) as writer:
        for path, cardinality, blob in chain([first], items):
            if path is None:
                raise UsageError("a Puffin file needs the data file of every vector")
            check_data_file(path)
            key = file_key(path)
            if key in seen:
                other = "" if seen[key] == path else f", also spelled {seen[key]!r}"
                raise UsageError(f"two vectors for the data file {path!r}{other}: merge them first")
            seen[key] = path
            properties = {REFERENCED_DATA_FILE: path, CARDINALITY: str(cardinality)}
            metadata = BlobMetadata(BLOB_TYPE, (ROW_POSITION_FIELD,), NO_ID, NO_ID, 0, 0, None, properties)
            blobs.append((path, cardinality, writer.add_stored(metadata, blob)))
    name = target_name(target)
    return [
        DvLocation("iceberg", name, blob.offset, blob.length, cardinality, path, writer.file_size)
        for path, cardinality, blob in blobs
    ]

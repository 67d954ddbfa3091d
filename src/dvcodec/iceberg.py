"""Iceberg deletion vectors, in Puffin files, and the position deletes that they replace.

Specification: Apache Iceberg, "Puffin file format" (blob type deletion-vector-v1) and "Table spec" v3; the bytes are
those of Iceberg Java's ``BitmapPositionDeleteIndex`` and ``BaseDVFileWriter``. A blob is one frame::

    u32 BE length | D1 D3 39 64 | 64-bit portable roaring, LE | u32 BE CRC-32

Like Java engines, `decode` needs only the byte range from the manifest (`content_offset`, `content_size_in_bytes`), not
the footer. Positions are 0-based physical row positions in the data file.

Position deletes of v2 are rows of ``file_path``, a string (field id 2147483546), and ``pos``, a long (2147483545),
0-based; sorted by both, which is not required of files that are read. Specification: "Table spec", "Position Delete
Files". Where it leaves a choice, new files and their entries in a manifest are those of Iceberg Java's
``PositionDeleteWriter``: an entry has no counts of values, and bounds only if it is for one data file.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec._version import __version__
from dvcodec.core import vector
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import DecodeError, MissingExtra, NotCanonical, UsageError
from dvcodec.core.extras import pa, pq
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import Index
from dvcodec.core.report import Check, check_that
from dvcodec.core.roaring import MAX_DV_POSITION
from dvcodec.core.rowset import RowSet, check_vectors
from dvcodec.core.usage import as_count, check_choice, check_integer, check_type
from dvcodec.core.vector import FRAME_OVERHEAD, DvLocation, Magic, StoredFrame, checked_frames
from dvcodec.io import SinkTarget, SourceTarget, Storage, StorageOptions, open_sink, open_source, target_name
from dvcodec.io.frames import Range, encoded, load_at, load_ranges, read_frame
from dvcodec.io.parquet import arrow_damage, parquet_metadata
from dvcodec.io.sink import SinkFile
from dvcodec.io.target import check_data_file, check_reach, file_key, file_keys, log_merged_spellings, protocols
from dvcodec.puffin import (
    CREATED_BY,
    DUCKLAKE_SNAPSHOT,
    MAGIC,
    REFERENCED_DATA_FILE,
    BlobMetadata,
    Footer,
    PuffinReader,
    PuffinWriter,
    UniformBlobs,
    open_puffin,
)

if TYPE_CHECKING:
    ArrowData: TypeAlias = pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]

__all__ = [
    "BLOB_TYPE",
    "ROW_POSITION_FIELD",
    "decode",
    "encode",
    "java_blob_order",
    "lint",
    "load",
    "manifest_entry",
    "read_deletion_vectors",
    "read_position_deletes",
    "vectors_from_arrow",
    "write_deletion_vectors",
    "write_position_deletes",
    "write_stored_vectors",
]


BLOB_TYPE = "deletion-vector-v1"
"""Type of a vector's blob in a Puffin footer."""
DRAFT_BLOB_TYPE = "delete-vector-v1"
"""Type in drafts of the specification; not used by any released writer."""
ROW_POSITION_FIELD = 2147483645
"""Field id of the metadata column _pos: Java writes it to `fields`; Trino and DuckDB leave `fields` empty."""
CARDINALITY = "cardinality"
"""Blob property: number of rows, as a decimal string."""
NO_ID = -1
"""snapshot-id and sequence-number of a deletion vector: the manifest has the real ones after the commit."""


def vector_blobs(footer: Footer, source: str | None = None) -> list[BlobMetadata]:
    """Return the deletion vectors among the blobs of a footer.

    Raises:
        NotCanonical: together the vectors are larger than the file, with 12 bytes or more each; many entries for the
            same bytes, or for none, would take very long to read. (A single wrong length is reported when that blob is
            read.)
    """
    blobs = [blob for blob in footer.blobs if blob.type == BLOB_TYPE]
    lengths = sorted(max(blob.length, FRAME_OVERHEAD) for blob in blobs)
    if sum(lengths[:-1]) > footer.offset:
        raise NotCanonical(
            "lengths of all vectors",
            source=source,
            offset=footer.offset,
            expected=f"at most the {footer.offset} bytes before the footer, at least {FRAME_OVERHEAD} for each",
            actual=sum(lengths),
        )
    return blobs


def corrupt(blob: BlobMetadata, source: str | None, what: str, expected: str, actual: str) -> NotCanonical:
    """Return the error for a blob, with its offset."""
    return NotCanonical(what, source=source, offset=blob.offset, expected=expected, actual=actual)


def blob_cardinality(blob: BlobMetadata, source: str | None = None) -> int | None:
    """Return the blob's `cardinality` property (rows), None if it has none.

    Raises:
        NotCanonical: the property is not a decimal number.
    """
    text = blob.properties.get(CARDINALITY)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise corrupt(blob, source, "blob property cardinality", "a decimal number", repr(text[:40]))
    return int(text)


def check_blob(blob: BlobMetadata, source: str | None = None) -> int | None:
    """Check codec and cardinality in the footer entry of a vector; return its `cardinality`.

    Raises:
        NotCanonical: the blob is compressed, or its cardinality is not a number.
    """
    if blob.compression_codec is not None:
        what, expected = "compression-codec of a deletion vector", "none: deletion vectors are not compressed"
        raise corrupt(blob, source, what, expected, repr(blob.compression_codec))
    return blob_cardinality(blob, source)


ONE_VECTOR = "one-vector-per-file"


def subject_of(blob: BlobMetadata) -> str:
    """Return the name of a blob in reports: its data file, or its offset."""
    path = blob.properties.get(REFERENCED_DATA_FILE)
    return f"vector of {path}" if path is not None else f"{blob.type} at byte {blob.offset}"


def lint(footer: Footer) -> list[Check]:
    """Check the metadata of all blobs of a Puffin file; the blobs themselves are not read.

    Checks of each vector: ``blob-ids`` (snapshot and sequence number are -1), ``blob-properties``
    (referenced-data-file and cardinality), ``blob-codec`` (none), ``blob-range`` (inside the file; of every
    blob); of the whole file: ``blob-overlap``, ``one-vector-per-file`` (for each data file, in any spelling).

    Raises:
        UsageError: not a `Footer`.
    """
    check_type(footer, Footer, "footer", "a Footer")
    checks = [check for blob in footer.blobs for check in lint_blob(blob, footer)]
    checks += _overlaps(footer)
    checks += check_duplicates(footer.blobs)
    return checks


def lint_blob(blob: BlobMetadata, footer: Footer) -> Iterator[Check]:
    """Check the metadata of one blob of a Puffin file; see `lint`."""
    yield _range(blob, footer)
    if blob.type == DRAFT_BLOB_TYPE:
        yield Check.failed("blob-type", subject_of(blob), blob.offset, "draft name", BLOB_TYPE, blob.type)
    if blob.type == BLOB_TYPE:
        yield from _vector(blob)


def _range(blob: BlobMetadata, footer: Footer) -> Check:
    stop = blob.offset + blob.length
    valid = len(MAGIC) <= blob.offset <= stop <= footer.offset
    expected, actual = f"a range within {len(MAGIC)}..{footer.offset}", f"{blob.offset}..{stop}"
    return check_that(valid, "blob-range", subject_of(blob), blob.offset, "offset and length", expected, actual)


def _vector(blob: BlobMetadata) -> Iterator[Check]:
    subject = subject_of(blob)

    def check(name: str, valid: bool, what: str, expected: object, actual: object) -> Check:
        return check_that(valid, name, subject, blob.offset, what, expected, actual)

    ids = (blob.snapshot_id, blob.sequence_number)
    yield check("blob-ids", ids == (NO_ID, NO_ID), "snapshot-id, sequence-number", "-1, -1", f"{ids[0]}, {ids[1]}")
    missing = [name for name in (REFERENCED_DATA_FILE, CARDINALITY) if name not in blob.properties]
    expected = f"{REFERENCED_DATA_FILE} and {CARDINALITY}"
    yield check("blob-properties", not missing, "properties", expected, f"no {' and no '.join(missing)}")
    try:
        blob_cardinality(blob)
    except NotCanonical as error:
        yield Check.from_error("blob-properties", subject, error)
    codec = blob.compression_codec
    yield check("blob-codec", codec is None, "compression-codec", "none: vectors are not compressed", repr(codec))


def _overlaps(footer: Footer) -> Iterator[Check]:
    ordered = sorted(footer.blobs, key=lambda blob: (blob.offset, blob.length))
    clashes = 0
    reach, owner = 0, None
    for blob in ordered:
        if owner is not None and blob.length > 0 and blob.offset < reach:
            clashes += 1
            what = f"range shared with {subject_of(owner)}"
            yield Check.failed(
                "blob-overlap", subject_of(blob), blob.offset, what, f"an offset of at least {reach}", blob.offset
            )
        if blob.offset + blob.length > reach:
            reach, owner = blob.offset + blob.length, blob
    if not clashes:
        yield Check.passed("blob-overlap", "file")


def check_duplicates(blobs: Iterable[BlobMetadata]) -> Iterator[Check]:
    """Report second vectors of a data file, in any spelling: ``one-vector-per-file``.

    DuckLake's have a snapshot each, so one vector of each snapshot is fine.
    """
    seen: dict[tuple[str, str | None], BlobMetadata] = {}
    duplicates = 0
    for blob in blobs:
        path = blob.properties.get(REFERENCED_DATA_FILE)
        if blob.type != BLOB_TYPE or path is None:
            continue
        key = (file_key(path), blob.properties.get(DUCKLAKE_SNAPSHOT))
        if key in seen:
            duplicates += 1
            first = seen[key]
            what = f"second vector, the first is at byte {first.offset}"
            if (other := first.properties[REFERENCED_DATA_FILE]) != path:
                what += f" and spells the same data file {other!r}"
            yield Check.failed(ONE_VECTOR, subject_of(blob), blob.offset, what, 1, "2 or more")
        seen.setdefault(key, blob)
    if not duplicates:
        yield Check.passed(ONE_VECTOR, "file")


_JAVA_TABLE = 16
"""Initial buckets of a HashMap."""
_JAVA_CROWDED = 8
"""A small table doubles if a bucket has at least this many entries."""
_JAVA_MIN_TREE_TABLE = 64
_INVERSE_31 = pow(31, -1, 2**32)


def manifest_entry(location: DvLocation) -> dict[str, Any]:
    """Return a vector's ``data_file`` struct for a v3 delete manifest (without partition and sequence numbers).

    Sizes and offsets are in bytes; nothing is checked against the file.

    Raises:
        UsageError: not a `DvLocation`, or its data file is unknown.
    """
    check_type(location, DvLocation, "location", "a DvLocation")
    if location.data_file is None:
        raise UsageError(f"{location.path} at byte {location.offset}: unknown data file, which a manifest entry needs")
    return {
        "content": 1,
        "file_path": location.path,
        "file_format": "PUFFIN",
        "record_count": location.cardinality,
        "file_size_in_bytes": location.file_size,
        "referenced_data_file": location.data_file,
        "content_offset": location.offset,
        "content_size_in_bytes": location.size,
    }


def location_of(entry: Mapping[str, Any]) -> DvLocation:
    """Return the location in a v3 delete manifest's ``data_file`` struct: the inverse of `manifest_entry`.

    Raises:
        UsageError: a member is missing or has the wrong type.
    """
    members = {"file_path": str, "content_offset": int, "content_size_in_bytes": int, "record_count": int}
    for name, kind in members.items():
        if not isinstance(entry.get(name), kind):
            raise UsageError(f"manifest entry: {name} must be of type {kind.__name__}, found {entry.get(name)!r:.60}")
    path, offset, size, cardinality = (entry[name] for name in members)
    file_size = entry.get("file_size_in_bytes")
    return DvLocation("iceberg", path, offset, size, cardinality, entry.get("referenced_data_file"), file_size)


def java_blob_order(deletes: Mapping[str, int]) -> list[str]:
    """Order data files as Iceberg Java's ``BaseDVFileWriter`` writes their vectors: as its ``HashMap`` iterates.

    The map is filled by ``computeIfAbsent``, once for every deleted row. New entries go to the head of their bucket; a
    call that finds the table more than three quarters full doubles it first, even if the key exists. That splits every
    bucket in two, whose entries keep their order.

    Args:
        deletes: data file -> number of deleted rows, in the order of their first delete, with all deletes of a file
            before those of the next.

    Not modelled: buckets of 8 or more entries in tables of 64 or more, which Java turns into trees.

    Raises:
        UsageError: not a mapping of str to int.
    """
    check_type(deletes, Mapping, "deletes", "a mapping of data files to numbers of rows")
    for path, rows in deletes.items():
        check_type(path, str, "a data file", "a str")
        check_integer(rows, "the rows of a data file")
    size = _JAVA_TABLE
    hashes: dict[str, int] = {}
    for path, rows in deletes.items():
        if len(hashes) > size * 3 // 4:
            size *= 2
        own = hashes[path] = _java_hash(path)
        if size < _JAVA_MIN_TREE_TABLE:
            in_bucket = sum((one ^ own) & (size - 1) == 0 for one in hashes.values())
            if in_bucket >= _JAVA_CROWDED:
                size *= 2
        if rows > 1 and len(hashes) > size * 3 // 4:
            size *= 2
    newest_first = list(hashes)[::-1]
    return sorted(newest_first, key=lambda path: hashes[path] & (size - 1))


def _java_hash(text: str) -> int:
    """``String.hashCode`` over UTF-16 code units, spread as HashMap does."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2").astype(np.uint32)
    weights = np.cumprod(np.full(len(units), 31, np.uint32), dtype=np.uint32)[::-1] * np.uint32(_INVERSE_31)
    value = int((units * weights).sum(dtype=np.uint32))
    return value ^ value >> 16


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
    return vector.load(cursor, MAGICS, cardinality, limits, verify_checksum=verify_checksum)


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
        return vector.load(cursor, MAGICS, location.cardinality, limits, verify_checksum=verify_checksum)


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
        file, name = reader.source, reader.source.name
        uniform = _uniform(reader)
        if uniform is not None:
            paths, places, sizes, counts = uniform
            found = load_at(file, places, sizes, counts, allowed=MAGICS, limits=limits, verify_checksum=verify_checksum)
            offsets = places.tolist()
        else:
            paths, ranges = _listed(reader)
            found = load_ranges(file, ranges, allowed=MAGICS, limits=limits, verify_checksum=verify_checksum)
            offsets = [offset for offset, _, _ in ranges]
    keys = file_keys(paths)
    if len(set(keys)) == len(keys):
        return dict(zip(paths, found, strict=True))
    rows: dict[str, RowSet] = {}
    spelled: dict[str, str] = {}
    merged: list[tuple[str, str]] = []
    for key, path, offset, one in zip(keys, paths, offsets, found, strict=True):
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


def _uniform(reader: PuffinReader) -> tuple[list[str], Index, Index, Index] | None:
    """Return data files, offsets, sizes and cardinalities of vectors that the footer describes alike; else None."""
    blobs = reader.footer.blobs
    if not isinstance(blobs, UniformBlobs) or blobs.sample.type != BLOB_TYPE:
        return None
    if any(blob.type == BLOB_TYPE for blob in blobs.others.values()):
        return None
    paths, cardinalities = blobs.texts(REFERENCED_DATA_FILE), blobs.numbers(CARDINALITY)
    offsets, lengths, end = blobs.offsets, blobs.lengths, reader.footer.offset
    if paths is None or cardinalities is None or int(offsets.min()) < len(MAGIC) or int(lengths.min()) < FRAME_OVERHEAD:
        return None
    if (lengths > np.minimum(end - offsets, reader.limits.max_vector_bytes)).any() or int(lengths.sum()) > end:
        return None
    return paths, offsets, lengths, cardinalities


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


FILE_PATH = "file_path"
POS = "pos"
FILE_PATH_ID, POS_ID = 2147483546, 2147483545
CODECS = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")
_ROW_GROUP = 1 << 20
"""Rows of a row group, at most."""


def read_position_deletes(
    source: SourceTarget, *, batch_rows: int = 1 << 20, storage_options: StorageOptions = None
) -> dict[str, RowSet]:
    """Read a Parquet position delete file: data file -> deleted rows (extra ``arrow``).

    The file is streamed; memory is bounded by a batch and the row sets.

    Args:
        source: bytes, path, URL or open file of Parquet.
        batch_rows: rows read at a time.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        MissingExtra: pyarrow is not installed.
        UsageError: not a source, or `batch_rows` is less than 1.
        OSError: the file cannot be opened or read.
        NotCanonical: not a Parquet file, a damaged one, or one without columns ``file_path`` and ``pos``; a null in
            them, or a position below 0 or above 0x7ffffffe80000000.
        Unsupported: a Parquet feature that pyarrow does not support.
    """
    batch_rows = as_count(batch_rows, "batch_rows", 1)
    with open_source(source, storage_options=storage_options) as opened:
        try:
            with arrow_damage("Parquet file", "a readable footer"):
                # Paths repeat: reading them as a dictionary keeps one string per file.
                file = parquet_metadata(opened, dictionary=FILE_PATH, pre_buffer=False)
            with file, arrow_damage("Parquet file", "readable values"), data_errors(opened.name):
                check_columns(file.schema_arrow, FILE_PATH, POS)
                return vectors_from_arrow(file.iter_batches(batch_rows, columns=[FILE_PATH, POS]))
        except DecodeError as err:
            err.source = err.source or opened.name
            raise


def write_position_deletes(
    target: SinkTarget,
    vectors: Mapping[str, RowSet],
    *,
    compression: str = "zstd",
    storage_options: StorageOptions = None,
) -> int:
    """Write a Parquet position delete file, whole or not at all (extra ``arrow``); return its number of rows.

    Rows are sorted by data file (as UTF-8 bytes) and position. Field ids, key-value metadata and required columns are
    those of Iceberg Java's writer. The bounds of ``file_path`` in the footer are whole paths, so that readers can match
    a file for a single data file with it.

    Args:
        target: path, URL or writable file; an existing file is replaced.
        vectors: data file, spelled as the table's metadata does -> deleted rows. Empty sets add nothing.
        compression: codec of Parquet: ``zstd``, ``snappy``, ``gzip``, ``lz4``, ``brotli`` or ``none``.
        storage_options: for URLs: how to reach the store.

    Raises:
        MissingExtra: pyarrow is not installed.
        UsageError: not a mapping of paths to row sets, an unknown codec, or a position above 0x7ffffffe80000000.
        OSError: the target cannot be written.
    """
    check_type(vectors, Mapping, "vectors", "a mapping of data files to row sets")
    for path, rows in vectors.items():
        check_type(path, str, "the path of a data file", "a str")
        check_type(rows, RowSet, f"the rows of {path:.200}", "a RowSet")
        if (rows.max or 0) > MAX_DV_POSITION:
            raise UsageError(f"{path:.200}: position {rows.max}, expected at most {MAX_DV_POSITION:#x}")
    check_choice(compression, CODECS, "compression")
    with open_sink(target, storage_options=storage_options) as sink:
        file = pa.PythonFile(SinkFile(sink), "w")
        with pq.ParquetWriter(file, _schema(), compression=compression, write_page_checksum=True) as writer:
            for rows in _row_groups(vectors):
                writer.write_table(rows, _ROW_GROUP)
    return sum(rows.cardinality for rows in vectors.values())


def _schema() -> pa.Schema:
    columns = [(FILE_PATH, FILE_PATH_ID, "string", pa.string()), (POS, POS_ID, "long", pa.int64())]
    fields = [{"id": number, "name": name, "required": True, "type": kind} for name, number, kind, _ in columns]
    return pa.schema(
        [
            pa.field(name, arrow, nullable=False, metadata={"PARQUET:field_id": str(number)})
            for name, number, _, arrow in columns
        ],
        metadata={
            "delete-type": "position",
            "iceberg.schema": json.dumps({"type": "struct", "schema-id": 0, "fields": fields}),
        },
    )


def _row_groups(vectors: Mapping[str, RowSet]) -> Iterator[pa.Table]:
    """Yield the sorted rows in tables of about a row group: thousands of data files may have a row each."""
    schema = _schema()
    paths: list[str] = []
    positions: list[NDArray[np.int64]] = []
    count = 0

    def gathered() -> pa.Table:
        codes = np.repeat(np.arange(len(paths), dtype=np.int32), [len(some) for some in positions])
        names = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(paths, pa.string())).cast(pa.string())
        return pa.table([names, pa.array(np.concatenate(positions))], schema=schema)

    for path in sorted(vectors, key=str.encode):
        for some in vectors[path].chunks(_ROW_GROUP):
            paths.append(path)
            positions.append(some)
            count += len(some)
            if count >= _ROW_GROUP:
                yield gathered()
                paths, positions, count = [], [], 0
    if paths:
        yield gathered()


@contextmanager
def data_errors(source: str) -> Iterator[None]:
    """Turn a `UsageError` about rows into `NotCanonical`: here they come from a file, not from the caller."""
    try:
        yield
    except MissingExtra:
        raise
    except UsageError as err:
        raise NotCanonical(
            "position deletes", source=source, expected="a path and a position in every row", actual=str(err)
        ) from None


def vectors_from_arrow(data: ArrowData, *, file_column: str = FILE_PATH, pos_column: str = POS) -> dict[str, RowSet]:
    """Build vectors from Arrow rows of (data file, position), in any order; duplicates are fine.

    Args:
        data: a Table, a RecordBatch, or an iterable of RecordBatches (then memory stays bounded).
        file_column: string column, dictionary-encoded or not.
        pos_column: integer column, 0-based physical row positions.

    Raises:
        UsageError: not Arrow rows; a column is missing, has nulls, or has values that are not positions (0 to
            0x7ffffffe80000000).
    """
    found: dict[str, list[RowSet]] = {}
    for batch in _batches(data):
        for path, rows in _split_batch(batch, file_column, pos_column):
            parts = found.setdefault(path, [])
            parts.append(rows)
            if len(parts) >= 16:  # merge now and then: many small parts take more memory than their union
                parts[:] = [RowSet().union(*parts)]
    return {path: parts[0] if len(parts) == 1 else RowSet().union(*parts) for path, parts in found.items()}


def _batches(data: Any) -> Iterator[Any]:
    if hasattr(data, "to_batches"):
        yield from data.to_batches()
    elif hasattr(data, "schema") and hasattr(data, "column"):
        yield data
    else:
        wanted = "an Arrow Table or RecordBatch, or an iterable of RecordBatches"
        check_type(data, Iterable, "data", wanted)
        for batch in data:
            if not hasattr(batch, "schema"):
                raise UsageError(f"data must be {wanted}, and one of them is {type(batch).__name__}")
            yield batch


def _split_batch(batch: pa.RecordBatch, file_column: str, pos_column: str) -> Iterator[tuple[str, RowSet]]:
    """Group one batch by data file: one stable sort by file code, then slices."""
    check_columns(batch.schema, file_column, pos_column)
    for name in (file_column, pos_column):
        if batch.column(name).null_count:
            raise UsageError(f"column {name!r} contains {batch.column(name).null_count} nulls")
    if not batch.num_rows:
        return
    paths = batch.column(file_column)
    if not hasattr(paths, "dictionary"):
        paths = paths.dictionary_encode()
    codes: NDArray[np.integer[Any]] = paths.indices.to_numpy(zero_copy_only=False)
    if int(codes.min()) < 0 or int(codes.max()) >= len(paths.dictionary):
        raise UsageError(f"column {file_column!r} has codes outside its dictionary")
    positions = batch.column(pos_column).to_numpy(zero_copy_only=False)
    if (codes[1:] < codes[:-1]).any():
        order = np.argsort(codes, kind="stable")
        codes, positions = codes[order], positions[order]
    cuts = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(codes)]
    for start, stop in itertools.pairwise(cuts):
        try:
            path = paths.dictionary[int(codes[start])].as_py()
        except UnicodeDecodeError as err:
            raise UsageError(f"column {file_column!r} has a path that is not valid UTF-8: {err}") from None
        if path is None:  # a null of the dictionary, which null_count does not see
            raise UsageError(f"column {file_column!r} has None in place of a string")
        rows = RowSet(positions[start:stop])
        if (rows.max or 0) > MAX_DV_POSITION:
            raise UsageError(f"column {pos_column!r} contains {rows.max}, expected at most {MAX_DV_POSITION:#x}")
        yield path, rows


def check_columns(schema: pa.Schema, file_column: str, pos_column: str, where: str = "") -> None:
    """Check that both columns exist exactly once, and that data files are strings, dictionary-encoded or not.

    Not checked: the type of the positions (`RowSet` does). `where` is the prefix of the message.

    Raises:
        UsageError: a column is missing or duplicated, or is not of strings; or a name is not valid UTF-8.
    """
    try:
        names = schema.names
    except UnicodeDecodeError as err:  # Arrow does not check names when it reads a schema
        raise UsageError(f"{where}a column has a name that is not valid UTF-8: {err}") from None
    for name in (file_column, pos_column):
        count = names.count(name)
        if count != 1:
            problem = f"{count} columns {name!r}" if count else f"no column {name!r}"
            raise UsageError(f"{where}{problem} among {', '.join(names)}")
    kind = schema.field(file_column).type
    kind = getattr(kind, "value_type", kind) if str(kind).startswith("dictionary") else kind
    if str(kind) not in ("string", "large_string", "string_view"):
        raise UsageError(f"{where}column {file_column!r} has type {kind}, expected strings")


_POSITION_DELETES = 1
"""Their ``content`` in a manifest."""


@dataclass(frozen=True, slots=True)
class PositionDeleteFile:
    """A new file of position deletes.

    Attributes:
        data_files: the data files that it has rows of; all in one partition.
        entry: its ``data_file`` struct in a manifest, without the partition.
    """

    data_files: tuple[str, ...]
    entry: Mapping[str, Any]

    def entry_in_json(self) -> dict[str, Any]:
        """Return the entry with its bounds as hexadecimal text, as JSON has no bytes."""
        return {
            name: [{**pair, "value": pair["value"].hex()} for pair in value] if name.endswith("_bounds") else value
            for name, value in self.entry.items()
        }


def write_file(
    path: str, location: str, rows: Mapping[str, RowSet], codec: str, storage: Storage
) -> PositionDeleteFile:
    """Write a file of position deletes and read it back.

    Args:
        path: as it will be recorded.
        location: where it is written.
        rows: data file -> rows.
        codec: compression, see `write_position_deletes`.
        storage: of the table.

    Raises:
        NotCanonical: it was read back otherwise.
        OSError: it cannot be written.
    """
    count = write_position_deletes(location, rows, compression=codec, storage_options=storage)
    with storage.open(location) as source, arrow_damage("position deletes", "a readable file"):
        size = source.size
        with parquet_metadata(source, dictionary=FILE_PATH) as file:
            if vectors_from_arrow(file.iter_batches(columns=[FILE_PATH, POS])) != rows:
                expected = "the rows that were written"
                raise NotCanonical("position deletes as read back", source=location, expected=expected, actual="others")
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    ids = (FILE_PATH_ID, POS_ID)
    sizes = {key: sum(one.column(i).total_compressed_size for one in groups) for i, key in enumerate(ids)}
    entry: dict[str, Any] = {
        "content": _POSITION_DELETES,
        "file_path": path,
        "file_format": "PARQUET",
        "record_count": count,
        "file_size_in_bytes": size,
        "column_sizes": _map(sizes),
        "split_offsets": [_first_byte(group) for group in groups],
    }
    if len(rows) == 1:
        ((data_file, deleted),) = rows.items()
        entry["referenced_data_file"] = data_file
        for name, position in (("lower_bounds", deleted.min), ("upper_bounds", deleted.max)):
            entry[name] = _map({FILE_PATH_ID: data_file.encode(), POS_ID: struct.pack("<q", position)})
    return PositionDeleteFile(tuple(rows), entry)


def _map(values: Mapping[int, Any]) -> list[dict[str, Any]]:
    """Return a map as Avro has it in manifests."""
    return [{"key": key, "value": value} for key, value in values.items()]


def _first_byte(group: pq.RowGroupMetaData) -> int:
    column = group.column(0)
    return int(column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset)

"""Iceberg deletion vectors: the ``deletion-vector-v1`` blob, and Puffin files of them.

Specification: Apache Iceberg, "Puffin file format" (blob type deletion-vector-v1) and "Table spec" v3; the bytes are
those of Iceberg Java's ``BitmapPositionDeleteIndex`` and ``BaseDVFileWriter``. A blob is one frame::

    u32 BE length | D1 D3 39 64 | 64-bit portable roaring, LE | u32 BE CRC-32

Java engines read a blob by the manifest's `content_offset` and `content_size_in_bytes` alone and never open the
footer; so does `decode`. Positions are 0-based physical row positions in the data file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Literal

from dvcodec._version import __version__
from dvcodec.core import batch, frame, vector
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import DecodeError, NotCanonical, UsageError
from dvcodec.core.frame import Magic, StoredFrame
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.location import DvLocation
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import Vector
from dvcodec.iceberg.manifest import java_blob_order
from dvcodec.io import SinkTarget, SourceTarget, read_window, target_name
from dvcodec.io.stretches import stretches
from dvcodec.puffin import (
    CREATED_BY,
    MAGIC,
    REFERENCED_DATA_FILE,
    BlobMetadata,
    PuffinReader,
    PuffinWriter,
    open_puffin,
)
from dvcodec.puffin.alike import BlobsAlike
from dvcodec.puffin.footer import Footer, encodable

__all__ = [
    "BLOB_TYPE",
    "CARDINALITY",
    "ROW_POSITION_FIELD",
    "blob_cardinality",
    "decode",
    "encode",
    "read_deletion_vectors",
    "vector_blobs",
    "write_deletion_vectors",
    "write_stored_vectors",
]

BLOB_TYPE = "deletion-vector-v1"
"""Type of a vector's blob in a Puffin footer."""
DRAFT_BLOB_TYPE = "delete-vector-v1"
"""What drafts of the specification called it; no released writer used the name."""
ROW_POSITION_FIELD = 2147483645
"""Field id of the metadata column _pos: what Java puts into `fields`. Trino and DuckDB leave `fields` empty."""
CARDINALITY = "cardinality"
"""Blob property: number of rows, as a decimal string."""
NO_ID = -1
"""snapshot-id and sequence-number of a deletion vector: the manifest gives them at commit."""
DEFAULT_CREATED_BY = f"dvcodec {__version__}"


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
        cardinality: the manifest's `record_count`; None leaves it unchecked.
        limits: what the bytes may ask for.
        verify_checksum: False skips the CRC.
        source: name of the file, for errors.
        base: offset of the blob in that file, for errors.

    Returns:
        The deleted rows. Not checked here: positions against the data file's row count.

    Raises:
        DecodeError: the bytes are no sound deletion vector: `Truncated`, `ChecksumMismatch`, `BadMagic`,
            `NotCanonical`, `CardinalityMismatch` or `LimitExceeded`.

    >>> decode(encode(RowSet([1, 3, 5])), cardinality=3)
    RowSet([1, 3, 5])
    """
    cursor = Cursor(buf, source=source, base=base)
    return vector.read(
        cursor,
        allowed=(Magic.PORTABLE64,),
        exact=True,
        cardinality=cardinality,
        limits=limits,
        verify_checksum=verify_checksum,
    ).load()


def encode(rows: RowSet, *, run_optimize: bool = True, gap_keys: bool = True) -> bytes:
    """Encode one blob.

    The defaults give the bytes of Iceberg Java (positions deleted one by one, then serialized). What Java makes of
    *range* deletes and of merges with an older vector may hold other containers for the same rows.

    Args:
        rows: the deleted rows.
        run_optimize: False writes no run containers (iceberg-rust, DuckDB).
        gap_keys: False leaves out the empty bitmaps below the highest key (all but the Java writers).

    Raises:
        UsageError: a position above 0x7ffffffe80000000, or a blob of more than 2**31 - 1 bytes.

    >>> encode(RowSet()).hex(" ", 4)
    '0000000c d1d33964 00000000 00000000 bf18480c'
    """
    magic = Magic.PORTABLE64
    return frame.build(magic, *vector.encode_pieces(rows, magic, run_optimize=run_optimize, gap_keys=gap_keys))


def vector_blobs(footer: Footer, source: str | None = None) -> list[BlobMetadata]:
    """Return the deletion vectors among the blobs of a footer.

    Raises:
        NotCanonical: together they are longer than the file: many names for the same bytes would make reading all
            of them endless. (A single damaged length is left to the reader of that blob.)
    """
    blobs = [blob for blob in footer.blobs if blob.type == BLOB_TYPE]
    lengths = sorted(max(blob.length, 0) for blob in blobs)
    if sum(lengths[:-1]) > footer.offset:
        raise NotCanonical(
            "lengths of all vectors",
            source=source,
            offset=footer.offset,
            expected=f"at most the {footer.offset} bytes before the footer",
            actual=sum(lengths),
        )
    return blobs


def blob_cardinality(blob: BlobMetadata, source: str | None = None) -> int | None:
    """Return the blob's `cardinality` property, None if it has none.

    Raises:
        NotCanonical: the property is not a decimal number.
    """
    text = blob.properties.get(CARDINALITY)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise NotCanonical(
            "blob property cardinality",
            source=source,
            offset=blob.offset,
            expected="a decimal number",
            actual=repr(text[:40]),
        )
    return int(text)


def check_blob(blob: BlobMetadata, source: str | None = None) -> int | None:
    """Check what the footer says of a vector, as far as reading depends on it; return its `cardinality`.

    Raises:
        NotCanonical: the blob is compressed, or its cardinality is no number.
    """
    if blob.compression_codec is not None:
        raise NotCanonical(
            "compression-codec of a deletion vector",
            source=source,
            offset=blob.offset,
            expected="none: deletion vectors are not compressed",
            actual=repr(blob.compression_codec),
        )
    return blob_cardinality(blob, source)


def read_blob(reader: PuffinReader, blob: BlobMetadata, *, verify_checksum: bool = True) -> Vector:
    """Read and walk one vector of a Puffin file, held against its `cardinality` property."""
    return vector.read(
        reader.read_stored(blob),
        allowed=(Magic.PORTABLE64,),
        exact=True,
        cardinality=check_blob(blob, reader.source.name),
        limits=reader.limits,
        verify_checksum=verify_checksum,
    )


def read_deletion_vectors(
    source: SourceTarget,
    *,
    duplicates: Literal["error", "union", "last"] = "error",
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
) -> dict[str, RowSet]:
    """Read all deletion vectors of a Puffin file: data file -> deleted rows. Other blobs are left alone.

    Args:
        source: bytes, path, URL or open file.
        duplicates: what to do with two vectors for one data file. Iceberg forbids it (``error``); DuckLake keeps
            one cumulative vector per snapshot (``last``); ``union`` mends a table that has both.
        limits: what the bytes may ask for.
        verify_checksum: False skips the CRCs.

    Raises:
        DecodeError: the file or a vector is not sound, has no `referenced-data-file`, or is one of two.
    """
    rows: dict[str, RowSet] = {}
    with open_puffin(source, limits=limits) as reader:
        at_once = _read_alike(reader, verify_checksum)
        if at_once is not None:
            return at_once
        for blob in vector_blobs(reader.footer, reader.source.name):
            path = blob.properties.get(REFERENCED_DATA_FILE)
            if path is None:
                raise _blob_error(reader, blob, "blob property referenced-data-file", "a path", "nothing")
            if path in rows and duplicates == "error":
                raise _blob_error(
                    reader, blob, "referenced-data-file", "one vector for each data file", f"{path} twice"
                )
            found = read_blob(reader, blob, verify_checksum=verify_checksum).load()
            rows[path] = rows[path] | found if path in rows and duplicates == "union" else found
    return rows


def _read_alike(reader: PuffinReader, verify_checksum: bool) -> dict[str, RowSet] | None:
    """Read the vectors of a file that holds thousands, described alike by the footer and soundly; None for others.

    They are read in a few passes over all of them, where one at a time costs a hundred microseconds each.
    """
    blobs = reader.footer.blobs
    if not isinstance(blobs, BlobsAlike) or blobs.first.type != BLOB_TYPE:
        return None
    paths, cardinalities = blobs.texts(REFERENCED_DATA_FILE), blobs.numbers(CARDINALITY)
    if paths is None or cardinalities is None or len(set(paths)) < len(paths):
        return None
    offsets, lengths = blobs.offsets, blobs.lengths
    ends = offsets + lengths
    if int(offsets[0]) < len(MAGIC) or (ends[:-1] > offsets[1:]).any() or int(ends[-1]) > reader.footer.offset:
        return None
    rows: list[RowSet] = []
    for first, last, start, stop in stretches(offsets, lengths):
        rows += batch.load(
            read_window(reader.source, start, stop - start).view,
            offsets[first:last] - start,
            lengths[first:last],
            allowed=(Magic.PORTABLE64,),
            cardinalities=cardinalities[first:last],
            limits=reader.limits,
            verify_checksum=verify_checksum,
            source=reader.source.name,
            base=start,
        )
    return dict(zip(paths, rows, strict=True))


def _blob_error(reader: PuffinReader, blob: BlobMetadata, what: str, expected: str, actual: str) -> DecodeError:
    return NotCanonical(what, source=reader.source.name, offset=blob.offset, expected=expected, actual=actual)


def write_deletion_vectors(
    sink: SinkTarget,
    vectors: Mapping[str, RowSet],
    *,
    created_by: str = DEFAULT_CREATED_BY,
    order: Literal["java", "given"] = "java",
    run_optimize: bool = True,
    gap_keys: bool = True,
) -> list[DvLocation]:
    """Write one Puffin file with a vector for each data file.

    For the same vectors, `created_by` and order of first delete, the file equals that of Iceberg Java's
    ``BaseDVFileWriter``. No vectors: no file, like there.

    Args:
        sink: path, URL or writable file.
        vectors: data file -> deleted rows (an empty set is written as an empty vector).
        created_by: file property ``created-by``.
        order: ``java`` puts the blobs in the order of Java's writer (see `java_blob_order`), ``given`` in that of
            the mapping.
        run_optimize: see `encode`.
        gap_keys: see `encode`.

    Returns:
        Where each vector is, in file order; `manifest_entry` makes manifest values of it.

    Raises:
        UsageError: a row set that does not fit (nothing is written then).
    """
    counts = {path: rows.cardinality for path, rows in vectors.items()}
    paths = java_blob_order(counts) if order == "java" else list(vectors)
    frames = (
        StoredFrame(path, counts[path], encode(vectors[path], run_optimize=run_optimize, gap_keys=gap_keys))
        for path in paths
    )
    return write_stored_vectors(sink, frames, created_by=created_by)


def write_stored_vectors(
    sink: SinkTarget,
    vectors: Iterable[StoredFrame],
    *,
    created_by: str = DEFAULT_CREATED_BY,
) -> list[DvLocation]:
    """Write frames as they are, in file order: conversion without re-encoding."""
    items = iter(vectors)
    seen: set[str] = set()
    first = next(items, None)
    if first is None:
        return []
    blobs = []
    with PuffinWriter(sink, {CREATED_BY: created_by}) as writer:
        for path, cardinality, blob in chain([first], items):
            if path is None:
                raise UsageError("a Puffin file names the data file of every vector")
            stored = encodable(path)
            if stored in seen:
                raise UsageError(f"two vectors for the data file {path!r}: unite them first")
            seen.add(stored)
            properties = {REFERENCED_DATA_FILE: path, CARDINALITY: str(cardinality)}
            metadata = BlobMetadata(BLOB_TYPE, (ROW_POSITION_FIELD,), NO_ID, NO_ID, 0, 0, None, properties)
            blobs.append((path, cardinality, writer.add_stored(metadata, blob)))
    name = target_name(sink)
    return [
        DvLocation("iceberg", name, blob.offset, blob.length, cardinality, path, writer.file_size)
        for path, cardinality, blob in blobs
    ]

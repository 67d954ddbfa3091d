"""Apache Paimon: deletion vectors, index files, the index manifest, the hash index.

Vectors, of 32 or 64 bits, are in index files. Specification: Paimon's "Table Index", section "Deletion Vectors Index";
Java classes ``BitmapDeletionVector`` (32-bit), ``Bitmap64DeletionVector``, ``DeletionVectorsIndexFile`` and
``DeletionFileWriter``. A file is a version byte and frames back to back (see `io.frames`), of either kind or mixed; the
index manifest names the data file of each::

    u8 1 | frame | frame | ...          (only the version byte in a file without vectors)
    frame = u32 BE L | magic and bitmap (L bytes) | u32 BE CRC-32
    magic = 5E 43 F2 D0: one 32-bit portable roaring, LE; D1 D3 39 64: 64-bit portable roaring, LE

The manifest's ``length`` is L for a 32-bit vector, but L + 8, the whole frame, for a 64-bit one.

The index manifest lists the index files of a snapshot, and the data files of their vectors. Specification: Paimon's
"Manifest", section "Index Manifest"; Java classes ``IndexManifestFile`` and ``IndexManifestEntrySerializer``. A file
with one record per index file::

    _VERSION 1 | _KIND | _PARTITION | _BUCKET | _INDEX_TYPE | _FILE_NAME | _FILE_SIZE | _ROW_COUNT
    _DELETIONS_VECTORS_RANGES: array of (f0 data file, f1 offset, f2 length, _CARDINALITY)
    _EXTERNAL_PATH | _GLOBAL_INDEX

In Paimon 0.9 the record ends with the ranges, and each range with f2. Later fields were appended and are nullable, so
one reader reads all generations. Items of the ranges are nullable in files of Java and Rust, but not of pypaimon.

The hash index has hashes of the primary keys in a bucket of a dynamic-bucket table. Specification: Paimon's "Table
Index", section "Dynamic Bucket Index"; Java class ``HashIndexFile``. No header::

    i32 BE | i32 BE | ...            one hash per primary key; the index manifest has their number

Manifests, their lists and index manifests are read as records, in Avro, ORC or Parquet. Releases up to 1.4 write the
format that the table option ``manifest.format`` names; paimon-cpp writes ORC by default. Later releases read and write
Avro alone. The first bytes of a file show its format. Fields have the same names in all three, so the known schemas are
Avro's.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dvcodec.core import avro, vector
from dvcodec.core.avro import differs, unwrapped
from dvcodec.core.cursor import BytesLike, Cursor, as_view
from dvcodec.core.errors import CardinalityMismatch, DecodeError, NotCanonical, Truncated, Unsupported, UsageError
from dvcodec.core.extras import pa, pc, pq, require_extra, types
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
    open_sink,
    open_source,
    read_up_to,
    read_within,
    remove,
    target_name,
)
from dvcodec.io.frames import MAX_FILE_BYTES, check_version, encoded, load_ranges, write_frames
from dvcodec.io.parquet import arrow_damage, parquet_metadata
from dvcodec.io.source import by_windows, object_source
from dvcodec.io.workers import open_orc

__all__ = [
    "DELETION_VECTORS",
    "EMPTY_PARTITION",
    "HASH",
    "TARGET_SIZE",
    "DeletionVectorMeta",
    "GlobalIndexMeta",
    "IndexFile",
    "IndexManifestEntry",
    "decode",
    "decode_hash_index",
    "encode",
    "encode_hash_index",
    "load",
    "load_frames",
    "read_deletion_vectors",
    "read_index_manifest",
    "write_deletion_vectors",
    "write_index_files",
    "write_index_manifest",
    "write_stored_vectors",
]


FILE_FORMATS = ("avro", "orc", "parquet")
_ORC, _PARQUET = b"ORC", b"PAR1"
_NUMBERS = {"int": "int32", "long": "int64", "bytes": "binary"}
_TINY = "_KIND"
"""The field of the known schemas that is a byte in ORC and Parquet."""


@dataclass(frozen=True, slots=True)
class MetadataFormat:
    """How a metadata file is written.

    Attributes:
        name: ``avro``, ``orc`` or ``parquet``.
        codec: of Avro's blocks; ORC and Parquet are compressed by Zstandard.
    """

    name: str = "avro"
    codec: str = "zstandard"


@dataclass(frozen=True, slots=True)
class Records:
    """A metadata file.

    Attributes:
        source: the file, for errors.
        format: how it is written.
        schema: that it was written with: Avro's as parsed JSON, otherwise one of Arrow.
        records: with all fields, times as stored; can be iterated over once.
        file: an Avro file, whose records can be read in columns instead.
    """

    source: str
    format: MetadataFormat
    schema: Any
    records: Iterator[dict[str, Any]]
    file: avro.AvroFile | None = None

    def field_names(self) -> set[str]:
        """Return the names of all fields; those inside of others follow the other's name and a point."""
        return _names(self.schema if self.format.name == "avro" else _avro_type(pa.struct(list(self.schema))))


def read_records(
    source: Source,
    known: Mapping[str, Any],
    what: str,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> Records:
    """Read a metadata file.

    Args:
        source: the file.
        known: the known fields of a record, as an Avro schema.
        what: kind of the file, for errors.
        limits: bounds on what the bytes may claim.

    Raises:
        DecodeError: it is corrupt, or its fields have other types than the known ones.
        MissingExtra: fastavro, or pyarrow for ORC and Parquet, is not installed.
        OSError: it cannot be read.
    """
    cursor = read_within(source, "max_metadata_bytes", limits)
    head = bytes(cursor.view[: len(_PARQUET)])

    def check(title: str, schema: Any) -> None:
        # Early releases of Paimon write the record as nullable.
        problem = differs(schema, ["null", known])
        if problem:
            raise cursor.error(Unsupported, f"{title} schema", at=0, expected=what, actual=problem)

    if head.startswith(_ORC) or head == _PARQUET:
        name = "parquet" if head == _PARQUET else "orc"
        found = (_parquet if name == "parquet" else _orc)(object_source(cursor.view, source.name))
        schema = next(found)
        title = "Parquet" if name == "parquet" else "ORC"
        try:
            check(title, _avro_type(pa.struct(list(schema))))
        except UnicodeDecodeError as err:
            expected = "names in UTF-8"
            raise cursor.error(NotCanonical, f"{title} schema", at=0, expected=expected, actual=err.reason) from None
        batches = list(_within(found, cursor, limits))  # ends what `found` holds
        return Records(source.name, MetadataFormat(name), schema, _of_batches(batches, known, cursor))
    file = avro.decode(cursor, limits=limits)
    check("Avro", file.schema)
    return Records(source.name, MetadataFormat("avro", file.codec), file.schema, _of_avro(file, cursor), file)


def _of_avro(file: avro.AvroFile, cursor: Cursor) -> Iterator[dict[str, Any]]:
    for record in file.records():
        if record is None:
            raise cursor.error(NotCanonical, "Avro record", at=0, expected="a record", actual="null")
        yield record


def _orc(source: Source) -> Iterator[Any]:
    """Yield the schema and the batches of a file."""
    with open_orc(source) as file:
        yield file.schema
        yield from file.batches([])


def _parquet(source: Source) -> Iterator[Any]:
    try:
        with arrow_damage("Parquet file", "a readable footer"):
            file = parquet_metadata(source)
            schema = file.schema_arrow
        yield schema.remove_metadata()
        with arrow_damage("Parquet file", "readable pages"):
            yield from file.iter_batches(1 << 12)
    except DecodeError as err:
        err.source = err.source or source.name
        raise


def _within(batches: Iterator[Any], cursor: Cursor, limits: Limits) -> Iterator[Any]:
    size = records = 0
    for batch in batches:
        size, records = size + batch.nbytes, records + batch.num_rows
        limits.check("max_metadata_bytes", size, cursor, 0)
        limits.check("max_records", records, cursor, 0)
        yield batch


def _of_batches(batches: list[Any], known: Mapping[str, Any], cursor: Cursor) -> Iterator[dict[str, Any]]:
    for batch in batches:
        try:
            rows = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
            _check_nulls(rows, known, "record", cursor)
            yield from _values(rows)
        except (pa.ArrowException, UnicodeDecodeError) as err:
            actual = str(err).partition("\n")[0]
            raise cursor.error(NotCanonical, "record", at=0, expected="readable values", actual=actual) from None


def _check_nulls(array: Any, known: Any, name: str, cursor: Cursor) -> None:
    """Refuse a null in a field that always has a value."""
    known, nullable = unwrapped(known)
    if array.null_count and not nullable:
        raise cursor.error(NotCanonical, name, at=0, expected="a value", actual="null")
    if isinstance(known, dict) and known["type"] == "array":
        _check_nulls(array.flatten(), known["items"], name, cursor)
    elif isinstance(known, dict):
        present = array.drop_null()
        for field in known["fields"]:
            at = array.type.get_field_index(field["name"])
            if at >= 0:
                _check_nulls(pc.struct_field(present, at), field["type"], field["name"], cursor)


def _values(array: Any) -> list[Any]:
    """Return the values of an array; times as numbers, for pyarrow's own objects need pandas."""
    if types.is_struct(array.type):
        names = [field.name for field in array.type]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*map(_values, array.flatten()), strict=True)]
        if not array.null_count:
            return rows
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    found: list[Any] = array.to_pylist()
    return found


def _avro_type(kind: pa.DataType) -> Any:
    """Return an Arrow type as Avro's schemas name it."""
    if types.is_signed_integer(kind):
        return "long" if kind.bit_width == 64 else "int"
    if types.is_list(kind):
        return {"type": "array", "items": _avro_type(kind.value_type)}
    if types.is_struct(kind):
        return {"type": "record", "fields": [{"name": one.name, "type": _avro_type(one.type)} for one in kind]}
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp"}
    return {"binary": "bytes", "bool": "boolean"}.get(str(kind), str(kind))


def arrow_schema(known: Mapping[str, Any]) -> pa.Schema:
    """Return a known schema as one of Arrow."""

    def field(name: str, kind: Any) -> pa.Field:
        kind, nullable = unwrapped(kind)
        if isinstance(kind, str):
            return pa.field(name, pa.type_for_alias("int8" if name == _TINY else _NUMBERS.get(kind, kind)), nullable)
        if kind["type"] == "array":
            return pa.field(name, pa.list_(field("element", kind["items"])), nullable)
        return pa.field(name, pa.struct([field(one["name"], one["type"]) for one in kind["fields"]]), nullable)

    return pa.schema([field(one["name"], one["type"]) for one in known["fields"]])


def encode_records(file_format: MetadataFormat, schema: Any, records: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the bytes of a metadata file.

    Args:
        file_format: how it is written.
        schema: see `Records`.
        records: as in `Records`.

    Raises:
        UsageError: a record does not fit the schema, or the codec is unknown.
        MissingExtra: fastavro, or pyarrow for ORC and Parquet, is not installed.
    """
    if file_format.name == "avro":
        return avro.encode(schema, records, codec=file_format.codec)
    orc = require_extra("pyarrow.orc", "tables")
    sink = pa.BufferOutputStream()
    try:
        rows = pa.Table.from_pylist(list(records), schema=schema)
    except (pa.ArrowException, OverflowError) as err:
        actual = str(err).partition("\n")[0]
        raise UsageError(f"a record does not fit the schema of the {file_format.name} file: {actual:.200}") from None
    if file_format.name == "orc":
        orc.write_table(rows, sink, compression="zstd")
    else:
        pq.write_table(rows, sink, compression="zstd", store_schema=False)
    return bytes(sink.getvalue())


def _names(schema: Any, path: str = "") -> set[str]:
    if isinstance(schema, list):
        return {name for option in schema for name in _names(option, path)}
    if not isinstance(schema, dict):
        return set()
    inner = {name for key in ("items", "values", "type") for name in _names(schema.get(key), path)}
    for field in schema.get("fields") or ():
        name = f"{path}.{field['name']}"
        inner |= {name} | _names(field["type"], name)
    return inner


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
    return vector.load(cursor, MAGICS, cardinality, limits, verify_checksum=verify_checksum)


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
    check_limits(limits)
    meta = _meta_of(location)
    if source is None:
        if not isinstance(location, DvLocation):
            raise UsageError(f"vector of {meta.data_file!r}: the index file is missing: pass it as source")
        source = location.path
    with open_source(source, storage_options=storage_options) as opened:
        return read_vector(opened, meta, limits, verify_checksum=verify_checksum).load()


def read_vector(
    source: Source, meta: DeletionVectorMeta, limits: Limits = DEFAULT_LIMITS, *, verify_checksum: bool = True
) -> Vector:
    """`load` from an open index file, by checked arguments, without expanding the rows.

    Raises:
        DecodeError: see `load`. Not checked: array order and bitset population (`Vector.check`).
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


VERSION = 1
KINDS: tuple[Literal["ADD"], Literal["DELETE"]] = ("ADD", "DELETE")
DELETION_VECTORS = "DELETION_VECTORS"
"""Index type of deletion vectors."""
HASH = "HASH"
"""Index type of the hash index of dynamic-bucket tables."""
EMPTY_PARTITION = bytes(12)
"""`partition` of a table without partitions: arity 0 and an empty BinaryRow."""

_RANGES, _GLOBAL_INDEX = "_DELETIONS_VECTORS_RANGES", "_GLOBAL_INDEX"
_NAMESPACE = "org.apache.paimon.avro.generated.record"


def _nullable(kind: object) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


_RANGE_SCHEMA = {
    "type": "record",
    "name": f"{_NAMESPACE}_{_RANGES}",
    "fields": [
        {"name": "f0", "type": "string"},
        {"name": "f1", "type": "int"},
        {"name": "f2", "type": "int"},
        {"name": "_CARDINALITY", **_nullable("long")},
    ],
}
_GLOBAL_INDEX_SCHEMA = {
    "type": "record",
    "name": f"{_NAMESPACE}_{_GLOBAL_INDEX}",
    "fields": [
        {"name": "_ROW_RANGE_START", "type": "long"},
        {"name": "_ROW_RANGE_END", "type": "long"},
        {"name": "_INDEX_FIELD_ID", "type": "int"},
        {"name": "_EXTRA_FIELD_IDS", **_nullable({"type": "array", "items": "int"})},
        {"name": "_INDEX_META", **_nullable("bytes")},
        {"name": "_SOURCE_META", **_nullable("bytes")},
    ],
}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": _NAMESPACE,
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_INDEX_TYPE", "type": "string"},
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_ROW_COUNT", "type": "long"},
        {"name": _RANGES, **_nullable({"type": "array", "items": ["null", _RANGE_SCHEMA]})},
        {"name": "_EXTERNAL_PATH", **_nullable("string")},
        {"name": _GLOBAL_INDEX, **_nullable(_GLOBAL_INDEX_SCHEMA)},
    ],
}
"""The schema for writing: Java's current one."""


@dataclass(frozen=True, slots=True)
class GlobalIndexMeta:
    """Metadata of a global index file; its row range consists of row ids and includes both ends."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    source_meta: bytes | None = None


@dataclass(frozen=True, slots=True)
class IndexManifestEntry:
    """One index file of a snapshot.

    Attributes:
        index_type: ``DELETION_VECTORS``, ``HASH``, or the name of a global index.
        file_name: bare name of the index file.
        file_size: bytes.
        row_count: number of vectors or hashes, not rows. Not checked against `vectors`.
        partition: serialized by Paimon, not decoded: arity (4 bytes, big-endian), then the BinaryRow.
        bucket: 0 in tables without buckets.
        kind: ``ADD``; ``DELETE`` occurs only during a commit.
        vectors: location and data file of each vector; None for other index types.
        external_path: full path, if the file is outside the table's folder.
        global_index: metadata of a global index, else None.
    """

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    partition: bytes = EMPTY_PARTITION
    bucket: int = 0
    kind: Literal["ADD", "DELETE"] = "ADD"
    vectors: tuple[DeletionVectorMeta, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndexMeta | None = None

    @classmethod
    def from_index_file(
        cls, file: IndexFile, *, partition: bytes = EMPTY_PARTITION, bucket: int = 0
    ) -> IndexManifestEntry:
        """Return the entry of a written index file.

        Args:
            file: the index file.
            partition: serialized as in Paimon: arity (4 bytes, big-endian), then the BinaryRow.
            bucket: 0 in tables without buckets.

        Raises:
            UsageError: an argument of a wrong type.
        """
        check_type(file, IndexFile, "file", "an IndexFile")
        check_type(partition, bytes, "partition", "bytes")
        check_integer(bucket, "bucket")
        name = file.path.rpartition("/")[2]
        return cls(DELETION_VECTORS, name, file.file_size, len(file.vectors), partition, bucket, vectors=file.vectors)

    def path(self, folder: str) -> str:
        """Return the path or URL of the index file.

        The manifest does not have the table option ``index-file-in-data-file-dir``, which changes the folder.

        Raises:
            NotCanonical: the name is not a bare file name.
            UsageError: `folder` is not a str.
        """
        check_type(folder, str, "folder", "a str")
        if self.external_path is not None:
            return self.external_path
        if not self.file_name or "/" in self.file_name or "\0" in self.file_name or self.file_name in (".", ".."):
            raise NotCanonical("_FILE_NAME", expected="a bare file name", actual=repr(self.file_name)[:80])
        return f"{folder.rstrip('/')}/index/{self.file_name}"


def read_index_manifest(
    source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS, storage_options: StorageOptions = None
) -> list[IndexManifestEntry]:
    """Read an index manifest of any generation, in file order (extra ``tables``).

    Args:
        source: bytes, path, URL, open file or `Source`.
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the file is damaged, not an index manifest, or has an unknown version or kind.
        MissingExtra: fastavro, or pyarrow for ORC and Parquet, is not installed.
        OSError: the file cannot be opened or read.
    """
    with open_source(source, storage_options=storage_options) as opened:
        file = read_records(opened, SCHEMA, "Paimon's index manifest", limits=limits)
        cursor = Cursor(b"", source=file.source)
        return [_entry(record, i, cursor) for i, record in enumerate(file.records)]


def write_index_manifest(
    target: SinkTarget,
    entries: Iterable[IndexManifestEntry],
    *,
    codec: str = "zstandard",
    file_format: str = "avro",
    storage_options: StorageOptions = None,
) -> None:
    """Write an index manifest of the current generation (extra ``tables``).

    Args:
        target: path, URL or writable file; Paimon's name is ``<table>/manifest/index-manifest-<uuid>-<n>``.
        entries: all index files of the snapshot, in the order to write.
        codec: of Avro: ``zstandard`` (Paimon's default), ``deflate``, ``snappy`` or ``null``.
        file_format: ``avro``, ``orc`` or ``parquet``: the table option ``manifest.format``.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        UsageError: not entries, a value that does not fit the schema, a kind other than ADD and DELETE, or an unknown
            codec or file format.
        MissingExtra: fastavro, or pyarrow for ORC and Parquet, is not installed.
        OSError: the file cannot be written (an existing file is kept).
    """
    check_type(entries, Iterable, "entries", "an iterable of IndexManifestEntry")
    check_choice(file_format, FILE_FORMATS, "file_format")
    data = avro.encode(SCHEMA, map(_record, entries), codec=codec)
    if file_format != "avro":  # Avro checked the records
        records = avro.decode(Cursor(data)).records()
        data = encode_records(MetadataFormat(file_format), arrow_schema(SCHEMA), records)
    with open_sink(target, storage_options=storage_options) as out:
        out.write(data)


def _record(entry: IndexManifestEntry) -> dict[str, Any]:
    check_type(entry, IndexManifestEntry, "an item of entries", "an IndexManifestEntry")
    if entry.kind not in KINDS:
        raise UsageError(f"{entry.file_name}: kind {entry.kind!r} is neither ADD nor DELETE")
    index, vectors = entry.global_index, entry.vectors
    return {field: getattr(entry, name) for name, field in _members(IndexManifestEntry).items()} | {
        "_VERSION": VERSION,
        "_KIND": KINDS.index(entry.kind),
        _RANGES: None
        if vectors is None
        else [
            {"f0": meta.data_file, "f1": meta.offset, "f2": meta.length, "_CARDINALITY": meta.cardinality}
            for meta in vectors
        ],
        _GLOBAL_INDEX: index
        and {
            field: list(value) if isinstance(value := getattr(index, name), tuple) else value
            for name, field in _members(GlobalIndexMeta).items()
        },
    }


@cache
def _members(kind: type[IndexManifestEntry | GlobalIndexMeta]) -> dict[str, str]:
    """Return what the manifest calls the fields of a class."""
    names = {one.name: f"_{one.name.upper()}" for one in fields(kind)}
    return {name: _RANGES if name == "vectors" else field for name, field in names.items()}


def _entry(record: Mapping[str, Any], number: int, cursor: Cursor) -> IndexManifestEntry:
    where = f"entry {number}"
    version, kind = record["_VERSION"], record["_KIND"]
    if version != VERSION:
        raise cursor.error(Unsupported, f"_VERSION of {where}", at=0, expected=VERSION, actual=version)
    if kind not in (0, 1):
        raise cursor.error(NotCanonical, f"_KIND of {where}", at=0, expected="0 (ADD) or 1 (DELETE)", actual=kind)
    for name in ("_FILE_SIZE", "_ROW_COUNT"):
        if record[name] < 0:
            raise cursor.error(NotCanonical, f"{name} of {where}", at=0, expected="0 or more", actual=record[name])
    _check_int(record["_BUCKET"], "_BUCKET", where, cursor)
    known = {field["name"] for field in SCHEMA["fields"]}
    unknown = next((name for name, value in record.items() if name not in known and value is not None), None)
    if unknown is not None:
        raise cursor.error(Unsupported, f"{unknown} of {where}", at=0, expected="no unknown field")
    ranges, index = record.get(_RANGES), record.get(_GLOBAL_INDEX)
    if index:
        for field_id in (index["_INDEX_FIELD_ID"], *(index.get("_EXTRA_FIELD_IDS") or ())):
            _check_int(field_id, "field id", where, cursor)
        members = {name: index.get(field) for name, field in _members(GlobalIndexMeta).items()}
        ids = members["extra_field_ids"]
        index = GlobalIndexMeta(**members | {"extra_field_ids": None if ids is None else tuple(ids)})
    values = {name: record.get(field) for name, field in _members(IndexManifestEntry).items()}
    vectors = None if ranges is None else _vectors(ranges, where, cursor)
    return IndexManifestEntry(**values | {"kind": KINDS[kind], "vectors": vectors, "global_index": index})


def _check_int(value: int, what: str, where: str, cursor: Cursor) -> None:
    """Check that a number fits 32 bits, as the schema states; fastavro also reads 64-bit ones."""
    if not -(1 << 31) <= value < 1 << 31:
        raise cursor.error(NotCanonical, f"{what} of {where}", at=0, expected="32 bits", actual=value)


def _vectors(ranges: Iterable[Mapping[str, Any] | None], where: str, cursor: Cursor) -> tuple[DeletionVectorMeta, ...]:
    found: dict[str, DeletionVectorMeta] = {}
    what = f"{_RANGES} of {where}"
    for item in ranges:
        if item is None:
            raise cursor.error(NotCanonical, what, at=0, expected="records", actual="a null")
        try:
            meta = DeletionVectorMeta(item["f0"], item["f1"], item["f2"], item.get("_CARDINALITY"))
        except UsageError as err:
            raise cursor.error(NotCanonical, what, at=0, actual=err) from None
        if meta.data_file in found:
            actual = f"two for {meta.data_file!r}"
            raise cursor.error(NotCanonical, what, at=0, expected="one vector per data file", actual=actual)
        found[meta.data_file] = meta
    return tuple(found.values())


HASH_BYTES = 4
_INT32 = np.iinfo(np.int32)


def decode_hash_index(buf: BytesLike, *, row_count: int | None = None, source: str | None = None) -> NDArray[np.int32]:
    """Decode a whole file: int32[n], native byte order, in file order.

    Args:
        buf: the file.
        row_count: number of hashes from the index manifest (`row_count` of the entry); None skips the check.
        source: name of the file, for errors.

    Raises:
        Truncated: the last hash is incomplete (Paimon's reader drops it silently).
        CardinalityMismatch: the number of hashes is not `row_count`.
        UsageError: `buf` is not a contiguous buffer, or `row_count` is not a count.
    """
    row_count = None if row_count is None else as_count(row_count, "row_count")
    cursor = Cursor(buf, source=source)
    left = cursor.remaining % HASH_BYTES
    if left:
        start = cursor.remaining - left
        raise cursor.error(Truncated, "hash", at=start, expected=f"{HASH_BYTES} bytes", actual=f"{left} left")
    hashes = np.frombuffer(cursor.view, ">i4").astype(np.int32)
    if row_count is not None and row_count != len(hashes):
        raise cursor.error(CardinalityMismatch, "hashes", expected=f"{row_count} (metadata)", actual=len(hashes))
    return hashes


def encode_hash_index(hashes: ArrayLike) -> bytes:
    """Encode hashes in the order given.

    Raises:
        UsageError: not a flat sequence of integers from -2**31 to 2**31 - 1.
    """
    try:
        values: NDArray[Any] = np.asarray(hashes)
    except (ValueError, OverflowError) as err:
        raise UsageError(f"hashes must be a flat array of integers: {err}") from None
    if not values.size:
        return b""
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise UsageError(f"hashes must be a flat array of integers, got {values.dtype} of shape {values.shape}")
    low, high = int(values.min()), int(values.max())
    if low < _INT32.min or high > _INT32.max:
        raise UsageError(f"hash {low if low < _INT32.min else high} is not a signed 32-bit integer")
    return values.astype(">i4").tobytes()

"""Paimon's index manifest: the index files of a snapshot, and the data files of their vectors.

Specification: Paimon's "Manifest", section "Index Manifest"; Java classes ``IndexManifestFile`` and
``IndexManifestEntrySerializer``. A file (see `records`) with one record per index file::

    _VERSION 1 | _KIND | _PARTITION | _BUCKET | _INDEX_TYPE | _FILE_NAME | _FILE_SIZE | _ROW_COUNT
    _DELETIONS_VECTORS_RANGES: array of (f0 data file, f1 offset, f2 length, _CARDINALITY)
    _EXTERNAL_PATH | _GLOBAL_INDEX

In Paimon 0.9 the record ends with the ranges, and each range with f2. Later fields were appended and are nullable, so
one reader reads all generations. Items of the ranges are nullable in files of Java and Rust, but not of pypaimon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dvcodec.core import avro
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.usage import check_choice, check_integer, check_type
from dvcodec.io import SinkTarget, SourceTarget, StorageOptions, open_sink, open_source
from dvcodec.paimon.records import FORMATS, MetadataFormat, arrow_schema, encode_records, read_records
from dvcodec.paimon.vectors import DeletionVectorMeta, IndexFile

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
_OLDEST = 8
"""Number of leading fields that every generation has."""


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
        file = read_records(opened, SCHEMA, "Paimon's index manifest", required=_OLDEST, limits=limits)
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
    check_choice(file_format, FORMATS, "file_format")
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
    index = entry.global_index
    return {
        "_VERSION": VERSION,
        "_KIND": KINDS.index(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.file_name,
        "_FILE_SIZE": entry.file_size,
        "_ROW_COUNT": entry.row_count,
        _RANGES: entry.vectors
        if entry.vectors is None
        else [
            {"f0": meta.data_file, "f1": meta.offset, "f2": meta.length, "_CARDINALITY": meta.cardinality}
            for meta in entry.vectors
        ],
        "_EXTERNAL_PATH": entry.external_path,
        _GLOBAL_INDEX: index
        and {
            "_ROW_RANGE_START": index.row_range_start,
            "_ROW_RANGE_END": index.row_range_end,
            "_INDEX_FIELD_ID": index.index_field_id,
            "_EXTRA_FIELD_IDS": None if index.extra_field_ids is None else list(index.extra_field_ids),
            "_INDEX_META": index.index_meta,
            "_SOURCE_META": index.source_meta,
        },
    }


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
    return IndexManifestEntry(
        record["_INDEX_TYPE"],
        record["_FILE_NAME"],
        record["_FILE_SIZE"],
        record["_ROW_COUNT"],
        record["_PARTITION"],
        record["_BUCKET"],
        KINDS[kind],
        None if ranges is None else _vectors(ranges, where, cursor),
        record.get("_EXTERNAL_PATH"),
        index
        and GlobalIndexMeta(
            index["_ROW_RANGE_START"],
            index["_ROW_RANGE_END"],
            index["_INDEX_FIELD_ID"],
            None if index.get("_EXTRA_FIELD_IDS") is None else tuple(index["_EXTRA_FIELD_IDS"]),
            index.get("_INDEX_META"),
            index.get("_SOURCE_META"),
        ),
    )


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

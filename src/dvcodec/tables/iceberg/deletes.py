"""The deletes of a table: position deletes, equality deletes and deletion vectors, as its manifests name them.

Specification: Iceberg table spec, "Position Delete Files": ``file_path`` string (field id 2147483546), ``pos`` long
(2147483545), both names and ids fixed, in Parquet, ORC or Avro. What a table's properties say of new files of them is
here too.

"Equality Delete Files" and "Scan Planning": a row is deleted if it equals a row of the delete file in the columns
``equality_ids`` (null equals null), and its data file is older. Deletes of an unpartitioned spec apply to all data
files, others to those of their partition.

Vectors are read by the byte range that a manifest records. Their readers never open the footer, so only `check_vectors`
finds an entry that references another data file's vector of equal cardinality. Containers without metadata (Delta's
vector files, bare blobs) have nothing to compare.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import vector as vector_
from dvcodec.core.errors import CardinalityMismatch, DecodeError, DvcodecError, NotCanonical, Unsupported, UsageError
from dvcodec.core.extras import pa, pc
from dvcodec.core.report import Status
from dvcodec.core.roaring import MAX_DV_POSITION
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import Magic
from dvcodec.iceberg import (
    BLOB_TYPE,
    DRAFT_BLOB_TYPE,
    FILE_PATH,
    POS,
    blob_cardinality,
    check_columns,
    check_duplicates,
    data_errors,
    lint_blob,
    vectors_from_arrow,
)
from dvcodec.io import Source, Storage
from dvcodec.io.frames import read_frame
from dvcodec.io.parquet import small_parquet
from dvcodec.io.target import file_key
from dvcodec.io.workers import open_orc
from dvcodec.ops.convert import measure
from dvcodec.ops.read import sniff_source
from dvcodec.puffin import REFERENCED_DATA_FILE, BlobMetadata, Footer
from dvcodec.tables.folder import PathMatcher
from dvcodec.tables.iceberg.entries import FILE_PATH_ID, EqualityDeletes, ManifestEntry
from dvcodec.tables.iceberg.metadata import TableMetadata
from dvcodec.tables.iceberg.plan import ScanPlan
from dvcodec.tables.iceberg.rows import NameMapping, read_rows
from dvcodec.tables.iceberg.schema import read_column
from dvcodec.tables.metadata.avro_fields import AvroColumn, open_avro, select
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import DataFile, DeletedRows, DeletionVector, FileDelete, PhysicalRows
from dvcodec.tables.rows.columns import Column
from dvcodec.tables.rows.data_file import open_metadata, physical_batches
from dvcodec.tables.snapshots import rules
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.snapshots.rules import OF_ANOTHER, blob_path


def read_vector(vector: DeletionVector, plan: ScanPlan, storage: Storage) -> DeletedRows:
    """Read a deletion vector by its byte range, in any file.

    Raises:
        NotCanonical: the manifest lacks its byte range or its data file.
        Refused: its data sequence number is below that of its data file.
        DecodeError: it is corrupt, or its cardinality differs from the recorded one.
        OSError: its file cannot be read.
    """
    if vector.data_file is None or vector.offset is None or vector.size is None:
        place = ("referenced_data_file", vector.data_file), ("content_offset", vector.offset)
        missing = next((name for name, value in place if value is None), "content_size_in_bytes")
        raise NotCanonical(
            "manifest entry of a vector", source=vector.path, expected="range and data file", actual=f"no {missing}"
        )
    file = plan.data.get(vector.data_file)
    rules.refuse(rules.older(vector, file))
    with storage.open(vector.location, size=vector.file_size) as source:
        found = vector_.read(
            read_frame(source, vector.offset, vector.size, storage.limits),
            allowed=(Magic.PORTABLE64,),
            cardinality=vector.cardinality,
            limits=storage.limits,
        )
        row_count = None if file is None else file.physical_rows
        return DeletedRows(vector.data_file, found.load(), measure(found, row_count=row_count))


def refuse_encrypted(entry: ManifestEntry, path: str) -> None:
    """Check that a file is not encrypted.

    Raises:
        Unsupported: it is.
    """
    if entry.key_metadata is not None:
        raise Unsupported("file", source=path, expected="no encryption", actual="key_metadata")


def check_vectors(
    location: str, vectors: Sequence[DeletionVector], storage: Storage, matcher: PathMatcher
) -> Iterator[Finding]:
    """Check a file of deletion vectors.

    Checks of each vector in a Puffin file: ``blob-at-range`` (a blob has exactly the recorded range), ``blob-type``,
    ``referenced-data-file`` or ``stale-blob-path``, ``blob-cardinality``, and those of `iceberg.lint` for its blob.
    Findings of `rules.OF_ANOTHER` have the range that the footer has for the vector's data file. ``unused-blob``: a
    corrupt vector that the snapshot does not use; pyiceberg decodes all blobs of a file of which it needs one.
    ``one-vector-per-file`` covers all blobs, even those that no vector of the snapshot uses; two vectors of the
    snapshot for one data file are not reported here.

    Args:
        location: path or URL of the file.
        vectors: all that the metadata records in it.
        storage: opens it.
        matcher: matcher of the snapshot.

    Raises:
        DecodeError: not a container of vectors, or its footer is corrupt.
        OSError: it cannot be read.
    """
    ranged = [vector for vector in vectors if vector.format == "iceberg"]
    if not ranged:
        return
    with storage.open(location) as source:
        footer = sniff_source(source, limits=storage.limits).footer
        if footer is None:
            return
        yield from _unused(source, footer, ranged, storage)
    blobs = {(blob.offset, blob.length): blob for blob in footer.blobs}
    lengths = {blob.offset: blob.length for blob in footer.blobs}
    own = cache(lambda: _by_data_file(footer))
    first: dict[str | None, DeletionVector] = {}
    repeated = set()
    for vector in ranged:
        place = vector.offset or 0, vector.size or 0
        blob = blobs.get(place)
        if first.setdefault(vector.data_file, vector) is not vector:
            repeated.add(place)
        if blob is not None:
            found = _blob(vector, blob, footer, matcher)
        else:
            actual = f"{lengths[place[0]]} bytes there" if place[0] in lengths else "no blob there"
            expected = f"a blob of {vector.size} bytes"
            found = iter([Finding.of_vector("blob-at-range", vector, "range of a blob", expected, actual)])
        for finding in found:
            right = own().get(file_key(vector.data_file or "")) if finding.check in OF_ANOTHER else None
            details = {} if right is None else {"offset": right.offset, "size": right.length}
            yield replace(finding, details=details) if details else finding
    by_offset = {vector.offset: vector for vector in ranged}
    for check in check_duplicates(blob for blob in footer.blobs if (blob.offset, blob.length) not in repeated):
        if check.status is Status.FAIL:
            values = check.message or check.name, check.expected, check.actual
            double = by_offset.get(check.offset)
            if double is not None:
                yield Finding.of_vector(check.name, double, *values)
            else:  # no vector of the snapshot uses this blob
                yield Finding.failed(check.name, *values, path=location, offset=check.offset)


def _unused(source: Source, footer: Footer, vectors: Sequence[DeletionVector], storage: Storage) -> Iterator[Finding]:
    """Find corrupt vectors of a file that the snapshot does not use; what has no range in the file is not one."""
    used = {vector.offset for vector in vectors}
    for blob in footer.blobs:
        if (
            blob.type != BLOB_TYPE
            or blob.compression_codec
            or blob.offset in used
            or blob.offset + blob.length > source.size
        ):
            continue
        try:
            vector_.load(read_frame(source, blob.offset, blob.length, storage.limits), limits=storage.limits)
        except DecodeError as error:
            yield Finding.from_error("unused-blob", error, source.name, tuple(vectors))


def _by_data_file(footer: Footer) -> dict[str, BlobMetadata]:
    """Return the vectors that the footer names, those of data files that have one of its own, by `file_key`."""
    found: dict[str, list[BlobMetadata]] = {}
    blobs_at = Counter(blob.offset for blob in footer.blobs)
    for blob in footer.blobs:
        path = blob.properties.get(REFERENCED_DATA_FILE)
        if blob.type == BLOB_TYPE and path is not None:
            found.setdefault(file_key(path), []).append(blob)
    return {key: blobs[0] for key, blobs in found.items() if len(blobs) == 1 and blobs_at[blobs[0].offset] == 1}


def _blob(vector: DeletionVector, blob: BlobMetadata, footer: Footer, matcher: PathMatcher) -> Iterator[Finding]:
    for check in lint_blob(blob, footer):
        if check.status is Status.FAIL:
            yield Finding.of_vector(check.name, vector, check.message or check.name, check.expected, check.actual)
    if blob.type not in (BLOB_TYPE, DRAFT_BLOB_TYPE):
        yield Finding.of_vector("blob-type", vector, "type", BLOB_TYPE, blob.type)
    path = blob.properties.get(REFERENCED_DATA_FILE)
    if path is not None:
        yield from blob_path(matcher, vector, path)
    try:
        cardinality = blob_cardinality(blob)
    except NotCanonical:  # lint_blob reports it
        return
    if cardinality not in (None, vector.cardinality):
        what = "blob property cardinality"
        yield Finding.of_vector("blob-cardinality", vector, what, vector.cardinality, cardinality)


POS_ID = 2147483545
_BATCH_ROWS = 1 << 20
_BATCH_RECORDS = 1 << 16
_SMALL_BYTES, _SMALL_ROWS = 1 << 16, 1 << 12
"""At most, of a file that is read with others: bytes as stored and in memory, and rows."""


_AVRO = (
    AvroColumn(FILE_PATH, FILE_PATH_ID, ("string",), required=True),
    AvroColumn(POS, POS_ID, ("long", "int"), required=True),
)


@dataclass(frozen=True, slots=True)
class PositionDeletes:
    """Contents of a position delete file.

    Attributes:
        rows: deleted rows by data file, as spelled in the file.
        count: rows of the file, including duplicates.
    """

    rows: Mapping[str, RowSet]
    count: int

    @property
    def cost(self) -> int:
        """Approximate bytes of memory: two per scattered row, more per data file."""
        return 2 * self.count + 512 * len(self.rows)


def read_deletes(location: str, file_format: str, count: int, storage: Storage) -> PositionDeletes:
    """Read a position delete file; memory is bounded by a batch and the row sets.

    Args:
        location: path or URL.
        file_format: ``parquet``, ``avro`` or ``orc``.
        count: rows as recorded.
        storage: opens it.

    Raises:
        NotCanonical: not such a file, one without the two columns, or one with a null or a negative position in them.
        CardinalityMismatch: its row count differs from the recorded one.
        Unsupported: another format.
        OSError: it cannot be read.
    """
    if file_format not in _READERS:
        known = ", ".join(_READERS)
        raise Unsupported("format of position deletes", source=location, expected=known, actual=file_format)
    found = 0

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal found
        for batch in batches:
            found += batch.num_rows
            yield batch

    with data_errors(location), _READERS[file_format](location, storage) as batches:
        rows = vectors_from_arrow(counted(batches))
    if found != count:
        raise CardinalityMismatch(
            "record_count", source=location, expected=f"{count} (manifest)", actual=f"{found} rows"
        )
    return PositionDeletes(rows, count)


def read_small(files: Iterable[tuple[str, int]], storage: Storage) -> dict[str, PositionDeletes]:
    """Read many small Parquet files of position deletes, as streams leave them: their rows are split in one pass.

    Args:
        files: location of each, and its rows as recorded.
        storage: opens them.

    Returns:
        What each holds, by location. Left out are those that are large, odd or damaged: `read_deletes` reads them, or
        says what is wrong.
    """
    read: dict[str, pa.RecordBatch] = {}
    for location, count in files:
        with suppress(DvcodecError, OSError, MemoryError, pa.ArrowException, UnicodeDecodeError, KeyError):
            rows = _small_parquet(location, count, storage)
            if rows is not None:
                read[location] = rows
    try:
        return dict(zip(read, _split(list(read.values())), strict=True)) if read else {}
    except (UsageError, UnicodeDecodeError):  # a value that is not a position or not a path: each file is read alone
        return {}


def _small_parquet(location: str, count: int, storage: Storage) -> pa.RecordBatch | None:
    """Return the rows of a file whose columns are as engines write them, None otherwise.

    pyarrow does not check that codes are in the dictionary, so that `validate` has to.
    """
    if not 0 < count <= _SMALL_ROWS:
        return None
    data = storage.read_small(location, min(_SMALL_BYTES, storage.limits.max_metadata_bytes))
    if data is None:
        return None
    file = small_parquet(data, FILE_PATH)
    metadata = file.metadata
    if metadata.num_row_groups != 1 or not metadata.num_rows == metadata.row_group(0).num_rows == count:
        return None
    batches = file.iter_batches(_SMALL_ROWS, row_groups=[0], columns=[FILE_PATH, POS], use_threads=False)
    found = list(islice(batches, 2))
    rows = found[0] if len(found) == 1 else None
    if rows is None or rows.num_rows != count or rows.nbytes > _SMALL_BYTES or rows.schema.names != [FILE_PATH, POS]:
        return None
    if rows.schema.types != [pa.dictionary(pa.int32(), pa.string()), pa.int64()]:
        return None
    rows.validate(full=True)
    paths, positions = rows.columns
    return None if paths.null_count or paths.dictionary.null_count or positions.null_count else rows


def _split(batches: Sequence[pa.RecordBatch]) -> Iterator[PositionDeletes]:
    """Yield the rows of each file by data file, in the order in which it names them: one stable sort, then slices.

    Raises:
        UsageError: a position is negative, or too large.
        UnicodeDecodeError: a path is not text.
    """
    paths, places = (
        pa.chunked_array([batch.column(number) for batch in batches]).combine_chunks() for number in range(2)
    )
    names = paths.dictionary.to_pylist()
    counts = [batch.num_rows for batch in batches]
    keys = np.repeat(np.arange(len(batches)) * len(names), counts) + paths.indices.to_numpy()
    positions = places.to_numpy()
    if int(positions.min()) < 0 or int(positions.max()) > MAX_DV_POSITION:
        raise UsageError(f"positions {positions.min()} to {positions.max()}")
    order = np.argsort(keys, kind="stable")
    keys, positions = keys[order], positions[order]
    cuts = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [len(keys)]])
    found: list[dict[str, RowSet]] = [{} for _ in batches]
    for i in np.argsort(order[cuts[:-1]]).tolist():
        batch, code = divmod(int(keys[cuts[i]]), len(names))
        rows = RowSet(positions[cuts[i] : cuts[i + 1]])
        before = found[batch].get(names[code])  # a dictionary may have a path twice
        found[batch][names[code]] = rows if before is None else before | rows
    yield from map(PositionDeletes, found, counts)


_Reader: TypeAlias = "Iterator[Iterator[pa.RecordBatch]]"


@contextmanager
def _parquet(location: str, storage: Storage) -> _Reader:
    with open_metadata(location, storage, dictionary=FILE_PATH) as file:
        check_columns(file.schema_arrow, FILE_PATH, POS)
        yield (batch for _, batch in physical_batches(file, [FILE_PATH, POS], batch_rows=_BATCH_ROWS))


@contextmanager
def _orc(location: str, storage: Storage) -> _Reader:
    with storage.open(location) as source:
        # Like Avro's, and unlike Parquet's, the file is in memory as a whole.
        storage.limits.check("max_metadata_bytes", source.size, location)
        with open_orc(source) as file:
            check_columns(file.schema, FILE_PATH, POS)
            yield file.batches([FILE_PATH, POS], dictionary=FILE_PATH)


@contextmanager
def _avro(location: str, storage: Storage) -> _Reader:
    with open_avro(location, storage) as (file, cursor):
        names = [found.name for found in select(file.schema, _AVRO, "position deletes", cursor).values()]
        records = file.records(by_block=True)

        def batches() -> Iterator[pa.RecordBatch]:
            while chunk := list(islice(records, _BATCH_RECORDS)):
                columns = [pa.array([record[name] for record in chunk]) for name in names]
                yield pa.RecordBatch.from_arrays(columns, [FILE_PATH, POS])

        yield batches()


_READERS: Mapping[str, Callable[[str, Storage], Any]] = {"parquet": _parquet, "avro": _avro, "orc": _orc}


_ROWS_AT_ONCE = 1 << 16
_BATCH_VALUES = 1 << 22
"""Of all columns of a batch; fewer rows are read at a time if there are many columns."""


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Equality deletes of one partition that compare the same columns.

    Attributes:
        ids: field ids of those columns, sorted: their order in the metadata means nothing.
        deletes: each file once.
        newest: their highest sequence number.
    """

    ids: tuple[int, ...]
    deletes: tuple[DataFile, ...]
    newest: int


class EqualityMatcher:
    """Finds the rows that the equality deletes of a snapshot delete.

    Their keys are kept in memory, once for each partition and set of columns. Safe to use from several threads.

    Args:
        plan: of the snapshot.
        metadata: of its table.
        storage: opens the files.
        names: returns the name mapping of the table, as for the rows of the snapshot; called if a file is read.
    """

    def __init__(
        self,
        plan: ScanPlan,
        metadata: TableMetadata,
        storage: Storage,
        names: Callable[[], Mapping[str, NameMapping] | None],
    ) -> None:
        self._metadata = metadata
        self._storage = storage
        self._names = names
        self._groups = {partition: tuple(_grouped(deletes)) for partition, deletes in plan.equality.items()}
        self._keys: dict[_Group, _Keys] = {}
        self._columns: dict[int, Column] = {}

    def find(self, data: DataFile) -> RowSet:
        """Return the rows of a data file that they delete: 0-based physical positions.

        Raises:
            NotCanonical: there are no columns to compare.
            Unsupported: columns that no schema has at its top level, or of nested types or floating-point numbers; or
                files that are encrypted, or not Parquet, ORC or Avro.
            DecodeError, OSError: a file is corrupt or cannot be read.
        """
        number, own = data.sequence_number or 0, ManifestEntry.of(data).partition
        groups = [group for key in (None, own) for group in self._groups.get(key, ()) if number < group.newest]
        if not groups:
            return RowSet()
        fields = {one: self._column(one) for group in groups for one in group.ids}
        keys = [self._keys_of(group) for group in groups]
        parts = []
        for rows in self._read(data, list(fields.values())):
            gone = np.zeros(rows.batch.num_rows, np.bool_)
            for one in keys:
                gone |= one.newest(rows.batch) > number
            parts.append(rows.start + np.flatnonzero(gone))
        return RowSet.from_positions(np.concatenate(parts)) if parts else RowSet()

    def _keys_of(self, group: _Group) -> _Keys:
        if group not in self._keys:
            if not group.ids:
                raise NotCanonical(
                    "equality_ids", source=self._metadata.source, expected="at least one column", actual="none"
                )
            fields = [self._column(number) for number in group.ids]
            files = ((self._read(one, fields), one.sequence_number or 0) for one in group.deletes)
            self._keys[group] = _Keys.of(files, [field.name for field in fields])
        return self._keys[group]

    def _read(self, file: DataFile, fields: Sequence[Column]) -> Iterator[PhysicalRows]:
        entry = ManifestEntry.of(file)
        refuse_encrypted(entry, file.path)
        return read_rows(
            file.location,
            self._storage,
            fields,
            file_format=entry.file_format,
            partition=entry.partition.identity,
            names=self._names(),
            rows=file.physical_rows,
            batch_rows=max(min(_ROWS_AT_ONCE, _BATCH_VALUES // max(len(fields), 1)), 1),
        )

    def _column(self, number: int) -> Column:
        """Return the column of a field id, by the newest schema that has it; its name has the id, so it is unique."""
        if number not in self._columns:
            place = self._places.get(number)
            source = self._metadata.source
            if place is None:
                actual = f"field {number}, which is not a column, or inside of one"
                raise Unsupported("equality deletes", source=source, expected="columns", actual=actual)
            column = read_column(place)
            if pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
                actual = f"{column.name} of type {column.type}"
                raise Unsupported("equality deletes", source=source, expected="exact keys", actual=actual)
            self._columns[number] = replace(column, name=f"{column.name} (field {number})")
        return self._columns[number]

    @cached_property
    def _places(self) -> dict[int, JsonFields]:
        """The columns of all schemas by field id, as the newest schema with each has them."""
        metadata = self._metadata
        current = metadata.schemas[metadata.current_schema_id]
        others = [schema for _, schema in sorted(metadata.schemas.items())]
        fields = (field for schema in (*others, current) for field in schema.objects("fields"))
        return {field.integer("id"): field for field in fields}


def _grouped(deletes: Iterable[EqualityDeletes]) -> list[_Group]:
    """Group deletes of a partition, oldest first. A file that is listed twice deletes what its newer entry does."""
    found: dict[tuple[int, ...], dict[str, DataFile]] = {}
    for file, ids in deletes:
        found.setdefault(tuple(sorted(set(ids))), {})[file.location] = file
    return [
        _Group(ids, tuple(files.values()), max(one.sequence_number or 0 for one in files.values()))
        for ids, files in found.items()
    ]


class _Keys:
    """Keys, each with the highest sequence number that deletes it.

    The columns of a key are turned into one number, column by column: `index_in` finds values and nulls alike.
    """

    def __init__(self, levels: list[tuple[str, pa.Array, pa.Array]], newest: NDArray[np.int64]) -> None:
        self._levels = levels
        self._newest = newest

    @classmethod
    def of(cls, files: Iterable[tuple[Iterator[PhysicalRows], int]], names: list[str]) -> _Keys:
        """Read files of keys, each with its sequence number."""
        batches, numbers = [], []
        for found, number in files:
            for rows in found:
                batches.append(rows.batch)
                numbers.append(np.full(rows.batch.num_rows, number, np.int64))
        if not batches:
            return cls([], np.zeros(0, np.int64))
        table = pa.Table.from_batches(batches)
        levels = []
        codes = np.zeros(table.num_rows, np.int64)
        for name in names:
            values = pc.unique(table[name].combine_chunks())
            codes = codes * (len(values) + 1) + _codes(table[name].combine_chunks(), values)
            known = pc.unique(pa.array(codes))
            levels.append((name, values, known))
            codes = _codes(pa.array(codes), known)
        newest = np.full(len(known), -1, np.int64)
        np.maximum.at(newest, codes, np.concatenate(numbers))
        return cls(levels, newest)

    def newest(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the highest sequence number that deletes each row, -1 if none does."""
        found = np.full(batch.num_rows, -1, np.int64)
        if not self._levels:
            return found
        codes = np.zeros(batch.num_rows, np.int64)
        alive = np.ones(batch.num_rows, np.bool_)
        for name, values, known in self._levels:
            code = _codes(batch[name], values)
            alive &= code >= 0
            codes = _codes(pa.array(codes * (len(values) + 1) + code), known)
            alive &= codes >= 0
        found[alive] = self._newest[codes[alive]]
        return found


def _codes(array: pa.Array, values: pa.Array) -> NDArray[np.int64]:
    """Return the index of each value in others, -1 if it is missing; null is a value like any other."""
    found: NDArray[np.int64] = pc.fill_null(pc.index_in(array, value_set=values), -1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


_FORMAT = ("write.delete.format.default", "write.format.default")
_GRANULARITY = "write.delete.granularity"
_COMPRESSION = ("write.delete.parquet.compression-codec", "write.parquet.compression-codec")
_CODECS = {"uncompressed": "none", "snappy": "snappy", "gzip": "gzip", "brotli": "brotli", "zstd": "zstd", "lz4": "lz4"}


def compression_of(properties: Mapping[str, str], source: str) -> str:
    """Return the codec that a table's properties set for Parquet files of deletes.

    Args:
        properties: of the table.
        source: its metadata file, for errors.

    Raises:
        Unsupported: its deletes are to be written in another format than Parquet, or an unknown codec.
    """
    name = next((name for name in _FORMAT if name in properties), _FORMAT[0])
    if properties.get(name, "parquet").lower() != "parquet":
        expected = "parquet, for position deletes"
        raise Unsupported(f"property {name}", source=source, expected=expected, actual=properties[name])
    codec = next((properties[name] for name in _COMPRESSION if name in properties), "zstd").lower()
    if codec not in _CODECS:
        raise Unsupported("compression of Parquet", source=source, expected=", ".join(_CODECS), actual=codec)
    return _CODECS[codec]


def new_rows(deletes: Sequence[FileDelete], properties: Mapping[str, str], source: str) -> list[dict[str, RowSet]]:
    """Return the rows of each file to write; rows that are deleted already are not deleted again.

    There is a file for each data file, or for each partition, as the property ``write.delete.granularity`` says.

    Args:
        deletes: one for each data file.
        properties: of the table.
        source: its metadata file, for errors.

    Raises:
        UsageError: the property has another value.
    """
    granularity = properties.get(_GRANULARITY, "file").lower()
    if granularity not in ("file", "partition"):
        raise UsageError(f"{source}: property {_GRANULARITY} is {granularity}: expected file or partition")
    files: dict[Hashable, dict[str, RowSet]] = defaultdict(dict)
    for one in deletes:
        path = one.data_file.path
        files[path if granularity == "file" else one.data_file.partition_key][path] = one.rows - one.before
    return list(files.values())

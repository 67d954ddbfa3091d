"""The data source ``zap``: tables of search segments (bleve's, versions 11 to 17) as DataFrames.

::

    spark.read.format("zap").option("table", "terms").load("index/store")        a file, a folder, a glob, or several

Tables and their columns are those of `dvcodec.zap.columns.SCHEMAS`, between ``segment`` (the file) and ``error``.
Unsigned columns become longs, dictionary-encoded ones plain. In folders and patterns, only files named ``*.zap`` are
read. Options:

- ``table``: ``terms``, ``postings``, ``locations``, ``stored``, ``doc_values`` or ``fields``.
- ``fields``: only these fields: names separated by commas, or a JSON array. Segments may lack some.
- ``partition-bytes``: a larger segment is read in parts of about this size; default 128 MiB.
- ``verify-checksum``: false skips the CRC, for which every part reads the whole file; default true.
- ``storage.<key>``: how stores are reached, see `VectorSource`.
- ``limits``: see `VectorSource`.

A large segment is split between fields, or between documents for the table ``stored``; small ones share a task.

A corrupt segment does not fail the job: each part returns the rows before the corrupt bytes, then one row with only
``segment`` and ``error``. A user's schema with fewer columns reads only these: ``field string, term binary`` of the
table ``terms`` reads no postings. Without ``error`` in it, a corrupt segment fails the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.types import ArrayType, DataType, FloatType, StructType

from dvcodec.core.errors import DecodeError, LimitExceeded, UsageError
from dvcodec.core.limits import Limits
from dvcodec.core.ragged import cut_by_weight
from dvcodec.io import Storage
from dvcodec.io.target import split
from dvcodec.spark.columns import BINARY, BOOLEAN, LONG, STRING, struct
from dvcodec.spark.compat import datasource
from dvcodec.spark.sources.files import counted, fetched_ahead, find_all, open_cost
from dvcodec.spark.sources.options import SOURCE_LIMITS, Options, StoreValues
from dvcodec.zap import Segment
from dvcodec.zap.columns import SCHEMAS
from dvcodec.zap.verify import Part, layout

PARTITION_BYTES = 1 << 27
PACKED_BYTES = 8 << 20
"""Bytes of small segments for one task, each with the cost of opening it; decoding them takes seconds."""
_AT_ONCE = 16
"""Large segments opened at once: each remote one is several round trips."""
_WEIGHTS = {
    "terms": (Part.DICTIONARY,),
    "postings": (Part.POSTINGS, Part.DICTIONARY),
    "locations": (Part.POSTINGS, Part.DICTIONARY),
    "doc_values": (Part.DOC_VALUES,),
}
"""Tables that can be split between fields, and the parts of a field that they read."""


@dataclass(frozen=True, slots=True)
class SegmentOptions:
    """Options of a read; see `dvcodec.spark.sources.zap`.

    Attributes:
        paths: as the user gave them.
        table: a key of `dvcodec.zap.columns.SCHEMAS`.
        fields: names of fields; None: all.
        part_bytes: a larger segment is split into parts of about this size.
        verify_checksum: whether CRCs are compared.
        storage_options: how stores are reached.
        limits: bounds on what the bytes may claim.
    """

    paths: tuple[str, ...]
    table: str
    fields: tuple[str, ...] | None = None
    part_bytes: int = PARTITION_BYTES
    verify_checksum: bool = True
    storage_options: StoreValues = field(default=(), repr=False)
    limits: Limits = SOURCE_LIMITS

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SegmentOptions:
        """Read the options of a ``DataFrameReader``; names are not case-sensitive.

        Raises:
            UsageError: an unknown option or value, or no table.
        """
        given = Options(options)
        table = given.choice("table", tuple(SCHEMAS), "")
        if not table:
            raise UsageError(f"option table: expected one of {', '.join(SCHEMAS)}")
        parsed = cls(
            given.paths(),
            table,
            given.names("fields", commas=True),
            given.size("partition-bytes", PARTITION_BYTES),
            given.flag("verify-checksum", default=True),
            given.storage(),
            given.limits(),
        )
        given.expect_all_known()
        return parsed


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """A segment, or a part of it.

    Attributes:
        path: the segment.
        fields: names of the fields; None: all that are requested.
        docs: first document, and the one after the last; None: all.
        size: bytes of the segment; negative if unknown.
    """

    path: str
    fields: tuple[str, ...] | None = None
    docs: tuple[int, int] | None = None
    size: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class SegmentShare(datasource.InputPartition):
    """The parts of segments that one task reads, in order."""

    parts: tuple[SegmentPart, ...]


def shares(parts: Sequence[SegmentPart], options: SegmentOptions) -> list[SegmentShare]:
    """Distribute parts among tasks: adjacent small segments together, each part of a large one by itself."""
    costs = [_cost(part, options) for part in parts]
    most = min(PACKED_BYTES, options.part_bytes)
    return [SegmentShare(tuple(parts[one])) for one in cut_by_weight(np.array(costs, np.int64), most)]


def _cost(part: SegmentPart, options: SegmentOptions) -> int:
    if part.fields is not None or part.docs is not None:
        return options.part_bytes + PACKED_BYTES
    return max(part.size, 0) + open_cost(part.path)


def plan(options: SegmentOptions) -> list[SegmentPart]:
    """Find the segments and split the large ones. The same files give the same parts in the same order.

    Raises:
        UsageError: no path, or a path without segments.
        OSError: a folder or file that cannot be read.
    """
    if not options.paths:
        raise UsageError("zap needs a path: load(path)")
    found: dict[str, int] = {}
    stores = Storage(dict(options.storage_options))
    for path, files in zip(options.paths, find_all(options.paths, stores), strict=True):
        # An index has other files too.
        entries = [entry for entry in files.files if not entry.listed or split(entry.path)[1].endswith(".zap")]
        if not entries:
            raise UsageError(f"{path}: no segments (*.zap)")
        found.update((entry.path, entry.size) for entry in entries)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        parts = pool.map(lambda entry: plan_segment(entry[0], entry[1], options, stores), found.items())
        return [part for some in parts for part in some]


def plan_segment(path: str, size: int, options: SegmentOptions, stores: Storage | None = None) -> list[SegmentPart]:
    """Cut a segment into parts; one that fits in a single part is not even opened.

    In sequence, the parts have the rows of the segment in its order.

    Args:
        path: the segment.
        size: its size in bytes.
        options: what to read; fields and documents are never split.
        stores: opens it; None: a new one.

    Raises:
        OSError: it cannot be opened. (The task that reads it reports corrupt bytes.)
    """
    whole = [SegmentPart(path, size=size)]
    if size <= options.part_bytes or options.table == "fields":
        return whole
    try:
        reached = stores or Storage(dict(options.storage_options))
        with Segment.open(path, verify_checksum=False, limits=options.limits, storage_options=reached) as segment:
            if options.table == "stored":
                count = max(-(-segment.footer.stored_index // options.part_bytes), 1)
                bounds = sorted({segment.num_docs * i // count for i in range(count + 1)})
                return [SegmentPart(path, None, part, size) for part in pairwise(bounds)] or whole
            names, weights = _field_weights(segment, options.table, options.fields)
    except DecodeError:
        return whole
    parts = cut_by_weight(weights, options.part_bytes)
    return [SegmentPart(path, tuple(names[part]), None, size) for part in parts] or whole


def _field_weights(segment: Segment, table: str, fields: tuple[str, ...] | None) -> tuple[list[str], NDArray[np.int64]]:
    """Return the fields to read, in their order, and the bytes of each."""
    costs = {info.name: 0 for info in segment.fields}
    for span in layout(segment):
        if span.field is not None and span.part in _WEIGHTS[table]:
            costs[span.field] += span.size
    names = list(costs) if fields is None else [name for name in fields if name in costs]
    return names, np.array([costs[name] for name in names], np.int64)


_BATCH_BYTES = 1 << 24
"""Maximum bytes of values in one record batch, unless a single row has more."""
_SPARK_TYPES: dict[pa.DataType, DataType] = {
    pa.string(): STRING,
    pa.binary(): BINARY,
    pa.bool_(): BOOLEAN,
    pa.int64(): LONG,
    pa.float32(): FloatType(),
}


def table_schema(table: str) -> StructType:
    """Return the columns of a table."""
    columns = {field.name: _spark_type(_plain(field.type)) for field in SCHEMAS[table]}
    return struct(segment=STRING, **columns, error=STRING)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column for Spark: signed, without dictionary."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return pa.int64() if pa.types.is_uint64(kind) else kind


def _spark_type(kind: pa.DataType) -> DataType:
    return ArrayType(_spark_type(kind.value_type)) if pa.types.is_list(kind) else _SPARK_TYPES[kind]


class SegmentSource(datasource.DataSource):
    """The data source ``zap``; `dvcodec.spark.register` makes it known to a session."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "zap"

    def schema(self) -> StructType:
        """Return the columns of the requested table."""
        return table_schema(SegmentOptions.parse(self.options).table)

    def reader(self, schema: StructType) -> SegmentReader:
        """Return the reader; `schema` may have fewer columns than the table, in any order."""
        return SegmentReader(SegmentOptions.parse(self.options), schema)


class SegmentReader(datasource.DataSourceReader):
    """Plans on the driver, which opens large segments, and reads in tasks.

    Raises:
        UsageError: the schema has a column that the table lacks.
    """

    def __init__(self, options: SegmentOptions, schema: StructType) -> None:
        self.options = options
        self.names = _chosen(options.table, schema)

    def partitions(self) -> Sequence[datasource.InputPartition]:
        """Return the parts of all segments, in the order of their paths; see `plan` and `shares`."""
        with counted("plan", *self.options.paths):
            return shares(plan(self.options), self.options) or [SegmentShare(())]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Read the parts of one task's `SegmentShare`, in batches of bounded size.

        Raises:
            DecodeError: a segment is corrupt, and the schema has no column `error`.
            OSError: it cannot be read.
        """
        stores = Storage(dict(self.options.storage_options))
        with counted("read", *(part.path for part in partition.parts[:1])):
            for part in fetched_ahead(partition.parts, stores):
                yield from self._read(part, stores)

    def _read(self, part: SegmentPart, stores: Storage) -> Iterator[pa.RecordBatch]:
        check = self.options.verify_checksum
        try:
            with Segment.open(
                part.path, verify_checksum=check, limits=self.options.limits, storage_options=stores
            ) as segment:
                for batch in self._batches(segment, part):
                    yield self._columns(batch, part.path)
        except DecodeError as err:
            if "error" not in self.names:
                raise
            yield self._error_row(err, part.path)

    def _batches(self, segment: Segment, part: SegmentPart) -> Iterator[pa.RecordBatch]:
        wanted = self.options.fields if part.fields is None else part.fields
        known = {info.name for info in segment.fields}
        fields = None if wanted is None else [name for name in wanted if name in known]
        docs = None if part.docs is None else range(*part.docs)
        columns = [name for name in self.names if name not in ("segment", "error")] or ["field"]
        for batch in segment.to_arrow(self.options.table, fields, columns=columns, docs=docs):
            for piece in cut_by_weight(_weights(batch), _BATCH_BYTES):
                yield batch.slice(piece.start, piece.stop - piece.start)

    def _columns(self, batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
        found = []
        for name in self.names:
            if name == "segment":
                found.append(pa.repeat(path, batch.num_rows))
            elif name == "error":
                found.append(pa.nulls(batch.num_rows, pa.string()))
            else:
                found.append(_spark_column(batch.column(name), name, path))
        return pa.RecordBatch.from_arrays(found, self.names)

    def _error_row(self, error: DecodeError, path: str) -> pa.RecordBatch:
        known = {"segment": pa.array([path]), "error": pa.array([str(error)])}
        schema = SCHEMAS[self.options.table]
        found = [known[name] if name in known else pa.nulls(1, _plain(schema.field(name).type)) for name in self.names]
        return pa.RecordBatch.from_arrays(found, self.names)


# ---------------------------------------------------------------------- columns


def _chosen(table: str, schema: StructType) -> list[str]:
    """Return the names of the requested columns."""
    known = {column.name: column.dataType for column in table_schema(table).fields}
    for column in schema.fields:
        if column.name not in known:
            raise UsageError(f"table {table}: expected columns {', '.join(known)}, found {column.name!r}")
        kind = known[column.name]
        if column.dataType != kind:
            kinds = f"{kind.simpleString()}, not {column.dataType.simpleString()}"
            raise UsageError(f"the column {column.name} of the table {table} is {kinds}")
    return [column.name for column in schema.fields]


def _weights(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Return the approximate bytes of each row without dictionary encoding: int64[rows]."""
    total = np.full(batch.num_rows, 8 * batch.num_columns, np.int64)
    for column in batch.columns:
        kind = column.type
        if pa.types.is_dictionary(kind):
            sizes = np.asarray(pc.binary_length(column.dictionary)).astype(np.int64)
            total += sizes[np.asarray(column.indices)]
        elif pa.types.is_binary(kind) or pa.types.is_string(kind):
            total += np.asarray(pc.binary_length(column))
        elif pa.types.is_list(kind):
            total += 8 * np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    return total


def _spark_column(column: pa.Array, name: str, path: str) -> pa.Array:
    try:
        return column.cast(_plain(column.type))
    except pa.ArrowInvalid as err:
        raise LimitExceeded(f"column {name}", source=path, expected="at most 2**63 - 1 in Spark", actual=err) from None

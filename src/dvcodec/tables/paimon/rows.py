"""Rows of a data file by physical position, in the schema of a snapshot, and the bounds of their columns.

Paimon stores all columns in a data file, including partition columns, and for tables with a primary key also
``_VALUE_KIND`` and others.

Which records of a data file are rows of the table, if the file itself determines it: Java classes
``AbstractBatchTableScan``, ``MergeTreeSplitGenerator`` and ``DataEvolutionSplitRead``, for a batch read. Files of
tables without a primary key hold only rows. With one, files hold records (``_VALUE_KIND``: 0 insert, 1 update before, 2
update after, 3 delete) that readers merge by key, unless each key has only one record left:

- deletion vectors (``deletion-vectors.enabled``) delete superseded records. Level 0 records have not been looked up
  yet: a batch read does not see them until compaction moves them up, and neither does this library. With
  ``deletion-vectors.merge-on-read`` they are merged instead;
- merge engine ``first-row`` is the same, without vectors;
- a bucket's only file, or files of one level above 0, hold each key once;
- records in a postponed bucket are not visible at all, except with ``postpone.merge-on-read``.

If columns are spread over files (``data-evolution.enabled``), rows are put together from several files.

Bounds, by which Paimon's readers skip files: Java classes ``SimpleStats`` and ``SimpleStatsEvolution``. An entry of a
manifest has the least and the greatest value of each column of the file's schema, or of those in ``_VALUE_STATS_COLS``,
as serialized rows, and the counts of nulls. A null is an unknown bound. Text is cut off; greatest values are then
increased. Entries do not keep their statistics, which would be most of a snapshot: the manifests are read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter
from typing import Any

import numpy as np

from dvcodec.core.errors import NotCanonical
from dvcodec.core.extras import pa, pc
from dvcodec.core.ragged import Index
from dvcodec.io import Storage
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import WHOLE, DataFile, Part, PhysicalRows
from dvcodec.tables.paimon.manifests import ENTRIES, DataFileMeta, Entries, or_none, read_entry, read_stored
from dvcodec.tables.paimon.metadata import PaimonEvolution, SchemaField, TableSchema
from dvcodec.tables.paimon.partition import Value, decode_some
from dvcodec.tables.rows.bounds import ColumnBounds, RowGroupFilter, safe_text
from dvcodec.tables.rows.columns import Column, unrelated
from dvcodec.tables.rows.data_file import open_data_file


class Visible(Enum):
    """Which records of a data file are rows."""

    ALL = "all"
    KINDS = "inserted and updated"
    """Those whose ``_VALUE_KIND`` is 0 or 2."""
    NONE = "none"


def visible_records(schema: TableSchema, entries: Entries, paths: Sequence[str]) -> dict[str, Visible | str]:
    """Return for each data file of a snapshot, by path, which records are rows, or why that is unknown.

    Args:
        schema: of the snapshot.
        entries: of its data files.
        paths: of its data files.
    """
    found: dict[str, Visible | str] = dict.fromkeys(paths, Visible.ALL)
    if schema.primary_keys or schema.is_true("data-evolution.enabled"):
        groups, _ = entries.groups()
        order = np.argsort(groups, kind="stable")
        for bucket in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1) if len(order) else ():
            decided = _keyed(schema, entries, bucket) if schema.primary_keys else _evolved(entries, bucket)
            found.update((paths[number], visible) for number, visible in decided)
    for number in entries.unusual:
        if unknown := entries.others[number].unknown:
            found[paths[number]] = f"its metadata has {', '.join(unknown):.200}, which is not known here"
    for option in ("chain-table.enabled", "scan.fallback-branch"):
        if schema.options.get(option, "false") != "false":
            why = f"the table's rows also come from elsewhere (table option {option})"
            found.update(dict.fromkeys(paths, why))
    if schema.is_true("postpone.merge-on-read"):
        waiting = set(entries.partitions[entries.buckets < 0])
        why = "records of its partition have to be merged by key with postponed ones (postpone.merge-on-read)"
        found.update((path, why) for path, one in zip(paths, entries.partitions, strict=True) if one in waiting)
    return found


def _evolved(entries: Entries, bucket: Index) -> Iterator[tuple[int, Visible | str]]:
    of_bucket = bucket.tolist()
    starts = {one: start for one in of_bucket if (start := or_none(entries.first_row_ids[one])) is not None}
    shared: set[int] = set()
    reach, last = -1, -1
    for one, start in sorted(starts.items(), key=itemgetter(1)):
        if start < reach:
            shared |= {one, last}
        if start + int(entries.rows[one]) > reach:
            reach, last = start + int(entries.rows[one]), one
    for one in of_bucket:
        if one not in starts:
            yield one, "it has no row ids (_FIRST_ROW_ID), in a table whose columns are spread over files"
        elif one in shared:
            yield one, "its rows are put together from the columns of several files (data-evolution.enabled)"
        else:
            yield one, Visible.ALL


def _keyed(schema: TableSchema, entries: Entries, bucket: Index) -> Iterator[tuple[int, Visible | str]]:
    engine = schema.options.get("merge-engine", "deduplicate")
    if schema.is_true("deletion-vectors.enabled"):
        skips_level_0 = not schema.is_true("deletion-vectors.merge-on-read")
    else:
        skips_level_0 = engine == "first-row"
    of_file = entries.levels[bucket].tolist()
    levels, number = set(of_file), int(entries.buckets[bucket[0]])
    once = skips_level_0 or len(bucket) == 1 or (len(levels) == 1 and 0 not in levels)
    more = f"{len(bucket) - 1} more files of bucket {number} (merge engine {engine:.40})"
    usual = Visible.KINDS if once else f"its records have to be merged by key with those of {more}"
    for one, level in zip(bucket.tolist(), of_file, strict=True):
        yield one, Visible.NONE if number < 0 or (skips_level_0 and level == 0) else usual


VALUE_KIND = "_VALUE_KIND"
INSERT, UPDATE_AFTER = 0, 2
_KINDS = 4


def read_rows(
    data_file: DataFile,
    storage: Storage,
    columns: Sequence[Column],
    constants: dict[str, Value],
    written: TableSchema,
    visible: Visible,
    batch_rows: int,
    shown: Sequence[SchemaField] = (),
    part: Part = WHOLE,
    wanted: RowGroupFilter | None = None,
) -> Iterator[PhysicalRows]:
    """Read a data file. A file with rows but without any column of its schema is refused.

    Args:
        data_file: the data file.
        storage: opens it.
        columns: columns to read, in the schema of the snapshot.
        constants: values of the partition columns, by name.
        written: the schema that the file was written with.
        visible: which records are rows.
        batch_rows: maximum rows in a batch.
        shown: all columns of the snapshot; those of `columns` may be some of them.
        part: of the file.
        wanted: see `Snapshot.rows`.

    Raises:
        NotCanonical: the file is corrupt, or its row count differs from the metadata.
        Unsupported: its format, or a change of a column's type.
        OSError: it cannot be read.
    """
    location = data_file.location
    extension = location.rpartition("/")[2].rpartition(".")[2].lower()
    with open_data_file(location, storage, extension, int96_unit="ns") as file:
        names = frozenset(file.schema.names)
        if file.rows != data_file.physical_rows:
            expected = f"{data_file.physical_rows} (metadata)"
            raise NotCanonical("rows of the data file", source=location, expected=expected, actual=file.rows)
        own = _written_fields(data_file, written)
        if file.rows:
            _check_related(location, names, shown, constants, own)
        # A column that the file lacks was added before the file became the table's: readers take null for it.
        ids = {field.id for field in columns if field.name not in constants}
        stored = [written.column(field.name) for field in own if field.id in ids and field.name in names]
        values = {
            field.name: partition_scalar(constants[field.name], field, location)
            for field in columns
            if field.name in constants
        }
        evolution = PaimonEvolution(location, columns, stored, values)
        read = evolution.names
        if visible is Visible.KINDS:
            if VALUE_KIND not in names:
                raise NotCanonical("column", source=location, expected=VALUE_KIND, actual="no such column")
            read.append(VALUE_KIND)
        for start, batch in file.read(read, batch_rows, file.skipped(evolution, wanted, part)):
            keep = _keep(visible, batch, location)
            yield PhysicalRows(start, evolution.apply(batch, start, keep), keep)


def _check_related(
    location: str,
    found: Collection[str],
    shown: Sequence[SchemaField],
    constants: Mapping[str, Value],
    written: Sequence[SchemaField],
) -> None:
    """Refuse a file without any column that was written, or of those that the snapshot's schema shares with them.

    If the schemas share none, all its columns were dropped: the others are null.
    """
    own = [field for field in written if field.name not in constants]
    ids = {field.id for field in shown if field.name not in constants}
    for wanted in (own, [field for field in own if field.id in ids]):
        if wanted and not any(field.name in found for field in wanted):
            raise unrelated(location, [field.name for field in wanted], sorted(found))


def _written_fields(data_file: DataFile, schema: TableSchema) -> Sequence[SchemaField]:
    """Return the columns that a file was written with, of those of its schema."""
    names = DataFileMeta.of(data_file).write_cols
    if names is None:
        return schema.fields
    kept = frozenset(names)
    return [field for field in schema.fields if field.name in kept]


def partition_scalar(value: Value, column: Column, source: str) -> pa.Scalar[Any]:
    """Return the value of a partition column as one of the column's type.

    Args:
        value: as decoded from the manifest.
        column: of the table.
        source: the data file, for errors.

    Raises:
        NotCanonical: the type does not have it: a decimal of more digits, or nanoseconds beyond 64 bits.
    """
    if column.kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and value is not None:
        value = int(value) // {"ms": 1_000_000, "us": 1000, "ns": 1}[column.type.unit]
    try:
        return pa.scalar(value, column.type)
    except (pa.ArrowException, ValueError, OverflowError):
        what, actual = f"partition value of column {column.name!r:.80}", f"{value!r:.40}"
        raise NotCanonical(what, source=source, expected=str(column.type), actual=actual) from None


def _keep(visible: Visible, batch: pa.RecordBatch, source: str) -> pa.BooleanArray | None:
    if visible is Visible.ALL:
        return None
    if visible is Visible.NONE:
        return pa.repeat(pa.scalar(False), batch.num_rows)
    kinds = batch.column(VALUE_KIND)
    known = pa.array(range(_KINDS), kinds.type)
    if not pc.all(pc.is_in(kinds, known), min_count=0).as_py():
        odd = next(kind for kind in kinds.unique().to_pylist() if kind not in range(_KINDS))
        raise NotCanonical(f"column {VALUE_KIND}", source=source, expected="0 to 3", actual=str(odd))
    return pc.is_in(kinds, pa.array([INSERT, UPDATE_AFTER], kinds.type))


_ORDERED = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "DECIMAL")
_NO_FIELDS = bytes(4)
_CUT_OFF = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """What a manifest records of the columns of a data file.

    Attributes:
        lower: serialized.
        upper: serialized.
        nulls: by column, None if not recorded.
        columns: names; None for all of the file's schema.
    """

    lower: bytes
    upper: bytes
    nulls: tuple[int | None, ...]
    columns: tuple[str, ...] | None


def read_statistics(folder: Folder, manifests: Iterable[str]) -> Mapping[DataFileMeta, FileStatistics]:
    """Read the statistics of all data files in manifests.

    Raises:
        DecodeError: a manifest is corrupt.
        OSError: it cannot be read.
    """
    found: dict[DataFileMeta, FileStatistics] = {}
    for name in manifests:
        stored = read_stored(folder, name, ENTRIES)
        for record in stored.records:
            meta, file = read_entry(record, stored.source).file, record["_FILE"]
            statistics = _statistics(file.get("_VALUE_STATS"), file.get("_VALUE_STATS_COLS"))
            if statistics is not None and meta.write_cols is None:
                found[meta] = statistics
    return found


def _statistics(stored: Any, columns: Any) -> FileStatistics | None:
    if not isinstance(stored, dict):
        return None
    lower, upper, nulls = (stored.get(name) for name in ("_MIN_VALUES", "_MAX_VALUES", "_NULL_COUNTS"))
    if not isinstance(lower, bytes) or not isinstance(upper, bytes) or lower[:4] == _NO_FIELDS:
        return None
    names = None if columns is None else tuple(columns)
    return FileStatistics(lower, upper, tuple(nulls or ()), names)


def bounds_of(
    columns: Sequence[Column], written: Sequence[Column], statistics: FileStatistics, meta: DataFileMeta, source: str
) -> dict[str, ColumnBounds]:
    """Return the bounds of columns by name; those whose type was changed are left out.

    Args:
        columns: of the snapshot.
        written: all columns of the file's schema.
        statistics: of the file.
        meta: the file.
        source: its location, for errors.

    Raises:
        DecodeError: the statistics are corrupt.
    """
    if statistics.columns is not None:
        named = {column.name: column for column in written}
        if not named.keys() >= set(statistics.columns):
            raise NotCanonical("_VALUE_STATS_COLS", source=source, expected="columns of the file", actual="others")
        written = [named[name] for name in statistics.columns]
    places = {column.id: i for i, column in enumerate(written)}
    known = {
        places[column.id]: column
        for column in columns
        if column.id in places
        and column.kind == written[places[column.id]].kind
        and column.kind.root in _ORDERED + _CUT_OFF
    }
    kinds = {i: column.kind for i, column in known.items()}
    ends = [
        decode_some(data, len(written), kinds, source=source, what="_VALUE_STATS")
        for data in (statistics.lower, statistics.upper)
    ]
    found = {}
    for i, column in known.items():
        lower, upper = (_bound(values[i], column, source) for values in ends)
        nulls = statistics.nulls[i] if i < len(statistics.nulls) else None
        found[column.name] = ColumnBounds(
            lower, upper, nulls=nulls != 0, values=nulls is None or nulls < meta.row_count
        )
    return found


def _bound(value: Value, column: Column, source: str) -> Any:
    if value is None or (isinstance(value, str) and not safe_text(value)):
        return None
    return partition_scalar(value, column, source)

"""Live rows of a table, without its engine: as Arrow batches, as a Parquet file, and as other libraries take them.

A corrupt or ambiguous vector raises before any row of its data file is returned.

A condition is evaluated first, by what deletes evaluate it: data files and row groups are skipped by their statistics,
and it is asked of live rows alone. Then the columns are read where there are such rows.

Polars, DuckDB and pandas evaluate their own conditions. Polars evaluates all of them on the rows that come; what
pyarrow understands alike is passed on, so that other data files and row groups are not read. DuckDB passes what it
pushes down to pyarrow's datasets as their expressions, and leaves out what pyarrow understands otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache, partial, reduce
from operator import and_, eq, ge, gt, le, lt, or_
from typing import Any

from dvcodec.core.errors import MissingExtra, NotCanonical, Unsupported, UsageError
from dvcodec.core.extras import ds, pa, pc, pq, require_extra, types
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import as_count, check_type
from dvcodec.io import SinkFile, SinkTarget, StorageOptions, open_sink
from dvcodec.tables.deleting.matching import ConditionFinder, RowMask
from dvcodec.tables.deleting.predicate import Predicate, where_finder
from dvcodec.tables.model import DataFile
from dvcodec.tables.rows.bounds import ColumnBounds
from dvcodec.tables.rows.columns import is_text, parts_of
from dvcodec.tables.snapshots.reading import Deletes, Progress, checked_rows
from dvcodec.tables.table import Snapshot, Table, check_progress, check_table
from dvcodec.tables.writing import check_outside

__all__ = ["deleted_rows", "export_live", "live_batches", "live_reader"]

BATCH_ROWS = 1 << 16
"""Maximum rows in a batch."""


def live_batches(
    table: Table,
    data_file: str | None = None,
    *,
    snapshot_id: int | None = None,
    columns: Sequence[str] | None = None,
    where: Predicate | None = None,
    deleted: bool = False,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of a snapshot, data file by data file, each in physical order; see `Table.to_reader` too.

    Args:
        table: see `open_table`.
        data_file: the only one to read: its `DataFile.path` or `DataFile.location`, however it is spelled, its path
            relative to the table's folder, or its bare name, if no other has it; None = all.
        snapshot_id: the snapshot to read; None = the current one.
        columns: names to read, in this order; None = all.
        where: the rows for which this is true: a pyarrow expression, or SQL text (extra ``sql``); None = all. It may
            name other columns.
        deleted: True yields the deleted rows instead.
        batch_rows: maximum rows in a batch, fewer if there are more than 64 columns or fields. Batches end with row
            groups; none is empty.

    Raises:
        UsageError: no such snapshot, data file or column, an argument of a wrong type, or a condition that cannot be
            evaluated.
        MissingExtra: a package is not installed.
        DecodeError: a vector, the metadata or a data file is corrupt; a data file has two vectors of different rows; a
            vector has positions beyond its data file, or is for a data file with another path in the snapshot.
        OSError: a file cannot be read.
    """
    check_table(table)
    batch_rows = as_count(batch_rows, "batch_rows", 1)
    snapshot = table.snapshot(snapshot_id)
    scan = _scan(snapshot, data_file, columns, where, deleted=deleted)
    if scan.files:
        batch_rows = _rows_at_a_time(batch_rows, snapshot.schema(columns))
    for file in scan.files:
        yield from scan.batches(file, batch_rows)


def live_reader(
    snapshot: Snapshot, columns: Sequence[str] | None = None, where: Predicate | None = None
) -> pa.RecordBatchReader:
    """Return the live rows of a snapshot as a stream; see `Snapshot.to_reader`."""
    schema = snapshot.schema(columns)
    scan = _scan(snapshot, None, columns, where)
    batch_rows = _rows_at_a_time(BATCH_ROWS, schema)
    batches = (batch for file in scan.files for batch in scan.batches(file, batch_rows))
    return pa.RecordBatchReader.from_batches(schema, batches)


def deleted_rows(table: Table, data_file: str, *, snapshot_id: int | None = None) -> RowSet:
    """Return the deleted rows of a data file, those that `live_batches` leaves out.

    Args:
        table: see `open_table`.
        data_file: `DataFile.path`, however it is spelled.
        snapshot_id: the snapshot to read; None = the current one.

    Raises:
        UsageError, DecodeError, OSError: as `live_batches`.
    """
    check_table(table)
    check_type(data_file, str, "data_file", "a str")
    snapshot = table.snapshot(snapshot_id)
    (file,) = snapshot.file_names.find(data_file)
    return Deletes(snapshot)(file)


def export_live(
    table: Table,
    sink: SinkTarget,
    *,
    data_file: str | None = None,
    snapshot_id: int | None = None,
    columns: Sequence[str] | None = None,
    where: Predicate | None = None,
    deleted: bool = False,
    compression: str = "zstd",
    batch_rows: int = BATCH_ROWS,
    progress: Progress | None = None,
    storage_options: StorageOptions = None,
) -> int:
    """Write the live rows of a snapshot, or of one data file, to one Parquet file, whole or not at all.

    Args:
        table: see `open_table`.
        sink: path or URL outside of the table, or writable file. An existing file is replaced.
        data_file: the only one to read, see `live_batches`; None = all.
        snapshot_id: the snapshot to read; None = the current one.
        columns: names to write, in this order; None = all.
        where: only the rows for which this is true, see `live_batches`; None = all.
        deleted: True writes the deleted rows instead.
        compression: ``zstd``, ``snappy``, ``gzip``, ``brotli``, ``lz4`` or ``none``.
        batch_rows: maximum rows read at a time.
        progress: called with the number of data files done, and the total.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        Rows written.

    Raises:
        MissingExtra: pyarrow is not installed.
        UsageError: the sink is in the table; see also `live_batches`.
        Unsupported: a column that Parquet cannot hold: a struct without fields, or times out of its range.
        DecodeError, OSError: see `live_batches`; the sink cannot be written.
    """
    check_table(table)
    batch_rows = as_count(batch_rows, "batch_rows", 1)
    check_progress(progress)
    if str(compression).lower() not in _COMPRESSIONS:
        raise UsageError(f"compression must be one of {', '.join(_COMPRESSIONS)}, not {compression!r:.60}")
    check_outside(sink, table.location)
    require_extra("pyarrow.parquet", "tables")  # which brings what reads the metadata, too
    snapshot = table.snapshot(snapshot_id)
    scan = _scan(snapshot, data_file, columns, where, deleted=deleted)
    schema = snapshot.schema(columns)
    batch_rows = _rows_at_a_time(batch_rows, schema)
    written = 0
    with (
        open_sink(sink, storage_options=storage_options) as out,
        pa.BufferedOutputStream(pa.PythonFile(SinkFile(out), mode="w"), _SINK_BYTES) as file,
        _open_parquet(file, schema, compression, table.location) as writer,
    ):
        waiting: list[Any] = []
        size = 0
        for done, one in enumerate(scan.files, 1):
            for batch in scan.batches(one, batch_rows):
                waiting.append(batch)
                written += batch.num_rows
                size += batch.nbytes
                if sum(some.num_rows for some in waiting) >= _GROUP_ROWS or size >= _GROUP_BYTES:
                    _write(writer, pa.Table.from_batches(waiting, schema), table.location)
                    waiting, size = [], 0
            if progress is not None:
                progress(done, len(scan.files))
        if waiting:
            _write(writer, pa.Table.from_batches(waiting, schema), table.location)
    return written


@dataclass(frozen=True, slots=True)
class _Scan:
    """Rows of a snapshot, data file by data file.

    Attributes:
        snapshot: that is read.
        files: the data files that may have such rows.
        columns: names to read; None = all.
        finder: of a condition, bound to the snapshot; None = all rows.
        deletes: the deleted rows.
        keep: True for those that are not deleted, False for the deleted ones.
    """

    snapshot: Snapshot
    files: Sequence[DataFile]
    columns: Sequence[str] | None
    finder: ConditionFinder | None
    deletes: Deletes
    keep: bool

    def batches(self, file: DataFile, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a data file."""
        gone = self.deletes(file)
        mask = partial(gone.arrow_mask, keep=self.keep)
        if self.finder is None:
            yield from self._masked(file, batch_rows, mask, gone.max)
            return
        found = self.finder.find(self.snapshot, file, mask).rows
        found = found.difference(gone) if self.keep else found.intersection(gone)
        if found or file.physical_rows is None:
            yield from self._masked(file, batch_rows, found.arrow_mask, gone.max, found)

    def _masked(
        self,
        file: DataFile,
        batch_rows: int,
        mask: RowMask,
        last: int | None,
        found: RowSet | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows.

        Args:
            file: the data file.
            batch_rows: maximum rows in a batch.
            mask: which rows.
            last: the last deleted one; if the metadata do not count the rows, it may be beyond them.
            found: none but these are among them, so that other row groups are not read; None: not known.
        """
        counted = file.physical_rows is not None
        end = None if found is None or not counted else found.max

        def has_some(start: int, rows: int, _known: Mapping[str, ColumnBounds]) -> bool:
            return found is None or found.count(start, start + rows) > 0

        stop = 0
        mask = _of_many_batches(mask)
        wanted = None if end is None else has_some
        for part in checked_rows(self.snapshot, file, self.columns, batch_rows, wanted):
            stop = part.start + part.batch.num_rows
            chosen = mask(part.start, stop)
            if part.keep is not None:
                chosen = pc.and_(chosen, part.keep)
            kept = chosen.true_count
            if kept:
                yield part.batch if kept == len(chosen) else part.batch.filter(chosen)
            if end is not None and end < stop:
                return
        if last is not None and last >= stop:
            expected = f"below {stop} (rows of the data file)"
            raise NotCanonical("highest deleted position", source=file.path, expected=expected, actual=last)


def _of_many_batches(mask: RowMask) -> RowMask:
    """Return a mask that is made for many batches at once: for each, all containers of the bitmap would be walked."""
    first, known = 0, pa.array([], pa.bool_())

    def part(start: int, stop: int) -> pa.BooleanArray:
        nonlocal first, known
        if start < first or stop > first + len(known):
            first, known = start, mask(start, max(stop, start + _MASK_ROWS))
        return known.slice(start - first, stop - start)

    return part


def _scan(
    snapshot: Snapshot,
    name: str | None,
    columns: Sequence[str] | None,
    where: Predicate | None,
    *,
    deleted: bool = False,
) -> _Scan:
    """Return what reads rows of a snapshot, or of a data file, without files whose records are not rows yet."""
    finder = None if where is None else where_finder(where)
    if finder is not None:
        finder.prepare(snapshot)
    files = snapshot.data_files if finder is None else finder.candidates(snapshot)
    if name is not None:
        check_type(name, str, "data_file", "a str")
        named = {file.path for file in snapshot.file_names.find(name)}
        files = [file for file in files if file.path in named]
    files = [file for file in files if not snapshot.is_hidden(file)]
    return _Scan(snapshot, files, columns, finder, Deletes(snapshot), not deleted)


_MASK_ROWS = 1 << 20
"""Rows of a mask that is made at once: 128 KiB."""
_GROUP_ROWS = 1 << 17
"""A row group is full at this many rows."""
_GROUP_BYTES = 1 << 26
"""Or bytes in memory."""
_SINK_BYTES = 1 << 20
"""Bytes that are written at a time: pyarrow writes each column of a row group in four pieces."""
_BATCH_VALUES = 1 << 22
"""Values in a batch, of all columns: 32 MiB of numbers, also if the data file has none of the columns."""
_COMPRESSIONS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")


def _rows_at_a_time(batch_rows: int, schema: pa.Schema) -> int:
    """Return how many rows to read at a time, fewer if there are many columns, or fields of structs."""
    return max(min(batch_rows, _BATCH_VALUES // max(sum(_leaves(field.type) for field in schema), 1)), 1)


def _leaves(kind: pa.DataType) -> int:
    return sum(_leaves(part.type) for part in parts_of(kind)) or 1


@contextmanager
def _refusals(rows: pa.Table, location: str) -> Iterator[None]:
    """Raise what pyarrow's writer refuses as `Unsupported`, with the column if it refuses that alone, too."""
    try:
        yield
    except (pa.ArrowMemoryError, pa.ArrowCancelled):
        raise
    except pa.ArrowException as err:
        alone = (rows.select([name]) for name in rows.column_names)
        refused = next(((one, why) for one in alone if (why := _refusal(one)) is not None), None)
        what = "rows" if refused is None else f"column {refused[0].column_names[0]:.80}"
        expected = "what a Parquet file can hold; name the other columns (--column, columns=)"
        actual = str(err if refused is None else refused[1]).partition("\n")[0]
        raise Unsupported(what, source=location, expected=expected, actual=f"{actual:.200}") from None


def _open_parquet(file: pa.NativeFile, schema: pa.Schema, compression: str, location: str) -> pq.ParquetWriter:
    """Start a Parquet file.

    Raises:
        Unsupported: a column has a type that Parquet does not have.
    """
    text = [path for field in schema for path in _text_leaves(field, field.name)]
    with _refusals(schema.empty_table(), location):
        return pq.ParquetWriter(file, schema, compression=compression, use_dictionary=text)


def _text_leaves(field: pa.Field, path: str) -> Iterator[str]:
    """Yield the paths in Parquet of the text in a column.

    That alone gets dictionaries: those of numbers take twice the time, and more bytes where most values occur once.
    """
    parts = parts_of(field.type)
    between = "" if types.is_struct(field.type) else "key_value." if types.is_map(field.type) else "list."
    for part in parts:
        yield from _text_leaves(part, f"{path}.{between}{part.name}")
    if is_text(field.type):
        yield path


def _write(writer: pq.ParquetWriter, rows: pa.Table, location: str) -> None:
    """Write a row group.

    Raises:
        Unsupported: pyarrow's writer refuses it.
    """
    with _refusals(rows, location):
        _check_seconds(rows)
        writer.write_table(rows)


def _check_seconds(rows: pa.Table) -> None:
    """Refuse seconds that are too many for milliseconds, which Parquet has: older versions of pyarrow write others.

    Raises:
        pa.ArrowInvalid: there are some.
    """
    for column in rows.columns:
        if types.is_timestamp(column.type) and column.type.unit == "s":
            column.cast(pa.timestamp("ms", column.type.tz))


def _refusal(rows: pa.Table) -> pa.ArrowException | None:
    try:
        _check_seconds(rows)
        pq.write_table(rows, pa.MockOutputStream())
    except pa.ArrowException as err:
        return err
    return None


_EXTRA = "frames"
_FIRST_POLARS = (1, 29)
"""Earlier ones return all rows of a batch where the first few are asked for."""


def to_pandas(reader: pa.RecordBatchReader) -> Any:
    """Return a DataFrame; see `Snapshot.to_pandas`."""
    require_extra("pandas", _EXTRA)
    return reader.read_pandas()


def to_polars(snapshot: Snapshot) -> Any:
    """Return a LazyFrame; see `Snapshot.to_polars`."""
    polars, package = require_extra("polars", _EXTRA), "polars {}.{} or later".format(*_FIRST_POLARS)
    if tuple(map(int, polars.__version__.split(".")[:2])) < _FIRST_POLARS:
        raise MissingExtra(package, _EXTRA)
    plugins = require_extra("polars.io.plugins", _EXTRA)
    schema = snapshot.schema()

    def source(columns: list[str] | None, predicate: Any, rows: int | None, _batch_rows: int | None) -> Iterator[Any]:
        yield from _frames(polars, snapshot, schema, columns, predicate, rows)

    return plugins.register_io_source(source, schema=polars.from_arrow(schema.empty_table()).schema)


def _frames(
    polars: Any, snapshot: Snapshot, schema: pa.Schema, columns: list[str] | None, predicate: Any, rows: int | None
) -> Iterator[Any]:
    """Yield live rows as frames.

    Args:
        polars: the library.
        snapshot: that is read.
        schema: its columns.
        columns: names to return; None = all.
        predicate: of the rows to return; None = all.
        rows: the first rows of the snapshot, of which alone the predicate is asked; None = all.
    """
    read, where = columns, None
    if predicate is not None:
        read = None if columns is None else list(dict.fromkeys([*columns, *predicate.meta.root_names()]))
        where = implied(predicate, schema) if rows is None else None
    try:
        reader = live_reader(snapshot, read, where)
    except UsageError:  # pyarrow compares such a column otherwise, or not at all
        reader = live_reader(snapshot, read)
    for batch in reader:
        frame = polars.from_arrow(batch if rows is None else batch.slice(0, rows))
        rows = None if rows is None else rows - len(frame)
        frame = frame if predicate is None else frame.filter(predicate)
        if len(frame):
            yield frame if columns is None else frame.select(columns)
        if rows == 0:
            return


def implied(predicate: Any, schema: pa.Schema) -> pc.Expression | None:
    """Return an expression of pyarrow that is true of every row for which one of Polars is; None if nothing is known.

    Of comparisons with values, only those of integers, text and days: both libraries compare these alike.
    """
    try:
        return _implied(json.loads(predicate.meta.serialize(format="json")), schema)
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError, pa.ArrowException):
        return None  # spelled in another way by this version of Polars; or thousands of parts


_COMPARISONS = {"Eq": eq, "Lt": lt, "LtEq": le, "Gt": gt, "GtEq": ge}


def _implied(node: Any, schema: pa.Schema) -> pc.Expression | None:
    (kind, inner), *others = node.items()
    if others:
        return None
    if kind == "BinaryExpr":
        if inner["op"] in ("And", "Or"):
            parts = [_implied(inner[side], schema) for side in ("left", "right")]
            known = [part for part in parts if part is not None]
            if inner["op"] == "Or":
                return reduce(or_, known) if len(known) == len(parts) else None
            return reduce(and_, known) if known else None
        if inner["op"] in _COMPARISONS:
            column, value = inner["left"].get("Column"), _value(inner["right"], schema, inner["left"].get("Column"))
            return None if value is None else _COMPARISONS[inner["op"]](pc.field(column), value)
        return None
    return _implied_by_function(inner, schema) if kind == "Function" else None


def _implied_by_function(call: Any, schema: pa.Schema) -> pc.Expression | None:
    function, (first, *rest) = call["function"].get("Boolean"), call["input"]
    column = first.get("Column")
    if column not in schema.names or function is None:
        return None
    if function == "IsNull":
        return pc.field(column).is_null()
    if function == "IsNotNull":
        return pc.field(column).is_valid()
    if isinstance(function, dict) and "IsBetween" in function:
        low, high = (_value(one, schema, column) for one in rest)
        return None if low is None or high is None else (pc.field(column) >= low) & (pc.field(column) <= high)
    if function == "IsIn" or (isinstance(function, dict) and "IsIn" in function):
        stored = _literal(rest[0])
        values = pa.ipc.open_stream(bytes(stored.get("List", stored.get("Series")))).read_all().column(0)
        kind = schema.field(column).type
        alike = (types.is_integer(kind) and types.is_integer(values.type)) or (
            types.is_string(kind) and (types.is_large_string(values.type) or types.is_string_view(values.type))
        )
        return pc.field(column).isin(values.cast(kind)) if alike else None
    return None


def _value(node: Any, schema: pa.Schema, column: str | None) -> Any:
    """Return a literal that a column is compared with, if both libraries compare it alike."""
    if column is None or column not in schema.names or "Literal" not in node:
        return None
    ((name, value),) = _literal(node).items()
    kind = schema.field(column).type
    if types.is_integer(kind) and type(value) is int and name.lstrip("U").startswith("Int"):
        return pa.scalar(value, kind)
    if types.is_string(kind) and name == "String" and isinstance(value, str):
        return value
    if types.is_date32(kind) and name == "Date" and type(value) is int:
        return date(1970, 1, 1) + timedelta(value)
    return None


def _literal(node: Any) -> Any:
    found = node["Literal"]
    found = found.get("Scalar", found.get("Dyn", found))
    return found.get("value", found)  # until 1.32 with its type


def to_duckdb(snapshot: Snapshot, connection: Any, name: str) -> Any:
    """Register a view and return it as a relation; see `Snapshot.to_duckdb`."""
    if not callable(getattr(connection, "register", None)):
        raise UsageError(f"connection must be one of DuckDB (duckdb.connect()), not {type(connection).__name__}")
    check_type(name, str, "name", "a str")
    connection.register(name, _dataset_class()(snapshot))
    return connection.table(name)


class _Scanner:
    """What DuckDB takes rows from."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def to_reader(self) -> pa.RecordBatchReader:
        return self._reader


@lru_cache(maxsize=1)
def _dataset_class() -> type:
    """Return a class of datasets, of which DuckDB asks columns and rows."""

    class LiveRows(ds.Dataset):  # type: ignore[misc]
        def __init__(self, snapshot: Snapshot) -> None:
            self._snapshot = snapshot
            self._columns = snapshot.schema()

        @property
        def schema(self) -> pa.Schema:
            return self._columns

        def scanner(
            self,
            columns: Sequence[str] | None = None,
            filter: pc.Expression | None = None,  # noqa: A002
            **_: Any,
        ) -> _Scanner:
            return _Scanner(live_reader(self._snapshot, columns, filter))

    return LiveRows

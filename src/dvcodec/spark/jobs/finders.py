"""Finders of rows to delete whose work Spark does: see `dvcodec.tables.deleting.run`.

`WorkerFinder` evaluates a condition where the data files are read, in the Python workers: no row reaches the JVM. If
there is less to read than a task reads, no job is started.
`RowFinder` reads the columns that a condition names in the workers, or has Spark scan the files; Spark evaluates the
condition, or joins the rows with keys: any condition, in any format, without the format's connector.

The driver plans; a task gets the readers of its files (`RowReader`), so that workers read no metadata of the table. A
file is cut by row groups, small files share a task. What a task returns is one row for each part of a file; the driver
counts them, because a part that is missing would be rows that stay.

Spark's own reader of Parquet is the fastest, and skips row groups by their statistics. It finds columns by name, knows
no field ids, defaults or values in metadata, and must not be asked for another type than the files have. So it scans a
table only if `Snapshot.stored_names` shows, for each data file, under which names it has the values as they are.
"""

from __future__ import annotations

import logging
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import and_
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    PythonException,
)
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType, DoubleType, FloatType, LongType, StructField, StructType

from dvcodec.core.errors import DvcodecError, NotCanonical, UsageError
from dvcodec.core.ragged import cut_by_weight
from dvcodec.core.rowset import RowSet
from dvcodec.io.storage import run_bounded
from dvcodec.io.target import file_key, is_local, local_path
from dvcodec.spark.accumulate import RowAccumulator
from dvcodec.spark.columns import BINARY, INT, LONG, STRING, VECTORS, arrow_schema, column_named, struct
from dvcodec.spark.compat import condition_of, frame_of, metadata_of, reason, to_arrow
from dvcodec.spark.hand_over import (
    NUMBER_ROWS,
    ScannedFiles,
    hands_over,
    packed,
    packed_places,
    task_bytes,
    without_byte_limit,
)
from dvcodec.spark.paths import data_file_column, data_file_of
from dvcodec.spark.tasks import OverBatches, Tasks, pack, settled
from dvcodec.spark.vectors import decode, encode
from dvcodec.tables.deleting.matching import Condition, ConditionFinder, matching_rows
from dvcodec.tables.deleting.run import Finder, Found
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import (
    NO_SNAPSHOT,
    DataFile,
    DeletionVector,
    Part,
    PhysicalRows,
    RowReader,
    SnapshotInfo,
    StoredNames,
)
from dvcodec.tables.rows.bounds import ColumnBounds, RowGroupFilter
from dvcodec.tables.rows.columns import EXTENSION, chosen, parts_of
from dvcodec.tables.rows.data_file import count_rows
from dvcodec.tables.snapshots.reading import RowsSeen, rows_in_order
from dvcodec.tables.table import Snapshot, Table


def open_plain(spark: SparkSession, folder: Folder, *, by_position: bool) -> PlainSnapshot:
    """Let Spark list the Parquet files of a folder. Vectors may be in a folder below it.

    Args:
        spark: the session.
        folder: path or URL.
        by_position: see `PlainSnapshot`.

    Raises:
        UsageError: there are none that Spark reads.
    """
    try:
        df = spark.read.parquet(folder.location)
        files = [data_file_of(uri).removeprefix("file:") for uri in df.inputFiles()]
    except Exception as err:  # noqa: BLE001  (a classic session raises those of py4j, too)
        raise UsageError(f"{folder.location}: no table, and no Parquet files that Spark reads: {reason(err)}") from None
    data_files = tuple(DataFile(file, file, None) for file in sorted(files))
    return PlainSnapshot(_PlainTable(folder), SnapshotInfo(NO_SNAPSHOT), data_files, (), df=df, by_position=by_position)


class _PlainTable(Table):
    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        return ()

    def snapshot(self, id: int | None = None) -> NoReturn:  # noqa: A002, ARG002
        raise UsageError(f"{self.location}: Parquet files without a table have no snapshots")

    def referenced(self) -> frozenset[str]:
        return frozenset()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PlainSnapshot(Snapshot):
    """Parquet files as they are now; see `Snapshot`.

    Attributes:
        df: the rows of all files, as Spark reads them.
        by_position: whether the rows to delete are named by position.
    """

    df: DataFrame
    by_position: bool

    def read(self, vector: DeletionVector) -> NoReturn:
        """Refuse: there are no vectors."""
        raise UsageError(f"{vector.where}: no vector of {self.table.location}")

    def schema(self, columns: Sequence[str] | None = None) -> NoReturn:  # noqa: ARG002
        """Refuse: Spark alone infers columns."""
        raise self.refusal()

    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> NoReturn:  # noqa: ARG002
        """Refuse: Spark alone reads the rows."""
        raise self.refusal()

    def refusal(self) -> UsageError:
        """Return the error for what only a table has."""
        what = "a condition in SQL, a Column, or keys in a DataFrame of Spark"
        return UsageError(f"{self.table.location}: Parquet files without a table are read by Spark alone: pass {what}")

    def stored_rows(self, data_file: DataFile) -> int | None:
        """Return the row count in the footer of a file, if rows are named by position; Spark's own are in it."""
        return count_rows(data_file.location, self.table.folder.storage) if self.by_position else None


AT = "__dvcodec_at"
"""The column of places: a file and a position in it, in one long, see `packed`; or both."""
_PATTERN = frozenset("*?[]{}\\")
"""Characters that make a path a pattern for Spark."""


class Scan(NamedTuple):
    """Rows of data files.

    Attributes:
        rows: the columns that may be asked for, and `AT`.
        encode: makes vectors of places.
    """

    rows: DataFrame
    encode: OverBatches

    def vectors(self, chosen: DataFrame) -> Iterator[tuple[str, RowSet]]:
        """Yield the rows of data files that were chosen of `rows`; a data file may be repeated.

        Raises:
            PySparkException: a task failed.
        """
        places = chosen.select(AT)
        limits: AbstractContextManager[None] = nullcontext()
        if isinstance(self.encode, ScannedFiles) and not hands_over(places):
            limits = without_byte_limit(places.sparkSession, task_bytes(places), NUMBER_ROWS)
        with limits:
            found = to_arrow(places.mapInArrow(settled(self.encode), VECTORS))
        for name, frame in zip(found["data_file"].to_pylist(), found["dv"].to_pylist(), strict=True):
            yield name, decode(frame, name)


def scan_table(spark: SparkSession, snapshot: Snapshot, files: Sequence[DataFile], schema: StructType) -> Scan | None:
    """Return the rows of data files in columns of the table; None if Spark might read others than the table has.

    Args:
        spark: the session.
        snapshot: of the table.
        files: data files of it.
        schema: the columns.

    Raises:
        PySparkException: Spark cannot read them.
        DecodeError, OSError: see `Snapshot.stored_names`.
    """
    paths = [str(local_path(file.location) or file.location) for file in files]
    if not files or any(_PATTERN.intersection(path) for path in paths):
        return None
    threads = snapshot.table.folder.storage.threads(snapshot.table.location, None)
    groups: dict[StoredNames, list[str]] = {}
    found = run_bounded(lambda file: snapshot.stored_names(file, schema.names), files, threads)
    for path, names in zip(paths, found, strict=True):
        if names is None:
            return None
        groups.setdefault(names, []).append(path)
    scans = []
    for names, some in groups.items():
        stored = [StructField(name, field.dataType) for name, field in zip(names.names, schema, strict=True) if name]
        reader = spark.read.schema(StructType(stored)).options(ignoreCorruptFiles="false", ignoreMissingFiles="false")
        if names.in_folders:
            reader = reader.option("basePath", str(local_path(snapshot.table.location) or snapshot.table.location))
        columns = [
            (_values(name, field.dataType) if name else sf.lit(None).cast(field.dataType)).alias(field.name)
            for name, field in zip(names.names, schema, strict=True)
        ]
        scans.append((reader.parquet(*some), columns))
    listed = ScannedFiles.of([uri for scan, _ in scans for uri in scan.inputFiles()])
    if listed is None or set(map(file_key, listed.names.to_pylist())) != set(map(file_key, paths)):
        return None
    placed = (scan.select(_place(scan), *columns) for scan, columns in scans)
    return Scan(reduce(lambda one, other: one.union(other), placed), listed)


def scan_files(rows: DataFrame) -> Scan:
    """Return rows that Spark reads from Parquet files, with their places.

    Raises:
        AnalysisException: they are not read from Parquet files.
    """
    files = ScannedFiles.of(rows.inputFiles())
    columns = [_values(field.name, field.dataType).alias(field.name) for field in rows.schema]
    if files is not None:
        return Scan(rows.select(_place(rows), *columns), files)
    file, row = _metadata(rows)
    return Scan(rows.select(sf.struct(data_file_column(file), row).alias(AT), *columns), _encode_pairs)


def _values(name: str, kind: DataType) -> Column:
    """Return a column. If it has floats, Spark's reader skips no row groups by conditions on it.

    Their statistics leave NaN out, which in Spark is greater than all numbers: it would skip rows that match.
    """
    column = column_named(name)
    return sf.coalesce(column, column) if _has_floats(kind) else column


def _has_floats(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_floats(field.dataType) for field in kind)
    return isinstance(kind, (FloatType, DoubleType))


def _place(rows: DataFrame) -> Column:
    return packed(*_metadata(rows)).alias(AT)


def _metadata(rows: DataFrame) -> tuple[Column, Column]:
    metadata = metadata_of(rows)
    return metadata.getField("file_path"), metadata.getField("row_index")


def _encode_pairs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    accumulator = RowAccumulator()
    for batch in batches:
        yield from accumulator.add(*batch.column(0).flatten())
    yield from accumulator.flush()


PART_BYTES = 32 << 20
"""Bytes of a data file in a part."""
TASK_BYTES, _FEW_TASKS = 128 << 20, 8
"""Bytes of data files in a task, as in Spark's own scans; and the number of tasks of a smaller table: each costs Spark
0.1 s beside its work."""
_OPEN_COST = 1 << 20
_ROW_BYTES = 16
"""Assumed where the size of a file is not recorded."""

FOUND = struct(file=INT, part=INT, rows=LONG, groups_skipped=LONG, dv=BINARY, missing=STRING)
"""The result for one part of a file: its rows, skipped row groups, and the vector of the rows that were found; or why
the file is missing."""
_FOUND = arrow_schema(FOUND)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a data file.

    Attributes:
        file: number of the data file.
        path: its path.
        reader: reads it.
        part: which part.
        rows: of the file; None if that is not recorded.
    """

    file: int
    path: str
    reader: RowReader
    part: Part
    rows: int | None

    def read(self, batch_rows: int, wanted: RowGroupFilter | None, seen: RowsSeen) -> Iterator[PhysicalRows]:
        """Read it, and check that its rows come without gaps; see `rows_in_order`.

        Raises:
            NotCanonical: they do not, or the whole file has more or fewer rows than is recorded.
            DvcodecError, OSError: see `Snapshot.rows`.
        """
        yield from rows_in_order(self.reader, self.path, batch_rows, wanted, seen, self.part)
        if self.part.of == 1 and self.rows not in (None, seen.rows):
            expected = f"{self.rows} rows (metadata)"
            raise NotCanonical("rows of the data file", source=self.path, expected=expected, actual=seen.rows)


def pieces_of(tasks: Tasks[list[Piece]], numbers: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
    """Yield the pieces of some tasks, whose numbers are the first column of batches."""
    return chain.from_iterable(tasks.values(numbers))


def bytes_of(file: DataFile) -> int:
    """Return the size of a data file in bytes, by its rows if it is not recorded."""
    return (file.physical_rows or 0) * _ROW_BYTES if file.size is None else file.size


def jobs_of(snapshot: Snapshot, files: Sequence[DataFile], columns: Sequence[str]) -> Iterator[Tasks[list[Piece]]]:
    """Cut data files into tasks, and those into jobs.

    Raises:
        UsageError, DecodeError, Unsupported: see `Snapshot.row_reader`.
    """
    pieces, costs = [], []
    for number, file in enumerate(files):
        size = bytes_of(file)
        count = max(-(-size // PART_BYTES), 1)
        reader = snapshot.row_reader(file, columns)
        pieces += [Piece(number, file.path, reader, Part(i, count), file.physical_rows) for i in range(count)]
        costs += [size // count + _OPEN_COST] * count
    most = min(max(sum(costs) // _FEW_TASKS, PART_BYTES + _OPEN_COST), TASK_BYTES)
    return pack(pieces[cut] for cut in cut_by_weight(np.array(costs, np.int64), most))


@dataclass(frozen=True)
class Search:
    """Evaluates a condition in a worker.

    Attributes:
        tasks: of the job.
        condition: bound to the snapshot.
    """

    tasks: Tasks[list[Piece]]
    condition: Condition

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield `FOUND` for each piece of the tasks."""
        yield from map(self._search, pieces_of(self.tasks, batches))

    def _search(self, piece: Piece) -> pa.RecordBatch:
        rows, missing, seen = RowSet(), None, RowsSeen()
        try:
            parts = piece.read(self.condition.batch_rows, self.condition.wants, seen)
            rows = matching_rows(parts, self.condition, {}, piece.path)
        except FileNotFoundError as err:
            missing = str(err)[:1000] or piece.path
        values = [[piece.file], [piece.part.number], [seen.rows], [seen.groups_skipped], [encode(rows)], [missing]]
        return pa.record_batch(values, schema=_FOUND)


class Collected:
    """The vectors that the tasks have found, and the count of what they read.

    Args:
        files: the data files, by number.
    """

    def __init__(self, files: Sequence[DataFile]) -> None:
        self._files = files
        self._frames: dict[str, list[bytes]] = {}
        self._parts: dict[int, set[int]] = {}
        self._seen: dict[str, RowsSeen] = {}

    def add(self, found: pa.Table) -> None:
        """Add rows of `FOUND`.

        Raises:
            FileNotFoundError: a data file is missing.
            DecodeError: a part came twice.
        """
        for number, part, rows, skipped, frame, missing in zip(
            *(one.to_pylist() for one in found.columns), strict=True
        ):
            path = self._files[number].path
            if missing is not None:
                raise FileNotFoundError(missing)
            parts = self._parts.setdefault(number, set())
            if part in parts:
                raise NotCanonical("parts of a data file", source=path, expected="each once", actual=f"{part} twice")
            parts.add(part)
            seen = self._seen.setdefault(path, RowsSeen())
            seen.rows += rows
            seen.groups_skipped += skipped
            self._frames.setdefault(path, []).append(frame)

    def check(self) -> None:
        """Check that every row of every data file was looked at.

        Raises:
            DecodeError: one was not, or there are more than the metadata says.
        """
        for file in self._files:
            seen = self._seen.get(file.path)
            if seen is None or file.physical_rows not in (None, seen.rows):
                stated = "its rows" if file.physical_rows is None else f"{file.physical_rows} rows (metadata)"
                actual = "none" if seen is None else seen.rows
                raise NotCanonical("rows of the data file", source=file.path, expected=stated, actual=actual)

    def found(self, path: str) -> Found:
        """Return what was found in a data file."""
        rows = RowSet().union(*(decode(frame, path) for frame in self._frames.get(path, ())))
        return Found(rows, self._seen.get(path, RowsSeen()).groups_skipped)


NEAR_BYTES = TASK_BYTES
"""At most this many bytes of columns are read without a job, whose start takes more than half a second."""
_KEY = "__dvcodec_key"
_LOG = logging.getLogger("dvcodec.delete")
_OF_VALUES = (ArithmeticException, DateTimeException, NumberFormatException)
"""What Spark raises where a condition has no value for a row."""
_BEYOND = {
    "INVALID_USAGE_OF_STAR_OR_REGEX": "name the columns instead of *",
    "INVALID_NON_DETERMINISTIC_EXPRESSIONS": "it depends on chance, or on how rows are read, not only on their values",
}
_BEYOND["AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"] = _BEYOND["INVALID_NON_DETERMINISTIC_EXPRESSIONS"]
"""What Spark says of a condition that may be in a filter, but is not a function of the row."""
_BATCH_ROWS = 1 << 16
_UUID_BYTES, _UUID_PARTS = 16, "(.{8})(.{4})(.{4})(.{4})(.{12})"
"""Hexadecimal digits between the hyphens of a UUID."""


class WorkerFinder(Finder):
    """Finds rows by a condition that the Python workers evaluate.

    Args:
        spark: the session.
        where: the condition.
        near_bytes: if the columns of the condition have at most this many bytes in the files to read, estimated by
            their share of all columns, no job is started: `where` reads them in this process.
    """

    def __init__(self, spark: SparkSession, where: ConditionFinder, *, near_bytes: int = 0) -> None:
        self._spark, self._where, self._near_bytes = spark, where, near_bytes
        self._near = False
        self._found = Collected(())

    def prepare(self, snapshot: Snapshot) -> None:
        """Look at the snapshot's schema; see `Finder.prepare`."""
        self._where.prepare(snapshot)

    def may_match(self, snapshot: Snapshot, data_file: DataFile) -> bool:
        """Whether a data file may have such rows; see `Finder.may_match`."""
        return self._where.may_match(snapshot, data_file)

    def candidates(self, snapshot: Snapshot) -> Sequence[DataFile]:
        """Return the data files that may have such rows; see `Finder.candidates`."""
        return self._where.candidates(snapshot)

    def gather(self, snapshot: Snapshot, data_files: Sequence[DataFile]) -> Mapping[str, Found]:
        """Find the rows of several data files at once; see `Finder.gather`."""
        condition = self._where.condition
        files = [file for file in data_files if self._where.decided(snapshot, file) is None]
        share = len(condition.columns) / max(len(snapshot.schema()), 1)
        self._near = sum(map(bytes_of, files)) * share <= self._near_bytes
        if self._near:
            return self._where.gather(snapshot, data_files)
        self._found = Collected(files)
        for job in jobs_of(snapshot, files, condition.columns):
            self._found.add(to_arrow(job.run(self._spark, Search(job, condition), FOUND)))
        self._found.check()
        return {}

    def find(self, snapshot: Snapshot, data_file: DataFile) -> Found:
        """Return the rows of a data file; see `Finder.find`."""
        if self._near:
            return self._where.find(snapshot, data_file)
        decided = self._where.decided(snapshot, data_file)
        return self._found.found(data_file.path) if decided is None else decided


class RowFinder(Finder):
    """Finds rows that Spark chooses.

    Args:
        spark: the session.
        read_by: ``spark`` or ``workers``: who reads the data files; ``auto``: Spark, where it reads local files as the
            table has them, else workers.
    """

    def __init__(self, spark: SparkSession, read_by: str = "auto") -> None:
        self._spark, self._read_by = spark, read_by
        self._columns: tuple[str, ...] = ()
        self._schema = StructType()
        self._rows: dict[str, list[RowSet]] = {}

    @abstractmethod
    def columns(self, snapshot: Snapshot) -> Sequence[str]:
        """Return the columns to read.

        Raises:
            UsageError: the condition, or the key, does not fit this table.
        """

    @abstractmethod
    def choose(self, rows: DataFrame) -> DataFrame:
        """Return the rows to delete."""

    def prepare(self, snapshot: Snapshot) -> None:
        """Look at the snapshot's schema; see `Finder.prepare`."""
        self._columns = tuple(self.columns(snapshot))
        self._schema = spark_types(snapshot, self._columns)

    def may_match(self, snapshot: Snapshot, data_file: DataFile) -> bool:  # noqa: ARG002
        """Whether a data file may have such rows; see `Finder.may_match`."""
        return True

    def gather(self, snapshot: Snapshot, data_files: Sequence[DataFile]) -> Mapping[str, Found]:
        """Find the rows of all data files at once; see `Finder.gather`."""
        self._rows = {}
        left = self._decide(snapshot, data_files)
        self.counts_rows = not left  # Spark does not count what it reads
        try:
            if left and not self._scan(snapshot, left):
                self._read(snapshot, left)
        except _OF_VALUES as err:
            raise UsageError(reason(err)) from None
        return {}

    def find(self, snapshot: Snapshot, data_file: DataFile) -> Found:  # noqa: ARG002
        """Return the rows of a data file; see `Finder.find`."""
        return Found(RowSet().union(*self._rows.get(data_file.path, ())))

    def _decide(self, snapshot: Snapshot, files: Sequence[DataFile]) -> Sequence[DataFile]:
        """Choose data files of which partition values are all that is asked for; return the others."""
        if isinstance(snapshot, PlainSnapshot) or not self._columns:
            return files
        partitions: dict[tuple[Any, ...], tuple[Mapping[str, ColumnBounds], list[DataFile]]] = {}
        left = []
        for file in files:
            may_decide = file.physical_rows is not None and len(self._columns) <= len(file.partition_values or ())
            known = snapshot.bounds(file, self._columns) if may_decide else {}
            if all(name in known and known[name].constant for name in self._columns):
                key = tuple(known[name].lower for name in self._columns)
                partitions.setdefault(key, (known, []))[1].append(file)
            else:
                left.append(file)
        if partitions:
            found = list(partitions.values())
            values = []
            for field in snapshot.schema(self._columns):
                each = (pa.repeat(known[field.name].value(field.type), 1) for known, _ in found)
                values.append(_for_spark(field, pa.concat_arrays(each)))
            table = pa.table([pa.array(range(len(found))), *values], [AT, *self._columns])
            rows = frame_of(self._spark, table, _with_place(self._schema))
            for number in to_arrow(self.choose(rows).select(AT))[AT].to_pylist():
                for file in found[number][1]:
                    self._rows[file.path] = [RowSet.from_ranges([(0, file.physical_rows or 0)])]
        return left

    def _scan(self, snapshot: Snapshot, files: Sequence[DataFile]) -> bool:
        """Let Spark read data files; return whether it does."""
        paths = {file_key(file.location): file.path for file in files}
        if isinstance(snapshot, PlainSnapshot):
            if self._read_by == "workers":
                raise snapshot.refusal()
            self._choose(scan_files(snapshot.df), paths)
            return True
        remote = not all(is_local(file.location) for file in files)
        if self._read_by == "workers" or (self._read_by == "auto" and remote):
            return False
        why = "it might find other values than the table has"
        try:
            scan = scan_table(self._spark, snapshot, files, self._schema)
            if scan is not None:
                self._choose(scan, paths)
                return True
        except (DvcodecError, OSError, *_OF_VALUES):
            raise
        except Exception as err:  # noqa: BLE001  (of tasks, a classic session raises those of py4j)
            why = reason(err)
        if self._read_by == "spark":
            raise UsageError(f"{snapshot.table.location}: Spark cannot read the data files: {why}")
        _LOG.info("%s: the data files are read by Python workers, not by Spark: %s", snapshot.table.location, why)
        return False

    def _read(self, snapshot: Snapshot, files: Sequence[DataFile]) -> None:
        """Let Python workers read data files."""
        paths = {str(number): file.path for number, file in enumerate(files)}
        numbered = ScannedFiles(np.arange(len(files), dtype=np.uint32), pa.array(list(paths)))
        for job in jobs_of(snapshot, files, self._columns):
            rows = job.run(self._spark, _Rows(job, self._schema), _with_place(self._schema))
            try:
                self._choose(Scan(rows, numbered), paths)
            except PythonException as err:
                if "FileNotFoundError" not in str(err):
                    raise
                raise FileNotFoundError(f"{snapshot.table.location}: a data file is gone") from err

    def _choose(self, scan: Scan, paths: Mapping[str, str]) -> None:
        for name, rows in scan.vectors(self.choose(scan.rows)):
            self._rows.setdefault(paths[file_key(name)], []).append(rows)


class WhereFinder(RowFinder):
    """Finds rows by a condition that Spark evaluates.

    Args:
        spark: the session.
        where: Spark SQL, or a column.
        read_by: see `RowFinder`.
    """

    def __init__(self, spark: SparkSession, where: Column | str, read_by: str = "auto") -> None:
        super().__init__(spark, read_by)
        self._where, self._text = sf.expr(where) if isinstance(where, str) else where, str(where).lower()

    def columns(self, snapshot: Snapshot) -> Sequence[str]:
        """Return the columns to read; see `RowFinder.columns`."""
        plain = snapshot.df if isinstance(snapshot, PlainSnapshot) else None
        schema = known_to_spark(snapshot.schema()) if plain is None else plain.schema
        rows = self._empty(schema, schema.names) if plain is None else plain
        problem = self._problem(rows) or self._beyond(rows)
        if problem is not None:
            raise UsageError(f"where: {problem} (columns: {', '.join(schema.names):.300})")
        if plain is not None:
            return ()
        # Spark logs an ERROR for each column that it misses, so those that the text names come first.
        named = [name for name in schema.names if re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", self._text)]
        known = self._problem(self._empty(schema, named)) is None
        return named if known else self._needed(schema, schema.names, ())

    def choose(self, rows: DataFrame) -> DataFrame:
        """Return the rows to delete; see `RowFinder.choose`."""
        return rows.where(self._where)

    def _empty(self, schema: StructType, names: Sequence[str]) -> DataFrame:
        # Not projected from a range, whose column ``id`` Spark would find below the projection.
        return self._spark.createDataFrame([], StructType([schema[name] for name in names]))

    def _problem(self, rows: DataFrame) -> str | None:
        """Return why Spark cannot evaluate the condition on some rows; None if it can."""
        try:
            rows.where(self._where).schema  # noqa: B018  (over Connect nothing is resolved before)
        except AnalysisException as err:
            return _BEYOND.get(condition_of(err)) or reason(err)
        return None

    def _beyond(self, rows: DataFrame) -> str | None:
        """Return why the condition is not a function of the row: Spark accepts that in filters, but not here."""
        nothing = self._spark.createDataFrame([], StructType())
        # A join does not take every subquery; an aggregate takes ``*``.
        for join in (True, False):
            try:
                asked = rows.join(nothing, self._where, "left_semi") if join else rows.agg(sf.max(self._where))
                asked.schema  # noqa: B018
            except AnalysisException as err:
                if (why := _BEYOND.get(condition_of(err))) is not None:
                    return why
        return None

    def _needed(self, schema: StructType, names: Sequence[str], others: Sequence[str]) -> Sequence[str]:
        """Return those of `names` that the condition reads beside `others`, found by halves."""
        if self._problem(self._empty(schema, others)) is None:
            return ()
        if len(names) == 1:
            return names
        half = len(names) // 2
        first = self._needed(schema, names[:half], [*names[half:], *others])
        return [*first, *self._needed(schema, names[half:], [*first, *others])]


class KeyFinder(RowFinder):
    """Finds rows by keys, which Spark joins with them; a null matches nothing, NaN matches NaN.

    Args:
        spark: the session.
        keys: a DataFrame with the columns of the key.
        on: the columns of the key.
        read_by: see `RowFinder`.
    """

    def __init__(self, spark: SparkSession, keys: DataFrame, on: Sequence[str], read_by: str = "auto") -> None:
        super().__init__(spark, read_by)
        self._keys, self._on = keys, tuple(on)

    def columns(self, snapshot: Snapshot) -> Sequence[str]:
        """Return the columns to read; see `RowFinder.columns`."""
        wanted = spark_types(snapshot, self._on)
        given = self._keys.select(*map(column_named, self._on)).schema.fields
        for field, key in zip(wanted.fields, given, strict=True):
            kinds = field.dataType.simpleString(), key.dataType.simpleString()
            if kinds[0] != kinds[1] and not all(kind in _WHOLE or kind.startswith("decimal") for kind in kinds):
                raise UsageError(f"keys: column {field.name} is {kinds[0]} in the table, and {kinds[1]} in the keys")
        return self._on

    def choose(self, rows: DataFrame) -> DataFrame:
        """Join in the types of the table: Spark would round decimals to a type that both fit in."""
        keys = self._keys.select(*(column_named(name).alias(f"{_KEY}{i}") for i, name in enumerate(self._on)))
        same = []
        for i, name in enumerate(self._on):
            key, given, kind = f"{_KEY}{i}", keys.schema[i].dataType, self._schema[i].dataType
            if given != kind:
                cast = f"try_cast({key} AS {kind.simpleString()})"
                keys = keys.where(f"try_cast({cast} AS {given.simpleString()}) = {key}").withColumn(key, sf.expr(cast))
            same.append(column_named(name) == sf.col(key))
        return rows.join(keys, reduce(and_, same), "left_semi")


_WHOLE = ("tinyint", "smallint", "int", "bigint")


def spark_types(snapshot: Snapshot, names: Sequence[str]) -> StructType:
    """Return columns of a table, or of Parquet files without one, as Spark has them.

    Raises:
        UsageError: no such column, or one of a type that Spark does not have.
    """
    if not isinstance(snapshot, PlainSnapshot):
        return spark_schema(snapshot.schema(names))
    schema = snapshot.df.schema
    return StructType([schema[name] for name in chosen(schema.names, names, snapshot.table.location)])


def known_to_spark(schema: pa.Schema) -> StructType:
    """Return the columns of a table whose type Spark has."""
    fields = []
    for field in schema:
        with suppress(UsageError):
            fields += spark_schema(pa.schema([field])).fields
    return StructType(fields)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the columns of a table as Spark has them.

    Raises:
        UsageError: a type that Spark does not have.
    """
    fields = []
    for field in schema:
        kind = pa.string() if _is_uuid(field) else field.type
        if any(map(_is_uuid, _parts_below(kind))):
            raise UsageError(f"column {field.name}: UUIDs in a nested type, which Spark has as text")
        try:
            fields += from_arrow_schema(pa.schema([(field.name, kind)]), prefer_timestamp_ntz=True).fields
        except Exception as err:  # noqa: BLE001  (each release raises another one)
            raise UsageError(f"column {field.name} of type {field.type}: {err!s:.200}") from None
    return StructType([StructField(field.name, field.dataType) for field in fields])


def _with_place(schema: StructType) -> StructType:
    return StructType([StructField(AT, LongType()), *schema.fields])


def _is_uuid(field: pa.Field) -> bool:
    """Whether the values of a column are UUIDs."""
    return bool((field.metadata or {}).get(EXTENSION) == b"arrow.uuid")


def _parts_below(kind: pa.DataType) -> Iterator[pa.Field]:
    """Yield the fields in a nested type, and theirs."""
    for part in parts_of(kind):
        yield part
        yield from _parts_below(part.type)


def _for_spark(field: pa.Field, values: pa.Array) -> pa.Array:
    """Return the values of a column; UUIDs as text, as which Spark has those of Iceberg."""
    if not _is_uuid(field):
        return values
    count = len(values)
    filled = values.fill_null(bytes(_UUID_BYTES))
    start = filled.offset * _UUID_BYTES
    digits = memoryview(filled.buffers()[1])[start : start + count * _UUID_BYTES].hex()
    plain = pa.Array.from_buffers(pa.binary(2 * _UUID_BYTES), count, [None, pa.py_buffer(digits.encode())])
    text = pc.replace_substring_regex(plain.cast(pa.binary()).cast(pa.string()), _UUID_PARTS, r"\1-\2-\3-\4-\5")
    return pc.if_else(values.is_valid(), text, None)


@dataclass(frozen=True)
class _Rows:
    """Reads the columns of a condition in a worker, with the number of the data file for its hash in each place."""

    tasks: Tasks[list[Piece]]
    schema: StructType

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kinds = arrow_schema(self.schema)
        for piece in pieces_of(self.tasks, batches):
            for part in piece.read(_BATCH_ROWS, None, RowsSeen()):
                places = packed_places(piece.file, part.start, part.batch.num_rows)
                given = zip(part.batch.schema, part.batch.columns, kinds.types, strict=True)
                columns = [_for_spark(field, column).cast(kind) for field, column, kind in given]
                rows = pa.record_batch([places, *columns], [AT, *kinds.names])
                yield rows if part.keep is None else rows.filter(part.keep)

"""Finders of rows to delete whose work Spark does: see `dvcodec.tables.deleting.finder`.

`WorkerFinder` evaluates a condition where the data files are read, in the Python workers: no row reaches the JVM. If
there is less to read than a task reads, no job is started.
`RowFinder` reads the columns that a condition names in the workers, and Spark evaluates it, or joins them with keys:
any condition, in any format, without the format's connector.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    PythonException,
)
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.spark.accumulate import RowAccumulator
from dvcodec.spark.schemas import VECTORS
from dvcodec.spark.search.pieces import FOUND, TASK_BYTES, Collected, Search, Tasks, bytes_of, decode, pack
from dvcodec.spark.worker import settled
from dvcodec.tables.deleting.finder import Finder, Found
from dvcodec.tables.deleting.matching import ConditionFinder
from dvcodec.tables.model import DataFile
from dvcodec.tables.physical import RowsSeen
from dvcodec.tables.table import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["NEAR_BYTES", "KeyFinder", "RowFinder", "WhereFinder", "WorkerFinder", "column_named"]

NEAR_BYTES = TASK_BYTES
"""At most this many bytes of columns are read without a job, whose start takes more than half a second."""
_FILE, _POS, _KEY = "__dvcodec_file", "__dvcodec_pos", "__dvcodec_key"
_UNSTEADY = re.compile(
    r"\b(input_file_\w+|monotonically_increasing_id|spark_partition_id|randn?|random|randstr|uniform|uuid|shuffle)\s*\("
)
"""Functions that depend on chance, or on how rows are read: they are not values of the row."""
_BATCH_ROWS = 1 << 16


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

    def gather(self, snapshot: Snapshot, data_files: Sequence[DataFile]) -> None:
        """Find the rows of several data files at once; see `Finder.gather`."""
        condition = self._where.condition
        files = [file for file in data_files if self._where.decided(snapshot, file) is None]
        share = len(condition.columns) / max(len(snapshot.schema()), 1)
        self._near = sum(map(bytes_of, files)) * share <= self._near_bytes
        if self._near:
            return
        self._found = Collected(files)
        for tasks in pack(snapshot, files, condition.columns):
            self._found.add(tasks.run(self._spark, Search(tasks, condition), FOUND).toArrow())
        self._found.check()

    def find(self, snapshot: Snapshot, data_file: DataFile) -> Found:
        """Return the rows of a data file; see `Finder.find`."""
        if self._near:
            return self._where.find(snapshot, data_file)
        decided = self._where.decided(snapshot, data_file)
        return self._found.found(data_file.path) if decided is None else decided


class RowFinder(Finder):
    """Finds rows that Spark chooses from those that the workers read."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._columns: tuple[str, ...] = ()
        self._schema = StructType()
        self._frames: dict[str, list[bytes]] = {}

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
        self._schema = spark_schema(snapshot.schema(self._columns))

    def may_match(self, snapshot: Snapshot, data_file: DataFile) -> bool:  # noqa: ARG002
        """Whether a data file may have such rows; see `Finder.may_match`."""
        return True

    def gather(self, snapshot: Snapshot, data_files: Sequence[DataFile]) -> None:
        """Find the rows of several data files at once; see `Finder.gather`."""
        self._frames = {}
        numbers = [StructField(_FILE, IntegerType()), StructField(_POS, LongType())]
        for tasks in pack(snapshot, data_files, self._columns):
            rows = tasks.run(self._spark, _Rows(tasks, self._schema), StructType(numbers + self._schema.fields))
            chosen = self.choose(rows).select(_FILE, _POS)
            try:
                found = chosen.mapInArrow(settled(_encode), VECTORS).toArrow()
            except (ArithmeticException, DateTimeException, NumberFormatException) as err:
                raise UsageError(str(err).strip().partition("\n")[0][:300]) from None
            except PythonException as err:
                if "FileNotFoundError" not in str(err):
                    raise
                raise FileNotFoundError(f"{snapshot.table.location}: a data file is gone") from err
            for number, frame in zip(found["data_file"].to_pylist(), found["dv"].to_pylist(), strict=True):
                self._frames.setdefault(data_files[int(number)].path, []).append(frame)

    def find(self, snapshot: Snapshot, data_file: DataFile) -> Found:  # noqa: ARG002
        """Return the rows of a data file; see `Finder.find`."""
        path = data_file.path
        return Found(RowSet().union(*(decode(frame, path) for frame in self._frames.get(path, ()))))


class WhereFinder(RowFinder):
    """Finds rows by a condition that Spark evaluates.

    Args:
        spark: the session.
        where: Spark SQL, or a column.
    """

    def __init__(self, spark: SparkSession, where: Column | str) -> None:
        super().__init__(spark)
        self._where, self._text = sf.expr(where) if isinstance(where, str) else where, str(where).lower()

    def columns(self, snapshot: Snapshot) -> Sequence[str]:
        """Return the columns to read; see `RowFinder.columns`."""
        if (unsteady := _UNSTEADY.search(self._text) or re.search(r"__dvcodec_\w+", self._text)) is not None:
            raise UsageError(f"where: {unsteady[0].rstrip(' (')} is not a value of the row")
        schema = known_to_spark(snapshot.schema())
        problem = self._problem(schema, schema.names)
        if problem is not None:
            raise UsageError(f"where: {problem} (columns: {', '.join(schema.names):.300})")
        # Spark logs an ERROR for each column that it misses, so those that the text names come first.
        named = [name for name in schema.names if name.lower() in self._text]
        return named if self._problem(schema, named) is None else self._needed(schema, schema.names, ())

    def choose(self, rows: DataFrame) -> DataFrame:
        """Return the rows to delete; see `RowFinder.choose`."""
        return rows.where(self._where)

    def _problem(self, schema: StructType, names: Sequence[str]) -> str | None:
        """Return why Spark cannot evaluate the condition on some columns; None if it can."""
        # Not projected from a range, whose column ``id`` Spark would find below the projection.
        fields = [StructField(_POS, LongType()), *(schema[name] for name in names)]
        empty = self._spark.createDataFrame([], StructType(fields))
        try:
            empty.where(self._where).schema  # noqa: B018  (over Connect nothing is resolved before)
        except AnalysisException as err:
            return str(err).strip().partition("\n")[0][:300]
        return None

    def _needed(self, schema: StructType, names: Sequence[str], others: Sequence[str]) -> Sequence[str]:
        """Return those of `names` that the condition reads beside `others`, found by halves."""
        if self._problem(schema, others) is None:
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
    """

    def __init__(self, spark: SparkSession, keys: DataFrame, on: Sequence[str]) -> None:
        super().__init__(spark)
        self._keys, self._on = keys, tuple(on)

    def columns(self, snapshot: Snapshot) -> Sequence[str]:
        """Return the columns to read; see `RowFinder.columns`."""
        wanted = spark_schema(snapshot.schema(self._on))
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
            key, given, kind = sf.col(f"{_KEY}{i}"), keys.schema[i].dataType, self._schema[i].dataType
            if given != kind:
                cast = key.try_cast(kind)
                keys = keys.where(cast.try_cast(given) == key).withColumn(f"{_KEY}{i}", cast)
            same.append(column_named(name) == sf.col(f"{_KEY}{i}"))
        return rows.join(keys, reduce(and_, same), "left_semi")


_WHOLE = ("tinyint", "smallint", "int", "bigint")


def column_named(name: str) -> Column:
    """Return the column of exactly this name, which may have dots."""
    return sf.col("`{}`".format(name.replace("`", "``")))


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
        try:
            fields += from_arrow_schema(pa.schema([field.remove_metadata()]), prefer_timestamp_ntz=True).fields
        except Exception as err:  # noqa: BLE001  (each release raises another one)
            raise UsageError(f"column {field.name} of type {field.type}: {err!s:.200}") from None
    return StructType([StructField(field.name, field.dataType) for field in fields])


@dataclass(frozen=True)
class _Rows:
    """Reads the columns of a condition in a worker."""

    tasks: Tasks
    schema: StructType

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kinds = to_arrow_schema(self.schema)
        for piece in self.tasks.pieces(batches):
            for part in piece.read(_BATCH_ROWS, None, RowsSeen()):
                positions = np.arange(part.start, part.start + part.batch.num_rows)
                files = np.full(len(positions), piece.file, np.int32)
                columns: list[Any] = [pa.array(files), pa.array(positions)]
                columns += [column.cast(kind) for column, kind in zip(part.batch.columns, kinds.types, strict=True)]
                rows = pa.record_batch(columns, [_FILE, _POS, *kinds.names])
                yield rows if part.keep is None else rows.filter(part.keep)


def _encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Encode rows of (file, position) as vectors; a file may be repeated."""
    accumulator = RowAccumulator()
    for batch in batches:
        yield from accumulator.add(batch.column(0), batch.column(1))
    yield from accumulator.flush()

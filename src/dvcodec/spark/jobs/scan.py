"""Parquet files as Spark itself reads them, with the place of each row: those of a table, or of a plain folder.

Spark's own reader is the fastest, and skips row groups by their statistics. It finds columns by name, knows no field
ids, defaults or values in metadata, and must not be asked for another type than the files have. So a table is scanned
only if `Snapshot.stored_names` shows, for each data file, under which names it has the values as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple, NoReturn

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DoubleType, FloatType, StructField, StructType

from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.io.storage import run_bounded
from dvcodec.io.target import file_key, local_path
from dvcodec.spark.accumulate import RowAccumulator
from dvcodec.spark.columns import VECTORS, column_named
from dvcodec.spark.compat import metadata_of, reason, to_arrow
from dvcodec.spark.hand_over import NUMBER_ROWS, ScannedFiles, hands_over, packed, task_bytes, without_byte_limit
from dvcodec.spark.paths import data_file_column, data_file_of
from dvcodec.spark.tasks import OverBatches, settled
from dvcodec.spark.vectors import decode
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import NO_SNAPSHOT, DataFile, DeletionVector, SnapshotInfo, StoredNames
from dvcodec.tables.rows.data_file import count_rows
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


@dataclass(frozen=True, kw_only=True)
class PlainSnapshot(Snapshot):
    """Parquet files as they are now; see `Snapshot`.

    Attributes:
        df: the rows of all files, as Spark reads them.
        by_position: whether the rows to delete are named by position.
    """

    df: DataFrame = field(repr=False, compare=False)
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

"""The Parquet files of a table as Spark itself reads them, with the place of each row.

Spark's own reader is the fastest, and skips row groups by their statistics. It finds columns by name, knows no field
ids, defaults or values in metadata, and must not be asked for another type than the files have. So a table is scanned
only if `Snapshot.stored_names` shows, for each data file, under which names it has the values as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DoubleType, FloatType, StructField, StructType

from dvcodec.core.rowset import RowSet
from dvcodec.io.parallel import run_bounded
from dvcodec.io.target import file_key, local_path
from dvcodec.spark.accumulate import RowAccumulator
from dvcodec.spark.columns import VECTORS
from dvcodec.spark.compat import metadata_of, to_arrow
from dvcodec.spark.hand_over import NUMBER_ROWS, hands_over, task_bytes, without_byte_limit
from dvcodec.spark.keyed_rows import ScannedFiles, packed
from dvcodec.spark.paths import data_file_column
from dvcodec.spark.search.pieces import decode
from dvcodec.spark.worker import OverBatches, settled
from dvcodec.tables.model import DataFile, StoredNames
from dvcodec.tables.table import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

AT = "__dvcodec_at"
"""The column of places: a file and a position in it, in one long, see `packed`; or both."""
_PATTERN = frozenset("*?[]{}\\")
"""Signs by which Spark takes a path for a pattern."""


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


def column_named(name: str) -> Column:
    """Return the column of exactly this name, which may have dots."""
    return sf.col("`{}`".format(name.replace("`", "``")))


def reason(err: Exception) -> str:
    """Return what Spark says, in one line."""
    text = str(err).strip()
    said = re.search(r"\[[A-Z]\w+(?:\.\w+)*\] [^\n]+", text)
    return (said[0] if said else text.partition("\n")[0])[:300]

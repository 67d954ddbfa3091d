"""Delete rows of a table and commit: Spark finds the rows, the driver writes their vectors and commits.

Commits, conflicts and retries are those of `dvcodec.tables.delete`. Tasks write nothing: they return vectors to the
driver, and Spark takes one result for each task, whatever failed, was killed or ran twice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PythonException

from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.iceberg.position_deletes import FILE_PATH, POS
from dvcodec.io import storage_of
from dvcodec.io.file_key import file_key
from dvcodec.spark.jobs.build import build_vectors
from dvcodec.spark.jobs.build import positions as positions_of
from dvcodec.spark.layouts import encode
from dvcodec.spark.schemas import VECTORS, arrow_schema
from dvcodec.spark.search.exact import Dialect, exact_filter
from dvcodec.spark.search.finders import NEAR_BYTES, KeyFinder, WhereFinder, WorkerFinder, column_named
from dvcodec.spark.search.pieces import decode
from dvcodec.spark.search.plain import PlainSnapshot, open_plain
from dvcodec.spark.sources import register
from dvcodec.spark.sources.options import storage_keys
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting import Deletion, Isolation
from dvcodec.tables.deleting.committer import StreamBatch
from dvcodec.tables.deleting.finder import Finder, Found
from dvcodec.tables.deleting.keys import keys_finder
from dvcodec.tables.deleting.plan import plan_deletes
from dvcodec.tables.deleting.positions import positions_finder
from dvcodec.tables.deleting.predicate import where_finder
from dvcodec.tables.deleting.run import run
from dvcodec.tables.folder import Folder, folder_location
from dvcodec.tables.model import METADATA_SUFFIXES, DataFile
from dvcodec.tables.opening import kinds_of, open_table
from dvcodec.tables.put import refreshed
from dvcodec.tables.table import Snapshot, Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from dvcodec.tables.deleting import KeySource
    from dvcodec.tables.deleting.positions import PositionsInput

    Where: TypeAlias = pc.Expression | Column | str
    TableInput: TypeAlias = Table | str | os.PathLike[str]

__all__ = ["EVALUATED_BY", "DeleteBatches", "delete", "delete_batches"]

EvaluatedBy: TypeAlias = Literal["auto", "driver", "workers", "spark"]
EVALUATED_BY: tuple[str, ...] = get_args(EvaluatedBy)


def delete(
    spark: SparkSession,
    table: TableInput,
    where: Where | None = None,
    *,
    keys: DataFrame | KeySource | None = None,
    on: str | Sequence[str] = (),
    positions: DataFrame | PositionsInput | None = None,
    evaluated_by: EvaluatedBy = "auto",
    vectors: str | os.PathLike[str] | None = None,
    isolation: Isolation = "snapshot",
    dry_run: bool = False,
    retries: int | None = None,
    batch: StreamBatch | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> Deletion:
    """Delete the rows of a table that match, in one commit.

    As in Spark's own ``DELETE``, rows for which the condition is NULL stay. Data files are not rewritten; see
    `dvcodec.tables.delete` for what is committed, and for what happens if another writer commits first.

    Args:
        spark: the session.
        table: an Iceberg, Delta, Paimon or Lance table: its folder (path or URL), or what `dvcodec.tables.open_table`
            returns, for tables of a catalog. Or a folder of Parquet files: see `vectors`.
        where: a condition in Spark SQL, a column (``F.col("id") > 5``), or a pyarrow expression.
        keys: keys of the rows to delete; a null matches nothing. Anything but a Spark DataFrame (Arrow, pandas, polars,
            the path of Parquet files) is read by this process, as `dvcodec.tables.delete` does.
        on: columns of the key.
        positions: rows ``file_path string, pos long``, as `jobs.positions` returns; or anything that
            `dvcodec.tables.delete` takes, read by this process. Pass exactly one of `where`, `keys` and `positions`.
        evaluated_by: ``workers``: the Python workers that read the data files evaluate the condition, and skip data
            files by partition values and statistics. ``driver``: this process does both, without a Spark job.
            ``spark``: the workers pass the columns in the condition to Spark, which evaluates it. ``auto``: ``spark``,
            unless pyarrow is known to select the same rows (never for a `Column`, nor for most functions); then
            ``driver`` if the columns of the condition have at most about 128 MB in the files that are not skipped,
            else ``workers``. See the guide.
        vectors: for Parquet files without a table: the folder that the vectors are appended to, as Puffin files that
            ``spark.read.format("dvcodec")`` reads. Nothing is committed.
        isolation: see `dvcodec.tables.delete`.
        dry_run: search only; nothing is written.
        retries: see `dvcodec.tables.delete`.
        batch: the batch of a stream. The commit records it; if the table already has it, nothing is deleted. See
            `delete_batches`.
        storage_options: for a URL: how to reach the store, as deltalake and polars spell it.

    Raises:
        UsageError: an unknown column, an invalid condition, a table that cannot be written to, or arguments that
            exclude each other.
        CommitConflict, CommitUnknown, Unsupported, DecodeError, OSError: see `dvcodec.tables.delete`.
        PythonException: a task failed; the message has the worker's error.
    """
    on = (on,) if isinstance(on, str) else tuple(on)
    _check(where, keys, on, positions, evaluated_by)
    opened = _open(table, storage_options)
    if isinstance(opened, PlainSnapshot):
        if vectors is None:
            raise UsageError(f"{opened.table.location}: not a table: vectors= has to name a folder for the vectors")
        finder = _finder(spark, lambda: opened, where, keys, on, positions, evaluated_by)
        return _write(spark, opened, finder, os.fspath(vectors), dry_run, storage_options)
    if vectors is not None:
        raise UsageError(f"{opened.location}: a table: vectors= is for Parquet files without one")
    one = committer_of(opened)
    finder = _finder(spark, one.current, where, keys, on, positions, evaluated_by)
    with refreshed(opened, dry_run):
        return run(one, finder, isolation=isolation, dry_run=dry_run, retries=retries, batch=batch)


def delete_batches(
    table: str | os.PathLike[str] | Callable[[], Table],
    query: str,
    *,
    on: str | Sequence[str] = (),
    file_col: str = FILE_PATH,
    pos_col: str = POS,
    isolation: Isolation = "snapshot",
    storage_options: Mapping[str, object] | None = None,
) -> DeleteBatches:
    """Return a function for ``foreachBatch`` that deletes the rows named by each batch of a stream, exactly once.

    The commit of a batch records `query` and the number of the batch: Delta in the action ``txn``, Iceberg in the
    snapshot's summary, Paimon as ``commitUser`` and ``commitIdentifier``, Lance in the transaction's properties. A
    batch that Spark repeats after a crash is found there and deletes nothing. A batch that matches no live row commits
    nothing.

    Args:
        table: its folder (path or URL), or a function that opens it, for tables of a catalog.
        query: name of the stream. It belongs to the checkpoint: with a new checkpoint Spark counts batches from 0
            again, so the stream needs a new name.
        on: key columns in the rows of the stream; without any, the rows are data files and positions.
        file_col: column of data files.
        pos_col: column of 0-based physical positions in them.
        isolation: see `delete`.
        storage_options: see `delete`.

    Raises:
        UsageError: an empty name.
    """
    if not query:
        raise UsageError("query: expected the name of the stream, found an empty one")
    target = table if callable(table) else os.fspath(table)
    return DeleteBatches(
        target, query, (on,) if isinstance(on, str) else tuple(on), file_col, pos_col, isolation, storage_options
    )


@dataclass(frozen=True)
class DeleteBatches:
    """Deletes the rows that the batches of a stream name; see `delete_batches`.

    Attributes:
        table: its folder, or a function that opens it.
        query: name of the stream.
        on: columns of the key.
        file_col: column of data files.
        pos_col: column of positions.
        isolation: see `delete`.
        storage_options: see `delete`.
    """

    table: str | Callable[[], Table]
    query: str
    on: tuple[str, ...] = ()
    file_col: str = FILE_PATH
    pos_col: str = POS
    isolation: Isolation = "snapshot"
    storage_options: Any = None

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Delete the rows that a batch names, unless the table already has the batch.

        Raises:
            DvcodecError, OSError: see `delete`. The stream stops, and repeats the batch when it is restarted.
        """
        positions = None
        if not self.on:
            from pyspark.sql import functions as sf  # noqa: PLC0415  (of the process that runs the stream)

            positions = rows.select(sf.col(self.file_col).alias(FILE_PATH), sf.col(self.pos_col).alias(POS))
        delete(
            rows.sparkSession,
            self.table() if callable(self.table) else self.table,
            keys=rows if self.on else None,
            on=self.on,
            positions=positions,
            isolation=self.isolation,
            batch=StreamBatch(self.query, number),
            storage_options=self.storage_options,
        )


def _check(where: Any, keys: Any, on: Sequence[str], positions: Any, evaluated_by: str) -> None:
    given = [name for name, one in (("where", where), ("keys", keys), ("positions", positions)) if one is not None]
    if len(given) != 1:
        raise UsageError(f"expected one of where, keys and positions, found {' and '.join(given) or 'none'}")
    if len(set(on)) < len(on):
        raise UsageError(f"on: expected distinct columns, found {', '.join(on)}")
    if (keys is None) != (not on):
        raise UsageError("keys and on go together: on names the columns of the key")
    if evaluated_by not in EVALUATED_BY:
        raise UsageError(f"no evaluated_by {evaluated_by!r}, only {', '.join(EVALUATED_BY)}")
    if evaluated_by in ("driver", "workers") and not isinstance(where, (str, pc.Expression)):
        raise UsageError(f"evaluated_by={evaluated_by!r}: expected a condition in SQL, or a pyarrow expression")
    if evaluated_by == "spark" and isinstance(where, pc.Expression):
        raise UsageError("evaluated_by='spark': Spark does not know pyarrow expressions")


def _open(table: TableInput, storage_options: Mapping[str, object] | None) -> Table | PlainSnapshot:
    if isinstance(table, Table):
        return table
    storage = storage_of(storage_options)
    folder = Folder(folder_location(table), storage=storage)
    if folder.location.endswith(METADATA_SUFFIXES) or kinds_of(frozenset(folder.names())):
        return open_table(table, storage_options=storage)
    return open_plain(folder)


def _finder(
    spark: SparkSession,
    current: Callable[[], Snapshot],
    where: Where | None,
    keys: DataFrame | KeySource | None,
    on: Sequence[str],
    positions: DataFrame | PositionsInput | None,
    evaluated_by: EvaluatedBy,
) -> Finder:
    if positions is not None:
        if not _of_spark(positions):
            return positions_finder(positions)
        return positions_finder(dict(_rows_of(_columns(positions, (FILE_PATH, POS), "positions"))))
    if keys is not None:
        return KeyFinder(spark, _columns(keys, on, "keys"), on) if _of_spark(keys) else keys_finder(keys, on)
    if isinstance(where, pc.Expression):
        return _exact(spark, where, evaluated_by)
    snapshot = current()
    if isinstance(where, str) and evaluated_by != "spark":
        found = exact_filter(where, snapshot.schema(), Dialect.of(spark))
        if found is not None:
            return _exact(spark, found, evaluated_by)
        if evaluated_by != "auto":
            WhereFinder(spark, where).columns(snapshot)  # names that the table does not have
            raise UsageError(f"where {where:.200}: only Spark is known to evaluate it: evaluated_by='spark'")
    assert where is not None  # noqa: S101
    return _PlainFinder(spark, where) if isinstance(snapshot, PlainSnapshot) else WhereFinder(spark, where)


def _of_spark(rows: Any) -> TypeGuard[DataFrame]:
    return hasattr(rows, "mapInArrow")


def _columns(rows: DataFrame, names: Sequence[str], what: str) -> DataFrame:
    """Return some columns of a DataFrame.

    Raises:
        UsageError: it does not have one.
    """
    missing = [name for name in names if name.lower() not in {column.lower() for column in rows.columns}]
    if missing:
        raise UsageError(f"{what}: no column {missing[0]} (columns: {', '.join(rows.columns):.300})")
    return rows.select(*map(column_named, names))


def _exact(spark: SparkSession, where: pc.Expression, evaluated_by: EvaluatedBy) -> Finder:
    """Return a finder of the rows of a condition that pyarrow evaluates exactly like Spark."""
    finder = where_finder(where)
    if evaluated_by == "driver":
        return finder
    return WorkerFinder(spark, finder, near_bytes=NEAR_BYTES if evaluated_by == "auto" else 0)


class _PlainFinder(Finder):
    """Finds rows of Parquet files in Spark alone, which knows their partition columns."""

    def __init__(self, spark: SparkSession, where: Column | str) -> None:
        self._spark, self._where = spark, where
        self._rows: dict[str, RowSet] = {}

    def prepare(self, snapshot: Snapshot) -> None:
        pass

    def may_match(self, snapshot: Snapshot, data_file: DataFile) -> bool:  # noqa: ARG002
        return True

    def gather(self, snapshot: Snapshot, data_files: Sequence[DataFile]) -> None:  # noqa: ARG002
        chosen = positions_of(self._spark.read.parquet(snapshot.table.location).where(self._where))
        self._rows = {file_key(name): rows for name, rows in _rows_of(chosen)}

    def find(self, snapshot: Snapshot, data_file: DataFile) -> Found:  # noqa: ARG002
        return Found(self._rows.get(file_key(data_file.path), RowSet()))


def _rows_of(positions: DataFrame) -> list[tuple[str, RowSet]]:
    """Build vectors in Spark and collect them.

    Raises:
        UsageError: a null or a negative position.
    """
    try:
        found = build_vectors(positions).toArrow()
    except PythonException as err:
        said = re.search(r"UsageError: ([^\n]*)", str(err))
        if said is None:
            raise
        raise UsageError(f"positions: {said[1]}") from None
    names, frames = found.column("data_file").to_pylist(), found.column("dv").to_pylist()
    return [(name, decode(frame, name)) for name, frame in zip(names, frames, strict=True)]


def _write(
    spark: SparkSession,
    snapshot: PlainSnapshot,
    finder: Finder,
    folder: str,
    dry_run: bool,
    storage_options: Mapping[str, object] | None,
) -> Deletion:
    """Write the vectors of Parquet files without a table."""
    finder.prepare(snapshot)
    plan = plan_deletes(snapshot, finder)
    if plan.deletes and not dry_run:
        register(spark)
        rows = {
            "data_file": [one.data_file.path for one in plan.deletes],
            "cardinality": [one.rows.cardinality for one in plan.deletes],
            "dv": [encode(one.rows) for one in plan.deletes],
        }
        writer = spark.createDataFrame(pa.table(rows, arrow_schema(VECTORS))).write.format("dvcodec").mode("append")
        writer.options(**storage_keys(storage_options)).save(folder)
    return plan.deletion(None, 0)

"""Delete rows of a table and commit: Spark finds the rows, the driver writes their vectors and commits.

Commits, conflicts and retries are those of `dvcodec.tables.delete`. Tasks write nothing: they return vectors to the
driver, and Spark takes one result for each task, whatever failed, was killed or ran twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession

from dvcodec.core.errors import UsageError
from dvcodec.core.limits import Limits
from dvcodec.core.rowset import RowSet
from dvcodec.iceberg import FILE_PATH, POS
from dvcodec.io import is_url, storage_of
from dvcodec.spark.columns import VECTORS, arrow_schema, column_named
from dvcodec.spark.compat import is_frame
from dvcodec.spark.jobs.build import build_vectors
from dvcodec.spark.jobs.finders import NEAR_BYTES, KeyFinder, PlainSnapshot, WhereFinder, WorkerFinder, open_plain
from dvcodec.spark.named import check_session, refresh, resolve
from dvcodec.spark.sources.options import WriteOptions, storage_keys
from dvcodec.spark.sources.writer import writer_of
from dvcodec.spark.tasks import collected
from dvcodec.spark.vectors import decode, encode
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting import Deletion, Isolation, KeySource
from dvcodec.tables.deleting.keys import keys_finder
from dvcodec.tables.deleting.positions import PositionsInput, positions_finder
from dvcodec.tables.deleting.predicate import where_finder
from dvcodec.tables.deleting.run import Finder, StreamBatch, plan_deletes, run
from dvcodec.tables.folder import Folder, folder_location
from dvcodec.tables.model import METADATA_SUFFIXES, FileDelete
from dvcodec.tables.opening import kinds_of, open_table
from dvcodec.tables.table import Table
from dvcodec.tables.writing import refreshed

Where: TypeAlias = "pc.Expression | Column | str"
TableInput: TypeAlias = "Table | str | os.PathLike[str] | Any"
ReadBy: TypeAlias = Literal["auto", "driver", "workers", "spark"]
READ_BY: tuple[str, ...] = get_args(ReadBy)
_WRITTEN_AT_ONCE = 100
"""Vectors that are encoded at once for a container."""


def delete(
    spark: SparkSession,
    table: TableInput,
    where: Where | None = None,
    *,
    keys: DataFrame | KeySource | None = None,
    on: str | Sequence[str] = (),
    positions: DataFrame | PositionsInput | None = None,
    read_by: ReadBy = "auto",
    vectors: str | os.PathLike[str] | None = None,
    isolation: Isolation = "snapshot",
    dry_run: bool = False,
    retries: int | None = None,
    batch: StreamBatch | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> Deletion:
    """Delete the rows of a table that match, in one commit.

    As in Spark's own ``DELETE``, rows for which the condition is NULL stay. Data files are not rewritten; see
    `dvcodec.tables.delete` for what is committed, and for what happens if another writer commits first.

    Args:
        spark: the session.
        table: an Iceberg, Delta, Paimon or Lance table: its name in the session (``"orders"``, ``"lake.db.orders"``,
            ``"delta.`path`"``), its folder (path or URL), a ``DeltaTable``, a ``Table`` of pyiceberg, or what
            `dvcodec.tables.open_table` returns. A table of an Iceberg catalog that is not a folder is committed to
            through pyiceberg's catalog of the same settings (extra ``catalogs``). Or a folder of Parquet files: see
            `vectors`.
        where: a condition in Spark SQL, a column (``F.col("id") > 5``), or a pyarrow expression.
        keys: keys of the rows to delete; a null matches nothing. Anything but a Spark DataFrame (Arrow, pandas, polars,
            the path of Parquet files) is read by this process, as `dvcodec.tables.delete` does.
        on: columns of the key.
        positions: rows ``file_path string, pos long``, as `jobs.positions` returns; or anything that
            `dvcodec.tables.delete` takes, read by this process. Pass exactly one of `where`, `keys` and `positions`.
        read_by: who reads the data files. Spark evaluates SQL, columns, and keys in a DataFrame. ``spark`` lets it read
            the files, too; ``workers`` lets Python workers pass it the columns that are needed; ``auto`` is ``spark``
            for local Parquet files in which Spark finds exactly the values that the table has, else ``workers``.
            pyarrow evaluates its own expressions where the files are read: in the Python ``workers``, or in this
            process, the ``driver``, without a Spark job; ``auto`` is ``driver`` if the columns of the condition have
            at most about 128 MB in the files that are not skipped, else ``workers``. See the guide.
        vectors: for Parquet files without a table: the folder that the vectors are appended to, as Puffin files that
            ``spark.read.format("dvcodec")`` reads. Nothing is committed.
        isolation: see `dvcodec.tables.delete`.
        dry_run: search only; nothing is written.
        retries: see `dvcodec.tables.delete`.
        batch: the batch of a stream. The commit records it; if the table already has it, nothing is deleted. See
            `delete_batches`.
        limits: for a folder: bounds on what its files may claim, see `dvcodec.tables.open_table`.
        storage_options: for a URL: how to reach the store, as deltalake and polars spell it.

    Raises:
        UsageError: an unknown column, an invalid condition, a table that cannot be written to, or arguments that
            exclude each other.
        CommitConflict, CommitUnknown, Unsupported, DecodeError, OSError: see `dvcodec.tables.delete`.
        PythonException: a task failed; the message has the worker's error.
    """
    check_session(spark, "delete")
    on = (on,) if isinstance(on, str) else tuple(on)
    _check(where, keys, on, positions, read_by)
    opened = _open(spark, table, storage_options, limits, by_position=positions is not None)
    if isinstance(opened, PlainSnapshot):
        if vectors is None:
            raise UsageError(f"{opened.table.location}: not a table: vectors= has to name a folder for the vectors")
        finder = _finder(spark, where, keys, on, positions, read_by)
        return _write(opened, finder, os.fspath(vectors), dry_run, storage_options)
    if vectors is not None:
        raise UsageError(f"{opened.location}: a table: vectors= is for Parquet files without one")
    finder = _finder(spark, where, keys, on, positions, read_by)
    with refreshed(opened, dry_run):
        done = run(committer_of(opened), finder, isolation=isolation, dry_run=dry_run, retries=retries, batch=batch)
    if done.committed:
        refresh(spark, table)
    return done


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
        table: its name in the session, its folder (path or URL), or a function that opens it.
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


def _check(where: Any, keys: Any, on: Sequence[str], positions: Any, read_by: str) -> None:
    given = [name for name, one in (("where", where), ("keys", keys), ("positions", positions)) if one is not None]
    if len(given) != 1:
        raise UsageError(f"expected one of where, keys and positions, found {' and '.join(given) or 'none'}")
    if len(set(on)) < len(on):
        raise UsageError(f"on: expected distinct columns, found {', '.join(on)}")
    if isinstance(keys, (list, tuple, set, frozenset)):
        made = "spark.createDataFrame([(1,), (2,)], 'id int')"
        raise UsageError(f"keys: a DataFrame, Arrow data or the path of Parquet, not a {type(keys).__name__}: {made}")
    if (keys is None) != (not on):
        raise UsageError("keys and on go together: on names the columns of the key")
    if read_by not in READ_BY:
        raise UsageError(f"no read_by {read_by!r}, only {', '.join(READ_BY)}")
    if isinstance(where, pc.Expression):
        allowed, whose = "auto, driver, workers", "a pyarrow expression, which Spark does not know"
    elif where is not None or is_frame(keys):
        allowed, whose = "auto, spark, workers", "what Spark evaluates"
    else:
        allowed, whose = "auto", "what this process reads"
    if read_by not in allowed.split(", "):
        raise UsageError(f"read_by={read_by!r}: only {allowed} for {whose}")


def _open(
    spark: SparkSession,
    table: TableInput,
    storage_options: Mapping[str, object] | None,
    limits: Limits | None,
    *,
    by_position: bool,
) -> Table | PlainSnapshot:
    if isinstance(table, Table):
        return table
    named = resolve(spark, table)
    if not isinstance(named, (str, os.PathLike)):
        return open_table(named, limits=limits, storage_options=storage_options)
    if os.fspath(named) and not is_url(os.fspath(named)):
        named = os.path.abspath(named)  # noqa: PTH100  (workers may have another working folder)
    storage = storage_of(storage_options, limits)
    folder = Folder(folder_location(named), storage=storage)
    if folder.location.endswith(METADATA_SUFFIXES) or kinds_of(frozenset(folder.names())):
        return open_table(named, storage_options=storage)
    return open_plain(spark, folder, by_position=by_position)


def _finder(
    spark: SparkSession,
    where: Where | None,
    keys: DataFrame | KeySource | None,
    on: Sequence[str],
    positions: Any,
    read_by: ReadBy,
) -> Finder:
    if isinstance(where, pc.Expression):
        finder = where_finder(where)
        near = NEAR_BYTES if read_by == "auto" else 0
        return finder if read_by == "driver" else WorkerFinder(spark, finder, near_bytes=near)
    if where is not None:
        return WhereFinder(spark, where, read_by)
    if keys is not None:
        return KeyFinder(spark, _columns(keys, on, "keys"), on, read_by) if is_frame(keys) else keys_finder(keys, on)
    if is_frame(positions):
        positions = dict(_rows_of(_columns(positions, (FILE_PATH, POS), "positions")))
    return positions_finder(positions)


def _columns(rows: DataFrame, names: Sequence[str], what: str) -> DataFrame:
    """Return some columns of a DataFrame.

    Raises:
        UsageError: it does not have one.
    """
    missing = [name for name in names if name.lower() not in {column.lower() for column in rows.columns}]
    if missing:
        raise UsageError(f"{what}: no column {missing[0]} (columns: {', '.join(rows.columns):.300})")
    return rows.select(*map(column_named, names))


def _rows_of(positions: DataFrame) -> list[tuple[str, RowSet]]:
    """Build vectors in Spark and collect them.

    Raises:
        UsageError: a null or a negative position.
    """
    try:
        found = collected(build_vectors(positions))
    except UsageError as err:
        raise UsageError(f"positions: {err}") from None
    names, frames = found.column("data_file").to_pylist(), found.column("dv").to_pylist()
    return [(name, decode(frame, name)) for name, frame in zip(names, frames, strict=True)]


def _write(
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
        options = WriteOptions.parse({"path": folder, **storage_keys(storage_options)})
        writer = writer_of(options, VECTORS, overwrite=False)
        with writer.committing() as written:
            written.append(writer.write(_batches(plan.deletes)))
    return plan.deletion()


def _batches(deletes: Sequence[FileDelete]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(deletes), _WRITTEN_AT_ONCE):
        some = deletes[start : start + _WRITTEN_AT_ONCE]
        columns = [
            [one.data_file.path for one in some],
            [one.rows.cardinality for one in some],
            [encode(one.rows) for one in some],
        ]
        yield pa.record_batch(columns, schema=arrow_schema(VECTORS))

"""A folder of Parquet files without a table's metadata: Spark lists and reads it, and infers its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from dvcodec.core.errors import UsageError
from dvcodec.spark.paths import data_file_of
from dvcodec.spark.search.scan import reason
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import NO_SNAPSHOT, DataFile, DeletionVector, SnapshotInfo
from dvcodec.tables.rows.data_file import count_rows
from dvcodec.tables.table import Snapshot, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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

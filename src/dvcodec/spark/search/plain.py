"""A folder of Parquet files without a table's metadata, as a snapshot whose rows can be searched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NoReturn

import pyarrow as pa

from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.io import Storage
from dvcodec.tables.bounds import RowGroupFilter
from dvcodec.tables.columns import Column, select
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import (
    NO_SNAPSHOT,
    WHOLE,
    DataFile,
    DeletedRows,
    DeletionVector,
    Part,
    PhysicalRows,
    RowReader,
    SnapshotInfo,
)
from dvcodec.tables.parquet import count_rows, open_parquet, physical_batches
from dvcodec.tables.parquet_folder import list_parquet
from dvcodec.tables.row_groups import skipped_groups
from dvcodec.tables.schema_evolution import Evolution, file_columns
from dvcodec.tables.table import Snapshot, Table

__all__ = ["PlainSnapshot", "open_plain"]

_MOMENT = pa.timestamp("us", "UTC")
"""How Spark reads times of 96 bits, which have no unit or zone of their own."""


def open_plain(folder: Folder) -> PlainSnapshot:
    """List the Parquet files of a folder, as Spark does; see `list_parquet`. Vectors may be in a folder below it.

    Raises:
        UsageError: there are none, or a folder in it is a link.
        OSError: it cannot be listed.
    """
    found = list_parquet(folder.location, folder.storage)
    files = [file for file in found if not file.location.endswith(".puffin")]
    if not files:
        raise UsageError(f"{folder.location}: no table, and no Parquet files")
    data_files = tuple(DataFile(file.location, file.location, None, file.size) for file in files)
    return PlainSnapshot(_PlainTable(folder), SnapshotInfo(NO_SNAPSHOT), data_files, ())


class _PlainTable(Table):
    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        return ()

    def snapshot(self, id: int | None = None) -> NoReturn:  # noqa: A002, ARG002
        raise UsageError(f"{self.location}: Parquet files without a table have no snapshots")

    def referenced(self) -> frozenset[str]:
        return frozenset()


@dataclass(frozen=True)
class PlainSnapshot(Snapshot):
    """Parquet files as they are now, in the columns of the first; see `Snapshot`."""

    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        """Refuse: there are no vectors."""
        raise UsageError(f"{vector.where}: no vector of {self.table.location}")

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of the first file; folders of partitions are none."""
        return select(self._schema, columns, self.table.location)

    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
        """Return what reads a file; see `Snapshot.rows`."""
        wanted = tuple(map(_by_name, file_columns(self.schema(columns), self.table.location)))
        return RowReader(partial(_read, data_file.location, self.table.folder.storage, wanted))

    def stored_rows(self, data_file: DataFile) -> int | None:
        """Return the row count in the footer of a file."""
        return count_rows(data_file.location, self.table.folder.storage)

    @cached_property
    def _schema(self) -> pa.Schema:
        with open_parquet(self.data_files[0].location, self.table.folder.storage) as file:
            schema = file.schema_arrow.remove_metadata()
            leaves = [file.schema.column(i) for i in range(len(file.schema))]
        wide = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
        return pa.schema([one.with_type(_MOMENT) if one.name in wide else one for one in schema])


def _by_name(column: Column) -> Column:
    """Return a column that is found by its name: a field id may be in some of the files only."""
    return replace(column, id=None, children=tuple(map(_by_name, column.children)))


class _PlainEvolution(Evolution):
    """Reads columns as they are in the first file: Spark infers its columns from one file, too."""

    misfit = Unsupported
    checks_nulls = False  # what the first file requires, others need not

    def promotes(self, found: pa.DataType, column: Column) -> bool:
        """Whether times without a zone are read as moments; no other type is changed."""
        return bool(pa.types.is_timestamp(found) and column.type == _MOMENT)


def _read(
    location: str,
    storage: Storage,
    columns: Sequence[Column],
    *,
    batch_rows: int,
    part: Part = WHOLE,
    wanted: RowGroupFilter | None = None,
) -> Iterator[PhysicalRows]:
    """Read columns of a file by name; columns that it lacks are null.

    Raises:
        Unsupported: a column has another type than in the first file.
    """
    with open_parquet(location, storage) as file:
        evolution = _PlainEvolution(location, columns, file_columns(file.schema_arrow, location))
        skip = skipped_groups(file, location, evolution, wanted, part)
        for start, batch in physical_batches(file, evolution.names, batch_rows=batch_rows, skip=skip):
            yield PhysicalRows(start, evolution.apply(batch))

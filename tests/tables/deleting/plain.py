"""A table of Parquet files with a schema of one's own, and bounds of its columns that a test may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dvcodec.io import Storage
from dvcodec.tables import DataFile, DeletedRows, DeletionVector, PhysicalRows, Snapshot, SnapshotInfo
from dvcodec.tables.delta.rows import DeltaEvolution
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import Part, RowReader
from dvcodec.tables.rows.bounds import ColumnBounds, RowGroupFilter
from dvcodec.tables.rows.columns import Column, chosen, file_columns, select
from dvcodec.tables.rows.data_file import open_parquet, physical_batches, skipped_groups
from samples.memory_table import FakeTable

Bounds = Callable[[pa.ChunkedArray], ColumnBounds]


def exact_bounds(values: pa.ChunkedArray) -> ColumnBounds:
    """The bounds that a careful writer records; of floats with NaN none."""
    kind = values.type
    nulls, count = values.null_count > 0, len(values) - values.null_count
    if pa.types.is_nested(kind) or pa.types.is_null(kind) or pa.types.is_dictionary(kind) or kind == pa.float16():
        return ColumnBounds()
    if pa.types.is_floating(kind) and pc.any(pc.is_nan(values)).as_py():
        return ColumnBounds(nulls=nulls)
    if not count:
        return ColumnBounds(nulls=nulls, values=False)
    order = pc.sort_indices(values)
    return ColumnBounds(values[order[0].as_py()], values[order[count - 1].as_py()], nulls)


@dataclass(frozen=True)
class PlainSnapshot(Snapshot):
    """Reads its files by name."""

    table: PlainTable

    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        raise NotImplementedError

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return select(self.table.arrow, columns, "plain")

    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
        return RowReader(partial(self._rows, data_file, columns))

    def _rows(
        self,
        data_file: DataFile,
        columns: Sequence[str] | None,
        *,
        batch_rows: int,
        part: Part,
        wanted: RowGroupFilter | None,
    ) -> Iterator[PhysicalRows]:
        names = chosen(self.table.arrow.names, columns, "plain")
        self.table.opened.append(data_file.path)
        self.table.read.update(names)
        with open_parquet(data_file.location, Storage()) as file:
            shown = [Column(field.name, type=field.type) for field in self.schema(names)]
            evolution = DeltaEvolution(data_file.path, shown, file_columns(file.schema_arrow, data_file.path))
            skip = skipped_groups(file, evolution, wanted, part)
            most = min(batch_rows, self.table.batch_rows)
            for start, batch in physical_batches(file, names, batch_rows=most, skip=skip):
                yield PhysicalRows(start, batch.select(names))

    def bounds(self, data_file: DataFile, columns: Sequence[str]) -> Mapping[str, ColumnBounds]:
        whole = self.table.contents[data_file.path]
        return {name: self.table.bounds(whole.column(name)) for name in columns}


class PlainTable(FakeTable):
    """Counts what is opened and read."""

    def __init__(
        self, folder: Path, *files: pa.Table, bounds: Bounds = exact_bounds, row_group_size: int | None = None
    ) -> None:
        self.folder = Folder(str(folder))
        self.arrow: Any = files[0].schema
        self.bounds: Bounds = bounds
        self.batch_rows = 1 << 20
        self.opened: list[str] = []
        self.read: set[str] = set()  # type: ignore[assignment]
        self.contents: dict[str, pa.Table] = {}
        data = []
        for number, rows in enumerate(files):
            path = str(folder / f"{number}.parquet")
            pq.write_table(rows, path, row_group_size=row_group_size)
            self.contents[path] = rows
            data.append(DataFile(path, path, rows.num_rows))
        super().__init__(str(folder), [PlainSnapshot(self, SnapshotInfo(1), tuple(data), ())])  # type: ignore[list-item]

    @property
    def now(self) -> PlainSnapshot:
        found = self.snapshot()
        assert isinstance(found, PlainSnapshot)
        return found

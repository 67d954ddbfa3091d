"""A small table whose metadata is in memory: Parquet files and Puffin files of vectors, to be damaged at will."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec import RowSet, UsageError, iceberg
from dvcodec.core import vector as stored
from dvcodec.core.vector import Magic
from dvcodec.io import Storage, open_source, read_window
from dvcodec.ops.convert import measure
from dvcodec.tables import (
    DataFile,
    DeletedRows,
    DeletionVector,
    Folder,
    PhysicalRows,
    Snapshot,
    SnapshotInfo,
    Table,
    TableKind,
)
from dvcodec.tables.folder import PathMatcher
from dvcodec.tables.iceberg.deletes import check_vectors
from dvcodec.tables.model import RowReader
from dvcodec.tables.rows.columns import chosen
from dvcodec.tables.rows.data_file import open_parquet, physical_batches
from dvcodec.tables.snapshots.findings import Finding

ROWS = 1000
NAMES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class FakeSnapshot(Snapshot):
    """Asks its table, so that a test changes what it returns there."""

    table: FakeTable

    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        return self.table.read(vector, self)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        whole = pa.schema([("id", pa.int64()), ("name", pa.string())])
        return pa.schema([whole.field(name) for name in chosen(whole.names, columns, "fake")])

    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
        return RowReader(lambda *, batch_rows, **_: self.table.rows(data_file, columns, batch_rows))

    def unknown_files(self, vector: DeletionVector) -> tuple[str, ...]:
        return self.table.unknown_files(vector)

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Finding]:
        return self.table.check_container(location, vectors, self.path_matcher)


class FakeTable(Table):
    """States are given; vectors are read and checked as those of an Iceberg table."""

    kind = TableKind.ICEBERG

    def __init__(self, folder: str, states: Sequence[FakeSnapshot], metadata: Iterable[str] = ()) -> None:
        self.folder = Folder(folder)
        self.states = [replace(state, table=self) for state in states]
        self.metadata = frozenset(metadata)
        self.reads: list[DeletionVector] = []

    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        return tuple(state.info for state in self.states)

    def snapshot(self, id: int | None = None) -> FakeSnapshot:  # noqa: A002  (the model's name)
        if id is None:
            return self.states[-1]
        for state in self.states:
            if state.info.id == id:
                return state
        raise UsageError(f"no snapshot {id}")

    def read(self, vector: DeletionVector, snapshot: FakeSnapshot) -> tuple[DeletedRows, ...]:  # noqa: ARG002
        self.reads.append(vector)
        assert vector.offset is not None
        assert vector.data_file is not None
        with open_source(vector.location) as source:
            cursor = read_window(source, vector.offset, vector.size)
            found = stored.read(cursor, allowed=(Magic.PORTABLE64,), cardinality=vector.cardinality)
            return (DeletedRows(vector.data_file, found.load(), measure(found)),)

    def check_container(
        self, location: str, vectors: Sequence[DeletionVector], matcher: PathMatcher
    ) -> Iterator[Finding]:
        return check_vectors(location, vectors, Storage(), matcher)

    def referenced(self) -> frozenset[str]:
        data = {file.location for state in self.states for file in state.data_files}
        return self.metadata | data | {vector.location for state in self.states for vector in state.vectors}

    def rows(self, data_file: DataFile, columns: Sequence[str] | None, batch_rows: int) -> Iterator[PhysicalRows]:
        names = ["id", "name"] if columns is None else list(columns)
        with open_parquet(data_file.location, Storage()) as file:
            for start, batch in physical_batches(file, names, batch_rows=batch_rows):
                yield PhysicalRows(start, batch.select(names))

    def unknown_files(self, vector: DeletionVector) -> tuple[str, ...]:  # noqa: ARG002
        return ()


def beside(folder: Path) -> Path:
    """Return a folder for what is written: not in the table."""
    path = folder.with_name(f"{folder.name}-out")
    path.mkdir(exist_ok=True)
    return path


def write_data(folder: Path, name: str, rows: int = ROWS, first: int = 0) -> DataFile:
    """Write a data file of row groups of 300 rows; `id` counts from `first`."""
    path = folder / "data" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = range(first, first + rows)
    table = pa.table({"id": pa.array(ids, pa.int64()), "name": [f"{name}{i}" for i in ids]})
    pq.write_table(table, path, row_group_size=300)
    return DataFile(str(path), str(path), rows, path.stat().st_size)


def write_vectors(folder: Path, name: str, rows: Mapping[str, RowSet]) -> tuple[DeletionVector, ...]:
    """Write a Puffin file of vectors, by path of the data file."""
    path = folder / "data" / f"{name}.puffin"
    path.parent.mkdir(parents=True, exist_ok=True)
    return tuple(
        DeletionVector("iceberg", at.data_file, at.path, at.path, at.offset, at.size, at.cardinality, at.file_size)
        for at in iceberg.write_deletion_vectors(str(path), rows, order="given")
    )


def make_table(folder: Path, deletes: Mapping[str, RowSet] | None = None, **metadata: Any) -> FakeTable:
    """Make a table of four files of 1000 rows; its second state deletes rows of some of them, all in one file."""
    files = tuple(write_data(folder, name, first=ROWS * i) for i, name in enumerate(NAMES))
    if deletes is None:
        deletes = {"a": RowSet([1, 2, 500]), "b": RowSet(range(ROWS)), "c": RowSet([0, 999, 7])}
    paths = dict(zip(NAMES, [file.path for file in files], strict=True))
    vectors = write_vectors(folder, "deletes", {paths[name]: rows for name, rows in deletes.items()})
    table = FakeTable(str(folder), (), **metadata)
    table.states = [
        FakeSnapshot(table, SnapshotInfo(1, 1_000, "append"), files, ()),
        FakeSnapshot(table, SnapshotInfo(2, 2_000, "delete", 1), files, vectors),
    ]
    return table


def changed(table: FakeTable, *vectors: DeletionVector, drop: Iterable[DeletionVector] = ()) -> FakeTable:
    """Replace the vectors of the last state's data files by others, or add them."""
    last = table.states[-1]
    gone = list(drop)
    kept = [vector for vector in last.vectors if vector not in gone]
    table.states[-1] = replace(last, vectors=tuple(itertools.chain(kept, vectors)))
    return table


def flip(path: str | Path, *offsets: int) -> None:
    """Flip one bit of a file, or one at each offset: the checksum of a vector shows where one is."""
    data = bytearray(Path(path).read_bytes())
    for offset in offsets:
        data[offset] ^= 1
    Path(path).write_bytes(bytes(data))

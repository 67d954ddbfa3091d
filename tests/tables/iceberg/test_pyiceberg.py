"""pyiceberg plans the same data files and deletes, and reads the same rows."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from cases import each
from dvcodec import RowSet
from dvcodec.tables.iceberg import open as open_iceberg
from samples.iceberg_table import Commit, IcebergFiles, build_iceberg

pytestmark = [pytest.mark.interop, pytest.mark.libraries]
StaticTable = pytest.importorskip("pyiceberg.table").StaticTable

PARTS = [{"name": "part", "transform": "identity", "source-id": 2, "field-id": 1000}]
VECTORS = (
    Commit(data={"a1": 300, "a2": 50, "b1": 120}),
    Commit(vectors={"a1": RowSet([0, 100, 299]), "b1": RowSet(range(5, 90))}),
    Commit(data={"b2": 10}, vectors={"a1": RowSet([0, 1, 100, 299])}, remove=["a2"]),
)
POSITIONS = (
    Commit(data={"a1": 300, "a2": 50, "b1": 120}),
    Commit(deletes=[{"a1": RowSet([0, 100])}, {"b1": RowSet([7])}], scope="bounds"),
    Commit(data={"b2": 10}, deletes=[{"a1": RowSet([5, 100]), "a2": RowSet([3])}], scope=None),
)


def planned(made: IcebergFiles, number: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StaticTable.from_metadata(str(made.metadata)).scan(snapshot_id=number)


def part_of(name: str) -> dict[str, Any]:
    return {"part": name[0]}


@each(("commits", "version"), [(VECTORS, 3), (POSITIONS, 2), (POSITIONS[:1], 1)])
@each("partitioned", [False, True])
def test_files_and_deletes(tmp_path: Path, commits: tuple[Commit, ...], version: int, partitioned: bool) -> None:
    spec = {"spec": PARTS, "partition": part_of} if partitioned else {}
    made = build_iceberg(tmp_path, *commits, version=version, **spec)  # type: ignore[arg-type]
    table = open_iceberg(made.folder)
    for info in table.snapshots():
        snapshot = table.snapshot(info.id)
        ours: dict[str, set[str]] = {file.path: set() for file in snapshot.data_files}
        for vector in snapshot.vectors:
            for found in snapshot.read(vector):
                ours[found.data_file].add(vector.path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tasks = list(planned(made, info.id).plan_files())
        theirs = {task.file.file_path: {one.file_path for one in task.delete_files} for task in tasks}
        assert {path: found & theirs[path] for path, found in ours.items()} == ours
        assert set(ours) == set(theirs)
        assert {file.path: file.physical_rows for file in snapshot.data_files} == {
            task.file.file_path: task.file.record_count for task in tasks
        }

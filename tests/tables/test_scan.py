"""scan: what is deleted of each data file; totals and rewrite_candidates, from scans."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.core.batch import Few
from dvcodec.core.errors import NotCanonical
from dvcodec.core.roaring import ContainerMix
from dvcodec.tables import DataFile, DeletedRows, DeletionVector, SnapshotInfo, TableKind
from dvcodec.tables.columns import UNKNOWN
from dvcodec.tables.snapshots.scanning import (
    DENSITY_PARTS,
    FileDeletes,
    Scan,
    density,
    density_of_each,
    rewrite_candidates,
    scan,
    totals,
)
from samples.memory_table import FakeSnapshot, FakeTable, changed, flip, make_table, write_vectors


def test_all_files_in_order(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    found = scan(table, keep_rows=True)
    assert (found.table, found.kind, found.info.id) == (str(tmp_path), table.kind, 2)
    assert (found.lost, found.findings) == ((), ())
    assert [(Path(one.data_file.path).stem, one.rows, one.deleted_share, one.containers) for one in found.files] == [
        ("a", RowSet([1, 2, 500]), 0.003, ContainerMix(arrays=1)),
        ("b", RowSet(range(1000)), 1.0, ContainerMix(runs=1)),
        ("c", RowSet([0, 7, 999]), 0.003, ContainerMix(arrays=1)),
        ("d", RowSet(), 0.0, ContainerMix()),
    ]
    assert [(file.deleted, file.fully_deleted) for file in found.files][1:3] == [(1000, True), (3, False)]
    sizes = {vector.data_file: vector.size for vector in table.snapshot().vectors}
    assert [file.stored_bytes for file in found.files] == [sizes.get(file.data_file.path, 0) for file in found.files]
    assert [float(file.density.max()) for file in found.files][1::2] == [1.0, 0.0]


class Wide(FakeTable):
    """Its last vectors name no data file: they are position deletes of all files."""

    def read(self, vector: DeletionVector, snapshot: FakeSnapshot) -> tuple[DeletedRows, ...]:
        if vector.data_file is not None:
            return super().read(vector, snapshot)
        return tuple(
            DeletedRows(file.path, RowSet([i])) for i, file in enumerate(snapshot.data_files) if i != vector.cardinality
        )


@pytest.mark.parametrize("first", [True, False])
def test_position_deletes_of_partitions(first: bool, tmp_path: Path) -> None:
    made = make_table(tmp_path)
    last = made.states[-1]
    wide = tuple(DeletionVector("position-deletes", None, f"w{i}", f"w{i}", None, 300, i) for i in range(2))
    vectors = (*wide, *last.vectors) if first else (*last.vectors, *wide)
    table = Wide(str(tmp_path), [made.states[0], replace(last, vectors=vectors)])
    found = scan(table, keep_rows=True)
    assert found.findings == ()
    assert [file.rows for file in found.files] == [
        RowSet([0, 1, 2, 500]),
        RowSet(range(1000)),
        RowSet([0, 2, 7, 999]),
        RowSet([3]),
    ]
    assert [len(file.vectors) for file in found.files] == [2, 2, 3, 2]
    assert found.files[3].stored_bytes == 200
    assert found.files[3].containers == ContainerMix()


def test_a_broken_vector_of_a_file_that_is_gone(tmp_path: Path) -> None:
    """It is lost once, and no data file of the snapshot is in doubt for it, whatever comes after it."""
    made = make_table(tmp_path)
    (broken,) = write_vectors(tmp_path, "more", {"/old/e.parquet": RowSet([2])})
    flip(broken.location, (broken.offset or 0) + 20)
    last = made.states[-1]
    wide = DeletionVector("position-deletes", None, "w", "w", None, 300, 3)
    table = Wide(str(tmp_path), [replace(last, vectors=(*last.vectors, broken, wide))])
    found = scan(table)
    assert [check.check for check in found.findings] == ["crc", "gone-data-file"]
    assert [vector for vector, _ in found.lost] == [broken]
    assert [(file.deleted, file.errors) for file in found.files] == [(4, ()), (1000, ()), (4, ()), (0, ())]
    bad = last.vectors[0]
    flip(bad.location, (bad.offset or 0) + 20)
    found = scan(table)
    assert (found.files[0].deleted, found.files[0].vectors, len(found.files[0].errors)) == (None, (bad, wide), 1)


def test_files_whose_numbers_are_in_doubt(tmp_path: Path) -> None:
    """As many deleted rows as rows, but not these; or the union of two vectors of which one holds."""
    table = make_table(tmp_path, {"a": RowSet([*range(999), 5000]), "b": RowSet(range(1000)), "c": RowSet(range(500))})
    paths = [file.path for file in table.snapshot().data_files]
    changed(
        table, *write_vectors(tmp_path, "more", {paths[1]: RowSet(range(1000)), paths[2]: RowSet(range(500, 1000))})
    )
    found = scan(table)
    assert [file.deleted for file in found.files] == [None, 1000, None, 0]
    assert [file.min_deleted for file in found.files] == [999, 1000, 0, 0]
    assert [file.fully_deleted for file in found.files] == [False, True, False, False]
    assert ["5000" in "".join(file.errors) for file in found.files] == [True, False, False, False]
    assert ["of other rows" in "".join(file.errors) for file in found.files] == [False, False, True, False]
    assert [one.file.data_file.path for one in rewrite_candidates(found)] == [paths[1]]
    assert totals(found).in_doubt == 2


@pytest.mark.parametrize("known", [True, False])
def test_position_deletes_that_cannot_be_read(known: bool, tmp_path: Path) -> None:
    """All data files of their partition are in doubt; all of the table, where it is not known."""

    class Broken(FakeTable):
        def read(self, vector: DeletionVector, snapshot: FakeSnapshot) -> tuple[DeletedRows, ...]:
            if vector.data_file is None:
                raise NotCanonical("position deletes", source=vector.path)
            return super().read(vector, snapshot)

    made = make_table(tmp_path)
    last = made.states[-1]
    files = tuple(replace(file, partition_key=(i // 3, "ab"[i % 2])) for i, file in enumerate(last.data_files))
    wide = DeletionVector("position-deletes", None, "w", "w", None, 300, 4, partition_key=(0, "a") if known else None)
    table = Broken(str(tmp_path), [replace(last, data_files=files, vectors=(*last.vectors, wide))])
    found = scan(table)
    assert [len(file.errors) for file in found.files] == ([1, 0, 1, 0] if known else [1] * 4)
    assert [file.min_deleted for file in found.files] == [3, 1000, 3, 0]
    assert [file.deleted for file in found.files] == ([None, 1000, None, 0] if known else [None] * 4)
    many = tuple(replace(wide, path=f"w{i}") for i in range(25))
    table.states = [replace(table.states[0], vectors=(*last.vectors, *many))]
    found = scan(table)
    assert len(found.lost) == 25
    assert [len(file.errors) for file in found.files] == ([11, 0, 11, 0] if known else [11] * 4)
    assert found.files[0].errors[-1] == "15 more position deletes cannot be read"


@given(st.integers(0, 500), st.data())
def test_density_is_the_share_of_each_part(rows: int, data: st.DataObject) -> None:
    deleted = data.draw(st.sets(st.integers(0, rows + 10)))
    found = density(RowSet(deleted), rows)
    mask = np.array([row in deleted for row in range(rows)], bool)
    expected = []
    for part in range(DENSITY_PARTS if rows else 0):
        start, stop = rows * part // DENSITY_PARTS, rows * (part + 1) // DENSITY_PARTS
        expected.append(mask[start : max(stop, start + 1)].mean())
    assert found.dtype == np.float32
    assert found.tolist() == np.array(expected or [0] * DENSITY_PARTS, np.float32).tolist()


@given(st.lists(st.tuples(st.one_of(st.integers(0, 500), st.integers(1, 1 << 50)), st.data()), max_size=9))
def test_density_of_each_is_that_of_one(files: list[tuple[int, st.DataObject]]) -> None:
    sets = [RowSet(data.draw(st.sets(st.integers(0, rows - 1), max_size=80)) if rows else ()) for rows, data in files]
    counts = np.array([len(rows) for rows in sets], np.int64)
    positions = np.concatenate([np.zeros(0, np.int64), *(rows.to_numpy() for rows in sets)])
    unused = np.zeros((len(sets), 3), np.int64)
    few = Few(np.ones(len(sets), np.bool_), counts, unused[:, 0], unused, positions)
    found = density_of_each(few, np.array([rows for rows, _ in files], np.int64))
    assert found.dtype == np.float32
    assert found.tolist() == [density(one, rows).tolist() for one, (rows, _) in zip(sets, files, strict=True)]


def test_density_of_each_has_nothing_of_files_of_unknown_rows() -> None:
    few = Few(np.ones(2, np.bool_), np.array([2, 1]), np.array([9, 9]), np.zeros((2, 3), np.int64), np.array([1, 9, 9]))
    found = density_of_each(few, np.array([UNKNOWN, 10]))
    assert found[0].tolist() == [0] * DENSITY_PARTS
    assert found[1].tolist() == density(RowSet([9]), 10).tolist()


# ---------------------------------------------------------------------- totals and rewrite_candidates, from scans


VECTOR = DeletionVector("iceberg", "x", "p", "p", 4, 40, 1)


def made(name: str, rows: int | None, deleted: int, size: int | None, stored: int = 0, **more: Any) -> FileDeletes:
    vectors = (VECTOR,) if deleted else ()
    return FileDeletes(DataFile(name, name, rows, size), vectors, None, deleted, stored, **more)


FILES = (
    made("untouched", 1_000, 0, 10_000),
    made("hardly", 1_000, 99, 10_000, 240),
    made("just", 1_000, 100, 90_000, 240),
    made("much", 10_000, 9_000, 10_001, 8_000),
    made("all", 50, 50, 700, 30),
    made("empty", 0, 0, 4),
    made("tiny", 4, 2, 300, 50),
    made("unknown", None, 7, None, 60),
    made("others", 1_000, 400, 500, 240, other_deletes="equality deletes (e)"),
    made("lost", 10, 10, 100, 40, errors=("CRC",)),
)
SCAN = Scan("t", TableKind.ICEBERG, SnapshotInfo(1), FILES, (), ())


@each(
    ("arguments", "expected"),
    [
        ({}, ["much", "all", "others", "tiny"]),
        ({"min_ratio": 0.1}, ["much", "just", "all", "others", "tiny"]),
        ({"min_ratio": 0.1, "min_deleted": 3}, ["much", "just", "all", "others"]),
        ({"min_ratio": 1, "min_deleted": 1000}, ["all"]),
        ({"min_ratio": 0}, ["much", "just", "hardly", "all", "others", "tiny"]),
        ({"min_ratio": 1, "max_bytes_per_row": 10}, ["all", "tiny"]),
        ({"min_ratio": 1, "small_vector": 100}, ["all", "tiny", "unknown"]),
        ({"min_ratio": 1, "small_file": 10_001}, ["hardly", "all", "others", "tiny", "empty", "untouched"]),
    ],
)
def test_candidates(arguments: dict[str, Any], expected: list[str]) -> None:
    assert [one.file.data_file.path for one in rewrite_candidates(SCAN, **arguments)] == expected


def test_reasons_and_numbers() -> None:
    found = {
        one.file.data_file.path: one
        for one in rewrite_candidates(SCAN, min_ratio=0.1, small_vector=100, small_file=301)
    }
    assert {name: one.reasons for name, one in found.items()} == {
        "much": ("deleted-ratio",),
        "just": ("deleted-ratio",),
        "all": ("fully-deleted", "deleted-ratio", "small-vector"),
        "tiny": ("deleted-ratio", "small-vector", "small-file"),
        "unknown": ("small-vector",),
        "others": ("deleted-ratio",),
        "empty": ("small-file",),
    }
    assert (found["much"].gain, found["much"].live_rows) == (9_001, 1_000)
    assert (found["unknown"].gain, found["unknown"].live_rows) == (None, None)
    assert (found["others"].gain, found["others"].live_rows, found["others"].to_dict()["deleted"]) == (200, None, None)
    assert (found["empty"].gain, found["empty"].live_rows) == (None, 0)
    shown = json.loads(json.dumps(found["all"].to_dict()))
    assert (shown["data_file"], shown["gain"], shown["reasons"]) == ("all", 700, list(found["all"].reasons))


@pytest.mark.parametrize(
    "arguments",
    [{"min_ratio": 1.1}, {"min_ratio": -0.1}, {"min_deleted": -1}, {"small_file": -1}, {"small_vector": -1}],
)
def test_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        rewrite_candidates(SCAN, **arguments)


def test_totals(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    found = totals(scan(table))
    stored = sum(vector.size or 0 for vector in table.snapshot().vectors)
    assert (found.data_files, found.with_deletes, found.fully_deleted, found.in_doubt) == (4, 3, 1, 0)
    assert (found.rows, found.deleted, found.vectors, found.stored_bytes) == (4_000, 1_006, 3, stored)
    assert found.data_bytes == sum(path.stat().st_size for path in tmp_path.glob("data/*.parquet"))
    assert found.containers == ContainerMix(arrays=2, runs=1)
    assert found.deleted_share == 1_006 / 4_000
    assert found.bytes_per_row == stored / 1_006
    assert json.loads(json.dumps(found.to_dict()))["containers"] == {"arrays": 2, "bitsets": 0, "runs": 1}


def test_totals_of_what_is_unknown() -> None:
    found = totals(SCAN)
    assert (found.in_doubt, found.other_deletes, found.uncounted, found.exact) == (1, 1, 1, False)
    assert (found.rows, found.deleted, found.min_deleted, found.max_live) == (None, None, 9_668, None)
    assert (found.data_bytes, found.deleted_share, found.bytes_per_row) == (None, None, None)
    none = totals(Scan("t", TableKind.ICEBERG, SnapshotInfo(1), (), (), ()))
    assert (none.rows, none.deleted, none.max_live, none.data_bytes, none.deleted_share) == (0, 0, 0, 0, None)

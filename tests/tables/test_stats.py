"""totals and rewrite_candidates, from scans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.core.bitmap import ContainerMix
from dvcodec.tables import DataFile, DeletionVector, SnapshotInfo, TableKind
from dvcodec.tables.snapshots.scanning import FileDeletes, Scan, rewrite_candidates, scan, totals
from samples.memory_table import flip, make_table

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
        ({"min_ratio": 0.9}, ["much", "all"]),
        ({"min_ratio": 1, "min_deleted": 1000}, ["all"]),
        ({"min_ratio": 0.05, "min_deleted": 100}, ["much", "just", "all", "others"]),
        ({"min_ratio": 0}, ["much", "just", "hardly", "all", "others", "tiny"]),
        ({"min_ratio": 1, "max_bytes_per_row": 10}, ["all", "tiny"]),
        ({"min_ratio": 1, "small_vector": 100}, ["all", "tiny", "unknown"]),
        ({"min_ratio": 1, "small_file": 300}, ["all", "empty"]),
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
    assert json.loads(json.dumps(found["all"].to_dict())) == {
        "data_file": "all",
        "rows": 50,
        "deleted": 50,
        "live_rows": 0,
        "deleted_ratio": 1.0,
        "fully_deleted": True,
        "gain": 700,
        "reasons": ["fully-deleted", "deleted-ratio", "small-vector"],
    }


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


def test_totals_of_what_is_corrupt(tmp_path: Path) -> None:
    table = make_table(tmp_path, {"a": RowSet([1])})
    vector = table.snapshot().vectors[0]
    flip(vector.location, (vector.offset or 0) + 20)
    found = totals(scan(table))
    assert (found.in_doubt, found.deleted, found.vectors, found.bytes_per_row) == (1, None, 1, None)
    assert totals(scan(table, 1)).deleted_share == 0


def test_totals_of_what_is_unknown() -> None:
    found = totals(SCAN)
    assert (found.in_doubt, found.other_deletes, found.uncounted, found.exact) == (1, 1, 1, False)
    assert (found.rows, found.deleted, found.min_deleted, found.max_live) == (None, None, 9_668, None)
    assert (found.data_bytes, found.deleted_share, found.bytes_per_row) == (None, None, None)
    none = totals(Scan("t", TableKind.ICEBERG, SnapshotInfo(1), (), (), ()))
    assert (none.rows, none.deleted, none.max_live, none.data_bytes, none.deleted_share) == (0, 0, 0, 0, None)

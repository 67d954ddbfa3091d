"""A history of many snapshots that list the same data files and vectors: what it goes through is charged."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from dvcodec.core.errors import LimitExceeded
from dvcodec.core.limits import DEFAULT_LIMITS, SharedWork
from dvcodec.tables import open_table
from dvcodec.tables.changes import history
from dvcodec.tables.repeats import HistoryWork
from fuzz import many
from samples.memory_table import make_table

COUNTS = {"delta-sidecar": 1_000, "delta-sidecar-removed": 2_000, "iceberg-numbers": 3_000, "paimon-turns": 4_000}
"""Data files or vectors; 6,000 of the others."""


@pytest.mark.parametrize("kind", many.HISTORIES)
def test_a_history_that_lists_the_same_files_again_is_refused(kind: str, tmp_path: Path) -> None:
    many.HISTORIES[kind](tmp_path, COUNTS.get(kind, 6_000))
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 64_000
    table = open_table(tmp_path)
    changes = history(table)
    assert len(list(islice(changes, 5))) == 5
    with pytest.raises(
        LimitExceeded, match=r"^history of .*: work for data files and vectors that snapshots list again"
    ):
        list(changes)
    ids = [info.id for info in table.snapshots()]
    assert [change.info.id for change in history(table, since=ids[-3])] == ids[-3:]


def test_what_the_bytes_allow() -> None:
    shared = SharedWork(100)
    shared.note("m", 1)
    shared.note("m", 3)
    shared.note("m", 2)
    assert shared.allowed == 3 * DEFAULT_LIMITS.max_work_per_byte
    for _ in range(3):  # each history has its own work, and what one has drawn the next one may have too
        work = HistoryWork("/t", shared)
        work.charge(shared.allowed // 8, 8)
        work.charge(100, 1)
    with pytest.raises(LimitExceeded, match=r"^history of /t: .* expected at most 100 .* found 101$"):
        work.charge(1, 1)
    work.note("v", 1)
    work.charge(DEFAULT_LIMITS.max_work_per_byte, 1)


def test_a_snapshot_that_is_opened_is_charged_by_what_it_lists(tmp_path: Path) -> None:
    snapshot = make_table(tmp_path).snapshot()
    files, vectors = len(snapshot.data_files), len(snapshot.vectors)
    assert files
    assert vectors
    work = HistoryWork("/t", SharedWork(0))
    with pytest.raises(LimitExceeded, match=f"found {(files + vectors) * 1024}$"):
        work.opened(snapshot)


ENGINES = ("_delta_log", "_versions", "metadata", "snapshot", "root.bolt")
REAL = sorted({path.parent for path in (Path(__file__).parents[1] / "vectors").rglob("*") if path.name in ENGINES})


@pytest.mark.parametrize("folder", REAL, ids=lambda folder: "-".join(folder.parts[-3:]))
def test_histories_of_real_tables_draw_nothing(folder: Path) -> None:
    table = open_table(folder)
    work = table.folder.storage.metadata_work
    work.most = 0
    assert list(history(table))
    assert work.allowed

"""Commits of deletes: batches of a stream once, retries, and files that are removed for their rows."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cases import each
from dvcodec import NotCanonical, RowSet
from dvcodec.core.errors import CommitConflict
from dvcodec.tables import audit, commit_repair, delete, open_table, repair_plan
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting.predicate import where_finder
from dvcodec.tables.deleting.run import Backoff, Retries, StreamBatch, batch_number, run
from dvcodec.tables.iceberg.commit import upgrade_deletes
from dvcodec.tables.model import Deletion
from samples.delta_table import DeltaBuilder, rows_from
from samples.iceberg_table import Commit, build_iceberg
from samples.paimon_table import PaimonFile, build_paimon
from tables.deleting.random_tables import FORMATS
from tables.deleting.random_where import random_rows


def delete_batch(folder: Path, first: int, batch: StreamBatch | None, one: Any = None) -> Deletion:
    finder = where_finder((pc.field("key") >= first) & (pc.field("key") < first + 10))
    return run(one or committer_of(open_table(folder)), finder, batch=batch)


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_a_batch_is_committed_once(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "t"
    FORMATS[kind][0](folder, [random_rows(random.Random(number), 50 * number, 50) for number in range(2)])
    assert delete_batch(folder, 0, StreamBatch("q", 0)).committed
    again = delete_batch(folder, 10, StreamBatch("q", 0))
    assert (again.repeated, again.committed, again.rows, again.skipped) == (True, False, 0, 0)
    delete_batch(folder, 10, None)  # not of a stream
    assert delete_batch(folder, 20, StreamBatch("other", 0)).rows == 10
    assert delete_batch(folder, 30, StreamBatch("q", 1)).rows == 10
    assert delete_batch(folder, 40, StreamBatch("q", 0)).repeated
    nothing = delete_batch(folder, 5000, StreamBatch("q", 7))
    assert (nothing.repeated, nothing.committed) == (False, False)

    # Another run of the same stream was faster: its commit comes between, as the first one's would after a lost answer.
    late = committer_of(open_table(folder))
    commit = type(late).commit

    def beaten(self: Any, *arguments: Any) -> int:
        monkeypatch.setattr(type(late), "commit", commit)
        assert delete_batch(folder, 40, StreamBatch("q", 2)).committed
        raise CommitConflict("another writer committed first")

    monkeypatch.setattr(type(late), "commit", beaten)
    done = delete_batch(folder, 50, StreamBatch("q", 2), late)
    assert (done.repeated, done.committed, done.retries) == (True, False, 1)
    assert delete_batch(folder, 50, None).rows == 10


def test_a_checkpoint_of_delta_keeps_the_batch(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path / "t"
    FORMATS["delta"][0](folder, [random_rows(random.Random(1), 0, 50)])
    done = delete_batch(folder, 0, StreamBatch("q", 3))
    actions = [json.loads(line) for line in (folder / f"_delta_log/{done.snapshot:020}.json").read_text().splitlines()]
    (txn,) = [action["txn"] for action in actions if "txn" in action]
    assert (txn["appId"], txn["version"]) == ("q", 3)
    table = deltalake.DeltaTable(str(folder))
    assert table.transaction_version("q") == 3
    table.create_checkpoint()
    for file in folder.glob("_delta_log/*.json"):
        file.unlink()
    assert delete_batch(folder, 10, StreamBatch("q", 3)).repeated


@each("text", [None, "", "None", "1.5", "٣", "9" * 20, 7])
def test_what_is_not_a_number(text: Any) -> None:
    assert batch_number("-12", "s") == -12
    with pytest.raises(NotCanonical, match="s: number of a stream's batch: expected a whole number"):
        batch_number(text, "s")


# ---------------------------------------------------------------------- retries of a commit: how many, and until when


def test_waits_double_until_the_retries_or_the_time_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    conflict, now = CommitConflict("another writer was first"), [0.0]
    module = sys.modules[Backoff.__module__]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=waits.append))
    monkeypatch.setattr(module, "random", SimpleNamespace(uniform=lambda _, longest: longest))
    backoff, retries = Backoff(), Retries(number=5, min_wait_ms=50, max_wait_ms=500, total_ms=2000)
    for now[0] in (0.0, 1.0, 1.5, 2.0):
        backoff.wait(conflict, retries)
    assert waits == [0.1, 0.2, 0.4, 0.5]
    for now[0] in (2.001, 0.0):  # the time is over, and the sixth is one too many
        with pytest.raises(CommitConflict, match="another writer was first"):
            backoff.wait(conflict, retries)
    assert (len(waits), backoff.lost) == (4, 6)


# --------------------------- metadata that state too few rows: a data file is not removed for the rows that they know


STATED = 3


def state(entry: dict[str, Any]) -> dict[str, Any]:
    file = entry["data_file"]
    file["record_count"] = STATED if not file["content"] else file["record_count"]
    return entry


def iceberg(folder: Path) -> str:
    return build_iceberg(folder, Commit(data={"a": 20}), tweak_entry=state).paths["a"]


def delta(folder: Path) -> str:
    made = DeltaBuilder(folder)
    made.create()
    add = made.write_file("a.parquet", rows_from(0))
    made.commit({"add": add | {"stats": json.dumps({"numRecords": STATED})}})
    return "a.parquet"


def paimon(folder: Path) -> str:
    file = PaimonFile("a.parquet", pa.table({"id": range(10)}), more={"_ROW_COUNT": STATED})
    build_paimon(folder, [(0, "id", "BIGINT")], [[file]])
    return "bucket-0/a.parquet"


def files_of(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("craft", [iceberg, delta, paimon])
def test_positions_that_are_all_that_metadata_state(craft: Callable[[Path], str], tmp_path: Path) -> None:
    path = craft(tmp_path / "t")
    before = files_of(tmp_path)
    with pytest.raises(NotCanonical, match=r"rows of the data file: expected 3 rows \(metadata\), found \d+"):
        delete(open_table(tmp_path / "t"), positions={path: RowSet(range(STATED))})
    assert files_of(tmp_path) == before
    delete(open_table(tmp_path / "t"), positions={path: RowSet([1])})  # a vector loses no other row


def test_position_deletes_that_are_all_that_metadata_state(tmp_path: Path) -> None:
    deletes = Commit(deletes=[{"a": RowSet(range(STATED))}])
    build_iceberg(tmp_path / "t", Commit(data={"a": 20}), deletes, tweak_entry=state)
    before = files_of(tmp_path)
    with pytest.raises(NotCanonical, match=r"rows of the data file: expected 3 rows \(metadata\), found 20"):
        upgrade_deletes(open_table(tmp_path / "t"))
    assert files_of(tmp_path) == before


def test_a_repair_removes_no_such_file(tmp_path: Path) -> None:
    def wrong(entry: dict[str, Any]) -> dict[str, Any]:
        entry["data_file"]["record_count"] = STATED - bool(entry["data_file"]["content"])
        return entry

    folder = build_iceberg(
        tmp_path / "t", Commit(data={"a": 20}, vectors={"a": RowSet(range(STATED))}), tweak_entry=wrong
    ).folder
    table = open_table(folder)
    done = commit_repair(repair_plan(audit(table), table), table)
    assert not done.committed
    assert "expected 3 rows (metadata), found 20" in str(done)

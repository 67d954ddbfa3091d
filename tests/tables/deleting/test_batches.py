"""Batches of a stream are committed once, and the commit says which."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from cases import each
from dvcodec.core.errors import CommitConflict, NotCanonical
from dvcodec.tables import open_table
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting.predicate import where_finder
from dvcodec.tables.deleting.run import StreamBatch, batch_number, run
from dvcodec.tables.model import Deletion
from tables.deleting.random_tables import FORMATS
from tables.deleting.random_where import random_rows


def delete(folder: Path, first: int, batch: StreamBatch | None, one: Any = None) -> Deletion:
    finder = where_finder((pc.field("key") >= first) & (pc.field("key") < first + 10))
    return run(one or committer_of(open_table(folder)), finder, batch=batch)


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_a_batch_is_committed_once(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "t"
    FORMATS[kind][0](folder, [random_rows(random.Random(number), 50 * number, 50) for number in range(2)])
    assert delete(folder, 0, StreamBatch("q", 0)).committed
    again = delete(folder, 10, StreamBatch("q", 0))
    assert (again.repeated, again.committed, again.rows, again.skipped) == (True, False, 0, 0)
    delete(folder, 10, None)  # not of a stream
    assert delete(folder, 20, StreamBatch("other", 0)).rows == 10
    assert delete(folder, 30, StreamBatch("q", 1)).rows == 10
    assert delete(folder, 40, StreamBatch("q", 0)).repeated
    nothing = delete(folder, 5000, StreamBatch("q", 7))
    assert (nothing.repeated, nothing.committed) == (False, False)

    # Another run of the same stream was faster: its commit comes between, as the first one's would after a lost answer.
    late = committer_of(open_table(folder))
    commit = type(late).commit

    def beaten(self: Any, *arguments: Any) -> int:
        monkeypatch.setattr(type(late), "commit", commit)
        assert delete(folder, 40, StreamBatch("q", 2)).committed
        raise CommitConflict("another writer committed first")

    monkeypatch.setattr(type(late), "commit", beaten)
    done = delete(folder, 50, StreamBatch("q", 2), late)
    assert (done.repeated, done.committed, done.retries) == (True, False, 1)
    assert delete(folder, 50, None).rows == 10


def test_a_checkpoint_of_delta_keeps_the_batch(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path / "t"
    FORMATS["delta"][0](folder, [random_rows(random.Random(1), 0, 50)])
    done = delete(folder, 0, StreamBatch("q", 3))
    actions = [json.loads(line) for line in (folder / f"_delta_log/{done.snapshot:020}.json").read_text().splitlines()]
    (txn,) = [action["txn"] for action in actions if "txn" in action]
    assert (txn["appId"], txn["version"]) == ("q", 3)
    table = deltalake.DeltaTable(str(folder))
    assert table.transaction_version("q") == 3
    table.create_checkpoint()
    for file in folder.glob("_delta_log/*.json"):
        file.unlink()
    assert delete(folder, 10, StreamBatch("q", 3)).repeated


@each("text", [None, "", "None", "1.5", "٣", "9" * 20, 7])
def test_a_number_that_is_none(text: Any) -> None:
    assert batch_number("-12", "s") == -12
    with pytest.raises(NotCanonical, match="s: number of a stream's batch: expected a whole number"):
        batch_number(text, "s")

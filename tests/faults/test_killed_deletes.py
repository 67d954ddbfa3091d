"""A delete that is killed at any step leaves the old rows or the new ones, and no harm for those that follow."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from signal import SIGKILL

import pytest

import amounts
from dvcodec import RowSet
from dvcodec.tables import audit, open_table
from faults.conftest import Order
from faults.deletes import FIRST, GONE, delete, ids, make
from samples.id_tables import MAKERS

LEFT = {kind: {"orphan-data-file" if kind == "iceberg 2" else "orphan-vector-file"} for kind in MAKERS}
"""Findings on what a killed writer leaves; files of position deletes are named as data files are."""
KILLS = amounts.of(8, 250)
IDS, A_TABLE, LONGEST = 4096, 25, 0.05
"""Of a writer that is killed at any time: rows and kills of a table, and seconds after some commits."""


@pytest.mark.parametrize("kind", MAKERS)
def test_killed_at_each_step(kind: str, tmp_path: Path, order: Order) -> None:
    made, out = tmp_path / "made", tmp_path / "t"
    make(kind, out)  # some formats record where they are
    shutil.copytree(out, made)
    before = ids(out)
    assert before == [number for number in range(256) if number not in FIRST]
    after = [number for number in before if number not in GONE]
    found, left = [], set()
    answer = order(delete=kind, out=out)
    assert answer["error"] is None, answer
    assert ids(out) == after
    assert audit(open_table(out)).findings == ()
    for step in range(0, len(answer["steps"]), amounts.of(3, 1)):
        shutil.rmtree(out)
        shutil.copytree(made, out)
        assert order(delete=kind, out=out, kill=step) == {"killed": SIGKILL}
        found.append(ids(out) == after)
        assert found[-1] or ids(out) == before
        left |= {one.check for one in audit(open_table(out)).findings}
        delete(out)
        assert ids(out) == after
        assert {one.check for one in audit(open_table(out)).findings} <= LEFT[kind]
    assert found == sorted(found)  # once committed, it stays
    assert {*found} == {False, True}
    assert left == LEFT[kind]


@pytest.mark.parametrize("kind", MAKERS)
def test_killed_at_any_time(kind: str, tmp_path: Path, order: Order) -> None:
    """A writer deletes id after id: every commit that it reported is there, and at most one more."""
    chance = random.Random(21)
    ended = 0
    for kill in range(KILLS):
        out = tmp_path / f"t{kill // A_TABLE}"
        if kill % A_TABLE == 0:
            MAKERS[kind](out, IDS, IDS // 2)
            first = 0
        answer = order(deletes=first, out=out, commits=chance.randrange(3), after=chance.random() * LONGEST)
        assert answer["killed"] == SIGKILL
        found = ids(out)
        stop = IDS - len(found)
        assert found == list(range(stop, IDS))
        assert first + answer["done"] <= stop <= first + answer["done"] + 1
        ended += stop - first
        first = stop
        if kill % A_TABLE == A_TABLE - 1 or kill == KILLS - 1:
            assert {one.check for one in audit(open_table(out)).findings} <= LEFT[kind] | {"orphan-metadata"}
            delete(out, RowSet([IDS - 1]))
            assert ids(out) == found[:-1]
    assert ended

"""A delete that is killed at any step leaves the old rows or the new ones, and no harm for those that follow."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from signal import SIGKILL

import pytest

from dvcodec.tables import audit, open_table
from faults.conftest import Order
from faults.deletes import GONE, TABLES, delete, ids

LEFT = {"orphan-vector-file"}
"""Findings on what a killed writer leaves."""


@pytest.mark.parametrize("kind", TABLES)
def test_killed_at_each_step(kind: str, tmp_path: Path, order: Order) -> None:
    made, out = tmp_path / "made", tmp_path / "t"
    TABLES[kind](made)
    before = ids(made)
    after = [number for number in before if number not in GONE]
    found = []
    for step in itertools.count():
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)
        answer = order(delete=kind, out=out, kill=step)
        if answer != {"killed": SIGKILL}:
            assert answer["error"] is None, answer
            assert len(answer["steps"]) == step
            break
        found.append(ids(out) == after)
        assert found[-1] or ids(out) == before
        assert {one.check for one in audit(open_table(out)).findings} <= LEFT
        delete(out)
        assert ids(out) == after
        assert {one.check for one in audit(open_table(out)).findings} <= LEFT
    assert ids(out) == after
    assert audit(open_table(out)).findings == ()
    assert found == sorted(found)  # once committed, it stays
    assert {*found} == {False, True}

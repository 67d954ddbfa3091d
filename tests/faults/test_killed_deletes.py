"""A delete that is killed at any step leaves the old rows or the new ones, and no harm for those that follow."""

from __future__ import annotations

import shutil
from pathlib import Path
from signal import SIGKILL

import pytest

import amounts
from dvcodec.tables import audit, open_table
from faults.conftest import Order
from faults.deletes import FIRST, GONE, delete, ids, make
from samples.id_tables import MAKERS

LEFT = {kind: {"orphan-data-file" if kind == "iceberg 2" else "orphan-vector-file"} for kind in MAKERS}
"""Findings on what a killed writer leaves; files of position deletes are named as data files are."""


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

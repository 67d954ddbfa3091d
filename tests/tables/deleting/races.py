"""Start writers that race on one table, and check the history that they leave, row for row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import amounts
from dvcodec.tables import audit
from samples.id_tables import MAKERS
from samples.rows import ids
from tables.deleting.libraries import ids_by_library
from tables.deleting.racer import WIDTH, gone_after, open_door, rows_of

TESTS = Path(__file__).parents[2]
COMMITS = amounts.of(16, 200)
"""Commits of a race."""
KINDS = [pytest.param(kind, marks=[pytest.mark.interop] if kind == "lance" else []) for kind in MAKERS]
WRITERS = (2, 8) if amounts.long else (3,)
ROWS = 2 * COMMITS + WIDTH + 40
"""Rows that a table needs for a race: some of them stay."""
FILE_ROWS = 1 + ROWS // 8
"""Rows of a data file: some files lose all their rows on the way."""


class Delete(NamedTuple):
    """A delete as its writer saw it: its number, rows deleted, conflicts on the way, and its snapshot."""

    number: int
    rows: int
    retries: int
    snapshot: int | None


class State(NamedTuple):
    """A table before a race: ids of its rows, and its snapshots."""

    ids: frozenset[int]
    history: list[int]

    @classmethod
    def of(cls, door: dict[str, Any]) -> State:
        """Read it now: tables read nothing before they have to."""
        table = open_door(door)
        return cls(frozenset(ids(table)), [info.id for info in table.snapshots()])


@dataclass(frozen=True)
class Writers:
    """Processes that wait for the start of a race."""

    started: Sequence[subprocess.Popen[str]]

    @classmethod
    def start(cls, door: dict[str, Any], writers: int, deletes: int, *, steps: bool = False) -> Writers:
        """Start processes; see `racer`."""
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
        order = {"door": door, "writers": writers, "deletes": deletes, "steps": steps}
        return cls(
            [
                subprocess.Popen(
                    [sys.executable, "-m", "tables.deleting.racer", json.dumps(order | {"writer": writer})],
                    env=os.environ | {"PYTHONPATH": path},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for writer in range(writers)
            ]
        )

    def go(self) -> None:
        """Let all begin, or take a step."""
        for one in self.started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()

    def results(self) -> list[Delete]:
        """Wait for all; return what they did, by number."""
        outputs = [one.communicate(timeout=3600)[0] for one in self.started]
        assert [one.returncode for one in self.started] == [0] * len(outputs)
        return sorted(Delete(*json.loads(line)) for output in outputs for line in output.splitlines())


def race(door: dict[str, Any], writers: int, deletes: int = COMMITS) -> list[int]:
    """Let writers race on a table of the ids 0, 1, ...; return the new snapshots, oldest first.

    Checks that each delete is in exactly one snapshot, which lost its rows and no others; that no snapshot is missing,
    none is there twice or by somebody else; that the format's library reads the same rows; and that nothing is wrong
    for the audit, and no file is left over.

    Args:
        door: how the table is opened, see `racer.open_door`.
        writers: processes.
        deletes: of all together.
    """
    before = State.of(door)
    started = Writers.start(door, writers, deletes)
    started.go()
    begun = time.monotonic()
    found = started.results()
    seconds = time.monotonic() - begun
    assert [one.number for one in found] == list(range(deletes))
    snapshots = check_history(door, before, found)
    rows = len(gone_after(deletes) & before.ids)
    assert sum(one.rows for one in found) == rows
    retries = sum(one.retries for one in found)
    name = door.get("location") or door["name"]
    print(f"\n{name}: {writers} writers, {len(snapshots)} commits, {retries} conflicts, {rows} rows, {seconds:.1f} s")
    return snapshots


def check_history(door: dict[str, Any], before: State, deletes: Sequence[Delete], *, others: bool = False) -> list[int]:
    """Check all snapshots since a table was opened; return them, oldest first.

    Args:
        door: how the table is opened.
        before: the race.
        deletes: all deletes by dvcodec.
        others: whether there were other writers: they may delete rows too, and add some that are new.
    """
    table = open_door(door)
    infos, old = table.snapshots(), before.history
    history = [info.id for info in infos]
    new = history[len(old) :]
    assert history[: len(old)] == old
    assert len({*history}) == len(history)
    if table.kind.value == "iceberg":
        assert [info.parent for info in infos[1:]] == history[:-1]
    else:
        assert history == list(range(history[0], history[-1] + 1))
    by_snapshot = {one.snapshot: one for one in deletes if one.snapshot is not None}
    assert len(by_snapshot) == len([one for one in deletes if one.rows])
    assert by_snapshot.keys() <= {*new}
    assert others or (by_snapshot.keys() == {*new} and len(new) == len(deletes))
    last = {*before.ids}
    ever = {*last}
    for snapshot in new:
        listed = ids(table, snapshot)
        now = {*listed}
        assert len(now) == len(listed)
        lost, gained = last - now, now - last
        if (one := by_snapshot.get(snapshot)) is not None:
            assert lost == rows_of(one.number, len(deletes)) & last
            assert len(lost) == one.rows
            assert not gained
        assert not gained & ever  # what was deleted stays so
        last, ever = now, ever | gained
    assert not gone_after(len(deletes)) & last
    assert others or last == before.ids - gone_after(len(deletes))
    assert ids_by_library(door) == ids(table) == sorted(last)
    findings = {one.check for one in audit(table).findings}
    if others:  # those leave files behind when they lose
        assert findings <= {"orphan-vector-file", "orphan-data-file"}
    else:
        assert not findings
        left = {file.location for file in table.stored_files()} - table.referenced()
        assert not {one for one in left if not one.endswith(".metadata.json")}  # a hundred are in the log
    return new

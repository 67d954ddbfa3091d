"""Start writers that race, and check that every delete is in once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dvcodec.tables import live_batches, open_table
from tables.deleting.racer import WIDTH

TESTS = Path(__file__).parents[2]


def race(target: str, writers: int, deletes: int, options: Mapping[str, Any] | None = None) -> list[int]:
    """Let writers race on a table with the ids 0, 1, ...; return the new snapshots, in order.

    Checks that the rows of all deletes are gone, and that no row was deleted twice.
    """
    before, given = ids(target, options), json.dumps(dict(options or {}))
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tables.deleting.racer", target, *map(str, (i, writers, deletes)), given],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(writers)
    ]
    for one in started:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    found = []
    for one in started:
        out, _ = one.communicate(timeout=600)
        assert one.returncode == 0
        found += [json.loads(line) for line in out.splitlines()]
    assert len(found) == writers * deletes
    last = writers * deletes + WIDTH - 1
    assert ids(target, options) == [number for number in before if number >= last]
    assert sum(rows for rows, _, _ in found) == sum(number < last for number in before)
    snapshots = sorted(snapshot for _, _, snapshot in found if snapshot is not None)
    assert len(set(snapshots)) == len(snapshots)
    return snapshots


def ids(target: str, options: Mapping[str, Any] | None = None) -> list[int]:
    table = open_table(target, storage_options=options)
    return sorted(number for batch in live_batches(table) for number in batch.column("id").to_pylist())

"""A writer that races with others: commits small, overlapping deletes to one table. Run as a program, once a writer.

One argument, JSON: ``door`` (see `open_door`), ``writer`` (its number), ``writers`` (how many), ``deletes`` (of all
writers together) and ``steps`` (bool). It waits for a line, so that all begin together (with `steps`, before each
delete), and prints for each of its deletes: its number, rows deleted, retries, and the snapshot.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from dvcodec.tables import Table, open_table
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting.run import run
from tables.deleting.finders import Where

WIDTH = 3
"""Rows of a delete that others delete too: the next one begins a row later."""


def rows_of(number: int, deletes: int) -> set[int]:
    """Ids that a delete is for: some that its neighbours are for too, and one that is its own."""
    return {*range(number, number + WIDTH), deletes + WIDTH + number}


def gone_after(deletes: int) -> set[int]:
    """Ids that are gone after all deletes."""
    return set().union(*(rows_of(number, deletes) for number in range(deletes)))


def open_door(door: dict[str, Any]) -> Table:
    """Open a table by ``location`` and ``options``, or by ``name`` in a ``catalog`` of pyiceberg."""
    if "catalog" in door:
        from pyiceberg.catalog import load_catalog

        from dvcodec.tables.iceberg.catalogs import from_catalog

        return from_catalog(load_catalog("races", **door["catalog"]), door["name"])
    return open_table(door["location"], storage_options=door.get("options"))


def main(door: dict[str, Any], writer: int, writers: int, deletes: int, steps: bool) -> None:
    table = open_door(door)
    if not steps:
        sys.stdin.readline()
    for number in range(writer, deletes, writers):
        if steps:
            sys.stdin.readline()
        gone = rows_of(number, deletes)
        done = run(committer_of(table), Where("id", gone.__contains__), retries=10_000)
        print(json.dumps([number, done.rows, done.retries, done.snapshot if done.committed else None]), flush=True)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))

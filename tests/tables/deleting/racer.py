"""A writer that races with others: commits small, overlapping deletes to one table. Run as a program, once a writer.

Arguments: the table; the number of this writer; of how many; deletes of each; storage options as JSON. It waits for a
line, so that all begin together, and prints for each delete its rows, retries and snapshot.
"""

from __future__ import annotations

import json
import sys

from dvcodec.tables import open_table
from dvcodec.tables.deleting import committer
from dvcodec.tables.deleting.run import run
from tables.deleting.finders import Where

WIDTH = 3
"""Rows of a delete; the next one begins a row later, so that each row is deleted by up to three writers."""


def main(target: str, writer: int, writers: int, deletes: int, options: dict[str, str]) -> None:
    table = open_table(target, storage_options=options)
    sys.stdin.readline()
    for turn in range(deletes):
        first = turn * writers + writer
        done = run(committer(table), Where("id", range(first, first + WIDTH).__contains__), retries=10_000)
        print(json.dumps([done.rows, done.retries, done.snapshot if done.committed else None]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5]))

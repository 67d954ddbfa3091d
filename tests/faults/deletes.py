"""Deletes that are committed, for a process that dies on the way: how a table is made, and what is deleted from it."""

from __future__ import annotations

from pathlib import Path

from dvcodec import RowSet
from dvcodec.tables import open_table
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting.run import run
from samples.id_tables import MAKERS
from samples.rows import ids
from tables.deleting.finders import Where

__all__ = ["FIRST", "GONE", "delete", "ids", "make"]

FIRST = RowSet.from_ranges([(0, 4), (64, 120)])
"""Ids that the table has lost before."""
GONE = RowSet.from_ranges([(50, 60), (128, 256)])
"""Ids that are deleted: some rows of one data file, all of the other."""


def make(kind: str, folder: Path) -> None:
    """Make a table of ids from 0 to 255 in two data files, one of them with a vector."""
    MAKERS[kind](folder, 256, 128)
    delete(folder, FIRST)


def delete(folder: Path, gone: RowSet = GONE) -> None:
    run(committer_of(open_table(folder)), Where("id", gone.__contains__))

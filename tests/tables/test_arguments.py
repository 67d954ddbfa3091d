"""Checks of what functions on tables are passed, and how tables and results of deletes show themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from dvcodec import RowSet, UsageError
from dvcodec.tables import delete, open_table
from dvcodec.tables.table import check_progress, check_table
from samples.iceberg_table import VECTOR, build_iceberg


def test_arguments(tmp_path: Path) -> None:
    table = open_table(build_iceberg(tmp_path / "t", VECTOR).folder)
    check_table(table)
    check_progress(None)
    check_progress(print)
    with pytest.raises(UsageError, match=r"^target must be a Table \(open_table\(folder\) opens one\), not str$"):
        check_table("t", "target")
    with pytest.raises(UsageError, match=r"^progress must be a function, not int$"):
        check_progress(5)
    with pytest.raises(UsageError, match=r"^retries must be 0 or more, not -1$"):
        delete(table, "id = 1", retries=-1)
    with pytest.raises(UsageError, match=r"or a mapping of data files to row sets, not RowSet$"):
        delete(table, positions=RowSet([1]))


def test_representations_are_short_and_say_what_was_done(tmp_path: Path) -> None:
    built = build_iceberg(tmp_path / "t", VECTOR)
    table = open_table(built.folder)
    assert repr(table) == f"<iceberg table {built.folder}>"
    done = delete(table, positions={built.paths["a"]: RowSet([4])}, dry_run=True)
    assert repr(done) == (
        "Deletion(snapshot=101, committed=False, rows=1, files=1, removed=0, retries=0, bytes_written=0, "
        "repeated=False)"
    )

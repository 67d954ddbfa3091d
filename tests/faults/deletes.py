"""Deletes that are committed, for a process that dies on the way: how a table is made, and what is deleted from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from dvcodec import RowSet
from dvcodec.tables import live_batches, open_table
from dvcodec.tables.deleting import committer
from dvcodec.tables.deleting.run import run
from samples import delta_log
from samples.paimon_table import PaimonFile, build_paimon
from tables.deleting.finders import Where

__all__ = ["GONE", "TABLES", "delete", "ids"]


def make_lance(folder: Path) -> None:
    import pyarrow as pa
    import pytest

    lance = pytest.importorskip("lance.dataset")
    lance.write_dataset(pa.table({"id": range(256)}), str(folder), max_rows_per_file=128)


def paimon_table(folder: Path) -> None:
    files = [PaimonFile(f"f{i}.parquet", pa.table({"id": range(i * 128, (i + 1) * 128)})) for i in range(2)]
    build_paimon(folder, [(0, "id", "BIGINT")], [files])


TABLES: dict[str, Callable[[Path], object]] = {
    "delta": delta_log.restored_table,
    "lance": make_lance,
    "paimon": paimon_table,
}
"""How a table of a format is made, with ids from 0 to 255 in two data files."""
GONE = RowSet.from_ranges([(50, 60), (128, 256)])
"""Ids that are deleted: some rows of one data file, all of the other."""


def delete(folder: Path) -> None:
    run(committer(open_table(folder)), Where("id", GONE.__contains__))


def ids(folder: Path) -> list[int]:
    return sorted(number for batch in live_batches(open_table(folder)) for number in batch.column("id").to_pylist())

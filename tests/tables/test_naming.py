"""Which data file a name means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.tables import open_table
from dvcodec.tables.snapshots.live import deleted_rows, live_batches
from samples import delta_log
from samples.iceberg_table import Commit, build_iceberg
from samples.memory_table import make_table

ROWS = RowSet([1, 5])


@each("name", ["a.parquet", "{}/t/a.parquet", "file:{}/t//a.parquet", "t/a.parquet", "./a.parquet"])
@each("root", ["t", "{}/t"])
def test_delta(name: str, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = open_table(root.format(delta_log.restored_table(tmp_path / "t").parent))
    if (name, root) != ("t/a.parquet", "{}/t"):
        assert deleted_rows(table, name.format(tmp_path)) == delta_log.SECOND


@pytest.mark.parametrize("name", ["{}/t/data/a", "file:{}/t/data/a", "data/a", "a"])
def test_iceberg(name: str, tmp_path: Path) -> None:
    build_iceberg(tmp_path / "t", Commit({"a": 100, "b": 100}), Commit(vectors={"a": ROWS}))
    table = open_table(str(tmp_path / "t"))
    assert deleted_rows(table, name.format(tmp_path)) == ROWS
    assert sum(batch.num_rows for batch in live_batches(table, name.format(tmp_path))) == 98


def test_errors(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    files = [replace(file, path=f"/{i}/part-0.parquet") for i, file in enumerate(table.snapshot().data_files)]
    table.states = [replace(table.snapshot(), data_files=tuple(files), vectors=())]
    assert deleted_rows(table, "/2/part-0.parquet") == RowSet()
    for name, message in {
        "part-0.parquet": r"part-0\.parquet is the name of 4 data files in snapshot 2, expected one: .* /0/part-0",
        "/1/part-1.parquet": r"no data file /1/part-1\.parquet in snapshot 2; similar: /0/part-0\.parquet, /1/part",
        "../zzz": r"no data file \.\./zzz in snapshot 2$",
    }.items():
        with pytest.raises(UsageError, match=message):
            deleted_rows(table, name)

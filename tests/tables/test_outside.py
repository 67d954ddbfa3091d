"""Nothing is written into the table that is read, whatever writes and however the path is spelled."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from cases import each
from dvcodec import UsageError, report
from dvcodec.tables import Table, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.convert import convert_table
from dvcodec.tables.snapshots.live import export_live
from dvcodec.tables.writing import check_outside
from samples.delta_log import restored_table

WRITERS: dict[str, Callable[[Table, str], object]] = {
    "export_live": export_live,
    "report": lambda table, target: report.write(target, audit(table), made=datetime.now(timezone.utc)),
    "convert_table": lambda table, target: convert_table(table, "iceberg", target),
}
INSIDE = ("t", "t/a.parquet", "./t//x", "o/../t/x", "file:{}/t/x", "link", "link/x", "t/out")


def state(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    restored_table(tmp_path / "t")
    (tmp_path / "o").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t" / "_delta_log")
    (tmp_path / "t" / "out").symlink_to(tmp_path / "o")
    return tmp_path


@pytest.mark.parametrize("writer", WRITERS)
def test_functions(writer: str, folder: Path) -> None:
    before = state(folder)
    for path in INSIDE:
        target = path.format(folder)
        with pytest.raises(UsageError, match="expected an output outside of the table t, found one in the table"):
            WRITERS[writer](open_table("t"), target)
    assert state(folder) == before
    WRITERS[writer](open_table("t"), "t2")


@each(
    ("target", "table", "inside"),
    [
        ("s3a://lake//t/x", "s3://lake/t", True),
        ("s3://lake/t", "s3://lake/t/", True),
        ("s3://lake/u/../t/x", "s3://lake/t", True),
        ("s3://lake", "s3://lake", True),
        ("s3://lake/t2/x", "s3://lake/t", False),
        ("gs://lake/t/x", "s3://lake/t", False),
        ("/lake/t/x", "s3://lake/t", False),
        ("/x", "/", True),
    ],
)
def test_urls(target: str, table: str, inside: bool) -> None:
    if inside:
        with pytest.raises(UsageError, match="found one in the table"):
            check_outside(target, table)
    else:
        check_outside(target, table)

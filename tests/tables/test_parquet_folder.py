"""Parquet files in a folder that is not a table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dvcodec import UsageError
from dvcodec.io import Storage
from dvcodec.tables.deleting.positions import list_parquet

SEEN = {"part-0.parquet", "000000_0", "_year=2024/a.parquet", "k=1/_b=2/part-0", "deep/a"}
HIDDEN = {"_SUCCESS", "_temporary/0/part-1.parquet", ".part-0.parquet.crc", "k=1/.hidden/a.parquet", "a._COPYING_"}


def test_the_files_that_spark_reads(tmp_path: Path) -> None:
    for name in SEEN | HIDDEN:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"PAR1")
    found = [file.location for file in list_parquet(str(tmp_path), Storage())]
    assert found == sorted(f"{tmp_path}/{name}" for name in SEEN)
    for name in SEEN:
        (tmp_path / name).unlink()
    assert list_parquet(str(tmp_path), Storage()) == []


def test_empty_objects_that_mark_folders() -> None:
    """A store has no folders: what marks one is an empty object, whatever its name (see tests/lake/test_store.py)."""
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name, data in {"k=1/a": b"PAR1", "k=2": b"", "k=2_$folder$": b"", "cut.parquet": b""}.items():
        memory.pipe(f"/parquet-folder/{name}", data)
    found = list_parquet("memory://parquet-folder", Storage())
    assert [file.location for file in found] == [f"memory://parquet-folder/{name}" for name in ("cut.parquet", "k=1/a")]


@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_a_linked_folder_is_refused(tmp_path: Path) -> None:
    """Spark reads what is behind it; keys or rows that are left out would be a wrong delete."""
    for name in ("t/k=1", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.parquet").touch()
    (tmp_path / "t/_hidden").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "t/b.parquet").symlink_to(tmp_path / "elsewhere/a.parquet")
    found = [file.location for file in list_parquet(str(tmp_path / "t"), Storage())]
    assert found == [str(tmp_path / "t/b.parquet"), str(tmp_path / "t/k=1/a.parquet")]
    (tmp_path / "t/k=2").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="k=2: a link to a folder, and links are not followed"):
        list_parquet(str(tmp_path / "t"), Storage())

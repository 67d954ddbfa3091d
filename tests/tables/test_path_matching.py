"""Data files by their names, and which of them a path of before means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.tables import Folder, open_table
from dvcodec.tables.metadata.file_names import PathMatcher
from dvcodec.tables.snapshots.live import deleted_rows, live_batches
from samples import delta_log
from samples.iceberg_table import Commit, build_iceberg
from samples.memory_table import make_table

PATHS = ["/new/t/data/p=1/a.parquet", "/new/t/data/p=2/a.parquet", "/new/t/data/b.parquet", "s3://other/c.parquet"]


@each(
    ("path", "meant"),
    [
        ("s3://old/t/data/p=1/a.parquet", PATHS[0]),
        ("s3://old/x/data/p=2/a.parquet", PATHS[1]),
        ("s3://old/x/p=2/a.parquet", None),
        ("data/p=2/a.parquet", PATHS[1]),
        ("s3://old/x/p=3/a.parquet", None),
        ("a.parquet", None),
        ("b.parquet", None),
        ("/elsewhere/b.parquet", None),
        ("/elsewhere/data/b.parquet", PATHS[2]),
        ("/elsewhere/metadata/b.parquet", None),
        ("/elsewhere/otherdata/b.parquet", None),
        ("/new/t/b.parquet", None),
        ("/new/t/data/x/../b.parquet", None),
        ("../data/b.parquet", None),
        ("file:/new/t/data/p=1/a.parquet", PATHS[0]),
        ("s3a://other/c.parquet", PATHS[3]),
        ("s3://third/c.parquet", None),
        ("/new/t/data/z.parquet", None),
        ("", None),
        ("/", None),
    ],
)
def test_find(path: str, meant: str | None) -> None:
    assert PathMatcher(Folder("/new/t"), PATHS).find(path) == meant


def test_without_data_files() -> None:
    assert PathMatcher(Folder("/t"), []).find("a.parquet") is None


def test_the_same_bare_name_in_another_partition_means_nothing() -> None:
    files = PathMatcher(Folder("/t", recorded="s3://lake/t"), ["s3://lake/t/data/p=2/000000_0.parquet"])
    for root in ("s3://lake/t", "/t", "hdfs://old/t"):
        assert files.find(f"{root}/data/p=1/000000_0.parquet") is None
        assert files.find(f"{root}/data/p=2/000000_0.parquet") == "s3://lake/t/data/p=2/000000_0.parquet"


def test_data_files_elsewhere() -> None:
    known = ["s3://lake/shared/data/p=1/a.parquet"]
    assert PathMatcher(Folder("/t"), known).find("/t/data/p=1/a.parquet") == known[0]
    assert PathMatcher(Folder("/t"), known).find("/t/a.parquet") is None
    assert PathMatcher(Folder("/t"), known).find("s3://old/shared/data/p=1/a.parquet") is None


def test_a_path_that_could_mean_two_files_means_none() -> None:
    files = PathMatcher(Folder("/t"), ["/t/data/a.parquet", "file:/t/data/a.parquet", "/t/x/data/b", "/t/data/b"])
    assert files.find("s3://old/data/a.parquet") is None
    assert files.find("s3://old/x/data/b") is None


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

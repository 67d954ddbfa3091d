"""Folder: where recorded paths are opened, what lies in a table's folder, which data file a path of before means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.core.errors import LimitExceeded, NotCanonical
from dvcodec.core.limits import Limits
from dvcodec.io import Storage
from dvcodec.tables import Folder, open_table
from dvcodec.tables.folder import PathMatcher
from dvcodec.tables.snapshots.live import deleted_rows
from samples import delta_log
from samples.memory_table import make_table


def test_a_recorded_path_of_another_host_is_the_metadatas_fault() -> None:
    for folder, path in (
        (Folder("/wh/t"), "file://elsewhere/x"),
        (Folder("/wh/t", recorded="file:/t"), "file://a/t/x"),
    ):
        with pytest.raises(
            NotCanonical, match=r"^/wh/t: path: expected a path, found .*a file URL must not name a host"
        ):
            folder.locate(path)


@each(
    ("path", "below", "located"),
    [
        ("part=1/a.parquet", "part=1/a.parquet", "/copy/t/part=1/a.parquet"),
        ("s3://lake/t/data/a b.parquet", "data/a b.parquet", "/copy/t/data/a b.parquet"),
        ("s3a://lake/t//data/a.parquet", "/data/a.parquet", "/copy/t//data/a.parquet"),
        ("/copy/t/a.parquet", "a.parquet", "/copy/t/a.parquet"),
        ("file:///copy/t/a%20b", "a%20b", "/copy/t/a%20b"),
        ("s3://lake/t2/a.parquet", None, "s3://lake/t2/a.parquet"),
        ("file:/else/a%20b", None, "/else/a%20b"),
        ("/else/../x/a.parquet", None, "/else/../x/a.parquet"),
        ("..a/b..", "..a/b..", "/copy/t/..a/b.."),
    ],
)
def test_recorded_paths(path: str, below: str | None, located: str) -> None:
    folder = Folder("/copy/t", recorded="s3://lake/t")
    assert (folder.below(path), folder.locate(path)) == (below, located)


@each(
    "path",
    ["../a", "..", "data/../../a", "s3://lake/t/../t2/a", "s3n://lake/t/a/..", "/copy/t/../a", "file:/copy/t/.."],
)
def test_paths_that_climb_out_of_the_folder(path: str) -> None:
    folder = Folder("/copy/t", recorded="s3://lake/t")
    for ask in (folder.below, folder.locate):
        with pytest.raises(
            NotCanonical, match=r"^/copy/t: path: expected no step \.\. below the folder, found"
        ) as caught:
            ask(path)
        assert caught.value.actual == path


@each(
    ("location", "recorded", "moved"),
    [
        ("/t", None, False),
        ("/t", "file:///t", False),
        ("/a b", "file:/a b", False),
        ("s3://lake/t", "s3a://lake/t", False),
        ("/t", "s3://lake/t", True),
    ],
)
def test_moved(location: str, recorded: str | None, moved: bool) -> None:
    assert Folder(location, recorded).moved is moved


@pytest.mark.parametrize("location", ["{}/a b", "file:{}/a%20b"])
def test_read(location: str, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    for name in ("one", "two 2"):
        (tmp_path / "a b" / name).write_text(name)
    folder = Folder(location.format(tmp_path), storage=Storage(limits=Limits(max_metadata_bytes=4)))
    assert (sorted(folder.names()), folder.names("nothing")) == (["one", "two 2"], [])
    assert folder.read("one") == b"one"
    with pytest.raises(LimitExceeded, match=r"two 2: Limits.max_metadata_bytes: expected at most 4 .*, found 5$"):
        folder.read("two 2")


def test_paths_that_are_too_long() -> None:
    folder = Folder("/t")
    assert folder.locate("s3://b/" + "a" * 8185) == "s3://b/" + "a" * 8185
    for path in ("s3://b/" + "a" * 8186, "/t/" + "a/" * 4096, "a" * 8193):
        with pytest.raises(
            NotCanonical, match=r"^/t: path: expected at most 8192 characters, found 8\d\d\d: .{80}\.\.\.$"
        ):
            folder.locate(path)
    with pytest.raises(NotCanonical, match="at most 8192"):
        folder.join("a" * 8193)


# ------------------------------------------------ data files by their names, and which of them a path of before means


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
        ("/elsewhere/otherdata/b.parquet", None),
        ("/new/t/data/x/../b.parquet", None),
        ("../data/b.parquet", None),
        ("file:/new/t/data/p=1/a.parquet", PATHS[0]),
        ("s3a://other/c.parquet", PATHS[3]),
        ("/", None),
    ],
)
def test_find(path: str, meant: str | None) -> None:
    assert PathMatcher(Folder("/new/t"), PATHS).find(path) == meant


def test_a_path_that_could_mean_two_files_means_none() -> None:
    files = PathMatcher(Folder("/t"), ["/t/data/a.parquet", "file:/t/data/a.parquet", "/t/x/data/b", "/t/data/b"])
    assert files.find("s3://old/data/a.parquet") is None
    assert files.find("s3://old/x/data/b") is None
    known = ["s3://lake/shared/data/p=1/a.parquet"]
    assert PathMatcher(Folder("/t"), known).find("/t/data/p=1/a.parquet") == known[0]
    assert PathMatcher(Folder("/t"), known).find("s3://old/shared/data/p=1/a.parquet") is None


@each("name", ["a.parquet", "{}/t/a.parquet", "file:{}/t//a.parquet", "t/a.parquet", "./a.parquet"])
@each("root", ["t", "{}/t"])
def test_delta(name: str, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = open_table(root.format(delta_log.restored_table(tmp_path / "t").parent))
    if (name, root) != ("t/a.parquet", "{}/t"):
        assert deleted_rows(table, name.format(tmp_path)) == delta_log.SECOND


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

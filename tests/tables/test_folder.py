"""Folder: where recorded paths are opened, and what lies in a table's folder, local or remote."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import fsspec
import pytest

from cases import each
from dvcodec.core.errors import LimitExceeded, NotCanonical
from dvcodec.core.limits import Limits
from dvcodec.io import Storage
from dvcodec.tables import Folder, StoredFile


def test_a_recorded_path_of_another_host_is_the_metadatas_fault() -> None:
    for folder, path in (
        (Folder("/wh/t"), "file://elsewhere/x"),
        (Folder("/wh/t", recorded="file:/t"), "file://a/t/x"),
    ):
        with pytest.raises(
            NotCanonical, match=r"^/wh/t: path: expected a path, found .*a file URL must not name a host"
        ):
            folder.locate(path)


@pytest.fixture
def remote() -> Iterator[str]:
    """The URL of an empty remote folder."""
    files, name = fsspec.filesystem("memory"), f"/{uuid.uuid4().hex}"
    files.makedirs(name)
    yield f"memory:/{name}"
    files.rm(name, recursive=True)


@pytest.fixture(params=["local", "file URL", "remote"])
def location(request: pytest.FixtureRequest, tmp_path: Path, remote: str) -> str:
    """A folder of four files, two of them below it."""
    folder = {"local": f"{tmp_path}/a b", "file URL": f"file:{tmp_path}/a%20b", "remote": remote}[request.param]
    filesystem, root = fsspec.core.url_to_fs(remote if request.param == "remote" else f"{tmp_path}/a b")
    filesystem.makedirs(f"{root}/p=1/deep")
    for name in ("one", "two 2", "p=1/three", "p=1/deep/four"):
        filesystem.pipe_file(f"{root}/{name}", name.encode())
    return folder


@each(
    ("path", "below", "located"),
    [
        ("part=1/a.parquet", "part=1/a.parquet", "/copy/t/part=1/a.parquet"),
        ("s3://lake/t/data/a b.parquet", "data/a b.parquet", "/copy/t/data/a b.parquet"),
        ("s3a://lake/t//data/a.parquet", "/data/a.parquet", "/copy/t//data/a.parquet"),
        ("/copy/t/a.parquet", "a.parquet", "/copy/t/a.parquet"),
        ("file:///copy/t/a%20b", "a%20b", "/copy/t/a%20b"),
        ("/copy/t2/a.parquet", None, "/copy/t2/a.parquet"),
        ("s3://lake/t2/a.parquet", None, "s3://lake/t2/a.parquet"),
        ("s3://lake/t", None, "s3://lake/t"),
        ("file:/else/a%20b", None, "/else/a%20b"),
        ("/else/../x/a.parquet", None, "/else/../x/a.parquet"),
        ("s3://other/../a", None, "s3://other/../a"),
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
        ("/t", "/t/", False),
        ("/t", "file:///t", False),
        ("/a b", "file:/a b", False),
        ("s3://lake/t", "s3a://lake/t", False),
        ("/t", "/u", True),
        ("/t", "s3://lake/t", True),
    ],
)
def test_moved(location: str, recorded: str | None, moved: bool) -> None:
    assert Folder(location, recorded).moved is moved


def test_names(location: str) -> None:
    folder = Folder(location)
    assert sorted(folder.names()) == ["one", "p=1", "two 2"]
    assert sorted(folder.names("p=1")) == ["deep", "three"]
    assert folder.names("nothing") == []


def test_read(location: str) -> None:
    folder = Folder(location)
    assert folder.read("two 2") == b"two 2"
    assert folder.read("p=1/deep/four") == b"p=1/deep/four"
    with pytest.raises(FileNotFoundError):
        folder.read("nothing")
    folder = Folder(location, storage=Storage(limits=Limits(max_metadata_bytes=4)))
    assert folder.read("one") == b"one"
    with pytest.raises(LimitExceeded, match=r"two 2: Limits.max_metadata_bytes: expected at most 4 .*, found 5$"):
        folder.read("two 2")


def test_walk(location: str) -> None:
    folder = Folder(location)
    found = {file.location: file for file in folder.walk()}
    names = ("one", "two 2", "p=1/three", "p=1/deep/four")
    assert found.keys() == {folder.join(name) for name in names}
    for name in names:
        file = found[folder.join(name)]
        assert file.size == len(name)
        assert file.modified_ms is not None
        assert abs(file.modified_ms / 1000 - datetime.now(timezone.utc).timestamp()) < 3600


@pytest.mark.parametrize(
    ("attributes", "modified"),
    [
        ({"LastModified": datetime(1970, 1, 1, 0, 0, 2, tzinfo=timezone.utc)}, 2000),
        ({"mtime": 1.5, "created": 9}, 1500),
        ({"last_modified": "yesterday", "created": 3}, 3000),
        ({}, None),
    ],
)
def test_times_as_stores_call_them(
    attributes: dict[str, object], modified: int | None, remote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = fsspec.filesystem("memory")
    root = remote.removeprefix("memory:/")
    monkeypatch.setattr(type(files), "find", lambda *_, **__: {f"{root}/x": {"size": 7, **attributes}, f"{root}/y": {}})
    assert list(Folder(remote).walk()) == [StoredFile(f"{remote}/x", 7, modified), StoredFile(f"{remote}/y", 0)]


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

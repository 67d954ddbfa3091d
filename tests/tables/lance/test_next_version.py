"""The namespace client that Lance's library calls to commit, called as the library does."""

from __future__ import annotations

from pathlib import Path

import pytest

from dvcodec.lance.manifest import manifest_name
from dvcodec.tables import Folder
from dvcodec.tables.lance.commit import NextVersion

BASE = 6


def client(path: Path) -> NextVersion:
    return NextVersion(Folder(str(path)), BASE, manifest_name(BASE))


def written(path: Path, data: bytes = b"the manifest") -> dict[str, object]:
    """Write a manifest under a temporary name; return the library's request to publish it."""
    file = path / "_versions" / f"{manifest_name(BASE + 1)}-1234"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return {"version": BASE + 1, "manifest_path": str(file).lstrip("/"), "id": ["t"]}


def stored(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (path / "_versions").iterdir()}


def test_a_relative_folder_and_a_link_are_told_as_the_path_from_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "link").symlink_to("t")
    monkeypatch.chdir(tmp_path)
    for name in ("t", "link"):
        (answer,) = NextVersion(Folder(name), BASE, "6.manifest").list_table_versions({})["versions"]
        assert answer["manifest_path"] == f"{tmp_path}/{name}/_versions/6.manifest".lstrip("/")


def test_keys_of_a_bucket_are_told_without_it() -> None:
    found = NextVersion(Folder("s3://bucket/t"), BASE, "6.manifest")
    answer = found.describe_table_version({"version": BASE})
    assert answer == {"version": {"version": 6, "manifest_path": "t/_versions/6.manifest"}}


def test_the_written_manifest_is_published_once(tmp_path: Path) -> None:
    found = client(tmp_path)
    answer = found.create_table_version(written(tmp_path))
    name = manifest_name(7)
    assert answer == found.describe_table_version({"version": 7})
    assert answer["version"]["manifest_path"] == str(tmp_path / "_versions" / name).lstrip("/")
    assert stored(tmp_path) == {name: b"the manifest"}
    with pytest.raises(RuntimeError, match="one version only"):
        found.create_table_version(written(tmp_path, b"another"))
    assert found.settle() is True
    assert stored(tmp_path)[name] == b"the manifest"


def test_after_settling_nothing_is_published(tmp_path: Path) -> None:
    """A thread of the library that comes late must not commit what was reported as not committed."""
    found = client(tmp_path)
    assert found.settle() is False
    with pytest.raises(RuntimeError, match="one version only"):
        found.create_table_version(written(tmp_path))
    assert manifest_name(7) not in stored(tmp_path)
    assert found.settle() is False

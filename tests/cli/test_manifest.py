"""dvcodec manifest: Paimon's index manifest, Lance's manifest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli_runner import run
from dvcodec import RowSet, lance, paimon

ROWS = {"data-1.parquet": RowSet([1, 2, 3]), "data-2.parquet": RowSet([7])}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A Paimon table of one index file; returns the index manifest."""
    (tmp_path / "index").mkdir()
    (tmp_path / "manifest").mkdir()
    (file,) = paimon.write_index_files(str(tmp_path / "index"), ROWS, layout="bitmap64")
    hashes = paimon.IndexManifestEntry(paimon.HASH, "hashes", 8, 2, bucket=3)
    (tmp_path / "index" / "hashes").write_bytes(paimon.encode_hash_index([1, -1]))
    path = tmp_path / "manifest" / "index-manifest-1"
    paimon.write_index_manifest(path, [paimon.IndexManifestEntry.from_index_file(file), hashes])
    return path


def index_file(table: Path) -> Path:
    return next((table.parents[1] / "index").glob("index-*"))


def test_index_manifest(table: Path) -> None:
    result = run("manifest", table, "--check")
    assert (result.code, result.err) == (0, "")
    assert "Paimon index manifest, 2 index files" in result.out
    assert "2 index files, 2 vectors, all valid" in result.out
    shown = run("manifest", table, "--json").json
    assert [entry["index_type"] for entry in shown["entries"]] == ["DELETION_VECTORS", "HASH"]
    assert shown["entries"][0]["vectors"][1] == {
        "data_file": "data-2.parquet",
        "offset": 47,
        "length": 42,
        "cardinality": 1,
    }
    assert shown["entries"][0]["partition"] == "00" * 12
    assert "findings" not in shown


def test_check_finds_a_damaged_vector_a_missing_file_and_a_partial_hash(table: Path) -> None:
    path = index_file(table)
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    result = run("manifest", table, "--check")
    assert result.code == 1
    assert f"FAIL  vector: {path.name}: vector of data-2.parquet at byte 85: CRC-32" in result.out
    path.unlink()
    (table.parents[1] / "index" / "hashes").write_bytes(b"\0\0\0\1\0")
    found = run("manifest", table, "--check", "--json").json["findings"]
    assert [(item["name"], item["status"]) for item in found] == [("index-file", "fail"), ("index-file", "fail")]
    assert run("manifest", table).code == 0


def test_manifest_elsewhere_cannot_be_checked(table: Path, tmp_path: Path) -> None:
    shutil.copy(table, tmp_path / "alone")
    assert run("manifest", tmp_path / "alone").code == 0
    result = run("manifest", tmp_path / "alone", "--check")
    assert result.code == 2
    assert "expected a manifest in a folder 'manifest'" in result.complaint


def test_lance_dataset(vectors: Path) -> None:
    result = run("manifest", vectors / "lance" / "array", "--check")
    assert result.code == 0
    assert "Lance manifest, version 2, 2 fragments, stable row ids, next 102, by lance 14.0.2" in result.out
    assert "2 fragments, all valid" in result.out
    there = (vectors / "lance" / "array").as_uri()
    assert run("manifest", there).out.partition("  ")[2] == run("manifest", there[7:]).out.partition("  ")[2]
    assert run("manifest", run("manifest", there, "--json").json["source"]).code == 0, "a manifest by itself"
    shown = run("manifest", vectors / "lance" / "array", "--version", "1", "--json").json
    assert (shown["version"], len(shown["fragments"])) == (1, 1)
    assert shown["fragments"][0]["row_ids"] == {
        "count": 100,
        "first": 0,
        "last": 99,
        "segments": ["Range"],
        "size": 6,
    }


def test_check_finds_a_lost_deletion_file_and_the_ids_that_come_back(vectors: Path, tmp_path: Path) -> None:
    folder = tmp_path / "array"
    shutil.copytree(vectors / "lance" / "array", folder)
    for path in (folder / "_deletions").iterdir():
        path.unlink()
    found = run("manifest", folder, "--check", "--json")
    assert found.code == 1
    assert [item["name"] for item in found.json["findings"]] == ["deletion-file", "overlap"]
    assert lance.find_manifest(str(folder)).endswith(found.json["source"].rpartition("/")[2])


@pytest.mark.parametrize(
    ("name", "said"),
    [("missing", "No such file"), ("text", "expected Paimon's index manifest"), ("empty", "found no bytes")],
)
def test_invalid_manifests_are_refused(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello, world")
    (tmp_path / "empty").write_bytes(b"")
    result = run("manifest", tmp_path / name)
    assert result.code == 2
    assert said in result.complaint


def test_version_that_is_not_there(vectors: Path) -> None:
    result = run("manifest", vectors / "lance" / "array", "--version", "9")
    assert result.code == 2
    assert "no version 9" in result.complaint

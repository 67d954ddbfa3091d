"""dvcodec inspect and verify of Paimon's index manifests and Lance's manifests."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli_runner import run
from dvcodec import RowSet, lance, paimon
from samples.lance import Seg, field, message, scalar

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


def findings(manifest: Path) -> list[dict[str, Any]]:
    """The checks that failed."""
    result = run("verify", manifest, "--json")
    assert result.code == 1
    (report,) = result.json
    return [check for check in report["checks"] if check["status"] == "fail"]


def index_file(table: Path) -> Path:
    return next((table.parents[1] / "index").glob("index-*"))


def test_index_manifest(table: Path) -> None:
    result = run("inspect", table)
    assert (result.code, result.err) == (0, "")
    assert "Paimon index manifest, 2 index files" in result.out
    result = run("verify", table)
    assert (result.code, result.err) == (0, "")
    assert "paimon-index-manifest, 3 checks passed" in result.out
    (shown,) = run("inspect", table, "--json").json
    assert [entry["index_type"] for entry in shown["entries"]] == ["DELETION_VECTORS", "HASH"]
    assert shown["entries"][0]["vectors"][1] == {
        "data_file": "data-2.parquet",
        "offset": 47,
        "length": 42,
        "cardinality": 1,
    }
    assert shown["entries"][0]["partition"] == "00" * 12


def test_check_finds_a_damaged_vector_a_missing_file_and_a_partial_hash(table: Path) -> None:
    path = index_file(table)
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    result = run("verify", table)
    assert result.code == 1
    assert f"FAIL  vector: {path.name}: vector of data-2.parquet at byte 85: CRC-32" in result.out
    path.unlink()
    (table.parents[1] / "index" / "hashes").write_bytes(b"\0\0\0\1\0")
    found = findings(table)
    assert [(item["name"], item["status"]) for item in found] == [("index-file", "fail"), ("index-file", "fail")]
    assert f"index-file: {path.name}: No such file or directory: expected a file" in run("verify", table).out
    assert run("inspect", table).code == 0


def test_manifest_elsewhere_cannot_be_verified(table: Path, tmp_path: Path) -> None:
    alone = tmp_path / "index-manifest-1"
    shutil.copy(table, alone)
    assert run("inspect", alone).code == 0
    result = run("verify", alone)
    assert result.code == 2
    assert "expected a manifest in a folder 'manifest'" in result.complaint


def test_lance_dataset(vectors: Path) -> None:
    manifest = lance.find_manifest(str(vectors / "lance" / "array"))
    result = run("inspect", manifest)
    assert result.code == 0
    assert "Lance manifest, version 2, 2 fragments, stable row ids, next 102, by lance 14.0.2" in result.out
    result = run("verify", manifest)
    assert result.code == 0
    assert "lance-manifest, 10 checks passed" in result.out
    there = Path(manifest).as_uri()
    assert run("inspect", there).out.partition("  ")[2] == run("inspect", manifest).out.partition("  ")[2]
    assert run("verify", there).code == 0
    (shown,) = run("inspect", lance.find_manifest(str(vectors / "lance" / "array"), 1), "--json").json
    assert (shown["version"], len(shown["fragments"])) == (1, 1)
    assert shown["fragments"][0]["row_ids"] == {
        "count": 100,
        "first": 0,
        "last": 99,
        "segments": ["Range"],
        "size": 6,
    }


def test_a_lost_deletion_file_and_the_ids_that_come_back(vectors: Path, tmp_path: Path) -> None:
    folder = tmp_path / "array"
    shutil.copytree(vectors / "lance" / "array", folder)
    for path in (folder / "_deletions").iterdir():
        path.unlink()
    found = findings(Path(lance.find_manifest(str(folder))))
    assert [item["name"] for item in found] == ["deletion-file", "overlap"]


def test_partitions_and_external_files(table: Path, tmp_path: Path) -> None:
    """An entry that removes a file says so; a file elsewhere is shown by its path."""
    entry, hashes = paimon.read_index_manifest(table)
    outside, partition = str(tmp_path / "elsewhere" / entry.file_name), bytes(range(12))
    entries = [
        replace(entry, external_path=outside, partition=partition),
        replace(hashes, kind="DELETE", file_name="gone", row_count=9),
    ]
    paimon.write_index_manifest(other := tmp_path / "manifest" / "index-manifest-2", entries)
    shown = run("inspect", other)
    assert shown.code == 0
    for said in (outside, "HASH (DELETE)", partition.hex()):
        assert said in shown.out


def test_counts_that_disagree(table: Path) -> None:
    entry, hashes = paimon.read_index_manifest(table)
    paimon.write_index_manifest(table, [replace(entry, row_count=5), hashes])
    (found,) = findings(table)
    assert (found["name"], found["expected"], found["actual"]) == ("row-count", "2 (vectors)", "5")


class TestLanceSequences:
    """Of fragments that hold them in the manifest."""

    VERSIONS: bytes = message(
        "VersionSequence", runs=[message("VersionRun", span=Seg("range", 0, 4).message(), version=6)]
    ).SerializeToString()

    @staticmethod
    def written(tmp_path: Path, **sequences: bytes) -> Path:
        """A manifest of one fragment of four rows."""
        (tmp_path / "_versions").mkdir()
        fragment = message("DataFragment", id=5, physical_rows=4, **sequences)
        flags = 2 if "row_ids" in sequences else 0
        manifest = message("Manifest", fragments=[fragment], version=3, next_row_id=4, reader_flags=flags)
        body = manifest.SerializeToString()
        path = tmp_path / "_versions" / "3.manifest"
        path.write_bytes(struct.pack("<I", len(body)) + body + struct.pack("<qhh4s", 0, 0, 2, b"LANC"))
        return path

    def test_of_ids_that_cannot_be_read(self, tmp_path: Path) -> None:
        """They are shown as what is wrong with them, and the check fails."""
        path = self.written(tmp_path, row_ids=b"\x0a\xff")
        shown = run("inspect", path, "--json")
        (fragment,) = shown.json[0]["fragments"]
        assert shown.code == 0
        assert fragment["row_ids"].keys() == {"error"}
        assert fragment["row_ids"]["error"] in " ".join(run("inspect", path).out.split())
        result = run("verify", path)
        assert result.code == 1
        assert "FAIL  sequence: fragment 5" in result.out

    @pytest.mark.parametrize("name", ["created", "updated"])
    def test_of_versions_that_cannot_be_read(self, tmp_path: Path, name: str) -> None:
        """The command does not show them: only the check reads them."""
        path = self.written(tmp_path, **{name: self.VERSIONS[:-3]})
        assert run("inspect", path).code == 0
        (found,) = findings(path)
        assert (found["name"], found["status"]) == ("sequence", "fail")


def test_fragments_that_share_a_deletion_file(tmp_path: Path) -> None:
    """It is read once, and each of the others is a finding."""
    (tmp_path / "_deletions").mkdir()
    number = lance.write_deletion_file(str(tmp_path), RowSet([1]), fragment=0, read_version=1, kind="bin")
    file = scalar(1, 1) + scalar(2, 1) + scalar(3, number.id)
    body = field(2, field(3, file)) * 3
    (tmp_path / "_versions").mkdir()
    path = tmp_path / "_versions" / "1.manifest"
    path.write_bytes(len(body).to_bytes(4, "little") + body + bytes(8) + bytes((0, 0, 2, 0)) + b"LANC")
    found = [item for item in findings(path) if item["name"] == "deletion-file"]
    assert [item["subject"] for item in found] == ["fragment 0"] * 2
    assert all(item["expected"] == "one of its own" for item in found)

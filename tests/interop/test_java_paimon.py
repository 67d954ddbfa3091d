"""Paimon's Java: the same bytes, and each reads what the other wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import amounts
from dvcodec import RowSet, paimon
from dvcodec.paimon import DeletionVectorMeta, IndexManifestEntry
from interop.cases import Positions, row_sets
from interop.driver import JavaPaimon
from interop.expect import assert_read

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def cases() -> list[Positions]:
    return row_sets(amounts.of(1_000, 10_000), seed=31)


@pytest.fixture(scope="module")
def low(cases: list[Positions]) -> list[Positions]:
    """The same below 2**31, the positions that fit a 32-bit vector."""
    return [rows[rows < 2**31] for rows in cases]


def differing(ours: list[bytes], theirs: list[bytes]) -> list[int]:
    return [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]


def test_64_bit_vectors_equal_javas(paimon_newest: JavaPaimon, cases: list[Positions]) -> None:
    theirs = paimon_newest.encode("paimon64", cases)
    assert differing([paimon.encode(RowSet(case), layout="bitmap64") for case in cases], theirs) == []
    assert all(paimon.decode(data) == RowSet(case) for case, data in zip(cases[::20], theirs[::20], strict=True))
    # Positions come from `forEach`, as in Paimon's own use of the bitmap.
    assert_read(paimon_newest.decode("paimon64", theirs), cases, for_each=True)


def test_32_bit_vectors_equal_javas(paimon_newest: JavaPaimon, low: list[Positions]) -> None:
    ours = [paimon.encode(RowSet(case)) for case in low]
    assert differing(ours, paimon_newest.encode("paimon32", low)) == []
    assert_read(paimon_newest.decode("paimon32", ours), low)
    plain = [paimon.encode(RowSet(case), run_optimize=False) for case in low[::10]]
    assert_read(paimon_newest.decode("paimon32", plain), low[::10])


def index_cases(low: list[Positions], cases: list[Positions]) -> list[dict[str, Any]]:
    """What index files are made of: both kinds, some target sizes, none and many vectors."""
    found: list[dict[str, Any]] = []
    for bits, sets in ((32, low), (64, cases)):
        chosen = [rows for rows in sets[7:200] if len(rows) < 5000 and (not len(rows) or rows[-1] < 2**40)][:40]
        vectors = [{"data_file": f"data-{i}.parquet", "positions": rows.tolist()} for i, rows in enumerate(chosen)]
        found += [
            {"name": f"{bits}-{target}", "bits": bits, "target_size": target, "vectors": vectors}
            for target in (None, 1, 100, 5000, 2 * 1024 * 1024)
        ]
        found.append({"name": f"{bits}-none", "bits": bits, "target_size": None, "vectors": []})
    return found


def row_sets_of(case: dict[str, Any]) -> dict[str, RowSet]:
    return {vector["data_file"]: RowSet(vector["positions"]) for vector in case["vectors"]}


def metas(file: dict[str, Any]) -> tuple[DeletionVectorMeta, ...]:
    return tuple(
        DeletionVectorMeta(item["data_file"], item["offset"], item["length"], item["cardinality"])
        for item in file["vectors"]
    )


def write_ours(case: dict[str, Any], folder: Path) -> list[paimon.IndexFile]:
    vectors, bits = row_sets_of(case), case["bits"]
    if case["target_size"] is not None:
        return paimon.write_index_files(str(folder), vectors, layout=f"bitmap{bits}", target_size=case["target_size"])
    path = folder / case["name"]
    written = paimon.write_deletion_vectors(path, vectors, layout=f"bitmap{bits}")
    found = tuple(map(DeletionVectorMeta.from_location, written))
    return [paimon.IndexFile(str(path), path.stat().st_size, found)]


def test_index_files_equal_javas(
    paimon_newest: JavaPaimon, cases: list[Positions], low: list[Positions], tmp_path: Path
) -> None:
    wanted = index_cases(low, cases)
    (tmp_path / "cases.json").write_text(json.dumps(wanted))
    (tmp_path / "java").mkdir()
    (tmp_path / "ours").mkdir()
    reports = paimon_newest.run_json("index-write", tmp_path / "cases.json", tmp_path / "java")
    specs: list[dict[str, Any]] = []
    for case, report in zip(wanted, reports, strict=True):
        files = write_ours(case, tmp_path / "ours")
        assert len(files) == len(report["files"]), case["name"]
        for ours, theirs in zip(files, report["files"], strict=True):
            path = tmp_path / "java" / theirs["file_name"]
            assert Path(ours.path).read_bytes() == path.read_bytes()
            assert ours.file_size == theirs["file_size"]
            assert ours.vectors == metas(theirs)
            assert theirs["row_count"] == len(ours.vectors)
            vectors = row_sets_of(case)
            assert paimon.read_deletion_vectors(path, metas(theirs)) == {
                meta.data_file: vectors[meta.data_file] for meta in ours.vectors
            }
            readers = ("scan", "maintenance", "maintenance-one")
            specs += [{"file": ours.path, "reader": reader, "vectors": theirs["vectors"]} for reader in readers]
    (tmp_path / "spec.json").write_text(json.dumps(specs))
    vectors_of = {case["bits"]: row_sets_of(case) for case in wanted if case["vectors"]}
    for spec, read in zip(specs, paimon_newest.run_json("index-read", tmp_path / "spec.json"), strict=True):
        for vector in read["vectors"]:
            assert "error" not in vector, (spec, vector)
            rows = vectors_of[64 if "64" in vector["class"] else 32][vector["data_file"]]
            assert vector["positions"] == rows.to_numpy().tolist()


ENTRIES = [
    IndexManifestEntry(
        "DELETION_VECTORS",
        "index-1",
        99,
        2,
        vectors=(DeletionVectorMeta("a", 1, 42, 3), DeletionVectorMeta("b", 51, 20)),
    ),
    IndexManifestEntry("DELETION_VECTORS", "index-2", 1, 0, bucket=7, vectors=()),
    IndexManifestEntry("HASH", "index-3", 268, 67, bucket=3, external_path="s3://elsewhere/index-3"),
]


def java_form(entry: IndexManifestEntry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "partition_hex": entry.partition.hex(),
        "bucket": entry.bucket,
        "index_file": {
            "index_type": entry.index_type,
            "file_name": entry.file_name,
            "file_size": entry.file_size,
            "row_count": entry.row_count,
            "vectors": entry.vectors
            and [
                {"data_file": m.data_file, "offset": m.offset, "length": m.length, "cardinality": m.cardinality}
                for m in entry.vectors
            ],
            "external_path": entry.external_path,
        },
    }


@pytest.mark.parametrize("codec", ["zstandard", "deflate", "snappy", "null"])
def test_java_reads_our_index_manifests(
    paimon_newest: JavaPaimon, paimon_0_9: JavaPaimon, codec: str, tmp_path: Path
) -> None:
    path = tmp_path / "index-manifest-1"
    paimon.write_index_manifest(path, ENTRIES, codec=codec)
    (read,) = paimon_newest.run_json("manifest-read", path)
    expected = [java_form(entry) for entry in ENTRIES]
    expected[1]["index_file"]["vectors"] = []
    assert read["entries"] == expected
    (old,) = paimon_0_9.run_json("manifest-read", path)
    assert [entry["index_file"]["file_name"] for entry in old["entries"]] == ["index-1", "index-2", "index-3"]
    assert [vector["offset"] for vector in old["entries"][0]["index_file"]["vectors"]] == [1, 51]


@pytest.mark.parametrize("version", ["newest", "0_9"])
def test_we_read_javas_index_manifests(
    paimon_newest: JavaPaimon, paimon_0_9: JavaPaimon, version: str, tmp_path: Path
) -> None:
    java = paimon_newest if version == "newest" else paimon_0_9
    is_old = version == "0_9"
    files = [java_form(entry)["index_file"] for entry in ENTRIES]
    for file in files if is_old else []:
        file["external_path"] = None
        for vector in file["vectors"] or []:
            vector["cardinality"] = None
    entries = [
        {"kind": "ADD", "partition": partition, "bucket": i, "index_file": file}
        for i, (file, partition) in enumerate(zip(files, ([], ["x1", 7], ["longer-partition", None]), strict=True))
    ]
    compressions = [None] if is_old else [None, "null", "deflate", "snappy"]
    wanted = [
        {"name": f"m{i}", "compression": compression, "bucket_mode": None, "previous": None, "entries": entries}
        for i, compression in enumerate(compressions)
    ]
    (tmp_path / "cases.json").write_text(json.dumps(wanted))
    for report in java.run_json("manifest-write", tmp_path / "cases.json", tmp_path):
        assert "error" not in report, report
        found = paimon.read_index_manifest(tmp_path / report["file_name"])
        assert [java_form(entry)["partition_hex"] for entry in found] == [e["partition_hex"] for e in report["entries"]]
        for entry, file in zip(found, files, strict=True):
            ours = java_form(entry)["index_file"]
            assert ours | {"vectors": ours["vectors"] or None} == file | {"vectors": file["vectors"] or None}

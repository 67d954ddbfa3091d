"""Puffin files held against the manifests, each check by its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dvcodec import DecodeError, RowSet, iceberg
from dvcodec.io import Storage
from dvcodec.puffin import PuffinWriter, rewrite_paths
from dvcodec.tables import DeletionVector, Folder
from dvcodec.tables.findings import Finding
from dvcodec.tables.iceberg.container import check_vectors
from dvcodec.tables.path_matching import PathMatcher

ROWS = {"/t/data/a.parquet": RowSet([1, 2]), "/t/data/b.parquet": RowSet([3, 4])}


def check(path: str, vectors: list[DeletionVector]) -> list[Finding]:
    return list(check_vectors(path, vectors, Storage(), PathMatcher(Folder("/t"), ROWS)))


@pytest.fixture
def made(tmp_path: Path) -> tuple[str, list[DeletionVector]]:
    path = str(tmp_path / "v.puffin")
    return path, [
        DeletionVector("iceberg", at.data_file, path, path, at.offset, at.size, at.cardinality, at.file_size)
        for at in iceberg.write_deletion_vectors(path, ROWS)
    ]


def failed(path: str, vectors: list[DeletionVector]) -> list[tuple[str, str]]:
    return [(finding.check, str(finding.data_file)) for finding in check(path, vectors)]


def test_a_valid_file(made: tuple[str, list[DeletionVector]]) -> None:
    path, vectors = made
    assert check(path, vectors) == []


def test_blobs_that_no_record_names_are_fine(made: tuple[str, list[DeletionVector]]) -> None:
    path, vectors = made
    assert failed(path, vectors[:1]) == []


def test_a_second_vector_of_a_data_file_that_no_record_names(tmp_path: Path) -> None:
    path = str(tmp_path / "v.puffin")
    blobs = []
    with PuffinWriter(path) as writer:
        for name in ("/t/data/a.parquet", "file:/t/data//a.parquet"):
            properties = {"referenced-data-file": name, "cardinality": "2"}
            data = iceberg.encode(RowSet([1, 2]))
            blobs.append(
                writer.add(
                    "deletion-vector-v1", data, fields=[], snapshot_id=-1, sequence_number=-1, properties=properties
                )
            )
    first = DeletionVector("iceberg", "/t/data/a.parquet", path, path, blobs[0].offset, blobs[0].length, 2)
    assert failed(path, [first]) == [("one-vector-per-file", "None")]


def test_swapped_records(made: tuple[str, list[DeletionVector]]) -> None:
    """Two vectors of equal cardinality and size: only the blob's own property decides."""
    path, (one, two) = made
    swapped = [replace(one, offset=two.offset), replace(two, offset=one.offset)]
    assert failed(path, swapped) == [
        ("referenced-data-file", one.data_file),
        ("referenced-data-file", two.data_file),
    ]


def test_a_stale_path(made: tuple[str, list[DeletionVector]]) -> None:
    path, vectors = made
    rewrite_paths(path, path, lambda old: f"/older{old}")
    names = [name for name, _ in failed(path, vectors)]
    assert names == ["stale-blob-path", "stale-blob-path"]


def test_other_spellings_of_a_path(made: tuple[str, list[DeletionVector]]) -> None:
    path, vectors = made
    assert failed(path, [replace(one, data_file=f"file://{one.data_file}") for one in vectors]) == []


def test_a_wrong_range(made: tuple[str, list[DeletionVector]]) -> None:
    path, (one, two) = made
    assert one.size is not None
    found = check(path, [replace(one, size=one.size - 1), replace(two, offset=9)])
    assert [(finding.check, finding.actual) for finding in found] == [
        ("blob-at-range", f"{one.size} bytes there"),
        ("blob-at-range", "no blob there"),
    ]


def test_a_wrong_count(made: tuple[str, list[DeletionVector]]) -> None:
    path, (one, two) = made
    assert failed(path, [replace(one, cardinality=3), two]) == [("blob-cardinality", one.data_file)]


def test_two_records_of_one_range(made: tuple[str, list[DeletionVector]]) -> None:
    path, (one, _) = made
    other = replace(one, data_file="/t/data/c.parquet")
    assert failed(path, [one, other]) == [("referenced-data-file", "/t/data/c.parquet")]


def test_missing_records_are_reported(made: tuple[str, list[DeletionVector]]) -> None:
    path, (one, _) = made
    names = [name for name, _ in failed(path, [replace(one, offset=None, size=None, data_file=None)])]
    assert names == ["blob-at-range"]


def test_a_damaged_footer(made: tuple[str, list[DeletionVector]]) -> None:
    path, vectors = made
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[:-1] + b"x")
    with pytest.raises(DecodeError, match=r"v\.puffin"):
        check(path, vectors)


def test_position_deletes_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    vector = DeletionVector("position-deletes", None, str(path), str(path), size=8, file_size=8)
    assert check(str(path), [vector]) == []

"""Vectors and position deletes, and Puffin files held against the manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from cases import each
from dvcodec import RowSet, iceberg
from dvcodec.core.errors import (
    CardinalityMismatch,
    DecodeError,
    NotCanonical,
    Truncated,
    Unsupported,
)
from dvcodec.io import Storage
from dvcodec.puffin import PuffinWriter, rewrite_paths
from dvcodec.tables import DeletionVector, Folder
from dvcodec.tables.folder import PathMatcher
from dvcodec.tables.iceberg import open as open_iceberg
from dvcodec.tables.iceberg.deletes import check_vectors, read_deletes
from dvcodec.tables.snapshots.findings import Finding
from samples.iceberg_table import VECTOR, altered, build_iceberg


@each(
    ("change", "error", "match"),
    [
        ({"record_count": 3}, CardinalityMismatch, "cardinality: expected 3"),
        ({"content_offset": 5}, DecodeError, "vectors-1-0.puffin at byte"),
        ({"content_offset": -1}, Truncated, "byte range"),
        ({"content_offset": 2**62}, Truncated, "byte range"),
        ({"content_size_in_bytes": 2**62}, Truncated, "byte range"),
        ({"content_size_in_bytes": -4}, Truncated, "byte range"),
        ({"content_size_in_bytes": None}, NotCanonical, "found no content_size_in_bytes"),
        ({"content_offset": None}, NotCanonical, "found no content_offset"),
        ({"referenced_data_file": None}, NotCanonical, "found no referenced_data_file"),
        ({"key_metadata": b"key"}, Unsupported, "expected no encryption"),
        ({"sequence_number": 0}, NotCanonical, "at least 1, that of the data file, found 0"),
    ],
)
def test_a_wrong_record_of_a_vector(
    tmp_path: Path, change: dict[str, Any], error: type[DecodeError], match: str
) -> None:
    snapshot = open_iceberg(build_iceberg(tmp_path, VECTOR, tweak_entry=altered(change, content=1)).folder).snapshot()
    (vector,) = snapshot.vectors
    with pytest.raises(error, match=match):
        snapshot.read(vector)


def test_a_vector_in_a_file_that_is_not_puffin(tmp_path: Path) -> None:
    """Bare blobs, and files of Delta, stand under the format name of Puffin."""
    rows = RowSet([1, 2, 17])
    blob = iceberg.encode(rows)
    for name, head in (("bare", b""), ("delta", b"\x01")):
        change = {"content_offset": len(head), "content_size_in_bytes": len(blob), "record_count": 3}
        change["file_size_in_bytes"] = len(head + blob)
        made = build_iceberg(tmp_path / name, VECTOR, tweak_entry=altered(change, content=1))
        snapshot = open_iceberg(made.folder).snapshot()
        (vector,) = snapshot.vectors
        Path(vector.location).write_bytes(head + blob)
        (found,) = snapshot.read(vector)
        assert found.rows == rows
        assert list(snapshot.check_container(vector.location, [vector])) == []


FORMATS = ("parquet", "avro", "orc")
PATHS = ["/t/b", "/t/a", "/t/b", "/t/b"]
POSITIONS = [7, 2**40, 0, 7]


def write(path: Path, file_format: str, columns: Mapping[str, list[Any]]) -> str:
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    if file_format == "parquet":
        pq.write_table(table, path, row_group_size=2)
    elif file_format == "orc":
        orc.write_table(table, path)
    else:
        kinds = {name: "long" if pa.types.is_integer(table[name].type) else "string" for name in columns}
        fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds.items()]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "d", "fields": fields}, table.to_pylist())
    return str(path)


@pytest.mark.parametrize("file_format", FORMATS)
def test_what_is_read(tmp_path: Path, file_format: str) -> None:
    path = write(tmp_path / "d", file_format, {"file_path": PATHS, "pos": POSITIONS, "row": ["x"] * 4})
    found = read_deletes(path, file_format, 4, Storage())
    assert found.rows == {"/t/b": RowSet([0, 7]), "/t/a": RowSet([2**40])}
    assert found.count == 4
    assert found.cost >= 4
    with pytest.raises(CardinalityMismatch, match=r"/d: record_count: expected 5 \(manifest\), found 4 rows"):
        read_deletes(path, file_format, 5, Storage())


@each("file_format", FORMATS)
@each(
    "columns",
    [
        {"file_path": PATHS},
        {"pos": POSITIONS},
        {"file_path": PATHS, "pos": [1, 2, -3, 4]},
        {"file_path": PATHS, "pos": [1, None, 3, 4]},
        {"file_path": ["a", None, "b", "c"], "pos": POSITIONS},
        {"file_path": PATHS, "pos": PATHS},
        {"file_path": POSITIONS, "pos": POSITIONS},
    ],
)
def test_other_columns(tmp_path: Path, file_format: str, columns: Mapping[str, list[Any]]) -> None:
    path = write(tmp_path / "d", file_format, columns)
    with pytest.raises(NotCanonical, match="/d"):
        read_deletes(path, file_format, 4, Storage())


def test_another_format(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="x: format of position deletes: expected parquet, avro, orc, found lance"):
        read_deletes("x", "lance", 4, Storage())


# ---------------------------------------------------- puffin files held against the manifests, each check by its name


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


def described(
    path: str, *footer: dict[str, str], kind: str = "deletion-vector-v1", number: int = -1
) -> list[DeletionVector]:
    """Write vectors of two rows of a, with a footer that describes them so."""
    with PuffinWriter(path) as writer:
        blobs = [
            writer.add(
                kind,
                iceberg.encode(RowSet([1, 2])),
                fields=[],
                snapshot_id=number,
                sequence_number=number,
                properties={name.replace("_", "-"): value for name, value in properties.items()},
            )
            for properties in footer
        ]
    return [DeletionVector("iceberg", "/t/data/a.parquet", path, path, one.offset, one.length, 2) for one in blobs]


A, TWO = {"referenced_data_file": "/t/data/a.parquet"}, {"cardinality": "2"}


@each(
    ("footer", "more", "found"),
    [
        (A | TWO, {}, []),
        (A | TWO, {"kind": "delete-vector-v1"}, [("blob-type", "deletion-vector-v1", "delete-vector-v1")]),
        (A | TWO, {"kind": "statistics"}, [("blob-type", "deletion-vector-v1", "statistics")]),
        (A | TWO, {"number": 7}, [("blob-ids", "-1, -1", "7, 7")]),
        (TWO, {}, [("blob-properties", "referenced-data-file and cardinality", "no referenced-data-file")]),
        (A, {}, [("blob-properties", "referenced-data-file and cardinality", "no cardinality")]),
        (A | {"cardinality": "two"}, {}, [("blob-properties", "a decimal number", "'two'")]),
        (A | {"cardinality": "3"}, {}, [("blob-cardinality", "2", "3")]),
    ],
)
def test_what_the_footer_says_of_a_vector(
    footer: dict[str, str], more: dict[str, Any], found: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    path = str(tmp_path / "v.puffin")
    (vector,) = described(path, footer, **more)
    findings = check(path, [vector])
    assert [(one.check, one.expected, one.actual) for one in findings] == found
    assert all((one.vectors, one.data_file) == ((vector,), "/t/data/a.parquet") for one in findings)


def test_records_held_against_the_footer(made: tuple[str, list[DeletionVector]], tmp_path: Path) -> None:
    """Of two vectors of equal cardinality and size, only the blob's own property decides which is which."""
    path, (one, two) = made
    assert one.size is not None
    other = replace(one, data_file="/t/data/c.parquet")
    mixed = "referenced-data-file"
    cases: list[tuple[list[DeletionVector], list[tuple[str, DeletionVector, Any]]]] = [
        ([one, two], []),
        ([replace(one, data_file=f"file://{one.data_file}"), two], []),
        (
            [replace(one, offset=two.offset), replace(two, offset=one.offset)],
            [(mixed, one, two.data_file), (mixed, two, one.data_file)],
        ),
        ([one, other], [(mixed, other, one.data_file)]),
        ([replace(one, size=one.size - 1)], [("blob-at-range", one, f"{one.size} bytes there")]),
        ([replace(two, offset=9)], [("blob-at-range", two, "no blob there")]),
    ]
    for vectors, found in cases:
        findings = [(finding.check, finding.data_file, finding.actual) for finding in check(path, vectors)]
        assert findings == [(name, vector.data_file, actual) for name, vector, actual in found]
    rewrite_paths(path, path, lambda old: f"/older{old}")
    assert [finding.check for finding in check(path, [one, two])] == ["stale-blob-path"] * 2
    # of two vectors of a data file, the snapshot reports those that it has itself
    twice = str(tmp_path / "twice.puffin")
    vectors = described(twice, A | TWO, {"referenced_data_file": "file:/t/data//a.parquet"} | TWO)
    for some, named in ((vectors, ()), (vectors[:1], (None,)), (vectors[1:], ("/t/data/a.parquet",))):
        double = [(finding.check, finding.data_file) for finding in check(twice, some)]
        assert double == [("one-vector-per-file", name) for name in named]


def test_position_deletes_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    vector = DeletionVector("position-deletes", None, str(path), str(path), size=8, file_size=8)
    assert check(str(path), [vector]) == []

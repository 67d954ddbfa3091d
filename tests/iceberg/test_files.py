"""Puffin files of deletion vectors."""

from __future__ import annotations

import io
import random
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from battery import outcome
from cases import each
from dvcodec import (
    CardinalityMismatch,
    DecodeError,
    DvLocation,
    Limits,
    NotCanonical,
    RowSet,
    Truncated,
    UsageError,
    __version__,
    iceberg,
)
from dvcodec.core import vector
from dvcodec.core.vector import Magic, StoredFrame
from dvcodec.io import Source
from dvcodec.io.frames import Range, read_frame
from dvcodec.puffin import PuffinWriter, open_puffin
from samples.puffin import GOOD, file_of, vector_for, with_changes

KEY = 1 << 32
PUFFIN_FILES = {
    "java-main/one-small.puffin": {"s3://b/t/data/f1.parquet": [1, 3, 5, 7, 9]},
    "java-main/gap-keys.puffin": {"f": [5, 3 * KEY + 7]},
    "java-main/three-files.puffin": {
        "s3://b/t/data/f0.parquet": list(range(10)),
        "s3://b/t/data/f1.parquet": list(range(0, 21, 2)),
        "s3://b/t/data/f2.parquet": list(range(0, 34, 3)),
    },
    "iceberg-go/deletion-vector-v1.puffin": {"data/test.parquet": [1, 3, 5, 7, 9]},
    "iceberg-go/single-blob-dv.puffin": {"s3://warehouse/db/table/data/00000-0-abc.parquet": [1, 3, 5, 7, 9]},
    "iceberg-go/multi-blob-dv.puffin": {
        "s3://warehouse/db/table/data/file-001.parquet": [0, 100, 200],
        "s3://warehouse/db/table/data/file-002.parquet": [50, 150],
    },
    "puffin-v1/empty-puffin-uncompressed.bin": {},
    "puffin-v1/sample-metric-data-uncompressed.bin": {},
    "puffin-v1/sample-metric-data-compressed-zstd.bin": {},
}
JAVA_PUFFINS = ("one-small", "three-files", "gap-keys")


# ---------------------------------------------------------------------- files


@each("name", PUFFIN_FILES)
def test_real_file_holds_its_vectors(vectors: Path, name: str) -> None:
    path = vectors / "iceberg" / name
    expected = {file: RowSet(rows) for file, rows in PUFFIN_FILES[name].items()}
    assert iceberg.read_deletion_vectors(path) == expected


@pytest.mark.parametrize("name", JAVA_PUFFINS)
def test_java_file_is_written_byte_for_byte(vectors: Path, name: str, tmp_path: Path) -> None:
    source = vectors / f"iceberg/java-main/{name}.puffin"
    with open_puffin(source) as reader:
        created_by = reader.footer.properties["created-by"]
    found = iceberg.read_deletion_vectors(source)
    for order in permutations(found):
        path = tmp_path / f"{name}.puffin"
        locations = iceberg.write_deletion_vectors(path, {file: found[file] for file in order}, created_by=created_by)
        assert path.read_bytes() == source.read_bytes()
        assert [location.data_file for location in locations] == list(found)


def test_only_other_spellings_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    data = file_of(vector_for("/t/a", [1]), vector_for("/t/a", [2]), vector_for("file:/t/a", [3]))
    with caplog.at_level("INFO", "dvcodec"):
        assert iceberg.read_deletion_vectors(data, duplicates="union") == {"/t/a": RowSet([1, 2, 3])}
    (record,) = caplog.records
    assert record.getMessage().endswith("spelled in two ways, the first is kept: '/t/a' for 'file:/t/a'")


@each(
    ("blob", "kind", "what"),
    [
        (vector_for(None, [1, 3], "2"), NotCanonical, "blob property referenced-data-file"),
        (vector_for("a", [1, 3], "3"), CardinalityMismatch, "cardinality"),
        (vector_for("a", [], "1"), CardinalityMismatch, "cardinality"),
        *(
            (vector_for("a", [1, 3], text), NotCanonical, "blob property cardinality")
            for text in ("", "-2", "2.0", "\u0662", "\u00b2", "1" * 20)
        ),
        (with_changes(GOOD, compression_codec="zstd"), NotCanonical, "compression-codec of a deletion vector"),
        (with_changes(GOOD, length=len(GOOD[0]) + 1), Truncated, "range of the deletion-vector-v1 blob"),
        (with_changes(GOOD, length=len(GOOD[0]) - 1), Truncated, "length field"),
        (with_changes(GOOD, offset=0), Truncated, "range of the deletion-vector-v1 blob"),
        (with_changes(GOOD, offset=5, length=len(GOOD[0]) - 1), DecodeError, ""),
    ],
)
def test_corrupt_file_is_refused(blob: tuple[bytes, dict[str, Any]], kind: type[DecodeError], what: str) -> None:
    with pytest.raises(kind) as caught:
        iceberg.read_deletion_vectors(file_of(blob))
    assert what in caught.value.what
    assert "<bytes>" in str(caught.value)


# ---------------------------------------------------------------------- writing files


def test_locations_say_where_the_blobs_are(tmp_path: Path) -> None:
    path = tmp_path / "x.puffin"
    sets = {"b": RowSet([1, 2]), "a": RowSet(), "c": RowSet([KEY])}
    written = iceberg.write_deletion_vectors(path, sets, order="given")
    data = path.read_bytes()
    for at, (name, rows) in zip(written, sets.items(), strict=True):
        blob = iceberg.encode(rows)
        assert data[at.offset : at.offset + at.size] == blob
        assert at == DvLocation("iceberg", str(path), at.offset, len(blob), len(rows), name, len(data))
    assert iceberg.read_deletion_vectors(path) == sets
    with open_puffin(path) as reader:
        assert reader.footer.properties == {"created-by": f"dvcodec {__version__}"}
        assert {blob.fields for blob in reader.blobs} == {(2147483645,)}
        assert {(blob.snapshot_id, blob.sequence_number) for blob in reader.blobs} == {(-1, -1)}


def test_a_vector_without_its_data_file_is_not_written(tmp_path: Path) -> None:
    blob = iceberg.encode(RowSet([1]))
    with pytest.raises(UsageError, match="needs the data file of every vector"):
        iceberg.write_stored_vectors(tmp_path / "x.puffin", [StoredFrame("a", 1, blob), StoredFrame(None, 1, blob)])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("first", "second", "named"), [("a", "a", "'a':"), ("s3://x", "s3a://x", "'s3a://x', also spelled 's3://x':")]
)
def test_two_vectors_for_one_data_file_are_not_written(first: str, second: str, named: str, tmp_path: Path) -> None:
    blob = iceberg.encode(RowSet([1]))
    with pytest.raises(UsageError, match=f"two vectors for the data file {named}"):
        iceberg.write_stored_vectors(tmp_path / "x.puffin", [StoredFrame(first, 1, blob), StoredFrame(second, 1, blob)])
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------- many vectors, described alike


def many(count: int) -> bytes:
    """A Puffin file of so many vectors, some of them of several bitmaps."""
    sets = {f"s3://b/t/{i:04d}.parquet": RowSet(range(i, 3 * i, 1 + i % 3)) for i in range(count)}
    sets["s3://b/t/wide.parquet"] = RowSet([1, 1 << 33])
    out = io.BytesIO()
    iceberg.write_deletion_vectors(out, sets, order="given")
    return out.getvalue()


def one_by_one(
    source: Source, ranges: list[Range], *, allowed: tuple[Magic, ...], limits: Limits, verify_checksum: bool
) -> list[RowSet]:
    """What `load_ranges` does in bulk."""
    frames = [(read_frame(source, offset, size, limits), rows) for offset, size, rows in ranges]
    return [vector.read(one, allowed, rows, limits, verify_checksum=verify_checksum).load() for one, rows in frames]


def test_many_vectors_are_read_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any state of damage, of vectors and of footer: the same value or the same error."""
    valid = many(150)
    footer = valid.index(b'{"blobs"')
    chance = random.Random(4)
    options: list[dict[str, Any]] = [
        {},
        {"verify_checksum": False},
        {"duplicates": "last"},
        {"limits": Limits(max_cardinality=40)},
    ]
    refused = 0

    def read(data: bytes, options: dict[str, Any]) -> object:
        found = outcome(lambda data: iceberg.read_deletion_vectors(data, **options), data)
        return (type(found), str(found)) if isinstance(found, DecodeError) else found

    for turn in range(150):
        data = bytearray(valid)
        for _ in range(turn % 3):
            at = chance.randrange(footer) if chance.random() < 0.5 else chance.randrange(footer, len(data))
            data[at] = chance.choice(b"0189") if chr(data[at]).isdigit() and at > footer else data[at] ^ 1
        chosen = options[turn // 3 % 4]
        found = read(bytes(data), chosen)
        with monkeypatch.context() as patch:
            patch.setattr("dvcodec.iceberg._uniform", lambda *_: None)
            patch.setattr("dvcodec.iceberg.load_ranges", one_by_one)
            assert found == read(bytes(data), chosen)
        refused += isinstance(found, tuple)
    assert 30 < refused < 150


def test_one_of_many_ranges_that_ends_behind_the_blobs_is_refused() -> None:
    data = many(150)
    at = data.rindex(b'"offset":') + len(b'"offset":')
    end = at + data[at:].index(b",")
    with pytest.raises(Truncated, match="range of the deletion-vector-v1 blob"):
        iceberg.read_deletion_vectors(data[:at] + b"9" * (end - at) + data[end:])


def test_blobs_of_another_type_are_not_vectors_though_all_are_alike() -> None:
    out = io.BytesIO()
    with PuffinWriter(out) as writer:
        for i in range(150):
            properties = {"referenced-data-file": f"{i:04d}", "cardinality": "3"}
            writer.add("other", bytes(60), fields=[], snapshot_id=-1, sequence_number=-1, properties=properties)
    assert iceberg.read_deletion_vectors(out.getvalue()) == {}

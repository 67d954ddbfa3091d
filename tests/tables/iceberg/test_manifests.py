"""Manifest lists and manifests, partitions, snapshots one after another."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, RowSet
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.io import Storage
from dvcodec.tables import DataFile, DeletionVector, Table, history, open_table
from dvcodec.tables.iceberg import table as reading
from dvcodec.tables.iceberg.entries import (
    DATA,
    DELETES,
    Manifest,
    read_list,
    read_manifest,
)
from dvcodec.tables.iceberg.metadata import PartitionField
from dvcodec.tables.iceberg.plan import Spellings
from dvcodec.tables.iceberg.schema import Partition, PartitionReader
from dvcodec.tables.iceberg.table import ManifestWalk
from dvcodec.tables.metadata.avro_fields import Logical
from dvcodec.tables.metadata.json_fields import PartitionValue
from samples.changes import sorted_values
from samples.iceberg_table import Commit, build_iceberg, entry_schema, list_schema, moved, write_avro

FILE = {
    "content": 0,
    "file_path": "s3://t/a.parquet",
    "file_format": "Parquet",
    "partition": {},
    "record_count": 5,
    "file_size_in_bytes": 100,
}


def read(
    folder: Path, *entries: dict[str, Any], version: int = 3, content: int = DATA, number: int = 9
) -> Sequence[DataFile | DeletionVector]:
    path, schema = folder / "m.avro", entry_schema(version, (), {})
    for field in schema["fields"][-1]["type"]["fields"]:
        if field["name"] in REQUIRED:  # a schema may allow it
            field["type"] = ["null", field["type"]]
    write_avro(path, schema, entries, "deflate")
    manifest = Manifest("s3://t/m.avro", str(path), 0, content, number, 77, encrypted=False)
    return read_manifest(manifest, (), moved, Storage())


def entry(status: int = 1, file: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"status": status, "snapshot_id": None, "data_file": FILE | (file or {})} | more


BOUNDS = [{"key": 2147483545, "value": bytes(8)}, {"key": 2147483546, "value": b"s3://t/a.parquet"}]


@each(
    ("more", "data_file"),
    [
        ({}, None),
        ({"referenced_data_file": "x"}, "x"),
        ({"lower_bounds": BOUNDS, "upper_bounds": BOUNDS}, "s3://t/a.parquet"),
        ({"lower_bounds": BOUNDS, "upper_bounds": BOUNDS[:1]}, None),
        ({"lower_bounds": BOUNDS, "upper_bounds": [{"key": 2147483546, "value": b"s3://t/b"}]}, None),
        ({"lower_bounds": BOUNDS}, None),
        ({name: [{"key": 2147483546, "value": b"\xff"}] for name in ("lower_bounds", "upper_bounds")}, None),
    ],
)
def test_what_position_deletes_are_for(tmp_path: Path, more: dict[str, Any], data_file: str | None) -> None:
    (one,) = read(tmp_path, entry(1, {"content": 1, **more}), content=DELETES)
    assert isinstance(one, DeletionVector)
    assert (one.format, one.data_file, one.size) == ("position-deletes", data_file, 100)


REQUIRED = ("file_format", "partition", "record_count", "file_size_in_bytes")


@each(
    ("content", "change", "match"),
    [
        (DATA, {"status": 3}, "status of entry 0: .*found 3"),
        (DATA, {"status": 0, "sequence_number": None}, "sequence_number of .*: expected a number, for an entry that"),
        (DATA, {"file_path": ""}, "file_path of entry 0: expected a path"),
        (DATA, {"file_path": "a\0b"}, "file_path of entry 0: expected a path"),
        (DATA, {"record_count": -1}, "record_count of s3://t/a.parquet: expected 0 or more, found -1"),
        (DATA, {"content": 2}, "content of s3://t/a.parquet: expected a manifest of data files, found 2"),
        (DELETES, {}, "content of s3://t/a.parquet: expected a manifest of delete files, found 0"),
        (DELETES, {"content": 3}, "content of s3://t/a.parquet: .* found 3"),
        *((DATA, {name: None}, f"{name} of s3://t/a.parquet: expected a value, found nothing") for name in REQUIRED),
    ],
)
def test_wrong_entries(tmp_path: Path, content: int, change: dict[str, Any], match: str) -> None:
    own = {name: value for name, value in change.items() if name in ("status", "sequence_number")}
    one = entry(1, {name: value for name, value in change.items() if name not in own}) | own
    with pytest.raises(NotCanonical, match=rf"m.avro .*{match}"):
        read(tmp_path, one, content=content)


def test_encrypted_manifests(tmp_path: Path) -> None:
    manifest = Manifest("m", str(tmp_path / "m"), 0, DATA, 1, 1, encrypted=True)
    with pytest.raises(Unsupported, match="manifest: expected no encryption"):
        read_manifest(manifest, (), moved, Storage())
    with pytest.raises(FileNotFoundError):
        read_manifest(replace(manifest, encrypted=False), (), moved, Storage())


LISTED = {
    "manifest_path": "s3://t/m.avro",
    "manifest_length": 7,
    "partition_spec_id": 2,
    "content": 1,
    "sequence_number": 4,
    "min_sequence_number": 1,
    "added_snapshot_id": 6,
    **{f"{word}_{what}_count": 0 for word in ("added", "existing", "deleted") for what in ("files", "rows")},
}


def listed(folder: Path, version: int, *records: dict[str, Any]) -> list[Manifest]:
    schema = list_schema(version)
    schema["fields"][2]["type"] = ["null", "int"]  # the number of the partition spec: a schema may allow it
    write_avro(folder / "l.avro", schema, records, "null")
    return read_list(str(folder / "l.avro"), moved, Storage())


def test_manifest_lists(tmp_path: Path) -> None:
    wanted = Manifest("s3://t/m.avro", "/here/m.avro", 2, DELETES, 4, 6, encrypted=False)
    assert listed(tmp_path, 2, LISTED) == [wanted]
    assert listed(tmp_path, 1, LISTED) == [replace(wanted, content=DATA, sequence_number=0)]
    assert listed(tmp_path, 2, LISTED | {"key_metadata": b""}) == [replace(wanted, encrypted=True)]
    assert listed(tmp_path, 2) == []


@each(
    ("change", "error", "match"),
    [
        ({"content": 2}, Unsupported, r"content of manifest 0: expected 0 \(data\), 1 \(deletes\), found 2"),
        ({"manifest_path": ""}, NotCanonical, "manifest_path of manifest 0: expected a path"),
        ({"manifest_path": "\0"}, NotCanonical, "manifest_path of manifest 0: expected a path"),
        (
            {"partition_spec_id": None},
            NotCanonical,
            "partition_spec_id of manifest 0: expected a number, found nothing",
        ),
    ],
)
def test_wrong_lists(tmp_path: Path, change: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=rf"l.avro at byte 0: {match}"):
        listed(tmp_path, 2, LISTED | change)


@each(
    ("known", "path", "meant"),
    [
        (["/t/a", "/t/b"], "hdfs://host:8020/t/a", "/t/a"),
        (["/t/a"], "hdfs:/t/a", "/t/a"),
        (["/t/a"], "file:///t/a", "/t/a"),
        (["hdfs://host/t/a"], "/t/a", "hdfs://host/t/a"),
        (["s3://lake/t/a"], "s3a://lake/t/a", "s3://lake/t/a"),
        (["file:/t/a"], "file:///t/a", "file:/t/a"),
        (["hdfs://one/t/a"], "hdfs://two/t/a", None),
        (["s3://lake/t/a"], "s3://pond/t/a", None),
        (["s3://lake/t/a"], "hdfs://host/t/a", None),
        (["hdfs://one/t/a", "hdfs://two/t/a"], "/t/a", None),
        (["/t/a", "hdfs://one/t/a"], "file:/t/a", None),
        (["/t/a"], "hdfs://host/t/b", None),
        (["/t/a"], "hdfs://host", None),
        (["t:0/a"], "/a", None),
        ([], "/t/a", None),
    ],
)
def test_find(known: list[str], path: str, meant: str | None) -> None:
    assert Spellings(known).find(path) == meant


# ------------------------------------------------------------------- partition values: their texts, and what is equal


def partition(value: Any, logical: str | None = None, *, transform: str = "identity", **more: Any) -> Partition:
    kind = Logical(logical or "string", more.get("scale", 0), more.get("utc", False))
    fields = [PartitionField(1000, 1, "p", transform)]
    return PartitionReader(0, fields, {1000: ("stored", kind)}).read({"stored": value})


@each(
    ("made", "text"),
    [
        (partition("a/b=c"), "p=a/b=c"),
        (partition(None), "p=null"),
        (partition(True), "p=true"),
        (partition(7), "p=7"),
        (partition(1.5), "p=1.5"),
        (partition(20454, "date"), "p=2026-01-01"),
        (partition(9_000_000, "date"), "p=26611-03-02"),
        (partition(1_767_225_600_000_001, "timestamp-micros", utc=True), "p=2026-01-01T00:00:00.000001+00:00"),
        (partition(1_767_225_600_000_000_001, "timestamp-nanos"), "p=2026-01-01T00:00:00.000000001"),
        (partition(3_600_000_000, "time-micros"), "p=01:00:00"),
        (partition(-5, "unheard-of"), "p=-5"),
        (partition(bytes(range(16)), "uuid"), "p=00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (partition(b"\x00\x01"), "p=AAE="),
        (partition(-1, transform="year"), "p=1969"),
        (partition(673, transform="month"), "p=2026-02"),
        (partition(20454, "date", transform="day"), "p=2026-01-01"),
        (partition(490_901, transform="hour"), "p=2026-01-01-05"),
        (partition(3, transform="bucket[16]"), "p=3"),
        (partition((10**30).to_bytes(13, "big"), "decimal", transform="year"), f"p={10**30}"),
    ],
)
def test_texts(made: Partition, text: str) -> None:
    assert made.label == text


def test_values_that_are_equal_in_several_forms() -> None:
    nan, value = float("nan"), uuid.UUID(int=7)
    assert partition(nan) == partition(nan) != partition(0.0)
    made = [partition((150).to_bytes(size, "big"), "decimal", scale=2) for size in (2, 4, 6, 16, 20)]
    assert {(one.values, one.label) for one in made} == {((150,), "p=1.50")}
    assert partition(b"\xff", "decimal").values == partition(b"\xff\xff", "decimal").values == (-1,)
    large = b"\x7f" * 17
    assert partition(large, "decimal").values == (large,)
    assert partition(str(value), "uuid") == partition(value.bytes, "uuid")
    assert partition(str(value), "uuid").label == f"p={value}"
    assert partition("x", "uuid").values == ("x",)
    tenth = float(np.float32(0.1))
    assert [partition(tenth, kind).label for kind in ("float", "double")] == ["p=0.1", "p=0.10000000149011612"]


def typed(value: Any, logical: str, transform: str = "identity", *, column: str | None = "c", utc: bool = False) -> Any:
    field = PartitionField(1000, 1, "p", transform, column)
    made = PartitionReader(0, [field], {1000: ("stored", Logical(logical, 2, utc))}).read({"stored": value})
    return made.typed


@each(
    ("found", "expected"),
    [
        (typed(7, "long"), PartitionValue("c", "int", 7)),
        (typed(None, "long"), PartitionValue("c", "int", None)),
        (typed(b"\x07", "decimal"), PartitionValue("c", "decimal", Decimal("0.07"))),
        (typed(b"\x7f" * 17, "decimal"), PartitionValue("c", "the type decimal", b"\x7f" * 17)),
        (typed(7, "timestamp-micros"), PartitionValue("c", "timestamp", 7)),
        (typed(7, "timestamp-micros", utc=True), PartitionValue("c", "timestamptz", 7)),
        (typed(7, "timestamp-nanos"), PartitionValue("c", "the type timestamp-nanos", 7)),
        (typed("x", "date"), PartitionValue("c", "the type date", "x")),
        (typed(b"x", "bytes"), PartitionValue("c", "the type bytes", b"x")),
        (typed(3, "int", "bucket[4]"), PartitionValue("p", "the transform bucket[4]", 3)),
        (typed(3, "int", column=None), PartitionValue("p", "a nested or dropped column", 3)),
    ],
)
def test_values_for_other_formats(found: tuple[PartitionValue, ...], expected: PartitionValue) -> None:
    assert found == (expected,)


@given(st.datetimes())
def test_timestamps_are_those_of_python(moment: datetime) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    micros = (moment.replace(tzinfo=timezone.utc) - epoch) // timedelta(microseconds=1)
    text = partition(micros, "timestamp-micros").texts["p"]
    assert text is not None
    padded = f"{text}000000"[: len("2026-01-01T00:00:00.000000")] if "." in text else text
    assert datetime.fromisoformat(padded) == moment


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_decimals_are_exact(unscaled: int, scale: int) -> None:
    stored = unscaled.to_bytes(16, "big", signed=True)
    text = partition(stored, "decimal", scale=scale).texts["p"]
    assert text is not None
    assert Decimal(text).as_tuple().exponent == -scale
    digits = text.replace(".", "").lstrip("-")
    assert int(digits) == abs(unscaled)
    assert text.startswith("-") == (unscaled < 0)


# ------------------- snapshots one after another, by the manifests that differ: the same as whole snapshots, compared


NAMES = "abcdefgh"


def random_commits(chance: random.Random, count: int, version: int) -> list[Commit]:
    """Data files that come and go and are deleted in: by vectors, by position deletes of a file or of a partition."""
    live: set[str] = set()
    made: dict[str, int] = {}
    commits = []
    for number in range(count):
        walked = version == 3 or number < count // 2  # later ones have deletes that may be for any data file
        gone = {name for name in live if chance.random() < 0.1} if version == 3 or not walked else set()
        live -= gone
        fresh = [f"{name}{made.get(name, 0)}" for name in chance.sample(NAMES, chance.randrange(3))]
        made |= {name[0]: made.get(name[0], 0) + 1 for name in fresh}
        live |= set(fresh)
        deleted = {
            name: RowSet(chance.sample(range(20), chance.randrange(1, 5)))
            for name in chance.sample(sorted(live), min(len(live), chance.randrange(3)))
        }
        data = dict.fromkeys(fresh, 20)
        if version == 3:
            commits.append(Commit(data, vectors=deleted, remove=gone, equality=chance.random() < 0.2))
        else:
            scope = chance.choice(["referenced", "bounds", *([] if walked else [None])])
            deletes = [{name: rows} for name, rows in deleted.items()]
            commits.append(Commit(data, deletes=deletes, remove=gone, scope=scope))
    return commits


@each(("version", "seed"), [(3, 1), (3, 2), (3, 3), (2, 4), (2, 5), (2, 6)])
def test_random_commits(version: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = random_commits(random.Random(seed), 25, version)
    build_iceberg(tmp_path, *commits, version=version, parquet=False)
    steps = []
    plain = ManifestWalk.step

    def counted(self: ManifestWalk, *rest: Any) -> Any:
        steps.append(plain(self, *rest))
        return steps[-1]

    monkeypatch.setattr(ManifestWalk, "step", counted)
    found = [sorted_values(change) for change in history(open_table(tmp_path), keep_rows=True)]
    assert len(steps) == 24
    assert any(step is not None for step in steps)
    assert version == 3 or None in steps
    monkeypatch.setattr(reading.IcebergTable, "walk_from", Table.walk_from)
    assert found == [sorted_values(change) for change in history(open_table(tmp_path), keep_rows=True)]
    assert sum(change["deleted"] for change in found) > 10
    for file in [file for change in found for file in change["files"]]:
        file.pop("deleted_ranges", None)
        file.pop("restored_ranges", None)
    assert found == [sorted_values(change) for change in history(open_table(tmp_path))]


def test_a_data_file_that_comes_twice(tmp_path: Path) -> None:
    made = build_iceberg(tmp_path, Commit(data={"a": 20}), Commit(data={"b": 20}))
    lists = [tmp_path / f"metadata/snap-{number}.avro" for number in (101, 102)]
    listed: list[dict[str, Any]] = []
    for path in lists:
        with path.open("rb") as file:
            listed += [dict(record) for record in fastavro.reader(file) if isinstance(record, dict)]
    write_avro(lists[1], list_schema(3), listed, "null")
    changes = history(open_table(made.folder))
    assert len(next(changes).added) == 1
    with pytest.raises(DecodeError, match=r"snap-102\.avro: manifests: expected each data file once, found .*/a twice"):
        next(changes)


def test_a_snapshot_is_held_against_its_parent(tmp_path: Path) -> None:
    """Which need not be the one that was looked at before."""

    def other_parent(metadata: dict[str, Any]) -> dict[str, Any]:
        metadata["snapshots"][2]["parent-snapshot-id"] = 101
        return metadata

    made = build_iceberg(tmp_path, *(Commit(data={name: 20}) for name in "abc"), tweak=other_parent)
    found = [[Path(file.path).name for file in change.added] for change in history(open_table(made.folder))]
    assert [sorted(names) for names in found] == [["a"], ["b"], ["b", "c"]]

"""Metadata files: the latest one, what it says, and what is wrong with it."""

from __future__ import annotations

import gzip
import itertools
import json
import secrets
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest

from cases import each
from dvcodec.core.errors import DecodeError, LimitExceeded, NotCanonical, Truncated, Unsupported, UsageError
from dvcodec.core.limits import Limits
from dvcodec.io import Storage, read_up_to
from dvcodec.io.store import ObjectChanged, Reason
from dvcodec.tables import Folder
from dvcodec.tables.iceberg import metadata as metadata_module
from dvcodec.tables.iceberg.metadata import PartitionField, TableMetadata, check_newest, find_metadata, read_metadata


def snapshot(number: int, **more: Any) -> dict[str, Any]:
    return {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": 1000 + number,
        "manifest-list": f"/t/metadata/snap-{number}.avro",
        "summary": {"operation": "append"},
    } | more


VALID: dict[str, Any] = {
    "format-version": 2,
    "location": "/t",
    "current-schema-id": 1,
    "schemas": [{"type": "struct", "schema-id": number, "fields": []} for number in (0, 1)],
    "partition-specs": [
        {"spec-id": 0, "fields": []},
        {"spec-id": 3, "fields": [{"name": "d", "transform": "day", "source-id": 4, "field-id": 1000}]},
    ],
    "current-snapshot-id": 2,
    "snapshots": [snapshot(2, **{"parent-snapshot-id": 1}), snapshot(1)],
    "properties": {"schema.name-mapping.default": "[]"},
}


def read(folder: Path, metadata: Any) -> TableMetadata:
    path = folder / "v1.metadata.json"
    path.write_text(metadata if isinstance(metadata, str) else json.dumps(metadata))
    return read_metadata(str(path), Storage())


def test_what_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, VALID)
    assert (found.location, found.current, found.current_schema_id) == ("/t", 2, 1)
    assert list(found.snapshots) == [1, 2]
    record = found.snapshots[2]
    assert (record.info.parent, record.info.operation, record.sequence_number) == (1, "append", 2)
    assert (record.manifest_list, record.schema_id, record.encrypted) == ("/t/metadata/snap-2.avro", None, False)
    assert found.specs == {0: (), 3: (PartitionField(1000, 4, "d", "day"),)}
    assert (set(found.schemas), found.name_mapping) == ({0, 1}, "[]")
    times = {5: 30, 6: 10, 7: 20}
    snapshots = [snapshot(one, **{"sequence-number": 0, "timestamp-ms": at}) for one, at in times.items()]
    found = read(tmp_path, VALID | {"snapshots": snapshots, "current-snapshot-id": 6})
    assert list(found.snapshots) == [7, 5, 6]  # of one sequence number, by time


TEXT = json.dumps(VALID | {"properties": {"owner": "x" * 100_000 + secrets.token_hex(50_000)}}).encode()
GZIPPED = gzip.compress(TEXT)
MEMBERS = b"".join(
    gzip.compress(TEXT[start:stop]) for start, stop in itertools.pairwise((0, 0, 1, 100, 150_000, len(TEXT), len(TEXT)))
)


@each("data", [GZIPPED, MEMBERS, GZIPPED + bytes(512)], ids=["one member", "several", "padding"])
def test_gzip(tmp_path: Path, data: bytes) -> None:
    """As Java's GZIPInputStream reads it."""
    path = tmp_path / "00001-x.gz.metadata.json"
    path.write_bytes(data)
    assert read_metadata(str(path), Storage()).current == 2


@each(
    ("data", "error", "why"),
    [
        (GZIPPED[:-20], Truncated, "gzip: expected a whole stream"),
        (MEMBERS[:-1], Truncated, "gzip: expected a whole stream"),
        (GZIPPED[:20] + bytes(20) + GZIPPED[40:], NotCanonical, "gzip: expected a valid stream"),
        (GZIPPED[:-6] + bytes(6), NotCanonical, "gzip: expected a valid stream, found CRC"),
        (GZIPPED + b"garbage", NotCanonical, "gzip: expected a valid stream, found Not a gzipped file"),
        (GZIPPED + b"\x1f\x8bx" * 9, NotCanonical, "gzip: expected a valid stream"),
        (GZIPPED * 2, NotCanonical, "table metadata: expected JSON"),
    ],
    ids=["cut", "a member cut", "damaged", "checksum", "garbage", "no header", "document"],
)
def test_damaged_gzip(tmp_path: Path, data: bytes, error: type[DecodeError], why: str) -> None:
    path = tmp_path / "v1.metadata.json"
    path.write_bytes(data)
    with pytest.raises(error, match=why):
        read_metadata(str(path), Storage())


def test_a_small_file_does_not_become_a_large_one(tmp_path: Path) -> None:
    path = tmp_path / "v1.metadata.json"
    path.write_bytes(gzip.compress(bytes(2**20 + 1), 1))
    with pytest.raises(LimitExceeded, match=r"max_metadata_bytes: expected at most 1048576 .*, found 1048577"):
        read_metadata(str(path), Storage(limits=Limits(max_metadata_bytes=2**20)))


def test_version_1_counts_partition_fields(tmp_path: Path) -> None:
    old = {"format-version": 1, "location": "/t", "schema": {"type": "struct", "fields": []}, "snapshots": []}
    old["partition-spec"] = [{"name": name, "transform": "identity", "source-id": 1} for name in "ab"]
    found = read(tmp_path, old)
    assert [field.field_id for field in found.specs[0]] == [1000, 1001]
    assert list(found.schemas) == [0]


@each(
    ("change", "match"),
    [
        ({"format-version": None}, "format-version: expected an integer, found nothing"),
        ({"format-version": 4}, "format-version: expected 1, 2, 3, found 4"),
        ({"location": None}, "location: expected a string, found nothing"),
        ({"location": "a\0"}, "location: expected a path"),
        ({"location": "\ud800"}, "location: expected a path"),
        ({"schemas": {}}, "schemas: expected an array, found an object"),
        ({"schemas": [3]}, r"schemas\[0\]: expected an object, found 3"),
        ({"current-schema-id": 9}, "current-schema-id: expected one of schemas, found 9"),
        ({"current-snapshot-id": 9}, "current-snapshot-id: expected one of snapshots, found 9"),
        ({"current-snapshot-id": 2**63}, "current-snapshot-id: expected -9"),
        ({"partition-specs": [{"spec-id": 0}]}, r"partition-specs\[0\].fields: expected an array, found nothing"),
        ({"properties": []}, "properties: expected an object, found an array"),
        ({"metadata-log": [{}]}, r"metadata-log\[0\].metadata-file: expected a string"),
        ({"statistics": [{"statistics-path": 1}]}, r"statistics\[0\].statistics-path: expected a string, found 1"),
        ({"snapshots": [snapshot(2), snapshot(2)]}, r"snapshots\[1\].snapshot-id: .* 2 twice"),
        ({"snapshots": [snapshot(2, **{"manifest-list": None})]}, r"snapshots\[0\].manifest-list: expected a path"),
        ({"snapshots": [snapshot(2, **{"sequence-number": -1})]}, r"snapshots\[0\].sequence-number: expected 0 to"),
        ({"snapshots": [snapshot(2, summary=[])]}, r"snapshots\[0\].summary: expected an object"),
        (
            {"snapshots": [snapshot(one, **{"parent-snapshot-id": one % 3 + 1}) for one in (1, 2, 3)]},
            "snapshots: expected parents that lead to a first snapshot",
        ),
    ],
)
def test_wrong_members_are_named(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    with pytest.raises((NotCanonical, Unsupported), match=rf"v1.metadata.json: {match}"):
        read(tmp_path, VALID | change)


@each("text", ["", "{", "[]", "3", "\ufffe", "{'a': 1}", "[" * 5000])
def test_invalid_metadata_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DecodeError, match=r"v1.metadata.json: table metadata"):
        read(tmp_path, text)


@each(
    ("fields", "column"),
    [
        ([{"id": 4, "name": "day"}, {"id": 5, "name": "e"}], "day"),
        ([{"id": 5, "name": "e"}], None),
        ([{"id": 4}, 3, {"id": [], "name": "x"}], None),
        (None, None),
    ],
)
def test_partition_fields_have_their_columns_present_names(tmp_path: Path, fields: Any, column: str | None) -> None:
    """A schema that is corrupt does not stand in the way."""
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    specs = [{"spec-id": 3, "fields": [{"field-id": 1000, "source-id": 4, "name": "d", "transform": "identity"}]}]
    found = read(tmp_path, VALID | {"schemas": [schema], "current-schema-id": 0, "partition-specs": specs})
    assert found.specs[3] == (PartitionField(1000, 4, "d", "identity", column),)


# --------------------------------------------------------- finding the latest metadata file by names and version hint


UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


@each(
    ("names", "hint", "latest"),
    [
        (["v1.metadata.json", "v2.metadata.json"], None, "v2.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json", "v3.metadata.json"], "2", "v3.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json", "v9.metadata.json"], "1\n", "v2.metadata.json"),
        (["v1.metadata.json", "v3.metadata.json"], "", "v3.metadata.json"),
        ([f"00000-{UUID}.metadata.json", f"00011-{UUID}.metadata.json"], " \n", f"00011-{UUID}.metadata.json"),
        (["v1.metadata.json", "v2.gz.metadata.json"], "2", "v2.gz.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json.gz"], None, "v2.metadata.json.gz"),
        ([f"00000-{UUID}.metadata.json", f"00011-{UUID}.metadata.json"], None, f"00011-{UUID}.metadata.json"),
        ([f"00011-{UUID}.gz.metadata.json", "snap-1.avro", "x.json"], None, f"00011-{UUID}.gz.metadata.json"),
        ([f"00000-{UUID}.metadata.json", "00001-b.metadata.json"], f"00000-{UUID}", f"00000-{UUID}.metadata.json"),
        (["00000-a.metadata.json", "00001-b.metadata.json"], "00000-a.metadata.json", "00000-a.metadata.json"),
        (["v1.metadata.json", "v\uff12.metadata.json", "0000\uff12-b.metadata.json"], None, "v1.metadata.json"),
    ],
)
def test_the_latest_file(tmp_path: Path, names: list[str], hint: str | None, latest: str) -> None:
    fill(tmp_path, names, hint)
    assert find_metadata(Folder(str(tmp_path))) == str(tmp_path / "metadata" / latest)


@pytest.mark.parametrize("times", [9, 10])
def test_a_hint_that_is_replaced_while_it_is_read(times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By commits of other writers, between two requests to a store."""
    fill(tmp_path, ["v1.metadata.json", "v2.metadata.json"], "1")
    answers: list[BaseException | None] = [ObjectChanged("s3://b/t", "read", Reason.CHANGED, "")] * times
    read = Mock(wraps=read_up_to, side_effect=[*answers, DEFAULT])
    monkeypatch.setattr(metadata_module, "read_up_to", read)
    with pytest.raises(ObjectChanged) if times == 10 else nullcontext():
        assert find_metadata(Folder(str(tmp_path))) == str(tmp_path / "metadata/v2.metadata.json")
    assert read.call_count == 10


@each("hint", ["7", "9" * 18, "9" * 19, "9" * 5000, "ghp_0123456789abcdef", "-1", "\u0663", "\uff11"])
def test_of_a_hint_at_nothing_only_a_number_is_shown(tmp_path: Path, hint: str) -> None:
    fill(tmp_path, ["v1.metadata.json"], hint)
    shown = hint if hint.isascii() and hint.isdigit() and len(hint) < 19 else "something else"
    with pytest.raises(
        NotCanonical, match=f"version-hint.text: version hint: expected an existing version, found {shown}$"
    ):
        find_metadata(Folder(str(tmp_path)))


def test_no_latest_file(tmp_path: Path) -> None:
    for names, match in (
        ([], r"no .*metadata.json below metadata"),
        (["00002-a.metadata.json", "00002-b.metadata.json"], r"00002-a.* and 00002-b.metadata.json share version 2"),
    ):
        fill(tmp_path, names, None)
        with pytest.raises(UsageError, match=match):
            find_metadata(Folder(str(tmp_path)))


def fill(folder: Path, names: list[str], hint: str | None) -> None:
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / "metadata" / name).touch()
    if hint is not None:
        (folder / "metadata" / "version-hint.text").write_text(hint)


@each(
    ("own", "others", "newer"),
    [
        ("v2.metadata.json", ["v1.metadata.json"], None),
        ("v2.metadata.json", ["v1.metadata.json", "v3.metadata.json", "v10.metadata.json"], "v10.metadata.json"),
        (f"00001-{UUID}.metadata.json", ["00001-b.metadata.json"], "00001-b.metadata.json"),
        ("own.metadata.json", ["v1.metadata.json"], "v1.metadata.json"),
        ("own.metadata.json", ["other.json"], None),
    ],
)
def test_newer_metadata_beside(tmp_path: Path, own: str, others: list[str], newer: str | None) -> None:
    fill(tmp_path, [own, *others], None)
    location = str(tmp_path / "metadata" / own)
    if newer is None:
        check_newest(location, Storage())
    else:
        with pytest.raises(UsageError, match=f"{own}: {newer} beside it may be newer"):
            check_newest(location, Storage())

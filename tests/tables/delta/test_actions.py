"""Commits of a log: actions, their statistics, and the protocols that they may have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cases import each
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.tables.delta.log import AddFile, LogicalFile, Metadata, Protocol, parse_lines, plain_path
from dvcodec.tables.delta.protocol import KNOWN, OF_COLUMNS, OF_WRITERS, check_protocol, is_on
from dvcodec.tables.delta.rows import loosened
from dvcodec.tables.metadata.json_fields import JsonFields

ADD: dict[str, Any] = {
    "path": "a.parquet",
    "partitionValues": {},
    "size": 10,
    "modificationTime": 1,
    "dataChange": True,
}
VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}


def action(name: str, **members: Any) -> JsonFields:
    return JsonFields.of(members, "1.json, line 3", name)


def add(**members: Any) -> AddFile:
    return AddFile.parse(action("add", **{**ADD, **members}))


def test_a_vector_may_be_absent_null_or_a_struct_of_nulls() -> None:
    for absent in ({}, {"deletionVector": None}, {"deletionVector": dict.fromkeys(VECTOR)}):
        assert add(**absent).vector is None


@each(
    ("spelled", "path"),
    [
        ("a%20b/c.parquet", "a b/c.parquet"),
        ("part=a%2523b/x", "part=a%23b/x"),
        ("za%C5%BC%C3%B3łć/x", "zażółć/x"),
        ("s3://bucket/a%20b", "s3://bucket/a b"),
        ("file:/a%20b", "file:/a b"),
        ("50%/+x", "50%/+x"),
    ],
)
def test_paths_are_decoded_once(spelled: str, path: str) -> None:
    assert plain_path(action("add", path=spelled)) == path


@each("spelled", ["", "%00", "a\0b", "\ud800", "%ff", "file://elsewhere/x"])
def test_what_can_be_no_path(spelled: str) -> None:
    with pytest.raises(NotCanonical, match=r"^1\.json, line 3: add\.path: expected"):
        add(path=spelled)


def test_one_key_for_the_spellings_of_a_path() -> None:
    keys = {LogicalFile.parse(action("remove", path=path)).key for path in ("/a%20b", "file:/a%20b", "file:///a%20b")}
    assert keys == {("/a b", None)}


@each(
    ("members", "place"),
    [
        ({"path": None}, "add.path: expected a string, found nothing"),
        ({"size": "10"}, "add.size"),
        ({"size": -1}, "add.size"),
        ({"partitionValues": None}, "add.partitionValues"),
        ({"partitionValues": {"p": 1}}, "add.partitionValues.p: expected a string"),
        ({"stats": "{"}, "add.stats: expected JSON"),
        ({"stats": "7"}, "add.stats: expected an object"),
        ({"stats": {"numRecords": 7}}, "add.stats: expected a string"),
        ({"stats": '{"numRecords":-7}'}, "add.stats.numRecords"),
        ({"stats": '{"numRecords":"7"}'}, "add.stats.numRecords"),
        ({"stats_parsed": {"numRecords": 1.5}}, "add.stats_parsed.numRecords"),
        ({"deletionVector": 1}, "add.deletionVector: expected an object"),
        ({"deletionVector": {**VECTOR, "offset": -1}}, "add.deletionVector: .*offset"),
        ({"deletionVector": {**VECTOR, "pathOrInlineDv": f"../..{'0' * 20}"}}, "add.deletionVector: .*inside"),
        ({"deletionVector": {**VECTOR, "storageType": "p", "pathOrInlineDv": "file://h/x"}}, "add.deletionVector"),
    ],
)
def test_what_an_add_may_not_say(members: dict[str, Any], place: str) -> None:
    with pytest.raises(NotCanonical, match=rf"^1\.json, line 3: {place}"):
        add(**members)


def test_protocol() -> None:
    assert Protocol.parse(action("protocol", minReaderVersion=1)).reader_features == ()
    features = Protocol.parse(action("protocol", minReaderVersion=3, readerFeatures=["deletionVectors"]))
    assert features.reader_features == ("deletionVectors",)
    for wrong in ({}, {"minReaderVersion": 3}, {"minReaderVersion": 3, "readerFeatures": [1]}):
        with pytest.raises(NotCanonical, match=r"protocol\."):
            Protocol.parse(action("protocol", **wrong))


def test_metadata() -> None:
    known: dict[str, Any] = {"schemaString": "{}", "partitionColumns": ["p"], "format": {"provider": "parquet"}}
    parsed = Metadata.parse(action("metaData", **known))
    assert (parsed.schema, parsed.partition_columns, parsed.configuration) == ("{}", ("p",), {})
    assert parsed.provider == "parquet"
    wrong: list[dict[str, Any]] = [{"schemaString": None}, {"partitionColumns": [None]}, {"format": {}}]
    for members in [*wrong, {"configuration": {"a": 1}}]:
        with pytest.raises(NotCanonical, match=r"line 3: metaData\."):
            Metadata.parse(action("metaData", **{**known, **members}))


def test_lines() -> None:
    lines = [{"commitInfo": 5}, {"add": {"path": "é"}}, {"unknown": {}}, {"add": None, "remove": {}, "cdc": {}}]
    data = "\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode() + b"\n\n  \n"
    parsed = list(parse_lines(data, "c.json"))
    assert [(found.where, found.source) for found in parsed] == [
        ("add", "c.json, line 2"),
        ("remove", "c.json, line 4"),
        ("cdc", "c.json, line 4"),
    ]


@each(
    ("data", "error"),
    [
        (b'{"add":{}}\n{"add"', "c.json, line 2: action: expected JSON"),
        (b"7", "c.json, line 1: action: expected an object, found 7"),
        (b'{"add": 1}', "c.json, line 1: add: expected an object, found 1"),
        (b'{"a":"\xff"}', "c.json at byte 6: JSON: expected UTF-8"),
    ],
)
def test_invalid_lines_are_refused(data: bytes, error: str) -> None:
    with pytest.raises(NotCanonical) as info:
        list(parse_lines(data, "c.json"))
    assert str(info.value).startswith(error)


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (None, '{"numRecords":7,"tightBounds":false}'),
        ("", '{"numRecords":7,"tightBounds":false}'),
        (" { } ", '{"numRecords":7,"tightBounds":false}'),
        ('{ "a" : 1.10 , "tightBounds" : true }', '{"a":1.10,"tightBounds":false,"numRecords":7}'),
        ('{"maxValues":{"x":"}, é\\u00e9"}}', '{"maxValues":{"x":"}, é\\u00e9"},"numRecords":7,"tightBounds":false}'),
    ],
)
def test_members_keep_their_text(stats: str | None, expected: str) -> None:
    assert loosened(stats, 7, "0.json") == expected


@each(
    "stats",
    ["7", "[]", "{", '{"a"', '{"a" 1}', '{"a"x1}', '{"a":}', '{"a":1 "b":2}', '{"a":1,}', '{"a":' + "[" * 50_000],
)
def test_what_is_not_an_object_is_refused(stats: str) -> None:
    with pytest.raises(NotCanonical, match=r"^0\.json: add\.stats: expected a JSON object, found "):
        loosened(stats, 7, "0.json")


def protocol(version: int, *features: str) -> Protocol:
    return Protocol(version, features, "0.json, line 2")


def test_features_and_versions() -> None:
    for version in (1, 2):
        check_protocol(protocol(version))
    check_protocol(protocol(3, *KNOWN, *OF_COLUMNS, *OF_WRITERS))
    for feature in ("catalogManaged", "sorcery"):
        with pytest.raises(Unsupported, match=rf"0\.json, line 2: protocol\.readerFeatures: .*found {feature}"):
            check_protocol(protocol(3, "deletionVectors", feature))
    with pytest.raises(Unsupported, match="at most 3, found 4"):
        check_protocol(protocol(4))


@each(("value", "on"), [("true", True), ("TRUE", True), ("false", False), (" true", False), ("", False), (None, False)])
def test_properties_are_true_as_delta_reads_them(value: str | None, on: bool) -> None:
    configuration = {} if value is None else {"x": value}
    assert is_on(Metadata("{}", (), configuration, "parquet", "0.json, line 3"), "x") is on

"""The descriptor in Delta's log: JSON, rules, paths, identity."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from typing import Any

import pytest

from cases import each
from dvcodec import DvLocation, NotCanonical, UsageError
from dvcodec.delta import EMPTY, Descriptor, new_file

SPEC = "ab^-aqEH.-t@S}K{vb[*k^"
SPEC_FILE = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
INLINE = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
MEMBERS: dict[str, Any] = {
    "storageType": "u",
    "pathOrInlineDv": SPEC,
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}


def changed(**changes: Any) -> dict[str, Any]:
    """The members with some changed; `...` leaves one out."""
    return {name: value for name, value in {**MEMBERS, **changes}.items() if value is not ...}


# ---------------------------------------------------------------------- real logs


# ---------------------------------------------------------------------- JSON


OF_NO_MEMBER: list[object] = [True, [], {}]


@each(
    ("name", "value"),
    [
        *((name, value) for name in MEMBERS for value in OF_NO_MEMBER),
        *((name, value) for name in MEMBERS if name != "offset" for value in (None, ...)),
        *((name, value) for name in ("sizeInBytes", "cardinality", "offset") for value in ("4", 4.0)),
    ],
)
def test_missing_or_wrong_type_is_named(name: str, value: object) -> None:
    with pytest.raises(NotCanonical) as caught:
        Descriptor.from_json(changed(**{name: value}), source="00.json")
    assert str(caught.value.expected).startswith(f"{name} of type ")
    assert str(caught.value).startswith("00.json: deletion vector descriptor")


RULES: list[tuple[dict[str, Any], str]] = [
    ({"storageType": "x"}, "storageType 'x'"),
    ({"storageType": "U"}, "storageType 'U'"),
    ({"storageType": "i", "pathOrInlineDv": INLINE, "offset": 0}, "offset 0 given for an inline vector"),
    ({"pathOrInlineDv": SPEC[-19:]}, "shorter than 20 characters"),
    ({"storageType": "p", "pathOrInlineDv": ""}, "pathOrInlineDv is empty"),
    ({"storageType": "r", "pathOrInlineDv": ""}, "pathOrInlineDv is empty"),
    ({"offset": -1}, "offset -1"),
    ({"offset": 2**31}, "offset 2147483648"),
    ({"sizeInBytes": -1}, "sizeInBytes -1"),
    ({"sizeInBytes": 2**31}, "sizeInBytes 2147483648"),
    ({"cardinality": -1}, "cardinality -1"),
    ({"cardinality": 2**63}, "cardinality 9223372036854775808"),
]


@each(("changes", "message"), RULES)
def test_broken_rule_is_a_fault_of_the_log_or_of_the_caller(changes: dict[str, Any], message: str) -> None:
    members = changed(**changes)
    with pytest.raises(NotCanonical, match=re.escape(message)):
        Descriptor.from_json(members)
    with pytest.raises(UsageError, match=re.escape(message)):
        Descriptor(
            *(members[name] for name in ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality", "offset"))
        )


@each(
    "text",
    ["", "{", "null", "[]", "{}", b"\xff", '{"sizeInBytes":' + "9" * 5000 + "}"],
)
def test_other_than_an_object_is_refused(text: str | bytes) -> None:
    with pytest.raises(NotCanonical):
        Descriptor.from_json(text)


# ---------------------------------------------------------------------- paths


@each(
    ("kind", "text", "root", "expected"),
    [
        ("u", SPEC, "s3://bucket/table/", f"s3://bucket/table/ab/{SPEC_FILE}"),
        ("u", SPEC[2:], "/data/t//", f"/data/t/{SPEC_FILE}"),
        ("u", SPEC[2:], "/", f"/{SPEC_FILE}"),
        ("u", "test%dv%prefix-" + SPEC[2:], "/t", f"/t/test%dv%prefix-/{SPEC_FILE}"),
        ("u", "a..b" + SPEC[2:], "/t", f"/t/a..b/{SPEC_FILE}"),
        ("p", "s3://bucket/a%2520b/x.bin", None, "s3://bucket/a%20b/x.bin"),
        ("p", "file:///tmp/a%20b/x%3F.bin", None, "/tmp/a b/x?.bin"),
        ("p", "file://localhost/tmp/x.bin", None, "/tmp/x.bin"),
        ("p", "file://elsewhere/tmp/x.bin", None, "file://elsewhere/tmp/x.bin"),
        ("p", "/tmp/a%20b/x.bin", None, "/tmp/a b/x.bin"),
        ("r", "dir/x.bin", "s3://bucket/t/", "s3://bucket/t/dir/x.bin"),
        ("r", "x%20y.bin", "/t", "/t/x%20y.bin"),
    ],
)
def test_path(kind: str, text: str, root: str | None, expected: str) -> None:
    assert Descriptor(kind, text, 34, 1, 1).path(root) == expected


@each(
    ("kind", "text"),
    [
        ("u", "../" + SPEC[2:]),
        ("u", "a/../../b" + SPEC[2:]),
        ("u", "/etc" + SPEC[2:]),
        ("r", "a/.."),
        ("r", "/etc/passwd"),
        ("r", "%2e%2e/x.bin"),
        ("r", "..%2fx.bin"),
        ("r", "..\\x.bin"),
    ],
)
def test_path_does_not_leave_the_table(kind: str, text: str) -> None:
    with pytest.raises(NotCanonical, match="a path inside the table"):
        Descriptor(kind, text, 34, 1, 1).path("/table")


@each(
    ("text", "expected"),
    [
        ("http://[bad/x.bin", "a URL"),
        ("dir/x.bin", "an absolute URL"),
        ("file:x.bin", "a file URL with only a path"),
        ("file:///tmp/x.bin?version=1", "a file URL with only a path"),
        ("file:///tmp/x.bin#1", "a file URL with only a path"),
        ("file:///tmp/a%00b", "a path without NUL"),
        ("s3://b/\ud800", "a path without NUL"),
    ],
)
def test_absolute_path_that_is_not_a_url_is_refused(text: str, expected: str) -> None:
    with pytest.raises(NotCanonical, match=expected):
        Descriptor("p", text, 34, 1, 1).path()


def test_what_a_path_needs() -> None:
    for kind, text in (("u", SPEC), ("r", "x.bin")):
        with pytest.raises(UsageError, match="pass the table's folder"):
            Descriptor(kind, text, 34, 1, 1).path()
    with pytest.raises(UsageError, match="in the log"):
        Descriptor("i", INLINE, 44, 6).path("/t")


def test_uuid_that_is_not_z85_is_refused() -> None:
    for text in ("#" * 20, " " * 20, "\u00e9" * 20):
        with pytest.raises(NotCanonical):
            Descriptor("u", text, 34, 1, 1).path("/t")


def test_uuid_is_the_last_20_characters() -> None:
    assert Descriptor("u", SPEC, 34, 1).file_uuid == uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
    with pytest.raises(UsageError, match="has no UUID"):
        _ = Descriptor("p", "/x", 34, 1).file_uuid


def test_the_largest_numbers_are_valid() -> None:
    largest = Descriptor("u", SPEC, 2**31 - 1, 2**63 - 1, 2**31 - 1)
    assert Descriptor.from_json(largest.to_json()) == largest
    assert Descriptor("i", "", 0, 0) == EMPTY
    assert (EMPTY.unique_id, Descriptor("p", "s3://x", 34, 1, 0).unique_id) == ("i", "ps3://x@0")


# ---------------------------------------------------------------------- from a location

LOCATION = DvLocation("delta", f"s3://b/t/{SPEC_FILE}", 43, 42, 7, "part-0.parquet", 100)


@each(
    ("path", "root", "kind", "text"),
    [
        (f"s3://b/t/{SPEC_FILE}", "s3://b/t/", "u", SPEC[2:]),
        (f"/my table/ab/{SPEC_FILE}", "/my table", "u", SPEC),
        (f"s3://b/t/{SPEC_FILE}", None, "p", f"s3://b/t/{SPEC_FILE}"),
        (f"s3://b/t2/{SPEC_FILE}", "s3://b/t", "p", f"s3://b/t2/{SPEC_FILE}"),
        (f"s3://b/t/a/b/{SPEC_FILE}", "s3://b/t", "p", f"s3://b/t/a/b/{SPEC_FILE}"),
        (f"s3://b/t/{SPEC_FILE}.bak", "s3://b/t", "p", f"s3://b/t/{SPEC_FILE}.bak"),
        (f"s3://b/t/{SPEC_FILE.upper()}", "s3://b/t", "p", f"s3://b/t/{SPEC_FILE.upper()}"),
        ("s3://b/a b/50%?#.bin", None, "p", "s3://b/a%20b/50%25%3F%23.bin"),
        ("/tmp/a b/\u00e9%.bin", None, "p", "file:///tmp/a%20b/%C3%A9%25.bin"),
    ],
)
def test_location_becomes_a_descriptor(path: str, root: str | None, kind: str, text: str) -> None:
    descriptor = Descriptor.from_location(replace(LOCATION, path=path), root)
    assert descriptor == Descriptor(kind, text, 34, 7, 43)
    assert descriptor.path(root) == path


@pytest.mark.parametrize("path", ["dir/x.bin", ""])
def test_location_without_an_absolute_path_is_a_usage_error(path: str) -> None:
    with pytest.raises(UsageError, match="neither below the table's folder"):
        Descriptor.from_location(replace(LOCATION, path=path))


@each("prefix", ["", "ab"])
@each("root", ["/t", "/t/", "s3://b/t"])
def test_new_file_is_one_that_u_can_name(root: str, prefix: str) -> None:
    first, second = new_file(root, prefix), new_file(root, prefix)
    assert first != second
    descriptor = Descriptor.from_location(replace(LOCATION, path=first), root)
    assert (descriptor.storage_type, descriptor.path_or_inline_dv[:-20]) == ("u", prefix)
    assert descriptor.path(root) == first

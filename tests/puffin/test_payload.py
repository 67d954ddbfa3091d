"""The JSON of the footer: what is refused, and the bytes that are written."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from battery import outcome
from cases import each
from dvcodec import DecodeError, LimitExceeded, Limits, NotCanonical
from dvcodec.puffin import BlobMetadata, Footer, encode_footer
from samples.puffin import BLOB, as_json, decode, puffin, refused, with_blob

# ---------------------------------------------------------------------- JSON


@each(
    "payload",
    [
        b"",
        b"[]",
        b"{}",
        b'{"blobs":[]',
        b'{"blobs":[]}x',
        b"\xef\xbb\xbf" + b'{"blobs":[]}',
        b'{"blobs":[],"x":"\xff"}',
        b'{"blobs":[],"x":NaN}',
        b'{"blobs":[],"x":1e999}',
        b'{"blobs":[],"x":[{"y":-1e999}]}',
        b'{"blobs":[],"blobs":[]}',
        b'{"blobs":[],"properties":{"a":"1","a":"2"}}',
        b'{"blobs":[],"x":' + b"9" * 5000 + b"}",
        b'{"blobs":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"blobs":[],"x":' + b'{"y":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        b'{"blobs":[],"x":' + b"[" * 200 + b"]" * 200 + b"}",
        as_json({"blobs": [BLOB | {"x": [[[[1.5]]]] * 3 + [json.loads("[" * 100 + "]" * 100)]}]}),
    ],
)
def test_invalid_json_is_refused(payload: bytes) -> None:
    with refused(NotCanonical, "footer", 8):
        decode(puffin(payload))


def test_what_is_decoded_can_be_encoded_however_deep() -> None:
    for depth in [1, 63, 64, 65, *range(66, 1200, 13)]:
        nested = b"[" * depth + b"]" * depth
        footer = outcome(decode, puffin(b'{"blobs":[],"x":' + nested + b"}"))
        if isinstance(footer, DecodeError):
            assert depth > 64
        else:
            assert depth <= 64
            assert nested in encode_footer(footer)
        wrong = as_json({"blobs": [BLOB]}).replace(b'"offset":4', b'"offset":' + nested)
        assert isinstance(outcome(decode, puffin(wrong)), NotCanonical)


NOT_OBJECTS: list[object] = [None, True, 1, "x", []]
NOT_ARRAYS: list[object] = [None, True, 1, "x", {}]
NOT_STRINGS: list[object] = [None, True, 1, 1.5, [], {}]
NOT_INTEGERS: list[object] = [None, True, 1.0, "1", [], {}, 2**63, -(2**63) - 1, 10**30]


@each("value", NOT_OBJECTS)
def test_blob_is_an_object(value: object) -> None:
    with refused(NotCanonical, "footer member blobs[1]", 8):
        decode(puffin(as_json({"blobs": [BLOB, value]})))


@each(
    ("member", "value"),
    [
        *(("type", value) for value in NOT_STRINGS),
        *(("fields", value) for value in NOT_ARRAYS),
        *(("fields", [1, value]) for value in NOT_INTEGERS),
        *((m, v) for m in ("snapshot_id", "sequence_number", "offset", "length") for v in (..., *NOT_INTEGERS)),
        ("type", ...),
        ("fields", ...),
        *(("compression_codec", value) for value in NOT_STRINGS[1:]),
        *(("properties", value) for value in NOT_OBJECTS[1:]),
        *(("properties", {"a": "b", "c": value}) for value in NOT_STRINGS),
    ],
)
def test_blob_member_of_the_wrong_type_is_refused(member: str, value: object) -> None:
    with refused(NotCanonical, f"footer member blobs[0].{member.replace('_', '-')}", 8):
        decode(with_blob(**{member: value}))


def test_integers_have_64_bits() -> None:
    members = ("snapshot_id", "sequence_number", "offset", "length")
    for value in (-(2**63), 2**63 - 1):
        blob = decode(with_blob(fields=[value], **dict.fromkeys(members, value))).blobs[0]
        assert (*blob.fields, *(getattr(blob, member) for member in members)) == (value,) * 5


def test_blobs_are_limited() -> None:
    data = puffin(as_json({"blobs": [BLOB] * 3}))
    assert len(decode(data, Limits(max_records=3)).blobs) == 3
    with refused(LimitExceeded, "max_records", 8):
        decode(data, Limits(max_records=2))


def test_unknown_members_are_kept() -> None:
    odd = {"x": [1, 2.5, None, True, {"y": "\u00e9"}], "z": {}}
    payload = as_json({"blobs": [{**BLOB, **odd}], "properties": {"p": "q"}, **odd})
    footer = decode(puffin(payload))
    assert footer.unknown == odd
    assert footer.blobs[0].unknown == odd
    assert encode_footer(footer) == puffin(payload)[4:]


# ---------------------------------------------------------------------- written as Jackson does


@each(
    ("text", "written"),
    [
        ('"', r"\""),
        ("\\", r"\\"),
        ("/", "/"),
        ("\b\t\n\f\r", r"\b\t\n\f\r"),
        ("\0", r"\u0000"),
        ("\x0b", r"\u000B"),
        ("\x1a\x1f", r"\u001A\u001F"),
        ("\x7f", "\x7f"),
        ("\u00e9\u2028\u2029", "\u00e9\u2028\u2029"),
        ("\U0001f600", "\U0001f600"),
        ("a\ud800b", "a?b"),
        ("\udc00\ud800", "??"),
        ("<&'>", "<&'>"),
    ],
)
def test_strings_are_escaped_like_jackson(text: str, written: str) -> None:
    encoded = encode_footer(Footer((), {text: text}))
    assert encoded[4:-12].decode() == f'{{"blobs":[],"properties":{{"{written}":"{written}"}}}}'


def test_members_stand_in_java_order() -> None:
    blob = BlobMetadata("t", (1, 2), 3, 4, 5, 6, "zstd", {"z": "1", "a": "2"}, {"odd": None})
    footer = Footer((blob, BlobMetadata("u", (), -1, -1, 0, 0)), {"created-by": "me"}, unknown={"more": [1]})
    assert encode_footer(footer) == puffin(
        b'{"blobs":[{"type":"t","fields":[1,2],"snapshot-id":3,"sequence-number":4,"offset":5,"length":6,'
        b'"compression-codec":"zstd","properties":{"z":"1","a":"2"},"odd":null},'
        b'{"type":"u","fields":[],"snapshot-id":-1,"sequence-number":-1,"offset":0,"length":0}],'
        b'"properties":{"created-by":"me"},"more":[1]}'
    ).removeprefix(b"PFA1")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INT64 = st.integers(-(2**63), 2**63 - 1)
PROPERTIES = st.dictionaries(TEXT, TEXT, max_size=3)
UNKNOWN = st.recursive(
    st.none() | st.booleans() | INT64 | TEXT | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=5,
)
KNOWN_MEMBERS = {*BLOB, "blobs", "properties", "compression-codec"}
BLOBS = st.builds(
    BlobMetadata,
    TEXT,
    st.lists(INT64, max_size=3).map(tuple),
    INT64,
    INT64,
    INT64,
    INT64,
    st.none() | TEXT,
    PROPERTIES,
    st.dictionaries(TEXT.filter(lambda name: name not in KNOWN_MEMBERS), UNKNOWN, max_size=2),
)


@given(st.lists(BLOBS, max_size=3), PROPERTIES)
def test_footer_round_trip(blobs: list[BlobMetadata], properties: dict[str, str]) -> None:
    footer = Footer(tuple(blobs), properties)
    assert decode(b"PFA1" + encode_footer(footer)) == footer

"""The footer: what is read of it, what is refused, and the bytes that are written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import check_truncations, outcome
from dvcodec import BadMagic, DecodeError, LimitExceeded, Limits, NotCanonical, Truncated, Unsupported
from dvcodec.core.limits import DEFAULT_LIMITS
from dvcodec.io import open_source
from dvcodec.puffin import BlobMetadata, Footer, decode_footer, encode_footer
from puffin.craft import lz4_frame, puffin

REAL_FILES = (
    "java-main/one-small.puffin",
    "java-main/three-files.puffin",
    "java-main/gap-keys.puffin",
    "puffin-v1/empty-puffin-uncompressed.bin",
    "puffin-v1/sample-metric-data-uncompressed.bin",
    "puffin-v1/sample-metric-data-compressed-zstd.bin",
    "iceberg-go/deletion-vector-v1.puffin",
    "iceberg-go/single-blob-dv.puffin",
    "iceberg-go/multi-blob-dv.puffin",
)
BLOB: dict[str, Any] = {
    "type": "t",
    "fields": [1, 2],
    "snapshot-id": 7,
    "sequence-number": 8,
    "offset": 4,
    "length": 0,
}


class CountingSource:
    """Bytes that remember what was asked of them."""

    def __init__(self, data: bytes) -> None:
        self.name = "counted"
        self.size = len(data)
        self.reads: list[tuple[int, int]] = []
        self._data = memoryview(data)

    def read(self, offset: int, size: int) -> memoryview:
        self.reads.append((offset, size))
        return self._data[offset : offset + size]

    @property
    def bytes_read(self) -> int:
        return sum(size for _, size in self.reads)


def decode(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Footer:
    with open_source(data) as source:
        return decode_footer(source, limits=limits)


def as_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def with_blob(**changes: Any) -> bytes:
    """A file of one blob with some members changed; `...` leaves the member out."""
    blob = {name.replace("_", "-"): value for name, value in changes.items()}
    return puffin(as_json({"blobs": [{k: v for k, v in {**BLOB, **blob}.items() if v is not ...}]}))


@contextmanager
def refused(kind: type[DecodeError], what: str, offset: int | None) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    assert what in caught.value.what
    assert caught.value.offset == offset
    assert "<bytes>" in str(caught.value)


# ---------------------------------------------------------------------- real files


@pytest.mark.parametrize("name", REAL_FILES)
def test_real_footer_is_written_back_byte_for_byte(vectors: Path, name: str) -> None:
    data = (vectors / "iceberg" / name).read_bytes()
    footer = decode(data)
    assert encode_footer(footer) == data[footer.offset :]


def test_java_footer_says_what_java_wrote(vectors: Path) -> None:
    footer = decode((vectors / "iceberg/java-main/three-files.puffin").read_bytes())
    assert footer.properties == {
        "created-by": "Apache Iceberg 1.12.0-SNAPSHOT (commit 7f879b11366e17a676a03f15247a821751415529)"
    }
    assert footer.offset == 4 + 39 + 62 + 64
    assert not footer.compressed
    assert footer.blobs[1] == BlobMetadata(
        type="deletion-vector-v1",
        fields=(2147483645,),
        snapshot_id=-1,
        sequence_number=-1,
        offset=43,
        length=62,
        properties={"referenced-data-file": "s3://b/t/data/f1.parquet", "cardinality": "11"},
    )
    assert list(footer.blobs[1].properties) == ["referenced-data-file", "cardinality"]


def test_empty_file_has_32_bytes_and_no_blobs(vectors: Path) -> None:
    data = (vectors / "iceberg/puffin-v1/empty-puffin-uncompressed.bin").read_bytes()
    assert data == puffin(b'{"blobs":[]}')
    assert len(data) == 32
    assert decode(data) == Footer()


# ---------------------------------------------------------------------- envelope


@pytest.mark.parametrize("size", range(20))
def test_less_than_20_bytes_are_truncated(size: int) -> None:
    with pytest.raises(Truncated) as caught:
        decode(puffin(b'{"blobs":[]}')[:size])
    assert caught.value.actual == size


@pytest.mark.parametrize(
    ("place", "what", "offset"),
    [(0, "magic at the start", 0), (1, "magic before the footer payload", 7), (2, "magic at the end", 31)],
)
@pytest.mark.parametrize("wrong", [b"PFA2", b"pfa1", b"\0\0\0\0", b"1AFP"])
def test_each_magic_is_checked(place: int, what: str, offset: int, wrong: bytes) -> None:
    magics = [b"PFA1", b"PFA1", b"PFA1"]
    magics[place] = wrong
    data = puffin(b'{"blobs":[]}', b"abc", magics=(magics[0], magics[1], magics[2]))
    with refused(BadMagic, what, offset):
        decode(data)


@pytest.mark.parametrize("place", range(3))
def test_each_magic_is_checked_around_a_footer_that_needs_a_second_read(place: int) -> None:
    magics = [b"PFA1", b"PFA1", b"PFA1"]
    magics[place] = b"PFA2"
    payload = as_json({"blobs": [], "properties": {"x": "y" * 20_000}})
    with pytest.raises(BadMagic):
        decode(puffin(payload, b"z" * 20_000, magics=(magics[0], magics[1], magics[2])))


@pytest.mark.parametrize("bit", range(1, 32))
def test_unknown_flag_is_unsupported(bit: int) -> None:
    with refused(Unsupported, "footer flags", 24):
        decode(puffin(b'{"blobs":[]}', flags=(1 << bit).to_bytes(4, "little")))


@pytest.mark.parametrize("size", [-1, -(2**31), 13, 2**31 - 1])
def test_payload_size_has_to_fit_the_file(size: int) -> None:
    with refused(Truncated, "footer payload size", 20):
        decode(puffin(b'{"blobs":[]}', size=size))


@pytest.mark.parametrize("size", range(12))
def test_smaller_payload_size_finds_no_magic(size: int) -> None:
    with pytest.raises(BadMagic):
        decode(puffin(b'{"blobs":[]}', size=size))


def test_footer_over_its_limit_is_refused_unread() -> None:
    source = CountingSource(puffin(b" " * 100_000))
    with pytest.raises(LimitExceeded, match="max_footer_bytes"):
        decode_footer(source, limits=Limits(max_footer_bytes=99_999))
    assert source.bytes_read == 8192


def test_every_truncation_is_refused() -> None:
    check_truncations(decode, with_blob(properties={"a": "b"}))


def test_every_bit_flip_ends_in_a_value_or_a_decode_error() -> None:
    data = with_blob(properties={"a": "b"}, compression_codec="zstd")
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        outcome(decode, bytes(damaged))


@given(st.binary(max_size=200), st.booleans())
def test_any_payload_ends_in_a_value_or_a_decode_error(payload: bytes, packed: bool) -> None:
    flags = b"\1\0\0\0" if packed else bytes(4)
    outcome(decode, puffin(payload, flags=flags))
    outcome(decode, puffin(lz4_frame(payload), flags=flags))


@given(st.binary(max_size=100))
def test_any_bytes_end_in_a_value_or_a_decode_error(data: bytes) -> None:
    outcome(decode, data)
    outcome(decode, b"PFA1" + data + b"PFA1")


# ---------------------------------------------------------------------- ranges


def test_footer_of_a_10_mb_file_costs_two_small_reads() -> None:
    blobs = bytes(10_000_000)
    source = CountingSource(puffin(as_json({"blobs": [{**BLOB, "length": len(blobs)}]}), blobs))
    footer = decode_footer(source)
    assert footer.blobs[0].length == len(blobs)
    assert source.reads == [(source.size - 8192, 8192), (0, 4)]


def test_large_footer_costs_one_more_read_and_no_blob() -> None:
    blobs = bytes(1_000_000)
    payload = as_json({"blobs": [{**BLOB, "length": len(blobs)}], "properties": {"x": "y" * 30_000}})
    source = CountingSource(puffin(payload, blobs))
    footer = decode_footer(source)
    assert footer.offset == 4 + len(blobs)
    assert source.reads == [
        (source.size - 8192, 8192),
        (footer.offset, source.size - footer.offset),
        (0, 4),
    ]


def test_small_file_is_read_once() -> None:
    source = CountingSource(puffin(b'{"blobs":[]}'))
    decode_footer(source)
    assert source.reads == [(0, 32)]


# ---------------------------------------------------------------------- LZ4


def test_lz4_footer_says_the_same() -> None:
    payload = as_json({"blobs": [BLOB], "properties": {"created-by": "me"}})
    plain, packed = decode(puffin(payload)), decode(puffin(lz4_frame(payload), flags=b"\1\0\0\0"))
    assert packed.compressed
    assert (packed.blobs, packed.properties) == (plain.blobs, plain.properties)
    assert encode_footer(packed) == encode_footer(plain)


LZ4_PAYLOAD = b'{"blobs":[]}'


@pytest.mark.parametrize(
    ("payload", "kind", "what"),
    [
        (LZ4_PAYLOAD, BadMagic, "lz4 frame magic"),
        (b"", Truncated, "lz4 frame magic"),
        (lz4_frame(LZ4_PAYLOAD)[:6], Truncated, "lz4 content size"),
        (lz4_frame(LZ4_PAYLOAD, sized=False), NotCanonical, "lz4 frame"),
        (lz4_frame(LZ4_PAYLOAD, stated=13), NotCanonical, "lz4 frame"),
        (lz4_frame(LZ4_PAYLOAD, stated=11), NotCanonical, "lz4 frame"),
        (lz4_frame(LZ4_PAYLOAD, stated=0), NotCanonical, "lz4"),
        (lz4_frame(LZ4_PAYLOAD)[:-1], Truncated, "lz4 block size"),
        (lz4_frame(LZ4_PAYLOAD) + b"x", NotCanonical, "lz4 frame"),
        (lz4_frame(LZ4_PAYLOAD, stated=2**26 + 1), LimitExceeded, "max_footer_bytes"),
        (lz4_frame(LZ4_PAYLOAD, stated=2**64 - 1), LimitExceeded, "max_footer_bytes"),
        (lz4_frame(b""), NotCanonical, "footer payload"),
    ],
)
def test_unsound_lz4_footer_is_refused(payload: bytes, kind: type[DecodeError], what: str) -> None:
    frame = lz4_frame(LZ4_PAYLOAD)
    offset = {"lz4 content size": 14, "lz4 block size": 8 + len(frame) - 4}.get(what, 8)
    if payload == frame + b"x":
        offset = 8 + len(frame)
    with refused(kind, what, offset):
        decode(puffin(payload, flags=b"\1\0\0\0"))


def test_lz4_footer_without_its_flag_is_no_json() -> None:
    with pytest.raises(NotCanonical, match="JSON object"):
        decode(puffin(lz4_frame(LZ4_PAYLOAD)))


# ---------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b'"blobs"',
        b"{}",
        b'{"blobs":[]',
        b'{"blobs":[]}x',
        b"\xef\xbb\xbf" + b'{"blobs":[]}',
        b'{"blobs":[],"x":"\xff"}',
        b'{"blobs":[],"x":NaN}',
        b'{"blobs":[],"x":-Infinity}',
        b'{"blobs":[],"x":1e999}',
        b'{"blobs":[],"x":[{"y":-1e999}]}',
        b'{"blobs":[],"blobs":[]}',
        b'{"blobs":[],"properties":{"a":"1","a":"2"}}',
        b'{"blobs":[],"x":{"y":1,"y":1}}',
        b'{"blobs":[],"x":' + b"9" * 5000 + b"}",
        b'{"blobs":' + b"[" * 50_000,
        b'{"blobs":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"blobs":[],"x":' + b'{"y":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        b'{"blobs":[],"x":' + b"[" * 200 + b"]" * 200 + b"}",
        as_json({"blobs": [BLOB | {"x": [[[[1.5]]]] * 3 + [json.loads("[" * 100 + "]" * 100)]}]}),
        '{"blobs":[]}'.encode("utf-16"),
    ],
)
def test_unsound_json_is_refused(payload: bytes) -> None:
    with refused(NotCanonical, "footer", 8):
        decode(puffin(payload))


@pytest.mark.parametrize("item", [b"[]", b"{}", b"0"])
def test_more_values_than_bytes_can_pay_for_are_refused(item: bytes) -> None:
    payload = b'{"blobs":[],"x":[' + b",".join([item] * 200_000) + b"]}"
    with refused(LimitExceeded, "values in the footer payload", 8):
        decode(puffin(payload))


@pytest.mark.parametrize("depth", [1, 60, *range(61, 1200, 13)])
def test_what_is_decoded_can_be_encoded_however_deep(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    footer = outcome(decode, puffin(b'{"blobs":[],"x":' + nested + b"}"))
    if isinstance(footer, DecodeError):
        assert depth > 60
    else:
        assert nested in encode_footer(footer)
    wrong = as_json({"blobs": [BLOB]}).replace(b'"offset":4', b'"offset":' + nested)
    assert isinstance(outcome(decode, puffin(wrong)), NotCanonical)


NOT_OBJECTS: list[object] = [None, True, 1, "x", []]
NOT_ARRAYS: list[object] = [None, True, 1, "x", {}]
NOT_STRINGS: list[object] = [None, True, 1, 1.5, [], {}]
NOT_INTEGERS: list[object] = [None, True, 1.0, "1", [], {}, 2**63, -(2**63) - 1, 10**30]


@pytest.mark.parametrize("value", NOT_ARRAYS)
def test_blobs_are_an_array(value: object) -> None:
    with refused(NotCanonical, "footer member blobs", 8):
        decode(puffin(as_json({"blobs": value})))


@pytest.mark.parametrize("value", NOT_OBJECTS)
def test_blob_is_an_object(value: object) -> None:
    with refused(NotCanonical, "footer member blobs[1]", 8):
        decode(puffin(as_json({"blobs": [BLOB, value]})))


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("type", value) for value in NOT_STRINGS),
        *(("fields", value) for value in NOT_ARRAYS),
        *(("fields", [1, value]) for value in NOT_INTEGERS),
        *((m, v) for m in ("snapshot_id", "sequence_number", "offset", "length") for v in NOT_INTEGERS),
        *(("compression_codec", value) for value in NOT_STRINGS[1:]),
        *(("properties", value) for value in NOT_OBJECTS[1:]),
        *(("properties", {"a": "b", "c": value}) for value in NOT_STRINGS),
    ],
)
def test_blob_member_of_the_wrong_type_is_refused(member: str, value: object) -> None:
    with refused(NotCanonical, f"footer member blobs[0].{member.replace('_', '-')}", 8):
        decode(with_blob(**{member: value}))


@pytest.mark.parametrize("member", ["type", "fields", "snapshot_id", "sequence_number", "offset", "length"])
def test_blob_member_that_is_missing_is_named(member: str) -> None:
    with pytest.raises(NotCanonical) as caught:
        decode(with_blob(**{member: ...}))
    assert caught.value.what == f"footer member blobs[0].{member.replace('_', '-')}"
    assert caught.value.actual == "nothing"


@pytest.mark.parametrize("value", [*NOT_OBJECTS[1:], {"a": 1}, {"a": None}])
def test_file_properties_are_strings(value: object) -> None:
    with refused(NotCanonical, "footer member properties", 8):
        decode(puffin(as_json({"blobs": [], "properties": value})))


@pytest.mark.parametrize("value", [None, ...])
def test_optional_members_may_be_null_or_absent(value: object) -> None:
    blob = decode(with_blob(compression_codec=value, properties=value)).blobs[0]
    assert blob.compression_codec is None
    assert blob.properties == {}


@pytest.mark.parametrize("value", [-(2**63), -1, 0, 2**63 - 1])
def test_integers_have_64_bits(value: int) -> None:
    data = with_blob(fields=[value], snapshot_id=value, sequence_number=value, offset=value, length=value)
    blob = decode(data).blobs[0]
    assert (*blob.fields, blob.snapshot_id, blob.sequence_number, blob.offset, blob.length) == (value,) * 5


def test_blobs_are_limited() -> None:
    data = puffin(as_json({"blobs": [BLOB] * 3}))
    assert len(decode(data, Limits(max_blobs=3)).blobs) == 3
    with refused(LimitExceeded, "max_blobs", 8):
        decode(data, Limits(max_blobs=2))


def test_unknown_members_are_kept() -> None:
    odd = {"x": [1, 2.5, None, True, {"y": "\u00e9"}], "z": {}}
    payload = as_json({"blobs": [{**BLOB, **odd}], "properties": {"p": "q"}, **odd})
    footer = decode(puffin(payload))
    assert footer.unknown == odd
    assert footer.blobs[0].unknown == odd
    assert encode_footer(footer) == puffin(payload)[4:]


# ---------------------------------------------------------------------- written as Jackson does


@pytest.mark.parametrize(
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


def test_footers_and_blobs_are_values() -> None:
    blob = BlobMetadata("t", (1,), 2, 3, 4, 5, None, {"a": "b"}, {"x": [1]})
    same = BlobMetadata("t", (1,), 2, 3, 4, 5, None, {"a": "b"}, {"x": [1]})
    first = Footer((blob,), {"c": "d"}, unknown={"y": {}})
    second = Footer((same,), {"c": "d"}, unknown={"y": {}})
    assert (first, hash(first)) == (second, hash(second))
    assert first != Footer((blob,), {"c": "e"}, unknown={"y": {}})


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

"""Avro container files: what fastavro writes is read, what is written fastavro reads, and damage ends in a DecodeError.

Hazards are put together byte by byte (`paimon.craft`).
"""

from __future__ import annotations

import io
import json
import zlib
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import check_truncations
from cases import each
from dvcodec.core import avro
from dvcodec.core.avro import CODECS, MAGIC, differs
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import (
    BadMagic,
    ChecksumMismatch,
    DecodeError,
    LimitExceeded,
    NotCanonical,
    Truncated,
    UsageError,
)
from dvcodec.core.limits import Limits
from samples.avro import SYNC, block, header, packed, records, sized, zigzag

fastavro = pytest.importorskip("fastavro")

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "more", "type": ["null", {"type": "array", "items": ["null", "bytes"]}], "default": None},
    ],
}
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "one", "more": None},
    {"id": -(2**63), "name": "", "more": []},
    {"id": 2**63 - 1, "name": "\u00e9\U0001f600", "more": [b"", None, bytes(300)]},
]
DATA = records(SCHEMA, *ROWS)
codecs = pytest.mark.parametrize("codec", CODECS)


def decoded(data: bytes, limits: Limits | None = None) -> list[Any]:
    return list(avro.decode(Cursor(data, source="x.avro"), limits=limits or Limits()).records())


# ---------------------------------------------------------------------- valid files


@pytest.mark.parametrize("codec", ["deflate", "snappy", "null"])
def test_fastavro_and_dvcodec_read_each_other(codec: str) -> None:
    reader = fastavro.reader(io.BytesIO(avro.encode(SCHEMA, ROWS, codec=codec)))
    assert reader.codec == codec
    assert list(reader) == ROWS
    for interval in (1, 16000):
        out = io.BytesIO()
        fastavro.writer(out, SCHEMA, ROWS * 50, codec=codec, sync_interval=interval, metadata={"more": "words"})
        assert decoded(out.getvalue()) == ROWS * 50


@codecs
def test_many_blocks_are_read(codec: str) -> None:
    blocks = [block(1, packed(records(SCHEMA, row), codec)) for row in ROWS]
    blocks.insert(1, block(0, packed(b"", codec)))
    assert decoded(header(SCHEMA, codec) + b"".join(blocks)) == ROWS


def test_metadata_may_stand_in_many_blocks_and_state_their_sizes() -> None:
    schema = sized(b"avro.schema") + sized(json.dumps(SCHEMA).encode())
    codec = sized(b"avro.codec") + sized(b"null")
    other = sized(b"\xff\xfe") + sized(b"\xff")
    for metadata in (
        zigzag(1) + codec + zigzag(2) + schema + other,
        zigzag(-2) + zigzag(len(schema + codec)) + schema + codec,
        zigzag(-1) + zigzag(5) + schema,
        zigzag(1) + codec + zigzag(-1) + zigzag(len(schema)) + schema + zigzag(1) + other,
    ):
        assert decoded(MAGIC + metadata + zigzag(0) + SYNC + block(3, DATA)) == ROWS


# ---------------------------------------------------------------------- headers


@each("data", [b"", b"O", b"Obj", b"Obj\0", b"Obj\2more", b"PAR1", bytes(100)])
def test_other_file_is_a_bad_magic(data: bytes) -> None:
    with pytest.raises(BadMagic) as caught:
        decoded(data)
    assert (caught.value.what, caught.value.offset, caught.value.source) == ("Avro magic", 0, "x.avro")
    assert caught.value.actual == (data[:4].hex(" ") or "no bytes")


def test_schema_that_is_not_json_is_refused() -> None:
    for schema in (b"", b'{"type":}', b"[" * 60_000):
        with pytest.raises(NotCanonical) as caught:
            decoded(header(schema) + block(3, DATA))
        assert (caught.value.what, caught.value.offset, caught.value.expected) == ("avro.schema", 4, "JSON")
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("size", [-1, 1000, 2**40, 2**63 - 1, -(2**63)])
def test_wrong_metadata_size_is_refused(size: int) -> None:
    error, message = (NotCanonical, f"found {size}$") if size < 0 else (Truncated, f"expected {size} bytes")
    for metadata in (zigzag(size) + b"key", sized(b"avro.schema") + zigzag(size) + b"{}"):
        with pytest.raises(error, match=f"metadata (key|value): .*{message}"):
            decoded(MAGIC + zigzag(1) + metadata + SYNC)


# ---------------------------------------------------------------------- blocks


@codecs
def test_cut_file_is_refused_but_between_blocks(codec: str) -> None:
    head = header(SCHEMA, codec)
    parts = [block(1, packed(records(SCHEMA, row), codec)) for row in ROWS[:2]]
    borders = {len(head): 0, len(head + parts[0]): 1}
    check_truncations(
        decoded, head + b"".join(parts), allowed=lambda found, size: size in borders and len(found) == borders[size]
    )


@pytest.mark.parametrize(("count", "size"), [(-1, 0), (0, -1)])
def test_negative_numbers_of_a_block_are_refused(count: int, size: int) -> None:
    with pytest.raises(NotCanonical, match="block header: expected 0 or more, found -1"):
        decoded(header(SCHEMA) + zigzag(count) + zigzag(size) + SYNC)


@codecs
def test_record_count_beyond_the_content_is_refused(codec: str) -> None:
    for count in [4, 5, len(DATA) + 1, 2**31, 2**60, 2**63 - 1]:
        with pytest.raises(NotCanonical) as caught:
            decoded(header(SCHEMA, codec) + block(count, packed(DATA, codec)))
        if count > len(DATA):
            assert (caught.value.what, caught.value.actual) == ("record count", count)
            body = packed(DATA, codec)
            before = len(header(SCHEMA, codec) + zigzag(count) + zigzag(len(body)))
            assert codec != "null" or caught.value.offset == before
        else:
            assert caught.value.what == "Avro record"
            assert str(caught.value.expected) == f"record 3 of {count} in this block"


@codecs
def test_bytes_after_the_last_record_are_refused(codec: str) -> None:
    for count in [0, 1, 2]:
        with pytest.raises(NotCanonical) as caught:
            decoded(header(SCHEMA, codec) + block(count, packed(DATA, codec)))
        assert caught.value.what == "bytes after the last record"
        assert codec != "null" or caught.value.offset == len(header(SCHEMA)) + len(zigzag(count) + zigzag(len(DATA)))
        assert caught.value.actual == len(records(SCHEMA, *ROWS[count:]))


def test_damaged_record_is_refused() -> None:
    for body in (b"\x02\x02\xff\x00", b"\x02\x00\x02" + zigzag(2**60) + b"\0" * 5, b"\xff" * 12, b"\x02"):
        with pytest.raises(NotCanonical) as caught:
            decoded(header(SCHEMA) + block(1, body))
        assert (caught.value.what, caught.value.offset) == ("Avro record", len(header(SCHEMA)) + 2)
        assert len(str(caught.value)) < 300


def test_records_have_a_limit_of_their_own() -> None:
    """A record of megabytes is not read, wherever it is in its block."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]}
    little = zigzag(1) + zigzag(5) + zigzag(0)
    large = zigzag(500) + zigzag(5) * 500 + zigzag(0)
    limits = Limits(max_record_bytes=100)

    def read(*records: bytes, bound: Limits = limits) -> list[Any]:
        data = header(schema) + block(len(records), b"".join(records))
        return [record["a"] for record in decoded(data, bound)]

    assert read(*[little] * 300) == [[5]] * 300
    assert read(*[little] * 300, large, bound=Limits())[-1] == [5] * 500
    assert read(*[little] * 299, large, bound=Limits(max_record_bytes=503))[-1] == [5] * 500
    for before in (0, 1, 30, 60):
        with pytest.raises(LimitExceeded, match=r"max_record_bytes: expected at most 100 .*, found more than 100 b"):
            read(*[little] * before, large)
    with pytest.raises(NotCanonical, match="Avro record: expected record 300 of 301"):
        read(*[little] * 300, zigzag(9))


@codecs
def test_all_blocks_together_are_limited(codec: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "bytes"}]}
    content = sized(bytes(1000))
    data = header(schema, codec) + block(1, packed(content, codec)) * 3
    limit = 3 * len(content) if codec != "null" else len(data)
    assert len(decoded(data, Limits(max_metadata_bytes=limit))) == 3
    with pytest.raises(LimitExceeded) as caught:
        decoded(data, Limits(max_metadata_bytes=limit - 1))
    assert caught.value.what == "Limits.max_metadata_bytes"


# ---------------------------------------------------------------------- writing


WRONG_ROWS: list[dict[str, Any]] = [
    {"id": 2**63, "name": ""},
    {"id": 1},
    {"id": 1, "name": "\ud800"},
    {"id": 1, "name": "x", "more": ["text"]},
]


def test_what_cannot_be_written_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="zstandard, deflate, snappy, null, not"):
        avro.encode(SCHEMA, ROWS, codec="zstd")
    for row in WRONG_ROWS:
        with pytest.raises(UsageError, match="record 1 does not fit the Avro schema"):
            avro.encode(SCHEMA, [ROWS[0], row])
    field = {"name": "x", "type": {"type": {"type": "int", "logicalType": "date"}}}
    with pytest.raises(UsageError, match="an Avro schema that fastavro does not write: TypeError"):
        avro.encode({"type": "record", "name": "r", "fields": [field]}, [])


ROW = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.text(max_size=20),
        "more": st.none() | st.lists(st.none() | st.binary(max_size=20), max_size=4),
    }
)


@given(st.lists(ROW, max_size=6), st.sampled_from(CODECS))
def test_round_trip(rows: list[dict[str, Any]], codec: str) -> None:
    assert decoded(avro.encode(SCHEMA, rows, codec=codec)) == rows


# ---------------------------------------------------------------------- damaged blocks


@each(
    ("codec", "body", "kind"),
    [
        ("zstandard", DATA, BadMagic),
        ("zstandard", b"", Truncated),
        ("zstandard", packed(DATA, "zstandard")[:-1], Truncated),
        ("zstandard", packed(DATA, "zstandard") + b"\0", NotCanonical),
        ("deflate", b"", NotCanonical),
        ("deflate", b"\xff" * 9, NotCanonical),
        ("deflate", packed(DATA, "deflate")[:-1], NotCanonical),
        ("deflate", packed(DATA, "deflate") + b"\0", NotCanonical),
        ("deflate", zlib.compress(DATA), NotCanonical),
        ("snappy", b"", Truncated),
        ("snappy", b"\0\0\0", Truncated),
        ("snappy", b"\0\0\0\0", Truncated),
        ("snappy", packed(DATA, "snappy")[:-1], DecodeError),
        ("snappy", packed(DATA, "snappy") + b"\0", DecodeError),
        ("snappy", packed(DATA, "snappy")[:-4] + bytes(4), ChecksumMismatch),
        ("snappy", bytes(cramjam.snappy.compress_raw(DATA)), DecodeError),
    ],
)
def test_damaged_block_is_refused(codec: str, body: bytes, kind: type[DecodeError]) -> None:
    with pytest.raises(kind) as caught:
        decoded(header(SCHEMA, codec) + block(3, body))
    assert caught.value.source == "x.avro"
    assert (caught.value.offset or 0) >= len(header(SCHEMA, codec))


# ---------------------------------------------------------------------- schemas that pass for a known one


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}


KNOWN = {
    "type": "record",
    "fields": [
        {"name": "a", "type": "int"},
        {"name": "b", "type": {"type": "array", "items": "string"}},
        {"name": "c", "type": ["null", "bytes"], "default": None},
    ],
}
TEXTS = {"type": "array", "items": "string"}


@each(
    "found",
    [
        record(("a", "int"), ("b", TEXTS), ("c", ["null", "bytes"])),
        record(("b", TEXTS), ("a", "long")),
        record(("a", {"type": "int"}), ("b", TEXTS), ("c", "bytes")),
        record(("a", "int"), ("b", TEXTS), ("more", {"type": "long", "logicalType": "timestamp-millis"})),
        record(("a", "int"), ("b", TEXTS), ("more", ["null", {"type": "array", "items": ["null", "long"]}])),
        record(("a", "int"), ("b", TEXTS), ("more", record(("x", "bytes")))),
        record(("a", "int"), ("b", TEXTS), ("more", {"type": "map", "values": "long"})),
        record(("a", "int"), ("b", TEXTS), ("more", {"type": "enum", "name": "e", "symbols": ["x"]})),
    ],
)
def test_schema_of_another_producer_passes(found: Any) -> None:
    assert differs(found, KNOWN) is None


@each(
    ("found", "message"),
    [
        (record(("a", "int")), "no field b"),
        (record(("a", "string"), ("b", TEXTS)), "field a: 'string' in place of int"),
        (record(("a", ["null", "int"]), ("b", TEXTS)), "field a: nullable"),
        (record(("a", "int"), ("b", {"type": "array", "items": "null"})), "field b: 'null' in place of string"),
        (record(("a", "int"), ("b", "string")), "field b: 'string' in place of a array"),
        (record(("a", "int"), ("a", "int"), ("b", TEXTS)), "two of one name"),
        ({"type": "record"}, "a record without fields"),
        ("string", "'string' in place of a record"),
    ],
)
def test_other_schemas_are_reported(found: Any, message: str) -> None:
    assert message in str(differs(found, KNOWN))

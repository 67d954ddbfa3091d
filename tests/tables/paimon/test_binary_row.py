"""Serialized rows: the law that what is encoded is decoded, and rows made to harm."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec import NotCanonical, Truncated, Unsupported
from dvcodec.tables.paimon.metadata import parse_type
from dvcodec.tables.paimon.partition import decode_row
from samples.paimon_table import encode_row

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "TIME(3)": st.integers(0, 86_399_999),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(18, 4)": st.decimals("-99999999999999", "99999999999999", places=4),
    "DECIMAL(19, 4)": st.decimals("-999999999999999", "999999999999999", places=4),
    "DECIMAL(38, 10)": st.decimals("-1e27", "1e27", places=10),
    "TIMESTAMP(3)": st.integers(-(2**52), 2**52).map(lambda millis: millis * 1_000_000),
    "TIMESTAMP(9)": st.integers(-(2**62), 2**62),
    "TIMESTAMP_LTZ(6)": st.integers(-(2**52), 2**52).map(lambda micros: micros * 1000),
    "STRING": st.text(max_size=20),
    "BYTES": st.binary(max_size=20),
}


def types(*names: str) -> list[Any]:
    return [parse_type(name, source="s", what=name) for name in names]


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[str], list[Any]]:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=70))
    return names, [draw(st.none() | VALUES[name]) for name in names]


@given(rows())
def test_decoding_gives_back_what_was_encoded(row: tuple[list[str], list[Any]]) -> None:
    names, values = row
    kinds = types(*names)
    assert decode_row(encode_row(values, kinds), kinds, source="s", what="_PARTITION") == tuple(values)


def test_truncations_are_refused() -> None:
    kinds = types("STRING", "DECIMAL(38, 0)", "INT")
    data = encode_row(["a longer text", Decimal(10**30), 5], kinds)
    assert decode_row(data, kinds, source="s", what="w") == ("a longer text", Decimal(10**30), 5)
    for end in range(len(data) - 3):  # the last decimal is padded
        with pytest.raises((Truncated, NotCanonical), match="s: w: "):
            decode_row(data[:end], kinds, source="s", what="w")


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (b"\0\0\0\x02" + bytes(24), "INT", "expected 1 fields, found 2"),
        (b"\0\0\0\x01" + bytes(8) + b"abcdefg\x88", "STRING", "at most 7 bytes in place"),
        (b"\0\0\0\x01" + bytes(8) + b"\xff\xfe\0\0\0\0\0\x82", "STRING", "expected UTF-8"),
        (
            b"\0\0\0\x01" + bytes(8) + b"\x11\0\0\0\x10\0\0\0" + bytes(99),
            "DECIMAL(38, 0)",
            "at most 16 bytes of a decimal",
        ),
    ],
)
def test_values_that_cannot_be_are_refused(data: bytes, name: str, message: str) -> None:
    with pytest.raises(NotCanonical, match=message):
        decode_row(data, types(name), source="s", what="w")


def test_type_that_no_partition_has_is_named() -> None:
    with pytest.raises(Unsupported, match="w: expected a type that partitions have, found BLOB"):
        decode_row(b"\0\0\0\x01" + bytes(16), types("BLOB"), source="s", what="w")

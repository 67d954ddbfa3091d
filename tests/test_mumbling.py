"""Mumbling bitmaps: the examples of the specification, laws, and each rule that bytes can break.

``tests/interop/test_java_mumbling.py`` holds them against Iceberg Java.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import CardinalityMismatch, DecodeError, NotCanonical, RowSet, Truncated, Unsupported, UsageError
from dvcodec.mumbling import MAX_POSITIONS, decode, encode

LEAST = [*range(31)]


def bitmap(cardinality: int, containers: int, rest: str) -> bytes:
    """Header, and the rest as hex."""
    header = b"\x01" + cardinality.to_bytes(3, "little") + containers.to_bytes(2, "little")
    return header + bytes.fromhex(rest)


READ = {
    "none": (bitmap(0, 0, ""), []),
    "empty containers": (bitmap(0, 300, "00 00 00  00 00 00"), []),
    "the specification's sparse container": (bitmap(3, 1, "00 00 03  00 22 ff"), [0, 34, 255]),
    "31 positions": (bitmap(31, 1, "00 00 1f" + bytes(LEAST).hex()), LEAST),
    "the specification's dense container": (bitmap(33, 1, "00 00 20 ff ff ff ff 80" + "00" * 27), [*range(33)]),
    "even positions": (bitmap(128, 1, "00 00 20" + "aa" * 32), [*range(0, 256, 2)]),
    "low bits of a dense container": (bitmap(32, 1, "00 00 3f ff ff ff ff" + "00" * 28), [*range(32)]),
    "PFOR example 4": (
        bitmap(21, 3, "02 00 06 18" + bytes([*range(6), *range(7), *range(8)]).hex()),
        [*range(6), *range(256, 263), *range(512, 520)],
    ),
    "eight bits each": (bitmap(3, 2, "08 00 00 01 02  07  01 02"), [7, 257, 258]),
    "an exception that adds nothing": (bitmap(2, 1, "10 01 02 00 00 05 06"), [5, 6]),
    "an exception without bits": (bitmap(2, 1, "00 01 02 00 05 06"), [5, 6]),
    "mixed": (bitmap(34, 3, "08 00 00 01 20 01  07 ff ff ff ff" + "00" * 28 + "09"), [7, *range(256, 288), 521]),
}


@each("name", READ)
def test_valid_bitmaps(name: str) -> None:
    data, positions = READ[name]
    found = decode(data)
    assert found == RowSet(positions)
    assert decode(encode(found)) == found


WRONG: dict[str, tuple[bytes, type[DecodeError], int]] = {
    "no bytes": (b"", Truncated, 0),
    "header": (b"\1\0\0", Truncated, 1),
    "another version": (b"\2" + bitmap(1, 1, "00 00 01 05")[1:], Unsupported, 0),
    "too many containers": (bitmap(0, 8193, "00 00 00" * 33), NotCanonical, 4),
    "no chunk": (bitmap(1, 1, "00 00"), Truncated, 6),
    "a chunk without its values": (bitmap(1, 1, "08 00 00"), Truncated, 9),
    "nine bits": (bitmap(2, 1, "09 00 02 00 00 05 06"), NotCanonical, 6),
    "nine bits together": (bitmap(2, 1, "54 01 02 00 00 00 05 06"), NotCanonical, 6),
    "exceptions to eight bits": (bitmap(2, 1, "08 01 00 02 00 05 06"), NotCanonical, 6),
    "exception outside": (bitmap(2, 1, "10 01 02 01 00 05 06"), NotCanonical, 9),
    "exceptions out of order": (bitmap(4, 2, "10 02 01 01 00 c0 05 06 05 06"), NotCanonical, 10),
    "an exception twice": (bitmap(4, 2, "10 02 01 01 01 c0 05 06 05 06"), NotCanonical, 10),
    "padding of values": (bitmap(2, 1, "02 00 01 41 05 06"), NotCanonical, 9),
    "padding of exceptions": (bitmap(2, 1, "10 01 01 00 81 05 06"), NotCanonical, 10),
    "reserved descriptor": (bitmap(2, 1, "00 00 42 05 06"), Unsupported, 6),
    "descriptor above a byte": (bitmap(2, 1, "08 00 ff 03 05 06"), Unsupported, 6),
    "container cut off": (bitmap(2, 1, "00 00 02 05"), Truncated, 9),
    "descending": (bitmap(2, 1, "00 00 02 06 05"), NotCanonical, 10),
    "twice": (bitmap(4, 2, "00 00 02 06 07 05 05"), NotCanonical, 12),
    "twice after a dense one": (bitmap(34, 2, "08 00 00 20 02 ff ff ff ff" + "00" * 28 + "05 05"), NotCanonical, 44),
    "dense with 31": (bitmap(31, 1, "00 00 20 ff ff ff fe" + "00" * 28), NotCanonical, 9),
    "too few": (bitmap(3, 1, "00 00 02 05 06"), CardinalityMismatch, 1),
    "bytes after the end": (bitmap(2, 1, "00 00 02 05 06 07"), NotCanonical, 11),
}


@each("name", WRONG)
def test_what_breaks_a_rule_is_refused_with_its_offset(name: str) -> None:
    data, kind, offset = WRONG[name]
    with pytest.raises(kind) as caught:
        decode(data, source="x", base=1000)
    assert type(caught.value) is kind
    assert (caught.value.source, caught.value.offset) == ("x", 1000 + offset)


def test_the_metadata_s_cardinality_is_checked_too() -> None:
    data = encode(RowSet([1, 2]))
    assert decode(data, cardinality=2) == RowSet([1, 2])
    with pytest.raises(CardinalityMismatch, match=r"3 \(metadata\)"):
        decode(data, cardinality=3)


def test_positions_that_do_not_fit_are_refused() -> None:
    assert decode(encode(RowSet([MAX_POSITIONS - 1]))) == RowSet([MAX_POSITIONS - 1])
    with pytest.raises(UsageError, match="2097152 does not fit a Mumbling bitmap"):
        encode(RowSet([MAX_POSITIONS]))


@st.composite
def some_rows(draw: st.DrawFn) -> RowSet:
    """Rows in containers that are full, empty, or on either side of the border between sparse and dense."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    containers = draw(st.sampled_from([1, 2, 255, 256, 257, 515, 8192]))
    held = random.choice(draw(st.sampled_from([[0, 1], [0, 31], [31, 32], [0, 3, 32, 256], [2, 20]])), containers)
    mask = random.random((containers, 256)).argsort(axis=1) < held[:, None]
    return RowSet(np.flatnonzero(mask))


@given(some_rows())
def test_rows_survive(rows: RowSet) -> None:
    data = encode(rows)
    found = decode(data, cardinality=len(rows))
    assert found == rows
    assert encode(found) == data

"""Row addresses, and maps of them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from battery import check_buffers
from cases import each
from dvcodec import DecodeError, NotCanonical, RowSet, Truncated, UsageError
from dvcodec.lance import (
    TOMBSTONE_ADDRESS,
    RowAddrMap,
    decode_row_addr_map,
    encode_row_addr_map,
    row_addresses,
    split_row_addresses,
)

U32 = 2**32
fragments = st.one_of(st.integers(0, 5), st.integers(0, U32 - 1), st.just(U32 - 1))
offsets = st.one_of(st.integers(0, 100), st.integers(0, U32 - 1), st.just(U32 - 1))
maps = st.dictionaries(fragments, st.one_of(st.none(), st.sets(offsets, min_size=1, max_size=20)), max_size=5)


def crafted(*entries: tuple[int, bytes]) -> bytes:
    return struct.pack("<I", len(entries)) + b"".join(
        struct.pack("<II", fragment, len(data)) + data for fragment, data in entries
    )


def bitmap(rows: Any) -> bytes:
    data: bytes = BitMap(rows).serialize()
    return data


def test_maps_of_a_bitmap_index(vectors: Path) -> None:
    truth = json.loads((vectors / "lance" / "bitmap_index_addr.json").read_text())
    keys = [i % 3 if i < 8000 else 7 for i in range(12_000)]
    assert len(truth["entries"]) == 4
    for entry in truth["entries"]:
        data = (vectors / "lance" / entry["file"]).read_bytes()
        found = decode_row_addr_map(data)
        assert encode_row_addr_map(found) == data
        rows, split = [i for i, key in enumerate(keys) if key == entry["key"]], truth["frag0_rows"]
        assert found.to_row_set() == RowSet([row if row < split else U32 + row - split for row in rows])
        check_buffers(decode_row_addr_map, data)


@given(maps)
def test_map_is_its_dictionary(model: dict[int, set[int] | None]) -> None:
    rows = RowAddrMap({fragment: None if inside is None else RowSet(inside) for fragment, inside in model.items()})
    data = crafted(*((key, b"" if model[key] is None else bitmap(model[key])) for key in sorted(model)))
    assert list(rows.fragments) == sorted(model)
    assert encode_row_addr_map(rows) == data
    assert decode_row_addr_map(data) == rows
    full = [key for key, inside in model.items() if inside is None]
    addresses = {key << 32 | row for key, inside in model.items() for row in inside or ()}
    assert rows.cardinality == (None if full else len(addresses))
    for address in addresses | {key << 32 for key in full} | {key << 32 | U32 - 1 for key in full}:
        assert address in rows
    for address in (17 << 32, TOMBSTONE_ADDRESS, 5):
        assert (address in rows) is (address in addresses or address >> 32 in full)
    if full:
        with pytest.raises(UsageError, match="as a whole"):
            rows.to_row_set()
    else:
        assert rows.to_row_set() == RowSet(addresses)
        assert RowAddrMap.from_row_set(rows.to_row_set()) == rows


@each(
    ("data", "kind", "what", "offset"),
    [
        (b"", Truncated, "fragment count", 0),
        (b"\1\0\0", Truncated, "fragment count", 0),
        (struct.pack("<I", 1), Truncated, "fragment count", 0),
        (struct.pack("<III", 2, 0, 0), Truncated, "fragment count", 0),
        (crafted((5, b""), (5, b"")), NotCanonical, "fragment", 12),
        (crafted((5, b""), (4, b"")), NotCanonical, "fragment", 12),
        (crafted((5, bitmap([]))), NotCanonical, "bitmap of fragment 5", 4),
        (crafted((5, bitmap([1]) + b"\0")), NotCanonical, "bitmap of fragment 5", 30),
        (crafted((5, b""))[:-4] + struct.pack("<I", 9), Truncated, "bitmap of fragment 5", 12),
    ],
)
def test_refused_with_what_and_where(data: bytes, kind: type[DecodeError], what: str, offset: int) -> None:
    for base in (0, 500):
        with pytest.raises(DecodeError) as caught:
            decode_row_addr_map(data, source="page", base=base)
        assert type(caught.value) is kind
        assert what in caught.value.what
        assert (caught.value.source, caught.value.offset) == ("page", base + offset)


@pytest.mark.parametrize("model", [{-1: None}, {U32: None}, {3: RowSet()}, {3: RowSet([U32])}], ids=str)
def test_invalid_maps_are_refused(model: dict[int, RowSet | None]) -> None:
    with pytest.raises(UsageError):
        RowAddrMap(model)


@given(fragments, st.lists(offsets, max_size=20))
def test_addresses(fragment: int, rows: list[int]) -> None:
    addresses = row_addresses(fragment, rows)
    assert addresses.dtype == np.uint64
    assert addresses.tolist() == [fragment << 32 | row for row in rows]
    high, low = split_row_addresses(addresses)
    assert high.dtype == low.dtype == np.dtype(np.uint32)
    assert high.tolist() == [fragment] * len(rows)
    assert low.tolist() == rows


@pytest.mark.parametrize(("fragment", "rows"), [(-1, [0]), (U32, [0]), (0, [U32]), (0, [-1]), (U32, [])])
def test_addresses_have_32_and_32_bits(fragment: int, rows: list[int]) -> None:
    with pytest.raises(UsageError):
        row_addresses(fragment, rows)

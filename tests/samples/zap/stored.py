"""Stored documents for the tests: as rows, and a slow reader and writer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from dvcodec import Limits
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.stored import ID_TYPE, StoredColumns, decode_stored
from samples.zap.parts import footer, pack, segment, unpack
from samples.zap.segments import take, uv

F = 4
"""Fields of the crafted segments."""


class Value(NamedTuple):
    field: int
    type: int
    value: bytes
    arrays: tuple[int, ...] = ()


Doc = tuple[bytes, list[Value]]


def columns_of(docs: list[Doc], first: int = 0) -> StoredColumns:
    rows = [
        (first + i, *value) for i, (name, values) in enumerate(docs) for value in [Value(0, ID_TYPE, name), *values]
    ]
    return StoredColumns(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.uint8),
        ByteStrings.from_list([row[3] for row in rows]),
        np.array([len(row[4]) for row in rows], np.int64),
        np.array([number for row in rows for number in row[4]], np.uint64),
    )


def docs_of(columns: StoredColumns) -> list[Doc]:
    docs: list[Doc] = []
    at = 0
    for i in range(len(columns)):
        count = int(columns.array_counts[i])
        arrays = tuple(columns.array_positions[at : at + count].tolist())
        at += count
        value = Value(int(columns.fields[i]), int(columns.types[i]), columns.values[i], arrays)
        if not value.field:
            assert (value.type, value.arrays) == (ID_TYPE, ())
            docs.append((value.value, []))
        else:
            docs[-1][1].append(value)
    assert at == len(columns.array_positions)
    return docs


def write(docs: list[Doc]) -> tuple[bytes, list[int]]:
    """As `newSegment` of zapx does it."""
    out, addresses = b"", []
    for name, values in docs:
        meta, content = uv(len(name)), b""
        for value in values:
            meta += uv(value.field, value.type, len(content), len(value.value), len(value.arrays), *value.arrays)
            content += value.value
        block = pack(content)
        addresses.append(len(out))
        out += uv(len(meta), len(name) + len(block)) + meta + name + block
    return out, addresses


def read(raw: bytes, addresses: list[int]) -> list[Doc]:
    """As `visitStoredFields` of zapx does it."""
    docs: list[Doc] = []
    for address in addresses:
        meta_size, at = take(raw, address)
        data_size, at = take(raw, at)
        stop = at + meta_size
        id_size, at = take(raw, at)
        data = raw[stop : stop + data_size]
        content = unpack(data[id_size:])
        values = []
        while at < stop:
            numbers = []
            for _ in range(5):
                number, at = take(raw, at)
                numbers.append(number)
            arrays = []
            for _ in range(numbers[4]):
                number, at = take(raw, at)
                arrays.append(number)
            values.append(Value(numbers[0], numbers[1], content[numbers[2] : numbers[2] + numbers[3]], tuple(arrays)))
        docs.append((data[:id_size], values))
    return docs


def lay(records: bytes, addresses: list[int]) -> bytes:
    return records + np.array(addresses, ">u8").tobytes()


def decode(raw: bytes, num_docs: int, limits: Limits | None = None, stored_index: int | None = None) -> StoredColumns:
    index = len(raw) - 8 * num_docs if stored_index is None else stored_index
    return decode_stored(segment(raw), footer(15, num_docs, index), F, 0, num_docs, limits=limits or Limits())


values = st.builds(
    Value,
    st.integers(1, F - 1),
    st.integers(0, 255),
    st.one_of(st.binary(max_size=9), st.text("ab", max_size=200).map(str.encode)),
    st.lists(st.integers(0, 2**64 - 1), max_size=2).map(tuple),
)
documents = st.lists(st.tuples(st.binary(max_size=5), st.lists(values, max_size=4)), max_size=6)


def record(
    meta: bytes = uv(2), name: bytes = b"k1", block: bytes = b"\0", meta_size: int | None = None, extra: int = 0
) -> bytes:
    size = len(meta) if meta_size is None else meta_size
    return uv(size, len(name) + len(block) + extra) + meta + name + block


def entry(*numbers: int) -> bytes:
    return uv(2) + uv(*numbers)


GOOD = record()
CONTENT = pack(b"0123456789")
TOP = 2**64 - 1
DOCS: list[Doc] = [
    (b"first", [Value(1, 116, b"some text, some text, some text"), Value(2, 110, b"12345678901", (1, 300))]),
    (b"", []),
    (b"third", [Value(3, 98, b"T"), Value(3, 98, b"", (0,)), Value(3, 98, b"F", (1,))]),
]

"""Stored documents: both ways, in ranges and batches, and every way for records and their index to be wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, NotCanonical, Truncated
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap import stored
from dvcodec.zap.stored import ID_TYPE, StoredColumns, encode_stored_index, encode_stored_records, iter_stored
from samples.zap.parts import footer, pack, plain, segment
from samples.zap.segments import uv

F = 4
"""Fields of the crafted segments."""
TOP = 2**64 - 1
CONTENT = pack(b"0123456789")


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


def write(docs: list[Doc]) -> tuple[bytes, list[int]]:
    """Records as `newSegment` of zapx writes them, and their addresses."""
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


def lay(records: bytes, addresses: list[int]) -> bytes:
    return records + np.array(addresses, ">u8").tobytes()


def decode(raw: bytes, num_docs: int, start: int = 0, stop: int | None = None) -> dict[str, Any]:
    """The columns of all batches, joined."""
    foot = footer(15, num_docs, len(raw) - 8 * num_docs)
    batches = list(map(plain, iter_stored(segment(raw), foot, F, start, num_docs if stop is None else stop)))
    return {name: [value for batch in batches for value in batch[name]] for name in StoredColumns.__slots__}


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


@given(documents)
def test_both_ways(docs: list[Doc]) -> None:
    records, addresses = encode_stored_records(columns_of(docs), len(docs))
    assert (records, addresses.tolist()) == write(docs)
    assert decode(records + encode_stored_index(addresses), len(docs)) == plain(columns_of(docs))


@given(documents, st.randoms())
def test_values_in_any_place(docs: list[Doc], dice: np.random.Generator) -> None:
    """A block may hold the values in another order, with gaps, and shared: whoever wrote it."""
    out, addresses = b"", []
    for name, values in docs:
        content = b"".join(value.value for value in reversed(values)) + b"tail"
        meta = uv(len(name))
        for value in values:
            start = content.index(value.value)
            meta += uv(value.field, value.type, start, len(value.value), len(value.arrays), *value.arrays)
        block = pack(content)
        addresses.append(len(out))
        out += uv(len(meta), len(name) + len(block)) + meta + name + block
    assert decode(lay(out, addresses), len(docs)) == plain(columns_of(docs))


@each(
    ("bad", "kind", "what"),
    [
        (b"\x80", Truncated, "stored document"),
        (b"\x01\x80", Truncated, "stored document"),
        (b"\xff" * 9 + b"\x02" + GOOD, NotCanonical, "metadata bytes"),
        (record(meta_size=TOP), NotCanonical, "lengths of a stored document"),
        (record(meta_size=TOP, extra=2), NotCanonical, "lengths of a stored document"),  # wraps around
        (record(extra=1), NotCanonical, "lengths of a stored document"),
        (record(meta=b""), NotCanonical, "lengths of a stored document"),
        (record(uv(3)), NotCanonical, "length of an id"),
        (record(uv(2) + b"\x80"), Truncated, "metadata of a stored document"),
        (record(uv(2) + b"\x80" * 10 + b"\x01"), NotCanonical, "metadata of a stored document"),
        (record(entry(1, 116, 0, 0, 1)), NotCanonical, "metadata of a stored document"),
        (record(entry(1, 116, 0, 0, 0, 1)), NotCanonical, "metadata of a stored document"),
        (record(entry(0, 116, 0, 0, 0)), NotCanonical, "field of a stored value"),
        (record(entry(F, 116, 0, 0, 0)), NotCanonical, "field of a stored value"),
        (record(entry(1, 256, 0, 0, 0)), NotCanonical, "type of a stored value"),
        (record(entry(1, 116, 11, 0, 0), block=CONTENT), NotCanonical, "start of a stored value"),
        (record(entry(1, 116, 5, 6, 0), block=CONTENT), NotCanonical, "length of a stored value"),
        (record(entry(1, 116, 5, TOP, 0), block=CONTENT), NotCanonical, "length of a stored value"),
        (record(entry(1, 116, TOP, 2, 0), block=CONTENT), NotCanonical, "start of a stored value"),
        (record(block=b""), NotCanonical, "length of an id"),
        (record(block=b"\x80"), Truncated, "content size of stored values"),
        (record(block=uv(2**31) + b"abc"), NotCanonical, "content size of stored values"),
        (record(block=b"\x05" + CONTENT[1:]), NotCanonical, "stored values"),
        (record(block=CONTENT[:-1]), NotCanonical, "stored values"),
    ],
)
def test_refused(bad: bytes, kind: type[DecodeError], what: str) -> None:
    """The same whether the record stands alone, behind another or in front of one."""
    for before, behind in ((b"", b""), (GOOD, b""), (b"", GOOD), (GOOD * 3, GOOD)):
        records = before + bad + behind
        addresses = [*range(0, len(before), len(GOOD)), len(before)] + [len(before + bad)] * bool(behind)
        with pytest.raises(kind, match=what) as caught:
            decode(lay(records, addresses), len(addresses))
        assert caught.value.source == "crafted"
        assert len(before) <= (caught.value.offset or 0) < len(before + bad) + 1


@given(documents, st.integers(0, 6), st.integers(0, 6), st.integers(1, 4), st.integers(1, 80))
def test_ranges_and_batches(docs: list[Doc], start: int, count: int, docs_per_batch: int, batch_bytes: int) -> None:
    start = min(start, len(docs))
    stop = min(start + count, len(docs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "_BATCH_DOCS", docs_per_batch)
        patch.setattr(stored, "_BATCH_BYTES", batch_bytes)
        assert decode(lay(*write(docs)), len(docs), start, stop) == plain(columns_of(docs[start:stop], start))


@each(
    ("addresses", "what", "offset"),
    [
        ([0, 6, 6], "address of a stored document", 16),
        ([0, 12, 6], "address of a stored document", 16),
        ([0, 6, 18], "address of a stored document", 16),
        ([0, 6, TOP], "address of a stored document", 16),
        ([0, 2**63, 12], "address of a stored document", 8),
        ([6, 12, 13], "address of the first document", 0),
        ([0, 5, 12], "lengths of a stored document", None),
        ([0, 7, 12], "lengths of a stored document", None),
    ],
)
def test_addresses_refused(addresses: list[int], what: str, offset: int | None) -> None:
    with pytest.raises(NotCanonical, match=what) as caught:
        decode(lay(GOOD * 3, addresses), 3)
    if offset is not None:
        assert caught.value.offset == len(GOOD * 3) + offset

"""Stored documents: real files, a slow reader and writer, and every way to be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec import DecodeError, LimitExceeded, Limits, NotCanonical, Truncated, UsageError
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.stored import (
    ID_TYPE,
    StoredColumns,
    decode_stored,
    encode_stored,
    encode_stored_index,
    iter_stored,
)
from zap.pieces import Sample, footer, pack, plain, sample, segment, survives, take, unpack, uv

__all__ = ["sample"]

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


def test_real_files(sample: Sample) -> None:
    names = [field.name for field in sample.fields]
    found = decode_stored(sample.data, sample.footer, len(names), 0, sample.footer.num_docs)
    dump = [
        [["_id", "t", name.decode(), None]]
        + [[names[v.field], chr(v.type), v.value.decode(), list(v.arrays) or None] for v in values]
        for name, values in docs_of(found)
    ]
    assert dump == [[[*entry[:3], entry[3] or None] for entry in doc] for doc in sample.dump["stored"]]
    records, addresses = encode_stored(found, sample.footer.num_docs)
    assert records + encode_stored_index(addresses) == sample.raw[: len(records) + 8 * len(addresses)]
    assert len(records) == sample.footer.stored_index


def test_worked_example() -> None:
    """Section 14 of the notes: three documents that are nothing but their ids."""
    raw = bytes.fromhex("0103026b31000103026b32000104036b313000")
    columns = columns_of([(b"k1", []), (b"k2", []), (b"k10", [])])
    records, addresses = encode_stored(columns, 3)
    assert (records, addresses.tolist()) == (raw, [0, 6, 12])
    assert plain(decode(lay(records, [0, 6, 12]), 3)) == plain(columns)


@given(documents)
def test_both_ways(docs: list[Doc]) -> None:
    records, addresses = encode_stored(columns_of(docs), len(docs))
    assert (records, addresses.tolist()) == write(docs)
    assert read(records, addresses.tolist()) == docs
    raw = records + encode_stored_index(addresses)
    assert plain(decode(raw, len(docs))) == plain(columns_of(docs))


@given(documents, st.integers(0, 6), st.integers(0, 6), st.integers(1, 4), st.integers(1, 80))
def test_ranges_and_batches(docs: list[Doc], start: int, count: int, docs_per_batch: int, batch_bytes: int) -> None:
    start = min(start, len(docs))
    stop = min(start + count, len(docs))
    raw = lay(*write(docs))
    data, foot = segment(raw), footer(17, len(docs), len(raw) - 8 * len(docs))
    found = decode_stored(data, foot, F, start, stop)
    assert plain(found) == plain(columns_of(docs[start:stop], start))
    batches = list(iter_stored(data, foot, F, docs_per_batch=docs_per_batch, batch_bytes=batch_bytes))
    assert [doc for batch in batches for doc in docs_of(batch)] == docs
    records = b""
    for batch in batches:
        first = int(batch.docs[0])
        num_docs = len(np.unique(batch.docs))
        assert num_docs <= docs_per_batch
        part, addresses = encode_stored(batch, num_docs, first=first, base=len(records))
        assert addresses.tolist() == write(docs)[1][first : first + num_docs]
        records += part
        assert len(part) <= batch_bytes or num_docs == 1
    assert records == write(docs)[0]


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
    assert plain(decode(lay(out, addresses), len(docs))) == plain(columns_of(docs))


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


@pytest.mark.parametrize(
    ("bad", "kind", "what"),
    [
        (b"\x80", Truncated, "stored document"),
        (b"\x01\x80", Truncated, "stored document"),
        (b"\xff" * 9 + b"\x02" + GOOD, NotCanonical, "metadata bytes"),
        (record(meta_size=2), NotCanonical, "lengths of a stored document"),
        (record(meta_size=TOP), NotCanonical, "lengths of a stored document"),
        (record(meta_size=TOP, extra=2), NotCanonical, "lengths of a stored document"),  # wraps around
        (record(extra=1), NotCanonical, "lengths of a stored document"),
        (record(extra=-1), NotCanonical, "lengths of a stored document"),
        (record(extra=2**63), NotCanonical, "lengths of a stored document"),
        (record(meta=b""), NotCanonical, "lengths of a stored document"),
        (GOOD + b"\0", NotCanonical, "lengths of a stored document"),
        (record(uv(3)), NotCanonical, "length of an id"),
        (record(uv(4)), NotCanonical, "length of an id"),
        (record(uv(TOP)), NotCanonical, "length of an id"),
        (record(uv(2) + b"\x80"), Truncated, "metadata of a stored document"),
        (record(uv(2) + b"\x80" * 10 + b"\x01"), NotCanonical, "metadata of a stored document"),
        (record(entry(1, 116, 0, 0)), NotCanonical, "metadata of a stored document"),
        (record(entry(1, 116, 0, 0, 1)), NotCanonical, "metadata of a stored document"),
        (record(entry(1, 116, 0, 0, TOP)), NotCanonical, "metadata of a stored document"),
        (record(entry(1, 116, 0, 0, 2**63)), NotCanonical, "metadata of a stored document"),
        (record(entry(1, 116, 0, 0, 0, 1)), NotCanonical, "metadata of a stored document"),
        (record(entry(0, 116, 0, 0, 0)), NotCanonical, "field of a stored value"),
        (record(entry(F, 116, 0, 0, 0)), NotCanonical, "field of a stored value"),
        (record(entry(TOP, 116, 0, 0, 0)), NotCanonical, "field of a stored value"),
        (record(entry(1, 256, 0, 0, 0)), NotCanonical, "type of a stored value"),
        (record(entry(1, 116, 1, 0, 0)), NotCanonical, "start of a stored value"),
        (record(entry(1, 116, 0, 1, 0)), NotCanonical, "length of a stored value"),
        (record(entry(1, 116, 11, 0, 0), block=CONTENT), NotCanonical, "start of a stored value"),
        (record(entry(1, 116, 5, 6, 0), block=CONTENT), NotCanonical, "length of a stored value"),
        (record(entry(1, 116, 5, TOP, 0), block=CONTENT), NotCanonical, "length of a stored value"),
        (record(entry(1, 116, TOP, 2, 0), block=CONTENT), NotCanonical, "start of a stored value"),
        (record(block=b""), NotCanonical, "length of an id"),
        (record(block=b"\x80"), Truncated, "content size of stored values"),
        (record(block=uv(2**31) + b"abc"), NotCanonical, "content size of stored values"),
        (record(block=b"\x05" + CONTENT[1:]), NotCanonical, "stored values"),
        (record(block=CONTENT[:-1]), NotCanonical, "stored values"),
        (record(block=CONTENT + b"\0"), NotCanonical, "stored values"),
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


@pytest.mark.parametrize(
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


def test_the_index_has_to_be_there() -> None:
    with pytest.raises(Truncated, match="stored index"):
        decode(lay(GOOD * 3, [0, 6, 12]), 4, stored_index=18)
    assert plain(decode(b"", 0)) == plain(columns_of([]))


def test_limits() -> None:
    docs: list[Doc] = [(b"%d" % i, [Value(1, 116, b"x" * 1000)]) for i in range(10)]
    raw = lay(*write(docs))
    assert docs_of(decode(raw, 10, Limits(max_blob_bytes=10_000))) == docs
    with pytest.raises(LimitExceeded, match="max_blob_bytes"):
        decode(raw, 10, Limits(max_blob_bytes=9_999))
    data, foot = segment(raw), footer(15, 10, len(raw) - 80)
    batches = list(iter_stored(data, foot, F, limits=Limits(max_blob_bytes=3000)))
    assert len(batches) > 1
    assert [doc for batch in batches for doc in docs_of(batch)] == docs
    with pytest.raises(LimitExceeded, match="max_blob_bytes"):
        list(iter_stored(data, foot, F, limits=Limits(max_blob_bytes=999)))


def test_values_that_share_bytes_are_limited() -> None:
    """A thousand values that are all the whole block would make a thousand times its size."""
    content = b"x" * 10_000
    meta = uv(2) + uv(1, 116, 0, len(content), 0) * 1000
    raw = lay(record(meta, block=pack(content)), [0])
    assert len(decode(raw, 1)) == 1001
    with pytest.raises(LimitExceeded, match="max_blob_bytes"):
        decode(raw, 1, Limits(max_blob_bytes=1_000_000))


DOCS: list[Doc] = [
    (b"first", [Value(1, 116, b"some text, some text, some text"), Value(2, 110, b"12345678901", (1, 300))]),
    (b"", []),
    (b"third", [Value(3, 98, b"T"), Value(3, 98, b"", (0,)), Value(3, 98, b"F", (1,))]),
]


def test_damage() -> None:
    raw = lay(*write(DOCS))

    def again(columns: StoredColumns) -> StoredColumns:
        records, addresses = encode_stored(columns, 3)
        return decode(records + encode_stored_index(addresses), 3)

    survives(lambda bad: decode(bad, 3, stored_index=len(raw) - 24), again, raw, 0, len(raw))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.docs[::-1],
        lambda c: c.docs + 1,
        lambda c: c.docs - 1,
        lambda c: np.minimum(c.docs, 1),
    ],
)
def test_documents_that_cannot_be_written(
    change: Callable[[StoredColumns], np.ndarray[tuple[int], np.dtype[np.int64]]],
) -> None:
    good = columns_of(DOCS)
    bad = StoredColumns(change(good), good.fields, good.types, good.values, good.array_counts, good.array_positions)
    with pytest.raises(UsageError, match="stored values"):
        encode_stored(bad, 3)


@pytest.mark.parametrize(("column", "at"), [("fields", 0), ("fields", 1), ("types", 0), ("array_counts", 0)])
def test_ids_that_cannot_be_written(column: str, at: int) -> None:
    parts = {name: getattr(columns_of(DOCS), name) for name in StoredColumns.__slots__}
    parts[column] = parts[column].copy()
    parts[column][at] = 0 if at else 1
    with pytest.raises(UsageError, match="stored values"):
        encode_stored(StoredColumns(**parts), 3)


def test_bad_arguments() -> None:
    raw = lay(*write(DOCS))
    data, foot = segment(raw), footer(15, 3, len(raw) - 24)
    for start, stop in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(UsageError, match="of 3"):
            decode_stored(data, foot, F, start, stop)
    for docs_per_batch, batch_bytes in ((0, 1), (1, 0)):
        with pytest.raises(UsageError, match="a batch"):
            list(iter_stored(data, foot, F, docs_per_batch=docs_per_batch, batch_bytes=batch_bytes))

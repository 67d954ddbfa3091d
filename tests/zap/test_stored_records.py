"""Records of stored documents: a slow reader and writer, and every way to be wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, NotCanonical, Truncated, UsageError
from dvcodec.zap.stored import StoredColumns, encode_stored_index, encode_stored_records
from samples.zap.parts import pack, plain
from samples.zap.segments import uv
from samples.zap.stored import (
    CONTENT,
    DOCS,
    GOOD,
    TOP,
    Doc,
    F,
    columns_of,
    decode,
    documents,
    entry,
    lay,
    read,
    record,
    write,
)


@given(documents)
def test_both_ways(docs: list[Doc]) -> None:
    records, addresses = encode_stored_records(columns_of(docs), len(docs))
    assert (records, addresses.tolist()) == write(docs)
    assert read(records, addresses.tolist()) == docs
    raw = records + encode_stored_index(addresses)
    assert plain(decode(raw, len(docs))) == plain(columns_of(docs))


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


@each(
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
        encode_stored_records(bad, 3)


@pytest.mark.parametrize(("column", "at"), [("fields", 0), ("fields", 1), ("types", 0), ("array_counts", 0)])
def test_ids_that_cannot_be_written(column: str, at: int) -> None:
    parts = {name: getattr(columns_of(DOCS), name) for name in StoredColumns.__slots__}
    parts[column] = parts[column].copy()
    parts[column][at] = 0 if at else 1
    with pytest.raises(UsageError, match="stored values"):
        encode_stored_records(StoredColumns(**parts), 3)

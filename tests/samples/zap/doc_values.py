"""Doc values for the tests: as dictionaries, and a slow reader and writer."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from hypothesis import strategies as st

from dvcodec import Limits
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.doc_values import DocValueBlock, DocValues
from dvcodec.zap.documents import FieldOptions
from samples.zap.parts import footer, pack, segment, unpack
from samples.zap.segments import take, uv

NONE = FieldOptions(0)
RAW = FieldOptions.SKIP_DOC_VALUE_COMPRESSION
SINGLE = FieldOptions.SKIP_DOC_VALUE_CHUNKING
BOTH = RAW | SINGLE
TOP = 2**64 - 1
FRONT = b"\x07" * 11
"""Bytes in front of the crafted blocks."""


def values_of(rows: dict[int, bytes]) -> DocValues:
    return DocValues(np.array(sorted(rows), np.int64), ByteStrings.from_list([rows[doc] for doc in sorted(rows)]))


def close(chunks: list[bytes]) -> bytes:
    ends = uv(*accumulate(map(len, chunks)))
    return b"".join(chunks) + ends + len(ends).to_bytes(8, "big") + len(chunks).to_bytes(8, "big")


def chunk(rows: dict[int, bytes], options: FieldOptions = NONE) -> bytes:
    ends = accumulate(len(rows[doc]) for doc in sorted(rows))
    head = uv(len(rows), *(number for pair in zip(sorted(rows), ends, strict=True) for number in pair))
    content = b"".join(rows[doc] for doc in sorted(rows))
    return head + (content if options & RAW else pack(content))


def write(rows: dict[int, bytes], num_docs: int, size: int, options: FieldOptions = NONE) -> bytes:
    """As zapx's `chunkedContentCoder` does it: chunk 0 always, no other without documents."""
    if options & SINGLE:
        chunks = [rows.get(doc, b"") for doc in range(num_docs)]
        if not options & RAW:
            chunks = [pack(value) if value or not doc else b"" for doc, value in enumerate(chunks)]
        return close(chunks)
    chunks = []
    for low in range(0, num_docs, size):
        mine = {doc: value for doc, value in rows.items() if low <= doc < low + size}
        chunks.append(chunk(mine, options) if mine or not low else b"")
    return close(chunks)


def read(raw: bytes, size: int) -> dict[int, bytes]:
    """As zapx's `docValueReader` does it."""
    count = int.from_bytes(raw[-8:], "big")
    at = len(raw) - 16 - int.from_bytes(raw[-16:-8], "big")
    ends = [0]
    for _ in range(count):
        end, at = take(raw, at)
        ends.append(end)
    found: dict[int, bytes] = {}
    for start, stop in pairwise(ends):
        if start == stop:
            continue
        listed, at = take(raw, start)
        pairs = []
        for _ in range(listed):
            doc, at = take(raw, at)
            end, at = take(raw, at)
            pairs.append((doc, end))
        content, last = unpack(raw[at:stop]), 0
        for doc, end in pairs:
            assert doc // size == len([e for e in ends[1:] if e <= start])
            found[doc], last = content[last:end], end
    return found


def decode(
    raw: bytes,
    num_docs: int,
    options: FieldOptions = NONE,
    *,
    version: int = 17,
    size: int = 1024,
    limits: Limits | None = None,
) -> DocValues:
    data, foot = segment(FRONT + raw), footer(version, num_docs, chunk_mode=size)
    parts = list(DocValueBlock.open(data, foot, (len(FRONT), len(FRONT + raw)), options, limits=limits or Limits()))
    assert all(len(part) for part in parts)
    return join(parts)


def join(parts: list[DocValues]) -> DocValues:
    return DocValues(
        np.concatenate([np.zeros(0, np.int64), *(part.docs for part in parts)]),
        ByteStrings.concat([part.values for part in parts]),
    )


terms = st.lists(st.binary(max_size=4).filter(lambda term: b"\xff" not in term), min_size=1, max_size=3)
contents = terms.map(lambda found: b"".join(term + b"\xff" for term in sorted(set(found))))


@st.composite
def fields(draw: st.DrawFn, most: int = 40) -> tuple[dict[int, bytes], int]:
    num_docs = draw(st.integers(1, most))
    docs = draw(st.sets(st.integers(0, num_docs - 1), max_size=12))
    return {doc: draw(contents) for doc in docs}, num_docs


ROWS = {0: b"a\xffbc\xff", 2: b"d\xff"}
CHUNK = chunk(ROWS)


def trailer(ends: bytes, count: int, size: int | None = None) -> bytes:
    return ends + (len(ends) if size is None else size).to_bytes(8, "big") + count.to_bytes(8, "big")

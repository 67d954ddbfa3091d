"""Doc values: chunks without documents, and every way for blocks to be wrong."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest

from cases import each
from dvcodec import DecodeError, NotCanonical, Truncated
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.doc_values import SKIPS, DocValueBlock, DocValues, encode_doc_value_block
from dvcodec.zap.documents import FieldOptions
from samples.zap.parts import footer, pack, plain, segment
from samples.zap.segments import uv

NONE = FieldOptions(0)
TOP = 2**64 - 1
FRONT = b"\x07" * 11
"""Bytes in front of the crafted blocks."""
CHUNK = uv(2, 0, 5, 2, 7) + pack(b"a\xffbc\xffd\xff")


def trailer(ends: bytes, count: int, size: int | None = None) -> bytes:
    return ends + (len(ends) if size is None else size).to_bytes(8, "big") + count.to_bytes(8, "big")


def close(chunks: list[bytes]) -> bytes:
    return b"".join(chunks) + trailer(uv(*accumulate(map(len, chunks))), len(chunks))


def decode(raw: bytes, num_docs: int, options: FieldOptions = NONE) -> DocValues:
    data, foot = segment(FRONT + raw), footer(17, num_docs)
    parts = list(DocValueBlock.open(data, foot, (len(FRONT), len(FRONT + raw)), options))
    assert all(len(part) for part in parts)
    return DocValues.concat(parts)


@each(
    ("raw", "kind", "what"),
    [
        (CHUNK + trailer(uv(len(CHUNK)), 2), NotCanonical, "number of doc value chunks"),
        (CHUNK + trailer(uv(len(CHUNK)), TOP), NotCanonical, "number of doc value chunks"),
        (CHUNK + trailer(uv(len(CHUNK)), 1, 0), NotCanonical, "bytes of chunk ends"),
        (CHUNK + trailer(uv(len(CHUNK)), 1, len(CHUNK) + 2), NotCanonical, "bytes of chunk ends"),
        (CHUNK + trailer(uv(1, len(CHUNK)), 1), NotCanonical, "ends of doc value chunks"),
        (CHUNK + trailer(b"\x80", 1), Truncated, "end of a doc value chunk"),
        (CHUNK + trailer(b"\xff" * 9 + b"\x02", 1), NotCanonical, "end of a doc value chunk"),
        (CHUNK + trailer(uv(len(CHUNK) + 1), 1), NotCanonical, "end of the last doc value chunk"),
        (CHUNK + trailer(uv(TOP), 1), NotCanonical, "end of the last doc value chunk"),
        (close([b"\x80"]), Truncated, "documents of a doc value chunk"),
        (close([b"\x00"]), Truncated, "doc values"),
        (close([uv(5) + CHUNK[1:]]), NotCanonical, "documents of a doc value chunk"),
        (close([uv(1, 0)]), NotCanonical, "documents of a doc value chunk"),
        (close([uv(1, 4, 2) + pack(b"a\xff")]), NotCanonical, "document of a doc value chunk"),
        (close([uv(1, TOP, 2) + pack(b"a\xff")]), NotCanonical, "document of a doc value chunk"),
        (close([uv(2, 1, 2, 0, 4) + pack(b"a\xffb\xff")]), NotCanonical, "document of a doc value chunk"),
        (close([uv(2, 0, 3, 1, 2) + pack(b"ab\xff")]), NotCanonical, "end of a document's values"),
        (close([uv(1, 0, TOP) + pack(b"a\xff")]), NotCanonical, "end of a document's values"),
        (close([uv(1, 0, 2) + pack(b"a\xffb\xff")]), NotCanonical, "end of the last document's values"),
        (close([uv(0) + pack(b"a\xff")]), NotCanonical, "end of the last document's values"),
        (close([uv(1, 0, 1) + pack(b"a")]), NotCanonical, "doc values of document 0"),
        (close([uv(2, 0, 1, 2, 3) + pack(b"ab\xff")]), NotCanonical, "doc values of document 0"),
        (close([uv(2, 0, 2, 1, 2) + pack(b"a\xff")]), NotCanonical, "doc values of document 1"),
        (close([uv(1, 0, 2) + pack(b"a\xff")[:-1]]), NotCanonical, "doc values"),
        (close([uv(1, 0, 2) + uv(2**31) + b"ab"]), NotCanonical, "content size of doc values"),
        (close([uv(1, 0, 2) + uv(577) + b"\xfe\x01\x00" * 9]), NotCanonical, "content size of doc values"),
        (close([uv(1, 0, 2) + b"\xff" * 9 + b"\x02"]), NotCanonical, "content size of doc values"),
        (close([uv(1, 0, 2) + uv(8) + b"\x0cabcd\x01\x05"]), NotCanonical, "doc values"),  # a copy from in front
    ],
)
def test_refused(raw: bytes, kind: type[DecodeError], what: str) -> None:
    with pytest.raises(kind, match=what) as caught:
        decode(raw, 4)
    assert len(FRONT) <= (caught.value.offset or 0) < len(FRONT + raw)
    assert caught.value.source == "crafted"


@each(
    ("rows", "num_docs", "options", "expected"),
    [
        ({}, 1, NONE, close([b"\0\0"])),
        ({}, 3000, NONE, close([b"\0\0", b"", b""])),
        ({1025: b"a\xff"}, 3000, NONE, close([b"\0\0", uv(1, 1025, 2) + pack(b"a\xff"), b""])),
        ({0: b"a\xff"}, 1025, NONE, close([uv(1, 0, 2) + pack(b"a\xff"), b""])),
        ({}, 2, SKIPS, close([b"", b""])),
        ({1: b"a\xff"}, 2, SKIPS, close([b"", b"a\xff"])),
    ],
)
def test_empty_chunks(rows: dict[int, bytes], num_docs: int, options: FieldOptions, expected: bytes) -> None:
    found = DocValues(np.array(sorted(rows), np.int64), ByteStrings.from_list([rows[doc] for doc in sorted(rows)]))
    assert b"".join(encode_doc_value_block(17, num_docs, 1026, options, [found])) == expected
    assert plain(decode(expected, num_docs, options)) == plain(found)


@pytest.mark.parametrize(("cut", "left"), [(b"\x80", 1), (uv(1, 1024) + b"\x80", 4)])
def test_a_list_of_documents_that_extends_into_the_next_chunk(cut: bytes, left: int) -> None:
    first, third = uv(1, 0, 2) + pack(b"a\xff"), uv(1, 2048, 2) + pack(b"a\xff")
    what = f"at byte {len(FRONT + first)}: documents of a doc value chunk: expected a varint, found {left} bytes left"
    with pytest.raises(Truncated, match=what):
        decode(close([first, cut, third]), 2049)

"""Chunks of doc values: what they hold, and every way to be wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, LimitExceeded, Limits, NotCanonical, Truncated, UsageError
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.doc_values import encode_doc_values, split_terms
from dvcodec.zap.documents import FieldOptions
from samples.zap.doc_values import BOTH, FRONT, NONE, RAW, SINGLE, close, decode, fields, values_of, write
from samples.zap.parts import pack, plain
from samples.zap.segments import uv


@given(fields())
def test_one_document_a_chunk(case: tuple[dict[int, bytes], int]) -> None:
    rows, num_docs = case
    expected = values_of(rows)
    raw = encode_doc_values(17, num_docs, 1026, BOTH | FieldOptions.DOC_VALUES, expected.docs, expected.values)
    assert raw == write(rows, num_docs, 1, BOTH)
    assert plain(decode(raw, num_docs, BOTH)) == plain(expected)
    assert plain(decode(write(rows, num_docs, 1, SINGLE), num_docs, SINGLE)) == plain(expected)


@each(
    ("rows", "num_docs", "options", "expected"),
    [
        ({}, 1, NONE, close([b"\0\0"])),
        ({}, 3000, NONE, close([b"\0\0", b"", b""])),
        ({1025: b"a\xff"}, 3000, NONE, close([b"\0\0", uv(1, 1025, 2) + pack(b"a\xff"), b""])),
        ({0: b"a\xff"}, 1025, NONE, close([uv(1, 0, 2) + pack(b"a\xff"), b""])),
        ({}, 2, BOTH, close([b"", b""])),
        ({1: b"a\xff"}, 2, BOTH, close([b"", b"a\xff"])),
    ],
)
def test_empty_chunks(rows: dict[int, bytes], num_docs: int, options: FieldOptions, expected: bytes) -> None:
    found = values_of(rows)
    assert encode_doc_values(17, num_docs, 1026, options, found.docs, found.values) == expected
    assert plain(decode(expected, num_docs, options)) == plain(found)


@given(st.lists(st.lists(st.binary(max_size=4).map(lambda term: term.replace(b"\xff", b"")), max_size=4), max_size=6))
def test_split_terms(docs: list[list[bytes]]) -> None:
    rows = {3 * i: b"".join(term + b"\xff" for term in found) for i, found in enumerate(docs)}
    owners, found = split_terms(values_of(rows))
    assert owners.tolist() == [3 * i for i, terms in enumerate(docs) for _ in terms]
    assert found.to_list() == [term for terms in docs for term in terms]


@each(
    ("chunks", "options", "kind", "what"),
    [
        ([b"a", b""], BOTH, NotCanonical, "doc values of document 0"),
        ([b"", b"a"], BOTH, NotCanonical, "doc values of document 1"),
        ([b"", b"\0"], SINGLE, NotCanonical, "doc values of document 1"),
        ([b"\0", pack(b"a")], SINGLE, NotCanonical, "doc values of document 1"),
        ([b"\0", b"\x80"], SINGLE, Truncated, "content size"),
        ([pack(b"a\xff") + b"\0", b""], SINGLE, NotCanonical, "doc values"),
    ],
)
def test_single_documents_refused(
    chunks: list[bytes], options: FieldOptions, kind: type[DecodeError], what: str
) -> None:
    with pytest.raises(kind, match=what):
        decode(close(chunks), 2, options)


@pytest.mark.parametrize(("cut", "left"), [(b"\x80", 1), (uv(1, 1024) + b"\x80", 4)])
def test_a_list_of_documents_that_extends_into_the_next_chunk(cut: bytes, left: int) -> None:
    first, third = uv(1, 0, 2) + pack(b"a\xff"), uv(1, 2048, 2) + pack(b"a\xff")
    what = f"at byte {len(FRONT + first)}: documents of a doc value chunk: expected a varint, found {left} bytes left"
    with pytest.raises(Truncated, match=what):
        decode(close([first, cut, third]), 2049)


def test_limits() -> None:
    rows = dict.fromkeys(range(8), b"x" * 999 + b"\xff")
    expected = values_of(rows)
    for options in (NONE, SINGLE):
        raw = write(rows, 8, 4, options)
        size = 4 if options == NONE else 1024
        version = 11 if options == NONE else 17
        found = decode(raw, 8, options, version=version, size=size, limits=Limits(max_blob_bytes=4000))
        assert plain(found) == plain(expected)
        with pytest.raises(LimitExceeded, match="max_blob_bytes"):
            decode(raw, 8, options, version=version, size=size, limits=Limits(max_blob_bytes=999))


@each(
    ("docs", "rows", "match"),
    [
        ([0, 0], [b"\xff", b"\xff"], "ascend"),
        ([1, 0], [b"\xff", b"\xff"], "ascend"),
        ([-1, 0], [b"\xff", b"\xff"], "ascend"),
        ([0, 4], [b"\xff", b"\xff"], "ascend"),
        ([0, 1], [b"\xff"], "2 documents, 1 values"),
        ([0, 1], [b"a\xff", b""], "end in 0xff"),
        ([0, 1], [b"a", b"b\xff"], "end in 0xff"),
    ],
)
def test_values_that_cannot_be_written(docs: list[int], rows: list[bytes], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        encode_doc_values(15, 4, 1026, None, np.array(docs, np.int64), ByteStrings.from_list(rows))


@pytest.mark.parametrize("options", [RAW, SINGLE, RAW | FieldOptions.DOC_VALUES])
def test_options_that_go_together(options: FieldOptions) -> None:
    none = values_of({})
    with pytest.raises(UsageError, match="or neither"):
        encode_doc_values(17, 4, 1026, options, none.docs, none.values)
    assert encode_doc_values(16, 4, 1026, options, none.docs, none.values) == close([b"\0\0"])


@pytest.mark.parametrize(("version", "num_docs", "mode"), [(15, 0, 1026), (11, 3, 0)])
def test_blocks_that_cannot_be_written(version: int, num_docs: int, mode: int) -> None:
    none = values_of({})
    with pytest.raises(UsageError, match="doc values of"):
        encode_doc_values(version, num_docs, mode, None, none.docs, none.values)

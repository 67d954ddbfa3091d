"""Chunks of doc values: what they hold, and every way to be wrong."""

from __future__ import annotations

import numpy as np
import pytest

from cases import each
from dvcodec import Truncated, UsageError
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.doc_values import encode_doc_values
from dvcodec.zap.documents import FieldOptions
from samples.zap.doc_values import BOTH, FRONT, NONE, RAW, SINGLE, close, decode, values_of
from samples.zap.parts import pack, plain
from samples.zap.segments import uv


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


@pytest.mark.parametrize(("cut", "left"), [(b"\x80", 1), (uv(1, 1024) + b"\x80", 4)])
def test_a_list_of_documents_that_extends_into_the_next_chunk(cut: bytes, left: int) -> None:
    first, third = uv(1, 0, 2) + pack(b"a\xff"), uv(1, 2048, 2) + pack(b"a\xff")
    what = f"at byte {len(FRONT + first)}: documents of a doc value chunk: expected a varint, found {left} bytes left"
    with pytest.raises(Truncated, match=what):
        decode(close([first, cut, third]), 2049)


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

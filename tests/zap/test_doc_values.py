"""Doc values: real files, a slow reader and writer, and every way to be wrong."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec import DecodeError, LimitExceeded, Limits, NotCanonical, Truncated, UsageError
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap import doc_values
from dvcodec.zap.doc_values import (
    DocValueBlock,
    DocValues,
    decode_doc_values,
    doc_value,
    encode_doc_values,
    split_terms,
)
from dvcodec.zap.documents import FieldOptions
from zap.pieces import Sample, footer, pack, plain, sample, segment, survives, take, unpack, uv

__all__ = ["sample"]

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
    parts = list(decode_doc_values(data, foot, (len(FRONT), len(FRONT + raw)), options, limits=limits or Limits()))
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


def test_real_files(sample: Sample) -> None:
    data, foot = sample.data, sample.footer
    docs: list[dict[str, list[str]]] = [{} for _ in range(foot.num_docs)]
    blocks = [(field, field.doc_values) for field in sample.fields if field.doc_values]
    for field, block in blocks:
        parts = list(decode_doc_values(data, foot, block, field.options))
        found = join(parts)
        for part in parts:
            owners, terms = split_terms(part)
            for doc, term in zip(owners.tolist(), terms, strict=True):
                docs[doc].setdefault(field.name, []).append(term.decode())
        again = encode_doc_values(foot.version, foot.num_docs, foot.chunk_mode, field.options, found.docs, found.values)
        assert again == sample.raw[slice(*block)]
        by_doc = dict(zip(found.docs.tolist(), found.values, strict=True))
        for doc in range(foot.num_docs):
            assert doc_value(data, foot, block, field.options, doc) == by_doc.get(doc)
    assert docs == sample.dump["docvalues"]
    assert sorted(field.name for field, _ in blocks) == sample.dump["dv_fields"]


@given(fields(), st.integers(1, 12))
def test_chunks_of_version_11(case: tuple[dict[int, bytes], int], size: int) -> None:
    """There the footer says how many documents a chunk has: small ones show every form."""
    rows, num_docs = case
    expected = values_of(rows)
    raw = encode_doc_values(11, num_docs, size, None, expected.docs, expected.values)
    assert raw == write(rows, num_docs, size)
    assert read(raw, size) == rows
    assert plain(decode(raw, num_docs, version=11, size=size)) == plain(expected)


@pytest.mark.parametrize("version", range(12, 18))
@given(case=fields(5000))
def test_chunks_of_1024(version: int, case: tuple[dict[int, bytes], int]) -> None:
    rows, num_docs = case
    expected = values_of(rows)
    for mode in (1024, 1026):
        raw = encode_doc_values(version, num_docs, mode, None, expected.docs, expected.values)
        assert raw == write(rows, num_docs, 1024)
        assert plain(decode(raw, num_docs, version=version, size=mode)) == plain(expected)


@pytest.mark.parametrize("options", [FieldOptions(8), RAW, SINGLE, BOTH])
@pytest.mark.parametrize("batch", [1, 60, 1 << 22])
def test_all_four_layouts(options: FieldOptions, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doc_values, "_BATCH_BYTES", batch)
    monkeypatch.setattr(doc_values, "_BATCH_CHUNKS", batch)
    dice = np.random.default_rng(3)
    for first in (0, 3, 1500):
        rows = {int(doc): b"term%d\xff" % doc * 3 for doc in dice.integers(first, 3000, 300)}
        raw = write(rows, 3000, 1024, options)
        found = decode(raw, 3000, options)
        assert plain(found) == plain(values_of(rows))
        data = segment(FRONT + raw)
        block = DocValueBlock.open(data, footer(17, 3000), (len(FRONT), len(FRONT + raw)), options)
        for doc in (0, first, *list(rows)[:40], 2999):
            assert block.get(doc) == rows.get(doc)
        # Before version 17 options mean nothing.
        if options == FieldOptions(8):
            assert plain(decode(raw, 3000, BOTH, version=16)) == plain(found)


@given(fields())
def test_one_document_a_chunk(case: tuple[dict[int, bytes], int]) -> None:
    rows, num_docs = case
    expected = values_of(rows)
    raw = encode_doc_values(17, num_docs, 1026, BOTH | FieldOptions.DOC_VALUES, expected.docs, expected.values)
    assert raw == write(rows, num_docs, 1, BOTH)
    assert plain(decode(raw, num_docs, BOTH)) == plain(expected)
    assert plain(decode(write(rows, num_docs, 1, SINGLE), num_docs, SINGLE)) == plain(expected)


@pytest.mark.parametrize(
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


ROWS = {0: b"a\xffbc\xff", 2: b"d\xff"}
CHUNK = chunk(ROWS)


def trailer(ends: bytes, count: int, size: int | None = None) -> bytes:
    return ends + (len(ends) if size is None else size).to_bytes(8, "big") + count.to_bytes(8, "big")


@pytest.mark.parametrize(
    ("raw", "kind", "what"),
    [
        (CHUNK + trailer(uv(len(CHUNK)), 2), NotCanonical, "number of doc value chunks"),
        (CHUNK + trailer(uv(len(CHUNK)), 0), NotCanonical, "number of doc value chunks"),
        (CHUNK + trailer(uv(len(CHUNK)), TOP), NotCanonical, "number of doc value chunks"),
        (CHUNK + trailer(uv(len(CHUNK)), 1, 0), NotCanonical, "bytes of chunk ends"),
        (CHUNK + trailer(uv(len(CHUNK)), 1, TOP), NotCanonical, "bytes of chunk ends"),
        (CHUNK + trailer(uv(len(CHUNK)), 1, len(CHUNK) + 2), NotCanonical, "bytes of chunk ends"),
        (CHUNK + trailer(uv(1, len(CHUNK)), 1), NotCanonical, "ends of doc value chunks"),
        (CHUNK + trailer(b"\x80", 1), Truncated, "end of a doc value chunk"),
        (CHUNK + trailer(b"\xff" * 9 + b"\x02", 1), NotCanonical, "end of a doc value chunk"),
        (CHUNK + trailer(uv(len(CHUNK) - 1), 1), NotCanonical, "end of the last doc value chunk"),
        (CHUNK + trailer(uv(len(CHUNK) + 1), 1), NotCanonical, "end of the last doc value chunk"),
        (CHUNK + trailer(uv(TOP), 1), NotCanonical, "end of the last doc value chunk"),
        (close([b"\x80"]), Truncated, "documents of a doc value chunk"),
        (close([b"\x00"]), Truncated, "doc values"),
        (close([b"\x00\x01"]), NotCanonical, "content size"),
        (close([uv(5) + CHUNK[1:]]), NotCanonical, "documents of a doc value chunk"),
        (close([uv(TOP) + CHUNK[1:]]), NotCanonical, "documents of a doc value chunk"),
        (close([uv(1, 0)]), NotCanonical, "documents of a doc value chunk"),
        (close([uv(1, 0) + b"\x80"]), Truncated, "documents of a doc value chunk"),
        (close([uv(1, 4, 2) + pack(b"a\xff")]), NotCanonical, "document of a doc value chunk"),
        (close([uv(1, TOP, 2) + pack(b"a\xff")]), NotCanonical, "document of a doc value chunk"),
        (close([uv(2, 1, 2, 1, 4) + pack(b"a\xffb\xff")]), NotCanonical, "document of a doc value chunk"),
        (close([uv(2, 1, 2, 0, 4) + pack(b"a\xffb\xff")]), NotCanonical, "document of a doc value chunk"),
        (close([uv(2, 0, 3, 1, 2) + pack(b"ab\xff")]), NotCanonical, "end of a document's values"),
        (close([uv(1, 0, 3) + pack(b"a\xff")]), NotCanonical, "end of a document's values"),
        (close([uv(1, 0, TOP) + pack(b"a\xff")]), NotCanonical, "end of a document's values"),
        (close([uv(1, 0, 2) + pack(b"a\xffb\xff")]), NotCanonical, "end of the last document's values"),
        (close([uv(0) + pack(b"a\xff")]), NotCanonical, "end of the last document's values"),
        (close([uv(1, 0, 1) + pack(b"a")]), NotCanonical, "doc values of document 0"),
        (close([uv(2, 0, 1, 2, 3) + pack(b"ab\xff")]), NotCanonical, "doc values of document 0"),
        (close([uv(2, 0, 2, 1, 2) + pack(b"a\xff")]), NotCanonical, "doc values of document 1"),
        (close([uv(1, 0, 2) + pack(b"a\xff")[:-1]]), NotCanonical, "doc values"),
        (close([uv(1, 0, 2) + pack(b"a\xff") + b"\0"]), NotCanonical, "doc values"),
        (close([uv(1, 0, 2) + uv(2**31) + b"ab"]), NotCanonical, "content size of doc values"),
    ],
)
def test_refused(raw: bytes, kind: type[DecodeError], what: str) -> None:
    with pytest.raises(kind, match=what) as caught:
        decode(raw, 4)
    assert len(FRONT) <= (caught.value.offset or 0) < len(FRONT + raw)
    assert caught.value.source == "crafted"


@pytest.mark.parametrize(
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


def test_chunks_out_of_order() -> None:
    raw = b"a\xffb\xff" + trailer(uv(4, 2), 2)
    with pytest.raises(NotCanonical, match="end of a doc value chunk"):
        decode(raw, 2, BOTH)
    one, two = uv(1, 1024, 2) + pack(b"a\xff"), uv(1, 0, 2) + pack(b"a\xff")
    with pytest.raises(NotCanonical, match="document of a doc value chunk"):
        decode(close([one, two]), 1025)


@pytest.mark.parametrize("block", [(0, 15), (0, 16), (5, 20), (200, 230), (40, 30), (0, 2**64 - 1)])
def test_blocks_that_are_none(block: tuple[int, int]) -> None:
    """`decode_fields` lets none of these pass; here they end in an error all the same."""
    data = segment(bytes(100))
    with pytest.raises(DecodeError):
        DocValueBlock.open(data, footer(17, 4), block)


def test_a_chunk_size_of_zero() -> None:
    with pytest.raises(NotCanonical, match="chunk mode"):
        decode(close([CHUNK]), 3, version=11, size=0)


def test_many_documents_and_few_bytes() -> None:
    """Four billion chunks are not looked for in a hundred bytes."""
    for count in (2**32, 2**22):
        raw = bytes(50) + trailer(uv(50), count)
        with pytest.raises(NotCanonical, match="bytes of chunk ends"):
            decode(raw, 2**32, SINGLE if count == 2**32 else NONE)


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


def test_random_access_reads_one_chunk() -> None:
    """A damaged chunk does not hinder the others."""
    rows = {0: b"a\xff", 1500: b"b\xff", 2500: b"c\xff"}
    raw = bytearray(write(rows, 3000, 1024))
    raw[0] = 9
    data = segment(bytes(raw))
    block = DocValueBlock.open(data, footer(15, 3000), (0, len(raw)))
    assert (block.get(1500), block.get(2500), block.get(2501)) == (b"b\xff", b"c\xff", None)
    with pytest.raises(NotCanonical):
        block.get(0)
    for doc in (-1, 3000):
        with pytest.raises(UsageError, match="of 3000"):
            block.get(doc)


@pytest.mark.parametrize("options", [NONE, RAW, SINGLE, BOTH])
def test_damage(options: FieldOptions) -> None:
    rows = {1: b"alpha\xffbeta\xff", 2: b"beta\xff", 5: b"alpha\xffgamma\xff" * 5}
    raw = write(rows, 7, 3, options)

    def again(found: DocValues) -> DocValues:
        mine = options if options in {NONE, BOTH} else BOTH
        return decode(encode_doc_values(17, 7, 1024, mine, found.docs, found.values), 7, mine)

    version, size = (11, 3) if not options else (17, 1024)
    if options == RAW:
        raw = write(rows, 7, 1024, options)

    def decode_bad(bad: bytes) -> DocValues:
        return decode(bad[: len(raw)], 7, options, version=version, size=size)

    survives(decode_bad, again, raw, 0, len(raw))


@pytest.mark.parametrize(
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
    with pytest.raises(UsageError, match="go together"):
        encode_doc_values(17, 4, 1026, options, none.docs, none.values)
    assert encode_doc_values(16, 4, 1026, options, none.docs, none.values) == close([b"\0\0"])


@pytest.mark.parametrize(("version", "num_docs", "mode"), [(15, 0, 1026), (11, 3, 0)])
def test_blocks_that_cannot_be_written(version: int, num_docs: int, mode: int) -> None:
    none = values_of({})
    with pytest.raises(UsageError, match="doc values of"):
        encode_doc_values(version, num_docs, mode, None, none.docs, none.values)

"""Doc values: real files, a slow reader and writer, and every way for blocks to be wrong."""

from __future__ import annotations

import numpy as np
import pytest

from cases import each
from dvcodec import DecodeError, NotCanonical, Truncated
from dvcodec.zap.doc_values import DocValueBlock, encode_doc_values, split_terms
from samples.zap.doc_values import (
    CHUNK,
    FRONT,
    TOP,
    close,
    decode,
    join,
    trailer,
)
from samples.zap.parts import Sample, pack
from samples.zap.segments import uv


def value_of(block: DocValueBlock, doc: int) -> bytes | None:
    """The bytes of one document, out of its chunk alone."""
    found = list(block.chunks(np.array([doc // block.layout.chunk_docs])))
    return dict(pair for one in found for pair in zip(one.docs.tolist(), one.values, strict=True)).get(doc)


def test_real_files(samples: list[Sample]) -> None:
    for sample in samples:
        data, foot = sample.data, sample.footer
        docs: list[dict[str, list[str]]] = [{} for _ in range(foot.num_docs)]
        blocks = [(field, field.doc_values) for field in sample.fields if field.doc_values]
        for field, block in blocks:
            parts = list(DocValueBlock.open(data, foot, block, field.options))
            found = join(parts)
            for part in parts:
                owners, terms = split_terms(part)
                for doc, term in zip(owners.tolist(), terms, strict=True):
                    docs[doc].setdefault(field.name, []).append(term.decode())
            shape = (foot.version, foot.num_docs, foot.chunk_mode)
            again = encode_doc_values(*shape, field.options, found.docs, found.values)
            assert again == sample.raw[slice(*block)]
            by_doc = dict(zip(found.docs.tolist(), found.values, strict=True))
            opened = DocValueBlock.open(data, foot, block, field.options)
            for doc in range(foot.num_docs):
                assert value_of(opened, doc) == by_doc.get(doc)
        assert docs == sample.dump["docvalues"]
        assert sorted(field.name for field, _ in blocks) == sample.dump["dv_fields"]


@each(
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


def test_a_chunk_size_of_zero() -> None:
    with pytest.raises(NotCanonical, match="chunk mode"):
        decode(close([CHUNK]), 3, version=11, size=0)

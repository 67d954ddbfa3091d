"""Stored documents: real files, ranges and batches, and the index."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import NotCanonical, UsageError
from dvcodec.zap.stored import decode_stored, encode_stored_index, encode_stored_records, iter_stored
from samples.zap.parts import Sample, footer, plain, segment
from samples.zap.stored import (
    DOCS,
    GOOD,
    TOP,
    Doc,
    F,
    columns_of,
    decode,
    docs_of,
    documents,
    lay,
    write,
)


def test_real_files(samples: list[Sample]) -> None:
    for sample in samples:
        names = [field.name for field in sample.fields]
        found = decode_stored(sample.data, sample.footer, len(names), 0, sample.footer.num_docs)
        dump = [
            [["_id", "t", name.decode(), None]]
            + [[names[v.field], chr(v.type), v.value.decode(), list(v.arrays) or None] for v in values]
            for name, values in docs_of(found)
        ]
        assert dump == [[[*entry[:3], entry[3] or None] for entry in doc] for doc in sample.dump["stored"]]
        records, addresses = encode_stored_records(found, sample.footer.num_docs)
        assert records + encode_stored_index(addresses) == sample.raw[: len(records) + 8 * len(addresses)]
        assert len(records) == sample.footer.stored_index


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
        part, addresses = encode_stored_records(batch, num_docs, first=first, base=len(records))
        assert addresses.tolist() == write(docs)[1][first : first + num_docs]
        records += part
        assert len(part) <= batch_bytes or num_docs == 1
    assert records == write(docs)[0]


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


def test_bad_arguments() -> None:
    raw = lay(*write(DOCS))
    data, foot = segment(raw), footer(15, 3, len(raw) - 24)
    for start, stop in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(UsageError, match="of 3"):
            decode_stored(data, foot, F, start, stop)
    for docs_per_batch, batch_bytes in ((0, 1), (1, 0)):
        with pytest.raises(UsageError, match="docs_per_batch"):
            list(iter_stored(data, foot, F, docs_per_batch=docs_per_batch, batch_bytes=batch_bytes))

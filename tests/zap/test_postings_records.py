"""Postings records and lists of one posting: both ways, in parts, and every way to be wrong."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from cases import each
from dvcodec.io import open_source
from dvcodec.zap.footer import Footer, SegmentData
from dvcodec.zap.postings import Postings, decode_postings, decode_records, encode_one_hits, encode_postings
from samples.bitmaps import bitmap, runs
from samples.zap.postings import FIELDS, Lists, Posting, cases, columns, decoded, one_hit, read, refusal, rows
from samples.zap.segments import NOT, VERSIONS, minimal


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=5))
def test_one_hits_come_back_as_they_were(hits: list[tuple[int, int]]) -> None:
    docs, norms = (np.array([hit[k] for hit in hits], np.int64) for k in (0, 1))
    values = encode_one_hits(docs, norms.astype(np.uint64))
    assert values.tolist() == [one_hit(*hit) for hit in hits]
    footer = Footer(15, 2**31, 0, 0, None, 1026)
    assert rows(decoded(b"", values, footer)) == [[Posting(doc, 1, norm)] for doc, norm in hits]


@settings(max_examples=examples(50))
@given(st.data())
def test_one_hits_stand_among_other_lists(data: st.DataObject) -> None:
    footer, lists = data.draw(cases())
    raw, values = encode_postings(footer, columns(lists), 0)
    mixed: Lists = []
    found = []
    for value, one in [*zip(values.tolist(), lists, strict=True), (None, [])]:
        for _ in range(data.draw(st.integers(0, 2))):
            hit = (data.draw(st.integers(0, footer.num_docs - 1)), data.draw(st.integers(0, 2**31 - 1)))
            mixed.append([Posting(hit[0], 1, hit[1])])
            found.append(one_hit(*hit))
        if value is not None:
            mixed.append(one)
            found.append(value)
    assert rows(decoded(raw.tobytes(), np.array(found, np.uint64), footer)) == mixed


@each("version", VERSIONS)
def test_hazard_addresses_of_blocks(version: int) -> None:
    for wrong in (2**40, NOT - 1, NOT):
        craft = minimal(version)
        at = craft.postings([0, 1], freq_at=wrong)
        assert "freq/norm block" in refusal(craft, at).what
        craft = minimal(version)
        at = craft.postings([0, 1], location_at=wrong)
        if (version, wrong) == (12, NOT):
            assert len(read(craft, at)) == 2
        else:
            assert "location block" in refusal(craft, at).what


def test_more_postings_than_documents_are_refused_before_they_are_read() -> None:
    craft = minimal(15)
    at = craft.postings(bitmap(runs(0, [(0, 65536)])))
    error = refusal(craft, at)
    assert (error.what, error.actual) == ("postings of a term", 65536)


@settings(max_examples=examples(50))
@given(cases(), st.integers(1, 5))
def test_lists_read_in_parts_are_the_lists(case: tuple[Footer, Lists], most: int) -> None:
    footer, lists = case
    raw, values = encode_postings(footer, columns(lists), 0)
    with open_source(raw) as source:
        data = SegmentData(source, source.size)
    records = decode_records(data, footer, values)
    parts = [decode_postings(data, footer, FIELDS, records[cut], locations=True) for cut in records.cuts(most)]
    assert rows(Postings.concat(parts)) == lists

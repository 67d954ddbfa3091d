"""Postings records and lists of one posting: both ways, in parts, and every way to be wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from cases import each
from dvcodec.core.errors import Truncated
from dvcodec.io import open_source
from dvcodec.zap import Segment
from dvcodec.zap.data import SegmentData
from dvcodec.zap.footer import Footer
from dvcodec.zap.postings import Postings, decode_postings, decode_records, encode_one_hits, encode_postings
from samples.bitmaps import bitmap, runs
from samples.zap.postings import FIELDS, Lists, Posting, cases, columns, decoded, one_hit, read, refusal, rows
from samples.zap.segments import NOT, VERSIONS, SegmentBuilder, minimal, norm, take


@each("version", VERSIONS)
def test_addresses_grow_by_a_byte_in_the_middle_of_the_lists(version: int) -> None:
    """The address of a block is part of what stands in front of the next one."""
    for power in range(1, 9):
        footer = Footer(version, 20, 0, 0, None, 1025 if version > 11 else 1024)
        lists = [
            [Posting(doc, 2, 3, ((1, 1, 2, 3, ()),) * (doc % 3 % 2)) for doc in range(i % 4, 20, 1 + i)]
            for i in range(8)
        ]
        data, _ = encode_postings(footer, columns(lists), 0)
        for back in range(1 + (power + 3 * version) % 29, len(data), 29):
            check_addresses(footer, lists, max((1 << 7 * power) - back, 0))


def check_addresses(footer: Footer, lists: Lists, base: int) -> None:
    data, values = encode_postings(footer, columns(lists), base)
    raw = data.tobytes()
    end = base
    for value, one in zip(values.tolist(), lists, strict=True):
        freq_at, at = take(raw, value - base)
        place_at, at = take(raw, at)
        size, at = take(raw, at)
        assert freq_at == end, "no gap, and the address is right"
        assert (place_at not in (0, NOT)) == (footer.version == 11 or any(posting.places for posting in one))
        end = base + at + size
    assert end == base + len(raw)
    found = [[posting.doc for posting in one] for one in rows(decoded(raw, values, footer, base=base))]
    assert found == [[posting.doc for posting in one] for one in lists]


@each("version", VERSIONS)
def test_a_one_hit_is_its_own_list(version: int) -> None:
    craft = minimal(version)
    assert read(craft, one_hit(2, norm(version, 7))) == [Posting(2, 1, norm(version, 7))]
    assert read(craft, one_hit(0, 0)) == [Posting(0, 1, 0)]
    assert read(craft, one_hit(0, 2**31 - 1)) == [Posting(0, 1, 2**31 - 1)]


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


@pytest.mark.parametrize("kind", [1, 3])
def test_hazard_reserved_kinds_of_a_value(kind: int) -> None:
    craft = minimal(15)
    assert "dictionary value" in str(refusal(craft, kind << 62 | 5))


def test_hazard_a_one_hit_of_a_document_that_is_not_there() -> None:
    error = refusal(minimal(15), one_hit(3, 1))
    assert (error.what, error.expected, error.actual) == ("document of a 1-hit", "below 3", 3)


@pytest.mark.parametrize("beyond", [0, 1, 2**40, 2**62 - 1])
def test_hazard_an_address_beyond_the_segment(beyond: int) -> None:
    craft = minimal(15)
    for i in range(1, FIELDS):
        craft.field(f"f{i}")
    end = len(craft.finish()) - 44
    assert type(refusal(craft, min(end + beyond, 2**62 - 1))) is Truncated


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


@each("version", VERSIONS)
def test_hazard_the_sign_of_no_location_of_another_version(version: int) -> None:
    """0 is an address in versions 11 and 12; it is that of a document."""
    craft = minimal(version)
    at = craft.postings([0, 1], location_at=NOT if version > 12 else 0)
    refusal(craft, at)


def test_hazard_a_record_that_ends_too_soon() -> None:
    craft = SegmentBuilder(15)
    craft.documents(1)
    craft.field("_id")
    raw = craft.finish()
    with Segment.open(raw) as segment, pytest.raises(Truncated):
        decode_records(segment.contents.data, segment.footer, np.array([segment.contents.data.end - 1], np.uint64))


def test_hazard_a_bitmap_beyond_the_segment() -> None:
    craft = minimal(15)
    at = craft.postings([1], size=2**63 + 1)
    error = refusal(craft, at)
    assert type(error) is Truncated
    assert error.what == "bitmap"


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

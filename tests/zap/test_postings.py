"""Postings lists: as they were, counted, and every way to be wrong; test_golden.py holds them against those of Go."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from cases import each
from dvcodec import NotCanonical
from dvcodec.core.errors import Truncated
from dvcodec.zap import Segment, verify_segment
from dvcodec.zap.footer import Footer
from dvcodec.zap.postings import (
    Postings,
    decode_postings,
    decode_records,
    encode_postings,
)
from samples.bitmaps import array, bitmap, runs
from samples.zap.postings import (
    KINDS,
    WIDE,
    Lists,
    Posting,
    cases,
    columns,
    decoded,
    one_hit,
    read,
    refusal,
    rows,
    segment_of,
)
from samples.zap.segments import NOT, VERSIONS, SegmentBuilder, chunked, docs_of, minimal, norm, uv


def check(footer: Footer, lists: Lists, base: int) -> None:
    """What was written is read, with locations and without."""
    data, values = encode_postings(footer, columns(lists), base)
    raw = data.tobytes()
    assert rows(decoded(raw, values, footer, base=base)) == lists
    bare = [[posting._replace(places=()) for posting in one] for one in lists]
    assert rows(decoded(raw, values, footer, base=base, locations=False)) == bare


@settings(max_examples=examples(150))
@given(cases(), st.sampled_from([0, 1, 126, 16_380]))
def test_lists_come_back_as_they_were(case: tuple[Footer, Lists], base: int) -> None:
    check(*case, base)


@each(("version", "mode"), KINDS)
def test_long_lists_come_back_as_they_were(version: int, mode: int) -> None:
    """More than one chunk, more than one container, and containers of every kind."""
    dice = random.Random(version * mode)
    num_docs = 66_000 if (version, mode) in WIDE else 300 if mode < 1000 else 2500
    some = sorted(dice.sample(range(num_docs), min(num_docs // 2, 4500)))
    text = [Posting(doc, 2, norm(version, doc), ((doc % 5, 1, 2, 3, ()), (4, 5, 6, 7, ()))[: doc % 3]) for doc in some]
    lists = [
        [Posting(doc, 1, norm(version, 1 + doc % 5)) for doc in range(num_docs)],
        text,
        [Posting(num_docs - 1, 3, norm(version, 9))],
    ]
    check(Footer(version, num_docs, 0, 0, None, mode), lists, 1000)


# ------------------------------------------------------------------ records


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


# ------------------------------------------------------------------ documents


WRONG_BITMAPS = {
    "no container": (bitmap(), NotCanonical),
    "half a payload": (docs_of([1, 2])[:-2], Truncated),
    "values that descend": (bitmap(array(0, [2, 1])), NotCanonical),
    "a document far away": (docs_of([0, 2**32 - 1]), NotCanonical),
}
"""See also tests/core/test_bitmaps.py."""


def read_all(craft: SegmentBuilder, values: np.ndarray) -> Postings:
    with segment_of(craft) as segment:
        records = decode_records(segment.contents.data, segment.footer, values)
        return decode_postings(segment.contents.data, segment.footer, len(segment.fields), records)


@each("name", WRONG_BITMAPS)
@each("with_others", [False, True])
def test_hazard_bitmaps(name: str, with_others: bool) -> None:
    data, kind = WRONG_BITMAPS[name]
    craft = SegmentBuilder(15, 1025)
    craft.documents(3000)
    craft.field("_id")
    values = [craft.postings([7]), craft.postings(data, chunked([uv(2, 1) * 2])), craft.postings([9])]
    craft.field("f")
    wanted = np.array(values if with_others else values[1:2], np.uint64)
    with pytest.raises(kind):
        read_all(craft, wanted)


def test_hazard_a_document_behind_the_last_one() -> None:
    """In a chunk that is there."""
    craft = SegmentBuilder(15, 1024)
    craft.documents(3000)
    freqs = chunked([b"", b"", uv(2, 1)])
    last, behind = craft.postings([2999], freqs), craft.postings([3000], freqs)
    assert read(craft, last) == [Posting(2999, 1, 1)]
    error = refusal(craft, behind)
    assert (error.what, error.expected, error.actual) == ("document number", "below 3000", 3000)


# ------------------------------------------------------------------ chunks of postings


@each("version", VERSIONS)
def test_hazard_another_number_of_chunks(version: int) -> None:
    entry = uv(2, norm(version, 1))
    for blocks in ([entry, b""], []):
        craft = minimal(version)
        error = refusal(craft, craft.postings([1], chunked(blocks)))
        assert (error.what, error.expected, error.actual) == ("number of freq/norm chunks", 1, len(blocks))


# ------------------------------------------------------------------ chunks that zapx 17.1.2 misplaced


@pytest.mark.parametrize(
    ("name", "docs"), [("trailing", [*range(1026)]), ("middle", [*range(1026), *range(2070, 3100)])]
)
def test_chunks_without_documents_are_read_as_go_reads_them(vectors: Path, name: str, docs: list[int]) -> None:
    raw = gzip.decompress((vectors / f"zap/misplaced/{name}.zap.gz").read_bytes())
    with Segment.open(raw, salvage=True) as segment:
        (found,) = [lists for _, lists in segment.lists("f", locations=True)]
        assert rows(found) == [[Posting(doc, 1, 1) for doc in docs]]
    report = verify_segment(raw)
    if name == "trailing":
        assert report.ok
        with Segment.open(raw) as segment:
            assert list(segment.terms("f")) == [(b"g", 1026)]
        return
    (check,) = report.findings
    assert (check.name, check.offset) == ("postings", 130_324)
    assert "zapx 17.0.9 to 17.1.3 misplaced" in str(check.message)

"""Postings lists, against the slow way to read them, and against what Go reads in its own files."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amounts import examples
from battery import outcome
from cases import each
from dvcodec import DecodeError, NotCanonical
from dvcodec.core.errors import BadMagic, Truncated
from dvcodec.zap import Segment, chunks, postings, verify_segment
from dvcodec.zap.footer import Footer
from dvcodec.zap.postings import POSTINGS_AT_ONCE, Postings, Records, decode_postings, decode_records, encode_postings
from samples.bitmaps import array, bitmap, bitset, runs
from samples.zap import parts
from samples.zap.parts import Sample
from samples.zap.postings import (
    KINDS,
    WIDE,
    Lists,
    Posting,
    cases,
    columns,
    decoded,
    read,
    read_list,
    refusal,
    rows,
    segment_of,
)
from samples.zap.segments import VERSIONS, SegmentBuilder, chunked, docs_of, minimal, norm, uv


def check(footer: Footer, lists: Lists, base: int) -> None:
    """Both ways of reading find again what was written."""
    data, values = encode_postings(footer, columns(lists), base)
    raw = data.tobytes()
    assert rows(decoded(raw, values, footer, base=base)) == lists
    bare = [[posting._replace(places=()) for posting in one] for one in lists]
    assert rows(decoded(raw, values, footer, base=base, locations=False)) == bare
    by_hand = [read_list(raw, base, v, footer.version, footer.chunk_mode, footer.num_docs) for v in values.tolist()]
    assert by_hand == lists


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


def test_the_lists_of_go_are_what_go_reads(samples: list[Sample]) -> None:
    for sample in samples:
        for info in sample.fields:
            assert info.dictionary is not None
            with Segment.open(sample.raw) as segment:
                dictionary = segment.dictionary(info.name)
                assert dictionary is not None
                block = dictionary.to_block()
                for (term, _, expected), key in zip(sample.dump["dicts"][info.name] or [], block.keys, strict=True):
                    assert key == term.encode()
                    found = segment.postings(info.name, key)
                    assert found is not None
                    assert found.docs.tolist() == [doc for doc, *_ in expected]
                    assert found.freqs.tolist() == [freq for _, freq, *_ in expected]
                    norms = [np.float32(value) for _, _, value, _ in expected]
                    assert found.norms.tolist() == norms
                    places = [place for *_, list_of in expected for place in list_of or []]
                    names = [segment.fields[number].name for number in found.locations.fields.tolist()]
                    assert names == [place[0] for place in places]
                    assert found.locations.positions.tolist() == [place[1] for place in places]
                    assert found.locations.starts.tolist() == [place[2] for place in places]
                    assert found.locations.ends.tolist() == [place[3] for place in places]
                    arrays = [position for place in places for position in place[4] or []]
                    assert found.locations.array_positions.tolist() == arrays
            values = [read_list(sample.raw, 0, value, *kind(sample.footer)) for value in block.values.tolist()]
            assert rows(decoded_from(sample, block.values)) == values


def kind(footer: Footer) -> tuple[int, int, int]:
    return footer.version, footer.chunk_mode, footer.num_docs


def decoded_from(sample: Sample, values: np.ndarray) -> Postings:
    records = decode_records(sample.data, sample.footer, values)
    return decode_postings(sample.data, sample.footer, len(sample.fields), records, locations=True)


@pytest.mark.parametrize("most", [1, 4, POSTINGS_AT_ONCE])
def test_lists_are_counted_without_some_documents(
    samples: list[Sample], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In segments and merges of Go, whose dictionaries have lists of their own."""
    cuts = Records.cuts
    monkeypatch.setattr(Records, "cuts", lambda self: cuts(self, most))
    one_hits = 0
    for sample in samples:
        deleted = np.random.default_rng(7).random(sample.footer.num_docs) < 0.4
        with Segment.open(sample.raw) as segment:
            for info in segment.fields:
                for block in segment.contents.term_blocks(info.dictionary):
                    records = segment.contents.records(block.values)
                    found = segment.contents.postings(records)
                    expected = np.bincount(found.owner[~deleted[found.docs]], minlength=len(records))
                    assert segment.contents.count_without(records, deleted).tolist() == expected.tolist()
                    one_hits += int(records.one_hit.sum())
    assert one_hits > 0


# ------------------------------------------------------------------ frequencies and norms


def sequential(version: int, numbers: list[int], entries: int) -> list[tuple[int, int]] | None:
    """Read the entries of a chunk one after the other; None if they do not fill it."""
    found, at = [], 0
    for _ in range(entries):
        if at >= len(numbers):
            return None
        freq, at = numbers[at], at + 1
        norm = 0
        if version < 15 or freq > 1:
            if at >= len(numbers):
                return None
            norm, at = numbers[at], at + 1
        found.append((freq, norm))
    return found if at == len(numbers) else None


small = st.lists(st.integers(0, 3), max_size=8)


@settings(max_examples=examples(400))
@given(st.lists(st.tuples(small, st.integers(-1, 4)), min_size=1, max_size=5), st.sampled_from([11, 14, 15, 17]))
@example([([1, 2, 0, 0, 3, 1], 0)], 15)
@example([([2, 1], 0), ([1], 0), ([], 0)], 15)
def test_chunks_of_frequencies_are_read_as_one_by_one(spec: list[tuple[list[int], int]], version: int) -> None:
    """Zeros, norms of 0 and 1, chunks that lack a number or have one too many."""
    per_chunk = []
    for values, wrong in spec:
        right = next((n for n in range(len(values) + 1) if sequential(version, values, n) is not None), 1)
        per_chunk.append(max(right + wrong, 0) if wrong in (-1, 1) else right)
    raw = chunked([uv(*values) for values, _ in spec])
    data = parts.segment(b"?" + raw)
    blocks = chunks.read_blocks(data, np.ones(1, np.int64), np.array([len(spec)]), "freq/norm")
    expected: list[tuple[int, int]] | None = []
    for (values, _), count in zip(spec, per_chunk, strict=True):
        one = sequential(version, values, count)
        expected = None if one is None or expected is None else expected + one
    try:
        freqs, norms = postings._decode_freqs(version, blocks, np.array(per_chunk))
    except NotCanonical as error:
        assert expected is None
        assert error.offset is not None
        assert error.offset <= len(raw) + 1
    else:
        assert list(zip(freqs.tolist(), norms.tolist(), strict=True)) == expected


@each("version", range(12, 18))
def test_hazard_locations_without_a_block(version: int) -> None:
    craft = minimal(version)
    at = craft.postings([1], chunked([uv(3, norm(version, 1))]))
    for locations in (False, True):
        assert refusal(craft, at, locations=locations).what == "postings with locations"


def test_lists_without_asking_for_locations_do_not_look_at_them() -> None:
    craft = minimal(15)
    at = craft.postings([1], chunked([uv(3, 1)]), b"\xff" * 20)
    assert read(craft, at, locations=False) == [Posting(1, 1, 1)]
    refusal(craft, at)


# ------------------------------------------------------------------ documents


WRONG_BITMAPS = {
    "no cookie": (b"\0" * 20, BadMagic),
    "no container": (bitmap(), NotCanonical),
    "seven bytes": (docs_of([1])[:7], Truncated),
    "half a payload": (docs_of([1, 2])[:-2], Truncated),
    "no payload": (docs_of([1])[:-2], Truncated),
    "more containers than bytes": (b"\x3a\x30\0\0\xff\xff\0\0" + bytes(40), Truncated),
    "too many containers": (b"\x3a\x30\0\0\1\0\1\0" + bytes(40), NotCanonical),
    "bytes behind it": (docs_of([1]) + b"\0", NotCanonical),
    "two bytes behind it": (docs_of([1]) + b"\0\0", NotCanonical),
    "values that descend": (bitmap(array(0, [2, 1])), NotCanonical),
    "a value twice": (bitmap(array(0, [1, 1])), NotCanonical),
    "keys that descend": (bitmap(array(1, [0]), array(0, [0])), NotCanonical),
    "a key twice": (bitmap(array(0, [0]), array(0, [1])), NotCanonical),
    "a wrong offset": (bitmap(array(0, [0]), offsets=[18]), NotCanonical),
    "runs that overlap": (bitmap(runs(0, [(0, 2), (1, 1)])), NotCanonical),
    "runs that do not add up": (bitmap(runs(0, [(0, 2)]).claiming(1)), NotCanonical),
    "a run too many": (bitmap(runs(0, [(65535, 2)]).claiming(2)), NotCanonical),
    "another population": (bitmap(bitset(0, range(4500)).claiming(4400)), NotCanonical),
    "a cardinality too small": (bitmap(array(0, [0, 1]).claiming(1)), NotCanonical),
    "a cardinality too large": (bitmap(array(0, [0, 1]).claiming(3)), Truncated),
    "a document too many": (docs_of([2999, 3000]), NotCanonical),
    "a document far away": (docs_of([0, 2**32 - 1]), NotCanonical),
}


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


@each("version", VERSIONS)
def test_hazard_more_or_fewer_entries_than_postings(version: int) -> None:
    entry = uv(2, norm(version, 1))
    for count in (0, 1, 3):
        craft = minimal(version)
        assert "freq/norm chunk" in refusal(craft, craft.postings([0, 2], chunked([entry * count]))).what


@each("version", VERSIONS)
def test_hazard_entries_in_the_wrong_chunk(version: int) -> None:
    entry = uv(2, norm(version, 1))
    craft = minimal(version)
    craft.chunk_mode = 1
    nowhere = None if version != 11 else chunked([b""] * 3)
    valid = craft.postings([0, 2], chunked([entry, b"", entry]), nowhere)
    assert [posting.doc for posting in read(craft, valid)] == [0, 2]
    for blocks in ([entry, entry, b""], [entry * 2, b"", b""], [entry[:1], entry[1:], entry]):
        craft = minimal(version)
        craft.chunk_mode = 1
        refusal(craft, craft.postings([0, 2], chunked(blocks), nowhere))


@each("version", VERSIONS)
def test_hazard_a_frequency_without_its_norm(version: int) -> None:
    craft = minimal(version)
    refusal(craft, craft.postings([0], chunked([uv(2)])))
    craft = minimal(version)
    refusal(craft, craft.postings([0], chunked([uv(2, 1, 1)])))


def test_a_frequency_of_zero_has_no_norm_from_version_15_on() -> None:
    for version in VERSIONS:
        numbers = uv(0) if version >= 15 else uv(0, norm(version, 4))
        craft = minimal(version)
        at = craft.postings([0, 1], chunked([numbers + uv(4, norm(version, 4))]))
        found = read(craft, at)
        assert [posting.freq for posting in found] == [0, 2]
        assert found[0].norm == (0 if version >= 15 else norm(version, 4))


def test_locations_of_a_field_that_does_not_count() -> None:
    """A frequency of 0 with locations, which version 15 and later know."""
    entry = uv(0, 1, 2, 3, 0) * 2
    for version in (15, 16, 17):
        craft = minimal(version)
        at = craft.postings([0, 2], chunked([uv(1, 0)]), chunked([uv(len(entry)) + entry]))
        place = (0, 1, 2, 3, ())
        assert read(craft, at) == [Posting(0, 0, 0, (place, place)), Posting(2, 0, 0)]


@each("version", VERSIONS)
def test_hazard_more_locations_than_the_frequency(version: int) -> None:
    """On which the Go readers of version 11 to 14 panic."""
    entry = uv(0, 1, 2, 3, 0) * 3
    craft = minimal(version)
    at = craft.postings([1], chunked([uv(2 * 2 + 1, norm(version, 9))]), chunked([uv(len(entry)) + entry]))
    if version < 15:
        error = refusal(craft, at)
        assert (error.what, error.actual) == ("locations of a posting", 3)
    else:
        assert len(read(craft, at)[0].places) == 3


@pytest.mark.parametrize("version", [11, 12, 15])
def test_damaged_lists_end_in_lists_or_errors(version: int) -> None:
    footer = Footer(version, 40, 0, 0, None, 3)
    lists = [
        [Posting(doc, 2, 3, ((1, 300, 2, 3, (7,) * (doc % 3)),) * (doc % 2)) for doc in range(i, 40, 7)]
        for i in range(3)
    ]
    data, values = encode_postings(footer, columns(lists), 0)
    dice, raw, valid = random.Random(version), data.tobytes(), 0
    for _ in range(250):
        bad = bytearray(raw)
        for _ in range(dice.choice((1, 1, 3))):
            bad[dice.randrange(len(bad))] = dice.choice((0, 1, 2, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        valid += not isinstance(outcome(lambda bad: rows(decoded(bad, values, footer)), bytes(bad)), DecodeError)
    assert valid, "some damage makes other values"


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


def test_locations_are_misplaced_where_only_some_documents_have_any() -> None:
    """In chunks of one document each, the second without locations."""
    craft = minimal(17, docs=3)
    craft.chunk_mode = 1
    place = uv(5, 0, 1, 0, 1, 0)
    freqs = chunked([uv(3, 1), uv(2, 1), uv(3, 1)])
    at = craft.postings([0, 1, 2], freqs, chunked([place, b"", place], ends=[6, 12, 18]))
    expected = [Posting(doc, 1, 1, () if doc == 1 else ((0, 1, 0, 1, ()),)) for doc in range(3)]
    assert read(craft, at, salvage=True) == expected
    assert read(craft, at, locations=False) == [posting._replace(places=()) for posting in expected]
    with pytest.raises(NotCanonical, match=r"location chunks that zapx 17.0.9 to 17.1.3 misplaced"):
        read(craft, at)


@pytest.mark.parametrize("version", [15, 16])
def test_earlier_versions_have_no_such_chunks(version: int) -> None:
    craft = minimal(version, docs=2)
    craft.chunk_mode = 1
    at = craft.postings([0], chunked([uv(2, 1), b""], ends=[2, 4]))
    with pytest.raises(NotCanonical, match="freq/norm chunk"):
        read(craft, at, salvage=True)

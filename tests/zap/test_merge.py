"""Merging, against Python dictionaries of what the segments hold, and against writing what is left afresh."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from cases import each
from dvcodec import DecodeError, RowSet, UsageError
from dvcodec.core.errors import LimitExceeded, Unsupported
from dvcodec.core.limits import Limits
from dvcodec.zap import (
    DEFAULT_CHUNK_MODE,
    Document,
    Field,
    FieldOptions,
    Location,
    Segment,
    Synonyms,
    Term,
    merge_segments,
    verify_segment,
    write_segment,
)
from samples.zap.documents import (
    Content,
    content,
    content_of,
    documents,
    flatten,
    one_hits,
    renumbered,
    united,
    written,
)
from samples.zap.segments import NOT, VERSIONS, SegmentBuilder, chunked, minimal, norm, uv

O = FieldOptions  # noqa: E741
TEXT = O.INDEXED | O.STORED | O.TERM_VECTORS | O.DOC_VALUES
SKIPS = O.SKIP_DOC_VALUE_COMPRESSION | O.SKIP_DOC_VALUE_CHUNKING


def merged(
    segments: Sequence[bytes | Segment],
    drops: Sequence[RowSet | None] | None = None,
    version: int | None = None,
    **options: int,
) -> tuple[bytes, list[list[int]]]:
    sink = io.BytesIO()
    opened = [one if isinstance(one, Segment) else Segment.open(one) for one in segments]
    numbers = merge_segments(sink, opened, drops, version, **options)  # type: ignore[arg-type]
    assert verify_segment(sink.getvalue()).ok
    return sink.getvalue(), [of_one.tolist() for of_one in numbers]


def read(raw: bytes) -> Content:
    with Segment.open(raw) as segment:
        return content(segment)


def hits(raw: bytes) -> dict[str, set[bytes]]:
    with Segment.open(raw) as segment:
        return one_hits(segment)


def number(counts: Sequence[int], drops: Sequence[RowSet | None]) -> list[list[int]]:
    found, at = [], 0
    for count, dropped in zip(counts, drops, strict=True):
        of_one = []
        for doc in range(count):
            gone = dropped is not None and doc in dropped
            of_one.append(-1 if gone else at)
            at += not gone
        found.append(of_one)
    return found


def document(name: bytes, *terms: bytes, **more: int) -> Document:
    return Document(name, (Field("f", b"v" + name, terms=tuple(map(Term, terms)), length=more.get("length", 4)),))


# ------------------------------------------------------------------ laws


@settings(max_examples=examples(40))
@given(st.data(), st.sampled_from(VERSIONS))
def test_merging_is_uniting_what_is_left(data: st.DataObject, version: int) -> None:
    found = data.draw(st.lists(documents(version, most=3), min_size=1, max_size=3))
    raws = [written(version, one) for one in found]
    contents = [content_of(version, one) for one in found]
    counts = [len(one.stored) for one in contents]
    drops = [
        data.draw(st.none() | st.sets(st.integers(0, count - 1)).map(RowSet)) if count else None for count in counts
    ]
    expected = number(counts, drops)
    raw, numbers = merged(raws, drops, chunk_mode=data.draw(st.sampled_from([None, 1])))  # type: ignore[arg-type]
    assert numbers == expected
    left = [renumbered(one, renames) for one, renames in zip(contents, expected, strict=True)]
    assert read(raw) == united(left)
    # Writing the same documents afresh; a nested one is then like any other.
    flat = [
        Document(one.id, one.fields, one.composites, (), one.synonyms)
        for part, renames in zip(found, expected, strict=True)
        for one, kept in zip(flatten(part)[0], renames, strict=True)
        if kept >= 0
    ]
    assert read(written(version, flat)) == read(raw)._replace(edges=[])
    check_names(raw, raws)
    check_one_hits(raw, contents, expected)


def check_names(raw: bytes, inputs: Sequence[bytes]) -> None:
    names = {info.name for one in inputs for info in Segment.open(one).fields} - {"_id"}
    assert [info.name for info in Segment.open(raw).fields] == ["_id", *sorted(names, key=str.encode)]


def check_one_hits(raw: bytes, contents: Sequence[Content], numbers: Sequence[Sequence[int]]) -> None:
    """One posting of frequency 1, without locations, of the last segment that has the term."""
    expected: dict[str, set[bytes]] = {}
    for name in {name for one in contents for name in one.terms}:
        for term in {term for one in contents for term in one.terms.get(name, {})}:
            having = [i for i, one in enumerate(contents) if term in one.terms.get(name, {})]
            left = [
                (i, posting)
                for i in having
                for posting in contents[i].terms[name][term]
                if numbers[i][posting.doc] >= 0
            ]
            if len(left) != 1 or left[0][0] != having[-1]:
                continue
            posting = left[0][1]
            if (
                posting.freq == 1
                and not posting.places
                and (np.isfinite(posting.norm) or Segment.open(raw).version < 15)
            ):
                expected.setdefault(name, set()).add(term)
    assert hits(raw) == expected


@settings(max_examples=examples(40))
@given(st.data(), st.sampled_from(VERSIONS), st.sampled_from(VERSIONS))
def test_a_merge_changes_the_version(data: st.DataObject, source: int, target: int) -> None:
    lower = min(source, target)
    found = data.draw(documents(lower, most=4))
    raw, _ = merged([written(source, found)], None, target)
    assert read(raw) == content_of(target, found)
    again, numbers = merged([raw], None, source)
    assert read(again) == content_of(source, found)
    assert numbers == [list(range(len(content_of(source, found).stored)))]


def test_segments_of_all_versions_together() -> None:
    raws = [written(version, [document(b"%d" % version, b"x", b"%d" % version)]) for version in VERSIONS]
    for target in VERSIONS:
        raw, numbers = merged(raws, None, target)
        assert numbers == [[i] for i in range(7)]
        with Segment.open(raw) as segment:
            found = segment.postings("f", "x")
            assert found is not None
            assert (segment.version, found.docs.tolist(), found.norms.tolist()) == (target, list(range(7)), [0.5] * 7)
    assert Segment.open(merged(raws[:3])[0]).version == 13
    assert Segment.open(merged(raws[::-1])[0]).version == 17


def test_lengths_up_to_four_million_survive_the_way_there_and_back() -> None:
    lengths = [0, 1, 2, 3, 1023, 65_537, 999_983, 3_999_999, 4_000_000]
    found = [document(b"%d" % size, b"x", length=size) for size in lengths]
    direct = written(15, found)
    back, _ = merged([merged([direct], None, 12)[0]], None, 15)
    assert read(back) == read(direct)
    assert read(merged([direct], None, 11)[0]) == content_of(11, found)


@each("version", VERSIONS)
def test_a_merge_of_a_merge(version: int) -> None:
    """1-hits are read as well as written."""
    found = [[document(b"%d%d" % (i, j), b"x", b"t%d%d" % (i, j)) for j in range(3)] for i in range(3)]
    raws = [written(version, one) for one in found]
    left, _ = merged(raws[:2], [RowSet([0]), None])
    raw, numbers = merged([left, raws[2]], [RowSet([1]), RowSet([2])])
    assert numbers == [[0, -1, 1, 2, 3], [4, 5, -1]]
    direct, _ = merged(raws, [RowSet([0, 2]), None, RowSet([2])])
    assert read(raw) == read(direct)
    assert hits(raw) == hits(direct)


@each("version", VERSIONS)
def test_a_segment_with_itself(version: int) -> None:
    raw = written(version, [document(b"a", b"x", b"y"), document(b"b", b"x")])
    with Segment.open(raw) as segment:
        twice, numbers = merged([segment, segment], [None, RowSet([0])])
    assert numbers == [[0, 1], [-1, 2]]
    assert read(twice).terms["f"][b"x"] == [
        posting._replace(doc=doc) for doc, posting in enumerate([read(raw).terms["f"][b"x"][0]] * 3)
    ]


def test_many_documents_in_many_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [document(b"%04d" % i, b"all", b"t%d" % (i % 5), b"only%d" % i) for i in range(1200)]
    raw = written(16, found)
    dropped = RowSet(range(0, 1200, 3))
    direct, _ = merged([raw, raw], [dropped, None])
    monkeypatch.setattr("dvcodec.zap.stored._BATCH_DOCS", 97)
    monkeypatch.setattr("dvcodec.zap.assemble.POSTINGS_AT_ONCE", 64)
    assert merged([raw, raw], [dropped, None])[0] == direct
    postings = Segment.open(direct).postings("f", "all")
    assert postings is not None
    assert postings.docs.tolist() == list(range(2000))


# ------------------------------------------------------------------ one-hits


@each("version", VERSIONS)
def test_lists_that_go_into_the_dictionary(version: int) -> None:
    place = (Location(1, 0, 1),)
    terms = (Term(b"once"), Term(b"twice", 2), Term(b"placed", 1, place), Term(b"both"))
    left = written(version, [Document(b"a", (Field("f", terms=terms, length=3), Field("none", terms=(Term(b"x"),))))])
    right = written(version, [document(b"b", b"both")])
    found = hits(merged([left, right])[0])
    # A length of 0 is what a reader takes for no list at all; as a float it is infinity.
    assert found == {"_id": {b"a", b"b"}, "f": {b"once"}} | ({"none": {b"x"}} if version < 15 else {})
    assert hits(left) == {}


@each("version", VERSIONS)
def test_zapx_falls_back_where_the_last_segment_lost_its_document(version: int) -> None:
    left, right = (written(version, [document(name, b"x", b"own" + name)]) for name in (b"a", b"b"))
    dropped_right, _ = merged([left, right], [None, RowSet([0])])
    dropped_left, _ = merged([left, right], [RowSet([0]), None])
    assert hits(dropped_right)["f"] == {b"owna"}
    assert hits(dropped_left)["f"] == {b"x", b"ownb"}
    assert [one.doc for one in read(dropped_right).terms["f"][b"x"]] == [0]


@pytest.mark.parametrize("version", [15, 16, 17])
def test_norms_that_do_not_fit_a_one_hit(version: int) -> None:
    found = [document(b"%d" % i, b"t%d" % i, length=size) for i, size in enumerate((2**31 - 1, 2**31, 2**32 - 1))]
    raw, _ = merged([written(version, found)])
    assert hits(raw)["f"] == {b"t0"}
    assert read(raw) == content_of(version, found)


# ------------------------------------------------------------------ no document left


@each("version", VERSIONS)
def test_no_document_is_left(version: int) -> None:
    raws = [
        written(version, [document(b"a", b"x")]),
        written(version, []),
        written(version, [Document(b"b", (Field("g"),))]),
    ]
    raw, numbers = merged(raws, [RowSet([0]), None, RowSet([0])])
    assert numbers == [[-1], [], [-1]]
    with Segment.open(raw) as segment:
        assert (segment.num_docs, segment.version) == (0, version)
        assert [info.name for info in segment.fields] == ["_id", "f", "g"]
        assert all(info.dictionary is None and info.doc_values is None for info in segment.fields)
        assert segment.footer.stored_index == 0
        assert segment.footer.doc_value_table is None
    assert read(merged([raw, raws[0]])[0]) == read(raws[0])
    assert Segment.open(merged([raw])[0]).num_docs == 0


# ------------------------------------------------------------------ options


def options_of(raw: bytes) -> dict[str, int]:
    with Segment.open(raw) as segment:
        return {info.name: int(info.options or 0) for info in segment.fields}


def of_options(options: FieldOptions, name: bytes = b"a") -> bytes:
    field = Field("f", b"v", "t", options, (Term(b"x" + name),), 1)
    return written(17, [Document(name, (field,))])


def test_options_are_those_that_all_segments_have() -> None:
    plain = O.INDEXED | O.STORED
    raw, _ = merged([of_options(TEXT | O.GPU), of_options(plain | O.GPU | O.DOC_VALUES, b"b")])
    assert options_of(raw) == {"_id": 3, "f": int(plain | O.GPU | O.DOC_VALUES)}
    raw, _ = merged([of_options(TEXT), written(17, [Document(b"b")])])
    assert options_of(raw)["f"] == int(TEXT), "of the segments that have the field"


@pytest.mark.parametrize("missing", [O.INDEXED, O.STORED, O.DOC_VALUES])
def test_what_one_segment_is_not_kept_for_is_dropped(missing: FieldOptions) -> None:
    inputs = [of_options(TEXT), of_options(TEXT & ~missing, b"b")]
    raw, _ = merged(inputs)
    found = read(raw)
    whole = united([renumbered(read(one), [i]) for i, one in enumerate(inputs)])
    if missing == O.INDEXED:
        assert found == whole._replace(terms={"_id": whole.terms["_id"]}, values={})
        assert options_of(raw)["f"] == int(O.STORED | O.TERM_VECTORS)
    elif missing == O.STORED:
        assert found == whole._replace(stored=[row[:1] for row in whole.stored])
        assert options_of(raw)["f"] == int(TEXT & ~O.STORED)
    else:
        assert found == whole._replace(values={})
        assert options_of(raw)["f"] == int(TEXT & ~O.DOC_VALUES)
    with Segment.open(raw) as segment:
        assert (segment.field("f").doc_values is None) == (missing in (O.DOC_VALUES, O.INDEXED))


@pytest.mark.parametrize("more", [False, True])
def test_value_without_the_option_is_kept_where_all_segments_have_the_same_fields(more: bool) -> None:
    def craft(*names: str) -> bytes:
        craft = SegmentBuilder(17)
        meta = uv(1, 1, 116, 0, 1, 0)
        craft.put(uv(len(meta), 4) + meta + b"0" + b"\x01\0z")
        craft.docs, craft.stored = 1, craft.put(bytes(8))
        craft.put(b"\0")
        craft.ids()
        for name in names:
            craft.field(name, options=int(O.INDEXED))
        return craft.finish()

    raw, _ = merged([craft("a"), craft("a", "b") if more else craft("a")])
    assert [[value[0] for value in row] for row in read(raw).stored] == [["_id"] if more else ["_id", "a"]] * 2


@pytest.mark.parametrize("target", [15, 16])
def test_versions_without_options_keep_everything(target: int) -> None:
    inputs = [of_options(TEXT), of_options(O.TERM_VECTORS, b"b")]
    whole = united([renumbered(read(one), [i]) for i, one in enumerate(inputs)])
    assert read(merged(inputs, None, target)[0]) == whole


def test_options_are_guessed_where_no_segment_says_them() -> None:
    """What is not said is dropped by the next merge of version 17."""
    found = [
        Document(
            b"a",
            (
                Field("text", b"v", "t", TEXT, (Term(b"x", 1, (Location(1, 0, 1),)),), 1),
                Field("word", b"v", "t", O.INDEXED | O.STORED | O.DOC_VALUES, (Term(b"x"),), 1),
                Field("bare", b"v", "t", O.INDEXED | O.SKIP_FREQ_NORM, (Term(b"x", 0),)),
            ),
        )
    ]
    raw, _ = merged([written(16, found)], None, 17)
    expected = {"_id": 3, "bare": 3 | 16, "text": 1 | 2 | 4 | 8, "word": 1 | 2 | 8}
    assert options_of(raw) == expected
    again, _ = merged([raw], [RowSet()])
    assert read(again) == read(raw) == content_of(17, found)


def test_doc_values_without_terms_in_one_segment_are_enough_to_guess_their_option() -> None:
    """The values stay behind; the option keeps those that a later merge brings."""
    one, other = minimal(16), minimal(16)
    at = one.put(bytes(20))
    one.field("f", block=(at, at + 20))
    other.field("f")
    for pair in ((one, other), (other, one)):
        raw, _ = merged([craft.finish() for craft in pair], None, 17)
        assert options_of(raw)["f"] == int(O.INDEXED | O.STORED | O.DOC_VALUES)
    raw, _ = merged([other.finish()], None, 17)
    assert options_of(raw)["f"] == int(O.INDEXED | O.STORED)


def test_options_of_the_layout_of_doc_values_are_kept() -> None:
    raw, _ = merged([of_options(TEXT | SKIPS), of_options(TEXT | SKIPS, b"b")])
    assert options_of(raw)["f"] == int(TEXT | SKIPS)
    assert read(raw).values["f"] == {0: (b"xa",), 1: (b"xb",)}
    raw, _ = merged([of_options(TEXT | SKIPS), of_options(TEXT, b"b")])
    assert options_of(raw)["f"] == int(TEXT)
    assert read(raw).values["f"] == {0: (b"xa",), 1: (b"xb",)}


# ------------------------------------------------------------------ nested documents, synonyms, shapes


def test_an_edge_goes_with_either_of_its_ends() -> None:
    tree = Document(b"0", children=(Document(b"1", children=(Document(b"2"),)), Document(b"3")))
    raw = written(17, [tree])
    for drop, edges in ((0, [(1, 0)]), (1, [(2, 0)]), (2, [(1, 0), (2, 0)]), (3, [(1, 0), (2, 1)])):
        assert read(merged([raw], [RowSet([drop])])[0]).edges == edges
    assert read(merged([raw, raw], [RowSet([0]), RowSet([1])])[0]).edges == [(1, 0), (5, 3)]
    with pytest.raises(UsageError, match="no nested documents"):
        merge_segments(io.BytesIO(), [Segment.open(raw)], None, 16)


@pytest.mark.parametrize("version", [16, 17])
def test_synonyms_of_dropped_documents_go(version: int) -> None:
    def of(name: bytes, *synonyms: bytes) -> Document:
        return Document(name, synonyms=(Synonyms("s", ((b"x", synonyms), (b"own" + name, synonyms[:1]))),))

    raw = written(version, [of(b"a", b"p", b"q"), of(b"b", b"q")])
    other = written(version, [of(b"c", b"r", b"p")])
    found, _ = merged([raw, other], [RowSet([0]), None])
    assert read(found).thesauri == {
        "s": {b"x": {(b"q", 0), (b"r", 1), (b"p", 1)}, b"ownb": {(b"q", 0)}, b"ownc": {(b"r", 1)}}
    }
    none, _ = merged([raw], [RowSet([0, 1])])
    assert read(none).thesauri == {}
    kept, _ = merged([raw, written(version, [Document(b"d")])], [RowSet([0, 1]), None])
    assert Segment.open(kept).field("s").synonyms is None
    with pytest.raises(UsageError, match="no synonyms"):
        merge_segments(io.BytesIO(), [Segment.open(raw)], None, 15)


@pytest.mark.parametrize("version", [16, 17])
@pytest.mark.parametrize(("kind", "what"), [(1, "vectors"), (3, "geo shapes")])
def test_sections_that_only_go_writes(version: int, kind: int, what: str) -> None:
    craft = minimal(version)
    at = craft.put(uv(NOT, NOT, 0))
    craft.field("f", sections=[(0, at), (kind, at)])
    for target in (15, version):
        with pytest.raises(Unsupported, match=f"{what} cannot be merged") as caught:
            merge_segments(io.BytesIO(), [Segment.open(craft.finish())], None, target)
        assert caught.value.offset == at


@each("version", VERSIONS)
def test_fields_that_another_writer_put_in_another_order(version: int) -> None:
    """Stored values and locations go by the new ids, and those are in the order of names."""
    craft = SegmentBuilder(version)
    meta = uv(1, 1, 116, 0, 1, 0, 2, 116, 1, 1, 0)
    craft.put(uv(len(meta), 5) + meta + b"0" + b"\x02\x04zb")
    craft.docs, craft.stored = 1, craft.put(bytes(8))
    if version == 17:
        craft.put(b"\0")
    craft.ids()
    places = chunked([uv(5, 1, 1, 2, 3, 0)])
    craft.field("z", craft.dictionary({b"x": craft.postings([0], chunked([uv(3, norm(version, 1))]), places)}))
    craft.field("b")
    found = content(Segment.open(craft.finish()))
    assert [value[:1] + value[2:3] for value in found.stored[0]] == [("_id", b"0"), ("z", b"z"), ("b", b"b")]
    raw, _ = merged([craft.finish()])
    assert [info.name for info in Segment.open(raw).fields] == ["_id", "b", "z"]
    assert read(raw) == found._replace(stored=[[found.stored[0][i] for i in (0, 2, 1)]])


# ------------------------------------------------------------------ what is refused


def test_invalid_merges_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.zap"
    segment = Segment.open(written(15, [document(b"a", b"x")]))
    for segments, drops, version, message in (
        ([], None, None, "at least one segment"),
        ([segment], [], None, r"drops: expected one per segment \(1\), found 0"),
        ([segment], [None, None], None, "found 2"),
        ([segment], [RowSet([1])], None, "has 1 documents: cannot drop 1"),
        ([segment], [RowSet([2**40])], None, "cannot drop"),
        ([segment], None, 10, "11 to 17"),
        ([segment], None, 18, "11 to 17"),
    ):
        with pytest.raises(UsageError, match=message):
            merge_segments(path, segments, drops, version)
        assert not path.exists()
    monkeypatch.setattr("dvcodec.zap.merge._MAX_DOCS", 1)
    with pytest.raises(UsageError, match="at most 1 documents, not 2"):
        merge_segments(path, [segment, segment])
    for version, mode in ((15, 0), (12, 1026), (15, 1027)):
        with pytest.raises(UsageError, match="chunk mode"):
            merge_segments(path, [segment], None, version, chunk_mode=mode)
    assert list(tmp_path.iterdir()) == []


def test_locations_that_earlier_versions_cannot_hold() -> None:
    place = (Location(1, 0, 1),)
    raw = written(15, [Document(b"a", (Field("f", terms=(Term(b"x", 0, place),)),)), Document(b"b")])
    for version in (11, 12, 13, 14):
        with pytest.raises(UsageError, match="more locations than the frequency"):
            merge_segments(io.BytesIO(), [Segment.open(raw)], None, version)
        assert read(merged([raw], [RowSet([0])], version)[0]).terms.keys() == {"_id"}
    assert read(merged([raw], None, 17)[0]).terms["f"][b"x"][0].freq == 0


def test_damaged_segments_are_not_merged(tmp_path: Path) -> None:
    path = tmp_path / "x.zap"
    path.write_bytes(b"as it was")
    for damage in ("stored", "dictionary", "postings"):
        craft = minimal(15)
        if damage == "stored":
            craft.out[0] = 0xFF
        craft.field("f", craft.put(b"\xff" * 30) if damage == "dictionary" else 0)
        at = craft.postings([1], chunked([uv(2, norm(15, 1)) * (2 if damage == "postings" else 1)]))
        craft.field("g", craft.dictionary({b"x": at}))
        with pytest.raises(DecodeError):
            merge_segments(path, [Segment.open(craft.finish())])
        assert path.read_bytes() == b"as it was"
        assert len(list(tmp_path.iterdir())) == 1


def test_limits_of_the_segments_are_kept() -> None:
    raw = written(15, [document(b"a", b"x", b"y")])
    with pytest.raises(LimitExceeded):
        merge_segments(io.BytesIO(), [Segment.open(raw, limits=Limits(max_blob_bytes=1))])


# ------------------------------------------------------------------ files


@each("version", VERSIONS)
def test_a_segment_is_replaced_by_its_merge(version: int, tmp_path: Path) -> None:
    path = tmp_path / "x.zap"
    write_segment(path, [document(b"a", b"x"), document(b"b", b"x", b"y")], version)
    with Segment.open(path) as segment:
        before = content(segment)
        assert merge_segments(path, [segment], [RowSet([0])])[0].tolist() == [-1, 0]
        assert content(segment) == before, "the open one stays as it was"
    assert read(path.read_bytes()) == renumbered(before, [-1, 0])
    assert len(list(tmp_path.iterdir())) == 1


def test_progress_names_each_field_once() -> None:
    found: list[str] = []
    segments = [Segment.open(written(15, [Document(b"a", (Field(name),))])) for name in ("b", "a", "b")]
    merge_segments(io.BytesIO(), segments, progress=found.append)
    assert found == ["_id", "a", "b"]


@each("version", VERSIONS)
def test_the_mode_of_a_merge_is_that_of_zapx(version: int) -> None:
    raw = written(version, [document(b"%d" % i, b"x") for i in range(5)], 2)
    for mode, expected in ((None, DEFAULT_CHUNK_MODE[version]), (1, 1), (1025, 1025)):
        found, _ = merged([raw], chunk_mode=mode)  # type: ignore[arg-type]
        assert Segment.open(found).footer.chunk_mode == expected
        assert read(found) == read(raw)

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
from dvcodec import RowSet, UsageError
from dvcodec.core.errors import Unsupported
from dvcodec.zap import (
    Document,
    Field,
    FieldOptions,
    Location,
    Segment,
    Synonyms,
    Term,
    merge_segments,
    verify_segment,
)
from samples.zap.documents import (
    Content,
    content,
    content_of,
    documents,
    flatten,
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
    mode = data.draw(st.sampled_from([None, 1]))
    raw, numbers = merged(raws, drops, chunk_mode=mode)  # type: ignore[arg-type]
    assert numbers == expected
    with pytest.MonkeyPatch.context() as patched:
        for name in ("merge.POSTINGS", "writer.POSTINGS", "merge._LEAST", "doc_values._BYTES"):
            patched.setattr(f"dvcodec.zap.{name}_AT_ONCE", 1)
        patched.setattr("dvcodec.zap.stored._BATCH_DOCS", 1)
        assert merged(raws, drops, chunk_mode=mode)[0] == raw  # type: ignore[arg-type]
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


# ------------------------------------------------------------------ no document left


# ------------------------------------------------------------------ options


def options_of(raw: bytes) -> dict[str, int]:
    with Segment.open(raw) as segment:
        return {info.name: int(info.options or 0) for info in segment.fields}


def of_options(options: FieldOptions, name: bytes = b"a") -> bytes:
    field = Field("f", b"v", "t", options, (Term(b"x" + name),), 1)
    return written(17, [Document(name, (field,))])


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


def test_a_norm_that_is_of_no_length_becomes_none() -> None:
    """Up to version 14 it is any float; a length has 32 bits."""
    craft = minimal(14)
    norm_of_too_many = int(np.float32(1e-6).view(np.uint32))
    craft.field("f", craft.dictionary({b"x": craft.postings([0], chunked([uv(2, norm_of_too_many)]))}))
    with Segment.open(merged([craft.finish()], None, 15)[0]) as segment:
        found = segment.postings("f", "x")
        assert found is not None
        assert found.norms.tolist() == [float("inf")]


# ------------------------------------------------------------------ synonyms, shapes


def test_a_thesaurus_of_dropped_documents_goes() -> None:
    raw = written(17, [Document(b"a", synonyms=(Synonyms("s", ((b"x", (b"p",)),)),))])
    kept, _ = merged([raw, written(17, [Document(b"d")])], [RowSet([0]), None])
    assert Segment.open(kept).field("s").synonyms is None


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
    nested = Segment.open(written(17, [Document(b"a", children=(Document(b"b"),))]))
    synonyms = Segment.open(written(16, [Document(b"a", synonyms=(Synonyms("s", ((b"x", (b"y",)),)),))]))
    for segments, drops, version, message in (
        ([], None, None, "at least one segment"),
        ([segment], [], None, r"drops: expected one per segment \(1\), found 0"),
        ([segment], [None, None], None, "found 2"),
        ([segment], [RowSet([1])], None, "has 1 documents: cannot drop 1"),
        ([segment], [RowSet([2**40])], None, "cannot drop"),
        ([segment], None, 10, "11 to 17"),
        ([segment], None, 18, "11 to 17"),
        ([nested], None, 16, "no nested documents"),
        ([synonyms], None, 15, "no synonyms"),
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

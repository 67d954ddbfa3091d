"""Fresh segments: what they hold is what the documents say, and what no reader could bear is not written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from cases import each
from dvcodec import UsageError
from dvcodec.zap import (
    DEFAULT_CHUNK_MODE,
    Document,
    Field,
    FieldOptions,
    Location,
    Segment,
    Synonyms,
    Term,
    verify_segment,
    write_segment,
)
from dvcodec.zap.writer import _sums
from samples.zap.documents import content, content_of, documents, one_hits, written
from samples.zap.segments import VERSIONS

OPTIONS = FieldOptions
TEXT = OPTIONS.INDEXED | OPTIONS.STORED | OPTIONS.TERM_VECTORS | OPTIONS.DOC_VALUES
SKIPS = OPTIONS.SKIP_DOC_VALUE_COMPRESSION | OPTIONS.SKIP_DOC_VALUE_CHUNKING
DOC = Document(b"a", (Field("f", b"v", terms=(Term(b"x"),), length=1),))


@given(st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 2**33), min_size=1, max_size=4), min_size=1))
def test_sums_are_exact_or_refused(runs: list[list[int]]) -> None:
    values = np.array([value for run in runs for value in run], np.uint64)
    firsts = np.cumsum([0, *map(len, runs)])[:-1]
    if max(map(sum, runs)) < 2**64:
        assert _sums(values, firsts).tolist() == [sum(run) for run in runs]
    else:
        with pytest.raises(OverflowError):
            _sums(values, firsts)


@each(
    ("version", "highest"),
    [(11, 2**32 - 1), (12, 1025), (13, 1025), (14, 1026), (15, 1026), (16, 1026), (17, 1026)],
)
def test_chunk_modes_of_a_version(version: int, highest: int) -> None:
    for mode in (1, highest):
        with Segment.open(written(version, [DOC], mode)) as segment:
            assert (segment.footer.chunk_mode, list(segment.terms("f"))) == (mode, [(b"x", 1)])
    for mode in (0, highest + 1):
        with pytest.raises(UsageError, match=f"expected 1 to {highest}, got {mode}"):
            written(version, [DOC], mode)


def opened(version: int, *found: Document, chunk_mode: int | None = None) -> Segment:
    raw = written(version, found, chunk_mode)
    assert verify_segment(raw).ok
    return Segment.open(raw)


@settings(max_examples=examples(80))
@given(st.data(), st.sampled_from(VERSIONS))
def test_a_segment_holds_what_its_documents_say(data: st.DataObject, version: int) -> None:
    found = data.draw(documents(version))
    mode = data.draw(st.sampled_from([None, 1, 2, 1024]))
    raw = written(version, found, mode)
    with pytest.MonkeyPatch.context() as patched:
        for name in ("POSTINGS_AT_ONCE", "_DOCS_AT_ONCE"):
            patched.setattr(f"dvcodec.zap.writer.{name}", 1)
        assert written(version, found, mode) == raw
    expected = content_of(version, found)
    with Segment.open(raw) as segment:
        assert content(segment) == expected
        assert segment.footer.chunk_mode == (mode or DEFAULT_CHUNK_MODE[version])
        assert segment.num_docs == len(expected.stored)
        assert one_hits(segment) == {}
    assert verify_segment(raw).ok


def test_options_are_those_of_all_instances() -> None:
    found = [
        Document(b"a", (Field("f", options=OPTIONS.INDEXED), Field("f", options=OPTIONS.GPU))),
        Document(b"b", (Field("g", options=SKIPS | OPTIONS.DOC_VALUES),), (Field("f", options=OPTIONS.STORED),)),
        Document(b"c", synonyms=(Synonyms("s", ((b"x", (b"y",)),)),)),
    ]
    with opened(17, *found) as segment:
        assert [int(info.options or 0) for info in segment.fields] == [3, 1 | 2 | 128, 8 | 32 | 64, 0]
        assert segment.field("g").doc_values is not None
    with opened(16, *found[:1]) as segment:
        assert [info.options for info in segment.fields] == [None, None]


def test_synonyms_are_counted_through_all_thesauri() -> None:
    found = [
        Document(b"a", synonyms=(Synonyms("t", ((b"x", (b"p", b"q")), (b"w", ()))), Synonyms("s", ((b"x", (b"p",)),)))),
        Document(b"b", synonyms=(Synonyms("t", ((b"x", (b"q", b"q")), (b"v", (b"r",)))),)),
    ]
    with opened(17, *found) as segment:
        ids = [(name, segment.thesaurus(name).ids.tolist()) for name in ("t", "s")]  # type: ignore[union-attr]
    assert ids == [("t", [0, 1, 3]), ("s", [2])]


# ------------------------------------------------------------------ what is refused


def of(*fields: Field, composites: tuple[Field, ...] = (), **more: Any) -> Document:
    return Document(b"a", fields, composites, **more)


def term(*terms: Term) -> Document:
    return of(Field("f", terms=terms))


NEGATIVE = "is negative or above"
REFUSED: dict[str, tuple[Sequence[int], Document, str]] = {
    "_id as a field": (VERSIONS, of(Field("_id")), "remove it from the fields"),
    "_id as a composite field": (VERSIONS, of(composites=(Field("_id"),)), "remove it from the fields"),
    "_id as a thesaurus": ([16, 17], of(synonyms=(Synonyms("_id", ()),)), "remove it from the fields"),
    "types that even out": ([15], of(Field("f", type="tt"), Field("g", type="")), "ASCII letter, not 'tt'"),
    "a foreign type": ([15], of(Field("f", type="\u00fc")), "one ASCII letter"),
    "children": (range(11, 17), of(children=(Document(b"b"),)), "no nested documents: document b'a'"),
    "synonyms": (range(11, 16), of(synonyms=(Synonyms("s", ()),)), "no synonyms: document b'a'"),
    "a place in a field that is not there": (
        VERSIONS,
        term(Term(b"x", 1, (Location(1, 0, 1, "g"),))),
        "field 'g', which no document has",
    ),
    "more locations than the frequency": (
        range(11, 15),
        term(Term(b"x", 0, (Location(1, 0, 1),))),
        "more locations than the frequency",
    ),
    "no compression alone": (
        [17],
        of(Field("f", options=TEXT | OPTIONS.SKIP_DOC_VALUE_COMPRESSION)),
        "set both or neither",
    ),
    "options of nine bits": (VERSIONS, of(Field("f", options=OPTIONS(256))), "must be below 256"),
    "options of a composite field": (VERSIONS, of(composites=(Field("f", options=OPTIONS(2**64)),)), "below 256"),
    "half a surrogate": (VERSIONS, of(Field("\ud800")), "is not a valid field name"),
    "a negative frequency": (VERSIONS, term(Term(b"x", -1)), NEGATIVE),
    "a huge frequency": (VERSIONS, term(Term(b"x", 2**63)), "a frequency above"),
    "frequencies that add up": ([15], term(Term(b"x", 2**62), Term(b"x", 2**62)), "a frequency above"),
    "a huge length": (VERSIONS, of(Field("f", length=2**64)), NEGATIVE),
    "a negative place": (VERSIONS, term(Term(b"x", 1, (Location(-1, 0, 1),))), NEGATIVE),
    "an array position": (VERSIONS, term(Term(b"x", 1, (Location(1, 0, 1, "", (-1,)),))), NEGATIVE),
    "an array position of a value": (VERSIONS, of(Field("f", array_positions=(-1,))), NEGATIVE),
}


@each("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    versions, document, message = REFUSED[name]
    for version in versions:
        path = tmp_path / f"{version}.zap"
        path.write_bytes(b"as it was")
        for found in ([document], [DOC, document, DOC]):
            with pytest.raises(UsageError, match=message):
                write_segment(path, found, version)
        assert path.read_bytes() == b"as it was"
        assert len(list(tmp_path.iterdir())) == 1
        path.unlink()


@each("version", VERSIONS)
def test_what_is_not_refused(version: int) -> None:
    far = Location(2**64 - 1, 2**64 - 1, 2**64 - 1, "", (2**64 - 1,))
    term = Term(b"x", 2**63 - 1, (far,))
    field = Field("f", b"v", "~", TEXT, (term,), 2**64 - 1, (2**64 - 1,))
    with opened(version, Document(b"", (field,))) as segment:
        postings = segment.postings("f", "x")
        assert postings is not None
        assert postings.freqs.tolist() == [2**63 - 1]
        assert postings.locations.starts.tolist() == [2**64 - 1]
        assert segment.stored(0)[1].array_positions == (2**64 - 1,)

"""The order on disk: every byte of a segment belongs to something, and each thing stands where zapx puts it."""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cases import each
from dvcodec import UsageError
from dvcodec.core.ragged import ByteStrings
from dvcodec.io.opening import open_sink
from dvcodec.zap import DEFAULT_CHUNK_MODE, Edges, FieldInfo, FieldOptions, Footer, Segment, verify_segment
from dvcodec.zap.assemble import FieldContent, check_version, write_content
from dvcodec.zap.doc_values import DocValues
from dvcodec.zap.fields import MAX_FIELDS
from dvcodec.zap.postings import Postings, encode_postings
from dvcodec.zap.stored import StoredColumns
from dvcodec.zap.synonyms import Thesaurus
from dvcodec.zap.vellum import Fst
from samples.bitmaps import crc_oracle
from samples.zap.postings import Lists, Posting, columns
from samples.zap.segments import NOT, VERSIONS, norm, take, uv

TEXT = FieldOptions.INDEXED | FieldOptions.STORED | FieldOptions.TERM_VECTORS | FieldOptions.DOC_VALUES
INDEX = np.array


def stored(docs: range) -> StoredColumns:
    """Documents with their number as id, and one value each."""
    count = len(docs)
    return StoredColumns(
        np.repeat(INDEX(docs, np.int64), 2),
        np.tile(INDEX([0, 1]), count),
        np.full(2 * count, ord("t"), np.uint8),
        ByteStrings.from_list([part for doc in docs for part in (b"%d" % doc, b"value")]),
        np.zeros(2 * count, np.int64),
        np.zeros(0, np.uint64),
    )


def content(name: str, terms: dict[bytes, list[Posting]], **more: Any) -> FieldContent:
    lists: Lists = [terms[term] for term in sorted(terms)]
    return FieldContent(
        name,
        more.get("options", FieldOptions(3)),
        ByteStrings.from_list(sorted(terms)),
        columns(lists),
        INDEX([term in more.get("one_hits", ()) for term in sorted(terms)], np.bool_),
        more.get("doc_values"),
        more.get("thesaurus"),
    )


def ids(version: int, docs: int) -> FieldContent:
    return content("_id", {b"%d" % doc: [Posting(doc, 1, norm(version, 1))] for doc in range(docs)})


def thesaurus() -> Thesaurus:
    one = INDEX([1])
    return Thesaurus(ByteStrings.from_list([b"x"]), one, one * 0, one, one * 0, ByteStrings.from_list([b"y"]))


def field(version: int) -> FieldContent:
    """A field with everything."""
    places = ((1, 1, 2, 3, (7,)),)
    terms = {
        b"hit": [Posting(2, 1, norm(version, 4))],
        b"x": [Posting(0, 1, norm(version, 4), places), Posting(2, 1, norm(version, 4))],
        b"y": [Posting(1, 3, norm(version, 9))],
    }
    return content(
        "f",
        terms,
        options=TEXT,
        one_hits=(b"hit",),
        doc_values=DocValues(INDEX([0, 2]), ByteStrings.from_list([b"x\xff", b"hit\xffx\xff"])),
        thesaurus=thesaurus() if version >= 16 else None,
    )


def write(version: int, fields: Any, docs: int = 3, *, edges: Edges | None = None, parts: int = 1) -> bytes:
    file = io.BytesIO()
    cuts = np.linspace(0, docs, parts + 1).astype(int).tolist()
    batches = [stored(range(a, b)) for a, b in itertools.pairwise(cuts)]
    with open_sink(file) as sink:
        write_content(sink, version, DEFAULT_CHUNK_MODE[version], docs, batches, fields, edges=edges)
    return file.getvalue()


class Walker:
    """Passes over a segment of version `version`, thing by thing; nothing is left between them."""

    def __init__(self, raw: bytes, version: int) -> None:
        self.raw, self.version, self.at = raw, version, 0
        with Segment.open(raw) as segment:
            self.footer, self.fields = segment.footer, segment.fields
            self.dictionaries = [segment.dictionary(info.name) for info in self.fields]

    def number(self) -> int:
        value, self.at = take(self.raw, self.at)
        return value

    def numbers(self, count: int) -> list[int]:
        return [self.number() for _ in range(count)]

    def skip(self, size: int) -> None:
        self.at += size

    def sized(self) -> None:
        self.skip(self.number())

    def chunks(self) -> None:
        self.skip([0, *self.numbers(self.number())][-1])

    def __iter__(self) -> Iterator[str]:
        """Name what stands there."""
        for _ in range(self.footer.num_docs):
            self.skip(sum(self.numbers(2)))
            yield "document"
        assert self.at == self.footer.stored_index
        self.at += 8 * self.footer.num_docs
        yield "index"
        if self.version == 17:
            self.numbers(2 * self.number())
            yield "edges"
        for info, dictionary in zip(self.fields, self.dictionaries, strict=True):
            assert dictionary is not None
            yield from self.field(info, dictionary)
        for info in self.fields:
            if info.synonyms is not None:
                self.synonyms(info)
                yield f"{info.name} synonyms"
        if self.version < 16:
            assert self.footer.doc_value_table == self.at
            self.numbers(2 * len(self.fields))
            yield "table"
        yield from self.records()

    def field(self, info: FieldInfo, dictionary: Fst) -> Iterator[str]:
        for term, value in dictionary.range():
            if not value >> 63:
                self.list(value)
                yield f"{info.name}:{term.decode()}"
        assert info.dictionary == self.at
        self.sized()
        yield f"{info.name} dictionary"
        if info.doc_values is not None:
            assert info.doc_values[0] == self.at
            self.at = info.doc_values[1]
            yield f"{info.name} doc values"
        if self.version >= 16:
            self.numbers(3)
            yield f"{info.name} section"

    def list(self, value: int) -> None:
        begin, behind = take(self.raw, value)
        located, behind = take(self.raw, behind)
        size, behind = take(self.raw, behind)
        assert begin == self.at, "the frequencies come first"
        self.chunks()
        if self.version == 11 or located not in (0, NOT):
            assert located == self.at
            self.chunks()
        assert value == self.at, "then the record"
        self.at = behind + size

    def synonyms(self, info: FieldInfo) -> None:
        self.sized()
        terms = self.at
        self.sized()
        count = self.number()
        self.numbers(int(self.version == 17))
        for _ in range(count):
            self.number()
            self.sized()
        assert info.synonyms == self.at
        assert take(self.raw, self.at + 20)[0] == terms
        self.numbers(3)

    def records(self) -> Iterator[str]:
        addresses = []
        for _ in self.fields:
            addresses.append(self.at)
            self.numbers(int(self.version < 16))
            self.sized()
            if self.version >= 16:
                sections = self.numbers(1 + (self.version == 17))[-1]
                kinds = [struct.unpack_from(">HQ", self.raw, self.at + 10 * i)[0] for i in range(sections)]
                assert kinds == [0, 2], "every kind, for every field, ascending"
                self.at += 10 * sections
            yield "record"
        assert self.at == self.footer.fields_index
        listed = (uv(len(addresses)) if self.version >= 16 else b"") + INDEX(addresses, ">u8").tobytes()
        assert self.raw[self.at : self.at + len(listed)] == listed
        assert self.at + len(listed) + self.footer.size == len(self.raw)
        yield "fields index"


@each("version", VERSIONS)
def test_everything_stands_where_zapx_puts_it(version: int) -> None:
    edges = Edges(INDEX([2, 1]), INDEX([1, 0])) if version == 17 else None
    raw = write(version, [ids(version, 3), field(version), content("g", {})], edges=edges)
    assert verify_segment(raw).ok
    expected = ["document"] * 3 + ["index"] + ["edges"] * (version == 17)
    for name, terms in (("_id", "012"), ("f", "xy"), ("g", "")):
        expected += [f"{name}:{term}" for term in terms]
        expected += [f"{name} dictionary"] + ["f doc values"] * (name == "f") + [f"{name} section"] * (version >= 16)
    expected += ["f synonyms"] * (version >= 16) + ["table"] * (version < 16) + ["record"] * 3 + ["fields index"]
    assert list(Walker(raw, version)) == expected
    with Segment.open(raw) as segment:
        assert segment.edges.children.tolist() == ([1, 2] if version == 17 else [])
        hit = segment.postings("f", "hit")
        assert hit is not None
        assert hit.docs.tolist() == [2]


@each("version", VERSIONS)
def test_a_segment_may_begin_anywhere_in_a_file(version: int) -> None:
    """Its addresses count from where it begins, and so does its checksum."""
    raw = write(version, [ids(version, 2)], 2)
    file = io.BytesIO()
    with open_sink(file) as sink:
        sink.write(b"something in front")
        write_content(sink, version, DEFAULT_CHUNK_MODE[version], 2, [stored(range(2))], [ids(version, 2)])
    assert file.getvalue() == b"something in front" + raw
    assert int.from_bytes(raw[-4:], "big") == crc_oracle(raw[:-4])


@each("version", VERSIONS)
def test_no_documents(version: int) -> None:
    raw = write(version, [ids(version, 0), content("g", {})], 0)
    assert verify_segment(raw).ok
    with Segment.open(raw) as segment:
        assert [info.name for info in segment.fields] == ["_id", "g"]
        assert all(info.dictionary is None and info.doc_values is None for info in segment.fields)
        assert (segment.footer.stored_index, segment.footer.doc_value_table) == (0, None)
    pad = int(version >= 16)
    assert raw[:pad] == bytes(pad)
    walker = Walker(raw, version)
    walker.at = pad
    assert list(walker.records()) == ["record", "record", "fields index"]


@pytest.mark.parametrize("parts", [1, 2, 5, 10])
def test_stored_documents_may_come_in_parts(parts: int) -> None:
    for version in (11, 17):
        assert write(version, [ids(version, 10)], 10, parts=parts) == write(version, [ids(version, 10)], 10)


@pytest.mark.parametrize(("most", "parts"), [(1, 5), (4, 4), (100, 2)])
def test_lists_may_be_written_in_parts(most: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks weigh as postings do."""
    whole = {version: write(version, [ids(version, 3), field(version)]) for version in VERSIONS}
    written: list[Postings] = []

    def encode(footer: Footer, part: Postings, base: int) -> Any:
        written.append(part)
        return encode_postings(footer, part, base)

    monkeypatch.setattr("dvcodec.zap.assemble.POSTINGS_AT_ONCE", most)
    monkeypatch.setattr("dvcodec.zap.assemble.encode_postings", encode)
    for version, raw in whole.items():
        assert write(version, [ids(version, 3), field(version)]) == raw
        assert len(written) == parts
        written.clear()


@each("version", VERSIONS)
def test_fields_are_asked_for_one_by_one(version: int) -> None:
    done: list[str] = []

    def fields() -> Iterator[FieldContent]:
        assert done == []
        yield ids(version, 1)
        assert done == ["_id"]
        yield content("g", {})
        assert done == ["_id", "g"]

    with open_sink(io.BytesIO()) as sink:
        write_content(sink, version, DEFAULT_CHUNK_MODE[version], 1, [stored(range(1))], fields(), progress=done.append)
    assert done == ["_id", "g"]


# ------------------------------------------------------------------ what is refused


def test_versions_and_modes() -> None:
    for version in VERSIONS:
        assert check_version(version, None) == DEFAULT_CHUNK_MODE[version]
        assert check_version(version, 7) == 7
    for version, mode in ((10, None), (18, 5), (15, 0), (12, 1026)):
        with pytest.raises(UsageError):
            check_version(version, mode)


def test_too_few_or_too_many_documents() -> None:
    for docs, batches in ((3, [stored(range(2))]), (2, []), (1, [stored(range(1)), stored(range(1, 2))])):
        with open_sink(io.BytesIO()) as sink, pytest.raises(UsageError, match="stored values"):
            write_content(sink, 15, 1026, docs, batches, [])


def test_too_many_fields() -> None:
    some = content("f", {})
    with open_sink(io.BytesIO()) as sink:
        write_content(sink, 16, 1026, 0, [], [some] * MAX_FIELDS)
    with open_sink(io.BytesIO()) as sink, pytest.raises(UsageError, match="at most 65534 fields, not 65535"):
        write_content(sink, 16, 1026, 0, [], [some] * (MAX_FIELDS + 1))


REFUSED: dict[str, tuple[tuple[int, ...], dict[str, Any], str]] = {
    "more locations than the frequency": ((11, 12, 13, 14), {"freq": 0}, "panic"),
    "a frequency that is written as another": (tuple(VERSIONS), {"freq": 2**63}, "a frequency above"),
    "no compression alone": ((17,), {"options": FieldOptions.SKIP_DOC_VALUE_COMPRESSION}, "both or neither"),
    "no chunks alone": ((17,), {"options": FieldOptions.SKIP_DOC_VALUE_CHUNKING}, "both or neither"),
    "doc values that are not there": ((17,), {"options": FieldOptions.DOC_VALUES}, "but no doc values"),
    "synonyms": (tuple(range(11, 16)), {"thesaurus": thesaurus()}, "has no synonyms"),
}


@each("name", REFUSED)
def test_what_readers_fail_on_or_lose(name: str) -> None:
    versions, what, message = REFUSED[name]
    freq = what.get("freq", 1)
    terms = {b"x": [Posting(0, freq, 1 if freq else 0, ((0, 1, 2, 3, ()),))]}
    for version in VERSIONS:
        fields = [ids(version, 3), content("f", terms, **what)]
        if version in versions:
            with pytest.raises(UsageError, match=message):
                write(version, fields)
        else:
            assert verify_segment(write(version, fields)).ok


def test_both_options_of_doc_values() -> None:
    both = FieldOptions.SKIP_DOC_VALUE_COMPRESSION | FieldOptions.SKIP_DOC_VALUE_CHUNKING | FieldOptions.DOC_VALUES
    values = DocValues(INDEX([1]), ByteStrings.from_list([b"raw\xff"]))
    raw = write(17, [ids(17, 3), content("f", {}, options=both, doc_values=values)])
    assert b"raw\xff" in raw
    with Segment.open(raw) as segment:
        assert list(segment.doc_values("f")) == [(1, (b"raw",))]

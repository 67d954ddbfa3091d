"""Columns of a segment, against what it gives one by one."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cases import each
from dvcodec import DecodeError, UsageError
from dvcodec.core.ragged import cut_by_weight
from dvcodec.zap import Document, Field, FieldOptions, Segment, Term, merge_segments, postings, write_segment
from dvcodec.zap.columns import SCHEMAS
from samples.zap.parts import Sample
from samples.zap.segments import VERSIONS, SegmentBuilder, minimal

Row = dict[str, Any]
NAMES = sorted(SCHEMAS)


def rows(segment: Segment, table: str, fields: list[str] | None = None, **options: Any) -> list[Row]:
    batches = list(segment.to_arrow(table, fields, **options))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == SCHEMAS[table]
        assert batch.num_rows > 0
    return [row for batch in batches for row in batch.to_pylist()]


def names_of(segment: Segment, fields: Sequence[str] | None) -> list[str]:
    return [info.name for info in segment.fields] if fields is None else list(fields)


def expected(segment: Segment, table: str, fields: Sequence[str] | None = None) -> list[Row]:
    """The rows of a table, from the other methods."""
    found: list[Row] = []
    if table == "stored":
        for doc in range(segment.num_docs):
            for field, kind, value, arrays in segment.stored(doc):
                if fields is None or field in fields:
                    found.append(
                        {"doc": doc, "field": field, "type": kind, "value": value, "array_positions": list(arrays)}
                    )
        return found
    for name in names_of(segment, fields):
        if table == "fields":
            found.append(field_of(segment, name))
            continue
        if table == "doc_values":
            found += [
                {"field": name, "doc": doc, "value": term} for doc, terms in segment.doc_values(name) for term in terms
            ]
            continue
        dictionary = segment.dictionary(name)
        for term, count in segment.terms(name):
            assert dictionary is not None
            address = dictionary.get(term)
            assert address is not None
            one_hit = bool(address >> 63)
            if table == "terms":
                offset = None if one_hit else address
                found.append({"field": name, "term": term, "doc_count": count, "one_hit": one_hit, "offset": offset})
                continue
            found += list_of(segment, table, name, term)
    return found


def field_of(segment: Segment, name: str) -> Row:
    info = segment.field(name)
    options = None
    if segment.version == 17:
        assert info.options is not None
        options = [flag.name for flag in FieldOptions if info.options & flag]
    return {
        "field": name,
        "id": [other.name for other in segment.fields].index(name),
        "terms": None if info.dictionary is None else len(list(segment.terms(name))),
        "doc_value_bytes": None if info.doc_values is None else info.doc_values[1] - info.doc_values[0],
        "options": options,
        "synonyms": segment.thesaurus(name) is not None,
        "vectors": segment.vectors(name) is not None,
        "shapes": info.shapes is not None,
        "version": segment.footer.version,
        "docs": segment.footer.num_docs,
    }


def list_of(segment: Segment, table: str, name: str, term: bytes) -> list[Row]:
    found = segment.postings(name, term)
    assert found is not None
    head = {"field": name, "term": term}
    if table == "postings":
        numbers = zip(found.docs.tolist(), found.freqs.tolist(), found.norms.tolist(), strict=True)
        return [{**head, "doc": doc, "freq": freq, "norm": norm} for doc, freq, norm in numbers]
    at = found.locations
    docs = np.repeat(found.docs, found.location_counts).tolist()
    stops = np.cumsum(at.array_counts).tolist()
    return [
        {
            **head,
            "doc": docs[i],
            "source_field": segment.fields[int(at.fields[i])].name,
            "position": int(at.positions[i]),
            "start": int(at.starts[i]),
            "end": int(at.ends[i]),
            "array_positions": at.array_positions[stops[i] - int(at.array_counts[i]) : stops[i]].tolist(),
        }
        for i in range(len(at))
    ]


def table_of(what: list[Document], version: int = 15, **options: Any) -> Segment:
    sink = io.BytesIO()
    write_segment(sink, what, version, **options)
    return Segment.open(sink.getvalue())


# ------------------------------------------------------------------


@pytest.fixture(params=["v11/tiny", "v16/syn", "v17/m_AB"])
def few(request: pytest.FixtureRequest, vectors: Path) -> Iterator[Segment]:
    """Some of the real segments."""
    with Segment.open(vectors / "zap" / f"{request.param}.zap") as segment:
        yield segment


def test_tables_of_real_segments_are_what_the_segment_gives(samples: list[Sample]) -> None:
    for sample in samples:
        with Segment.open(sample.raw) as segment:
            for table in SCHEMAS:
                assert rows(segment, table) == expected(segment, table)


def test_batches_have_as_many_rows_as_they_may(few: Segment) -> None:
    for table in NAMES:
        found = rows(few, table)
        for most in (1, 2, 3, 1000):
            batches = list(few.to_arrow(table, batch_rows=most))
            assert all(0 < batch.num_rows <= most for batch in batches)
            assert [row for batch in batches for row in batch.to_pylist()] == found


def test_only_some_fields(few: Segment) -> None:
    for table in NAMES:
        names = names_of(few, None)
        for chosen in ([], ["_id"], names[1:], names[::-1][:2]):
            assert rows(few, table, chosen) == expected(few, table, chosen)


def test_schemas_are_what_is_promised() -> None:
    assert NAMES == ["doc_values", "fields", "locations", "postings", "stored", "terms"]
    names = pa.dictionary(pa.int32(), pa.string())
    for table, schema in SCHEMAS.items():
        assert schema.field("field").type == names
        assert "doc" not in schema.names or schema.field("doc").type == pa.int64()
        if table in ("postings", "locations"):
            assert schema.field("term").type == pa.dictionary(pa.int32(), pa.binary())
    assert SCHEMAS["locations"].field("source_field").type == names
    assert SCHEMAS["postings"].names == ["field", "term", "doc", "freq", "norm"]
    assert SCHEMAS["terms"].field("offset").nullable


@each("version", VERSIONS)
def test_segments_without_documents_have_no_rows(version: int) -> None:
    for table in NAMES:
        with table_of([], version) as segment:
            none = expected(segment, table) if table == "fields" else []
            assert rows(segment, table) == none
            assert rows(segment, table, ["_id"]) == none
        with table_of([Document(b"a", (Field("f"),))], version) as segment:
            assert rows(segment, table, ["f"]) == (
                expected(segment, table, ["f"]) if table in ("stored", "fields") else []
            )


def test_one_hits_are_marked() -> None:
    craft = minimal(15)
    at = craft.postings([0, 2])
    craft.field("f", craft.dictionary({b"a": at, b"b": 2 << 62 | 4 << 31 | 1}))
    with Segment.open(craft.finish()) as segment:
        assert rows(segment, "terms", ["f"]) == [
            {"field": "f", "term": b"a", "doc_count": 2, "one_hit": False, "offset": at},
            {"field": "f", "term": b"b", "doc_count": 1, "one_hit": True, "offset": None},
        ]
        for table in NAMES:
            assert rows(segment, table) == expected(segment, table)


def test_a_term_costs_its_bytes_once() -> None:
    long = b"x" * 10_000
    found = [Document(b"%d" % i, (Field("f", terms=(Term(long),), length=1),)) for i in range(50)]
    with table_of(found) as segment:
        (batch,) = segment.to_arrow("postings", ["f"])
        assert batch.num_rows == 50
        assert batch.nbytes < 2 * len(long)


def test_fields_that_do_not_count() -> None:
    options = FieldOptions.INDEXED | FieldOptions.SKIP_FREQ_NORM
    with table_of([Document(b"a", (Field("f", options=options, terms=(Term(b"x", 0),)),))]) as segment:
        assert rows(segment, "postings", ["f"]) == [
            {"field": "f", "term": b"x", "doc": 0, "freq": 0, "norm": float("inf")}
        ]


def test_every_type_letter_is_a_letter() -> None:
    letters = "tndbgsicvey"
    found = [Document(b"a", tuple(Field("f", letter.encode(), letter) for letter in letters))]
    with table_of(found) as segment:
        assert [row["type"] for row in rows(segment, "stored", ["f"])] == list(letters)


@pytest.mark.parametrize("most", [1, 3, 1 << 18])
def test_parts_of_any_size_make_the_same_tables(few: Segment, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are read a bounded number of postings at a time."""
    before = {table: rows(few, table) for table in ("postings", "locations")}
    found: list[slice] = []

    def cuts(records: postings.Records) -> list[slice]:
        parts = list(cut_by_weight(records.counts, most))
        found.extend(parts)
        return parts

    monkeypatch.setattr(postings.Records, "cuts", cuts)
    assert {table: rows(few, table) for table in ("postings", "locations")} == before
    assert found


def test_a_merged_segment_has_the_same_tables() -> None:
    found = [Document(b"%d" % i, (Field("f", b"v", terms=(Term(b"x", i + 1),), length=i),)) for i in range(4)]
    with table_of(found) as segment:
        sink = io.BytesIO()
        merge_segments(sink, [segment])
        with Segment.open(sink.getvalue()) as merged:
            for table in ("postings", "locations", "stored", "doc_values"):
                assert rows(merged, table) == rows(segment, table)


def test_what_fields_are_kept_for() -> None:
    kept = FieldOptions.INDEXED | FieldOptions.STORED | FieldOptions.DOC_VALUES
    found = [Document(b"a", (Field("f", b"v", options=kept, terms=(Term(b"x"), Term(b"y")), length=2), Field("g")))]
    with table_of(found, 17) as segment:
        first, second, third = rows(segment, "fields")
        assert (first["field"], first["id"], first["terms"], first["docs"], first["version"]) == ("_id", 0, 1, 1, 17)
        assert (second["field"], second["terms"], second["options"]) == ("f", 2, ["INDEXED", "STORED", "DOC_VALUES"])
        assert second["doc_value_bytes"] > 0
        assert (third["field"], third["doc_value_bytes"]) == ("g", None)
    with table_of(found, 16) as segment:
        assert [row["options"] for row in rows(segment, "fields")] == [None] * 3


def test_only_some_documents(few: Segment) -> None:
    everything = rows(few, "stored")
    assert everything
    for start in range(few.num_docs + 1):
        for stop in range(start, few.num_docs + 1):
            found = rows_of_docs(few, range(start, stop))
            assert found == [row for row in everything if start <= row["doc"] < stop]
    one = rows_of_docs(few, range(1), ["_id"])
    assert one == [row for row in everything if row["doc"] == 0 and row["field"] == "_id"]


def rows_of_docs(segment: Segment, docs: range, fields: list[str] | None = None) -> list[Row]:
    return rows(segment, "stored", fields, docs=docs)


# ------------------------------------------------------------------ what is refused


def test_documents_that_are_not_there() -> None:
    with Segment.open(minimal(15).finish()) as segment:
        last = segment.num_docs
        for wrong in (range(last + 1), range(-1, 1), range(2, 1)):
            with pytest.raises(UsageError, match="document numbers of"):
                segment.to_arrow("stored", docs=wrong)
        with pytest.raises(UsageError, match="only the table stored"):
            segment.to_arrow("postings", docs=range(1))
        with pytest.raises(UsageError, match="step 1"):
            segment.to_arrow("stored", docs=range(0, last, 2))
        for start, stop in ((-1, 1), (1, 0), (0, last + 1)):
            with pytest.raises(UsageError, match=f"documents {start} to {stop} of {last}"):
                next(segment.contents.stored(start, stop))


def test_tables_fields_and_sizes_that_are_none() -> None:
    with Segment.open(minimal(15).finish()) as segment:
        with pytest.raises(UsageError, match="terms, postings, locations, stored, doc_values, fields, not 'edges'"):
            list(segment.to_arrow("edges"))
        with pytest.raises(UsageError, match="no field 'x'"):
            list(segment.to_arrow("terms", ["_id", "x"]))
        for wrong in (0, -1):
            with pytest.raises(UsageError, match="batch_rows must be 1 or more"):
                list(segment.to_arrow("terms", batch_rows=wrong))


@pytest.mark.parametrize("table", ["terms", "postings", "locations"])
def test_what_is_valid_comes_before_the_error(table: str) -> None:
    craft = minimal(11)
    craft.field("broken", craft.put(b"\xff" * 20))
    with Segment.open(craft.finish()) as segment:
        found = segment.to_arrow(table)
        if table != "locations":
            assert next(found).num_rows == 3
        with pytest.raises(DecodeError):
            next(found)


def test_nothing_is_read_before_it_is_asked_for() -> None:
    craft = SegmentBuilder(15)
    craft.put(b"\xff" * 30)
    craft.docs, craft.stored = 1, 20
    craft.field("_id")
    with Segment.open(craft.finish()) as segment:
        found = segment.to_arrow("stored")
        with pytest.raises(DecodeError):
            next(found)


@each("table", NAMES)
def test_some_columns_of_a_table(table: str, tmp_path: Path) -> None:
    path = tmp_path / "x.zap"
    fields = tuple(
        Field(name, b"v", options=FieldOptions.INDEXED | FieldOptions.STORED, terms=(Term(b"t"), Term(b"u")))
        for name in "ab"
    )
    write_segment(path, [Document(b"%d" % i, fields) for i in range(9)], 15)
    with Segment.open(path) as segment:
        whole = rows(segment, table)
        for names in (["field"], SCHEMAS[table].names[:2][::-1], SCHEMAS[table].names[::-1]):
            found = list(segment.to_arrow(table, columns=names, batch_rows=4))
            assert all(batch.schema.names == names and batch.num_rows <= 4 for batch in found)
            assert [row for batch in found for row in batch.to_pylist()] == [
                {name: row[name] for name in names} for row in whole
            ]
        for names in ([], ["field", "nothing"]):
            with pytest.raises(UsageError, match=f"columns of the table {table}: expected some of"):
                segment.to_arrow(table, columns=names)


def test_terms_alone_come_without_the_postings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.zap"
    field = Field("a", options=FieldOptions.INDEXED, terms=(Term(b"t"), Term(b"u")), length=2)
    write_segment(path, [Document(b"%d" % i, (field,)) for i in range(9)], 15)
    with Segment.open(path) as segment:

        def refused(*_: object) -> None:
            raise AssertionError("postings are read")

        monkeypatch.setattr(type(segment.contents), "records", refused)
        (batch,) = segment.to_arrow("terms", ["a"], columns=["term"])
        assert batch.to_pydict() == {"term": [b"t", b"u"]}
        with pytest.raises(AssertionError):
            list(segment.to_arrow("terms", ["a"], columns=["term", "doc_count"]))

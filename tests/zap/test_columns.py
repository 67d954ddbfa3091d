"""Columns of a segment, against what it gives one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import each
from dvcodec import UsageError
from dvcodec.zap import Document, Field, FieldOptions, Segment, Term, write_segment
from dvcodec.zap.columns import SCHEMAS
from samples.zap.parts import Sample
from samples.zap.segments import minimal

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

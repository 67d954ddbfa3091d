"""Columns of a segment, against what it gives one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import each
from dvcodec import UsageError
from dvcodec.zap import Document, Field, FieldOptions, Segment, Term, write_segment
from dvcodec.zap.columns import SCHEMAS
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


@pytest.fixture(params=["v11/tiny", "v16/syn", "v17/m_AB"])
def few(request: pytest.FixtureRequest, vectors: Path) -> Iterator[Segment]:
    """Some of the real segments."""
    with Segment.open(vectors / "zap" / f"{request.param}.zap") as segment:
        yield segment


def test_fields_and_terms(few: Segment) -> None:
    """What tests/zap/test_golden.py does not compare with Go."""
    found = rows(few, "fields")
    assert [(row["id"], row["field"]) for row in found] == [(info.id, info.name) for info in few.fields]
    for row, info in zip(found, few.fields, strict=True):
        dictionary, block, options = few.dictionary(info.name), info.doc_values, info.options
        assert row["terms"] == (None if dictionary is None else dictionary.num_keys)
        assert row["doc_value_bytes"] == (None if block is None else block[1] - block[0])
        names = None if options is None else [flag.name for flag in FieldOptions if options & flag]
        assert (row["options"], row["version"], row["docs"]) == (names, few.version, few.num_docs)
        sections = (info.synonyms, info.vectors, info.shapes)
        assert [row[name] for name in ("synonyms", "vectors", "shapes")] == [at is not None for at in sections]
    for row in rows(few, "terms"):
        dictionary = few.dictionary(row["field"])
        assert dictionary is not None
        address = dictionary.get(row["term"])
        assert address is not None
        assert (row["one_hit"], row["offset"]) == ((True, None) if address >> 63 else (False, address))


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


@each(
    ("table", "options", "message"),
    [
        ("stored", {"docs": range(4)}, "document numbers of"),
        ("stored", {"docs": range(-1, 1)}, "document numbers of"),
        ("stored", {"docs": range(2, 1)}, "document numbers of"),
        ("stored", {"docs": range(0, 3, 2)}, "step 1"),
        ("postings", {"docs": range(1)}, "only the table stored"),
        ("edges", {}, "terms, postings, locations, stored, doc_values, fields, not 'edges'"),
        ("terms", {"fields": ["_id", "x"]}, "no field 'x'"),
        ("terms", {"batch_rows": 0}, "batch_rows must be 1 or more"),
    ],
)
def test_what_is_not_there(table: str, options: dict[str, Any], message: str) -> None:
    with Segment.open(minimal(15).finish()) as segment, pytest.raises(UsageError, match=message):
        list(segment.to_arrow(table, **options))


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

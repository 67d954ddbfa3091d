"""A small segment of three documents, for tests that need one."""

from __future__ import annotations

import io

from dvcodec.zap import Document, Field, FieldOptions, Location, Term, write_segment


def documents() -> list[Document]:
    options = FieldOptions.INDEXED | FieldOptions.STORED | FieldOptions.TERM_VECTORS | FieldOptions.DOC_VALUES
    first = (Term(b"one", 2, (Location(1, 0, 3, array_positions=(4,)), Location(3, 8, 11))), Term(b"two", 1))
    return [
        Document(b"a", (Field("text", b"one two one", "t", options, first, 3, (0, 7)),)),
        Document(b"b", (Field("plain", b"x", "n"), Field("text", b"two", "t", options, (Term(b"two"),), 1))),
        Document(b"c"),
    ]


def written(version: int, found: list[Document] | None = None) -> bytes:
    sink = io.BytesIO()
    write_segment(sink, documents() if found is None else found, version)
    return sink.getvalue()

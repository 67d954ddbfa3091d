"""Write segments from analysed documents.

Source: zapx ``new.go``, from version 16 on ``section_inverted_text_index.go`` and ``section_synonym_index.go``. The
bytes equal zapx's, except snappy blocks and the orders that are random in Go (see `assemble`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from dvcodec.core.errors import UsageError
from dvcodec.core.usage import as_count, check_type
from dvcodec.io import StorageOptions
from dvcodec.io.opening import open_sink
from dvcodec.io.sink import SinkTarget
from dvcodec.zap.assemble import check_version, write_content
from dvcodec.zap.documents import Document, Field
from dvcodec.zap.fields import ID
from dvcodec.zap.footer import SECTIONS_FROM
from dvcodec.zap.inversion import id_content, invert_fields, stored_columns, with_synonyms
from dvcodec.zap.nested import NESTED_FROM, Edges

__all__ = ["write_segment"]

_MOST_OPTIONS = 255


def write_segment(
    target: SinkTarget,
    documents: Iterable[Document],
    version: int = 15,
    *,
    chunk_mode: int | None = None,
    storage_options: StorageOptions = None,
) -> int:
    """Write a segment from analysed documents.

    Python loops over the fields of the documents; the rest works on columns, one field in memory at a time.

    Args:
        target: path, URL or open binary file; a path is written atomically.
        documents: in document order; a nested document is numbered after its parent.
        version: 11 to 17.
        chunk_mode: rule for chunk sizes, see `dvcodec.zap.chunks`; default: zapx's.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        Number of documents, including nested ones.

    Raises:
        UsageError: not documents, a version other than 11 to 17, or a document that the format or zapx's readers of
            that version do not support: nested documents before 17, synonyms before 16, a location in a field that no
            document has, more locations than the frequency before 15, only one of the options that skip compression and
            chunking of doc values, options above 255, a number that is negative or above 2**64 - 1, a frequency above
            2**63 - 1, or a part of a document that has a wrong type.
        OSError: the target cannot be written.
    """
    mode = check_version(version, chunk_mode)
    flat, edges = _flatten(documents, version)
    names = _field_names(flat, version)
    ids = {name: i for i, name in enumerate(names)}
    columns = invert_fields(flat, names[1:])
    try:
        contents = with_synonyms(
            chain([id_content(version, flat)], (column.content(version, ids) for column in columns)), flat
        )
        with open_sink(target, storage_options=storage_options) as out:
            write_content(out, version, mode, len(flat), stored_columns(flat, ids), contents, edges=edges)
    except OverflowError:
        raise UsageError("a frequency, a length or a position is negative or above 2**64 - 1") from None
    return len(flat)


def _flatten(documents: Iterable[Document], version: int) -> tuple[list[Document], Edges]:
    """Flatten nested documents: each after its parent, depth first."""
    flat: list[Document] = []
    children: list[int] = []
    parents: list[int] = []
    waiting: list[tuple[Document, int]] = []
    check_type(documents, Iterable, "documents", "an iterable of Document")
    for root in documents:
        waiting.append((root, -1))
        while waiting:
            document, parent = waiting.pop()
            check_type(document, Document, "an item of documents", "a Document")
            check_type(document.id, bytes, "Document.id", "bytes")
            for part in ("fields", "composites", "children", "synonyms"):
                check_type(getattr(document, part), Sequence, f"Document.{part}", "a tuple")
            if parent >= 0:
                children.append(len(flat))
                parents.append(parent)
            waiting.extend((child, len(flat)) for child in reversed(document.children))
            flat.append(document)
    if children and version < NESTED_FROM:
        raise UsageError(f"version {version} has no nested documents: document {flat[parents[0]].id!r} has children")
    return flat, Edges(np.array(children, np.int64), np.array(parents, np.int64))


def _field_names(flat: list[Document], version: int) -> list[str]:
    names: set[str] = set()
    for document in flat:
        for one in (*document.composites, *document.fields):
            check_type(one, Field, f"a field of document {document.id!r}", "a Field")
            check_type(one.name, str, f"the name of a field of document {document.id!r}", "a str")
            if as_count(one.options, f"the options of field {one.name!r}") > _MOST_OPTIONS:
                raise UsageError(f"the options of field {one.name!r} must be below 256, as readers require")
            names.add(one.name)
        if document.synonyms:
            if version < SECTIONS_FROM:
                raise UsageError(f"version {version} has no synonyms: document {document.id!r} defines some")
            names.update(synonyms.thesaurus for synonyms in document.synonyms)
    if ID in names:
        raise UsageError(f"the field {ID!r} is reserved for the document's id: remove it from the fields")
    try:
        return [ID, *sorted(names, key=str.encode)]
    except UnicodeEncodeError as err:
        raise UsageError(f"{err.object!r} is not a valid field name: not encodable as UTF-8") from None

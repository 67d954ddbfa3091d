"""The commands zap stored and zap docvalues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

import numpy as np
import typer

from dvcodec.cli.json_text import print_json
from dvcodec.cli.render import Table, number
from dvcodec.cli.shared import Json
from dvcodec.cli.zap.shared import (
    FieldName,
    Hex,
    Limit,
    NoChecksum,
    SegmentName,
    arrays_text,
    bytes_json,
    bytes_of,
    check_json,
    check_json_bytes,
    field_text,
    json_size,
    key_text,
    most,
    open_segment,
    parse_numbers,
    report_more,
    zap,
)
from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.zap import Segment, StoredValue, number_value
from dvcodec.zap.lookup import find_stored


@zap.command()
def stored(
    segment: SegmentName,
    docs: Annotated[
        list[str] | None, typer.Argument(metavar="[DOC]...", help="Numbers and ranges: 3 5-9; default: all.")
    ] = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="The document of this id; repeat for more.")] = None,
    limit: Limit = None,
    in_hex: Hex = False,
    no_checksum: NoChecksum = False,
    as_json: Json = False,
) -> None:
    """Show the stored values of documents: ids first, then values by field."""
    with open_segment(segment, unchecked=no_checksum) as this:
        chosen: list[int] | range = range(this.num_docs)
        if docs or ids:
            chosen = [doc for text in docs or [] for doc in _numbers(this, text)]
            chosen += [doc for text in ids or [] for doc in _docs_of(this, bytes_of(text, in_hex))]
        if as_json:
            check_json(this, len(chosen), limit, "document")
        shown_docs = chosen[: most(limit, as_json)]
        found = list(zip(shown_docs, _stored(this, shown_docs), strict=True))
        if as_json:
            sizes = {info.name: json_size(info.name) for info in this.fields}
            check_json_bytes(this, sum(sizes[one.field] for _, values in found for one in values), "names of fields")
            items = (
                {"doc": doc, "values": (one._asdict() | {"value": bytes_json(one.value, in_hex)} for one in values)}
                for doc, values in found
            )
            print_json({"source": this.name, "total": len(chosen), "documents": items})
            return
        shown = Table("doc", "field", "type", "bytes", "value", "in arrays", right=("doc", "bytes"))
        for doc, values in found:
            for one in values:
                value = key_text(one.value, in_hex) if in_hex or one.type != "n" else _number_text(one.value)
                arrays = arrays_text(one.array_positions)
                shown.add(number(doc), field_text(one.field), one.type, number(len(one.value)), value, arrays)
        shown.show()
        report_more(len(chosen), len(found), "document")


def _stored(segment: Segment, docs: Sequence[int]) -> Iterator[tuple[StoredValue, ...]]:
    """Yield the stored values of documents; those that follow each other are read together."""
    numbers = np.array(docs, np.int64)
    cuts = (np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()
    for first, stop in zip([0, *cuts], [*cuts, len(docs)], strict=True):
        if first < stop:
            yield from find_stored(segment.contents, docs[first], docs[stop - 1] + 1)


def _number_text(value: bytes) -> str:
    """Return a numeric field's value as a number, or as bytes if it is not encoded as one."""
    try:
        return repr(number_value(value))
    except UsageError:
        return key_text(value)


def _numbers(segment: Segment, text: str) -> RowSet:
    """Parse document numbers.

    Raises:
        UsageError: invalid numbers, or a document that the segment does not have.
    """
    found = parse_numbers(text, text)
    if (found.max or 0) >= segment.num_docs:
        raise UsageError(
            f"{segment.name}: expected document numbers from 0 to {segment.num_docs - 1}, found {found.max}"
        )
    return found


def _docs_of(segment: Segment, name: bytes) -> list[int]:
    found = segment.postings("_id", name, locations=False)
    if found is None:
        raise UsageError(f"{segment.name}: no document with id {key_text(name)}")
    return [int(doc) for doc in found.docs.tolist()]


@zap.command()
def docvalues(
    segment: SegmentName,
    field: FieldName,
    docs: Annotated[
        list[str] | None,
        typer.Option("--doc", metavar="DOC", help="Numbers and ranges: 3,5-9; repeat for more."),
    ] = None,
    limit: Limit = None,
    in_hex: Hex = False,
    no_checksum: NoChecksum = False,
    as_json: Json = False,
) -> None:
    """Show the doc values of a field: the distinct terms of each document that has any."""
    with open_segment(segment, unchecked=no_checksum) as this:
        kept = this.field(field).doc_values is not None
        wanted = None if docs is None else {doc for text in docs for doc in _numbers(this, text)}
        if as_json:
            check_json(this, this.num_docs, limit, "document")
        in_docs = iter(this.doc_values(field, wanted))
        found = list(islice(in_docs, most(limit, as_json)))
        total = len(found) + sum(1 for _ in in_docs)
        if as_json:
            items = [{"doc": doc, "values": [bytes_json(value, in_hex) for value in values]} for doc, values in found]
            print_json({"source": this.name, "field": field, "total": total, "documents": items})
            return
        shown = Table("doc", "terms", "values", right=("doc", "terms"))
        for doc, values in found:
            text = "  ".join(key_text(value, in_hex) for value in values)
            shown.add(number(doc), number(len(values)), text if len(text) <= 100 else f"{text[:100]}...")
        shown.show()
        if kept:
            report_more(total, len(found), "document")
        else:
            print("the field has no doc values")

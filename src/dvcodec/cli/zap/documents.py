"""The commands zap stored and zap docvalues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

import numpy as np
import typer

from dvcodec.cli.json_text import print_json
from dvcodec.cli.render import Table
from dvcodec.cli.shared import Json
from dvcodec.cli.zap.live import LiveSegment, LiveSegments, SegmentOrIndex, WithDeleted, open_live
from dvcodec.cli.zap.shared import (
    FieldName,
    Hex,
    Limit,
    NoChecksum,
    arrays_text,
    bytes_json,
    bytes_of,
    check_json,
    field_text,
    key_text,
    most,
    parse_numbers,
    report_more,
    zap,
)
from dvcodec.core.errors import UsageError
from dvcodec.core.text import number
from dvcodec.zap import Segment, StoredValue, number_value
from dvcodec.zap.fields import ID
from dvcodec.zap.segment import find_stored


@zap.command()
def stored(
    segment: SegmentOrIndex,
    docs: Annotated[
        list[str] | None, typer.Argument(metavar="[DOC]...", help="Numbers and ranges: 3 5-9; default: all.")
    ] = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="The document of this id; repeat for more.")] = None,
    limit: Limit = None,
    in_hex: Hex = False,
    with_deleted: WithDeleted = False,
    no_checksum: NoChecksum = False,
    as_json: Json = False,
) -> None:
    """Show the stored values of documents: ids first, then values by field."""
    with open_live(segment, with_deleted=with_deleted, unchecked=no_checksum) as this:
        chosen: _Chosen
        if docs or ids:
            chosen = [(part, numbers) for text in docs or [] for part, numbers in _numbers(this, text)]
            chosen += [pair for text in ids or [] for pair in _docs_of(this, bytes_of(text, in_hex))]
        else:
            chosen = [(part, _live(part)) for part in this.parts]
        total = sum(len(numbers) for _, numbers in chosen)
        if as_json:
            check_json(this.size, total, limit, "document")
        found = list(_stored(chosen, most(limit, as_json)))
        if as_json:
            items = (
                this.naming(of)
                | {"doc": doc, "values": (one._asdict() | {"value": bytes_json(one.value, in_hex)} for one in values)}
                for of, doc, values in found
            )
            print_json({"source": this.name, "total": total, "documents": items})
            return
        columns = ("doc", "field", "type", "bytes", "value", "in arrays")
        shown = Table(*this.columns, *columns, right=("doc", "bytes"))
        for of, doc, values in found:
            for one in values:
                value = key_text(one.value, in_hex) if in_hex or one.type != "n" else _number_text(one.value)
                cells = (field_text(one.field), one.type, number(len(one.value)), value)
                shown.add(*this.cells(of), number(doc), *cells, arrays_text(one.array_positions))
        shown.show()
        report_more(total, len(found), "document")


_Chosen = list[tuple[LiveSegment, Sequence[int]]]


def _live(part: LiveSegment) -> Sequence[int]:
    """Return the documents that are not deleted."""
    if part.mask is None:
        return range(part.segment.num_docs)
    live: list[int] = np.flatnonzero(~part.mask).tolist()
    return live


def _numbers(this: LiveSegments, text: str) -> _Chosen:
    """Parse document numbers; deleted ones are left out.

    Raises:
        UsageError: invalid numbers, a document that the segment does not have, only deleted ones, or several segments.
    """
    if this.is_index:
        raise UsageError(f"{this.name}: a document number counts within its segment: name the segment, or use --id")
    (part,) = this.parts
    found = parse_numbers(text, text)
    if (found.max or 0) >= part.segment.num_docs:
        raise UsageError(
            f"{this.name}: expected document numbers from 0 to {part.segment.num_docs - 1}, found {found.max}"
        )
    if not (left := found - part.deleted):
        raise UsageError(f"{this.name}: deleted: {text} (--with-deleted shows it)")
    return [(part, left.to_numpy().tolist())]


def _docs_of(this: LiveSegments, name: bytes) -> _Chosen:
    """Find the live document of an id.

    Raises:
        UsageError: there is none.
    """
    found = [(part, part.segment.postings(ID, name, locations=False)) for part in this.parts]
    known = [(part, postings.rows) for part, postings in found if postings is not None]
    live = [(part, left.to_numpy().tolist()) for part, rows in known if (left := rows - part.deleted)]
    if not live:
        deleted = "; a deleted one has it (--with-deleted shows it)" if known else ""
        raise UsageError(f"{this.name}: no document with id {key_text(name)}{deleted}")
    return live


def _stored(chosen: _Chosen, limit: int | None) -> Iterator[tuple[Segment, int, tuple[StoredValue, ...]]]:
    """Yield the stored values of documents; those that follow each other are read together."""
    for part, docs in chosen:
        shown = docs[:limit]
        limit = None if limit is None else limit - len(shown)
        cuts = (np.flatnonzero(np.diff(np.array(shown, np.int64)) != 1) + 1).tolist()
        for first, stop in zip([0, *cuts], [*cuts, len(shown)], strict=True):
            if first < stop:
                numbers = shown[first:stop]
                values = find_stored(part.segment.contents, numbers[0], numbers[-1] + 1)
                yield from zip([part.segment] * len(numbers), numbers, values, strict=True)


def _number_text(value: bytes) -> str:
    """Return a numeric field's value as a number, or as bytes if it is not encoded as one."""
    try:
        return repr(number_value(value))
    except UsageError:
        return key_text(value)


@zap.command()
def docvalues(
    segment: SegmentOrIndex,
    field: FieldName,
    docs: Annotated[
        list[str] | None,
        typer.Option("--doc", metavar="DOC", help="Numbers and ranges: 3,5-9; repeat for more."),
    ] = None,
    limit: Limit = None,
    in_hex: Hex = False,
    with_deleted: WithDeleted = False,
    no_checksum: NoChecksum = False,
    as_json: Json = False,
) -> None:
    """Show the doc values of a field: the distinct terms of each document that has any."""
    with open_live(segment, with_deleted=with_deleted, unchecked=no_checksum) as this:
        parts = this.having(field)
        kept = any(part.segment.field(field).doc_values is not None for part in parts)
        wanted = None
        if docs is not None:
            wanted = {doc for text in docs for _, numbers in _numbers(this, text) for doc in numbers}
        if as_json:
            check_json(this.size, sum(part.segment.num_docs for part in parts), limit, "document")
        in_docs = _values(parts, field, wanted)
        found = list(islice(in_docs, most(limit, as_json)))
        total = len(found) + sum(1 for _ in in_docs)
        if as_json:
            items = [
                this.naming(of) | {"doc": doc, "values": [bytes_json(value, in_hex) for value in values]}
                for of, doc, values in found
            ]
            print_json({"source": this.name, "field": field, "total": total, "documents": items})
            return
        shown = Table(*this.columns, "doc", "terms", "values", right=("doc", "terms"))
        for of, doc, values in found:
            text = "  ".join(key_text(value, in_hex) for value in values)
            cut = text if len(text) <= 100 else f"{text[:100]}..."
            shown.add(*this.cells(of), number(doc), number(len(values)), cut)
        shown.show()
        if kept:
            report_more(total, len(found), "document")
        else:
            print("the field has no doc values")


def _values(
    parts: list[LiveSegment], field: str, wanted: set[int] | None
) -> Iterator[tuple[Segment, int, tuple[bytes, ...]]]:
    """Yield the doc values of live documents."""
    for part in parts:
        for doc, values in part.segment.doc_values(field, wanted):
            if part.mask is None or not part.mask[doc]:
                yield part.segment, doc, values

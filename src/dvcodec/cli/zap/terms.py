"""The commands zap terms and zap postings."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import groupby, islice
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from dvcodec.cli.json_text import print_json
from dvcodec.cli.render import NOTHING, Table, counted, number
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
    report_more,
    zap,
)
from dvcodec.core.errors import UsageError
from dvcodec.zap import Locations, Segment, norm_values

# ---------------------------------------------------------------------- terms


@zap.command()
def terms(
    segment: SegmentName,
    field: FieldName,
    prefix: Annotated[str | None, typer.Option("--prefix", help="Only terms with this prefix.")] = None,
    start: Annotated[str | None, typer.Option("--start", help="Only terms from this one on, in byte order.")] = None,
    stop: Annotated[str | None, typer.Option("--stop", help="Only terms before this one.")] = None,
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Show this many terms, those in most documents.")
    ] = None,
    limit: Limit = None,
    in_hex: Hex = False,
    no_checksum: NoChecksum = False,
    as_json: Json = False,
) -> None:
    """Show the terms of a field in byte order, each with the number of its documents."""
    if prefix is not None and (start is not None or stop is not None):
        raise UsageError("--prefix excludes --start and --stop")
    if top is not None and limit is not None:
        raise UsageError("--top excludes --limit")
    bounds = tuple(None if text is None else bytes_of(text, in_hex) for text in (prefix, start, stop))
    with open_segment(segment, unchecked=no_checksum) as this:
        total, found = _terms(this, field, bounds, None if top else most(limit, as_json), as_json and not top)
        if top is not None:
            found = heapq.nsmallest(top, found, key=lambda item: (-item[1], item[0]))
        if as_json:
            items = [{"term": bytes_json(term, in_hex), "docs": docs} for term, docs in found]
            print_json({"source": this.name, "field": field, "total": total, "terms": items})
            return
        shown = Table("term", "docs", right=("docs",))
        for term, docs in found:
            shown.add(key_text(term, in_hex), number(docs))
        shown.show()
        report_more(total, len(found), "term")


def _terms(
    segment: Segment, field: str, bounds: tuple[bytes | None, ...], limit: int | None, as_json: bool
) -> tuple[int, list[tuple[bytes, int]]]:
    """Return the number of terms within bounds, and the first ones with their number of documents."""
    dictionary = segment.dictionary(field)
    if dictionary is None:
        return 0, []
    prefix, start, stop = bounds

    def pairs() -> Iterator[tuple[bytes, int]]:
        return dictionary.range(start or b"", stop) if prefix is None else dictionary.prefix(prefix)

    every = bounds == (None, None, None)
    total = dictionary.num_keys if every else sum(1 for _ in pairs())
    if as_json:
        check_json(segment, total, limit, "term")
    if every and limit is None:
        return total, list(segment.terms(field))
    first = list(islice(pairs(), limit))
    records = segment.contents.records(np.array([value for _, value in first], np.uint64))
    return total, [(term, docs) for (term, _), docs in zip(first, records.counts.tolist(), strict=True)]


# ---------------------------------------------------------------------- postings


class _Posting(NamedTuple):
    """One posting; `locations` index into `of`."""

    term: bytes
    doc: int
    freq: int
    norm: float | None
    locations: range
    of: Locations


@zap.command()
def postings(
    segment: SegmentName,
    field: FieldName,
    term: Annotated[str | None, typer.Argument(metavar="[TERM]", help="Term; default: all terms.")] = None,
    locations: Annotated[bool, typer.Option("--locations", help="Show its locations in the documents.")] = False,
    limit: Limit = None,
    in_hex: Hex = False,
    no_checksum: NoChecksum = False,
    as_json: Json = False,
) -> None:
    """Show the documents of a term, its frequency in each, and the norm of its field there."""
    key = None if term is None else bytes_of(term, in_hex)
    with open_segment(segment, unchecked=no_checksum) as this:
        total, found = _postings(this, field, key)
        if as_json:
            check_json(this, total, limit, "posting")
        chosen = list(islice(found, most(limit, as_json)))
        if as_json:
            size = _json_bytes(this, chosen, locations, in_hex)
            check_json_bytes(this, size, "terms and names")
            items = _postings_json(this, chosen, locations, in_hex)
            print_json({"source": this.name, "field": field, "total": total, "postings": items})
            return
        if locations:
            shown, count, more = _location_rows(this, chosen, in_hex, most(limit, as_json) or 0)
        else:
            shown, count, more = _posting_rows(chosen, in_hex), len(chosen), 0
        shown.show()
        if more:
            print(f"... {counted(more, 'more location')}")
        report_more(total, count, "posting")


def _postings(segment: Segment, field: str, term: bytes | None) -> tuple[int, Iterator[_Posting]]:
    """Return the number of postings of a term, or of all terms, and the postings.

    Raises:
        UsageError: no such term.
    """
    if term is None:
        return sum(docs for _, docs in segment.terms(field)), _all_postings(segment, field)
    found = segment.postings(field, term)
    if found is None:
        raise UsageError(f"{segment.name}: no term {key_text(term)} in the field {field}")
    lists = [found.docs, found.freqs, found.norms, found.location_counts]
    return len(found), _each([term], np.zeros(len(found), np.int64), lists, found.locations)


def _all_postings(segment: Segment, field: str) -> Iterator[_Posting]:
    """Read the postings of all terms, in batches of bounded size."""
    for keys, found in segment.lists(field, locations=True):
        lists = [found.docs, found.freqs, norm_values(segment.version, found.norms), found.location_counts]
        yield from _each(keys, found.owner, lists, found.locations)


def _each(keys: Any, owner: Any, lists: list[Any], locations: Locations) -> Iterator[_Posting]:
    at, last, term = 0, -1, b""
    for of, doc, freq, norm, located in zip(*(values.tolist() for values in (owner, *lists)), strict=True):
        known = norm if np.isfinite(norm) else None
        if of != last:  # a copy for each posting would take as much memory as the output
            last, term = of, bytes(keys[of])
        yield _Posting(term, doc, freq, known, range(at, at + located), locations)
        at += located


def _by_term(chosen: list[_Posting], in_hex: bool) -> Iterator[tuple[str | dict[str, str], list[_Posting]]]:
    """Return the postings of each term, with the term for JSON."""
    for term, found in groupby(chosen, key=lambda one: one.term):
        yield bytes_json(term, in_hex), list(found)


def _json_bytes(segment: Segment, chosen: list[_Posting], locations: bool, in_hex: bool) -> int:
    """Return the bytes of the terms and names that JSON repeats."""
    total = sum(json_size(term) * len(found) for term, found in _by_term(chosen, in_hex))
    if locations:
        names = np.array([json_size(info.name) for info in segment.fields], np.int64)
        for of, found in groupby(chosen, key=lambda one: one.of):
            parts = [one.locations for one in found]
            total += int(names[of.fields[parts[0].start : parts[-1].stop]].sum())
    return total


def _postings_json(segment: Segment, chosen: list[_Posting], locations: bool, in_hex: bool) -> Iterator[dict[str, Any]]:
    for term, found in _by_term(chosen, in_hex):
        for one in found:
            item = {"term": term, "doc": one.doc, "freq": one.freq, "norm": one.norm}
            item["location_count"] = len(one.locations)
            yield item | {"locations": _locations(segment, one)} if locations else item


def _locations(segment: Segment, one: _Posting) -> list[dict[str, Any]]:
    part = one.of.take(np.arange(one.locations.start, one.locations.stop))
    stops = np.cumsum(part.array_counts).tolist()
    arrays = part.array_positions.tolist()
    return [
        {
            "field": segment.fields[number].name,
            "position": position,
            "start": start,
            "end": end,
            "array_positions": arrays[stop - count : stop],
        }
        for number, position, start, end, count, stop in zip(
            *(values.tolist() for values in (part.fields, part.positions, part.starts, part.ends, part.array_counts)),
            stops,
            strict=True,
        )
    ]


def _posting_rows(chosen: list[_Posting], in_hex: bool) -> Table:
    columns = ("term", "doc", "freq", "norm", "locations")
    shown = Table(*columns, right=columns[1:])
    for one in chosen:
        values = (number(one.freq), _norm_text(one.norm), number(len(one.locations)))
        shown.add(key_text(one.term, in_hex), number(one.doc), *values)
    return shown


def _location_rows(segment: Segment, chosen: list[_Posting], in_hex: bool, rows: int) -> tuple[Table, int, int]:
    """Return so many rows at most, the number of postings in them, and the locations of these that they lack."""
    right = ("doc", "freq", "norm", "position", "start", "end")
    shown = Table("term", *right[:3], "in field", *right[3:], "in arrays", right=right)
    count = more = 0
    for one in chosen:
        if not rows:
            break
        head = (key_text(one.term, in_hex), number(one.doc), number(one.freq), _norm_text(one.norm))
        part = one.locations[:rows]
        for place in _locations(segment, one._replace(locations=part)):
            places = (number(place["position"]), number(place["start"]), number(place["end"]))
            shown.add(*head, field_text(place["field"]), *places, arrays_text(place["array_positions"]))
        if not part:
            shown.add(*head, *[NOTHING] * 5)
        rows -= max(len(part), 1)
        count, more = count + 1, more + len(one.locations) - len(part)
    return shown, count, more


def _norm_text(norm: float | None) -> str:
    return NOTHING if norm is None else f"{norm:.3g}"

"""The commands that read segments: zap footer, fields, search, terms, postings, stored, docvalues; inspect of one."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.text import Text

from dvcodec.cli.common import complain
from dvcodec.cli.render import BAR_WIDTH, Table, console, print_json, say, share_bar
from dvcodec.cli.targets import Json, Tour
from dvcodec.cli.zap.shared import (
    FieldName,
    Listing,
    LiveSegment,
    LiveSegments,
    NoChecksum,
    SegmentName,
    SegmentNames,
    SegmentOrIndex,
    arrays_text,
    bytes_json,
    bytes_of,
    count_json,
    count_terms,
    count_text,
    field_text,
    is_segment,
    key_text,
    open_bytes,
    open_live,
    open_segment,
    parse_numbers,
    report_more,
    zap,
)
from dvcodec.core.cursor import crc_hex
from dvcodec.core.errors import ChecksumMismatch, DecodeError, UsageError
from dvcodec.core.limits import Limits
from dvcodec.core.text import NOTHING, bytes_text, counted, number, share_text
from dvcodec.io import Source
from dvcodec.zap import FieldInfo, Footer, Locations, Segment, StoredValue, norm_values, number_value
from dvcodec.zap.footer import ID, decode_footer, verify_checksum
from dvcodec.zap.segment import choose_terms, find_stored
from dvcodec.zap.vellum import Fst
from dvcodec.zap.verify import Part, Span, layout


def chunk_text(footer: Footer) -> str:
    """Describe a chunk mode: how many documents or postings a chunk of a postings list holds."""
    if footer.version == 11 or footer.chunk_mode <= 1024:
        return f"{number(footer.chunk_mode)} documents"
    words = {1025: "1,024 documents, one chunk up to 1,024 postings", 1026: "about 1,024 postings"}
    return words.get(footer.chunk_mode, f"unknown ({footer.chunk_mode})")


def footer_json(source: Source, footer: Footer, crc_ok: bool | None) -> dict[str, Any]:
    """Return a footer for JSON."""
    return {
        "source": source.name,
        "kind": "zap",
        "size": source.size,
        "version": footer.version,
        "num_docs": footer.num_docs,
        "stored_index": footer.stored_index,
        "fields_index": footer.fields_index,
        "doc_value_table": footer.doc_value_table,
        "chunk_mode": footer.chunk_mode,
        "chunks": chunk_text(footer),
        "crc": crc_hex(footer.crc),
        "crc_ok": crc_ok,
        "writer_id": bytes_json(footer.writer_id),
    }


def _crc_matches(source: Source, footer: Footer) -> bool:
    """Whether the CRC matches; reads the whole file."""
    try:
        verify_checksum(source, footer)
    except ChecksumMismatch:
        return False
    return True


@zap.command()
def footer(segments: SegmentNames, no_checksum: NoChecksum = False, as_json: Json = False) -> None:
    """Show footers: version, documents, addresses, chunks, and whether the CRC matches. Exit code 1 if one differs."""
    found: list[dict[str, Any]] = []
    damaged = 0
    columns = (
        "segment",
        "version",
        "documents",
        "size",
        "stored index",
        "fields index",
        "doc value table",
        "CRC",
        "chunks",
    )
    shown = Table(*columns, right=columns[1:7])
    tour = Tour(segments, "reading", silent=True, wanted="search segments")
    for target in tour:
        with tour.turn():
            if target.found and not is_segment(target):
                tour.skipped += 1
                continue
            with open_bytes(target) as source:
                this = decode_footer(source)
                matches = None if no_checksum else _crc_matches(source, this)
                damaged += matches is False
                found.append(footer_json(source, this, matches))
                crc = Text(crc_hex(this.crc))
                if matches is not None:
                    crc.append(" matches" if matches else " does not match", "green" if matches else "bold red")
                addresses = (this.stored_index, this.fields_index, this.doc_value_table)
                shown.add(
                    source.name,
                    number(this.version),
                    number(this.num_docs),
                    number(source.size),
                    *map(number, addresses),
                    crc,
                    chunk_text(this) + (f", by {key_text(this.writer_id)}" if this.writer_id else ""),
                )
    if as_json:
        print_json(found)
    else:
        shown.show()
    tour.finish(1 if damaged else 0)


@zap.command()
def fields(segment: SegmentName, no_checksum: NoChecksum = False, as_json: Json = False) -> None:
    """Show the fields: ids, terms, doc values and other sections, and options from version 17 on."""
    with open_segment(segment, unchecked=no_checksum) as this:
        counts = count_terms(this)
        for count in counts.values():
            if isinstance(count, DecodeError):
                complain(count)
        if as_json:
            items = [_field_json(info, counts[info.name]) for info in this.fields]
            print_json({"source": this.name, "version": this.version, "fields": items})
        else:
            _show_fields(this, counts)
        if any(isinstance(count, DecodeError) for count in counts.values()):
            raise typer.Exit(2)


_SECTIONS = ("vectors", "synonyms", "shapes")


def _show_fields(segment: Segment, counts: dict[str, int | DecodeError | None]) -> None:
    about = f"version {segment.version}, {counted(segment.num_docs, 'document')}, {counted(len(counts), 'field')}"
    say((segment.name, "bold"), f"  zap segment, {about}")
    right = ("id", "terms", "dictionary at", "doc values at", "doc value bytes")
    shown = Table("field", *right, "options", "sections", right=right)
    for info in segment.fields:
        start, stop = info.doc_values or (None, None)
        size = None if start is None or stop is None else stop - start
        options = _options_of(info)
        sections = [f"{name} at {number(at)}" for name, at in _sections_of(info).items() if at is not None]
        shown.add(
            info.name,
            number(info.id),
            count_text(counts[info.name]),
            *map(number, (info.dictionary, start, size)),
            NOTHING if options is None else " ".join(options) or NOTHING,
            " ".join(sections) or NOTHING,
        )
    shown.show()


def _field_json(info: FieldInfo, count: int | DecodeError | None) -> dict[str, Any]:
    block = info.doc_values
    about = {
        "dictionary": info.dictionary,
        "doc_values": None if block is None else {"offset": block[0], "size": block[1] - block[0]},
        "options": _options_of(info),
    }
    return {"id": info.id, "name": info.name} | count_json(count) | about | _sections_of(info)


def _sections_of(info: FieldInfo) -> dict[str, int | None]:
    """Return the addresses of other sections."""
    return {name: getattr(info, name) for name in _SECTIONS}


def _options_of(info: FieldInfo) -> list[str] | None:
    """Return a field's options, None if the segment does not store them."""
    if info.options is None:
        return None
    return [str(option.name).lower().replace("_", "-") for option in type(info.options) if option in info.options]


_PARTS = {
    Part.STORED: ("s", "cyan", "stored documents"),
    Part.POSTINGS: ("p", "green", "postings"),
    Part.DICTIONARY: ("d", "yellow", "dictionaries"),
    Part.DOC_VALUES: ("v", "magenta", "doc values"),
    Part.SYNONYMS: ("y", "blue", "synonyms"),
    Part.VECTORS: ("x", "red", "vectors"),
    Part.SHAPES: ("g", "red", "geo shapes"),
    Part.FIELDS: ("f", "dim", "fields and footer"),
    Part.OTHER: ("?", "bold red", "unknown"),
}
_OF_FIELDS = (Part.POSTINGS, Part.DICTIONARY, Part.DOC_VALUES, Part.SYNONYMS, Part.VECTORS, Part.SHAPES)


def inspect_segment(
    source: Source, *, turn: Callable[[], AbstractContextManager[None]], as_json: bool, limits: Limits
) -> dict[str, Any] | None:
    """Show version, documents, fields and their sizes, or return them for JSON.

    Args:
        source: the segment.
        turn: reports an error instead of raising it.
        as_json: return values instead of printing them.
        limits: what the segment may cost.

    Raises:
        DecodeError: no footer, or a corrupt list of fields. Other errors go to `turn`.
    """
    footer = decode_footer(source)
    crc_ok = False
    with turn():
        verify_checksum(source, footer)
        crc_ok = True
    with Segment.open(source, verify_checksum=False, limits=limits) as segment:
        counts = count_terms(segment)
        for count in counts.values():
            with turn():
                if isinstance(count, DecodeError):
                    raise count
        spans: tuple[Span, ...] = ()
        with turn():
            spans = layout(segment)
        if as_json:
            return footer_json(source, footer, crc_ok) | _contents_json(segment, counts, spans)
        _show(segment, crc_ok, counts, spans)
    return None


def _contents_json(
    segment: Segment, counts: dict[str, int | DecodeError | None], spans: tuple[Span, ...]
) -> dict[str, Any]:
    fields = []
    for info in segment.fields:
        sizes = {"bytes": _sizes(spans, info.name)}
        fields.append({"id": info.id, "name": info.name} | count_json(counts[info.name]) | sizes)
    parts = {part.value: sum(span.size for span in spans if span.part is part) for part in _PARTS}
    return {"fields": fields, "bytes": {name: size for name, size in parts.items() if size}, "vectors": []}


def _sizes(spans: Iterable[Span], field: str) -> dict[str, int]:
    """Return the bytes of a field by part."""
    found: dict[str, int] = {}
    for span in spans:
        if span.field == field and span.part in _OF_FIELDS:
            found[span.part.value] = found.get(span.part.value, 0) + span.size
    return found


def _show(segment: Segment, crc_ok: bool, counts: dict[str, int | DecodeError | None], spans: tuple[Span, ...]) -> None:
    footer, size = segment.footer, segment.contents.data.source.size
    what = f"version {footer.version}, {counted(footer.num_docs, 'document')}, {counted(len(counts), 'field')}"
    say((segment.name, "bold"), f"  zap segment, {bytes_text(size)}, {what}")
    say(f"  CRC {crc_hex(footer.crc)} ", ("matches", "green") if crc_ok else ("does not match", "bold red"))
    say(f"  chunks of {chunk_text(footer)}")
    costs = {name: _sizes(spans, name) for name in counts}
    columns = [part for part in _OF_FIELDS if any(part.value in cost for cost in costs.values())]
    titles = [part.value.replace("-", " ") for part in columns]
    shown = Table("field", "terms", *titles, "bytes", "share", right=("terms", *titles, "bytes", "share"))
    for name, count in counts.items():
        cost = costs[name]
        total = sum(cost.values())
        shown.add(
            name,
            count_text(count),
            *(number(cost.get(part.value)) for part in columns),
            number(total),
            share_text(total / size),
        )
    shown.show()
    if spans:
        _show_bar(spans, size)
    print()


def _show_bar(spans: tuple[Span, ...], size: int) -> None:
    """Draw the parts of the file with a legend."""
    out = console()
    bar = share_bar([(span.size, *_PARTS[span.part][:2]) for span in spans], min(BAR_WIDTH, out.width - 2))
    print()
    out.print(Text("  ").append_text(bar), soft_wrap=True)
    shown = Table("part", "bytes", "share", right=("bytes", "share"))
    for part, (letter, style, name) in _PARTS.items():
        count = sum(span.size for span in spans if span.part is part)
        if count:
            shown.add(Text.assemble((letter, style), f" {name}"), number(count), share_text(count / size))
    shown.show()


# ---------------------------------------------------------------------- search


@zap.command()
def search(
    segment: SegmentOrIndex,
    field: FieldName,
    term: Annotated[
        str, typer.Argument(metavar="TERM", help="Term as the analyser left it, usually in lower case: see zap terms.")
    ],
    *,
    how: Listing,
) -> None:
    """Find the live documents that have a term in a field: their ids, how often, what is stored of the field.

    Documents are found segment by segment, and not ranked. Exit code 1 if there are none.
    """
    key = bytes_of(term, how.in_hex)
    with open_live(segment, how) as this:
        hits: _Chosen = []
        freqs: list[int] = []
        for part in this.having(field):
            found = part.segment.postings(field, key, locations=False)
            if found is None:
                continue
            live = np.ones(len(found), np.bool_) if part.mask is None else ~part.mask[found.docs]
            hits.append((part, found.docs[live].tolist()))
            freqs += found.freqs[live].tolist()
        how.check_json(this.size, len(freqs), "document")
        chosen = zip(_stored(hits, how.most), freqs, strict=False)

        def of_field(values: Sequence[StoredValue], name: str) -> list[str | dict[str, str]]:
            return [bytes_json(one.value, how.in_hex) for one in values if one.field == name]

        if how.as_json:
            items = (
                this.naming(of)
                | {
                    "doc": doc,
                    "id": next(iter(of_field(values, ID)), None),
                    "freq": freq,
                    "values": of_field(values, field),
                }
                for (of, doc, values), freq in chosen
            )
            print_json({"source": this.name, "field": field, "total": len(freqs), "documents": items})
        else:
            shown, count = Table(*this.columns, "doc", "id", "freq", field, right=("doc", "freq")), 0
            for (of, doc, values), freq in chosen:
                count += 1
                texts = (_value_text(one, how.in_hex) for one in values if one.field == field)
                ids = (key_text(one.value, how.in_hex) for one in values if one.field == ID)
                shown.add(*this.cells(of), number(doc), ", ".join(ids), number(freq), ", ".join(texts) or NOTHING)
            shown.show()
            report_more(len(freqs), count, "document")
    raise typer.Exit(0 if freqs else 1)


# ---------------------------------------------------------------------- terms


@zap.command()
def terms(
    segment: SegmentOrIndex,
    field: FieldName,
    prefix: Annotated[str | None, typer.Option("--prefix", help="Only terms with this prefix.")] = None,
    start: Annotated[str | None, typer.Option("--start", help="Only terms from this one on, in byte order.")] = None,
    stop: Annotated[str | None, typer.Option("--stop", help="Only terms before this one.")] = None,
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Show this many terms, those in most documents.")
    ] = None,
    *,
    how: Listing,
) -> None:
    """Show the terms of a field in byte order, each with the number of its documents."""
    if prefix is not None and (start is not None or stop is not None):
        raise UsageError("--prefix excludes --start and --stop")
    if top is not None and how.limit is not None:
        raise UsageError("--top excludes --limit")
    bounds = (_key(prefix, how.in_hex), _key(start, how.in_hex), _key(stop, how.in_hex))
    with open_live(segment, how) as this:
        total, found = _terms(this, field, bounds, how, top)
        if top is not None:
            found = heapq.nsmallest(top, found, key=lambda item: (-item[1], item[0]))
        if how.as_json:
            items = [{"term": bytes_json(term, how.in_hex), "docs": docs} for term, docs in found]
            print_json({"source": this.name, "field": field, "total": total, "terms": items})
            return
        shown = Table("term", "docs", right=("docs",))
        for term, docs in found:
            shown.add(key_text(term, how.in_hex), number(docs))
        shown.show()
        report_more(total, len(found), "term")


def _key(text: str | None, in_hex: bool) -> bytes | None:
    return None if text is None else bytes_of(text, in_hex)


_Bounds = tuple[bytes | None, bytes | None, bytes | None]
"""Prefix, first term, end."""


def _terms(
    this: LiveSegments, field: str, bounds: _Bounds, how: Listing, top: int | None
) -> tuple[int, list[tuple[bytes, int]]]:
    """Return the number of terms within bounds, and those to show with their number of documents."""
    parts = this.having(field)
    keys = sum(_count_keys(part.segment, field, bounds) for part in parts)
    limit = None
    if top is None:
        how.check_json(this.size, keys, "term")
        limit = how.most
    if limit is not None and len(parts) == 1 and parts[0].mask is None:
        return keys, _first_terms(parts[0].segment, field, bounds, limit)
    lists = [_live_terms(part, field, bounds) for part in parts]
    every = lists[0] if len(lists) == 1 else _sums(lists)
    found = list(islice(every, limit))
    return len(found) + sum(1 for _ in every), found


def _sums(lists: list[Iterator[tuple[bytes, int]]]) -> Iterator[tuple[bytes, int]]:
    """Add up the documents of each term of several segments."""
    for term, found in groupby(heapq.merge(*lists), key=itemgetter(0)):
        yield term, sum(docs for _, docs in found)


def _pairs(dictionary: Fst, bounds: _Bounds) -> Iterator[tuple[bytes, int]]:
    prefix, start, stop = bounds
    return dictionary.range(start or b"", stop) if prefix is None else dictionary.prefix(prefix)


def _count_keys(segment: Segment, field: str, bounds: _Bounds) -> int:
    """Count the terms within bounds, deleted documents' included, without reading their lists."""
    dictionary = segment.dictionary(field)
    if dictionary is None:
        return 0
    return dictionary.num_keys if bounds == (None, None, None) else sum(1 for _ in _pairs(dictionary, bounds))


def _first_terms(segment: Segment, field: str, bounds: _Bounds, limit: int) -> list[tuple[bytes, int]]:
    """Return the first terms within bounds; only their lists are read."""
    dictionary = segment.dictionary(field)
    first = [] if dictionary is None else list(islice(_pairs(dictionary, bounds), limit))
    records = segment.contents.records(np.array([value for _, value in first], np.uint64))
    return [(term, docs) for (term, _), docs in zip(first, records.counts.tolist(), strict=True)]


def _live_terms(part: LiveSegment, field: str, bounds: _Bounds) -> Iterator[tuple[bytes, int]]:
    """Yield the terms that live documents have, with the number of these."""
    prefix, start, stop = bounds
    if part.mask is None:
        yield from part.segment.terms(field, prefix=prefix or b"", start=start or b"", stop=stop)
    elif (dictionary := part.segment.dictionary(field)) is not None:
        lists = part.segment.contents.reader(part.segment.field(field).dictionary)
        for keys, values in choose_terms(dictionary, prefix or b"", start or b"", stop):
            counts = part.segment.contents.count_without(lists.records(values), part.mask)
            yield from ((term, count) for term, count in zip(keys, counts.tolist(), strict=True) if count)


# ---------------------------------------------------------------------- postings


class _Posting(NamedTuple):
    """One posting; `locations` index into `of`."""

    segment: Segment
    term: bytes
    doc: int
    freq: int
    norm: float | None
    locations: range
    of: Locations


@zap.command()
def postings(
    segment: SegmentOrIndex,
    field: FieldName,
    term: Annotated[str | None, typer.Argument(metavar="[TERM]", help="Term; default: all terms.")] = None,
    locations: Annotated[bool, typer.Option("--locations", help="Show its locations in the documents.")] = False,
    *,
    how: Listing,
) -> None:
    """Show the documents of a term, its frequency in each, and the norm of its field there.

    Those of an index are listed segment by segment: a document number counts within its segment.
    """
    key = _key(term, how.in_hex)
    with open_live(segment, how) as this:
        total, found = _postings(this, field, key)
        how.check_json(this.size, total, "posting")
        chosen = list(islice(found, how.most))
        if how.as_json:
            items = _postings_json(this, chosen, locations, how.in_hex)
            print_json({"source": this.name, "field": field, "total": total, "postings": items})
            return
        if locations:
            shown, count, more = _location_rows(this, chosen, how.in_hex, how.most or 0)
        else:
            shown, count, more = _posting_rows(this, chosen, how.in_hex), len(chosen), 0
        shown.show()
        if more:
            print(f"... {counted(more, 'more location')}")
        report_more(total, count, "posting")


def _postings(this: LiveSegments, field: str, term: bytes | None) -> tuple[int, Iterator[_Posting]]:
    """Return the number of postings of a term, or of all terms, and the postings.

    Raises:
        UsageError: no such term.
    """
    parts = this.having(field)
    if term is None:
        total = sum(docs for part in parts for _, docs in _live_terms(part, field, (None, None, None)))
        return total, chain.from_iterable(_all_postings(part, field) for part in parts)
    total, every, known = 0, [], False
    for part in parts:
        found = part.segment.postings(field, term)
        if found is not None:
            known = True
            total += len(found) - (0 if part.mask is None else int(part.mask[found.docs].sum()))
            lists = [found.docs, found.freqs, found.norms, found.location_counts]
            every.append(_each(part, [term], np.zeros(len(found), np.int64), lists, found.locations))
    if not known:
        raise UsageError(f"{this.name}: no term {key_text(term)} in the field {field}")
    return total, chain.from_iterable(every)


def _all_postings(part: LiveSegment, field: str) -> Iterator[_Posting]:
    """Read the postings of all terms, in batches of bounded size."""
    for keys, found in part.segment.lists(field, locations=True):
        lists = [found.docs, found.freqs, norm_values(part.segment.version, found.norms), found.location_counts]
        yield from _each(part, keys, found.owner, lists, found.locations)


def _each(part: LiveSegment, keys: Any, owner: Any, lists: list[Any], locations: Locations) -> Iterator[_Posting]:
    """Yield the postings of live documents."""
    at, last, term, deleted = 0, -1, b"", part.mask
    for of, doc, freq, norm, located in zip(*(values.tolist() for values in (owner, *lists)), strict=True):
        known = norm if np.isfinite(norm) else None
        if of != last:  # a copy for each posting would take as much memory as the output
            last, term = of, bytes(keys[of])
        if deleted is None or not deleted[doc]:
            yield _Posting(part.segment, term, doc, freq, known, range(at, at + located), locations)
        at += located


def _postings_json(
    this: LiveSegments, chosen: list[_Posting], locations: bool, in_hex: bool
) -> Iterator[dict[str, Any]]:
    for name, found in groupby(chosen, key=attrgetter("term")):
        term = bytes_json(name, in_hex)
        for one in found:
            item = {"term": term, "doc": one.doc, "freq": one.freq, "norm": one.norm}
            item["location_count"] = len(one.locations)
            yield this.naming(one.segment) | item | ({"locations": _locations(one)} if locations else {})


def _locations(one: _Posting) -> list[dict[str, Any]]:
    part = one.of.take(np.arange(one.locations.start, one.locations.stop))
    stops = np.cumsum(part.array_counts).tolist()
    arrays = part.array_positions.tolist()
    return [
        {
            "field": one.segment.fields[number].name,
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


def _posting_rows(this: LiveSegments, chosen: list[_Posting], in_hex: bool) -> Table:
    columns = ("term", "doc", "freq", "norm", "locations")
    shown = Table(*this.columns, *columns, right=columns[1:])
    for one in chosen:
        values = (number(one.freq), _norm_text(one.norm), number(len(one.locations)))
        shown.add(*this.cells(one.segment), key_text(one.term, in_hex), number(one.doc), *values)
    return shown


def _location_rows(this: LiveSegments, chosen: list[_Posting], in_hex: bool, rows: int) -> tuple[Table, int, int]:
    """Return so many rows at most, the number of postings in them, and the locations of these that they lack."""
    right = ("doc", "freq", "norm", "position", "start", "end")
    columns = ("term", *right[:3], "in field", *right[3:], "in arrays")
    shown = Table(*this.columns, *columns, right=right)
    count = more = 0
    for one in chosen:
        if not rows:
            break
        name = (*this.cells(one.segment), key_text(one.term, in_hex))
        head = (*name, number(one.doc), number(one.freq), _norm_text(one.norm))
        part = one.locations[:rows]
        for place in _locations(one._replace(locations=part)):
            places = (number(place["position"]), number(place["start"]), number(place["end"]))
            shown.add(*head, field_text(place["field"]), *places, arrays_text(place["array_positions"]))
        if not part:
            shown.add(*head, *[NOTHING] * 5)
        rows -= max(len(part), 1)
        count, more = count + 1, more + len(one.locations) - len(part)
    return shown, count, more


def _norm_text(norm: float | None) -> str:
    return NOTHING if norm is None else f"{norm:.3g}"


@zap.command()
def stored(
    segment: SegmentOrIndex,
    docs: Annotated[
        list[str] | None, typer.Argument(metavar="[DOC]...", help="Numbers and ranges: 3 5-9; default: all.")
    ] = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="The document of this id; repeat for more.")] = None,
    *,
    how: Listing,
) -> None:
    """Show the stored values of documents: ids first, then values by field."""
    with open_live(segment, how) as this:
        chosen: _Chosen
        if docs or ids:
            chosen = [(part, numbers) for text in docs or [] for part, numbers in _numbers(this, text)]
            chosen += [pair for text in ids or [] for pair in _docs_of(this, bytes_of(text, how.in_hex))]
        else:
            chosen = [(part, _live(part)) for part in this.parts]
        total = sum(len(numbers) for _, numbers in chosen)
        how.check_json(this.size, total, "document")
        found = list(_stored(chosen, how.most))
        if how.as_json:
            plain = (
                (of, doc, [one._asdict() | {"value": bytes_json(one.value, how.in_hex)} for one in values])
                for of, doc, values in found
            )
            items = (this.naming(of) | {"doc": doc, "values": values} for of, doc, values in plain)
            print_json({"source": this.name, "total": total, "documents": items})
            return
        columns = ("doc", "field", "type", "bytes", "value", "in arrays")
        shown = Table(*this.columns, *columns, right=("doc", "bytes"))
        for of, doc, values in found:
            for one in values:
                cells = (field_text(one.field), one.type, number(len(one.value)), _value_text(one, how.in_hex))
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


def _value_text(one: StoredValue, in_hex: bool) -> str:
    return key_text(one.value, in_hex) if in_hex or one.type != "n" else _number_text(one.value)


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
    *,
    how: Listing,
) -> None:
    """Show the doc values of a field: the distinct terms of each document that has any."""
    with open_live(segment, how) as this:
        parts = this.having(field)
        kept = any(part.segment.field(field).doc_values is not None for part in parts)
        wanted = None
        if docs is not None:
            wanted = {doc for text in docs for _, numbers in _numbers(this, text) for doc in numbers}
        how.check_json(this.size, sum(part.segment.num_docs for part in parts), "document")
        in_docs = _values(parts, field, wanted)
        found = list(islice(in_docs, how.most))
        total = len(found) + sum(1 for _ in in_docs)
        if how.as_json:
            items = [
                this.naming(of) | {"doc": doc, "values": [bytes_json(value, how.in_hex) for value in values]}
                for of, doc, values in found
            ]
            print_json({"source": this.name, "field": field, "total": total, "documents": items})
            return
        shown = Table(*this.columns, "doc", "terms", "values", right=("doc", "terms"))
        for of, doc, values in found:
            text = "  ".join(key_text(value, how.in_hex) for value in values)
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

"""The commands zap footer and zap fields, and the output of inspect for a search segment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import typer
from rich.text import Text

from dvcodec.cli.common import complain
from dvcodec.cli.render import BAR_WIDTH, Table, console, print_json, say, share_bar
from dvcodec.cli.targets import Json, Tour
from dvcodec.cli.zap.shared import (
    NoChecksum,
    SegmentName,
    SegmentNames,
    bytes_json,
    count_json,
    count_terms,
    count_text,
    is_segment,
    key_text,
    open_bytes,
    open_segment,
    zap,
)
from dvcodec.core.cursor import crc_hex
from dvcodec.core.errors import ChecksumMismatch, DecodeError
from dvcodec.core.limits import Limits
from dvcodec.core.text import NOTHING, bytes_text, counted, number, share_text
from dvcodec.io import Source
from dvcodec.zap import FieldInfo, Footer, Segment
from dvcodec.zap.footer import decode_footer, verify_checksum
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

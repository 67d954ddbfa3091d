"""The output of inspect for a search segment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from rich.text import Text

from dvcodec.cli.render import BAR_WIDTH, Table, bytes_text, console, counted, number, say, share_bar, share_text
from dvcodec.cli.zap.footer import chunk_text, footer_json
from dvcodec.cli.zap.shared import count_json, count_terms, count_text
from dvcodec.core.checksum import crc_hex
from dvcodec.core.errors import DecodeError
from dvcodec.core.limits import Limits
from dvcodec.io import Source
from dvcodec.ops.layout import Part, Span, layout
from dvcodec.zap import Segment
from dvcodec.zap.footer import decode_footer, verify_checksum

__all__ = ["inspect_segment"]

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
_OF_FIELDS = {
    Part.POSTINGS: "postings",
    Part.DICTIONARY: "dictionary",
    Part.DOC_VALUES: "doc values",
    Part.SYNONYMS: "synonyms",
    Part.VECTORS: "vectors",
    Part.SHAPES: "shapes",
}


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
    titles = [_OF_FIELDS[part] for part in columns]
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

"""Verify a segment: named checks, each with its offset.

Go's readers check neither the CRC nor most counts: on a corrupt segment they return wrong hits or panic.

The layout of a search segment: its parts, and the bytes of each field in them.

Computed from addresses; no postings, documents or values are read. Gaps between known parts are assigned by the order
in which zapx and dvcodec write: postings before their dictionary, synonyms before their section. The end of a section
of vectors or shapes is not recorded, so it is taken to extend to the next postings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dvcodec.core import varints
from dvcodec.core.cursor import first_true
from dvcodec.core.errors import DecodeError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.report import Check, Report
from dvcodec.core.text import TextEnum
from dvcodec.core.usage import check_callable
from dvcodec.io import StorageOptions
from dvcodec.io.opening import open_mapped
from dvcodec.io.source import SourceTarget
from dvcodec.zap.contents import Contents
from dvcodec.zap.doc_values import SKIPS
from dvcodec.zap.documents import FieldOptions
from dvcodec.zap.footer import ID, SECTIONS_FROM, FieldInfo, decode_footer, encode_text, verify_checksum
from dvcodec.zap.segment import Segment
from dvcodec.zap.stored import NESTED_FROM, encode_edges

SEGMENT_CHECKS = ("footer", "crc", "fields", "stored", "nested", "ids")
"""Checks of the whole file, in this order."""
FIELD_CHECKS = ("dictionary", "postings", "one-hits", "doc-values", "synonyms", "vectors", "options")
"""Checks of every field, in this order."""
_SHOWN_BYTES = 60
"""How much of a term a finding shows: one may have megabytes."""


def verify_segment(
    target: SourceTarget,
    *,
    limits: Limits = DEFAULT_LIMITS,
    progress: Callable[[str], None] = lambda _: None,
    storage_options: StorageOptions = None,
) -> Report:
    """Verify a segment by reading all of it.

    Checks of the file: ``footer`` (version, counts, addresses), ``crc``, ``fields`` (names, addresses), ``stored``
    (every document's record), ``nested`` (the edge list), ``ids`` (every document is in exactly one list of ``_id``).

    Checks of every field: ``dictionary`` (order and number of terms), ``postings`` (records, bitmaps, chunk tables,
    frequencies, norms, locations), ``one-hits`` (no list that Go reads as empty), ``doc-values``, ``synonyms``,
    ``vectors`` (without the faiss index), ``options`` (none that Go's version 17 fails on).

    Args:
        target: bytes-like, path, URL, seekable binary file, or a `Source`.
        limits: bounds on decoding.
        progress: called with the name of each field when it is checked.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        A report; corrupt bytes are findings, not exceptions. Checks that an earlier finding prevents are reported
        as not applicable.

    Raises:
        UsageError: an argument of a wrong type.
        OSError: the file cannot be read.
    """
    check_limits(limits)
    check_callable(progress, "progress")
    with open_mapped(target, storage_options=storage_options) as source:
        checks: list[Check] = []
        kind: str | None = None
        try:
            footer = decode_footer(source)
            kind = f"zap v{footer.version}"
            checks.append(Check.passed("footer", "file", source.size - footer.size))
            checks.append(_run("crc", "file", lambda: verify_checksum(source, footer)))
            segment = Segment(Contents.read(source, footer, limits))
            checks.append(Check.passed("fields", "file", footer.fields_index))
            checks += _whole(segment)
            any_block = any(info.doc_values is not None for info in segment.fields)
            for info in segment.fields:
                checks += _field(segment, info, any_block)
                progress(info.name)
        except DecodeError as error:
            checks.append(Check.from_error("footer" if kind is None else "fields", "file", error))
        made = {check.name for check in checks}
        checks += [Check.not_applicable(name, "file") for name in SEGMENT_CHECKS if name not in made]
        return Report(source.name, kind, tuple(checks))


def _run(name: str, subject: str, check: Callable[[], object], offset: int | None = None) -> Check:
    try:
        check()
    except DecodeError as error:
        return Check.from_error(name, subject, error)
    return Check.passed(name, subject, offset)


def _whole(segment: Segment) -> Iterator[Check]:
    yield _run("stored", "file", lambda: deque(segment.contents.stored(), maxlen=0), segment.footer.stored_index)
    yield _run("nested", "file", lambda: segment.edges)
    yield _run("ids", "file", lambda: _check_ids(segment))


def _check_ids(segment: Segment) -> None:
    if not segment.num_docs:
        return
    seen = np.zeros(segment.num_docs, np.int64)
    for _, found in segment.lists(ID):
        seen += np.bincount(found.docs, minlength=segment.num_docs)
    if (i := first_true(seen != 1)) is not None:
        raise segment.contents.data.error(
            f"ids of document {i}", segment.field(ID).dictionary or 0, expected="1", actual=seen[i]
        )


def _field(segment: Segment, info: FieldInfo, any_block: bool) -> Iterator[Check]:
    subject = f"field {info.name!r}"
    yield from _lists(segment, info, subject)
    if info.doc_values is None:
        yield Check.not_applicable("doc-values", subject)
    else:
        values = segment.contents.doc_values
        yield _run("doc-values", subject, lambda: deque(values(info), maxlen=0), info.doc_values[0])
    for name, address, read in (
        ("synonyms", info.synonyms, segment.thesaurus),
        ("vectors", info.vectors, segment.vectors),
    ):
        if address is None:
            yield Check.not_applicable(name, subject)
        else:
            yield _run(name, subject, lambda read=read: read(info.name), address)  # type: ignore[misc]
    yield _options(segment, info, subject, any_block)


def _lists(segment: Segment, info: FieldInfo, subject: str) -> Iterator[Check]:
    """Check the dictionary and the lists of a field."""
    contents = segment.contents
    if info.dictionary is None:
        yield from (Check.not_applicable(name, subject) for name in FIELD_CHECKS[:3])
        return
    failed: dict[str, Check] = {}
    step = "dictionary"
    lists = contents.reader(info.dictionary)
    try:
        for block in contents.term_blocks(info.dictionary):
            step = "postings"
            records = lists.records(block.values)
            for cut in records.cuts():
                part = records[cut]
                found = lists.postings(part, locations=True)
                if (i := first_true(part.one_hit & (found.norms[np.cumsum(found.counts) - 1] == 0))) is not None:
                    term = bytes(block.keys[cut.start + i])[:_SHOWN_BYTES]
                    failed["one-hits"] = Check.failed(
                        "one-hits",
                        subject,
                        info.dictionary,
                        f"norm of the 1-hit of {term!r}",
                        "not 0",
                        "0: lost in Go",
                    )
            step = "dictionary"
    except DecodeError as error:
        failed[step] = Check.from_error(step, subject, error)
    for name in FIELD_CHECKS[:3]:
        if name in failed:
            yield failed[name]
        elif failed and name != "dictionary":
            yield Check.not_applicable(name, subject)
        else:
            yield Check.passed(name, subject, info.dictionary)


def _options(segment: Segment, info: FieldInfo, subject: str, any_block: bool) -> Check:
    if info.options is None:
        return Check.not_applicable("options", subject)
    if info.options & SKIPS not in (FieldOptions(0), SKIPS):
        alone = (info.options & SKIPS).name
        return Check.failed("options", subject, None, "options of doc values", "both skips or neither", alone)
    if info.options & FieldOptions.DOC_VALUES and not any_block and _has_terms(segment, info):  # merges of Go panic
        return Check.failed("options", subject, None, "option of doc values", "a block of them", "none")
    return Check.passed("options", subject)


def _has_terms(segment: Segment, info: FieldInfo) -> bool:
    try:
        dictionary = segment.dictionary(info.name)
    except DecodeError:  # reported by its own check
        return False
    return dictionary is not None and dictionary.num_keys > 0


class Part(TextEnum):
    """A part of a segment."""

    STORED = "stored"
    """Stored documents, their index, and their nesting."""
    POSTINGS = "postings"
    DICTIONARY = "dictionary"
    DOC_VALUES = "doc-values"
    SYNONYMS = "synonyms"
    VECTORS = "vectors"
    SHAPES = "shapes"
    FIELDS = "fields"
    """Names and addresses of the fields, and the footer."""
    OTHER = "other"
    """Not referenced by anything known."""


@dataclass(frozen=True, slots=True)
class Span:
    """A contiguous range of one part.

    Attributes:
        part: the part.
        start: address of the first byte.
        stop: address after the last byte.
        field: name of the field, None if shared by all fields.
    """

    part: Part
    start: int
    stop: int
    field: str | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.stop - self.start


def layout(segment: Segment) -> tuple[Span, ...]:
    """Return the parts of a segment in file order; together they cover every byte.

    Raises:
        DecodeError: an address, the edge list or a dictionary is corrupt.
    """
    size = segment.contents.data.source.size
    spans: list[Span] = []

    def add(part: Part, stop: int, field: str | None) -> None:
        start, stop = spans[-1].stop if spans else 0, min(stop, size)
        if spans and (spans[-1].part, spans[-1].field) == (part, field):
            spans[-1] = Span(part, spans[-1].start, max(start, stop), field)
        elif stop > start:
            spans.append(Span(part, start, stop, field))

    for span in sorted(_known(segment), key=lambda span: (span.start, span.stop)):
        part, field = _BEFORE.get(span.part, Part.OTHER), span.field
        if spans and spans[-1].part in _OPEN and span.start > spans[-1].stop:
            first = _first_postings(segment, span)
            add(spans[-1].part, span.start if first is None else first, spans[-1].field)
        add(part, span.start, None if part is Part.OTHER else field)
        add(span.part, span.stop, field)
    return tuple(spans)


_BEFORE = {Part.DICTIONARY: Part.POSTINGS, Part.SYNONYMS: Part.SYNONYMS}
_OPEN = (Part.VECTORS, Part.SHAPES)
"""Parts whose end is not recorded."""


def _first_postings(segment: Segment, dictionary: Span) -> int | None:
    """Return the address of the first postings of a dictionary; None if it has none, or is another part."""
    if dictionary.part is not Part.DICTIONARY:
        return None
    firsts = []
    lists = segment.contents.reader(dictionary.start)
    for block in segment.contents.term_blocks(dictionary.start):
        records = lists.records(block.values)
        firsts += records.freq_at[~records.one_hit].tolist()
    return min(firsts, default=None)


def _known(segment: Segment) -> Iterator[Span]:
    footer = segment.footer
    stored = footer.stored_index + 8 * footer.num_docs
    if footer.version >= NESTED_FROM and footer.num_docs:
        stored += len(encode_edges(segment.edges))
    yield Span(Part.STORED, 0, stored)
    yield Span(Part.FIELDS, _fields_start(segment), segment.contents.data.source.size)
    for info in segment.fields:
        yield from _known_of(segment, info)


def _fields_start(segment: Segment) -> int:
    """Return the address of the field records, or of the doc value table before them."""
    footer, data = segment.footer, segment.contents.data
    index = data.window(footer.fields_index, data.end, "fields index")
    if footer.version >= SECTIONS_FROM:
        index.uvarint("number of fields")
    addresses = np.frombuffer(index.take(index.remaining // 8 * 8, "fields index"), ">u8").tolist()
    table = [] if footer.doc_value_table is None else [footer.doc_value_table]
    return int(min([footer.fields_index, *table, *addresses]))


def _known_of(segment: Segment, info: FieldInfo) -> Iterator[Span]:
    stop = 0
    if info.dictionary is not None:
        head = segment.contents.data.at(info.dictionary, varints.MAX_BYTES, "bytes of a dictionary")
        size = head.uvarint("bytes of a dictionary")
        stop = info.dictionary + head.pos + size
        yield Span(Part.DICTIONARY, info.dictionary, stop, info.name)
    if info.doc_values is not None:
        yield Span(Part.DOC_VALUES, *info.doc_values, info.name)
        stop = max(stop, info.doc_values[1])
    if segment.version >= SECTIONS_FROM and info.dictionary is not None:
        yield Span(Part.FIELDS, stop, stop + len(encode_text(info.dictionary, info.doc_values)))
    for part, address in ((Part.VECTORS, info.vectors), (Part.SHAPES, info.shapes)):
        if address is not None:
            yield Span(part, address, address + 1, info.name)
    if info.synonyms is not None:
        section = segment.contents.data.at(info.synonyms, 3 * varints.MAX_BYTES, "section of synonyms")
        for what in ("start of doc values", "end of doc values", "address of a thesaurus"):
            section.uvarint(what)
        yield Span(Part.SYNONYMS, info.synonyms, info.synonyms + section.pos, info.name)

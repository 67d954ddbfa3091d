"""Shared by commands on search segments: the sub-application, options, opening segments, bytes as text and JSON.

Documents that ``root.bolt`` beside a segment marks as deleted are left out, unless a command asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from dvcodec.cli.common import complain, storage
from dvcodec.cli.targets import Json, Target, expand, only, open_source_of
from dvcodec.core.errors import BadMagic, ChecksumMismatch, DecodeError, NotCanonical, Truncated, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import NOTHING, bytes_text, counted, number, plain
from dvcodec.io import Source
from dvcodec.io.opening import open_mapped
from dvcodec.io.target import join, split
from dvcodec.tables.scorch.table import SegmentEntry, read_root
from dvcodec.zap import Segment
from dvcodec.zap.footer import decode_footer

zap = typer.Typer(
    help="Show, merge, compact and repair search segments of bleve (zap 11 to 17).", rich_markup_mode="rich"
)

_TARGET = "File, glob, folder, URL, path@offset:size, or - for standard input."
SegmentNames = Annotated[list[str], typer.Argument(metavar="SEGMENT", help=_TARGET)]
SegmentName = Annotated[
    str, typer.Argument(metavar="SEGMENT", help="File, URL, path@offset:size, or - for standard input.")
]
FieldName = Annotated[str, typer.Argument(metavar="FIELD", help="Name of the field.")]
NoChecksum = Annotated[bool, typer.Option("--no-checksum", help="Skip the CRC, which reads the whole file.")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=0, help="Maximum rows to show; by default 100, or all in JSON.", show_default=False),
]
Hex = Annotated[bool, typer.Option("--hex", help="Show and read terms and values in hexadecimal.")]
CLIP = 100
"""Maximum characters of a value in a table."""
_SHOWN = 100
_NUMBER = re.compile(r"[0-9]{1,20}")
_JSON_ROWS = 100_000
"""Terms, postings or documents that JSON has without a limit, beside one for each byte of the segment: dictionaries
share states, and lists have runs, so that a few bytes may have millions."""


@zap.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


# ---------------------------------------------------------------------- opening


@contextmanager
def open_bytes(target: Target) -> Iterator[Source]:
    """Open the bytes of a target; a whole local file is mapped into memory.

    Raises:
        OSError: it cannot be opened.
        DecodeError: the named part is not within the file.
    """
    if target.path == "-" or target.offset is not None:
        with open_source_of(target) as source:
            yield source
    else:
        with open_mapped(target.path, storage_options=storage()) as source:
            yield source


@contextmanager
def open_segment(target: str | Target, *, unchecked: bool = False, salvage: bool = False) -> Iterator[Segment]:
    """Open a segment; its CRC is checked unless `unchecked`. For `salvage` see `Segment.open`.

    Raises:
        UsageError: the name means several files.
        DecodeError: no footer, or a corrupt list of fields; see `Segment.open`.
        OSError: it cannot be opened.
    """
    with open_bytes(only(target) if isinstance(target, str) else target) as source:
        try:
            segment = Segment.open(source, verify_checksum=not unchecked, salvage=salvage)
        except ChecksumMismatch as err:
            err.what += " (--no-checksum ignores it)"
            raise
        with segment:
            yield segment


def is_segment(target: Target) -> bool:
    """Whether a file has a segment's footer, valid or corrupt.

    Raises:
        OSError: it cannot be read.
    """
    with open_bytes(target) as source:
        try:
            decode_footer(source)
        except (BadMagic, Truncated):
            return False
        except DecodeError:
            pass
        return True


# ---------------------------------------------------------------------- bytes


def bytes_of(text: str, in_hex: bool = False) -> bytes:
    """Return the bytes of a term as typed: text in UTF-8, or hexadecimal.

    Raises:
        UsageError: not hexadecimal.
    """
    if not in_hex:
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise UsageError(f"expected hexadecimal digits, found {text!r}") from None


def key_text(value: bytes, in_hex: bool = False) -> str:
    """Return bytes as one line of text: unprintable bytes are escaped, long values cut."""
    if not value:
        return "(empty)"
    head = value[: 4 * CLIP]
    text = head.hex() if in_hex else plain(head.decode("utf-8", "backslashreplace"))
    if len(text) <= CLIP and len(head) == len(value):
        return text
    return f"{text[:CLIP]}... {bytes_text(len(value))}"


def field_text(name: str) -> str:
    """Return the name of a field as one value of many in a table: long ones cut."""
    return name if len(name) <= CLIP else f"{name[:CLIP]}..."


def arrays_text(positions: Sequence[int]) -> str:
    """Return indices into arrays of the source document, outermost first."""
    return " ".join(map(str, positions)) or NOTHING


def bytes_json(value: bytes, in_hex: bool = False) -> str | dict[str, str]:
    """Return bytes for JSON: a string, or ``{"hex": ..}`` if they are not UTF-8."""
    if not in_hex:
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {"hex": value.hex()}


def parse_numbers(text: str, what: str) -> RowSet:
    """Parse document numbers: ``1,2,5-9``; ranges include both ends.

    Raises:
        UsageError: anything else.
    """
    ranges = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not _NUMBER.fullmatch(first) or (dash and not _NUMBER.fullmatch(last)) or int(last or first) < int(first):
            raise UsageError(f"{what}: expected numbers and ranges, such as 1,2,5-9")
        ranges.append((int(first), int(last or first) + 1))
    return RowSet.from_ranges(ranges)


# ---------------------------------------------------------------------- rows


def report_more(total: int, shown: int, what: str) -> None:
    """Print how many items are not shown, or that there are none."""
    if not total:
        print(f"no {what}s")
    elif total > shown:
        print(f"... {counted(total - shown, f'more {what}')}")


def count_terms(segment: Segment) -> dict[str, int | DecodeError | None]:
    """Return each field's number of terms from its dictionary: None without one, or the error of a corrupt one."""
    counts: dict[str, int | DecodeError | None] = {}
    for info in segment.fields:
        try:
            dictionary = segment.dictionary(info.name)
            counts[info.name] = None if dictionary is None else dictionary.num_keys
        except DecodeError as err:
            counts[info.name] = err
    return counts


def count_text(count: int | DecodeError | None) -> str:
    """Return a number of `count_terms` as text."""
    return "damaged" if isinstance(count, DecodeError) else number(count)


def count_json(count: int | DecodeError | None) -> dict[str, int | str | None]:
    """Return a number of `count_terms` for JSON."""
    return {"terms": None, "error": str(count)} if isinstance(count, DecodeError) else {"terms": count}


SegmentOrIndex = Annotated[
    str,
    typer.Argument(
        metavar="SEGMENT", help="File, URL, path@offset:size, - for standard input, or the folder of an index."
    ),
]
WithDeleted = Annotated[
    bool, typer.Option("--with-deleted", help="Include documents that root.bolt beside the segment marks as deleted.")
]


@dataclass(frozen=True, slots=True)
class Listing:
    """The options of commands that list terms, postings or documents."""

    limit: Limit = None
    in_hex: Hex = False
    with_deleted: WithDeleted = False
    no_checksum: NoChecksum = False
    as_json: Json = False

    @property
    def most(self) -> int | None:
        """The number of rows to show, None for all."""
        return _SHOWN if self.limit is None and not self.as_json else self.limit

    def check_json(self, size: int, total: int, what: str) -> None:
        """Raise `UsageError` if JSON without a limit would have more than the size of the segments explains."""
        if self.as_json and self.limit is None and total > _JSON_ROWS + size:
            raise UsageError(f"{counted(total, what)} are too many for JSON: use --limit")


_ROOT = "root.bolt"
_OF_INDEX = (_ROOT, "index_meta.json")


@dataclass(frozen=True, slots=True)
class _Index:
    """What ``root.bolt`` records of the segments beside it.

    Attributes:
        newest: file names of the newest snapshot's segments, in order.
        entries: segments by file name, each as in the newest snapshot that has it.
    """

    newest: tuple[str, ...]
    entries: dict[str, SegmentEntry]

    @classmethod
    def read(cls, folder: str) -> _Index | None:
        """Read ``root.bolt`` of a folder; None without one.

        Raises:
            DecodeError: it is corrupt.
            UsageError: it cannot be read.
        """
        location = join(folder, _ROOT)
        without = "name segments and add --with-deleted to read them without it"
        try:
            epochs = read_root(location, storage()).epochs
        except (FileNotFoundError, NotADirectoryError):
            return None
        except DecodeError as err:
            err.what += f" ({without})"
            raise
        except OSError as err:
            raise UsageError(f"{location}: deleted documents are unknown: {err}; {without}") from None
        newest = tuple(entry.file_name for epoch in epochs[-1:] for entry in epoch.segments)
        return cls(newest, {entry.file_name: entry for epoch in epochs for entry in epoch.segments})

    def deleted(self, name: str) -> RowSet:
        """Return the deleted documents of a segment."""
        return self.entries[name].deleted_rows() if name in self.entries else RowSet()


def find_segments(targets: list[Target], *, with_deleted: bool) -> list[tuple[Target, RowSet]]:
    """Return the segments among some targets, each with its deleted documents.

    Of a folder, these are all segments; of an index, those of its newest snapshot.

    Raises:
        UsageError: there is none; or a segment of an index is missing.
        DecodeError: ``root.bolt`` is corrupt.
    """
    indexes: dict[str, _Index | None] = {}
    for folder, name in (split(target.path) for target in targets if target.found):
        indexes.setdefault(folder, None)
        if name == _ROOT:
            indexes[folder] = _Index.read(folder)
    missing = {(folder, name) for folder, index in indexes.items() if index is not None for name in index.newest}
    found: list[tuple[Target, RowSet]] = []
    others = older = 0
    for target in targets:
        if target.path == "-" or target.offset is not None:
            found.append((target, RowSet()))
            continue
        folder, name = split(target.path)
        if folder not in indexes and not with_deleted:
            indexes[folder] = _Index.read(folder)
        index = indexes.get(folder)
        current = index is None or name in index.newest
        if target.found and not (is_segment(target) if index is None else current):
            is_older = index is not None and name in index.entries
            older += is_older
            others += not is_older and name not in _OF_INDEX
            continue
        if not current:
            complain(f"{target.path}: the newest snapshot of {_ROOT} does not have this segment")
        missing.discard((folder, name))
        found.append((target, RowSet() if index is None or with_deleted else index.deleted(name)))
    for folder, name in sorted(missing):
        lost = join(folder, name)
        raise UsageError(f"{lost}: no such file, but the newest snapshot has it: dvcodec audit names older ones")
    if not found:
        raise UsageError(f"no search segments in {counted(others, 'file')}")
    if others:
        complain(f"{counted(others, 'other file')} without search segments")
    if older:
        complain(f"{counted(older, 'segment')} of older snapshots left out")
    return found


@dataclass(frozen=True, eq=False)
class LiveSegment:
    """An open segment.

    Attributes:
        segment: the segment.
        deleted: its deleted documents.
    """

    segment: Segment
    deleted: RowSet

    @classmethod
    def of(cls, segment: Segment, deleted: RowSet) -> LiveSegment:
        """Return a segment with its deleted documents.

        Raises:
            NotCanonical: it does not have one of them.
        """
        if (deleted.max or 0) >= max(segment.num_docs, 1):
            raise NotCanonical(
                f"deleted documents of {_ROOT}",
                source=segment.name,
                expected=f"documents below {segment.num_docs}",
                actual=deleted.max,
            )
        return cls(segment, deleted)

    @cached_property
    def mask(self) -> NDArray[np.bool_] | None:
        """Whether each document is deleted; None if none is."""
        return self.deleted.mask(0, self.segment.num_docs) if self.deleted else None


@dataclass(frozen=True, slots=True)
class LiveSegments:
    """What a command on a segment or an index reads.

    Attributes:
        name: file or folder, as the user named it.
        parts: the segments, in order.
        is_index: whether it is a folder; what is shown of it then names the segment.
    """

    name: str
    parts: tuple[LiveSegment, ...]
    is_index: bool

    @property
    def size(self) -> int:
        """Bytes of all segments, without footers."""
        return sum(part.segment.contents.data.end for part in self.parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of `cells`."""
        return ("segment",) if self.is_index else ()

    def cells(self, segment: Segment) -> tuple[str, ...]:
        """Return the cells that name a segment of an index."""
        return (split(segment.name)[1],) if self.is_index else ()

    def naming(self, segment: Segment) -> dict[str, Any]:
        """Return what names a segment of an index in JSON."""
        return {"segment": segment.name} if self.is_index else {}

    def having(self, field: str) -> list[LiveSegment]:
        """Return the segments that have a field.

        Raises:
            UsageError: none does.
        """
        found = [part for part in self.parts if any(info.name == field for info in part.segment.fields)]
        if not found:
            self.parts[0].segment.field(field)
        return found


@contextmanager
def open_live(name: str, how: Listing) -> Iterator[LiveSegments]:
    """Open a segment, or all segments of an index.

    Raises:
        UsageError: a folder or glob that is not one index; see also `find_segments`.
        DecodeError: a segment or ``root.bolt`` is corrupt.
        OSError: one cannot be read.
    """
    targets = expand([name])
    alone = len(targets) == 1 and not targets[0].found
    stores = [folder for folder, file in (split(target.path) for target in targets if target.found) if file == _ROOT]
    found = find_segments(targets, with_deleted=how.with_deleted) if alone or len(stores) == 1 else []
    if not alone and (not found or any(split(target.path)[0] != stores[0] for target, _ in found)):
        found_files = counted(len(targets), "file")
        raise UsageError(f"{name}: expected one file or one index (its root.bolt and segments), found {found_files}")
    with ExitStack() as stack:
        parts = tuple(
            LiveSegment.of(stack.enter_context(open_segment(target, unchecked=how.no_checksum)), deleted)
            for target, deleted in found
        )
        yield LiveSegments(parts[0].segment.name if alone else name, parts, not alone)
        if left_out := sum(len(part.deleted) for part in parts):
            complain(f"{name}: {counted(left_out, 'deleted document')} left out (--with-deleted includes them)")

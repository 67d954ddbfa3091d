"""Shared by commands on search segments: the sub-application, options, opening segments, bytes as text and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from dvcodec.cli.storage import storage
from dvcodec.cli.targets import Target, only, open_source_of
from dvcodec.core.errors import BadMagic, ChecksumMismatch, DecodeError, Truncated, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import NOTHING, bytes_text, counted, number, plain
from dvcodec.io import Source
from dvcodec.io.opening import open_mapped
from dvcodec.zap import Segment
from dvcodec.zap.footer import decode_footer

zap = typer.Typer(help="Show and merge search segments of bleve (zap 11 to 17).", rich_markup_mode="rich")

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


def most(limit: int | None, as_json: bool) -> int | None:
    """Return the number of rows to show, None for all."""
    return _SHOWN if limit is None and not as_json else limit


def check_json(size: int, total: int, limit: int | None, what: str) -> None:
    """Raise `UsageError` if JSON without a limit would have more than the size of the segments explains."""
    if limit is None and total > _JSON_ROWS + size:
        raise UsageError(f"{counted(total, what)} are too many for JSON: use --limit")


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

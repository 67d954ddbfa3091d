"""What the footer of a Parquet file says of a few columns in each row group: bounds, nulls, sizes.

pyarrow is not asked: its `RowGroupMetaData.column` and `statistics` end the process on some damaged footers (statistics
of another size, histograms of another length, an encrypted column), and so do its datasets. Parsing a whole footer in
Python takes twenty times as long as pyarrow does. So columns are found by their path, as Thrift stores it between the
fields before and after it, and only these places are read. A column that is not found once in each row group is
unknown.

Specification: parquet.thrift, ``ColumnMetaData`` and ``ColumnOrder``; Thrift's compact protocol.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from dvcodec.core.varints import uvarints
from dvcodec.io.parquet_footer import _FOOTERS

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["ColumnChunk", "column_chunks"]

_I32, _I64, _BINARY, _STRUCT = 5, 6, 8, 12
"""Types of fields; 1 and 2 are flags."""
_PATH, _VALUES, _SIZE, _STATISTICS = 3, 5, 7, 12
"""Fields of ``ColumnMetaData``."""
_NULLS, _HIGH, _LOW = 3, 5, 6
"""Fields of ``Statistics``."""
_PATHS = re.compile(rb"\x19[\x18\x28\x38\x48](.)", re.DOTALL)
"""A list of one to four texts, in the field after another, and the length of the first text."""

Path: TypeAlias = "tuple[str, ...]"
T = TypeVar("T")


class ColumnChunk(NamedTuple):
    """What a footer says of a column in a row group, each None if it does not.

    Attributes:
        values: values in its pages, nulls included.
        size: bytes of its pages.
        low: lower bound of its values as stored, if the footer says that bounds are in the order of the column's type.
        high: upper bound.
        nulls: how many values are null.
    """

    values: int | None
    size: int | None
    low: bytes | None
    high: bytes | None
    nulls: int | None


def column_chunks(file: pq.ParquetFile, paths: Iterable[Path]) -> dict[Path, list[ColumnChunk]]:
    """Return what the footer says of columns in each row group, in order. Columns that are unknown are left out.

    Args:
        file: a file that `io.parquet.parquet_file` has opened.
        paths: one to four names from the top-level column down to each; columns with a name of more than 127 bytes are
            unknown.
    """
    footer = _FOOTERS[file]
    leaves = {file.schema.column(i).path: i for i in range(len(file.schema))}
    found = {}
    for path, places in _places(footer, {path for path in paths if ".".join(path) in leaves}).items():
        if len(places) == file.num_row_groups:
            try:
                ordered = bool(places) and _is_ordered(footer, places[-1], leaves[".".join(path)], len(leaves))
                found[path] = [_chunk(memoryview(footer)[place:], ordered) for place in places]
            except IndexError:  # the footer ends first
                pass
    return found


def _places(footer: bytes, paths: Iterable[Path]) -> dict[Path, list[int]]:
    """Return where the fields after the path begin, for each column."""
    places: dict[Path, list[int]] = {path: [] for path in paths}
    by_first = defaultdict(list)
    for path, into in places.items():
        names = [name.encode() for name in path]
        stored = b"".join(uvarints(len(name)) + name for name in names)
        by_first[names[0]].append((bytes([0x19, len(names) << 4 | _BINARY]) + stored + b"\x15", into))
    for match in _PATHS.finditer(footer):
        first = footer[match.end() : match.end() + footer[match.end() - 1]]
        for stored, into in by_first.get(first, ()):
            if footer.startswith(stored, match.start()):
                into.append(match.start() + len(stored) - 1)
    return places


def _is_ordered(footer: bytes, start: int, leaf: int, leaves: int) -> bool:
    """Whether the bounds of a column are in the order of its type, by the list of orders behind the row groups.

    An order is a union of structs without fields; the first of them is that order.
    """
    head = bytes([leaves << 4 | _STRUCT]) if leaves < 15 else b"\xfc" + uvarints(leaves)
    orders = re.compile(rb"[\x19\x29\x39]%b((?:[\x1c\x2c]\0\0){%d})" % (re.escape(head), leaves))
    found = orders.search(footer, start)
    return found is not None and found[1][3 * leaf] == 0x1C


def _chunk(data: memoryview, ordered: bool) -> ColumnChunk:
    metadata = _fields(data, _PATH)
    statistics = _fields(_get(metadata, _STATISTICS, memoryview) or memoryview(b"\0"))
    low, high = (_get(statistics, end, memoryview) if ordered else None for end in (_LOW, _HIGH))
    return ColumnChunk(
        _get(metadata, _VALUES, int),
        _get(metadata, _SIZE, int),
        None if low is None else bytes(low),
        None if high is None else bytes(high),
        _get(statistics, _NULLS, int),
    )


def _fields(data: memoryview, number: int = 0) -> dict[int, int | memoryview]:
    """Return numbers and texts of a struct, up to the first field of another type; of a struct, all that follows.

    Args:
        data: from a field on.
        number: of the field before it.

    Raises:
        IndexError: the bytes end first.
    """
    found: dict[int, int | memoryview] = {}
    at = 0
    while (head := data[at]) > 15:  # 0 ends a struct, others have their number in full
        number, kind, at = number + (head >> 4), head & 15, at + 1
        if kind in (_I32, _I64):
            value, at = _varint(data, at)
            found[number] = value >> 1 ^ -(value & 1)
        elif kind == _BINARY:
            size, at = _varint(data, at)
            found[number] = data[at : at + size]
            at += size
        elif kind > 2:
            if kind == _STRUCT:
                found[number] = data[at:]
            break
    return found


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
    return value, at


def _get(found: dict[int, int | memoryview], number: int, kind: type[T]) -> T | None:
    value = found.get(number)
    return value if isinstance(value, kind) else None

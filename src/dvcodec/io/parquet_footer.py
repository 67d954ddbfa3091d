"""Where the columns of a Parquet file begin, their bounds and nulls, from its footer.

pyarrow cannot be asked for them: its `RowGroupMetaData.column` and `statistics` crash the process on a damaged footer
(more columns than in its schema, statistics of another size, an encrypted column), and so does `write_metadata_file`.
When it reads rows, it raises errors.

Specification: parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.io.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    ElementTypes,
    Struct,
    check_elements,
    element_count,
    fields,
    get,
    read,
    read_struct,
    skip,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["ColumnChunk", "column_chunks", "keep_footer", "share_footer"]

_END_BYTES = 8
_ROW_GROUPS, _COLUMN_ORDERS, _GROUP_COLUMNS = 4, 7, 1
"""Fields of ``FileMetaData`` and ``RowGroup``."""
_FILE_LISTS = {2: STRUCT, _ROW_GROUPS: STRUCT, 5: STRUCT, _COLUMN_ORDERS: STRUCT}
_GROUP_LISTS = {_GROUP_COLUMNS: STRUCT, 4: STRUCT}
_COLUMN_LISTS: ElementTypes = {
    3: {2: I32, 3: BINARY, 8: STRUCT, 13: STRUCT, 16: {2: I64, 3: I64}, 17: {2: I32}},
    8: {2: {1: BINARY}},
}
"""Element types of the lists of ``FileMetaData``, ``RowGroup`` and ``ColumnChunk``."""
_DEPTH_OF_COLUMN = 3


_FOOTERS: WeakKeyDictionary[pq.ParquetFile, bytes] = WeakKeyDictionary()


def keep_footer(file: pq.ParquetFile, read: Callable[[int, int], Any], size: int) -> None:
    """Read the footer of an open file for `column_chunks`. pyarrow has it, but crashes when it writes a damaged one.

    Args:
        file: the file.
        read: reads bytes from an offset.
        size: bytes of the file.
    """
    end = size - _END_BYTES
    length = int.from_bytes(read(end, 4), "little")
    _FOOTERS[file] = bytes(read(end - length, length))


def share_footer(file: pq.ParquetFile, other: pq.ParquetFile) -> None:
    """Keep the footer of a file for another one that was opened with its metadata."""
    _FOOTERS[other] = _FOOTERS[file]


class ColumnChunk(NamedTuple):
    """A column of a row group.

    Attributes:
        path: names from the top-level column down to it.
        kind: its physical type, as the footer numbers them; -1 if it has none.
        start: first byte of its first page.
        size: bytes of its pages, 0 if not recorded.
        values: values in its pages, nulls included, 0 if not recorded.
        low: lower bound of its values as stored, None if not recorded.
        high: upper bound.
        nulls: how many values are null, None if not recorded.
        ordered: whether the bounds are in the order of the column's type; without that they mean nothing.
    """

    path: tuple[str, ...]
    kind: int
    start: int
    size: int
    values: int
    low: bytes | None
    high: bytes | None
    nulls: int | None
    ordered: bool


def column_chunks(
    file: pq.ParquetFile, source: str, leaves: Container[int] | None = None
) -> list[dict[int, ColumnChunk]]:
    """Return the columns of each row group by their number, in the order of the footer.

    Args:
        file: a file whose footer was kept, as `io.parquet.parquet_file` does.
        source: its name, for errors.
        leaves: the columns to return; None = all.

    Raises:
        NotCanonical: a column has no place in the file.
        DecodeError: the footer is otherwise corrupt.
    """
    cursor = Cursor(_FOOTERS[file], source=source)
    groups: list[dict[int, Struct]] | None = None
    orders: Any = None
    for number, kind in fields(cursor):
        if number == _ROW_GROUPS and kind == LIST:
            groups = [_columns(cursor, leaves) for _ in range(element_count(cursor, STRUCT))]
        elif number == _COLUMN_ORDERS and kind == LIST:
            check_elements(cursor, STRUCT)
            orders = read(cursor, kind, 1)
        else:
            _skip(cursor, number, kind, _FILE_LISTS)
    if groups is None:
        raise cursor.error(NotCanonical, "footer", at=0, expected="a list of row groups")
    typed = [isinstance(order, dict) and order.keys() == {1} for order in orders or ()]
    return [
        {i: _chunk(chunk, i < len(typed) and typed[i], cursor) for i, chunk in columns.items()} for columns in groups
    ]


def _columns(cursor: Cursor, leaves: Container[int] | None) -> dict[int, Struct]:
    """Read a row group: its columns by number, as structs. Other columns than `leaves` are skipped."""
    found: dict[int, Struct] | None = None
    for number, kind in fields(cursor):
        if number != _GROUP_COLUMNS or kind != LIST:
            _skip(cursor, number, kind, _GROUP_LISTS)
            continue
        found = {}
        for i in range(element_count(cursor, STRUCT)):
            if leaves is None or i in leaves:
                found[i] = read_struct(cursor, _DEPTH_OF_COLUMN, _COLUMN_LISTS)
            else:
                skip(cursor, STRUCT)
    if found is None:
        raise cursor.error(NotCanonical, "row group", at=0, expected="a list of columns")
    return found


def _skip(cursor: Cursor, number: int, kind: int, lists: dict[int, int]) -> None:
    """Step over a field, unless it is a list whose elements pyarrow would read as another type."""
    if kind == LIST and number in lists:
        check_elements(cursor, lists[number])
    skip(cursor, kind)


def _chunk(found: Struct, ordered: bool, cursor: Cursor) -> ColumnChunk:
    metadata = get(found, 3, STRUCT, {})
    start = get(metadata, 9, I64)
    if start is None:
        raise cursor.error(NotCanonical, "column of a row group", at=0, expected="the offset of its first page")
    dictionary = get(metadata, 11, I64, 0)
    statistics = get(metadata, 12, STRUCT, {})
    path = get(metadata, 3, LIST, [])
    names = path if all(isinstance(name, bytes) for name in path) else []
    return ColumnChunk(
        tuple(name.decode(errors="replace") for name in names),
        kind=get(metadata, 1, I32, -1),
        start=min(start, dictionary) if dictionary > 0 else start,  # as pyarrow
        size=get(metadata, 7, I64, 0),
        values=get(metadata, 5, I64, 0),
        low=get(statistics, 6, BINARY),
        high=get(statistics, 5, BINARY),
        nulls=get(statistics, 3, I64),
        ordered=ordered,
    )

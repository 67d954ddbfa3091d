"""Where the columns of a Parquet file begin, their bounds and nulls, from its footer.

pyarrow cannot be asked for them: its `RowGroupMetaData.column` and `statistics` crash the process on a damaged footer
(more columns than in its schema, statistics of another size, an encrypted column), and so does `write_metadata_file`.
When it reads rows, it raises errors.

Specification: parquet.thrift, and Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Truncated

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["ColumnChunk", "PageSizes", "column_chunks", "keep_footer", "page_sizes", "share_footer"]

_END_BYTES = 8
_MAX_DEPTH = 16
_DICTIONARY_PAGE = 2
_ROW_GROUPS, _COLUMN_ORDERS, _GROUP_COLUMNS = 4, 7, 1
"""Fields of ``FileMetaData`` and ``RowGroup``."""
_DEPTH_OF_COLUMN = 3
_LONG = 15
"""In the head of a list: its length follows."""
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


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
    groups: list[dict[int, Any]] | None = None
    orders: Any = None
    for number, kind in _fields(cursor):
        if number == _ROW_GROUPS and kind == _LIST:
            groups = [_columns(cursor, leaves) for _ in range(_count(cursor, _STRUCT))]
        elif number == _COLUMN_ORDERS and kind == _LIST:
            orders = _value(cursor, kind, 1)
        else:
            _skip(cursor, kind)
    if groups is None:
        raise cursor.error(NotCanonical, "footer", at=0, expected="a list of row groups")
    typed = [isinstance(order, dict) and order.keys() == {1} for order in orders or ()]
    return [
        {i: _chunk(chunk, i < len(typed) and typed[i], cursor) for i, chunk in columns.items()} for columns in groups
    ]


def _columns(cursor: Cursor, leaves: Container[int] | None) -> dict[int, Any]:
    """Read a row group: its columns by number, as structs. Other columns than `leaves` are skipped."""
    found: dict[int, Any] | None = None
    for number, kind in _fields(cursor):
        if number != _GROUP_COLUMNS or kind != _LIST:
            _skip(cursor, kind)
            continue
        found = {}
        for i in range(_count(cursor, _STRUCT)):
            if leaves is None or i in leaves:
                found[i] = _struct(cursor, _DEPTH_OF_COLUMN)
            else:
                _skip(cursor, _STRUCT)
    if found is None:
        raise cursor.error(NotCanonical, "row group", at=0, expected="a list of columns")
    return found


class PageSizes(NamedTuple):
    """Unpacked sizes of the pages of a file.

    Attributes:
        at_once: bytes of the largest page of each column of a row group together, which a reader holds at the same
            time; the largest of all row groups.
        dictionaries: bytes of the dictionaries of a row group, any value of which may be in every row.
    """

    at_once: int
    dictionaries: int


def page_sizes(data: memoryview, chunks: list[dict[int, ColumnChunk]], source: str) -> PageSizes:
    """Return the unpacked sizes that the headers of a file's pages claim; pyarrow allocates as much.

    Args:
        data: the whole file.
        chunks: its `column_chunks`.
        source: its name, for errors.

    Raises:
        DecodeError: the header of a page is corrupt.
    """
    largest = PageSizes(0, 0)
    for group in chunks:
        pages = [_largest_pages(data, chunk, source) for chunk in group.values()]
        whole = (sum(max(one) for one in pages), sum(one.dictionaries for one in pages))
        largest = PageSizes(*map(max, largest, whole))
    return largest


def _largest_pages(data: memoryview, chunk: ColumnChunk, source: str) -> PageSizes:
    """Return the size of the largest page of a column, and that of its dictionary."""
    start = min(max(chunk.start, 0), len(data))
    cursor = Cursor(data[start : start + max(chunk.size, 0)], source=source, base=start)
    largest = dictionary = seen = 0
    while cursor.remaining and seen < chunk.values:
        at = cursor.pos
        header = _struct(cursor, 0)
        size, stored = header.get(2), header.get(3)
        if not isinstance(size, int) or not isinstance(stored, int) or size < 0 or stored < 0:
            raise cursor.error(NotCanonical, "header of a page", at=at, expected="two sizes", actual=(size, stored))
        largest = max(largest, size)
        if header.get(1) == _DICTIONARY_PAGE:
            dictionary = max(dictionary, size)
        seen += _field(header.get(5) or header.get(8), 1, int, 0)  # of either version
        cursor.take(min(stored, cursor.remaining), "page")
    return PageSizes(largest, dictionary)


def _field(struct: Any, number: int, kind: type, default: Any = None) -> Any:
    """Return a field of a struct, or the default if it is absent or not of this type."""
    value = struct.get(number) if isinstance(struct, dict) else None
    return value if isinstance(value, kind) else default


def _chunk(found: Any, ordered: bool, cursor: Cursor) -> ColumnChunk:
    metadata = _field(found, 3, dict, {})
    start = metadata.get(11) or metadata.get(9)  # of the dictionary, or of the data
    if not isinstance(start, int):
        raise cursor.error(NotCanonical, "column of a row group", at=0, expected="the offset of its first page")
    statistics = _field(metadata, 12, dict, {})
    path = _field(metadata, 3, list, [])
    names = path if all(isinstance(name, bytes) for name in path) else []
    return ColumnChunk(
        tuple(name.decode(errors="replace") for name in names),
        kind=_field(metadata, 1, int, -1),
        start=start,
        size=_field(metadata, 7, int, 0),
        values=_field(metadata, 5, int, 0),
        low=_field(statistics, 6, bytes),
        high=_field(statistics, 5, bytes),
        nulls=_field(statistics, 3, int),
        ordered=ordered,
    )


def _fields(cursor: Cursor) -> Iterator[tuple[int, int]]:
    """Yield number and type of each field of a struct; the caller reads the value of each."""
    number = 0
    while head := cursor.u8("field"):
        number = number + (head >> 4) if head >> 4 else _zigzag(cursor)
        yield number, head & 15


def _struct(cursor: Cursor, depth: int) -> dict[int, Any]:
    """Read a struct: field number -> value."""
    found: dict[int, Any] = {}
    for number, kind in _fields(cursor):
        found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else _value(cursor, kind, depth + 1)
    return found


def _count(cursor: Cursor, wanted: int) -> int:
    """Read a list header, check the element type, and return the number of elements."""
    head = cursor.u8("list")
    if head & 15 != wanted:
        raise cursor.error(NotCanonical, "element type of a list", expected=wanted, actual=head & 15)
    return cursor.uvarint("length of a list") if head >> 4 == _LONG else head >> 4


def _skip(cursor: Cursor, kind: int) -> None:
    """Step over the value of a field."""
    if kind in (_TRUE, _FALSE):
        return
    try:
        cursor.seek(_end(cursor, cursor.pos, kind, 1), "value")
    except IndexError:
        raise cursor.error(Truncated, "value", expected="a whole one", actual="the end of the footer") from None


def _end(cursor: Cursor, at: int, kind: int, depth: int) -> int:
    """Return where a value ends; raise `IndexError` if the footer ends first.

    This takes a third of the time of reading the value, and most of a footer describes columns that are not requested.
    """
    if depth > _MAX_DEPTH:
        raise cursor.error(NotCanonical, "footer", at=at, expected=f"at most {_MAX_DEPTH} levels", actual="more")
    data = cursor.view
    if kind in (_I16, _I32, _I64):
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == _STRUCT:
        while head := data[at]:
            at += 1
            if head < 16:  # the number of the field follows
                at = _end(cursor, at, _I16, depth)
            if head & 15 > _FALSE:
                at = _end(cursor, at, head & 15, depth + 1)
        return at + 1
    if kind in (_TRUE, _FALSE, _BYTE, _DOUBLE):  # booleans in a list take a byte
        at += 8 if kind == _DOUBLE else 1
        if at > len(data):  # a list may claim any number of them
            raise IndexError
        return at
    if kind not in (_BINARY, _LIST, _SET, _MAP):
        raise cursor.error(NotCanonical, "type of a field", at=at, expected=f"1 to {_STRUCT}", actual=kind)
    cursor.seek(at, "value")
    if kind == _BINARY:
        size = cursor.uvarint("length")
        return cursor.pos + size
    if kind == _MAP:
        count = cursor.uvarint("length of a map")
        kinds: tuple[int, ...] = divmod(cursor.u8("types of a map") if count else 0, 16)
    else:
        head = cursor.u8("list")
        count = cursor.uvarint("length of a list") if head >> 4 == _LONG else head >> 4
        kinds = (head & 15,)
    at = cursor.pos
    for _ in range(count):
        for one in kinds:
            at = _end(cursor, at, one, depth + 1)
    return at


def _value(cursor: Cursor, kind: int, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise cursor.error(NotCanonical, "footer", expected=f"at most {_MAX_DEPTH} levels", actual="more")
    if kind in (_TRUE, _FALSE, _BYTE):  # booleans in a list take a byte
        return cursor.u8("value")
    if kind in (_I16, _I32, _I64):
        return _zigzag(cursor)
    if kind in (_DOUBLE, _BINARY):
        return bytes(cursor.take(8 if kind == _DOUBLE else cursor.uvarint("length"), "value"))
    if kind in (_LIST, _SET):
        head = cursor.u8("list")
        count = cursor.uvarint("length of a list") if head >> 4 == _LONG else head >> 4
        return [_value(cursor, head & 15, depth + 1) for _ in range(count)]
    if kind == _MAP:
        count = cursor.uvarint("length of a map")
        kinds = cursor.u8("types of a map") if count else 0
        return [[_value(cursor, one, depth + 1) for one in (kinds >> 4, kinds & 15)] for _ in range(count)]
    if kind == _STRUCT:
        return _struct(cursor, depth)
    raise cursor.error(NotCanonical, "type of a field", expected=f"1 to {_STRUCT}", actual=kind)


def _zigzag(cursor: Cursor) -> int:
    value = cursor.uvarint("number")
    return value >> 1 ^ -(value & 1)

"""Where the columns of a Parquet file begin, their bounds and nulls, from its footer.

Asking pyarrow for them is not safe: `RowGroupMetaData.column` and `statistics` end the process on a damaged footer,
with more columns than its schema, statistics of another size, or an encrypted column. Reading rows raises errors.

Specification: parquet.thrift, and Thrift's compact protocol.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["ColumnChunk", "column_chunks"]

_MAGIC_BYTES, _END_BYTES = 4, 8
_MAX_DEPTH = 16
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


class ColumnChunk(NamedTuple):
    """A column of a row group.

    Attributes:
        start: first byte of its first page.
        low: lower bound of its values as stored, None if not recorded.
        high: upper bound.
        nulls: how many values are null, None if not recorded.
    """

    start: int
    low: bytes | None
    high: bytes | None
    nulls: int | None


def column_chunks(file: pq.ParquetFile, source: str) -> list[list[ColumnChunk]]:
    """Return the columns of each row group, in the order of the footer.

    Args:
        file: an open file.
        source: its name, for errors.

    Raises:
        NotCanonical: a column has no place in the file.
        DecodeError: the footer is otherwise corrupt.
    """
    out = io.BytesIO()
    file.metadata.write_metadata_file(out)
    cursor = Cursor(out.getbuffer()[_MAGIC_BYTES:-_END_BYTES], source=source)
    groups = _items(_struct(cursor, 0), 4, cursor)
    return [[_chunk(chunk, cursor) for chunk in _items(group, 1, cursor)] for group in groups]


def _chunk(found: Any, cursor: Cursor) -> ColumnChunk:
    metadata = found.get(3) if isinstance(found, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    start = metadata.get(11) or metadata.get(9)  # of the dictionary, or of the data
    if not isinstance(start, int):
        raise cursor.error(NotCanonical, "column of a row group", at=0, expected="the offset of its first page")
    found = metadata.get(12)
    statistics = found if isinstance(found, dict) else {}
    nulls, high, low = (statistics.get(number) for number in (3, 5, 6))
    return ColumnChunk(
        start,
        low if isinstance(low, bytes) else None,
        high if isinstance(high, bytes) else None,
        nulls if isinstance(nulls, int) else None,
    )


def _items(found: Any, number: int, cursor: Cursor) -> list[Any]:
    items = found.get(number) if isinstance(found, dict) else None
    if not isinstance(items, list):
        raise cursor.error(NotCanonical, f"field {number} of the footer", at=0, expected="a list")
    return items


def _struct(cursor: Cursor, depth: int) -> dict[int, Any]:
    """Read a struct: field number -> value."""
    found: dict[int, Any] = {}
    number = 0
    while head := cursor.u8("field"):
        number = number + (head >> 4) if head >> 4 else _zigzag(cursor)
        kind = head & 15
        found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else _value(cursor, kind, depth + 1)
    return found


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
        count = cursor.uvarint("length of a list") if head >> 4 == 15 else head >> 4
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

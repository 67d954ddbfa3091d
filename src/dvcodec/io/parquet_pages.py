"""What the pages of a Parquet file claim, from their headers: sizes and values.

pyarrow allocates what a header claims, so the walk has to see at least the pages that pyarrow sees: it begins at the
same byte, goes to the end of the column chunk, and counts values as pyarrow does.

Specification: parquet.thrift, ``PageHeader``. Source: Arrow's ``parquet/column_reader.cc`` (``NextPage``) and
``file_reader.cc`` (``ComputeColumnChunkRange``).
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.core.limits import Budget
from dvcodec.io.parquet_footer import ColumnChunk
from dvcodec.io.thrift import I32, STRUCT, Struct, get, read_struct

__all__ = ["PageSizes", "page_sizes"]

_DICTIONARY = 2
_HEADERS = {0: (5, 2), _DICTIONARY: (7, 2), 3: (8, 4)}
"""Page type -> fields of its own header in ``PageHeader``, and of the encoding in that."""
_DELTA_BYTE_ARRAY = 7
"""Encoding of a value as a prefix of the one before and a suffix, so that a page may repeat a value in every row."""
_PADDING = 100
"""Bytes behind a column chunk that pyarrow reads too: parquet-mr before 1.2.9 left out the header of the dictionary."""
_UNPACKED_PER_UNIT = 16
"""Decompressing a byte takes far less than a unit of work."""


class PageSizes(NamedTuple):
    """What the pages of a file unpack to.

    Attributes:
        at_once: bytes of the dictionary and the largest page of each column of a row group together, which a reader
            holds at the same time; the largest of all row groups.
        repeatable: bytes of the dictionaries of a row group, any value of which may be in every row; and of the largest
            pages whose values are prefixes of others. Columns of numbers have none: a value has as many bytes as a row.
        rows: values of the column that has the most, of those that have one in each row; the sum of all row groups.
        items: values of the columns that may have several in a row.
        repeating: of these columns, the bytes that they have at most if every value is the largest of those that may
            repeat; by number.
    """

    at_once: int
    repeatable: int
    rows: int
    items: int
    repeating: dict[int, int]


class _Column(NamedTuple):
    largest: int
    dictionary: int
    repeatable: int
    values: int


def page_sizes(
    data: memoryview,
    chunks: list[dict[int, ColumnChunk]],
    source: str,
    *,
    budget: Budget,
    repeated: Container[int] = (),
    numbers: Container[int] = (),
) -> PageSizes:
    """Return what the headers of a file's pages claim; pyarrow allocates as much.

    Args:
        data: the whole file.
        chunks: its `column_chunks`.
        source: its name, for errors.
        budget: headers and the bytes to decompress are charged; the results are not.
        repeated: columns that may have several values in a row.
        numbers: columns whose values have at most 12 bytes, whatever their pages claim.

    Raises:
        LimitExceeded: more pages, or more bytes to decompress, than a file of this size has.
        DecodeError: the header of a page is corrupt.
    """
    at_once = repeatable = rows = items = 0
    repeating: dict[int, int] = {}
    for group in chunks:
        columns = {i: _column(data, chunk, source, budget) for i, chunk in group.items()}
        at_once = max(at_once, sum(one.largest + one.dictionary for one in columns.values()))
        texts = (one for i, one in columns.items() if i not in numbers)
        repeatable = max(repeatable, sum(one.dictionary + one.repeatable for one in texts))
        rows += max((one.values for i, one in columns.items() if i not in repeated), default=0)
        for i, one in columns.items():
            if i in repeated:
                items += one.values
                repeating[i] = repeating.get(i, 0) + one.values * (one.dictionary + one.repeatable)
    return PageSizes(at_once, repeatable, rows, items, repeating)


def _column(data: memoryview, chunk: ColumnChunk, source: str, budget: Budget) -> _Column:
    """Walk over the pages of a column. pyarrow reads none if it has no values; its offset may be 0 then."""
    if chunk.values <= 0:
        return _Column(0, 0, 0, 0)
    start = min(max(chunk.start, 0), len(data))
    size = max(chunk.size, 0)
    cursor = Cursor(data[start : start + size + _PADDING], source=source, base=start)
    largest = dictionary = repeatable = values = 0
    while cursor.remaining and (cursor.pos < size or values < chunk.values):
        at = cursor.pos
        header = read_struct(cursor, 0)
        page_type, unpacked, stored = (get(header, number, I32, -1) for number in (1, 2, 3))
        count, encoding = _own_header(header, page_type)
        if min(unpacked, stored, count) < 0:
            actual = (unpacked, stored, count)
            expected = "two sizes and a number of values"
            raise cursor.error(NotCanonical, "header of a page", at=at, expected=expected, actual=actual)
        budget.charge(Budget.RECORD + unpacked // _UNPACKED_PER_UNIT, "pages", cursor.base + at)
        if page_type == _DICTIONARY:
            dictionary = max(dictionary, unpacked)
        else:
            largest = max(largest, unpacked)
            values += count
            if encoding == _DELTA_BYTE_ARRAY:
                repeatable = max(repeatable, unpacked)
        cursor.take(min(stored, cursor.remaining), "page")
    return _Column(largest, dictionary, repeatable, values)


def _own_header(header: Struct, page_type: int) -> tuple[int, int]:
    """Return the number of values and the encoding of a page; 0 values if pyarrow skips a page of its type."""
    if page_type not in _HEADERS:
        return 0, 0
    number, encoding = _HEADERS[page_type]
    own = get(header, number, STRUCT, {})
    return get(own, 1, I32, 0), get(own, encoding, I32, 0)

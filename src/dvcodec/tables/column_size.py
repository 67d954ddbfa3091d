"""How large columns are by their types alone: in a few bytes, a schema declares thousands of fields, or any width."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NO_COLUMNS", "Size", "nested", "size_of_type", "total"]

_LEAST_BYTES = 8
"""Of a value: offsets of a text, and as much time as a number takes, also for a boolean."""


class Size(NamedTuple):
    """The size of columns.

    Attributes:
        leaves: how many columns they are without nesting: fields of structs, elements of lists.
        bytes: of a row in memory. A null has the width of its type; lists and maps count as one element.
        levels: types around the leaves, counted for each leaf: each time rows are chosen, all of them are gone through.
    """

    leaves: int
    bytes: int
    levels: int = 0


NO_COLUMNS = Size(0, 0)


def total(sizes: Iterable[Size]) -> Size:
    """Return the size of several columns together."""
    every = list(sizes)
    return Size(sum(one[0] for one in every), sum(one[1] for one in every), sum(one[2] for one in every))


def nested(sizes: Iterable[Size]) -> Size:
    """Return the size of a column that has other ones in it."""
    size = total(sizes)
    return size._replace(levels=size.levels + size.leaves)


def size_of_type(kind: pa.DataType) -> Size:
    """Return the size of a column of an Arrow type."""
    if hasattr(kind, "list_size"):
        size = nested([size_of_type(kind.value_type)])
        width = size.bytes if kind.value_type.num_fields else _width(kind.value_type)
        return size._replace(bytes=max(width * kind.list_size, _LEAST_BYTES))
    if kind.num_fields:
        return nested(size_of_type(kind.field(i).type) for i in range(kind.num_fields))
    storage = getattr(kind, "storage_type", None)
    return Size(1, max(_width(kind), _LEAST_BYTES)) if storage is None else size_of_type(storage)


def _width(kind: pa.DataType) -> int:
    try:
        return int(kind.byte_width)
    except ValueError:  # bits, texts of any length, nulls
        return 1

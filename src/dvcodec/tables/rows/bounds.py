"""What metadata records of the values of a column in a data file, and whether a filter can be true of them.

pyarrow's datasets simplify a filter by what is known of a file, as they do for partitions and row groups: there is no
arithmetic of intervals here. They know ranges of values or nulls, not both in one column. So a column that may have
both is evaluated twice, and a file is skipped only if the filter is false or null for every combination.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import and_
from typing import Any, TypeAlias

from dvcodec.core.extras import ds, fs, pa, pc
from dvcodec.tables.metadata.json_fields import is_nan

_COMBINATIONS = 8
"""Most combinations of ranges and nulls that are evaluated; further columns count as unknown."""
_MOST_FOUND = 4096
_FIRST_SURROGATE = "\ud800"


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """What is known of the values of a column in a data file, deleted rows left aside; by default nothing.

    Attributes:
        lower: no value is less; of the column's type in the snapshot. None = unknown.
        upper: no value is greater.
        nulls: whether some may be null.
        values: whether some may be other than null.
        constant: all rows have the same value, by the definition of a partition: `lower`, or null if not `values`.
        counted: `nulls` and `values` say not only what may be, but what is.
    """

    lower: pa.Scalar[Any] | None = None
    upper: pa.Scalar[Any] | None = None
    nulls: bool = True
    values: bool = True
    constant: bool = False
    counted: bool = field(default=False, compare=False)

    @classmethod
    def of_partition(cls, value: pa.Scalar[Any]) -> ColumnBounds:
        """Return the bounds of a column whose value is the same in all rows."""
        if not value.is_valid:
            return cls(values=False, constant=True)
        if is_nan(value):  # it has no order
            return cls(nulls=False)
        if _is_float(value):  # zero may be its negative in the rows
            return cls(value, value, nulls=False)
        return cls(value, value, nulls=False, constant=True)

    def value(self, kind: pa.DataType) -> pa.Scalar[Any]:
        """Return the value of a constant column of a type."""
        return pa.scalar(None, kind) if self.lower is None else self.lower


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from `low` to `high`, both included; None = no end."""

    low: int | None = None
    high: int | None = None

    def both(self, other: Range) -> Range:
        """Return the numbers that are in both ranges."""
        lows = [one for one in (self.low, other.low) if one is not None]
        highs = [one for one in (self.high, other.high) if one is not None]
        return Range(max(lows, default=None), min(highs, default=None))

    @classmethod
    def around(cls, several: Iterable[Range]) -> Range:
        """Return the least range that has all of several."""
        low: list[int | None] = []
        high: list[int | None] = []
        for one in several:
            low.append(one.low)
            high.append(one.high)
        return cls(
            None if None in low else min(one for one in low if one is not None),
            None if None in high else max(one for one in high if one is not None),
        )


_NOTHING = ColumnBounds()
RowGroupFilter: TypeAlias = Callable[[int, int, Mapping[str, ColumnBounds]], bool]
"""Called for each row group of a data file, in order, with the position of its first row, how many rows it has, and
what its statistics say of the columns that are read; False leaves its rows out."""


class FilterBounds:
    """Whether a filter can be true of the rows of each of many data files: `may_be_true`, by what is known of each.

    A filter that pyarrow cannot evaluate rules nothing out.

    Args:
        filter_: of the columns of `schema`.
        schema: what the filter reads, at least.
    """

    def __init__(self, filter_: pc.Expression, schema: pa.Schema) -> None:
        self._filter, self._schema = filter_, schema
        try:
            schema.empty_table().filter(filter_)
            self._is_known = True
        except pa.ArrowException:  # half floats are not compared
            self._is_known = False
        self._found: dict[tuple[ColumnBounds, ...], bool] = {}  # Spark pickles it: a Cache has a lock

    def may_be_true(self, known: Mapping[str, ColumnBounds]) -> bool:
        """Return whether it can be; of files of which the same is known, or nothing, that is found out once."""
        if not self._is_known:
            return True
        key = tuple(known.get(name, _NOTHING) for name in self._schema.names)
        found = self._found.get(key)
        if found is None:
            found = self._is_possible(key)
            if len(self._found) < _MOST_FOUND:
                self._found[key] = found
        return found

    def _is_possible(self, known: tuple[ColumnBounds, ...]) -> bool:
        """Whether the filter can be true in one of the cases that are possible by the bounds of each column."""
        cases: list[list[pc.Expression]] = []
        count = 1
        for name, bounds in zip(self._schema.names, known, strict=True):
            if bounds != _NOTHING:
                found = _cases(name, bounds)
                count *= max(len(found), 1)
                if count > _COMBINATIONS:
                    break
                cases.append(found)
        file_format, filesystem = _format()
        fragments = [
            file_format.make_fragment("", filesystem, reduce(and_, chosen, ds.scalar(True)))
            for chosen in itertools.product(*cases)
        ]
        dataset = ds.FileSystemDataset(fragments, self._schema, file_format, filesystem)
        return any(True for _ in dataset.get_fragments(self._filter))


def _cases(name: str, known: ColumnBounds) -> list[pc.Expression]:
    """Return the possible cases for a row; exactly one applies."""
    column = pc.field(name)
    found = []
    if known.values:
        parts = [] if known.lower is None else [column >= known.lower]
        parts += [] if known.upper is None else [column <= known.upper]
        one = known.lower is not None and known.lower == known.upper
        if one and not _is_float(known.lower):  # pyarrow does not see that the range is one value
            parts = [column == known.lower]
        found.append(reduce(and_, parts) if parts else column.is_valid())
    if known.nulls:
        found.append(column.is_null())
    return found


def _is_float(value: Any) -> bool:
    return bool(pa.types.is_floating(value.type))


@lru_cache(maxsize=1)
def _format() -> tuple[Any, Any]:
    return ds.ParquetFileFormat(), fs.LocalFileSystem()


def safe_text(text: str) -> bool:
    """Whether text has the same place in the order of bytes and in that of UTF-16, whatever it is compared with.

    Writers on the JVM used either; they differ beyond U+D7FF alone.
    """
    return all(sign < _FIRST_SURROGATE for sign in text)


def ending_text(text: str) -> str | None:
    """Return text that is greater than all text that begins with the given one, None if there is none.

    >>> ending_text("ab"), ending_text("a\U0010ffff"), ending_text("\ud7ff") == "\ue000"
    ('ac', 'b', True)
    """
    text = text.rstrip(chr(sys.maxunicode))
    if not text:
        return None
    following = ord(text[-1]) + 1
    return text[:-1] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)

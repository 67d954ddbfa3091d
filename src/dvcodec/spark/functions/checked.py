"""The vectors of a column, checked, and ready to be expanded or loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec.core import batch, vector
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError
from dvcodec.core.rowset import RowSet
from dvcodec.spark.columns import BinaryColumn, binary_column

__all__ = ["POSITION_BITS", "Vectors"]

Index = NDArray[np.int64]

POSITION_BITS = 40
"""A number for a vector and a position share 63 bits."""
SHOWN = 12
"""Bytes of a vector that an error repeats."""


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """The vectors of a column that are not null, checked whole.

    Attributes:
        column: the column.
        rows: int64[n], the row of each vector.
        found: what they hold, one entry a vector.
    """

    column: BinaryColumn
    rows: Index
    found: batch.Survey

    @classmethod
    def of(cls, dv: pa.Array, *, strict: bool = True) -> Vectors:
        """Check the vectors of a column.

        Raises:
            DecodeError: the first that is not sound, if `strict`.
        """
        column = binary_column(dv)
        rows = np.flatnonzero(column.valid)
        vectors = cls(column, rows, batch.survey(column.data, column.starts[rows], column.sizes[rows]))
        if strict and vectors.found.errors:
            i = min(vectors.found.errors)
            vectors.refuse(i, vectors.found.errors[i])
        return vectors

    @property
    def starts(self) -> Index:
        """Where each begins in the column's bytes."""
        return self.column.starts[self.rows]

    @property
    def sizes(self) -> Index:
        """Bytes of each."""
        return self.column.sizes[self.rows]

    def refuse(self, i: int, error: DecodeError) -> NoReturn:
        """Raise an error that says which vector it is about: there is no file and no offset to name.

        Raises:
            DecodeError: always.
        """
        size = int(self.sizes[i])
        head = bytes(self.column.view(int(self.rows[i]))[:SHOWN]).hex(" ")
        source = f"deletion vector of {size} bytes ({head}{' ..' if size > SHOWN else ''})"
        raise self.local(i, error, source)

    def local(self, i: int, error: DecodeError, source: str | None = None) -> DecodeError:
        """Return an error whose offset counts from the beginning of the vector, not of the buffer."""
        offset = None if error.offset is None else error.offset - int(self.starts[i])
        return type(error)(error.what, source=source, offset=offset, expected=error.expected, actual=error.actual)

    def load(self, i: int) -> RowSet:
        """Return one of them as a row set."""
        cursor = Cursor(self.column.view(int(self.rows[i])))
        return vector.read(cursor, exact=True, verify_checksum=False).load()

    def expand(self, chosen: Index) -> tuple[Index, Index]:
        """Return the positions of some of them, one vector behind the other, and how many each has."""
        return batch.expand(self.column.data, self.starts[chosen], self.sizes[chosen], verify_checksum=False)

    def spread(self, values: NDArray[np.generic], kind: pa.DataType | None = None) -> pa.Array:
        """Return one value a vector as a column with one a row, null where there is no vector."""
        out = np.zeros(len(self.column.valid), values.dtype)
        out[self.rows] = values
        return pa.array(out, kind, mask=~self.column.valid)

    def keys(self, chosen: Index, codes: Index) -> Index:
        """Return the positions of some of them as sorted numbers ``code << 40 | position``; `codes` ascend."""
        positions, counts = self.expand(chosen)
        return np.asarray(np.repeat(codes << POSITION_BITS, counts) | positions)

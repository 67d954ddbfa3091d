"""Verified vectors of a column, to be expanded or loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec.core import batch, vector
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError
from dvcodec.core.ragged import Index
from dvcodec.core.rowset import RowSet
from dvcodec.spark.columns import BinaryColumn, binary_column
from dvcodec.spark.compare import POSITION_BITS

__all__ = ["Vectors"]


SHOWN = 12
"""Bytes of a vector that an error repeats."""


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """The non-null vectors of a column, all verified.

    Attributes:
        column: the column.
        rows: int64[n], the row of each vector.
        found: results of the verification, one per vector.
    """

    column: BinaryColumn
    rows: Index
    found: batch.Survey

    @classmethod
    def of(cls, dv: pa.Array, *, strict: bool = True) -> Vectors:
        """Verify the vectors of a column.

        Raises:
            DecodeError: the first corrupt one, if `strict`.
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
        """First byte of each in the column's buffer."""
        return self.column.starts[self.rows]

    @property
    def sizes(self) -> Index:
        """Bytes of each."""
        return self.column.sizes[self.rows]

    def refuse(self, i: int, error: DecodeError) -> NoReturn:
        """Raise an error that identifies the vector by its bytes, as it has no file or offset.

        Raises:
            DecodeError: always.
        """
        size = int(self.sizes[i])
        head = bytes(self.column.view(int(self.rows[i]))[:SHOWN]).hex(" ")
        source = f"deletion vector of {size} bytes ({head}{' ..' if size > SHOWN else ''})"
        raise self.local(i, error, source)

    def local(self, i: int, error: DecodeError, source: str | None = None) -> DecodeError:
        """Return an error with its offset relative to the vector, not to the buffer."""
        offset = None if error.offset is None else error.offset - int(self.starts[i])
        return type(error)(error.what, source=source, offset=offset, expected=error.expected, actual=error.actual)

    def load(self, i: int) -> RowSet:
        """Return one of them as a row set."""
        cursor = Cursor(self.column.view(int(self.rows[i])))
        return vector.read(cursor, verify_checksum=False).load()

    def expand(self, chosen: Index) -> tuple[Index, Index]:
        """Return the positions of some vectors, concatenated, and the count of each."""
        return batch.expand(self.column.data, self.starts[chosen], self.sizes[chosen], verify_checksum=False)

    def spread(self, values: NDArray[np.generic], kind: pa.DataType | None = None) -> pa.Array:
        """Spread one value per vector to a column with one per row, null where the vector is null."""
        out = np.zeros(len(self.column.valid), values.dtype)
        out[self.rows] = values
        return pa.array(out, kind, mask=~self.column.valid)

    def keys(self, chosen: Index, codes: Index) -> Index:
        """Return the positions of some of them as sorted numbers ``code << 40 | position``; `codes` ascend."""
        positions, counts = self.expand(chosen)
        return np.asarray(np.repeat(codes << POSITION_BITS, counts) | positions)

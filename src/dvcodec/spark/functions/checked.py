"""Verified vectors of a column, to be expanded or loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec.core import batch
from dvcodec.core.errors import DecodeError
from dvcodec.core.ragged import Flags, Index
from dvcodec.spark.columns import binary_column
from dvcodec.spark.compare import POSITION_BITS
from dvcodec.spark.vectors import VerifiedVectors

__all__ = ["Vectors"]


SHOWN = 12
"""Bytes of a vector that an error repeats."""


@dataclass(frozen=True, slots=True, eq=False)
class Vectors(VerifiedVectors):
    """The non-null vectors of a column, all verified.

    Attributes:
        rows: int64[n], the row of each vector.
        valid: bool, False for a null, of all rows.
    """

    rows: Index
    valid: Flags

    @classmethod
    def of(cls, dv: pa.Array, *, strict: bool = True) -> Vectors:
        """Verify the vectors of a column.

        Raises:
            DecodeError: the first corrupt one, if `strict`.
        """
        whole = binary_column(dv)
        rows = np.flatnonzero(whole.valid)
        column = whole.take(rows)
        vectors = cls(column, batch.survey(column.data, column.starts, column.sizes), rows, whole.valid)
        if strict and vectors.found.errors:
            i = min(vectors.found.errors)
            vectors.refuse(i, vectors.found.errors[i])
        return vectors

    def refuse(self, i: int, error: DecodeError) -> NoReturn:
        """Raise an error that identifies the vector by its bytes, as it has no file or offset.

        Raises:
            DecodeError: always.
        """
        size = int(self.column.sizes[i])
        head = bytes(self.column.view(i)[:SHOWN]).hex(" ")
        source = f"deletion vector of {size} bytes ({head}{' ..' if size > SHOWN else ''})"
        raise self.local(i, error, source)

    def local(self, i: int, error: DecodeError, source: str | None = None) -> DecodeError:
        """Return an error with its offset relative to the vector, not to the buffer."""
        offset = None if error.offset is None else error.offset - int(self.column.starts[i])
        return type(error)(error.what, source=source, offset=offset, expected=error.expected, actual=error.actual)

    def spread(self, values: NDArray[np.generic], kind: pa.DataType | None = None) -> pa.Array:
        """Spread one value per vector to a column with one per row, null where the vector is null."""
        out = np.zeros(len(self.valid), values.dtype)
        out[self.rows] = values
        return pa.array(out, kind, mask=~self.valid)

    def keys(self, chosen: Index, codes: Index) -> Index:
        """Return the positions of some of them as sorted numbers ``code << 40 | position``; `codes` ascend."""
        positions, counts = self.expand(chosen)
        return np.asarray(np.repeat(codes << POSITION_BITS, counts) | positions)

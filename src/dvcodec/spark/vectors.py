"""Verified vectors of a batch, and those with their data files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf

from dvcodec.core import batch, vector
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import DecodeError, UsageError
from dvcodec.core.ragged import Index
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import Vector
from dvcodec.io.file_key import check_data_file
from dvcodec.spark.columns import BinaryColumn, binary_column, texts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["NamedVectors", "VerifiedVectors", "vector_columns"]


def vector_columns(dvs: DataFrame) -> DataFrame:
    """Select what a job reads of a vectors DataFrame: ``data_file``, ``dv``, and ``error`` (null if absent).

    Raises:
        UsageError: no such columns.
    """
    missing = {"data_file", "dv"} - set(dvs.columns)
    if missing:
        raise UsageError(f"vectors need the columns data_file and dv: no {' and no '.join(sorted(missing))}")
    error = sf.col("error") if "error" in dvs.columns else sf.lit(None)
    return dvs.select("data_file", "dv", error.cast("string").alias("error"))


@dataclass(frozen=True, slots=True, eq=False)
class VerifiedVectors:
    """Vectors of a batch, all verified.

    Attributes:
        column: the frames; none is null.
        found: results of the verification.
    """

    column: BinaryColumn
    found: batch.Survey

    def read(self, i: int) -> Vector:
        """Walk one verified vector."""
        return vector.read(Cursor(self.column.view(i)), verify_checksum=False)

    def load(self, i: int) -> RowSet:
        """Return one of them as a row set."""
        return self.read(i).load()

    def expand(self, chosen: Index) -> tuple[Index, Index]:
        """Return the positions of some vectors, concatenated, and the count of each."""
        starts, sizes = self.column.starts[chosen], self.column.sizes[chosen]
        return batch.expand(self.column.data, starts, sizes, verify_checksum=False, max_rows=None)


@dataclass(frozen=True, slots=True, eq=False)
class NamedVectors(VerifiedVectors):
    """Vectors and their data files, all verified.

    Attributes:
        files: the data file of each.
    """

    files: list[str]

    @classmethod
    def of(
        cls, files: pa.Array, frames: pa.Array, errors: pa.Array | None = None, stated: Index | None = None
    ) -> NamedVectors:
        """Verify the vectors of a batch.

        Args:
            files: strings.
            frames: binary, whole frames.
            errors: strings: why a vector is missing.
            stated: int64, cardinality of each in metadata; -1 if unknown.

        Raises:
            UsageError: a vector without data file, or with one whose name is not UTF-8; a data file without vector.
            DecodeError: the first vector that is corrupt; the message names its data file.
        """
        if files.null_count:
            raise UsageError(f"{files.null_count} vectors name no data file")
        names, column = [str(name) for name in texts_of(files)], binary_column(frames)
        for name in names:
            check_data_file(name)
        if (i := first_true(~column.valid)) is not None:
            why = errors[i].as_py() if errors is not None else None
            raise UsageError(
                f"data file {names[i]!r} has no vector{f' ({why})' if why else ''}: "
                "filter out rows with an error, or repair them"
            )
        found = batch.survey(column.data, column.starts, column.sizes, cardinalities=stated)
        for i, err in sorted(found.errors.items())[:1]:
            raise named(err, names[i], int(column.starts[i]))
        return cls(column, found, names)


def named(err: DecodeError, data_file: str, start: int = 0) -> DecodeError:
    """Add the data file to an error, and make its offset relative to the vector."""
    offset = None if err.offset is None else err.offset - start
    return type(err)(err.what, source=f"vector of {data_file}", offset=offset, expected=err.expected, actual=err.actual)

"""Work on columns: a schema lists thousands in a few kilobytes, and data files of few rows need not have them."""

from __future__ import annotations

from dvcodec.core.errors import LimitExceeded
from dvcodec.core.limits import SharedWork
from dvcodec.io import Storage
from dvcodec.tables.column_size import Size
from dvcodec.tables.schema_evolution import Evolution

__all__ = ["AbsentColumns", "charge_columns", "charge_equality"]

_COMPARED_WORK = 2048
"""Work of comparing a column of a data file with the keys of equality deletes: 0.1 ms, however few rows there are."""
_WRITTEN_WORK = 2048
"""Work of a column that is written: 0.1 to 0.2 ms, also if all of it is null."""
_ABSENT_WORK, _LEVEL_WORK = 256, 32
"""Work of a column that a data file lacks, in each batch: 10 to 20 µs until it is written elsewhere, and 1 µs for each
type that is around it."""
_FEW_COLUMNS = 100
_FEW_BYTES = 256
"""Bytes of constants and defaults in a row that are not charged."""
_REPEATED_BYTES_PER_UNIT = 16
_BATCH_BYTES = 1 << 24
"""Of constants and defaults in a batch."""
_FEW_NULL_BYTES = 1024
"""Bytes of nulls in a row that are not charged."""
_NULL_BYTES_PER_UNIT = 32
"""A data file of two bytes a row has paid for an added vector of 4,096 numbers."""
_ELEMENT_BYTES_PER_UNIT = 8
"""Of nulls in elements of lists, which no batch bounds: the shared work is 128 MiB of them."""
_ROWS_BYTES = 1 << 25
"""Of a batch, if all its values were null."""


def charge_equality(source: str, compared: int, work: SharedWork) -> None:
    """Charge what all equality deletes of a snapshot compare, as far as the bytes of the metadata do not allow it.

    Args:
        source: the metadata file, for errors.
        compared: columns that they compare, of all data files together.
        work: of the table.

    Raises:
        LimitExceeded: there are more than the metadata and the shared work of the table allow.
    """
    what = "columns that equality deletes compare"
    work.draw_beyond(f"equality deletes of {source}", compared * _COMPARED_WORK, what)


def charge_columns(location: str, count: int, work: SharedWork) -> None:
    """Charge the columns of a file that is written, as far as the bytes of the metadata do not allow them.

    Args:
        location: the table's, for errors.
        count: of columns.
        work: of the table.

    Raises:
        LimitExceeded: there are more than the metadata and the shared work of the table allow: 8,192 in the smallest.
    """
    what = "columns to write (columns= and --column choose fewer)"
    work.draw_beyond(f"columns of {location}", count * _WRITTEN_WORK, what)


class AbsentColumns:
    """The work of columns of a table that a data file lacks: they take none of its bytes.

    A schema may have thousands of columns in a few kilobytes, also as fields of one struct, or a column of any width,
    and each small data file, or row group, is filled up with all of them. One default or partition value of kilobytes
    comes in every row. Up to 100 columns are not charged, nor 256 bytes of values and 1,024 bytes of nulls in a row.

    Args:
        location: of the data file.
        storage: opens it.
        evolution: of its columns.

    Raises:
        LimitExceeded: one row is larger than a batch.
    """

    def __init__(self, location: str, storage: Storage, evolution: Evolution) -> None:
        self._location, self._storage, self._evolution = location, storage, evolution
        self._work = storage.metadata_work
        sizes = evolution.sizes
        row = sum(size.bytes for size in sizes.values())
        if row > _ROWS_BYTES:
            widest = max(sizes, key=lambda name: sizes[name].bytes)
            expected = f"at most {_ROWS_BYTES} with those of nulls; name other columns (--column, columns=)"
            what = f"bytes of a row, most of them of column {widest:.80}"
            raise LimitExceeded(what, source=location, expected=expected, actual=row)
        repeated = evolution.repeated
        self._values = max(repeated - _FEW_BYTES, 0)
        self._most = min(_BATCH_BYTES // max(repeated, 1), _ROWS_BYTES // max(row, 1))
        self._absent: Size | None = None
        self._done, self._noted = 0, False
        evolution.on_elements = self._charge_elements

    def rows(self, batch_rows: int) -> int:
        """Return how many rows to read at a time."""
        return max(min(batch_rows, self._most), 1)

    def charge(self, rows: int) -> None:
        """Charge a batch of rows, before they are filled up.

        Raises:
            LimitExceeded: more than the bytes and the shared work of the table allow.
            NotCanonical: see `Evolution.absent`.
        """
        if self._absent is None:
            self._absent = self._evolution.absent
        columns, width, levels = self._absent
        if columns > _FEW_COLUMNS:
            self._done += columns * _ABSENT_WORK + levels * _LEVEL_WORK
        self._done += max(width - _FEW_NULL_BYTES, 0) * rows // _NULL_BYTES_PER_UNIT
        self._done += self._values * rows // _REPEATED_BYTES_PER_UNIT
        self._charge()

    def _charge_elements(self, width: int) -> None:
        self._done += width // _ELEMENT_BYTES_PER_UNIT
        self._charge()

    def _charge(self) -> None:
        if not self._done:
            return
        if not self._noted:
            with self._storage.open(self._location) as source:
                self._work.note(self._location, source.size)
            self._noted = True
        what = "columns that data files lack (columns= and --column choose fewer)"
        self._work.charge(self._location, self._done, what)

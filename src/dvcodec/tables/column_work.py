"""Work on columns: a schema lists thousands in a few kilobytes, and data files of few rows need not have them."""

from __future__ import annotations

from dvcodec.core.limits import SharedWork
from dvcodec.io import Storage

__all__ = ["AbsentColumns", "charge_columns", "charge_equality"]

_COMPARED_WORK = 2048
"""Work of comparing a column of a data file with the keys of equality deletes: 0.1 ms, however few rows there are."""
_WRITTEN_WORK = 2048
"""Work of a column that is written: 0.1 to 0.2 ms, also if all of it is null."""
_ABSENT_WORK, _FEW_ROWS = 256, 256
"""Work of a column that a data file lacks, in each batch of fewer rows: 10 to 20 µs until it is written elsewhere."""
_FEW_COLUMNS = 100
_FEW_BYTES = 256
"""Bytes of constants and defaults in a row that are not charged."""
_REPEATED_BYTES_PER_UNIT = 16
_BATCH_BYTES = 1 << 24
"""Of constants and defaults in a batch."""


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

    A schema may have thousands of columns in a few kilobytes, and each small data file, or row group, is filled up with
    all of them. One default or partition value of kilobytes comes in every row. Up to 100 columns, and 256 bytes of
    values in a row, are not charged; nor are columns in batches of 256 rows or more.

    Args:
        location: of the data file.
        storage: opens it.
        count: columns that are read and that it lacks.
        repeated: bytes of their values in each row.
    """

    def __init__(self, location: str, storage: Storage, count: int, repeated: int) -> None:
        self._location = location
        self._work = storage.metadata_work
        self._batch = count * _ABSENT_WORK if count > _FEW_COLUMNS else 0
        self._row = max(repeated - _FEW_BYTES, 0)
        self._most = _BATCH_BYTES // max(repeated, 1)
        self._done = 0
        if self._batch or self._row:
            with storage.open(location) as source:
                self._work.note(location, source.size)

    def rows(self, batch_rows: int) -> int:
        """Return how many rows to read at a time."""
        return max(min(batch_rows, self._most), 1)

    def charge(self, rows: int) -> None:
        """Charge a batch of rows.

        Raises:
            LimitExceeded: more than the bytes and the shared work of the table allow.
        """
        self._done += self._batch if rows < _FEW_ROWS else 0
        self._done += self._row * rows // _REPEATED_BYTES_PER_UNIT
        if self._done:
            what = "columns that data files lack (columns= and --column choose fewer)"
            self._work.charge(self._location, self._done, what)

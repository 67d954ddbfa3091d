"""Work on vectors and data files that are stored once but recorded many times, which takes a few bytes each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sized
from typing import Protocol, TypeVar

from dvcodec.core.limits import SharedWork
from dvcodec.io import Storage
from dvcodec.io.file_key import place_keys
from dvcodec.tables.model import DataFile, DeletionVector

__all__ = [
    "BYTES_PER_UNIT",
    "OPENED_WORK",
    "AbsentColumns",
    "HistoryWork",
    "charge_columns",
    "charge_equality",
    "charge_repeats",
    "charge_same_deletes",
    "charge_same_files",
]


class Listing(Protocol):
    """A snapshot."""

    @property
    def data_files(self) -> Sized:
        """Its data files."""

    @property
    def vectors(self) -> Sized:
        """Its vectors."""


S = TypeVar("S", bound=Listing)
_VECTOR_WORK, _SMALL, _BYTE_WORK = 8192, 128, 64
"""Work of a small vector, as `Budget` counts it: an audit takes 0.3 ms for it. And the bytes of such a vector, and the
work of each further byte: a bitmap of 19 bytes takes 50 µs."""
_FILE_WORK = 65_536
"""Work of a small data file: a delete takes 5 ms for it."""
BYTES_PER_UNIT = 2
"""Bytes of a vector that was read before for a unit of work: a container of ten bytes takes 0.2 µs."""
OPENED_WORK = 1024
"""Work of a data file or a vector of a snapshot that is opened whole."""


def charge_same_files(files: Iterable[DataFile], work: SharedWork) -> None:
    """Charge data files that are another one with another spelling; writers have none.

    Args:
        files: those of a snapshot.
        work: of the table.

    Raises:
        LimitExceeded: there are more of them than the shared work of the table allows: about 250.
    """
    keys = place_keys([file.location for file in files])
    repeats = len(keys) - len(set(keys))
    if repeats:
        ((location, _),) = Counter(keys).most_common(1)
        work.draw(f"data files at {location}", repeats * _FILE_WORK, "data files in several spellings")


def charge_repeats(vectors: Iterable[DeletionVector], work: SharedWork) -> None:
    """Charge the vectors that begin where another one begins; writers give each data file a vector of its own.

    Args:
        vectors: those of a snapshot. Inline ones are part of its metadata, and not charged here.
        work: of the table.

    Raises:
        LimitExceeded: there are more of them than the shared work of the table allows: about 2,000 small ones.
    """
    seen: set[tuple[str, int | None]] = set()
    repeats: Counter[str] = Counter()
    for vector in vectors:
        key = vector.location, vector.offset
        if key in seen and vector.path:
            repeats[vector.location] += _VECTOR_WORK + _BYTE_WORK * max((vector.size or 0) - _SMALL, 0)
        seen.add(key)
    for location, units in repeats.items():
        work.draw(f"vectors of {location}", units, "vectors that are recorded more than once")


class HistoryWork:
    """The work of one history, which goes through what snapshots list: the same data files and vectors again and again.

    Hundreds of snapshots may list the same tens of thousands of data files by turns, in a table of kilobytes. Together
    they may cost the shared work of the table, and what the bytes of all metadata and of all vectors that were read
    allow. Snapshots of real tables have metadata of their own, or differ little from the one before.

    Args:
        location: the table's, for errors.
        shared: its work.

    Attributes:
        done: work so far.
    """

    def __init__(self, location: str, shared: SharedWork) -> None:
        self._location = location
        self._shared = shared
        self.done = 0

    def note(self, file: str, stored: int) -> None:
        """Note the bytes of a file of vectors that were read; see `SharedWork.note`."""
        self._shared.note(file, stored)

    def opened(self, snapshot: S) -> S:
        """Charge a snapshot that was opened whole, and return it.

        Raises:
            LimitExceeded: see `charge`.
        """
        self.charge(len(snapshot.data_files) + len(snapshot.vectors), OPENED_WORK)
        return snapshot

    def charge(self, count: int, each: int) -> None:
        """Add work, of `each` units (see `Budget`) for each of a number of things.

        Raises:
            LimitExceeded: the history costs more than the table allows.
        """
        self.done += count * each
        beyond = self.done - self._shared.allowed
        if beyond > 0:
            what = "data files and vectors that snapshots list again"
            self._shared.draw(f"history of {self._location}", beyond, what)


_DELETES_WORK = 1 << 18
"""Work of a small file of equality deletes: reading its keys takes 5 ms."""
_COMPARED_WORK = 2048
"""Work of comparing a column of a data file with the keys of equality deletes: 0.1 ms, however few rows there are."""


def charge_same_deletes(locations: Iterable[str], work: SharedWork) -> None:
    """Charge equality deletes whose file is read more than once; writers list each file once.

    Args:
        locations: of the files, as often as they are read.
        work: of the table.

    Raises:
        LimitExceeded: there are more of them than the shared work of the table allows: about 60.
    """
    keys = place_keys(list(locations))
    repeats = len(keys) - len(set(keys))
    if repeats:
        ((location, _),) = Counter(keys).most_common(1)
        work.draw(f"equality deletes at {location}", repeats * _DELETES_WORK, "equality deletes of one file")


def charge_equality(source: str, compared: int, work: SharedWork) -> None:
    """Charge what all equality deletes of a snapshot compare, as far as the bytes of the metadata do not allow it.

    Args:
        source: the metadata file, for errors.
        compared: columns that they compare, of all data files together.
        work: of the table.

    Raises:
        LimitExceeded: there are more than the metadata and the shared work of the table allow.
    """
    beyond = compared * _COMPARED_WORK - work.allowed
    if beyond > 0:
        work.draw(f"equality deletes of {source}", beyond, "columns that equality deletes compare")


_WRITTEN_WORK = 2048
"""Work of a column that is written: 0.1 to 0.2 ms, also if all of it is null."""


def charge_columns(location: str, count: int, work: SharedWork) -> None:
    """Charge the columns of a file that is written, as far as the bytes of the metadata do not allow them.

    Args:
        location: the table's, for errors.
        count: of columns.
        work: of the table.

    Raises:
        LimitExceeded: there are more than the metadata and the shared work of the table allow: 8,192 in the smallest.
    """
    beyond = count * _WRITTEN_WORK - work.allowed
    if beyond > 0:
        work.draw(f"columns of {location}", beyond, "columns to write (columns= and --column choose fewer)")


_ABSENT_WORK, _FEW_ROWS = 256, 256
"""Work of a column that a data file lacks, in each batch of fewer rows: 10 to 20 µs until it is written elsewhere."""
_FEW_COLUMNS = 100
_FEW_BYTES = 256
"""Bytes of constants and defaults in a row that are not charged."""
_REPEATED_BYTES_PER_UNIT = 16
_BATCH_BYTES = 1 << 24
"""Of constants and defaults in a batch."""


class AbsentColumns:
    """The work of columns of a table that a data file lacks: they take none of its bytes.

    A schema may have thousands of columns in a few kilobytes, and each small data file, or row group, is filled up with
    all of them. One default or partition value of kilobytes comes in every row. Up to 100 columns, and 256 bytes of
    values in a row, are not charged, nor are batches of 256 rows.

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

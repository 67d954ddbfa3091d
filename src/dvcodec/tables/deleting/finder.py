"""Which rows to delete: a predicate, a set of keys or positions answer this for each data file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from dvcodec.core.rowset import RowSet
from dvcodec.tables.model import DataFile
from dvcodec.tables.table import Snapshot

__all__ = ["Finder", "Found"]


class Found(NamedTuple):
    """Rows of a data file.

    Attributes:
        rows: their 0-based physical positions; deleted rows may be among them.
        groups_skipped: row groups of the data file that were not read: their statistics rule them out.
    """

    rows: RowSet
    groups_skipped: int = 0


class Finder(ABC):
    """Finds the rows to delete. Methods may be called from several threads.

    Attributes:
        can_search_again: whether the rows can be looked for in data files that replaced others: positions cannot.
        counts_rows: whether a data file of which it finds all rows has no others: it reads them all, or knows that all
            match. Positions that the caller knows may be all that the metadata state, but fewer than the file has.
    """

    can_search_again: bool = True
    counts_rows: bool = True

    @abstractmethod
    def prepare(self, snapshot: Snapshot) -> None:
        """Check the question against a snapshot, before a data file is opened; called again for each new snapshot.

        Raises:
            UsageError: a column that the snapshot does not have, or values that its type does not have.
        """

    @abstractmethod
    def may_match(self, snapshot: Snapshot, data_file: DataFile) -> bool:
        """Whether rows of a data file may be among them, by partition values and recorded statistics alone."""

    def gather(self, snapshot: Snapshot, data_files: Sequence[DataFile]) -> None:  # noqa: B027  (few do)
        """Search all data files at once, before `find` is called for each of them.

        Raises:
            DvcodecError, OSError: see `find`.
        """

    @abstractmethod
    def find(self, snapshot: Snapshot, data_file: DataFile) -> Found:
        """Return the rows in a data file.

        Memory is bounded by a batch of rows.

        Raises:
            DecodeError, OSError: see `Snapshot.rows`.
        """

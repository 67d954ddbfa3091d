"""Plan a delete: search the data files that may match, and merge the rows found with those deleted before.

A `Finder` says which rows: by a predicate, a set of keys, or positions.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.io.parallel import run_bounded
from dvcodec.io.target import is_local
from dvcodec.tables.model import DataFile, Deletion, FileDelete, vectors_of
from dvcodec.tables.rows.physical import are_all_rows
from dvcodec.tables.snapshots.reading import Deletes, Progress
from dvcodec.tables.table import Snapshot


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


@dataclass(frozen=True, slots=True)
class Plan:
    """What a delete would commit on top of a snapshot.

    Attributes:
        base: the snapshot that was searched.
        deletes: data files that lose rows, in the order of the snapshot.
        searched: data files that may have such rows; opened unless partition values alone decide.
        skipped: data files that partition values or statistics rule out.
        groups_skipped: row groups in the data files searched that their own statistics rule out.
    """

    base: Snapshot
    deletes: tuple[FileDelete, ...]
    searched: int
    skipped: int
    groups_skipped: int = 0

    def deletion(self, snapshot: int | None, retries: int, size: int = 0, *, repeated: bool = False) -> Deletion:
        """Return the result of the plan.

        Args:
            snapshot: id of the snapshot that it was committed as; None if it was not.
            retries: conflicts on the way.
            size: bytes of the new vector files.
            repeated: see `Deletion`.
        """
        committed = snapshot is not None
        return Deletion(
            self.base.info.id if snapshot is None else snapshot,
            committed,
            self.deletes,
            self.searched,
            self.skipped,
            self.groups_skipped,
            retries,
            size,
            repeated,
        )


def plan_deletes(
    base: Snapshot, finder: Finder, *, threads: int | None = None, progress: Progress | None = None
) -> Plan:
    """Search a snapshot.

    Args:
        base: the newest snapshot of a table.
        finder: which rows; prepared for this snapshot.
        threads: data files searched at a time, each with a batch of rows in memory; None = one for each core, or for
            remote tables as many as the storage takes at once.
        progress: called with how many data files have been searched, and of how many.

    Raises:
        DecodeError, OSError: a vector or a data file is corrupt or cannot be read: its rows are unknown.
    """
    files = [file for file in base.data_files if finder.may_match(base, file)]
    finder.gather(base, files)
    current = _Current(base, finder)
    found = []
    if threads is None and is_local(base.table.location):
        threads = os.cpu_count() or 1
    threads = base.table.folder.storage.threads(base.table.location, threads)

    def search(file: DataFile) -> tuple[FileDelete | None, int]:
        rows, skipped = finder.find(base, file)
        return current.delete(file, rows), skipped

    groups_skipped = 0
    for done, (one, skipped) in enumerate(run_bounded(search, files, threads), 1):
        groups_skipped += skipped
        if one is not None:
            found.append(one)
        if progress is not None:
            progress(done, len(files))
    return Plan(base, tuple(found), len(files), len(base.data_files) - len(files), groups_skipped)


def plan_again(plan: Plan, newest: Snapshot, finder: Finder) -> Plan | None:
    """Move a plan to a newer snapshot: the same rows, merged with the vectors of the newer one.

    Rows of data files that were added meanwhile are not searched.

    Args:
        plan: for an older snapshot.
        newest: the newest snapshot.
        finder: of the plan.

    Returns:
        None if a data file of the plan is gone, or its row positions are those of another file.
    """
    current = _Current(newest, finder)
    found = []
    for old in plan.deletes:
        file = newest.files.get(old.data_file.path)
        if file is None or _content(file) != _content(old.data_file):
            return None
        one = current.delete(file, old.rows.difference(old.before))
        if one is not None:
            found.append(one)
    return Plan(newest, tuple(found), plan.searched, plan.skipped, plan.groups_skipped)


def _content(file: DataFile) -> tuple[int | None, int | None, tuple[str, ...]]:
    """Return what differs if a data file of one path has other values: a fragment of Lance may get other columns."""
    return file.size, file.physical_rows, file.files


class _Current:
    """The deletes that a snapshot has."""

    def __init__(self, snapshot: Snapshot, finder: Finder) -> None:
        self._snapshot = snapshot
        self._counted = finder.counts_rows
        self._vectors = vectors_of(snapshot.vectors)
        self._deletes = Deletes(snapshot)

    def delete(self, file: DataFile, rows: RowSet) -> FileDelete | None:
        """Return what is to be deleted from a data file; None if no live row is.

        Raises:
            UsageError: positions beyond the data file.
            NotCanonical, OSError: see `are_all_rows`.
        """
        if not rows:
            return None
        before = self._deletes(file)
        after = before.union(rows)
        if len(after) == len(before):
            return None
        count = file.physical_rows
        if count is None:
            count = self._snapshot.stored_rows(file)
        if count is not None and after.max is not None and after.max >= count:
            raise UsageError(
                f"{file.path}: row position {after.max}, expected below {count}, the rows of the data file"
            )
        whole = after.cardinality == count
        if whole and file.physical_rows is not None and not self._counted:
            whole = are_all_rows(self._snapshot, file, after)
        return FileDelete(file, tuple(self._vectors.get(file.path, ())), before, after, whole)

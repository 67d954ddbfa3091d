"""Run a delete: plan, write and commit, and again after a conflict.

A `Finder` says which rows: by a predicate, a set of keys, or positions. A `Plan` merges the rows that it finds with
those that were deleted before.

A format implements a `Committer`. How often a commit is retried after a conflict with another writer, and how long it
waits in between: `Retries`.
"""

from __future__ import annotations

import logging
import os
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from dvcodec.core.errors import CommitConflict, DecodeError, NotCanonical, Unsupported, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import DvLocation
from dvcodec.io.storage import run_bounded
from dvcodec.io.target import is_local
from dvcodec.tables.model import DataFile, Deletion, DeletionVector, FileDelete, paths_of
from dvcodec.tables.snapshots.reading import Deletes, Progress, are_all_rows
from dvcodec.tables.table import Snapshot
from dvcodec.tables.writing import committing, new_files

_TOP = 2**63 - 1
_LONGEST_MS = 600_000
"""Longest wait, whatever the properties of a table say."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a commit is retried, and how fast.

    Attributes:
        number: retries after the first attempt. With eight writers, each loses seven races for each that it wins.
        min_wait_ms: longest wait before the first retry, doubled for each further one; the actual wait is random.
        max_wait_ms: upper bound of a wait.
        total_ms: time after which no retry starts.
    """

    number: int = 50
    min_wait_ms: int = 50
    max_wait_ms: int = 5000
    total_ms: int = 1_800_000


class Backoff:
    """Counts the conflicts of one commit.

    Attributes:
        lost: conflicts so far.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._start = time.monotonic()

    def wait(self, conflict: CommitConflict | FileNotFoundError, retries: Retries) -> None:
        """Wait before the next retry.

        Raises:
            CommitConflict, FileNotFoundError: `conflict`, if no retries are left.
        """
        self.lost += 1
        if self.lost > retries.number or (time.monotonic() - self._start) * 1000 > retries.total_ms:
            raise conflict
        longest = min(retries.max_wait_ms, retries.min_wait_ms * 2 ** min(self.lost, 20), _LONGEST_MS)
        time.sleep(random.uniform(0, longest / 1000))  # noqa: S311  (no secret)


S = TypeVar("S", bound=Snapshot)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch of a stream whose deletes are committed once, recorded in the commit itself.

    Attributes:
        query: name of the stream, the same for all its batches and of no other stream.
        number: of the batch; they are committed in ascending order.
    """

    query: str
    number: int


STREAM_QUERY, STREAM_BATCH = "dvcodec.stream.query", "dvcodec.stream.batch"
"""What commits record a `StreamBatch` by, where the format has properties of a commit (Iceberg, Lance)."""


def batch_properties(batch: StreamBatch | None) -> dict[str, str]:
    """Return the properties of a commit of a batch; none without a batch."""
    return {} if batch is None else {STREAM_QUERY: batch.query, STREAM_BATCH: str(batch.number)}


def batch_number(text: object, source: str) -> int:
    """Return the number of a `StreamBatch` that a commit records as text.

    Raises:
        NotCanonical: it is not a whole number.
    """
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        found = "none" if text is None else f"{text!r:.60}"
        raise NotCanonical("number of a stream's batch", source=source, expected="a whole number", actual=found)
    return int(text)


_NUMBER = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Written:
    """The vectors of a commit, in files that the table does not reference yet.

    Attributes:
        locations: `DataFile.path` -> location of its new vector; data files that are removed have none.
        bytes_written: size of the files.
    """

    locations: dict[str, DvLocation]
    bytes_written: int


def check_read_back(location: str, written: Mapping[str, RowSet], found: Mapping[str, RowSet]) -> None:
    """Check that the vectors of a new file are those that were written.

    Raises:
        NotCanonical: they are not.
    """
    if found != written:
        expected = "the rows that were written"
        raise NotCanonical("vectors as read back", source=location, expected=expected, actual="others")


def check_next(what: str, number: int, source: str) -> None:
    """Check that the version, id or time of the next commit is a 64-bit number: nobody would read it otherwise.

    Args:
        what: which of them, for errors.
        number: the present one.
        source: where it is, for errors.

    Raises:
        Unsupported: it is not.
    """
    if number >= _TOP:
        raise Unsupported(what, source=source, expected=f"at most {_TOP - 1}, so that another follows", actual=number)


class Committer(ABC, Generic[S]):
    """Commits deletes to one table.

    `run` calls `current` and `check`, then `write` and `commit`, and repeats this after a conflict.

    Attributes:
        batch: recorded in the commit; None for a commit that is not one of a stream.
        dropped: vectors whose data file is gone, which the commit takes out of the table (Iceberg and Paimon; in other
            formats a vector is recorded with its data file).
    """

    batch: StreamBatch | None = None
    dropped: tuple[DeletionVector, ...] = ()

    @abstractmethod
    def current(self) -> S:
        """Return the newest snapshot of the table, read from the store or catalog and not from a cache.

        Raises:
            DecodeError: the metadata is corrupt.
            OSError: it cannot be read.
        """

    @abstractmethod
    def check(self, base: S) -> None:
        """Refuse a table that must not be written to.

        Raises:
            UsageError: it does not have deletion vectors enabled (the message says how to enable them), or forbids
                deletes.
            Unsupported: it uses a feature that is not known here; the message names it.
        """

    def check_vectors(self, base: S) -> None:
        """Refuse a table whose deletes are not vectors.

        Raises:
            UsageError: the message says how they are enabled.
        """

    def retries(self, base: S) -> Retries:  # noqa: ARG002  (of the formats whose tables say it)
        """Return how often the table wants a commit to be tried again after a conflict."""
        return Retries()

    def last_batch(self, base: S, query: str) -> int | None:
        """Return the highest batch of a stream that commits up to a snapshot record; None without any.

        Raises:
            UsageError: the format has no place for it.
            DecodeError, OSError: the metadata is corrupt or cannot be read.
        """
        raise UsageError(f"{base.table.location}: commits of {base.table.kind.value} do not record batches of {query}")

    @abstractmethod
    def write(self, base: S, deletes: Sequence[FileDelete], written: list[str]) -> Written:
        """Write the new vectors into the table's folder under fresh names, and verify them as read back.

        Args:
            base: the snapshot to commit on top of.
            deletes: one for each data file that gets a vector.
            written: location of each new file, appended before the file is written: the caller removes them if the
                commit fails.

        Raises:
            UsageError: a row set that the format cannot store.
            OSError: a file cannot be written.
        """

    @abstractmethod
    def commit(self, base: S, deletes: Sequence[FileDelete], written: Written, files: list[str]) -> int:
        """Commit in one atomic step and return the id of the new snapshot.

        An unanswered request is settled here, by reading back whether the commit is in.

        Args:
            base: the current snapshot must still be this one, else nothing is committed.
            deletes: one for each data file; those with `FileDelete.whole` are removed from the table.
            written: of `write`.
            files: location of each further file that is written, appended before it is.

        Raises:
            CommitConflict: the current snapshot is another one by now; nothing is committed.
            CommitUnknown: it could not be found out whether the commit is in.
            OSError: the table cannot be written; nothing is committed.
        """


def retried(committer: Committer[S], attempt: Callable[[S], R]) -> R:
    """Return what an attempt to commit returns; after a conflict it is made again on the newest snapshot.

    Raises:
        CommitConflict: no retries are left.
        UsageError, Unsupported: see `Committer.check`.
    """
    backoff = Backoff()
    while True:
        base = committer.current()
        committer.check(base)
        try:
            return attempt(base)
        except CommitConflict as conflict:
            backoff.wait(conflict, committer.retries(base))


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

    def candidates(self, snapshot: Snapshot) -> Sequence[DataFile]:
        """Return the data files that may have such rows, in order; see `may_match`."""
        return [file for file in snapshot.data_files if self.may_match(snapshot, file)]

    def gather(
        self,
        snapshot: Snapshot,  # noqa: ARG002  (of the finders that do)
        data_files: Sequence[DataFile],  # noqa: ARG002
    ) -> Mapping[str, Found]:
        """Search several data files at once, before `find` is called for each of the others.

        Returns:
            What was found, by path; those that are left out are to be searched one by one.

        Raises:
            DvcodecError, OSError: see `find`.
        """
        return {}

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

    def deletion(self, **done: Any) -> Deletion:
        """Return the result of the plan.

        Args:
            done: members of `Deletion` that differ from those of a plan that was not committed.
        """
        planned = self.deletes, self.searched, self.skipped, self.groups_skipped
        return replace(Deletion(self.base.info.id, False, *planned), **done)


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
    files = finder.candidates(base)
    gathered = finder.gather(base, files)
    current = _Current(base, finder)
    found = []
    if threads is None and is_local(base.table.location):
        threads = os.cpu_count() or 1
    threads = base.table.folder.storage.threads(base.table.location, threads)

    def search(file: DataFile) -> tuple[FileDelete | None, int]:
        rows, skipped = gathered.get(file.path) or finder.find(base, file)
        return current.delete(file, rows), skipped

    nothing = {path for path, one in gathered.items() if not one.rows}
    groups_skipped = sum(gathered[path].groups_skipped for path in nothing)
    left: Sequence[DataFile] = files
    if nothing:
        left = [files[number] for number, path in enumerate(paths_of(files)) if path not in nothing]
    if progress is not None and nothing:
        progress(len(nothing), len(files))
    for done, (one, skipped) in enumerate(run_bounded(search, left, threads), len(nothing) + 1):
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
        return FileDelete(file, tuple(self._snapshot.vectors_of(file)), before, after, whole)


LOG = logging.getLogger("dvcodec.delete")

Isolation: TypeAlias = Literal["snapshot", "serializable"]
"""``snapshot``: rows that others add meanwhile stay; ``serializable``: a data file that others add meanwhile, and that
may have such rows, fails the delete."""


@contextmanager
def interrupting() -> Iterator[None]:
    """Raise Ctrl-C during a query as `KeyboardInterrupt`: DuckDB takes the signal, and raises a `RuntimeError`."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None


@interrupting()
def run(
    committer: Committer[Any],
    finder: Finder,
    *,
    isolation: Isolation = "snapshot",
    dry_run: bool = False,
    retries: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    batch: StreamBatch | None = None,
) -> Deletion:
    """Delete the rows that a finder finds, in one commit.

    Args:
        committer: of the table.
        finder: which rows.
        isolation: see `Isolation`.
        dry_run: plan only.
        retries: conflicts after which the last one is raised; None = as the table says, see `Committer.retries`.
        threads: data files searched at a time, see `plan_deletes`.
        progress: called with how many data files have been searched, and of how many.
        batch: of a stream: recorded in the commit; if the table has it, nothing is done.

    Raises:
        UsageError: the table or the question does not allow it.
        CommitConflict: another writer changed what this delete depends on.
        CommitUnknown: it could not be found out whether the commit is in.
        DecodeError, OSError: the table is corrupt, cannot be read or written.
    """
    backoff = Backoff()
    committer.batch = batch

    def is_in(base: Snapshot) -> bool:
        last = None if batch is None else committer.last_batch(base, batch.query)
        return batch is not None and last is not None and last >= batch.number

    def wait(base: Snapshot, conflict: CommitConflict | FileNotFoundError) -> None:
        # Others may have committed since the base, and removed files that it needs.
        if isinstance(conflict, FileNotFoundError) and committer.current().info.id == base.info.id:
            raise conflict
        wanted = committer.retries(base)
        backoff.wait(conflict, wanted if retries is None else replace(wanted, number=retries))
        LOG.info("%s: conflict %d: %s", base.table.location, backoff.lost, conflict)

    def search() -> Plan:
        while True:
            base = committer.current()
            committer.check(base)
            if is_in(base):
                return Plan(base, (), 0, 0)
            finder.prepare(base)
            try:
                return plan_deletes(base, finder, threads=threads, progress=progress)
            except FileNotFoundError as gone:
                wait(base, gone)

    plan = search()
    while plan.deletes and not dry_run:
        try:
            snapshot, size = attempt(committer, plan)
            return plan.deletion(snapshot=snapshot, committed=True, retries=backoff.lost, bytes_written=size)
        except (CommitConflict, FileNotFoundError) as conflict:
            wait(plan.base, conflict)
        newest = committer.current()
        committer.check(newest)
        plan = Plan(newest, (), 0, 0) if is_in(newest) else _resolve(finder, plan, newest, isolation, search)
    return plan.deletion(retries=backoff.lost, repeated=is_in(plan.base))


def _resolve(finder: Finder, plan: Plan, newest: Snapshot, isolation: Isolation, search: Callable[[], Plan]) -> Plan:
    """Return the plan for the newest snapshot, after others have committed.

    Raises:
        CommitConflict: a data file of named positions is gone, or `serializable` and rows may have been added.
    """
    if finder.can_search_again:
        finder.prepare(newest)
    if isolation == "serializable":
        added = (file for path, file in newest.files.items() if path not in plan.base.files)
        found = next((file for file in added if finder.may_match(newest, file)), None)
        if found is not None:
            raise CommitConflict(
                f"{newest.table.location}: {found.path} was added meanwhile and may have rows to delete"
            )
    moved = plan_again(plan, newest, finder) if not finder.can_search_again or _is_alike(plan.base, newest) else None
    if moved is not None:
        return moved
    if not finder.can_search_again:
        gone = [one.data_file.path for one in plan.deletes if one.data_file.path not in newest.files]
        raise CommitConflict(
            f"{newest.table.location}: replaced meanwhile, with their row positions: {', '.join(gone[:3])}"
        )
    return search()


def _is_alike(base: Snapshot, newest: Snapshot) -> bool:
    """Whether two snapshots have the same columns; False if those of the older one can no longer be read."""
    try:
        return newest.has_columns_of(base)
    except (DecodeError, OSError):
        return False


def attempt(committer: Committer[Any], plan: Plan) -> tuple[int, int]:
    """Write and commit a plan once; return the id of the new snapshot and the bytes written.

    New files are removed if nothing was committed, and kept if that is not known.

    Raises:
        CommitConflict, CommitUnknown, DecodeError, UsageError, OSError: see `Committer.write` and `Committer.commit`.
    """
    with new_files(plan.base.table.folder.storage) as files:
        partial = [one for one in plan.deletes if one.rows and not one.whole]
        written = committer.write(plan.base, partial, files) if partial else Written({}, 0)
        with committing(files):
            snapshot = committer.commit(plan.base, plan.deletes, written, files)
    return snapshot, written.bytes_written

"""What a format implements so that deletes can be committed to its tables.

How often a commit is retried after a conflict with another writer, and how long it waits in between.
"""

from __future__ import annotations

import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dvcodec.core.errors import CommitConflict, NotCanonical, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import DvLocation
from dvcodec.tables.model import DeletionVector, FileDelete
from dvcodec.tables.table import Snapshot

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
            deletes: one for each data file, none of them `FileDelete.whole`.
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

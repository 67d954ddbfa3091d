"""How often a commit is retried after a conflict with another writer, and how long it waits in between."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from dvcodec.core.errors import CommitConflict

__all__ = ["Backoff", "Retries"]

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

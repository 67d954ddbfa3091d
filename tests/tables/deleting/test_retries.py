"""Retries of a commit: how many, and until when."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from dvcodec.core.errors import CommitConflict
from dvcodec.tables.deleting.run import Backoff, Retries

CONFLICT = CommitConflict("another writer was first")


class Clock:
    """Time that passes when it is told to, and the waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self.waits: list[float] = []
        given = SimpleNamespace(monotonic=lambda: self.seconds, sleep=self.waits.append)
        monkeypatch.setattr(sys.modules[Backoff.__module__], "time", given)


def test_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, backoff = Clock(monkeypatch), Backoff()
    for _ in range(2):
        backoff.wait(CONFLICT, Retries(number=2))
    with pytest.raises(CommitConflict, match="another writer was first"):
        backoff.wait(CONFLICT, Retries(number=2))
    assert (len(clock.waits), backoff.lost) == (2, 3)


def test_none_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, backoff = Clock(monkeypatch), Backoff()
    clock.seconds = 2.0
    backoff.wait(CONFLICT, Retries(total_ms=2000))
    clock.seconds = 2.001
    with pytest.raises(CommitConflict):
        backoff.wait(CONFLICT, Retries(total_ms=2000))
    assert len(clock.waits) == 1


def test_waits_double_up_to_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, backoff = Clock(monkeypatch), Backoff()
    monkeypatch.setattr(sys.modules[Backoff.__module__], "random", SimpleNamespace(uniform=lambda _, longest: longest))
    for _ in range(4):
        backoff.wait(CONFLICT, Retries(min_wait_ms=50, max_wait_ms=500))
    assert clock.waits == [0.1, 0.2, 0.4, 0.5]

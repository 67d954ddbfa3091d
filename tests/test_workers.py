"""How many worker processes there are. What they decode is tested with the formats."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from dvcodec.io import workers
from dvcodec.io.workers import Kind, borrowed

KIND = Kind("none", "nothing", "a test", 1, 1)


class Idle:
    """A worker without a process."""

    made = 0

    def __init__(self, kind: Kind) -> None:
        self.kind, self.environment, self.is_usable = kind, dict(os.environ), True
        Idle.made += 1

    def forget(self) -> None:
        pass

    def close(self) -> None:
        self.is_usable = False

    end = close


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(workers, "Worker", Idle)
    monkeypatch.setattr(workers, "_IDLE", [])
    monkeypatch.setattr(Idle, "made", 0)
    yield
    assert workers._lent["none"] == 0


def test_threads_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight times as many threads as workers, and each needs one ten times."""
    monkeypatch.setattr(workers, "_PATIENCE_S", 1000)
    at_work, most = set[int](), 0
    lock, together = threading.Lock(), threading.Barrier(workers._MOST)

    def work(number: int) -> None:
        nonlocal most
        for _ in range(10):
            with borrowed(KIND):
                with lock:
                    at_work.add(number)
                    most = max(most, len(at_work))
                together.wait()
                with lock:
                    at_work.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8 * workers._MOST)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == Idle.made == workers._MOST
    assert len(workers._IDLE) == workers._MOST


def test_who_waits_for_long_gets_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the threads that have the workers wait for the one that needs another."""
    monkeypatch.setattr(workers, "_PATIENCE_S", 0.05)
    done, holding = threading.Event(), threading.Barrier(workers._MOST + 1)

    def hold() -> None:
        with borrowed(KIND):
            holding.wait()
            done.wait()

    threads = [threading.Thread(target=hold) for _ in range(workers._MOST)]
    for thread in threads:
        thread.start()
    holding.wait()
    with borrowed(KIND):
        done.set()
    for thread in threads:
        thread.join()
    assert Idle.made == workers._MOST + 1

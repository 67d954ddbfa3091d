"""Ctrl-C while something is committed."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from dvcodec.core.interrupts import is_held_back, uninterrupted


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """A process in the background may have been started with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(times: int, *, fails: bool = False) -> list[str]:
    """Interrupt a block so often; return where it was left, and the words of the interrupt."""
    reached = ["begun"]

    def commit() -> None:
        with uninterrupted():
            assert is_held_back()
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            if fails:
                raise ValueError
            reached.append("committed")

    assert not is_held_back()
    with pytest.raises(KeyboardInterrupt) as caught:
        commit()
    assert not is_held_back()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return [*reached, *caught.value.args]


def test_the_first_interrupt_waits_and_the_second_does_not() -> None:
    assert interrupted(1) == ["begun", "committed", "interrupted; the commit is complete"]
    assert interrupted(2) == ["begun"]
    assert interrupted(1, fails=True) == ["begun"], "what failed is not called complete"


def test_an_interrupt_that_is_ignored_stays_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with uninterrupted():
        assert not is_held_back()
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN

"""Ctrl-C and commits: the first one waits until the commit is settled, a second one interrupts it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_sections = 0
"""Blocks of `uninterrupted` that hold Ctrl-C back: only those of the main thread, so no lock is needed."""


def is_held_back() -> bool:
    """Whether a block of `uninterrupted` is running that holds Ctrl-C back."""
    return _sections > 0


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the block ends; a second one interrupts it. Where it is ignored, it stays so.

    Raises:
        KeyboardInterrupt: at the end of the block, if Ctrl-C was held back; its message says so if the block succeeded.
    """
    global _sections  # noqa: PLW0603  (a state of the process)
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if held:
            before(number, frame)
        held.append(number)

    _sections += 1  # before the handler: who sees the signal sees the block, too
    try:
        signal.signal(signal.SIGINT, hold)
        message: tuple[str, ...] = ()
        try:
            yield
            message = ("interrupted; the commit is complete",)
        finally:
            signal.signal(signal.SIGINT, before)
            if held:
                raise KeyboardInterrupt(*message)
    finally:
        _sections -= 1

"""Process many items in a few threads, with bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from dvcodec.core.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_bounded(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Yield ``work(item)`` for each item, in order. At most two tasks per thread are pending.

    Raises:
        UsageError: fewer than one thread.
    """
    if threads < 1:
        raise UsageError(f"threads must be 1 or more, not {threads}")
    if threads == 1:
        yield from map(work, items)
        return
    left = iter(items)
    pool = ThreadPoolExecutor(threads)
    interrupted = False
    try:
        running: deque[Future[Result]] = deque(pool.submit(work, item) for item in islice(left, 2 * threads))
        while running:
            result = running.popleft().result()
            running.extend(pool.submit(work, item) for item in islice(left, 1))
            yield result
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        pool.shutdown(wait=not interrupted, cancel_futures=True)

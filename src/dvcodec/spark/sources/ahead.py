"""Remote files of one task, fetched ahead: a small one is one request, and many are under way at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from dvcodec.io import Storage
from dvcodec.io.remote import WHOLE_BYTES
from dvcodec.io.target import local_path

__all__ = ["AHEAD_BYTES", "fetch_small", "run_ahead"]

AHEAD_BYTES = 64 << 20
"""Bytes that are fetched, or being fetched, before they are wanted."""

Item = TypeVar("Item")


def run_ahead(
    items: Iterable[Item], job: Callable[[Item], tuple[int, Callable[[], object]] | None], threads: int
) -> Iterator[Item]:
    """Yield items in their order, each when its job is done; jobs of the next ones run meanwhile.

    What a job raises is raised when its item's turn comes.

    Args:
        items: in the order in which they are wanted.
        job: returns how many bytes will be in memory and what to run; None where nothing is to be done beforehand.
        threads: jobs at once. As many again are done, or wait, as long as all of them are not more than `AHEAD_BYTES`.
    """
    left = iter(items)
    queue: deque[tuple[Item, int, Future[object] | None]] = deque()
    under_way = 0
    with ThreadPoolExecutor(threads) as pool:
        try:
            while True:
                while len(queue) < 2 * threads and (under_way < AHEAD_BYTES or not queue):
                    try:
                        item = next(left)
                    except StopIteration:
                        break
                    found = job(item)
                    size = 0 if found is None else found[0]
                    queue.append((item, size, None if found is None else pool.submit(found[1])))
                    under_way += size
                if not queue:
                    return
                item, size, future = queue.popleft()
                if future is not None:
                    future.result()
                yield item
                under_way -= size
        finally:
            for _, _, future in queue:
                if future is not None:
                    future.cancel()


def fetch_small(path: str, size: int, stores: Storage) -> tuple[int, Callable[[], object]] | None:
    """Return the job of `run_ahead` that reads a small remote file whole, by one request; None for any other file.

    Args:
        path: of the file.
        size: bytes that the file has, by the list; below zero if it is not there.
        stores: keeps what was read, for who opens the file.
    """
    if not 0 < size <= WHOLE_BYTES or local_path(path) is not None:
        return None
    return size, partial(stores.remote(path, size).read_up_to, 0, size)

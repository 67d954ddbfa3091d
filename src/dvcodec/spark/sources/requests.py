"""Requests of tasks and the driver to object stores: files fetched ahead, and a log.

The logger is ``dvcodec.store`` at INFO. Python workers have no logging configuration, so the environment variable
``DVCODEC_LOG`` sets the level: ``info`` or ``debug`` (``spark.executorEnv.DVCODEC_LOG``). Lines go to the standard
error of executors, or to Spark's worker log (``spark.sql.pyspark.worker.logging.enabled``, pyspark 4.1).
"""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar

from pyspark import TaskContext

from dvcodec.core.text import LogFormatter
from dvcodec.io import Storage
from dvcodec.io.storage import WHOLE_BYTES
from dvcodec.io.store import request_counts
from dvcodec.io.store.requests import LOGGER
from dvcodec.io.target import is_local, is_url


@contextmanager
def counted(work: str, *paths: str) -> Iterator[None]:
    """Log the number of requests that a block made, even if it fails; nothing if all paths are local.

    A Python worker runs one task at a time, so all requests of its process are the task's.

    Args:
        work: name of the block in the log: ``read``, ``plan``.
        paths: that it reads or writes.
    """
    if not any(is_url(path) and not is_local(path) for path in paths):
        yield
        return
    before = request_counts()
    with _shown():
        try:
            yield
        finally:
            context = TaskContext.get()
            who = "driver" if context is None else f"stage {context.stageId()}, partition {context.partitionId()}"
            LOGGER.info("%s: %s: %s", who, work, request_counts() - before)


@contextmanager
def _shown() -> Iterator[None]:
    """Set the log level that ``DVCODEC_LOG`` names; without a handler, log to standard error."""
    level = {"info": logging.INFO, "debug": logging.DEBUG}.get(os.environ.get("DVCODEC_LOG", "").lower())
    if level is None:
        yield
        return
    old, handler = LOGGER.level, None if LOGGER.hasHandlers() else logging.StreamHandler(sys.stderr)
    LOGGER.setLevel(level)
    if handler is not None:
        handler.setFormatter(LogFormatter())
        LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.setLevel(old)
        if handler is not None:
            LOGGER.removeHandler(handler)


AHEAD_BYTES = 64 << 20
"""Maximum bytes fetched, or being fetched, before they are used."""

Item = TypeVar("Item")


def run_ahead(
    items: Iterable[Item], job: Callable[[Item], tuple[int, Callable[[], object]] | None], threads: int
) -> Iterator[Item]:
    """Yield items in order, each when its job is done, while jobs of later items run.

    The error of a job is raised when its item is due.

    Args:
        items: in the order of use.
        job: returns the bytes that will be in memory, and the function to run; None if there is nothing to prefetch.
        threads: number of concurrent jobs. As many more are queued or done, up to `AHEAD_BYTES`.
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


class ListedFile(Protocol):
    """A file, or a part of one."""

    @property
    def path(self) -> str:
        """Path or URL."""

    @property
    def size(self) -> int:
        """Bytes of the file by the listing; negative if it is missing."""


File = TypeVar("File", bound=ListedFile)


def fetched_ahead(files: Sequence[File], stores: Storage) -> Iterable[File]:
    """Yield files in order; if the first is remote, small ones are read whole ahead, by one request each.

    Args:
        files: in the order of use.
        stores: caches the bytes for whoever opens a file.
    """

    def job(file: File) -> tuple[int, Callable[[], object]] | None:
        if not 0 < file.size <= WHOLE_BYTES or is_local(file.path):
            return None
        return file.size, partial(stores.remote(file.path, file.size).read_up_to, 0, file.size)

    if not files or is_local(files[0].path):
        return files
    return run_ahead(files, job, stores.threads(files[0].path))

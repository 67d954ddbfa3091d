"""What tasks and the driver ask of object stores, in the log: logger ``dvcodec.store`` at INFO."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext

from dvcodec.io.store import request_counts
from dvcodec.io.store.requests import LOGGER
from dvcodec.io.target import is_url, local_path

__all__ = ["counted"]


@contextmanager
def counted(work: str, *paths: str) -> Iterator[None]:
    """Log how many requests a block has made, however it ends; nothing where all paths are local.

    A Python worker runs one task at a time, so what its process asks for meanwhile is the task's.

    Args:
        work: what is done, for the log: ``read``, ``plan``.
        paths: what it is done to.
    """
    if not any(is_url(path) and local_path(path) is None for path in paths):
        yield
        return
    before = request_counts()
    try:
        yield
    finally:
        context = TaskContext.get()
        who = "driver" if context is None else f"stage {context.stageId()}, partition {context.partitionId()}"
        LOGGER.info("%s: %s: %s", who, work, request_counts() - before)

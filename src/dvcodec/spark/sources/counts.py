"""What tasks and the driver ask of object stores, in the log: logger ``dvcodec.store`` at INFO.

Nobody sets up logging in Python workers, so there an environment variable does: ``DVCODEC_LOG``, ``info`` or ``debug``
(``spark.executorEnv.DVCODEC_LOG``). The lines are in the standard error of executors; where Spark collects what its
workers log (``spark.sql.pyspark.worker.logging.enabled``, pyspark 4.1), they are there.
"""

from __future__ import annotations

import logging
import os
import sys
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
    with _shown():
        try:
            yield
        finally:
            context = TaskContext.get()
            who = "driver" if context is None else f"stage {context.stageId()}, partition {context.partitionId()}"
            LOGGER.info("%s: %s: %s", who, work, request_counts() - before)


@contextmanager
def _shown() -> Iterator[None]:
    """Let through what the environment asks for, to standard error where nothing else takes it."""
    level = {"info": logging.INFO, "debug": logging.DEBUG}.get(os.environ.get("DVCODEC_LOG", "").lower())
    if level is None:
        yield
        return
    old, handler = LOGGER.level, None if LOGGER.hasHandlers() else logging.StreamHandler(sys.stderr)
    LOGGER.setLevel(level)
    if handler is not None:
        handler.setFormatter(logging.Formatter("dvcodec: %(message)s"))
        LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.setLevel(old)
        if handler is not None:
            LOGGER.removeHandler(handler)

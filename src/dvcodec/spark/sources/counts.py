"""Log of requests of tasks and the driver to object stores: logger ``dvcodec.store`` at INFO.

Python workers have no logging configuration, so the environment variable ``DVCODEC_LOG`` sets the level: ``info`` or
``debug`` (``spark.executorEnv.DVCODEC_LOG``). Lines go to the standard error of executors, or to Spark's worker log
(``spark.sql.pyspark.worker.logging.enabled``, pyspark 4.1).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext

from dvcodec.core.text import LogFormatter
from dvcodec.io.store import request_counts
from dvcodec.io.store.requests import LOGGER
from dvcodec.io.target import is_local, is_url

__all__ = ["counted"]


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
    """Apply the level of ``DVCODEC_LOG``; log to standard error if there is no handler."""
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

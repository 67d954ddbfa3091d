"""Requests: counted, logged, and retried after transient failures.

object_store retries silently. Its retries are switched off, and those made here are counted and logged. Logger
``dvcodec.store`` logs each retry at INFO and each request at DEBUG.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

from dvcodec.io.store.errors import Reason, StoreError
from dvcodec.io.store.options import RetryPolicy

LOGGER = logging.getLogger("dvcodec.store")
Result = TypeVar("Result")

_AGAIN = (Reason.THROTTLED, Reason.TIMEOUT, Reason.UNAVAILABLE, Reason.UNREACHABLE, Reason.CONFLICT)
_UNREACHABLE_RETRIES = 3
"""An endpoint where nothing listens is usually wrong: fail early, not after three minutes."""


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Requests of this process to stores; the difference of two is what happened in between.

    Attributes:
        get: reads of objects or byte ranges.
        head: requests for a size.
        list: listings, by page if the client reports pages.
        put: writes.
        delete: deletions.
        retries: number of these that were retries.
        bytes_read: bytes of objects read.
        bytes_written: bytes of objects written.
    """

    get: int = 0
    head: int = 0
    list: int = 0
    put: int = 0
    delete: int = 0
    retries: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def requests(self) -> int:
        """Requests of all kinds."""
        return self.get + self.head + self.list + self.put + self.delete

    def __sub__(self, other: RequestCounts) -> RequestCounts:
        return RequestCounts(*(getattr(self, one.name) - getattr(other, one.name) for one in fields(self)))

    def __str__(self) -> str:
        kinds = ("get", "head", "list", "put", "delete")
        made = ", ".join(f"{getattr(self, kind):,} {kind.upper()}" for kind in kinds if getattr(self, kind))
        return (
            f"{self.requests:,} request{'s' * (self.requests != 1)}{f' ({made})' if made else ''}, "
            f"{self.bytes_read:,} bytes read, "
            f"{self.bytes_written:,} written, {self.retries:,} retried"
        )


_LOCK = threading.Lock()
_COUNTS = {one.name: 0 for one in fields(RequestCounts)}


def request_counts() -> RequestCounts:
    """Return the requests of this process so far, in all threads.

    >>> before = request_counts()
    >>> (request_counts() - before).requests
    0
    """
    with _LOCK:
        return RequestCounts(**_COUNTS)


def _count(kind: str, by: int = 1) -> None:
    with _LOCK:
        _COUNTS[kind] += by


class Requests:
    """Makes the requests of one client.

    Args:
        policy: how to retry.
        most: requests at once.
    """

    def __init__(self, policy: RetryPolicy, most: int) -> None:
        self._policy = policy
        self._slots = threading.BoundedSemaphore(most)

    def make(
        self, kind: str, url: str, work: Callable[[int], Result], size: Callable[[Result], int] | None = None
    ) -> Result:
        """Make a request; retry transient failures.

        Args:
            kind: ``get``, ``head``, ``list``, ``put`` or ``delete``.
            url: for the log.
            work: makes one attempt, given the number of earlier ones; raises `StoreError`.
            size: returns the bytes of a result; None if it is not the content of an object.

        Raises:
            StoreError: the last attempt failed.
        """
        begun = time.monotonic()
        attempt = 0
        while True:
            started = time.monotonic()
            _count(kind)
            try:
                with self._slots:
                    result = work(attempt)
            except StoreError as err:
                attempt += 1
                wait = self._wait(err, attempt, time.monotonic() - begun)
                if wait is None:
                    LOGGER.debug("%s %s: %s", kind.upper(), url, err.reason.value)
                    raise
                _count("retries")
                LOGGER.info(
                    "%s %s: %s (%s): retry in %.1f s, %d of %d",
                    *(kind.upper(), url, err.reason.value, err.words, wait, attempt, self._policy.max_retries),
                )
                time.sleep(wait)
            else:
                count = 0 if size is None else size(result)
                _count("bytes_written" if kind == "put" else "bytes_read", count)
                LOGGER.debug("%s %s: %d bytes, %.0f ms", kind.upper(), url, count, 1000 * (time.monotonic() - started))
                return result

    def _wait(self, err: StoreError, attempt: int, elapsed: float) -> float | None:
        """Return the seconds to wait before the next attempt; None for no further attempt."""
        policy = self._policy
        most = policy.max_retries
        if err.reason is Reason.UNREACHABLE:
            most = min(most, _UNREACHABLE_RETRIES)
        if err.reason not in _AGAIN or attempt > most or elapsed > policy.timeout:
            return None
        longest: float = min(policy.init_backoff * 2 ** (attempt - 1), policy.max_backoff)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311  (jitter)

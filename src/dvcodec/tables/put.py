"""Commit by creating one file that must not exist yet, as all formats do, Iceberg in tables without a catalog."""

from __future__ import annotations

from dvcodec.core.errors import CommitConflict, CommitUnknown
from dvcodec.io import Storage
from dvcodec.io.store import Reason, StoreError

__all__ = ["put_once"]

_LOST = (Reason.TIMEOUT, Reason.UNAVAILABLE, Reason.UNREACHABLE)


def put_once(storage: Storage, location: str, data: bytes) -> None:
    """Create the file of a commit: of several writers, one succeeds.

    Raises:
        CommitConflict: another writer created it.
        CommitUnknown: the store did not answer, and does not have the file now: it may come later.
        UsageError: the store cannot create a file exclusively.
        OSError: it cannot be written; nothing is committed.
    """
    try:
        storage.put_if_absent(location, data)
    except FileExistsError:
        raise CommitConflict(f"{location}: committed by another writer") from None
    except StoreError as error:
        if error.reason not in _LOST:
            raise
        found = _stored(storage, location, len(data))
        if found is None:
            raise CommitUnknown(f"{location}: the commit was not answered: {error}") from error
        if found != data:
            raise CommitConflict(f"{location}: committed by another writer") from None


def _stored(storage: Storage, location: str, size: int) -> bytes | None:
    """Return a file's first bytes, one more than `size` at most; None if it is not there or cannot be read."""
    try:
        with storage.open(location) as source:
            return bytes(source.read(0, min(source.size, size + 1)))
    except OSError:
        return None

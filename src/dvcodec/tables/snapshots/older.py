"""Older snapshots that can be read where the current one is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from itertools import islice
from typing import TypeVar, cast

from dvcodec.core.errors import DecodeError, DvcodecError, LimitExceeded, Unsupported
from dvcodec.core.usage import check_integer
from dvcodec.tables.snapshots.findings import Finding, Severity
from dvcodec.tables.table import Snapshot, Table

Method = TypeVar("Method", bound=Callable[..., Snapshot])
_MOST = 10
"""Snapshots that are tried: each may take as long to open as the current one."""


def older_without(table: Table, findings: Iterable[Finding]) -> int | None:
    """Return the newest snapshot before the current one that has no vector or data file of these errors.

    Returns:
        Its id; None if there are no such errors, or it is not among the last few. It has data files, none of which is
        known to be damaged.
    """
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    vectors = {vector.where for finding in errors for vector in finding.vectors}
    files = {finding.data_file for finding in errors if not finding.vectors} - {None}
    if vectors or files:
        for older in _older_snapshots(table):
            other = files.isdisjoint(older.files) and vectors.isdisjoint(vector.where for vector in older.vectors)
            if other and older.data_files and not older.damaged_files():
                return older.info.id
    return None


def _older_snapshots(table: Table) -> Iterator[Snapshot]:
    """Yield snapshots before the current one that can be opened, the newest first; of many, the first few."""
    try:
        for number in islice(table.older_ids(), _MOST):
            try:
                yield table.snapshot(number)
            except (DvcodecError, OSError):
                continue
    except (DvcodecError, OSError):  # of the list of them
        return


def checks_snapshot(snapshot: Method) -> Method:
    """Check the id that is asked for; where the current snapshot is damaged, name an older one that can be read.

    The error of the current snapshot gets a note then.
    """

    @wraps(snapshot)
    def opened(table: Table, id: int | None = None) -> Snapshot:  # noqa: A002
        if id is not None:
            check_integer(id, "the id of a snapshot")
        try:
            return snapshot(table, id)
        except (DecodeError, FileNotFoundError) as error:
            if id is None and is_damage(error):
                older = next(_older_snapshots(table), None)
                if older is not None:
                    number = older.info.id
                    add_note(error, f"snapshot {number} can be read: --snapshot {number}, or snapshot_id={number}")
            raise

    return cast("Method", opened)


def is_damage(error: Exception) -> bool:
    """Whether an error says that a file is damaged or gone, not that this library does not read it."""
    damaged = isinstance(error, DecodeError) and not isinstance(error, (Unsupported, LimitExceeded))
    return damaged or isinstance(error, FileNotFoundError)


def add_note(error: Exception, note: str) -> None:
    """Add a note to an error, as `BaseException.add_note` of Python 3.11 does."""
    error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined, unused-ignore]

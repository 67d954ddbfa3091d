"""Select columns of a table, and report columns that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError

__all__ = ["chosen", "column_errors", "unrelated"]

_SHOWN = 10


def chosen(names: Iterable[str], columns: Sequence[str] | None, location: str) -> list[str]:
    """Return the columns to read, in this order.

    Args:
        names: of all columns.
        columns: those asked for; None = all.
        location: of the table, for errors.

    Raises:
        UsageError: no such column.
    """
    known = list(names)
    for name in columns or ():
        if name not in known:
            raise UsageError(f"{location} has no column {name!r}: it has {_some(known)}")
    return known if columns is None else list(columns)


@contextmanager
def column_errors(name: str) -> Iterator[None]:
    """Add the column to the error for its type, and the hint to leave it out.

    Raises:
        Unsupported: the block raised one.
    """
    try:
        yield
    except Unsupported as err:
        what = err.what if f"column {name}" in err.what else f"column {name} ({err.what})"
        expected = f"{err.expected}; name the other columns (--column, columns=) to leave this one out"
        raise Unsupported(what, source=err.source, offset=err.offset, expected=expected, actual=err.actual) from None


def unrelated(location: str, wanted: Iterable[str], found: Iterable[str]) -> NotCanonical:
    """Return the error for a data file that holds no column of the table: all its rows would be null.

    Args:
        location: of the data file.
        wanted: columns of the table that it should hold, one at least, as it would call them.
        found: its columns.
    """
    expected = f"one of {_some(list(wanted))} at least"
    return NotCanonical("columns of the data file", source=location, expected=expected, actual=_some(list(found)))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"{name:.80}" for name in names[:_SHOWN]) + more or "none"

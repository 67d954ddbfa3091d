"""Compare the column bounds that metadata records of a data file with those in the file's own footer.

Engines skip files by the first. Where they exclude rows that a file has, queries and deletes by condition miss these
rows. Both may be wider than the rows: lower bounds of text are cut off, upper bounds end with something greater than
what was cut off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dvcodec.core.errors import DvcodecError, MissingExtra
from dvcodec.core.extras import pa, types
from dvcodec.tables.bounds import ColumnBounds
from dvcodec.tables.findings import Finding
from dvcodec.tables.model import DataFile
from dvcodec.tables.table import Snapshot

__all__ = ["BoundsCheck"]

_MOST_SHOWN = 40


class BoundsCheck:
    """Compares the bounds of the data files of a snapshot. Safe to use from several threads."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._columns: list[str] | None = None
        self._has_bounds = type(snapshot).bounds is not Snapshot.bounds
        try:
            self._columns = snapshot.schema().names if self._has_bounds else []
        except MissingExtra:
            raise
        except (DvcodecError, OSError):  # of a column with an unknown type, for example
            pass

    def __call__(self, file: DataFile) -> tuple[list[Finding], list[str]]:
        """Compare the bounds of a Parquet file.

        Returns:
            Bounds that exclude rows: ``column-bounds``. And the columns whose bounds could not be compared, though the
            metadata records some.

        Raises:
            MissingExtra: a package that reads the file is not installed.
        """
        if not self._has_bounds:
            return [], []
        if self._columns is None:
            return [], ["every column"]
        groups: list[Mapping[str, ColumnBounds]] = []

        def note(_start: int, rows: int, known: Mapping[str, ColumnBounds]) -> bool:
            if rows:
                groups.append(known)
            return False  # no rows are read

        stated: Mapping[str, ColumnBounds] = {}
        try:
            found = self._snapshot.stated_bounds(file, self._columns)
            stated = {name: one for name, one in found.items() if one != ColumnBounds() and not one.constant}
            if stated and "parquet" in (file.file_format, file.location.lower().rpartition(".")[2]):
                next(self._snapshot.rows(file, columns=list(stated), wanted=note), None)
        except MissingExtra:
            raise
        except (DvcodecError, OSError):
            if not stated:
                return [], ["every column"]
            groups.clear()
        findings, unchecked = [], []
        for name, bounds in stated.items():
            known = [group[name] for group in groups if name in group]
            if len(known) < max(len(groups), 1) or not all(_is_known(one, bounds) for one in known):
                unchecked.append(name)
            for end, expected, actual in _excluded(bounds, known):
                what = f"{end} of column {name!r}, by which engines skip rows that the file has"
                texts = f"{expected} (its footer)", f"{actual} (metadata)"
                findings.append(Finding.failed("column-bounds", what, *texts, data_file=file.path, path=file.location))
        return findings, unchecked


def _is_known(group: ColumnBounds, stated: ColumnBounds) -> bool:
    """Whether a row group records what is needed to compare with what is stated of the file."""
    ends = (stated.lower is None or group.lower is not None) and (stated.upper is None or group.upper is not None)
    return (ends or not group.values) and (group.counted or (stated.nulls and stated.values))


def _excluded(stated: ColumnBounds, groups: Sequence[ColumnBounds]) -> Iterator[tuple[str, str, str]]:
    """Yield what excludes rows: its name, what it should be, and what it is."""
    lows = [group.lower for group in groups if group.lower is not None]
    if stated.lower is not None and lows:
        low, bound = min(map(_plain, lows)), _plain(stated.lower)
        if low < bound and not (_is_text(bound) and bound.startswith(low)):
            yield "lower bound", f"at most {_shown(low, stated.lower.type)}", _shown(bound, stated.lower.type)
    highs = [group.upper for group in groups if group.upper is not None]
    if stated.upper is not None and highs:
        high, bound = max(map(_plain, highs)), _plain(stated.upper)
        if (_before(high) if _is_text(high) else high) > bound:
            yield "upper bound", f"at least {_shown(high, stated.upper.type)}", _shown(bound, stated.upper.type)
    if not stated.nulls and any(group.counted and group.nulls for group in groups):
        yield "count of nulls", "some", "0"
    if not stated.values and any(group.counted and group.values for group in groups):
        yield "count of nulls", "fewer than rows", "as many as rows"


def _plain(scalar: pa.Scalar[Any]) -> Any:
    """Return a value that can be compared with others of its type."""
    return scalar.value if types.is_temporal(scalar.type) else scalar.as_py()


def _is_text(value: object) -> bool:
    return isinstance(value, (str, bytes))


def _before(text: Any) -> Any:
    """Return text that is not greater than the greatest text of which this may be the bound, if its end was cut off.

    >>> _before("abd"), _before(b"ab!")
    ('abc', b'ab ')
    """
    if not text or text[-1:] in ("\0", b"\0"):
        return text[:-1]
    if isinstance(text, bytes):
        return text[:-1] + bytes([text[-1] - 1])
    return text[:-1] + ("\ud7ff" if text[-1] == "\ue000" else chr(ord(text[-1]) - 1))


def _shown(value: Any, kind: pa.DataType) -> str:
    if types.is_temporal(kind):
        return str(pa.scalar(value, kind).cast(pa.string()))
    if isinstance(value, bytes):
        return value[:_MOST_SHOWN].hex()
    return repr(value[:_MOST_SHOWN]) if isinstance(value, str) else str(value)

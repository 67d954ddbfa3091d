"""Rows to delete by their positions, as the caller knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_type
from dvcodec.iceberg.position_deletes import FILE_PATH, POS, vectors_from_arrow
from dvcodec.tables.deleting.arrow_input import ArrowInput, open_batches
from dvcodec.tables.deleting.plan import Finder, Found
from dvcodec.tables.model import DataFile
from dvcodec.tables.snapshots.naming import FileNames
from dvcodec.tables.table import Snapshot

if TYPE_CHECKING:
    from dvcodec.core.rowset import Positions

PositionsInput: TypeAlias = "Mapping[str, Positions] | ArrowInput"


def positions_finder(positions: PositionsInput) -> Finder:
    """Find rows by data file and position.

    Args:
        positions: data file (see `FileNames.find` for its spellings) -> 0-based physical positions; or Arrow or Parquet
            with columns ``file_path`` and ``pos``, as Iceberg v2 has them, in any order.

    Raises:
        UsageError: no such columns, a null or a negative position.
        MissingExtra: pyarrow is not installed.
        DecodeError, OSError: a file cannot be read.
    """
    if not isinstance(positions, Mapping):
        with open_batches(positions, [FILE_PATH, POS], "positions") as batches:
            return _PositionsFinder(vectors_from_arrow(batches))
    for name in positions:
        check_type(name, str, "a data file in positions", "a str")
    return _PositionsFinder({name: RowSet(rows) for name, rows in positions.items()})


class _PositionsFinder(Finder):
    can_search_again = False
    counts_rows = False

    def __init__(self, positions: Mapping[str, RowSet]) -> None:
        self._positions = positions
        self._rows: Mapping[str, RowSet] = {}

    def prepare(self, snapshot: Snapshot) -> None:
        found: dict[str, RowSet] = {}
        names = FileNames(snapshot)
        for name, rows in self._positions.items():
            for file in names.find(name):
                found[file.path] = found.get(file.path, RowSet()) | rows
        for path, rows in found.items():
            _check(snapshot, snapshot.files[path], rows)
        self._rows = found

    def may_match(self, snapshot: Snapshot, data_file: DataFile) -> bool:  # noqa: ARG002
        return bool(self._rows.get(data_file.path))

    def find(self, snapshot: Snapshot, data_file: DataFile) -> Found:  # noqa: ARG002
        return Found(self._rows.get(data_file.path, RowSet()))


def _check(snapshot: Snapshot, file: DataFile, rows: RowSet) -> None:
    """Refuse positions beyond the rows of a data file."""
    if rows.max is None:
        return
    count = snapshot.stored_rows(file) if file.physical_rows is None else file.physical_rows
    if count is None:
        raise UsageError(f"{file.path}: its number of rows is not known, positions cannot be checked")
    if rows.max >= count:
        raise UsageError(f"{file.path}: position {rows.max} is beyond its {count} rows")

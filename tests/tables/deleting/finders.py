"""A finder for tests: rows by the values of a column, in the simplest way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dvcodec import RowSet
from dvcodec.tables import DataFile, Snapshot
from dvcodec.tables.deleting.run import Finder, Found


class Where(Finder):
    """Rows whose value in a column meets a condition."""

    def __init__(self, column: str, condition: Callable[[Any], bool]) -> None:
        self._column, self._condition = column, condition
        self.searched: list[str] = []

    def prepare(self, snapshot: Snapshot) -> None:
        snapshot.schema([self._column])

    def may_match(self, snapshot: Snapshot, data_file: DataFile) -> bool:  # noqa: ARG002
        return True

    def find(self, snapshot: Snapshot, data_file: DataFile) -> Found:
        self.searched.append(data_file.path)
        found = []
        for part in snapshot.rows(data_file, columns=[self._column]):
            values = part.batch.column(0).to_pylist()
            found += [part.start + i for i, value in enumerate(values) if self._condition(value)]
        return Found(RowSet(found))

"""Checks of what functions on tables are passed."""

from __future__ import annotations

from dvcodec.core.usage import check_callable, check_type
from dvcodec.tables.table import Table

__all__ = ["check_progress", "check_table"]


def check_table(table: object, name: str = "table") -> None:
    """Refuse an argument that is not an open table.

    Raises:
        UsageError: it is not a `Table`.
    """
    check_type(table, Table, name, "a Table (open_table(folder) opens one)")


def check_progress(progress: object) -> None:
    """Refuse an argument that is neither None nor callable.

    Raises:
        UsageError: it is not callable.
    """
    if progress is not None:
        check_callable(progress, "progress")

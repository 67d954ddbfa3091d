"""When a data file is worth rewriting, for tables, reports and Spark jobs."""

from __future__ import annotations

from dvcodec.core.errors import UsageError
from dvcodec.core.usage import check_integer, check_type

__all__ = ["WORTH_REWRITING", "check_thresholds"]

WORTH_REWRITING = 0.3
"""Share of deleted rows, Iceberg's default (``delete-ratio-threshold`` of its data file rewriter)."""


def check_thresholds(min_ratio: float, min_deleted: int) -> None:
    """Check the thresholds that a caller passes.

    Raises:
        UsageError: a share below 0 or above 1, or a negative number of rows.
    """
    check_type(min_ratio, (int, float), "min_ratio", "a number")
    check_integer(min_deleted, "min_deleted")
    if not 0 <= min_ratio <= 1 or min_deleted < 0:
        raise UsageError("min_ratio must be between 0 and 1, min_deleted not negative")

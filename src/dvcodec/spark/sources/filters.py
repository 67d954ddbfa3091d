"""Values that a filter of a query leaves of a column of strings."""

from __future__ import annotations

from pyspark.sql import datasource

__all__ = ["wanted_values"]


def wanted_values(one: datasource.Filter, column: str) -> frozenset[str] | None:
    """Return the values that ``=`` or ``in`` leaves; None for any other filter, or of another column.

    Args:
        one: what Spark hands to `pushFilters` (pyspark 4.1).
        column: a column of strings, not in a struct.
    """
    if getattr(one, "attribute", None) != (column,):
        return None
    if isinstance(one, datasource.EqualTo):
        return frozenset([one.value]) if isinstance(one.value, str) else None
    if isinstance(one, datasource.In):
        return frozenset(value for value in one.value if isinstance(value, str))
    return None

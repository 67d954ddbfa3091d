"""Rows for which a predicate is true: a pyarrow expression, or SQL text (see `sql`).

A pyarrow expression means what it means in pyarrow: rows for which it is null stay, but ``isin`` and ``is_null`` are
never null, so that ``~isin`` deletes nulls too. Integer division by zero and casts that fail are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.core.extras import pa, pc, require_extra
from dvcodec.tables.bounds import ColumnBounds, FilterBounds
from dvcodec.tables.deleting.matching import Condition, ConditionFinder, free_name, one_line
from dvcodec.tables.deleting.sql import SqlCondition
from dvcodec.tables.table import Snapshot

__all__ = ["where_finder"]

Predicate: TypeAlias = "pc.Expression | str"


def where_finder(where: Predicate) -> ConditionFinder:
    """Find the rows for which a predicate is true; those for which it is null are not found.

    Args:
        where: a pyarrow expression, or SQL text: one boolean expression in DuckDB's dialect (extra ``sql``).

    Raises:
        UsageError: neither of the two.
        MissingExtra: pyarrow is not installed.
    """
    require_extra("pyarrow.compute", "tables")
    if isinstance(where, str):
        return _WhereFinder(partial(SqlCondition, where))
    if isinstance(where, pc.Expression):
        return _WhereFinder(partial(_ExpressionCondition, where))
    raise UsageError(f"where: expected a pyarrow expression or SQL text, not {type(where).__name__}")


class _WhereFinder(ConditionFinder):
    def __init__(self, condition_of: Callable[[Snapshot], Condition]) -> None:
        self._condition_of = condition_of

    def bind(self, snapshot: Snapshot) -> Condition:
        return self._condition_of(snapshot)


class _ExpressionCondition(Condition):
    def __init__(self, expression: pc.Expression, snapshot: Snapshot) -> None:
        try:
            whole = snapshot.schema()
        except Unsupported as err:
            err.expected = f"{err.expected}, or SQL text in place of an expression: it names the columns that it reads"
            raise
        problem = _problem(expression, whole)
        if problem is not None:
            raise UsageError(f"where {expression!s:.200}: {problem} (columns: {', '.join(whole.names):.300})")
        self._expression = expression
        self.columns = tuple(_needed(expression, whole, whole.names, ()))
        self.name = f"where {expression!s:.200}"
        self.position = free_name("position", self.columns)
        self._bounds = FilterBounds(expression, snapshot.schema(self.columns))

    def may_match(self, known: Mapping[str, ColumnBounds]) -> bool:
        return self._bounds.may_be_true(known)

    def positions(
        self,
        batch: pa.RecordBatch,
        known: Mapping[str, ColumnBounds],  # noqa: ARG002  (of conditions that read less then)
    ) -> NDArray[np.int64]:
        try:
            found = pa.Table.from_batches([batch]).filter(self._expression)  # of a batch, pyarrow 19 fails without rows
        except pa.ArrowException as err:
            raise UsageError(f"{self.name}: {one_line(err)} (columns {', '.join(self.columns)})") from None
        return np.asarray(found.column(self.position), np.int64)


def _problem(expression: pc.Expression, schema: pa.Schema) -> str | None:
    """Return why an expression is not a filter of rows of a schema; None if it is."""
    try:
        schema.empty_table().filter(expression)
    except (pa.ArrowException, TypeError, ValueError) as err:
        return one_line(err).partition(" in ")[0]
    return None


def _needed(expression: pc.Expression, schema: pa.Schema, names: Sequence[str], others: Sequence[str]) -> Sequence[str]:
    """Return those of `names` that an expression reads besides `others`: by bisection, as pyarrow has no list."""
    if _problem(expression, pa.schema([schema.field(name) for name in others])) is None:
        return ()
    if len(names) == 1:
        return names
    half = len(names) // 2
    first = _needed(expression, schema, names[:half], [*names[half:], *others])
    return [*first, *_needed(expression, schema, names[half:], [*first, *others])]

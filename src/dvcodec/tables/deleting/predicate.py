"""Rows for which a predicate is true: a pyarrow expression, or SQL text (see `sql`).

A pyarrow expression means what it means in pyarrow: rows for which it is null stay, but ``isin`` and ``is_null`` are
never null, so that ``~isin`` deletes nulls too. Integer division by zero and casts that fail are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import pa, pc, types
from dvcodec.tables.deleting.expression import COMPARISONS, Call, Column, Literal, Node, nodes, parse, weaker
from dvcodec.tables.deleting.matching import Condition, ConditionFinder, free_name, one_line
from dvcodec.tables.deleting.sql import SqlCondition
from dvcodec.tables.rows.bounds import ColumnBounds, FilterBounds
from dvcodec.tables.rows.columns import EXTENSION, extensions, storage_field
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
        tree = parse(expression)
        self.name = f"where {expression!s:.200}"
        self.columns = tuple(dict.fromkeys(node.path[0] for node in nodes(tree) if isinstance(node, Column)))
        self.position = free_name("position", self.columns)
        schema = pa.schema(list(map(storage_field, snapshot.schema(self.columns))))
        problem = _problem_of_extensions(tree, schema) or _problem(expression, schema)
        if problem is not None:
            raise self._error(problem)
        self._expression = expression
        known = weaker(tree, schema)
        self._bounds = None if known is None else FilterBounds(known, schema)

    def _error(self, why: str) -> UsageError:
        advice = next((f"; {what}" for part, what in _ADVICE.items() if part in why), "")
        return UsageError(f"{self.name}: {why}{advice} (columns {', '.join(self.columns):.300})")

    def may_match(self, known: Mapping[str, ColumnBounds]) -> bool:
        return self._bounds is None or self._bounds.may_be_true(known)

    def positions(
        self,
        batch: pa.RecordBatch,
        known: Mapping[str, ColumnBounds],  # noqa: ARG002  (of conditions that read less then)
    ) -> NDArray[np.int64]:
        columns = [getattr(column, "storage", column) for column in batch.columns]
        rows = pa.Table.from_arrays(columns, batch.schema.names)  # of a batch, pyarrow 19 fails without rows
        try:
            found = rows.filter(self._expression)
        except pa.ArrowException as err:
            raise self._error(one_line(err)) from None
        return np.asarray(found.column(self.position), np.int64)


_ADVICE = {
    "timestamp with timezone": "give the time a zone like the column's: datetime(..., tzinfo=timezone.utc), or none",
    "not in range": "compare whole numbers with whole numbers: 2**60, not 2.0**60",
}
"""What to write instead, by a part of pyarrow's message."""
_OF_ANY_TYPE = ("is_null", "is_valid", "list_value_length")
"""Functions that do not look at values."""


def _problem(expression: pc.Expression, schema: pa.Schema) -> str | None:
    """Return why an expression is not a filter of rows of a schema; None if it is."""
    try:
        schema.empty_table().filter(expression)
    except (pa.ArrowException, TypeError, ValueError) as err:
        return one_line(err).partition(" in ")[0]
    return None


def _problem_of_extensions(tree: Node, schema: pa.Schema) -> str | None:
    """Return which column of an extension type is asked for more than whether it is null, or is a value as stored.

    pyarrow knows the storage alone: the text of a UUID is other bytes than those stored, and greater or less by chance.
    """
    for call in nodes(tree):
        if not isinstance(call, Call) or call.function in _OF_ANY_TYPE:
            continue
        for column in call.arguments:
            field = _stored_field(column, schema)
            extension = None if field is None else next(extensions(field), None)
            if field is None or extension is None:
                continue
            of_parts = EXTENSION not in (field.metadata or {})
            others = [other for other in call.arguments if other is not column] if call.function in COMPARISONS else []
            others += [Literal(value) for value in call.options["value_set"].values] if call.function == "is_in" else []
            if of_parts or not others or not all(_is_stored(other, field.type, schema) for other in others):
                bytes_of = "uuid.UUID('...').bytes" if extension == "arrow.uuid" else f"values of type {field.type}"
                advice = "use SQL text" if of_parts else f"compare it with {bytes_of}"
                return f"column {field.name:.80} has values of type {extension:.80}: {advice}"
    return None


def _stored_field(node: Node, schema: pa.Schema) -> pa.Field | None:
    if not isinstance(node, Column):
        return None
    found = schema.field(node.path[0])
    for name in node.path[1:]:
        if not types.is_struct(found.type) or found.type.get_field_index(name) < 0:
            return None
        found = storage_field(found.type.field(name))
    return found


def _is_stored(other: Node, storage: pa.DataType, schema: pa.Schema) -> bool:
    """Whether a node is a value, or a column, of a type of storage; bytes may have any width."""
    if not isinstance(other, Literal):
        field = _stored_field(other, schema)
        return field is not None and bool(field.type == storage)
    value = other.value
    if value.type == storage or not value.is_valid:
        return True
    if _is_bytes(value.type) and types.is_fixed_size_binary(storage):
        return len(value.as_py()) == int(storage.byte_width)
    return _is_bytes(value.type) and _is_bytes(storage)


def _is_bytes(kind: Any) -> bool:
    kinds = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(is_one(kind) for is_one in kinds)

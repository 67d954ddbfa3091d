"""Rows for which a predicate is true: a pyarrow expression, or SQL text (see `sql`).

A pyarrow expression means what it means in pyarrow: rows for which it is null stay, but ``isin`` and ``is_null`` are
never null, so that ``~isin`` deletes nulls too. Integer division by zero and casts that fail are errors.

Statistics answer comparisons of a column with a value that its type has exactly, ``is_in``, ``is_null``, ``is_valid``
and their combinations. pyarrow itself applies what is known to more, without a look at options: to
``is_null(nan_is_null=True)``, and to casts that are not safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial, reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import pa, pc, types
from dvcodec.tables.deleting.expression import Call, Column, Literal, Node, nodes, operands, parse, ranges_of
from dvcodec.tables.deleting.matching import Condition, ConditionFinder, free_name, one_line
from dvcodec.tables.deleting.sql import MIRRORED, MOST_VALUES, SqlCondition, combined
from dvcodec.tables.rows.bounds import ColumnBounds, FilterBounds
from dvcodec.tables.rows.columns import EXTENSION, extensions, is_text, storage_field
from dvcodec.tables.table import Snapshot

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "equal": eq,
    "not_equal": ne,
    "less": lt,
    "greater": gt,
    "less_equal": le,
    "greater_equal": ge,
}
_BOTH = {"and_kleene": and_, "or_kleene": or_}
_MATCH, _SKIP = 0, 1
"""Of ``null_matching_behavior``: null is a value like others; null is in no set."""


def weaker(node: Node, schema: pa.Schema) -> pc.Expression | None:
    """Return a filter that is true of every row for which an expression is; None if nothing is known.

    Args:
        node: of the expression.
        schema: the columns.
    """
    if isinstance(node, Call) and node.function in _BOTH:
        parts = [weaker(operand, schema) for operand in operands(node)]
        return combined(parts, is_and=node.function == "and_kleene")
    if isinstance(node, Call) and node.function == "is_in":
        return _is_in(node, schema)
    if isinstance(node, Call) and node.function == "if_else" and not _may_be_true(node.arguments[2]):
        return combined([weaker(one, schema) for one in node.arguments[:2]], is_and=True)  # as DuckDB asks for IN
    return _same(node, schema)


def _may_be_true(node: Node) -> bool:
    """Whether a node may be true, as far as that is seen without rows."""
    return not isinstance(node, Literal) or node.value.as_py() is True


def _same(node: Node, schema: pa.Schema) -> pc.Expression | None:
    """Return the expression of a node, if statistics can answer all of it."""
    if isinstance(node, Literal):
        return pc.scalar(node.value.as_py()) if types.is_boolean(node.value.type) and node.value.is_valid else None
    if isinstance(node, Column):
        field = _field(node, schema)
        return pc.field(field.name) if field is not None and types.is_boolean(field.type) else None
    if node.function in COMPARISONS:
        return _comparison(COMPARISONS[node.function], *node.arguments, schema=schema)
    if node.function in ("is_null", "is_valid"):
        field = _field(node.arguments[0], schema)
        if field is None or (node.function == "is_null" and node.options["nan_is_null"].as_py()):
            return None
        return pc.field(field.name).is_null() if node.function == "is_null" else pc.field(field.name).is_valid()
    if node.function == "invert":
        inner = _same(node.arguments[0], schema)
        return None if inner is None else ~inner
    if node.function in _BOTH:
        parts = [_same(operand, schema) for operand in operands(node)]
        return None if any(part is None for part in parts) else reduce(_BOTH[node.function], parts)
    return None


def _comparison(
    compare: Callable[[Any, Any], Any], left: Node, right: Node, *, schema: pa.Schema
) -> pc.Expression | None:
    if isinstance(left, Literal):
        compare, left, right = MIRRORED[compare], right, left
    field = _field(left, schema)
    value = _exact(right.value, field.type) if field is not None and isinstance(right, Literal) else None
    return None if field is None or value is None else compare(pc.field(field.name), value)


def _is_in(node: Call, schema: pa.Schema) -> pc.Expression | None:
    field, wanted = _field(node.arguments[0], schema), node.options["value_set"]
    nulls = node.options["null_matching_behavior"].as_py()
    if field is None or nulls not in (_MATCH, _SKIP) or len(wanted) > MOST_VALUES:
        return None
    column = pc.field(field.name)
    values = [_exact(value, field.type) for value in wanted.values if value.is_valid]
    if any(value is None for value in values):
        return None
    found = reduce(or_, (column == value for value in values), pc.scalar(False))
    return found | column.is_null() if nulls == _MATCH and wanted.values.null_count else found


def _field(node: Node, schema: pa.Schema) -> pa.Field | None:
    """Return a column; None for other nodes, and for fields in a column."""
    return schema.field(node.path[0]) if isinstance(node, Column) and len(node.path) == 1 else None


def _exact(value: pa.Scalar[Any], kind: pa.DataType) -> pa.Scalar[Any] | None:
    """Return a value in the type of a column, if the column is compared with it in the order of that type."""
    column, other = _family(kind), _family(value.type)
    if column is None or not value.is_valid or not (column == other or (column, other) in _ALIKE):
        return None
    try:
        if column in ("number", "float"):
            number = value.as_py()
            make = float if column == "float" else int if types.is_integer(kind) else Decimal
            made = pa.scalar(make(number), kind)
            return made if made.as_py() == number else None  # of NaN it is not
        array = pa.repeat(value, 1).cast(kind)
        return array[0] if array.cast(value.type)[0].equals(value) else None
    except (pa.ArrowException, ArithmeticError, ValueError):
        return None


_ALIKE = (("float", "number"), ("zoned", "date"), ("date", "zoned"), ("moment", "date"), ("date", "moment"))


def _family(kind: Any) -> str | None:
    if types.is_timestamp(kind):
        return "moment" if kind.tz is None else "zoned"
    if types.is_integer(kind) or types.is_decimal(kind):
        return "number"
    families: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("float", types.is_floating),
        ("date", types.is_date),
        ("time", types.is_time),
        ("boolean", types.is_boolean),
        ("text", lambda kind: is_text(kind) or types.is_fixed_size_binary(kind)),
    )
    return next((name for name, is_one in families if is_one(kind)), None)


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
        return ConditionFinder(partial(SqlCondition, where))
    if isinstance(where, pc.Expression):
        return ConditionFinder(partial(_ExpressionCondition, where))
    raise UsageError(f"where: expected a pyarrow expression or SQL text, not {type(where).__name__}")


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
        if known is not None:
            self.bounds, self.ranges = FilterBounds(known, schema), ranges_of(known, schema)

    def _error(self, why: str) -> UsageError:
        advice = next((f"; {what}" for part, what in _ADVICE.items() if part in why), "")
        return UsageError(f"{self.name}: {why}{advice} (columns {', '.join(self.columns):.300})")

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

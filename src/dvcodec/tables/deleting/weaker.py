"""What follows from a predicate in SQL and can be compared with column statistics.

Of DuckDB's tree: comparisons of a column with a value, ``BETWEEN``, ``IN``, ``IS NULL`` and ``IS NOT NULL``, combined
by AND and OR. Whatever else there is counts as true: files are then not skipped by it.

A value takes part only if the column's type has it exactly, and the comparison is one in the order of that type: text
compared with a number is not, as DuckDB makes numbers of the text, nor is an integer compared with a float, which is
compared as a float. DuckDB itself evaluates the values. Nothing is taken of text with a ``COLLATE``, which changes the
order of what is beside it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

from dvcodec.core.extras import pa, pc
from dvcodec.tables.deleting.engine import Engine

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "COMPARE_EQUAL": eq,
    "COMPARE_NOTEQUAL": ne,
    "COMPARE_LESSTHAN": lt,
    "COMPARE_GREATERTHAN": gt,
    "COMPARE_LESSTHANOREQUALTO": le,
    "COMPARE_GREATERTHANOREQUALTO": ge,
}
MIRRORED = {lt: gt, gt: lt, le: ge, ge: le, eq: eq, ne: ne}
_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_UNSIGNED = tuple(f"U{name}" for name in _SIGNED)
_FAMILIES = {
    **dict.fromkeys((*_SIGNED, *_UNSIGNED, "DECIMAL"), "number"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    **dict.fromkeys(
        (
            "DATE",
            "TIMESTAMP",
            "TIMESTAMP_S",
            "TIMESTAMP_MS",
            "TIMESTAMP_NS",
            "TIMESTAMP WITH TIME ZONE",
            "TIMESTAMPTZ_NS",
        ),
        "moment",
    ),
    "BLOB": "binary",
    "BOOLEAN": "boolean",
    "TIME": "time",
    "VARCHAR": "text",
}
MOST_VALUES = 1000
"""Most values in a list that are evaluated."""


@dataclass(frozen=True, slots=True)
class Literals:
    """Evaluates the values that columns are compared with.

    Attributes:
        engine: DuckDB.
        kinds: DuckDB's type of each column.
        schema: the columns.
    """

    engine: Engine
    kinds: Mapping[str, str]
    schema: pa.Schema

    def values(self, column: str, nodes: Sequence[dict[str, Any]]) -> list[pa.Scalar[Any]] | None:
        """Return values in the type of a column, without nulls; None if one is not of it, or has another order."""
        kind = self.kinds[column]
        if _family(kind) is None or len(nodes) > MOST_VALUES or not all(map(_is_constant, nodes)):
            return None
        names = [f"k{i}" for i in range(len(nodes))]
        try:
            given = f"({select_text(self.engine, nodes)}) AS given({', '.join(names)})"
            typeof = ", ".join(f"typeof({name})" for name in names)
            found = self._row(f"SELECT {typeof} FROM {given}")  # noqa: S608  (the tree was checked)
            casts, checks = [], []
            for name, node, other in zip(names, nodes, map(str, found), strict=True):
                if other == '"NULL"':
                    continue
                if not _ordered_alike(kind, other, node):
                    return None
                casts.append(f"TRY_CAST({name} AS {kind})")
                # A literal of text becomes what the cast makes of it, whatever that is.
                converted = _family(other) == "text" and _family(kind) != "text"
                checks.append(f"{casts[-1]} IS NOT NULL" if converted else f"{name} = {casts[-1]}")
            if not casts:
                return []
            row = self._row(f"SELECT {', '.join([*casts, *checks])} FROM {given}")  # noqa: S608
            if any(check.as_py() is not True for check in row[len(casts) :]):
                return None
            values = [value.cast(self.schema.field(column).type) for value in row[: len(casts)]]
            # NaN is greater than all in SQL, and not comparable in pyarrow.
            return None if _family(kind) == "float" and any(map(_is_nan, values)) else values
        except (*self.engine.error, pa.ArrowException):
            return None

    def _row(self, query: str) -> list[Any]:
        table = self.engine.query(query).to_arrow_table()
        return [table.column(i)[0] for i in range(table.num_columns)]


def select_text(engine: Engine, nodes: Sequence[dict[str, Any]]) -> str:
    """Return a query without tables for parts of a tree."""

    def ask(query: str) -> str:
        return str(engine.query(query).to_arrow_table().column(0)[0])

    plain = json.loads(ask("SELECT json_serialize_sql('SELECT true')"))
    plain["statements"][0]["node"]["select_list"] = list(nodes)
    literal = json.dumps(plain).replace("'", "''")
    return ask(f"SELECT json_deserialize_sql('{literal}')")


def weaker(node: dict[str, Any], literals: Literals) -> pc.Expression | None:
    """Return a filter that is true of every row for which a predicate is; None if nothing is known."""
    kind, word = node["class"], node["type"]
    if kind == "CONJUNCTION":
        return combined([weaker(child, literals) for child in node["children"]], is_and=word == "CONJUNCTION_AND")
    if kind == "COMPARISON" and word in _OPERATORS:
        left, right, compare = node["left"], node["right"], _OPERATORS[word]
        if _column(left, literals) is None:
            left, right, compare = right, left, MIRRORED[compare]
        return _comparison(left, compare, [right], literals)
    if kind == "BETWEEN" and word == "COMPARE_BETWEEN":
        name = _column(node["input"], literals)
        ends = None if name is None else literals.values(name, [node["lower"], node["upper"]])
        if ends is None or len(ends) != 2:  # one end decides how the other is compared
            return None

        return (pc.field(name) >= ends[0]) & (pc.field(name) <= ends[1])
    if kind == "OPERATOR":
        first, *others = node["children"]
        name = _column(first, literals)
        if name is None:
            return None
        if word in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            column = pc.field(name)
            return column.is_null() if word == "OPERATOR_IS_NULL" else column.is_valid()
        if word == "COMPARE_IN":
            return _comparison(first, eq, others, literals)
    return None


def combined(parts: Sequence[pc.Expression | None], *, is_and: bool) -> pc.Expression | None:
    """Return what follows from conditions that AND or OR combines, each by what follows from it; None = nothing."""
    known = [part for part in parts if part is not None]
    if is_and:
        return reduce(and_, known) if known else None
    return reduce(or_, known) if len(known) == len(parts) else None


def _comparison(
    left: dict[str, Any], compare: Callable[[Any, Any], Any], right: Sequence[dict[str, Any]], literals: Literals
) -> pc.Expression | None:
    """Return a comparison of a column with one of some values; None for other comparisons."""
    name = _column(left, literals)
    values = None if name is None else literals.values(name, right)
    if values is None:
        return None
    return reduce(or_, (compare(pc.field(name), value) for value in values), pc.scalar(False))


def _column(node: dict[str, Any], literals: Literals) -> str | None:
    """Return the table's name of the column that a node is; None for other nodes."""
    if node["class"] != "COLUMN_REF" or len(node["column_names"]) != 1:
        return None
    name = node["column_names"][0]
    return next((column for column in literals.kinds if column.lower() == name.lower()), None)


def _is_constant(node: Any) -> bool:
    if isinstance(node, dict):
        return node.get("class") != "COLUMN_REF" and all(map(_is_constant, node.values()))
    return all(map(_is_constant, node)) if isinstance(node, list) else True


def _is_nan(value: Any) -> bool:
    return bool(math.isnan(value.as_py()))


def _family(kind: str) -> str | None:
    return _FAMILIES.get(kind.partition("(")[0])


def _ordered_alike(kind: str, other: str, node: dict[str, Any]) -> bool:
    """Whether a column and a value are compared in the order of the column's type."""
    column, value = _family(kind), _family(other)
    if value == "text" and column != "text":
        return bool(node["class"] == "CONSTANT")  # a literal takes the column's type, other text does not
    return column == value or (column, value) == ("float", "number")

"""A predicate as SQL text, evaluated by DuckDB on batches (extra ``sql``).

Why DuckDB, of the engines that were tried (DuckDB 2.0, polars 2.1, DataFusion 55, sqlglot 30): what is deleted must be
exact, or an error.

- DuckDB compares decimals of 38 digits and integers with decimal literals exactly, and times to the nanosecond;
  overflow, casts that fail and, as set here, division by zero are errors. It parses to a tree that is checked before
  anything is evaluated.
- polars 2.1 cuts time literals to microseconds, wraps integer overflow around, and takes null for ``x % 0``: rows would
  stay silently. It does not compare times with a zone with literals.
- DataFusion 55 reads ``0.1`` as a float: ``n = 9007199254740993.0`` finds 9007199254740992 too. Overflow wraps around.
- sqlglot parses, and evaluates nothing.

Text is one boolean expression over the table's columns: subqueries, aggregates, lambdas, functions that depend on the
moment, on settings or on chance, and access to files are refused, as is text that is compared with another type
inexactly. Names are found as spelled, else in any case. Times without a zone are UTC; NaN equals itself and is greater
than all numbers, as in Spark.

What follows from a predicate and can be compared with column statistics, by which files are skipped: comparisons of a
column with a value, ``BETWEEN``, ``IN``, ``IS NULL`` and ``IS NOT NULL``, combined by AND and OR. Whatever else there
is counts as true. A value takes part only if the column's type has it exactly, and the comparison is one in the order
of that type: text compared with a number is not, as DuckDB makes numbers of the text, nor is an integer compared with a
float, which is compared as a float. DuckDB itself evaluates the values. Nothing is taken of text with a ``COLLATE``,
which changes the order of what is beside it.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache, reduce
from itertools import combinations
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import MissingExtra, UsageError
from dvcodec.core.extras import pa, pc, require_extra, types
from dvcodec.tables.deleting.expression import ranges_of
from dvcodec.tables.deleting.matching import Condition, free_name, one_line
from dvcodec.tables.rows.bounds import ColumnBounds, FilterBounds
from dvcodec.tables.rows.columns import chosen, extensions, storage_field
from dvcodec.tables.table import Snapshot

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
    "DATE": "moment",
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
    if kind.endswith("]"):  # pyarrow compares no lists
        return None
    return "moment" if kind.startswith("TIMESTAMP") else _FAMILIES.get(kind.partition("(")[0])


def _ordered_alike(kind: str, other: str, node: dict[str, Any]) -> bool:
    """Whether a column and a value are compared in the order of the column's type."""
    column, value = _family(kind), _family(other)
    if value == "text" and column != "text":
        return bool(node["class"] == "CONSTANT")  # a literal takes the column's type, other text does not
    return column == value or (column, value) == ("float", "number")


_SETTINGS = ("TimeZone='UTC'", "ieee_floating_point_ops=false", "error_on_division_by_zero=true")
_ROWS = "rows_of_the_batch"
"""Name of the table in queries, longer if the text has it."""
_LIKE = "LIKE is for text: CAST(column AS VARCHAR)"
_NULL_TESTS = ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL")
_MOMENTS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})


class SqlCondition(Condition):
    """A predicate as text, bound to the columns of a snapshot."""

    def __init__(self, text: str, snapshot: Snapshot) -> None:
        """Parse and check the text.

        Raises:
            UsageError: it is not one boolean expression over columns of the snapshot; the message says why.
            MissingExtra: DuckDB 2.0 or later is not installed.
        """
        self.name = f"where {' '.join(text.split()):.200}"
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"where {text!r:.200}: it has halves of characters, which are not text") from None
        self._text = text
        self._rows = _ROWS
        while self._rows in text.lower():
            self._rows += "_"
        self._engine = _open(os.getpid())
        tree = self._parse()
        self._refuse(check_functions(tree, self._ask, self._expression))
        self.columns = self._resolve(tree, snapshot)
        self.position = free_name("position", self.columns)
        schema = snapshot.schema(self.columns)
        self._given = GivenColumns(schema.insert(0, pa.field(self.position, pa.int64())))
        self._check_opaque(tree)
        self._kinds = dict(zip(self.columns, self._bind(schema), strict=True))
        self._refuse(check_comparisons(tree, self._types, self._ask))
        literals = Literals(self._engine, self._kinds, schema)
        self._weaker = None if any(nodes(tree, "COLLATE")) else weaker(tree, literals)
        if self._weaker is not None:
            self.bounds, self.ranges = FilterBounds(self._weaker, schema), ranges_of(self._weaker, schema)

    def positions(
        self,
        batch: pa.RecordBatch,
        known: Mapping[str, ColumnBounds],  # noqa: ARG002  (of conditions that read less then)
    ) -> NDArray[np.int64]:
        """Return the positions of the rows that match; see `Condition.positions`."""
        query = f"SELECT {_quoted(self.position)} FROM {self._rows} WHERE (\n{self._text}\n)"  # noqa: S608  (checked)
        try:
            found = self._query(query, self._given.batch(batch)).fetchnumpy()[self.position]
        except (*self._engine.error, pa.ArrowException) as err:
            raise self._error(err) from None
        return np.asarray(found, np.int64)

    def _query(self, query: str, rows: pa.RecordBatch) -> Any:
        return self._engine.query(query, self._rows, rows)

    def _refuse(self, problem: str | None) -> None:
        if problem is not None:
            raise self._error(problem)

    def _error(self, why: str | Exception) -> UsageError:
        """Return an error; after a fatal one, later conditions have another database."""
        if isinstance(why, self._engine.fatal):
            _open.cache_clear()
        named = f" (columns {', '.join(self.columns)})" if getattr(self, "columns", ()) else ""
        return UsageError(f"{self.name}: {why if isinstance(why, str) else _reason(why)}{named}")

    def _parse(self) -> Node:
        """Return the tree of the expression; the text is one, and stays one where it is put into a query."""
        alone = self._select(f"SELECT {self._text}\n")
        inside = self._select(f"SELECT x FROM {self._rows} WHERE (\n{self._text}\n)")  # noqa: S608  (parsed only)
        plain = self._select("SELECT true")
        tree = alone["select_list"][0] if len(alone.get("select_list", ())) == 1 else None
        if tree is None or tree.get("alias") or _without(alone) != _without(plain):
            raise self._error("expected one expression without clauses or names")
        wanted = self._select(f"SELECT x FROM {self._rows} WHERE true")  # noqa: S608
        if _bare(inside["where_clause"]) != _bare(tree) or _without(inside) != _without(wanted):
            raise self._error("expected one expression")
        return dict(tree)

    def _expression(self, text: str) -> Node:
        return dict(self._select(f"SELECT {text}")["select_list"][0])

    def _select(self, query: str) -> Node:
        found = self._ask("SELECT json_serialize_sql(text) AS tree FROM asked", [query])[0]
        parsed = json.loads(found["tree"])
        if parsed["error"] and "Only SELECT" in parsed["error_message"]:  # a semicolon, and another statement
            raise self._error("expected one expression, found several statements")
        if parsed["error"]:
            raise self._error(f"not SQL that can be used here: {parsed['error_message']}".partition("\n")[0])
        if len(parsed["statements"]) != 1:
            raise self._error(f"expected one expression, found {len(parsed['statements'])} statements")
        return dict(parsed["statements"][0]["node"])

    def _ask(self, query: str, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Run a query; see `Ask`."""
        found = self._engine.query(query, "asked", pa.RecordBatch.from_pydict({"text": pa.array(texts, pa.string())}))
        rows: list[dict[str, Any]] = found.to_arrow_table().to_pylist()
        return rows

    def _types(self, expressions: Sequence[Node]) -> list[str]:
        """Return the types of parts of the tree."""
        columns = {name.lower(): kind for name, kind in self._kinds.items()}
        names = [".".join(node.get("column_names", ())).lower() for node in expressions]
        if all(name in columns for name in names):
            return [columns[name] for name in names]
        query = select_text(self._engine, expressions)
        found = self._query(f"{query} FROM {self._rows}", _empty(self._given.schema)).types
        return [str(kind) for kind in found]

    def _resolve(self, tree: Node, snapshot: Snapshot) -> tuple[str, ...]:
        """Return the columns of the table that the text names."""
        names = dict.fromkeys(str(node["column_names"][0]) for node in nodes(tree, "COLUMN_REF"))
        found = tuple(dict.fromkeys(self._resolve_name(name, snapshot) for name in names))
        for first, other in combinations(found, 2):
            if first.lower() == other.lower():
                raise self._error(f"columns {first} and {other} differ in case alone: use a pyarrow expression")
        return found

    def _resolve_name(self, name: str, snapshot: Snapshot) -> str:
        with suppress(UsageError):
            snapshot.schema([name])
            return name
        every = snapshot.schema().names
        found = [other for other in every if other.lower() == name.lower()]
        if len(found) > 1:
            raise self._error(f"column {name} is one of {', '.join(found)}: spell it like one of them")
        if not found and name.lower() in _MOMENTS:
            raise self._error(f"{name} is something else each time: write the value itself")
        return found[0] if found else chosen(every, [name], snapshot.table.location)[0]

    def _check_opaque(self, tree: Node) -> None:
        """Refuse other questions than whether a column is null, where DuckDB gets only that."""
        opaque = {name.lower(): (name, extension) for name, extension in self._given.opaque.items()}
        asked = [id(node["children"][0]) for node in nodes(tree, "OPERATOR") if node["type"] in _NULL_TESTS]
        for node in nodes(tree, "COLUMN_REF"):
            found = opaque.get(str(node["column_names"][0]).lower())
            if found and (id(node) not in asked or len(node["column_names"]) > 1):
                name, extension = found
                why = f"column {name:.80} has values of type {extension:.80}"
                raise self._error(
                    f"{why}, which cannot be compared in SQL text: only IS NULL and IS NOT NULL can be used"
                )

    def _bind(self, schema: pa.Schema) -> Sequence[str]:
        """Return DuckDB's types of the columns; refuse types that it does not have, and what is not boolean."""
        every = f"SELECT * FROM {self._rows}"  # noqa: S608
        for field in schema:
            alone = pa.schema([field])
            try:
                self._query(every, GivenColumns(alone).batch(_empty(alone)))
            except (*self._engine.error, pa.ArrowException) as err:
                why = f"column {field.name:.80} of type {field.type!s:.80} cannot be used in SQL text"
                raise self._error(f"{why}: use a pyarrow expression ({_reason(err)})") from None
        empty = self._given.batch(_empty(schema.insert(0, self._given.schema.field(0))))
        try:
            kinds = self._query(every, empty).types
            (kind,) = self._engine.query(f"SELECT (\n{self._text}\n) FROM {self._rows}").types  # noqa: S608
        except self._engine.error as err:
            raise self._error(err) from None
        if str(kind) not in ("BOOLEAN", '"NULL"'):
            raise self._error(f"expected a condition, found a value of type {kind}")
        return [str(kind) for kind in kinds[1:]]


@lru_cache(maxsize=1)
def _open(process: int) -> Engine:  # noqa: ARG001  (a database does not survive a fork)
    """Open a database in memory that reaches no files, and evaluates in the caller's thread."""
    config = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "enable_external_access": "false",
        "threads": "1",
    }
    engine = Engine(config)
    for setting in _SETTINGS:
        engine.execute(f"SET GLOBAL {setting}")
    engine.execute("SET lock_configuration=true")
    return engine


def _without(select: dict[str, Any]) -> Any:
    """Return a parsed query without its one expression and its condition."""
    return _bare({name: value for name, value in select.items() if name not in ("select_list", "where_clause")})


def _bare(value: Any) -> Any:
    """Return a tree without places in the text."""
    if isinstance(value, dict):
        return {name: _bare(part) for name, part in value.items() if not name.startswith("query_location")}
    return [_bare(part) for part in value] if isinstance(value, list) else value


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _reason(err: Exception) -> str:
    """Return what DuckDB or Arrow says, without the name of the error and without settings to change."""
    text = one_line(err)
    if isinstance(err, UnicodeDecodeError):
        return "bytes that are not a value of the other type"
    if not isinstance(err, pa.ArrowException):
        text = text.partition(": ")[2].partition(" Use TRY(")[0]
    return text.replace("You might need to add explicit type casts", _LIKE) if "~~" in text else text


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


Node: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[[str, Sequence[str]], list[dict[str, Any]]]
"""Runs a query with a table ``asked``, whose column ``text`` has the given texts; returns the rows."""

_KNOWN = frozenset({"BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT"}) | {
    "FUNCTION",
    "OPERATOR",
    "TYPE",
}
_REFUSED = {
    "LAMBDA": "a lambda or ->",
    "PARAMETER": "a parameter",
    "POSITIONAL_REFERENCE": "a reference by number",
    "STAR": "*",
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
}
_ON_THE_DAY = ("age", 1)
"""Function and number of arguments: its other argument is midnight today, though DuckDB 2.0 calls it consistent."""
_OVERLOADS = """
    SELECT function_type, stability, parameters, macro_definition
    FROM duckdb_functions(), asked WHERE lower(function_name) = text
"""


def nodes(tree: Any, kind: str | None = None) -> Iterator[Node]:
    """Yield the expressions of a tree, those of one class if it is named."""
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "class" in value and kind in (None, value["class"]):
                yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def check_functions(tree: Node, ask: Ask, parse: Callable[[str], Node]) -> str | None:
    """Return why a tree is more than an expression over columns whose value stays; None if it is not.

    Args:
        tree: parsed by DuckDB.
        ask: see `Ask`.
        parse: parses an expression.
    """
    for node in nodes(tree):
        kind = node["class"]
        if kind not in _KNOWN:
            return f"{_REFUSED.get(kind, kind.lower())} cannot be used here"
    called = {(node["function_name"].lower(), len(node["arguments"])): None for node in nodes(tree, "FUNCTION")}
    problems = (_problem_of_function(name, count, ask, parse) for name, count in called)
    return next((problem for problem in problems if problem is not None), None)


def _problem_of_function(name: str, count: int, ask: Ask, parse: Callable[[str], Node]) -> str | None:
    """Return why a function cannot be called; None if it can.

    Some overloads of a name, those of times with a zone, depend on the session's time zone, which is fixed here.
    Functions that depend on the moment or on other settings have no overload that is consistent.
    """
    overloads = ask(_OVERLOADS, [name])
    kinds = {overload["function_type"] for overload in overloads}
    if not overloads:
        return f"no function {name}"
    if not kinds & {"scalar", "macro"}:
        return f"{name} is a function of several rows ({', '.join(sorted(kinds))})"
    scalar = {overload["stability"] for overload in overloads if overload["function_type"] == "scalar"}
    changes = (name, count) == _ON_THE_DAY or "VOLATILE" in scalar or (scalar and "CONSISTENT" not in scalar)
    if changes or not all(_is_steady(one, ask, parse) for one in overloads if one["function_type"] == "macro"):
        return f"{name}() may return something else each time: write the value itself"
    return None


def _is_steady(macro: Mapping[str, Any], ask: Ask, parse: Callable[[str], Node]) -> bool:
    """Whether a macro has only parameters and functions whose value stays: ``current_date`` looks like a column."""
    tree = parse(macro["macro_definition"])
    names = {str(node["column_names"][0]) for node in nodes(tree, "COLUMN_REF")}
    return names <= set(macro["parameters"]) and check_functions(tree, ask, parse) is None


def _literal_kind(node: Node) -> str | None:
    """Return the kind of a literal; None for other nodes. Unknown literals count as others: their type is asked for."""
    return node.get("literal", {}).get("kind") if node["class"] == "CONSTANT" else None


def _comparisons(tree: Node) -> Iterator[Sequence[Node]]:
    """Yield the operands of each comparison."""
    for node in nodes(tree):
        if node["class"] == "COMPARISON":
            yield node["left"], node["right"]
        elif node["class"] == "BETWEEN":
            yield node["input"], node["lower"], node["upper"]
        elif node["type"] in ("COMPARE_IN", "COMPARE_NOT_IN"):
            yield node["children"]


def check_comparisons(tree: Node, types_of: Callable[[Sequence[Node]], Sequence[str]], ask: Ask) -> str | None:
    """Return which comparison of text with another type is not exact; None if all are.

    DuckDB makes a value of the other type of the text, and rounds it: 2 of ``'1.5'`` for an integer, midnight of
    ``'2024-01-01 12:00'`` for a date; of a time without a zone it drops the offset.

    Args:
        tree: parsed by DuckDB.
        types_of: returns the types of expressions.
        ask: see `Ask`.
    """
    for operands in _comparisons(tree):
        literals = [_literal_kind(node) for node in operands]
        others = [node for node, literal in zip(operands, literals, strict=True) if literal is None]
        kinds = set(types_of(others)) - {'"NULL"'} if others else set()
        of_text = {kind for kind in kinds if kind.startswith("VARCHAR")}
        if of_text and (kinds > of_text or {*literals} - {None, "STRING", "NULL_LITERAL"}):
            other = min(kinds - of_text, default="another type")
            return f"text is compared with {other:.80}: write the value as text, '7' for 7, or cast one of them"
        texts = [
            node["literal"]["text"] for node, literal in zip(operands, literals, strict=True) if literal == "STRING"
        ]
        for kind in sorted(kinds - of_text):
            problem = _inexact(texts, kind, ask)
            if problem is not None:
                return problem
    return None


_FRACTION = re.compile(r"\.(\d+)")
_CLOCK = re.compile(r"\s*\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\s*")
_DIGITS = {"TIME": 6, "TIME_NS": 9}
"""Digits of a second's fraction."""


def _inexact(texts: Sequence[str], kind: str, ask: Ask) -> str | None:
    """Return which of some texts is not exactly a value of a type; None if all are, or DuckDB refuses them itself."""
    root = kind.partition("(")[0]
    if not texts:
        return None
    if kind.endswith("]") or root in ("MAP", "STRUCT"):
        return f"text is compared with {kind:.80}: write the value itself, [1, 2] or {{'a': 1}}"
    if _family(kind) == "number":
        wrong, advice = _inexact_numbers(texts, kind, ask), "write the number without quotes"
    elif root == "DATE" or root.startswith("TIMESTAMP"):
        return _inexact_moment(texts, kind, ask)
    elif root in _DIGITS:
        wrong = [text for text in texts if not _CLOCK.fullmatch(text) or _digits(text) > _DIGITS[root]]
        advice = f"write '10:00:00' with up to {_DIGITS[root]} decimals"
    else:
        return None
    return f"'{wrong[0]:.60}' is not a value of type {kind}: {advice}" if wrong else None


def _inexact_numbers(texts: Sequence[str], kind: str, ask: Ask) -> list[str]:
    rows = ask(f"SELECT text, CAST(TRY_CAST(text AS {kind}) AS VARCHAR) AS made FROM asked", texts)  # noqa: S608
    pairs = [(row["text"], row["made"]) for row in rows if row["made"] is not None]
    return [text for text, made in pairs if _number(text) != Decimal(made)]


def _inexact_moment(texts: Sequence[str], kind: str, ask: Ask) -> str | None:
    digits = _DIGITS["TIME_NS" if "_NS" in kind else "TIME"]
    query = f"""
        WITH given AS (SELECT text, TRY_CAST(text AS TIMESTAMPTZ) AS meant FROM asked)
        SELECT text,
            CAST(TRY_CAST(text AS {kind}) AS TIMESTAMPTZ) <> meant AS other,
            CAST(TRY_CAST(text AS TIMESTAMP) AS TIMESTAMPTZ) <> meant AS zoned
        FROM given
    """  # noqa: S608
    for row in ask(query, texts):
        text, word = row["text"], "TIMESTAMPTZ" if row["zoned"] else "TIMESTAMP"
        if _digits(text) > digits:
            return f"'{text:.60}' is not a value of type {kind}: write at most {digits} digits of a second's fraction"
        if row["other"]:
            return f"'{text:.60}' is not a value of type {kind}: write {word} '{text:.60}'"
    return None


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        return None


def _digits(text: str) -> int:
    """Return how many digits the fraction of a second has."""
    found = _FRACTION.search(text)
    return 0 if found is None else len(found[1].rstrip("0"))


_FIRST_VERSION = 2
"""Earlier ones take null for a division by zero, and microseconds for times of nanoseconds with a zone."""
_PACKAGE = f"DuckDB {_FIRST_VERSION}.0 or later"
_FIRST_PYTHON = (3, 11)


class Engine:
    """A database of DuckDB's.

    Attributes:
        error: the exceptions that it raises: its own, and another if a message of its own is not text.
        fatal: those after which it answers nothing more.
    """

    def __init__(self, config: Mapping[str, str], path: str = ":memory:") -> None:
        """Open a database that does not see variables of Python.

        Raises:
            MissingExtra: DuckDB 2.0 or later is not installed.
        """
        if sys.version_info[:2] < _FIRST_PYTHON:
            advice = "it needs Python 3.11 or later; pyarrow expressions, and fewer keys at a time, do not need it"
            raise MissingExtra(_PACKAGE, "sql", advice)
        duckdb = require_extra("duckdb", "sql", _PACKAGE)
        if int(duckdb.__version__.partition(".")[0]) < _FIRST_VERSION:
            raise MissingExtra(_PACKAGE, "sql")
        self.error: tuple[type[Exception], ...] = (duckdb.Error, UnicodeDecodeError)
        self.fatal: tuple[type[Exception], ...] = (duckdb.FatalException, duckdb.InternalException)
        self._database = duckdb.connect(path, config={"python_enable_replacements": "false", **config})
        self._local, self._lock = threading.local(), threading.Lock()

    def execute(self, statement: str) -> None:
        """Run a statement; not from several threads."""
        self._database.execute(statement)

    def query(self, text: str, name: str = "", rows: pa.RecordBatch | pa.RecordBatchReader | None = None) -> Any:
        """Return a relation, which is evaluated when its values are fetched.

        Args:
            text: a query.
            name: name of the table with `rows` in the query. In this thread they stay until others take the name.
            rows: see `name`.
        """
        cursor = getattr(self._local, "cursor", None)
        if cursor is None:
            with self._lock:
                cursor = self._local.cursor = self._database.cursor()
        if rows is not None:
            cursor.register(name, rows)
        return cursor.sql(text)

    def close(self) -> None:
        """Close the database."""
        self._database.close()


_SHARED = frozenset({"arrow.bool8", "arrow.json", "arrow.uuid"})
"""Extension types that DuckDB has too. Others it would compare as they are stored, or decode in this process, where a
damaged variant takes all memory."""
_MAX_DIGITS = 38


class GivenColumns:
    """Columns of a table as DuckDB is given them.

    Attributes:
        opaque: columns that are given as true where they are not null, and the extension type that is in each.
        schema: the columns as DuckDB is given them.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.opaque = {field.name: name for field in schema for name in extensions(field) if name not in _SHARED}
        self.schema = pa.schema(
            [pa.field(field.name, pa.bool_()) if field.name in self.opaque else _given(field) for field in schema]
        )

    def batch(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as DuckDB is given them.

        Raises:
            pyarrow.ArrowException: a value that its type does not have there.
        """
        pairs = zip(self.schema, columns.columns, strict=True)
        return pa.RecordBatch.from_arrays([self._array(*pair) for pair in pairs], schema=self.schema)

    def _array(self, field: pa.Field, array: Any) -> pa.Array:
        if field.name in self.opaque:
            return pc.if_else(array.is_null(), pa.scalar(None, pa.bool_()), True)
        array = getattr(array, "storage", array)
        return array if array.type == field.type else array.cast(field.type)


def _given(field: pa.Field) -> pa.Field:
    field = storage_field(field)
    return field.with_type(_given_type(field.type))


def _given_type(kind: Any) -> pa.DataType:
    if types.is_float16(kind):
        return pa.float32()
    if types.is_decimal256(kind) and kind.precision <= _MAX_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_date64(kind):  # DuckDB drops what is not a whole day, and overflows
        return pa.date32()
    if kind == pa.duration("ns"):  # DuckDB cuts it down to microseconds
        return pa.duration("us")
    if types.is_struct(kind):
        return pa.struct([_given(kind.field(i)) for i in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.map_(_given(kind.key_field), _given(kind.item_field))
    if types.is_list(kind):
        return pa.list_(_given(kind.value_field))
    if types.is_large_list(kind):
        return pa.large_list(_given(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_given(kind.value_field), kind.list_size)
    return kind

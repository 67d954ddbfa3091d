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
moment, on settings or on chance, and access to files are refused. Names are found as spelled, else in any case. Times
without a zone are UTC; NaN equals itself and is greater than all numbers, as in Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import pa
from dvcodec.tables.bounds import ColumnBounds, FilterBounds
from dvcodec.tables.columns import chosen
from dvcodec.tables.deleting.engine import Engine
from dvcodec.tables.deleting.matching import Condition, free_name, one_line
from dvcodec.tables.deleting.weaker import Literals, weaker
from dvcodec.tables.table import Snapshot

__all__ = ["SqlCondition"]

_SETTINGS = ("TimeZone='UTC'", "ieee_floating_point_ops=false", "error_on_division_by_zero=true")
_BATCH = "rows_of_the_batch"
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
        self._text = text
        self._engine = _open(os.getpid())
        tree = self._parse()
        self._check(tree)
        self.columns = self._resolve(tree, snapshot)
        self.position = free_name("position", self.columns)
        self._batch = free_name(_BATCH, self.columns)  # a field of a column of that name would be a column of the batch
        self._schema = snapshot.schema(self.columns)
        kinds = self._bind()
        literals = Literals(self._engine, dict(zip(self.columns, kinds, strict=True)), self._schema)
        self._weaker = None if any(_nodes(tree, "COLLATE")) else weaker(tree, literals)
        self._bounds = None if self._weaker is None else FilterBounds(self._weaker, self._schema)

    def may_match(self, known: Mapping[str, ColumnBounds]) -> bool:
        """Whether a row with values in these bounds can match; see `Condition.may_match`."""
        return self._bounds is None or self._bounds.may_be_true(known)

    def positions(
        self,
        batch: pa.RecordBatch,
        known: Mapping[str, ColumnBounds],  # noqa: ARG002  (of conditions that read less then)
    ) -> NDArray[np.int64]:
        """Return the positions of the rows that match; see `Condition.positions`."""
        position = _quoted(self.position)
        query = f"SELECT {position} FROM {self._batch} WHERE (\n{self._text}\n)"  # noqa: S608  (text was checked)
        try:
            found = self._engine.query(query, self._batch, _comparable(batch)).fetchnumpy()[self.position]
        except self._engine.error as err:
            raise self._error(_reason(err)) from None
        return np.asarray(found, np.int64)

    def _error(self, why: str) -> UsageError:
        named = f" (columns {', '.join(self.columns)})" if getattr(self, "columns", ()) else ""
        return UsageError(f"{self.name}: {why}{named}")

    def _parse(self) -> dict[str, Any]:
        """Return the tree of the expression; the text is one, and stays one where it is put into a query."""
        alone = self._select(f"SELECT {self._text}\n")
        inside = self._select(f"SELECT x FROM {_BATCH} WHERE (\n{self._text}\n)")  # noqa: S608  (parsed only)
        plain = self._select("SELECT true")
        tree = alone["select_list"][0] if len(alone.get("select_list", ())) == 1 else None
        if tree is None or tree.get("alias") or _without(alone) != _without(plain):
            raise self._error("expected one expression without clauses or names")
        wanted = self._select(f"SELECT x FROM {_BATCH} WHERE true")  # noqa: S608
        if _bare(inside["where_clause"]) != _bare(tree) or _without(inside) != _without(wanted):
            raise self._error("expected one expression")
        return dict(tree)

    def _select(self, query: str) -> dict[str, Any]:
        found = self._values("SELECT json_serialize_sql(text) AS tree FROM asked", query)[0]
        parsed = json.loads(found["tree"])
        if parsed["error"] and "Only SELECT" in parsed["error_message"]:  # a semicolon, and another statement
            raise self._error("expected one expression, found several statements")
        if parsed["error"]:
            raise self._error(f"not SQL that can be used here: {parsed['error_message']}".partition("\n")[0])
        if len(parsed["statements"]) != 1:
            raise self._error(f"expected one expression, found {len(parsed['statements'])} statements")
        node: dict[str, Any] = parsed["statements"][0]["node"]
        return node

    def _values(self, query: str, text: str) -> list[dict[str, Any]]:
        """Run a query with a table ``asked``, whose one row is a text."""
        found = self._engine.query(query, "asked", pa.RecordBatch.from_pydict({"text": [text]}))
        rows: list[dict[str, Any]] = found.to_arrow_table().to_pylist()
        return rows

    def _check(self, tree: dict[str, Any]) -> None:
        """Refuse what is more than an expression over columns."""
        for node in _nodes(tree):
            kind = node["class"]
            if kind not in _KNOWN:
                raise self._error(f"{_REFUSED.get(kind, kind.lower())} cannot be used here")
            if kind == "FUNCTION":
                self._check_function(node["function_name"].lower())

    def _check_function(self, name: str) -> None:
        query = "SELECT function_type, stability FROM duckdb_functions(), asked WHERE lower(function_name) = text"
        found = [tuple(row.values()) for row in self._values(query, name)]
        kinds = {kind for kind, _ in found}
        if found and not kinds & {"scalar", "macro"}:
            raise self._error(f"{name} is a function of several rows ({', '.join(sorted(kinds))})")
        if any(kind == "scalar" and stability != "CONSISTENT" for kind, stability in found):
            raise self._error(f"{name}() may return something else each time: write the value itself")
        if not found:
            raise self._error(f"no function {name}")

    def _resolve(self, tree: dict[str, Any], snapshot: Snapshot) -> tuple[str, ...]:
        """Return the columns of the table that the text names."""
        names = dict.fromkeys(str(node["column_names"][0]) for node in _nodes(tree, "COLUMN_REF"))
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

    def _bind(self) -> Sequence[str]:
        """Return DuckDB's types of the columns; refuse types that it does not have, and what is not boolean."""
        every = f"SELECT * FROM {self._batch}"  # noqa: S608
        for field in self._schema:
            try:
                self._engine.query(every, self._batch, _comparable(_empty(self._schema, [field.name])))
            except self._engine.error as err:
                message = (
                    f"column {field.name:.80} of type {field.type!s:.80} cannot be used in SQL text: {_reason(err)}"
                )
                raise self._error(message) from None
        empty = _comparable(_empty(self._schema, self.columns, self.position))
        try:
            kinds = self._engine.query(every, self._batch, empty).types
            (kind,) = self._engine.query(f"SELECT (\n{self._text}\n) FROM {self._batch}").types  # noqa: S608
        except self._engine.error as err:
            raise self._error(_reason(err)) from None
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


def _nodes(tree: Any, kind: str | None = None) -> Iterator[dict[str, Any]]:
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


def _without(select: dict[str, Any]) -> Any:
    """Return a parsed query without its one expression and its condition."""
    return _bare({name: value for name, value in select.items() if name not in ("select_list", "where_clause")})


def _bare(value: Any) -> Any:
    """Return a tree without places in the text."""
    if isinstance(value, dict):
        return {name: _bare(part) for name, part in value.items() if not name.startswith("query_location")}
    return [_bare(part) for part in value] if isinstance(value, list) else value


def _empty(schema: pa.Schema, names: Sequence[str], position: str | None = None) -> pa.RecordBatch:
    first = [] if position is None else [pa.field(position, pa.int64())]
    return pa.RecordBatch.from_pylist([], pa.schema([*first, *(schema.field(name) for name in names)]))


def _comparable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch in types that DuckDB has: half floats as floats, which hold them all."""
    for i, field in enumerate(batch.schema):
        if pa.types.is_float16(field.type):
            batch = batch.set_column(i, field.name, batch.column(i).cast(pa.float32()))
    return batch


def _reason(err: Exception) -> str:
    """Return what DuckDB says, without the name of the error and without settings to change."""
    return one_line(err).partition(": ")[2].partition(" Use TRY(")[0]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

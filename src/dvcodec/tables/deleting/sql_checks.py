"""What SQL text must not have: functions whose value changes, and text that is compared with another type inexactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

__all__ = ["Ask", "Node", "check_comparisons", "check_functions", "nodes"]

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


@dataclass(frozen=True, slots=True)
class _Comparison:
    operands: Sequence[Node]

    @property
    def texts(self) -> list[str]:
        """Literals of text."""
        return [node["literal"]["text"] for node in self.operands if _literal_kind(node) == "STRING"]

    @property
    def has_other_literals(self) -> bool:
        """Whether there are literals of other types."""
        kinds = map(_literal_kind, self.operands)
        return any(kind not in (None, "STRING", "NULL_LITERAL") for kind in kinds)

    @property
    def others(self) -> list[Node]:
        """Operands that are not literals."""
        return [node for node in self.operands if _literal_kind(node) is None]


def _literal_kind(node: Node) -> str | None:
    """Return the kind of a literal; None for other nodes. Unknown literals count as others: their type is asked for."""
    return node.get("literal", {}).get("kind") if node["class"] == "CONSTANT" else None


def _comparisons(tree: Node) -> Iterator[_Comparison]:
    for node in nodes(tree):
        if node["class"] == "COMPARISON":
            yield _Comparison([node["left"], node["right"]])
        elif node["class"] == "BETWEEN":
            yield _Comparison([node["input"], node["lower"], node["upper"]])
        elif node["type"] in ("COMPARE_IN", "COMPARE_NOT_IN"):
            yield _Comparison(node["children"])


def check_comparisons(tree: Node, types_of: Callable[[Sequence[Node]], Sequence[str]], ask: Ask) -> str | None:
    """Return which comparison of text with another type is not exact; None if all are.

    DuckDB makes a value of the other type of the text, and rounds it: 2 of ``'1.5'`` for an integer, midnight of
    ``'2024-01-01 12:00'`` for a date; of a time without a zone it drops the offset.

    Args:
        tree: parsed by DuckDB.
        types_of: returns the types of expressions.
        ask: see `Ask`.
    """
    for found in _comparisons(tree):
        others = found.others
        kinds = set(types_of(others)) - {'"NULL"'} if others else set()
        texts = {kind for kind in kinds if kind.startswith("VARCHAR")}
        if texts and (kinds > texts or found.has_other_literals):
            other = min(kinds - texts, default="another type")
            return f"text is compared with {other:.80}: write the value as text, '7' for 7, or cast one of them"
        for kind in sorted(kinds - texts):
            problem = _inexact(found.texts, kind, ask)
            if problem is not None:
                return problem
    return None


_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL")
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
    if root.removeprefix("U") in _NUMBERS:
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

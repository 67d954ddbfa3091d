"""Conditions in Spark SQL that pyarrow evaluates to the same rows, as filters of pyarrow.

Comparisons of a column with a literal or with a column of its type, ``BETWEEN``, ``IN``, ``IS NULL``, ``LIKE`` with one
``%`` at either end, and their combinations by ``AND``, ``OR`` and ``NOT``. A literal takes part only if Spark compares
it in the column's own type, exactly: whatever is rounded, cast or padded first is left to Spark, and so is all that is
not listed here. ``NULL`` is unknown in both; ``NaN`` equals itself and is the greatest number in Spark alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Dialect", "exact_filter"]

_TOKEN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?![\w.]))|(?P<string>'[^'\\]*')|(?P<quoted>`[^`]+`)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><=>|<>|!=|<=|>=|==|[=<>(),.-])",
    re.ASCII,
)
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": eq,
    "==": eq,
    "<>": ne,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?(Z|[+-](?:(?:0\d|1[0-7]):[0-5]\d|18:00))?)?",
    re.ASCII,
)
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_WORDS = frozenset({"AND", "BETWEEN", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"})
_FIRST_YEAR = 1900
"""Files may store older dates and times in another calendar, or with the zone's local mean time."""
_DIGITS = 18
"""Maximum digits of a number that is compared with floats; longer ones are rounded in more than one step."""
_CHAIN = 16
"""Maximum values of ``IN`` that are compared one by one, so that statistics skip files."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The settings of a session that change what a condition means.

    Attributes:
        time_zone: of timestamps without a zone.
        case_sensitive: whether names are.
        plain: whether no other setting is known to change it.
    """

    time_zone: str = "UTC"
    case_sensitive: bool = False
    plain: bool = True

    @classmethod
    def of(cls, spark: SparkSession) -> Dialect:
        """Read the settings of a session."""

        def setting(name: str, default: str) -> str:
            return (spark.conf.get(name, default) or default).upper()

        plain = (
            setting("spark.sql.timestampType", "TIMESTAMP_LTZ") == "TIMESTAMP_LTZ"
            and setting("spark.sql.session.collation.default", "UTF8_BINARY") == "UTF8_BINARY"
            and setting("spark.sql.legacy.typeCoercion.datetimeToString.enabled", "false") == "FALSE"
        )
        zone = spark.conf.get("spark.sql.session.timeZone", "UTC") or "UTC"
        return cls(zone, setting("spark.sql.caseSensitive", "false") == "TRUE", plain)


def exact_filter(text: str, schema: pa.Schema, dialect: Dialect) -> pc.Expression | None:
    """Return a condition as a filter that is true of the same rows as in Spark; None if only Spark knows it.

    Args:
        text: a boolean expression in Spark SQL.
        schema: the table's columns.
        dialect: of the session.
    """
    tokens = _tokens(text) if dialect.plain and "${" not in text else None  # Spark replaces variables in texts, too
    if not tokens:
        return None
    parser = _Parser(tokens, schema, dialect)
    try:
        found = parser.either()
    except _OnlySpark:
        return None
    return found if parser.at_end else None


class _OnlySpark(Exception):
    """The condition is not one of those that are known here."""


class _Token(NamedTuple):
    kind: str
    text: str


class _Column(NamedTuple):
    field: pc.Expression
    kind: pa.DataType


class _Literal(NamedTuple):
    kind: str
    text: str


def _tokens(text: str) -> list[_Token] | None:
    found, at = [], 0
    while at < len(text):
        if text[at] in " \t\r\n":
            at += 1
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        found.append(_Token(str(match.lastgroup), match.group()))
        at = match.end()
    return found


class _Parser:
    """Reads tokens from left to right; whatever it does not know raises `_OnlySpark`."""

    def __init__(self, tokens: Sequence[_Token], schema: pa.Schema, dialect: Dialect) -> None:
        self._tokens, self._at = tokens, 0
        self._schema, self._dialect = schema, dialect

    @property
    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    def either(self) -> pc.Expression:
        found = [self._both()]
        while self._word("OR"):
            found.append(self._both())
        return reduce(or_, found)

    def _both(self) -> pc.Expression:
        found = [self._negated()]
        while self._word("AND"):
            found.append(self._negated())
        return reduce(and_, found)

    def _negated(self) -> pc.Expression:
        if self._word("NOT"):
            return ~self._negated()
        if self._sign("("):
            inner = self.either()
            self._expect(")")
            return inner
        return self._predicate()

    def _predicate(self) -> pc.Expression:
        left = self._operand()
        sign = self._next_sign((*_COMPARISONS, "<=>"))
        if sign is not None:
            return self._comparison(left, sign, self._operand())
        if not isinstance(left, _Column):
            raise _OnlySpark
        if self._word("IS"):
            absent = not self._word("NOT")
            self._expect_word("NULL")
            return left.field.is_null() if absent else left.field.is_valid()
        negated = self._word("NOT")
        if self._word("BETWEEN"):
            lower = self._literal()
            self._expect_word("AND")
            found = self._compare(left, ge, lower) & self._compare(left, le, self._literal())
        elif self._word("IN"):
            found = self._among(left)
        elif self._word("LIKE"):
            found = self._like(left)
        elif not negated and types.is_boolean(left.kind):
            return left.field
        else:
            raise _OnlySpark
        return ~found if negated else found

    def _comparison(self, left: _Column | _Literal, sign: str, right: _Column | _Literal) -> pc.Expression:
        if isinstance(left, _Literal):
            if isinstance(right, _Literal):
                raise _OnlySpark
            return self._comparison(right, _MIRRORED.get(sign, sign), left)
        if isinstance(right, _Literal):
            if sign == "<=>":
                return left.field.is_valid() & self._compare(left, eq, right)
            return self._compare(left, _COMPARISONS[sign], right)
        alike = left.kind == right.kind or all(map(types.is_signed_integer, (left.kind, right.kind)))
        if sign == "<=>" or not alike or not _is_plain(left.kind):
            raise _OnlySpark
        return _COMPARISONS[sign](left.field, right.field)

    def _compare(self, column: _Column, compare: Callable[[Any, Any], Any], literal: _Literal) -> pc.Expression:
        found: pc.Expression = compare(column.field, self._value(literal, column.kind))
        if types.is_float64(column.kind) and compare in (gt, ge):
            return found | pc.is_nan(column.field)
        return found

    def _among(self, column: _Column) -> pc.Expression:
        self._expect("(")
        literals = [self._literal()]
        while self._sign(","):
            literals.append(self._literal())
        self._expect(")")
        if not types.is_string(column.kind) and any(one.kind == "string" for one in literals):
            raise _OnlySpark  # without ANSI mode, all are compared as texts
        if len(literals) <= _CHAIN or types.is_floating(column.kind) or types.is_boolean(column.kind):
            return reduce(or_, (self._compare(column, eq, one) for one in literals))
        values = [self._value(one, column.kind) for one in literals]
        lower, upper = (choose(values, key=lambda one: one.as_py()) for choose in (min, max))
        # `isin` is false for NULL, where Spark does not know.
        known = column.field.isin(pa.array([one.as_py() for one in values], column.kind)) | (
            column.field != column.field
        )
        return (column.field >= lower) & (column.field <= upper) & known

    def _like(self, column: _Column) -> pc.Expression:
        literal = self._literal()
        if literal.kind != "string" or not types.is_string(column.kind) or "_" in literal.text:
            raise _OnlySpark
        inner = literal.text.strip("%")
        before, after = literal.text.startswith("%"), literal.text.endswith("%")
        if "%" in inner or not inner:
            raise _OnlySpark
        if before and after:
            return pc.match_substring(column.field, inner)
        if after:
            return (column.field >= inner) & pc.starts_with(column.field, inner)
        return pc.ends_with(column.field, inner) if before else column.field == inner

    def _operand(self) -> _Column | _Literal:
        token = self._peek()
        is_name = token.kind == "quoted" or (token.kind == "name" and token.text.upper() not in _WORDS)
        typed = token.text.upper() in _TYPED and self._peek(1).kind == "string"
        return self._column() if is_name and not typed else self._literal()

    def _column(self) -> _Column:
        names = [self._name()]
        while self._sign("."):
            names.append(self._name())
        fields: Any = self._schema
        path: list[str] = []
        for name in names:
            found = [field for field in fields if self._is_same(field.name, name)]
            if len(found) != 1:
                raise _OnlySpark
            path.append(found[0].name)
            fields = found[0].type if types.is_struct(found[0].type) else ()
        return _Column(pc.field(*path), found[0].type)

    def _is_same(self, one: str, other: str) -> bool:
        return one == other if self._dialect.case_sensitive else one.lower() == other.lower()

    def _name(self) -> str:
        token = self._peek()
        if token.kind not in ("name", "quoted"):
            raise _OnlySpark
        self._at += 1
        return token.text.strip("`")

    def _literal(self) -> _Literal:
        minus = "-" if self._sign("-") else ""
        token = self._peek()
        self._at += 1
        if token.kind == "number":
            return _Literal("number", minus + token.text)
        if minus:
            raise _OnlySpark
        if token.kind == "string":
            return _Literal("string", token.text[1:-1])
        word = token.text.upper() if token.kind == "name" else ""
        if word in ("TRUE", "FALSE"):
            return _Literal("boolean", word)
        if word in _TYPED and self._peek().kind == "string":
            self._at += 1
            return _Literal(word, self._tokens[self._at - 1].text[1:-1])
        raise _OnlySpark

    def _value(self, literal: _Literal, kind: pa.DataType) -> pa.Scalar[Any]:
        """Return a literal in the type of a column, in which Spark compares it."""
        try:
            found = _value_of(literal, kind, self._dialect.time_zone)
        except (pa.ArrowException, ArithmeticError, ValueError, ZoneInfoNotFoundError):
            found = None
        if found is None:
            raise _OnlySpark
        return found

    def _peek(self, ahead: int = 0) -> _Token:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else _Token("end", "")

    def _word(self, word: str) -> bool:
        token = self._peek()
        found = token.kind == "name" and token.text.upper() == word
        self._at += found
        return found

    def _next_sign(self, signs: Sequence[str]) -> str | None:
        token = self._peek()
        if token.kind != "sign" or token.text not in signs:
            return None
        self._at += 1
        return token.text

    def _sign(self, sign: str) -> bool:
        return self._next_sign([sign]) is not None

    def _expect(self, sign: str) -> None:
        if not self._sign(sign):
            raise _OnlySpark

    def _expect_word(self, word: str) -> None:
        if not self._word(word):
            raise _OnlySpark


def _is_plain(kind: pa.DataType) -> bool:
    """Whether two columns of a type are compared alike in Spark and in pyarrow."""
    tests = (types.is_signed_integer, types.is_string, types.is_date32, types.is_decimal128, types.is_timestamp)
    return any(test(kind) for test in tests)


def _value_of(literal: _Literal, kind: pa.DataType, time_zone: str) -> pa.Scalar[Any] | None:
    what, text = literal
    if what == "number":
        if types.is_signed_integer(kind):
            return pa.scalar(int(text), kind) if "." not in text else None
        if types.is_float64(kind):
            return pa.scalar(float(text), kind) if len(text) <= _DIGITS else None
        return pa.scalar(Decimal(text), kind) if types.is_decimal128(kind) else None  # an error if it does not fit
    if what == "boolean":
        return pa.scalar(text == "TRUE") if types.is_boolean(kind) else None
    if types.is_string(kind):
        return pa.scalar(text) if what == "string" else None
    if types.is_date32(kind):
        if what not in ("string", "DATE") or not _DATE.fullmatch(text):
            return None
        day = date.fromisoformat(text)
        return pa.scalar(day, kind) if day.year >= _FIRST_YEAR else None
    if types.is_timestamp(kind) and kind.unit == "us":
        wanted = ("string", "TIMESTAMP_NTZ") if kind.tz is None else ("string", "TIMESTAMP", "TIMESTAMP_LTZ")
        moment = _moment(text, None if kind.tz is None else time_zone) if what in wanted else None
        return None if moment is None else pa.scalar(moment, kind)
    return None


def _moment(text: str, time_zone: str | None) -> datetime | None:
    """Return a timestamp, in UTC if there is a zone; None if it is written otherwise, or means two moments or none."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    day, clock, fraction, offset = match.groups()
    found = datetime.fromisoformat(f"{day} {clock or '00:00:00'}")
    found += timedelta(microseconds=int((fraction or "0").ljust(6, "0")))
    if found.year < _FIRST_YEAR or (time_zone is None and offset is not None):
        return None
    if time_zone is None:
        return found
    if offset is not None:
        return datetime.fromisoformat(found.isoformat() + offset.replace("Z", "+00:00")).astimezone(timezone.utc)
    zone = ZoneInfo(time_zone)
    first, second = (found.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    return first.astimezone(timezone.utc) if first.utcoffset() == second.utcoffset() else None

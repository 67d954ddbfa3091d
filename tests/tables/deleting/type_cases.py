"""Columns of every logical type that the formats have, their values as text, and what DuckDB and Spark call them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from dvcodec.tables.delta.log import Metadata, Protocol
from dvcodec.tables.delta.protocol import read_schema
from dvcodec.tables.iceberg.schema import read_column
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.paimon.metadata import Field, parse_type, to_column

__all__ = ["CASES", "FORMS", "Case", "condition", "iceberg"]


@dataclass(frozen=True)
class Case:
    """A column ``x`` of three values in order, and null.

    Attributes:
        name: format and type.
        field: the column as the format's schema has it.
        values: as Arrow takes them; moments and times as numbers.
        texts: the same values as text.
        duckdb: DuckDB's type.
        natural: how a literal of the type is written, from its text.
        spark: Spark's type; empty if it has none.
    """

    name: str
    field: pa.Field
    values: tuple[Any, ...]
    texts: tuple[str, ...]
    duckdb: str
    natural: str
    spark: str = ""

    @property
    def array(self) -> pa.Array:
        kind, values = self.field.type, [*self.values, None]
        if isinstance(kind, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
        if pa.types.is_temporal(kind):
            return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
        if pa.types.is_float16(kind):  # older pyarrow takes no others
            values = [None if value is None else np.float16(value) for value in values]
        return pa.array(values, kind)


def condition(case: Case, *, natural: bool, x: str = "x") -> str:
    """Comparisons of the column `x`, each true for one value of the column ``form``."""
    first, second, third = (f"'{text}'" for text in case.texts)
    forms = [f"{x} = {second}", f"{x} <> {second}", f"{x} < {second}", f"{second} <= {x}", f"{x} > {second}"]
    forms += [f"{x} IN ({first}, {third})", f"{x} NOT IN ({first}, {third})", f"{x} BETWEEN {first} AND {second}"]
    forms += [f"NOT ({x} BETWEEN {first} AND {second})", f"{x} IS NULL", f"{x} IS NOT NULL"]
    if natural:
        first, second, third = (case.natural.format(text) for text in case.texts)
        forms += [f"{x} = {second}", f"{x} <> {second}", f"{second} > {x}", f"{x} NOT IN ({first}, {third})"]
        forms += [f"{x} BETWEEN {second} AND {third}", f"{x} IS DISTINCT FROM {second}"]
        forms += [f"CAST({x} AS VARCHAR) LIKE '%1%'"]
    return " OR ".join(f"(form = {number} AND ({form}))" for number, form in enumerate(forms))


FORMS = 18
"""Of `condition`, at most."""


def iceberg(kind: Any) -> pa.Field:
    return read_column(
        JsonFields({"id": 1, "name": "x", "required": False, "type": kind}, "v1.json", "fields[0]")
    ).field


def delta(kind: Any) -> pa.Field:
    text = json.dumps({"type": "struct", "fields": [{"name": "x", "type": kind, "nullable": True, "metadata": {}}]})
    metadata = Metadata(text, (), {}, "parquet", "0.json, line 3")
    return read_schema(Protocol(1, (), "0.json, line 2"), metadata).column("x").field


def paimon(kind: Any) -> pa.Field:
    return to_column(Field(0, "x", parse_type(kind, source="schema-0", what="column x"))).field


def lance(kind: pa.DataType) -> pa.Field:
    return pa.field("x", kind)


NOON = 1_709_208_000
"""2024-02-29 12:00:00."""
UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def moments(unit: str) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """A second before 1970, noon of a day, and the next moment that the unit has."""
    digits = UNITS[unit]
    numbers = tuple(value * 10**digits + more for value, more in ((-1, 0), (NOON, 0), (NOON, 1)))
    last = "2024-02-29 12:00:01" if unit == "s" else f"2024-02-29 12:00:00.{1:0{digits}}"
    return numbers, ("1969-12-31 23:59:59", "2024-02-29 12:00:00", last)


def times(unit: str) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    digits = UNITS[unit]
    last = "12:00:01" if unit == "s" else f"12:00:00.{1:0{digits}}"
    return (0, 43_200 * 10**digits, 43_200 * 10**digits + 1), ("00:00:00", "12:00:00", last)


Made = tuple[tuple[Any, ...], tuple[str, ...]]
WHOLE: Made = ((-1, 7, 101), ("-1", "7", "101"))
COUNTS: Made = ((1, 7, 101), ("1", "7", "101"))
FLOATS: Made = ((-1.5, 0.0, 1e6), ("-1.5", "0", "1e6"))
FLAGS: Made = ((False, True, True), ("false", "true", "true"))
WORDS: Made = (("", "A", "a1"), ("", "A", "a1"))
DAYS: Made = ((-1, 19_782, 19_783), ("1969-12-31", "2024-02-29", "2024-03-01"))
BYTES: Made = ((b"a1b", b"b c", b"bcd"), ("a1b", "b c", "bcd"))
UUID_TEXTS = (
    "00000000-0000-0000-0000-000000000001",
    "7ac10b58-cc43-4372-a567-0e02b2c3d479",
    "ffffffff-ffff-4fff-bfff-ffffffffff01",
)
UUIDS: Made = (tuple(bytes.fromhex(text.replace("-", "")) for text in UUID_TEXTS), UUID_TEXTS)
DECIMAL_TEXTS = ("-1.01", "0.10", "12345678901234567890123456.01")
DECIMALS: Made = (tuple(map(Decimal, DECIMAL_TEXTS)), DECIMAL_TEXTS)
WIDE_TEXTS = ("-1", "1", "12345678901234567890123456789012345678")
WIDE: Made = (tuple(map(Decimal, WIDE_TEXTS)), WIDE_TEXTS)


def cases() -> Iterator[Case]:
    def of(form: Callable[[Any], pa.Field], kind: Any, made: Made, duckdb: str, natural: str, spark: str = "") -> Case:
        return Case(f"{form.__name__} {kind}", form(kind), *made, duckdb, natural, spark)

    date, time, blob, uuid, text = "DATE '{}'", "TIME '{}'", "'{}'::BLOB", "UUID '{}'", "'{}'"
    stamp, zoned, zoned_ns = "TIMESTAMP '{}'", "TIMESTAMPTZ '{}+00'", "TIMESTAMPTZ_NS '{}+00'"
    of_zone = " WITH LOCAL TIME ZONE"
    ordinary: list[tuple[str, str, str, Made, str, str, str]] = [
        ("boolean", "boolean", "BOOLEAN", FLAGS, "BOOLEAN", "{}", "BOOLEAN"),
        ("", "byte", "TINYINT", WHOLE, "TINYINT", "{}", "TINYINT"),
        ("", "short", "SMALLINT", WHOLE, "SMALLINT", "{}", "SMALLINT"),
        ("int", "integer", "INT", WHOLE, "INTEGER", "{}", "INT"),
        ("long", "long", "BIGINT", WHOLE, "BIGINT", "{}", "BIGINT"),
        ("float", "float", "FLOAT", FLOATS, "FLOAT", "{}", "FLOAT"),
        ("double", "double", "DOUBLE", FLOATS, "DOUBLE", "{}", "DOUBLE"),
        ("decimal(38, 2)", "decimal(38,2)", "DECIMAL(38, 2)", DECIMALS, "DECIMAL(38,2)", "{}", "DECIMAL(38,2)"),
        ("decimal(38, 0)", "decimal(38,0)", "DECIMAL(38)", WIDE, "DECIMAL(38,0)", "{}", "DECIMAL(38,0)"),
        ("date", "date", "DATE", DAYS, "DATE", date, "DATE"),
        ("string", "string", "STRING", WORDS, "VARCHAR", text, "STRING"),
        ("binary", "binary", "BYTES", BYTES, "BLOB", blob, "BINARY"),
        ("fixed[3]", "", "BINARY(3)", BYTES, "BLOB", blob, "BINARY"),
        ("uuid", "", "", UUIDS, "UUID", uuid, "STRING"),
        ("timestamp", "timestamp_ntz", "TIMESTAMP(6)", moments("us"), "TIMESTAMP", stamp, "TIMESTAMP_NTZ"),
        ("timestamptz", "timestamp", f"TIMESTAMP(6){of_zone}", moments("us"), "TIMESTAMPTZ", zoned, "TIMESTAMP"),
        ("timestamp_ns", "", "TIMESTAMP(9)", moments("ns"), "TIMESTAMP_NS", "TIMESTAMP_NS '{}'", ""),
        ("timestamptz_ns", "", f"TIMESTAMP(9){of_zone}", moments("ns"), "TIMESTAMPTZ_NS", zoned_ns, ""),
        ("", "", "TIMESTAMP(3)", moments("ms"), "TIMESTAMP_MS", stamp, ""),
        ("", "", f"TIMESTAMP(3){of_zone}", moments("ms"), "TIMESTAMPTZ", zoned, ""),
        ("time", "", "", times("us"), "TIME", time, ""),
        ("", "", "TIME(3)", times("ms"), "TIME", time, ""),
        ("", "", "CHAR(3)", WORDS, "VARCHAR", text, ""),
    ]
    for spelled_iceberg, spelled_delta, spelled_paimon, made, duckdb, natural, spark in ordinary:
        kinds = ((iceberg, spelled_iceberg), (delta, spelled_delta), (paimon, spelled_paimon))
        for form, kind in kinds:
            if kind:
                yield of(form, kind, made, duckdb, natural, spark if form is not paimon else "")
    for width in (8, 16, 32, 64):
        name = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}[width]
        yield of(lance, pa.type_for_alias(f"uint{width}"), COUNTS, f"U{name}", "{}")
    for unit, digits in UNITS.items():
        suffix = {"s": "_S", "ms": "_MS", "us": "", "ns": "_NS"}[unit]
        ns = unit == "ns"
        yield of(
            lance, pa.timestamp(unit), moments(unit), f"TIMESTAMP{suffix}", f"TIMESTAMP{suffix if ns else ''} '{{}}'"
        )
        for zone in ("UTC", "America/New_York"):
            kind = "TIMESTAMPTZ_NS" if ns else "TIMESTAMPTZ"
            yield of(lance, pa.timestamp(unit, zone), moments(unit), kind, zoned_ns if ns else zoned)
        arrow = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        yield of(lance, arrow, times(unit), "TIME_NS" if ns else "TIME", "TIME_NS '{}'" if ns else time)
        span = tuple(value * 10**digits for value in (-1, 7, 101))
        yield of(lance, pa.duration(unit), (span, ("-1 s", "7 s", "101 s")), "INTERVAL", "INTERVAL '{}'")
    yield of(lance, pa.float16(), ((-1.5, 0.0, 1024.0), ("-1.5", "0", "1024")), "FLOAT", "{}")
    yield of(lance, pa.decimal128(38, 2), DECIMALS, "DECIMAL(38,2)", "{}")
    yield of(lance, pa.decimal256(38, 2), DECIMALS, "DECIMAL(38,2)", "{}")
    yield of(lance, pa.date64(), (tuple(day * 86_400_000 for day in DAYS[0]), DAYS[1]), "DATE", date)
    yield of(lance, pa.large_string(), WORDS, "VARCHAR", text)
    yield of(lance, pa.large_binary(), BYTES, "BLOB", blob)
    yield of(lance, pa.binary(3), BYTES, "BLOB", blob)
    yield of(lance, pa.dictionary(pa.int8(), pa.string()), WORDS, "VARCHAR", text)
    yield of(lance, pa.dictionary(pa.int32(), pa.int64()), WHOLE, "BIGINT", "{}")
    yield of(lance, pa.uuid(), UUIDS, "UUID", uuid)
    yield of(lance, pa.bool8(), ((0, 1, 1), FLAGS[1]), "BOOLEAN", "{}")
    yield of(lance, pa.json_(), (('"A"', '{"a":1}', '{"a":10}'),) * 2, "JSON", "'{}'::JSON")


CASES = list({(case.field, str(case.field.metadata), case.duckdb): case for case in reversed(list(cases()))}.values())[
    ::-1
]
"""Those that Arrow has as one type are evaluated once."""

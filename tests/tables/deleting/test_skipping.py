"""No data file is skipped that has a matching row, whatever writers record of its columns.

The values are those whose bounds go wrong: text that is cut off, padded or beyond U+D7FF, times between milliseconds
and with zones, decimals that floats do not hold, NaN, both zeros, nulls alone, the ends of types.
"""

from __future__ import annotations

import datetime as dt
import json
import operator
import random
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import amounts
from cases import each
from dvcodec.core.errors import Unsupported
from dvcodec.tables import Snapshot, open_table
from dvcodec.tables.deleting.predicate import where_finder
from interop.truth import read_truth
from samples.delta_table import DeltaBuilder
from tables.deleting.random_tables import folder_table
from tables.deleting.random_where import SIGNS
from tables.test_engines import FOLDER, TABLES

pytestmark = pytest.mark.libraries

D, UTC = Decimal, dt.timezone.utc
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 999_000)  # noqa: DTZ001
MOMENTS = [NOON + dt.timedelta(microseconds=i) for i in (-1, 0, 1, 999, 1000, 1001)]
MOMENTS += [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1582, 10, 4), dt.datetime(9999, 12, 31)]  # noqa: DTZ001
LONG = "a" * 31
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "word": (
        pa.string(),
        [
            *("", "ab", "ab ", "ab   ", "AB", "\ud7ff", "\ue000", "\U0001f600", LONG, LONG + "b", LONG + "bc"),
            *(LONG + "b\U0010ffff", LONG + "\U0001f600\U0001f600", LONG + "\ufffd", "z" * 33, "\U0010ffff" * 33),
        ],
    ),
    "x": (pa.float64(), [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 5e-324, 1.5, -1.5, 1e300, 0.1]),
    "f": (pa.float32(), [float("nan"), float("inf"), -0.0, 0.0, 0.5, -0.5, 16777216.0]),
    "price": (pa.decimal128(18, 2), [D("9007199254740993.01"), D("9007199254740993.02"), D("0.01"), D(0), D("-0.10")]),
    "wide": (
        pa.decimal128(38, 10),
        [D(f"{sign}12345678901234567890.{end:010}") for sign in ("", "-") for end in (0, 1, 2)] + [D("0.1"), D(0)],
    ),
    "n": (pa.int64(), [-(2**63), 2**63 - 1, 2**53, 2**53 + 1, 2**53 + 2, -1, 0, 1]),
    "day": (pa.date32(), [one.date() for one in MOMENTS] + [dt.date(1582, 10, 15), dt.date(1970, 1, 1)]),
    "time": (pa.timestamp("us", "UTC"), [one.replace(tzinfo=UTC) for one in MOMENTS]),
    "local": (pa.timestamp("us"), MOMENTS),
    "flag": (pa.bool_(), [True, False]),
    "raw": (pa.binary(), [b"", b"ab", b"ab ", b"a" * 16, b"a" * 17, b"a" * 16 + b"\xff", b"\xff" * 20]),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in POOLS.items()])
FILES, STATEMENTS = 10, amounts.of(30, 60)


def random_files(chance: random.Random, by: str | None) -> Iterable[pa.Table]:
    """Files of few rows; each column has few values in a file, or null alone, and the partition's has one."""

    def column(name: str, rows: int) -> list[Any]:
        some = chance.sample(POOLS[name][1], min(len(POOLS[name][1]), chance.randrange(1, 4)))
        if name == by:
            some = [value for value in some[:1] if fits(value)] or [None]
        elif chance.random() < 0.3:
            some = [None] if chance.random() < 0.5 else [None, *some]
        return [chance.choice(some) for _ in range(rows)]

    for _ in range(FILES):
        rows = chance.randrange(1, 5)
        yield pa.table({name: column(name, rows) for name in POOLS}, SCHEMA)


def fits(value: Any) -> bool:
    """Whether it goes into the name of a folder. Negative decimals deltalake spells so that nobody reads them."""
    text = f"{D(value):f}" if isinstance(value, (float, D)) else str(value)
    return len(text.encode()) < 30 and not (isinstance(value, D) and value < 0)


def random_condition(chance: random.Random, depth: int = 2) -> tuple[str, Any]:
    """A condition that statistics may answer, as SQL and in pyarrow."""
    if depth and chance.random() < 0.4:
        (one, first), (two, second) = (random_condition(chance, depth - 1) for _ in range(2))
        form, both = chance.choice((("({}) AND ({})", operator.and_), ("({}) OR ({})", operator.or_)))
        return form.format(one, two), both(first, second)
    name = chance.choice(list(POOLS))
    column: Any = pc.field(name)
    kind, pool = POOLS[name]
    pool = [value for value in pool if value == value]  # noqa: PLR0124  (NaN, of which pyarrow has no order)
    low, high = (chance.choice(pool) for _ in range(2))
    one, two = (pa.scalar(value, kind) for value in (low, high))
    word = chance.choice((*SIGNS, *SIGNS, "IN", "BETWEEN", "NULL", "NOT"))
    if word == "NULL":
        return f"{name} IS NULL", column.is_null()
    if word == "NOT":
        return f"NOT ({name} <= {spelled(low)})", ~(column <= one)
    if word == "IN":
        return f"{name} IN ({spelled(low)}, {spelled(high)})", (column == one) | (column == two)
    if word == "BETWEEN":
        return f"{name} BETWEEN {spelled(low)} AND {spelled(high)}", (column >= one) & (column <= two)
    return f"{name} {word} {spelled(low)}", SIGNS[word](column, one)


def spelled(value: Any) -> str:
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP{'TZ' if value.tzinfo else ''} '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    if isinstance(value, float):
        return f"'{value}'::DOUBLE"
    return "'" + value + "'" if isinstance(value, str) else f"{value:f}" if isinstance(value, D) else str(value)


def contents(snapshot: Snapshot) -> pa.Table:
    """All rows that can be read, with the number of their data file."""
    found = []
    for number, file in enumerate(snapshot.data_files):
        try:
            parts = [part.batch for part in snapshot.rows(file)]
        except Unsupported:
            continue
        rows = pa.Table.from_batches(parts, snapshot.schema())
        found.append(rows.append_column("its file", pa.repeat(number, rows.num_rows)))
    return pa.concat_tables(found)


def skipped(snapshot: Snapshot, where: Any, matching: Iterable[int]) -> int:
    """Check that no file with matching rows is skipped; return how many are."""
    finder = where_finder(where)
    finder.prepare(snapshot)
    found = {number for number, file in enumerate(snapshot.data_files) if not finder.may_match(snapshot, file)}
    assert not found & set(matching), where
    return len(found)


def check(folder: Path, seed: int) -> None:
    """Check random conditions on a table, each as SQL and in pyarrow."""
    duckdb = pytest.importorskip("duckdb", "2.0")
    chance, snapshot = random.Random(seed), open_table(folder).snapshot()
    rows = contents(snapshot)
    database = duckdb.connect(config={"threads": "1"})
    database.execute("SET TimeZone = 'UTC'")
    database.register("every", rows)
    database.execute("CREATE TABLE plain AS SELECT * FROM every")
    by_sql = by_expression = 0
    for _ in range(STATEMENTS):
        sql, expression = random_condition(chance)
        query = f'SELECT DISTINCT "its file" FROM plain WHERE {sql}'
        by_sql += skipped(snapshot, sql, (row[0] for row in database.execute(query).fetchall()))
        by_expression += skipped(snapshot, expression, rows.filter(expression)["its file"].to_pylist())
    most = STATEMENTS * len(snapshot.data_files)
    assert most // 10 < by_sql < most
    assert most // 10 < by_expression < most


@pytest.mark.parametrize("by", [None, "word", "time"])
def test_deltalake(by: str | None, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    for rows in random_files(random.Random(by), by):
        deltalake.write_deltalake(str(tmp_path / "t"), rows, mode="append", partition_by=None if by is None else [by])
    check(tmp_path / "t", 1)


@pytest.mark.parametrize("by", [None, "word", "wide", "local", "time"])
def test_pyiceberg(by: str | None, tmp_path: Path) -> None:
    """Text and bytes are cut off after 16 characters; times have microseconds."""
    table = folder_table(tmp_path / "t", SCHEMA, metrics="truncate(16)")
    if by is not None:
        with table.update_spec() as spec:
            spec.add_identity(by)
    for rows in random_files(random.Random(by), by):
        table.append(rows)
    check(tmp_path / "t", 2)


def as_spark_does(rows: pa.Table) -> str:
    """The statistics that Spark writes: 32 characters of text, milliseconds of times, decimals in full."""

    def ends(name: str) -> tuple[Any, Any] | None:
        values = [value for value in rows.column(name).to_pylist() if value is not None]
        if name in ("raw", "flag") or not values:
            return None
        if name in ("x", "f"):  # NaN is the greatest
            values.sort(key=lambda value: (value != value, value))  # noqa: PLR0124
            low, high = (value if value - value == 0 else str(value) for value in (values[0], values[-1]))
            return low, high
        low, high = min(values, key=order), max(values, key=order)
        if isinstance(low, str):
            return low[:32], high if len(high) <= 32 else high[:32] + ending(high[32])
        if isinstance(low, dt.datetime):
            zone = "Z" if low.tzinfo else ""
            low, high = (one.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone for one in (low, high))
            return low, high
        return (str(low), str(high)) if isinstance(low, dt.date) else (low, high)

    found = {name: both for name in POOLS if (both := ends(name)) is not None}
    ends_of = {end: {name: both[i] for name, both in found.items()} for i, end in enumerate(("minValues", "maxValues"))}
    nulls = {name: rows.column(name).null_count for name in POOLS}
    # Decimals are numbers of all their digits.
    text = json.dumps({"numRecords": rows.num_rows, "nullCount": nulls} | ends_of, default=lambda value: f"@{value:f}@")
    return text.replace('"@', "").replace('@"', "")


def order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def ending(sign: str) -> str:
    """What Spark puts behind text that it cut off."""
    return "\U0010ffff" if sign >= "\ufffd" else "\ufffd"


KINDS: dict[str, Any] = {
    "word": "string",
    "x": "double",
    "f": "float",
    "price": "decimal(18,2)",
    "wide": "decimal(38,10)",
    "n": "long",
    "day": "date",
    "time": "timestamp",
    "local": "timestamp_ntz",
    "flag": "boolean",
    "raw": "binary",
}


@pytest.mark.parametrize("seed", range(2))
def test_statistics_of_spark(seed: int, tmp_path: Path) -> None:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in KINDS.items()]
    made = DeltaBuilder(tmp_path / "t", features=("deletionVectors", "timestampNtz"), fields=fields)
    made.create()
    for number, rows in enumerate(random_files(random.Random(seed), None)):
        made.commit({"add": made.write_file(f"{number}.parquet", rows) | {"stats": as_spark_does(rows)}})
    check(tmp_path / "t", seed)


def compared(values: list[Any], kind: pa.DataType) -> Iterable[tuple[Callable[[Any, Any], Any], pa.Scalar[Any]]]:
    for value in values:
        for compare in SIGNS.values():
            yield compare, pa.scalar(value, kind)


@each("name", TABLES)
def test_tables_of_engines(name: str) -> None:
    """Comparisons of each column with values that it has, in tables that Spark and Java wrote."""
    (made,) = read_truth(FOLDER / name / "truth.json", FOLDER / name / "table")
    snapshot = made.open().snapshot()
    rows, total = contents(snapshot), 0
    for field in snapshot.schema():
        if pa.types.is_nested(field.type):
            continue
        values = [one for one in dict.fromkeys(rows[field.name].to_pylist()) if one is not None and one == one]  # noqa: PLR0124
        for compare, value in compared(values[:3] + values[-3:], field.type):
            where: Any = compare(pc.field(field.name), value)
            total += skipped(snapshot, where, rows.filter(where)["its file"].to_pylist())
    assert total or name.startswith("paimon") or name.endswith("compacted")

"""Small data files that are searched together have the rows that pyarrow finds in each, and odd ones are left out."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dvcodec.core.errors import NotCanonical
from dvcodec.tables import open_table
from dvcodec.tables.deleting import WritableTable
from dvcodec.tables.deleting.keys import keys_finder
from dvcodec.tables.deleting.predicate import where_finder
from samples.delta_table import PART, DeltaBuilder

pytestmark = pytest.mark.libraries

LEAST, MOST = -(2**63), 2**63 - 1
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("small", pa.int32()),
        ("word", pa.string()),
        ("x", pa.float64()),
        ("price", pa.decimal128(9, 2)),
    ]
)
KINDS = ("long", "integer", "string", "double", "decimal(9,2)")
FIELDS = [
    {"name": field.name, "type": kind, "nullable": True, "metadata": {}}
    for field, kind in zip(SCHEMA, KINDS, strict=True)
]
POOLS: dict[str, list[Any]] = {
    "n": [None, LEAST, LEAST + 1, -1, 0, 1, 2**40, MOST - 1, MOST],
    "small": [None, -(2**31), -1, 0, 1, 2**31 - 1],
    "word": [None, "", "a" * 70, "a" * 70 + "b", "z"],
    "x": [None, float("nan"), float("inf"), -0.0, 0.0, 1.5],
    "price": [None, Decimal("-0.01"), Decimal("0.00"), Decimal("9999999.99")],
}
ODD: dict[str, dict[str, Any]] = {
    "narrow": {},
    "lacking": {},
    "unknown": {"write_statistics": False},
    "groups": {"row_group_size": 4},
    "empty": {},
    "null": {},
}
"""Kinds of files that differ from the others, and how they are written."""
LEFT = {"groups.parquet", "empty.parquet", "lacking.parquet"}
"""Files that may be searched alone."""


def rows_of(rng: random.Random, name: str) -> pa.Table:
    count = 0 if name == "empty" else rng.randint(1, 12)
    some = {column: rng.sample(pool, rng.randint(1, 3)) for column, pool in POOLS.items()}
    some |= {"n": [None]} if name == "null" else {"n": [-5, 7]} if name == "narrow" else {}
    rows = pa.table({one: [rng.choice(some[one]) for _ in range(count)] for one in SCHEMA.names}, SCHEMA)
    return rows.drop_columns(["n"]) if name == "lacking" else rows


@pytest.fixture
def made(tmp_path: Path) -> dict[str, pa.Table]:
    """Make a table in the test's folder; return the rows of each file as the table has them."""
    rng, found = random.Random(1), {}
    table = DeltaBuilder(tmp_path, fields=[*FIELDS, PART], partition_columns=["part"])
    table.create()
    actions = []
    for number, name in enumerate([*(f"usual{i}" for i in range(30)), *ODD]):
        part, path = "ab"[number % 2], f"{name}.parquet"
        rows = rows_of(rng, name)
        action = table.write_file(path, rows, {"part": part})
        stored = rows.set_column(0, "n", rows["n"].cast(pa.int32())) if name == "narrow" else rows
        pq.write_table(stored, tmp_path / path, **ODD.get(name, {}))
        size = (tmp_path / path).stat().st_size
        actions.append({"add": {key: one for key, one in action.items() if key != "stats"} | {"size": size}})
        if name == "lacking":
            rows = rows.add_column(0, "n", pa.nulls(len(rows), pa.int64()))
        found[path] = rows.append_column("part", pa.repeat(part, len(rows)))
    table.commit(*actions)
    return found


def conditions() -> list[pc.Expression]:
    rng, n, x = random.Random(2), pc.field("n"), pc.field("x")
    found = [n == one for one in (-5, 7)] + [n == one for one in POOLS["n"][1:]] + [n >= MOST, n < LEAST + 1, n > 3]
    found += [pc.field("small") == -(2**31), (n > 0) & (pc.field("small") < 0), ~(n == 0), n.is_null(), x == 0.0]
    found += [(n == 0) | pc.is_nan(x), pc.field("word") == "a" * 70, pc.field("price") <= Decimal("0.00"), x > 1.0]
    found += [(pc.field("part") == "b") & (n < 1), n.isin(rng.sample(POOLS["n"][1:], 3))]
    return found


def positions(rows: pa.Table, where: pc.Expression) -> list[int]:
    numbered = rows.append_column("position", pa.array(range(len(rows)), pa.int64()))
    found: list[int] = numbered.filter(where)["position"].to_pylist()
    return found


def test_rows(tmp_path: Path, made: dict[str, pa.Table]) -> None:
    snapshot = open_table(tmp_path).snapshot()
    ruled_out = 0
    for where in conditions():
        finder = where_finder(where)
        finder.prepare(snapshot)
        files = finder.candidates(snapshot)
        gathered = finder.gather(snapshot, files)
        left = {path for path in made if path not in gathered}
        if "part" not in str(where):  # by which files are ruled out before
            assert {"groups.parquet", "empty.parquet"} <= left <= LEFT, where
        for path, found in gathered.items():
            assert list(found.rows) == positions(made[path], where), (path, where)
            assert not (found.rows and found.groups_skipped)
            ruled_out += found.groups_skipped
    assert ruled_out > 200


def test_keys(tmp_path: Path, made: dict[str, pa.Table]) -> None:
    snapshot = open_table(tmp_path).snapshot()
    keys = pa.table({"n": [MOST, 0, None, 7], "small": [0, -1, 1, 0]})
    for on in (["n"], ["n", "small"], ["small"]):
        finder = keys_finder(keys, on)
        finder.prepare(snapshot)
        gathered = finder.gather(snapshot, finder.candidates(snapshot))
        assert len(gathered) >= 30
        wanted = {tuple(row.values()) for row in keys.select(on).to_pylist()}
        for path, found in gathered.items():
            rows = [tuple(row.values()) for row in made[path].select(on).to_pylist()]
            assert list(found.rows) == [i for i, row in enumerate(rows) if row in wanted and None not in row]


@pytest.mark.parametrize("damage", ["cut off", "other rows"])
def test_damage(tmp_path: Path, made: dict[str, pa.Table], damage: str) -> None:
    path = tmp_path / "usual3.parquet"
    if damage == "cut off":
        path.write_bytes(path.read_bytes()[:-9])
    else:
        log = tmp_path / "_delta_log" / f"{1:020}.json"
        more = '{"stats": "{\\"numRecords\\": 13}", '
        line = log.read_text().replace('{"path": "usual3.parquet"', more + '"path": "usual3.parquet"')
        log.write_text(line)
    table = open_table(tmp_path)
    assert isinstance(table, WritableTable)
    finder = where_finder(pc.field("n") == 0)
    finder.prepare(table.snapshot())
    gathered = finder.gather(table.snapshot(), table.snapshot().data_files)
    assert len(gathered) > len(made) - 5
    assert path.name not in gathered
    with pytest.raises(NotCanonical, match=path.name):
        table.delete(where=pc.field("n") == 0, dry_run=True)

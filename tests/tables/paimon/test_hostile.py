"""A table whose metadata is damaged anywhere ends in a value or an error of the library."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from dvcodec import DecodeError, UsageError
from dvcodec.tables.paimon import PaimonTable
from samples.paimon_table import PaimonFile, build_paimon

COLUMNS = [(0, "id", "BIGINT"), (1, "p", "STRING"), (2, "d", "DECIMAL(20, 2)")]
ROWS = pa.table({"id": range(20)})
FILES = [
    "snapshot/snapshot-2",
    "schema/schema-0",
    "manifest/manifest-list-2-0",
    "manifest/manifest-1-0",
    "manifest/index-manifest-2-0",
    "index/index-2-0",
]


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    from decimal import Decimal

    long = PaimonFile("a.parquet", ROWS, [1, 2], ("longer than 7", Decimal("1.50")), "p=longer than 7/d=1.50")
    short = PaimonFile("b.parquet", ROWS, [3], ("x", None), "p=x/d=__DEFAULT_PARTITION__", bits=64)
    path = build_paimon(tmp_path / "t", COLUMNS, [[long], [long, short]], partition_keys=["p", "d"])
    return PaimonTable(str(path))


def use(table: PaimonTable) -> None:
    """All that an audit and an export do."""
    fresh = PaimonTable(table.location)
    fresh.snapshots()
    snapshot = fresh.snapshot()
    fresh.referenced()
    snapshot.schema()
    for vector in snapshot.vectors:
        list(snapshot.check_container(vector.location, [vector]))
        snapshot.read(vector)
    for file in snapshot.data_files:
        list(snapshot.rows(file))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "damage",
    [
        lambda data, chance: data[: chance.randrange(len(data))],
        lambda data, chance: bytes(b ^ (1 << chance.randrange(8)) if chance.random() < 0.02 else b for b in data),
        lambda data, chance: bytes(chance.randrange(256) if chance.random() < 0.05 else b for b in data),
        lambda data, chance: data[: (at := chance.randrange(len(data)))] + data[at + chance.randrange(9) :],
    ],
    ids=["cut", "bits", "bytes", "gone"],
)
def test_damage_ends_in_a_value_or_an_error(
    table: PaimonTable, name: str, damage: Callable[[bytes, random.Random], bytes]
) -> None:
    use(table)
    path = Path(table.location) / name
    data = path.read_bytes()
    chance = random.Random(name)
    refused = 0
    for _ in range(40):
        path.write_bytes(damage(data, chance))
        try:
            use(table)
        except (DecodeError, UsageError, OSError):
            refused += 1
    assert refused > 5

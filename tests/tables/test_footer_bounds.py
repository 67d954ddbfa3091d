"""Bounds of columns in metadata that exclude rows of the data files."""

from __future__ import annotations

import json
import struct
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io import pyarrow as of_pyiceberg
from pyiceberg.types import TimestamptzType

from cases import each
from dvcodec.tables import open_table
from dvcodec.tables.auditing import _before, audit
from dvcodec.tables.snapshots.findings import Severity

NOTHING = pa.array([None] * 4, pa.int64())
ROWS = pa.table(
    {
        "i": pa.array([3, 4, 5, None], pa.int32()),
        "ts": pa.array([1_577_836_800_000_000, *[1_577_840_461_123_456] * 3], pa.timestamp("us", "UTC")),
        "s": ["ab" * 40, "b" * 50, "c\uffff" * 40, "\U0001f600" * 40],
        "b": pa.array([b"\xff" * 90, b"", b"\0", b"a"], pa.binary()),
        "day": [date(1, 1, 1), date(2020, 1, 1), date(9999, 1, 1), None],
        "price": pa.array([Decimal("-1.10"), Decimal("2.20"), Decimal(0), None], pa.decimal128(9, 2)),
        "x": [float("nan"), -0.0, 1e300, None],
        "n": NOTHING,
        "st": [{"a": 1}] * 4,
    }
)


def bounds_found(root: Path) -> list[str]:
    """What an audit finds, and the columns that it did not compare."""
    found = audit(open_table(root), deep=True)
    assert all(one.severity is Severity.ERROR for one in found.findings if one.check == "column-bounds")
    notes = [note.message for note in found.notes if note.check == "bounds-not-compared"]
    return [one.message.partition(": ")[2] for one in found.findings if one.check == "column-bounds"] + notes


def skips(column: str, end: str) -> str:
    return f"{end} of column '{column}', by which engines skip rows that the file has: "


@each(
    ("change", "expected"),
    [
        ({}, None),
        ({"minValues": {"i": 2}, "maxValues": {"i": 6}}, None),  # wider
        ({"minValues": {"i": 4}}, skips("i", "lower bound") + "expected at most 3 (its footer), found 4 (metadata)"),
        ({"maxValues": {"i": 4}}, skips("i", "upper bound") + "expected at least 5 (its footer), found 4 (metadata)"),
        ({"maxValues": {"ts": "2020-01-01T01:01:01.123Z"}}, None),  # cut off, as the protocol has it
        (
            {"maxValues": {"ts": "2020-01-01T01:01:01.122Z"}},
            skips("ts", "upper bound")
            + "expected at least 2020-01-01 01:01:01.123456Z (its footer), "
            + "found 2020-01-01 01:01:01.122999Z (metadata)",
        ),
        ({"minValues": {"s": "abab"}, "maxValues": {"s": "\U0001f600\ufffd"}}, None),
        (
            {"minValues": {"s": "ac"}},
            skips("s", "lower bound") + f"expected at most '{'ab' * 20}' (its footer), found 'ac' (metadata)",
        ),
        (
            {"maxValues": {"price": 2.1}},
            skips("price", "upper bound") + "expected at least 2.20 (its footer), found 2.10 (metadata)",
        ),
        ({"nullCount": {"i": 0}}, skips("i", "count of nulls") + "expected some (its footer), found 0 (metadata)"),
        (
            {"nullCount": {"i": 4}},
            skips("i", "count of nulls") + "expected fewer than rows (its footer), found as many as rows (metadata)",
        ),
        ({"nullCount": {"n": 3}}, None),
    ],
)
def test_delta(change: dict[str, dict[str, Any]], expected: str | None, tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "t", ROWS)
    log = tmp_path / "t/_delta_log/00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            statistics = json.loads(action["add"]["stats"])
            for member, values in change.items():
                statistics[member].update(values)
            action["add"]["stats"] = json.dumps(statistics)
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert bounds_found(tmp_path / "t") == ([] if expected is None else [expected])


def test_iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyiceberg's bounds, and those that UniForm cut off to milliseconds (delta-io/delta#7444)."""
    whole = of_pyiceberg.StatsAggregator.max_as_bytes

    def to_milliseconds(aggregator: Any) -> bytes | None:
        stored = whole(aggregator)
        if isinstance(aggregator.primitive_type, TimestamptzType) and stored is not None:
            return struct.pack("<q", struct.unpack("<q", stored)[0] // 1000 * 1000)
        return stored

    catalog = InMemoryCatalog("c", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    cut = "expected at least 2020-01-01 01:01:01.123456Z (its footer), found 2020-01-01 01:01:01.123000Z (metadata)"
    for name, expected in (("whole", []), ("cut", [skips("ts", "upper bound") + cut])):
        table = catalog.create_table(f"n.{name}", ROWS.schema)
        table.append(ROWS)
        assert bounds_found(Path(table.metadata_location)) == expected
        monkeypatch.setattr(of_pyiceberg.StatsAggregator, "max_as_bytes", to_milliseconds)


def test_what_was_not_compared_is_said(tmp_path: Path) -> None:
    """The footers have no statistics, the log has."""
    deltalake.write_deltalake(tmp_path, ROWS)
    (path,) = tmp_path.glob("*.parquet")
    pq.write_table(ROWS, path, write_statistics=False)
    names = "i, ts, s, day, price"
    why = "were not compared with the footers, which lack them or order them otherwise"
    listed = ", ".join(f"{name} (1 data file)" for name in names.split(", "))
    assert bounds_found(tmp_path) == [f"the bounds of {listed}, 1 more column {why}"]


@each(
    ("text", "before"), [("abd", "abc"), ("a\ue000", "a\ud7ff"), ("a\0", "a"), ("", ""), (b"ab", b"aa"), (b"a\0", b"a")]
)
def test_text_that_a_cut_bound_cannot_be_below(text: str | bytes, before: str | bytes) -> None:
    assert _before(text) == before

"""Checkpoints of every form say what the commits said."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec.core.errors import NotCanonical
from dvcodec.tables.delta.actions import read_batches
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.json_fields import JsonFields
from samples.delta_table import DeltaBuilder, build_delta

VERSION = 4


@pytest.fixture
def table(tmp_path: Path) -> DeltaBuilder:
    return build_delta(tmp_path / "table", partitioned=True)


def actions_of(table: DeltaBuilder, files: list[Path], version: int = VERSION) -> list[JsonFields]:
    names = tuple(file.name for file in files if file.parent == table.log)
    return list(chain.from_iterable(read_batches(Folder(str(table.root)), names, version)))


def by_kind(actions: list[JsonFields], kind: str) -> list[Any]:
    return sorted((action.values for action in actions if action.where == kind), key=lambda members: members["path"])


def test_a_sidecar_recorded_by_its_whole_path_is_looked_for_here(table: DeltaBuilder) -> None:
    top, *sidecars = table.checkpoint("json")
    text = top.read_text()
    for file in sidecars:
        text = text.replace(f'"{file.name}"', f'"s3://lake/table/_delta_log/_sidecars/{file.name}"')
    top.write_text(text)
    assert len(by_kind(actions_of(table, [top]), "add")) == 3


@pytest.mark.parametrize("path", ["../x.parquet", "/etc/x.parquet", "..", "_sidecars/x.parquet", "s3://b/x.parquet"])
def test_a_sidecar_elsewhere(table: DeltaBuilder, path: str) -> None:
    top, *_ = table.checkpoint("json")
    top.write_text(json.dumps({"sidecar": {"path": path}}))
    with pytest.raises(NotCanonical, match=r"line 1: sidecar\.path: expected a file in _delta_log/_sidecars"):
        actions_of(table, [top])


def test_a_sidecar_that_is_named_twice(table: DeltaBuilder) -> None:
    """Its files would be there twice."""
    top, first, second = table.checkpoint("json")
    top.write_text(top.read_text().replace(second.name, first.name))
    with pytest.raises(NotCanonical, match=rf"sidecar\.path: expected each sidecar once, found '{first.name}' twice"):
        actions_of(table, [top])


def test_a_checkpoint_of_another_version(table: DeltaBuilder) -> None:
    files = table.checkpoint("json alone")
    with pytest.raises(NotCanonical, match=r"checkpointMetadata\.version: expected 3, found 4"):
        actions_of(table, files, 3)


def test_invalid_checkpoints_are_refused(table: DeltaBuilder) -> None:
    (file,) = table.checkpoint("classic")
    whole = file.read_bytes()
    pq.write_table(pa.table({"add": ["a.parquet"]}), file)
    with pytest.raises(NotCanonical, match="column add: expected a struct, found string"):
        actions_of(table, [file])
    pq.write_table(pa.table({"unknown": [1]}), file)
    with pytest.raises(NotCanonical, match="checkpoint: expected actions, found none"):
        actions_of(table, [file])
    text = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    pq.write_table(pa.table({"add": pa.StructArray.from_arrays([text], ["path"])}), file)
    with pytest.raises(NotCanonical, match="column add: expected readable values"):
        actions_of(table, [file])
    file.write_bytes(whole[:-20])
    with pytest.raises(NotCanonical, match=str(file)):
        actions_of(table, [file])


KINDS = {
    "n": pa.int64(),
    "small": pa.int8(),
    "price": pa.decimal128(38, 3),
    "word": pa.string(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "clock": pa.timestamp("us"),
    "ratio": pa.float64(),
    "point": pa.struct([("x", pa.int32())]),
}
LEAST: dict[str, Any] = {
    "n": -(2**63),
    "small": -1,
    "price": Decimal("-12345678901234567890.125"),
    "word": 'a"\\\n\x01ż☃',
    "day": dt.date(1969, 12, 31),
    "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.timezone.utc),
    "clock": dt.datetime(2026, 1, 1, 0, 0, 0, 1999),  # noqa: DTZ001
    "ratio": 1e-5,
    "point": {"x": 1},
}
MOST: dict[str, Any] = dict.fromkeys(KINDS) | {"word": "{,", "day": dt.date(9999, 12, 31), "ratio": math.inf}
COUNTS = {name: 0 for name in KINDS if name != "point"} | {"point": {"x": 5}}


def with_columns(file: Path, texts: list[str | None]) -> None:
    """Write statistics as columns into a checkpoint; `texts` are those that are text, in order of the data files."""
    values = pa.struct(KINDS.items())
    counts = pa.struct(
        [(name, pa.int64()) for name in KINDS if name != "point"] + [("point", values.field("point").type)]
    )
    members = [("numRecords", pa.int64()), ("minValues", values), ("maxValues", values), ("nullCount", counts)]
    kind = pa.struct([*members, ("tightBounds", pa.bool_())])
    parsed = {"numRecords": 100, "minValues": LEAST, "maxValues": MOST, "nullCount": COUNTS, "tightBounds": True}
    schema, rows = pq.read_schema(file), pq.read_table(file).to_pylist()
    left = iter(texts)
    for row in rows:
        if row["add"] is not None:
            row["add"] |= {"stats": next(left), "stats_parsed": parsed}
    add = [field for field in schema.field("add").type if field.name not in ("stats", "stats_parsed")]
    more = [] if set(texts) == {None} else [pa.field("stats", pa.string())]
    place = schema.get_field_index("add")
    schema = schema.set(place, pa.field("add", pa.struct([*add, *more, pa.field("stats_parsed", kind)])))
    pq.write_table(pa.Table.from_pylist(rows, schema), file, row_group_size=3)


def test_statistics_that_are_columns_only(table: DeltaBuilder) -> None:
    (file,) = table.checkpoint("classic")
    with_columns(file, [None] * 3)
    for add in by_kind(actions_of(table, [file]), "add"):
        assert add["stats_parsed"] == {"numRecords": 100}
        assert json.loads(add["stats"], parse_float=Decimal) == {
            "numRecords": 100,
            "minValues": {
                **{name: LEAST[name] for name in ("n", "small", "price", "word", "point")},
                "day": "1969-12-31",
                "at": "1969-12-31T23:59:59.999Z",
                "clock": "2026-01-01T00:00:00.001",
                "ratio": Decimal("0.00001"),
            },
            "maxValues": {"word": "{,", "day": "9999-12-31", "ratio": "Infinity"},
            "nullCount": COUNTS,
            "tightBounds": True,
        }


@pytest.mark.parametrize("counted", [True, False])
def test_statistics_that_are_text_for_some(table: DeltaBuilder, counted: bool) -> None:
    (file,) = table.checkpoint("classic")
    with_columns(file, ['{"numRecords":100}', None, None])
    if not counted:
        pq.write_table(pq.read_table(file), file, write_statistics=False)
    first, *others = (action.values for action in actions_of(table, [file]) if action.where == "add")
    assert first["stats"] == '{"numRecords":100}'
    assert all(json.loads(other["stats"])["minValues"]["small"] == -1 for other in others)
    assert len(others) == 2

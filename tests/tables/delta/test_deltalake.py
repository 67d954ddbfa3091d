"""Tables that deltalake writes, read here; and tables of Spark, and made by hand, read there."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cases import each
from dvcodec.tables import delete, enable
from dvcodec.tables.delta import DeltaTable
from dvcodec.tables.delta import open as open_delta
from dvcodec.tables.snapshots.live import live_batches
from samples.delta_table import build_delta
from tables.deleting.random_where import random_rows

deltalake = pytest.importorskip("deltalake")
pytestmark = [pytest.mark.interop, pytest.mark.libraries]

PARTITIONS = ("n", "byte", "flag", "part", "day", "time", "local", "price")


def rows(first: int, count: int = 20) -> pa.Table:
    """Rows with keys from `first`, of all types but those that tests/tables/deleting/test_types.py has alone."""
    keys = range(first, first + count)
    made = random_rows(random.Random(first), first, count)
    made = made.append_column("byte", pa.array([key % 2 for key in keys], pa.int8()))
    lists = pa.map_(pa.string(), pa.list_(pa.int64()))
    return made.append_column("map", pa.array([[("k", [key, None]), ("n", None)] for key in keys], lists))


def compare_rows(table: DeltaTable, version: int, theirs: Any) -> None:
    """Compare the live rows, in an order that does not depend on the reader."""
    found = pa.Table.from_batches(live_batches(table, snapshot_id=version), table.snapshot(version).schema())
    query = deltalake.QueryBuilder().register("t", theirs).execute("select * from t").read_all()
    other = pa.table(query).select(found.schema.names).cast(found.schema)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, other.to_pylist()))


def compare(root: Path) -> DeltaTable:
    """Compare every version: data files, and the rows that vectors leave."""
    table = open_delta(str(root))
    infos = table.snapshots()
    assert infos[-1].id == deltalake.DeltaTable(str(root)).version()
    for info in infos:
        theirs = deltalake.DeltaTable(str(root), version=info.id)
        snapshot = table.snapshot(info.id)
        adds = pa.table(theirs.get_add_actions(flatten=True)).to_pylist()
        assert sorted((file.path, file.size, file.physical_rows) for file in snapshot.data_files) == sorted(
            (unquote(add["path"]), add["size_bytes"], add["num_records"]) for add in adds
        )
        compare_rows(table, info.id, theirs)
    return table


@pytest.mark.parametrize("name", ["cdf-table-with-cdc-and-dvs", "table-with-dv-small", "table_with_deletion_logs"])
def test_tables_of_spark(vectors: Path, name: str) -> None:
    compare(vectors / "delta" / name)


@each("by", [None, *PARTITIONS])
def test_types_and_partitions(tmp_path: Path, by: str | None) -> None:
    root = str(tmp_path / "a b")
    for start in (0, 20):
        deltalake.write_deltalake(root, rows(start), mode="append", partition_by=None if by is None else [by])
    table = compare(Path(root))
    assert table.snapshot().schema().equals(rows(0).schema)


def test_history(tmp_path: Path) -> None:
    """Deletes, schema evolution, checkpoints and the cleanup of old commits."""
    root = str(tmp_path / "t")
    deltalake.write_deltalake(root, pa.table({"a": [1, 2, 3], "p": ["x", "y", "x"]}), partition_by=["p"])
    table = deltalake.DeltaTable(root)
    table.delete("a = 2")
    more = pa.table({"a": [4], "p": ["x"], "new": [1.5]})
    deltalake.write_deltalake(root, more, mode="append", schema_mode="merge")
    table = deltalake.DeltaTable(root)
    table.create_checkpoint()
    table.optimize.compact()
    deltalake.write_deltalake(root, pa.table({"a": [5], "p": ["z"], "new": [None]}, more.schema), mode="append")
    found = compare(tmp_path / "t")
    versions = [info.id for info in found.snapshots()]
    assert {info.operation for info in found.snapshots()} >= {"WRITE", "DELETE", "OPTIMIZE"}
    stored = {file.location for file in found.stored_files()}
    assert found.referenced() == stored
    for version in range(2):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    assert [info.id for info in compare(tmp_path / "t").snapshots()] == versions[2:]


@each("form", [None, "classic", "parts", "json", "parquet", "json alone", "parquet alone"])
def test_tables_made_by_hand(tmp_path: Path, form: str | None) -> None:
    crafted = build_delta(tmp_path / "t", partitioned=True)
    if form is not None:
        crafted.features = ("deletionVectors", "v2Checkpoint")
        crafted.checkpoint(form)
    table = open_delta(str(crafted.root))
    theirs = deltalake.DeltaTable(str(crafted.root))
    snapshot = table.snapshot()
    assert len(snapshot.vectors) == 2
    if hasattr(theirs, "deletion_vectors"):  # older ones apply them, and do not return them
        masks = {one["filepath"]: one["selection_vector"] for one in pa.table(theirs.deletion_vectors()).to_pylist()}
        assert len(masks) == 2
        for vector in snapshot.vectors:
            (found,) = snapshot.read(vector)
            (mask,) = [mask for path, mask in masks.items() if path.endswith(found.data_file.rpartition("/")[2])]
            assert [at for at, keep in enumerate(mask) if not keep] == list(found.rows)
    compare_rows(table, snapshot.info.id, theirs)


def statistics(root: str) -> dict[str, dict[str, Any]]:
    """Bounds and counts of nulls as deltalake reads them, by path."""
    found = pa.table(deltalake.DeltaTable(root).get_add_actions(flatten=True)).to_pylist()
    kinds = ("min.", "max.", "null_count.")
    return {one["path"]: {name: one[name] for name in one if name.startswith(kinds)} for one in found}


def test_statistics_that_are_only_in_a_checkpoint_stay(tmp_path: Path) -> None:
    """deltalake writes them as columns; after a delete it reads them from the log, as it wrote them there first."""
    root, log = str(tmp_path / "t"), tmp_path / "t" / "_delta_log"
    for start in (0, 100, 200):
        part = rows(start).select(["key", "x", "word", "day", "time", "local", "price"])
        deltalake.write_deltalake(root, part, mode="append")
    enable(open_delta(root))
    only = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}
    deltalake.DeltaTable(root).alter.set_table_properties(only)
    before = statistics(root)
    deltalake.DeltaTable(root).create_checkpoint()
    (checkpoint,) = log.glob("*.checkpoint.parquet")
    if "stats" in pq.read_schema(checkpoint).field("add").type.names:
        pytest.skip("this deltalake writes them as JSON, whatever the properties say")
    for commit in log.glob("*.json"):
        commit.unlink()

    done = delete(open_delta(root), pc.field("key") == 105)
    assert (done.rows, done.searched, done.skipped) == (1, 1, 2)
    (newest,) = log.glob("*.json")
    (added,) = (action["add"] for action in map(json.loads, newest.read_text().splitlines()) if "add" in action)
    assert json.loads(added["stats"]).keys() == {"numRecords", "minValues", "maxValues", "nullCount", "tightBounds"}
    assert statistics(root) == before
    assert all(isinstance(one["min.price"], Decimal) for one in before.values())
    again = delete(open_delta(root), pc.field("time") > pa.scalar(dt.datetime(2090, 1, 1, tzinfo=dt.timezone.utc)))
    assert (again.committed, again.searched) == (False, 0)

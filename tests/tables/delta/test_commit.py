"""Deletes committed to Delta tables: what is written, conflicts, refusals; deltalake reads the tables and writes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dvcodec import NotCanonical, RowSet, Unsupported, UsageError, delta
from dvcodec.tables import audit, enable, open_table
from dvcodec.tables.deleting.run import run
from dvcodec.tables.delta.commit import DeltaCommitter, check_next_version
from dvcodec.tables.delta.table import DeltaSnapshot, DeltaTable
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import Deletion
from samples import delta_log
from samples.rows import ids
from tables.deleting.finders import Where
from tables.iceberg.deleting import delete as delete_positions


def delete(folder: Path, condition: Callable[[Any], bool], **options: Any) -> Deletion:
    table = open_table(folder)
    assert isinstance(table, DeltaTable)
    return run(DeltaCommitter(table), Where("id", condition), **options)


def actions(folder: Path, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "_delta_log" / f"{version:020}.json").read_text().splitlines()]


def write(folder: Path, version: int, found: list[dict[str, Any]]) -> None:
    path = folder / "_delta_log" / f"{version:020}.json"
    path.write_text("".join(f"{json.dumps(action)}\n" for action in found))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """256 rows in two files, 64 + 4 deleted of the first."""
    return delta_log.restored_table(tmp_path / "t")


def test_the_add_is_repeated(folder: Path) -> None:
    """But for its vector and for how tight its bounds are."""
    stats = '{"numRecords":128,"minValues":{"id":128,"d":1.10},"tightBounds":true}'
    add = delta_log.data_file(folder, "c.parquet", 1000) | {
        "stats": stats,
        "tags": {"a": "b"},
        "baseRowId": 7,
        "defaultRowCommitVersion": 3,
        "clusteringProvider": "liquid",
        "unknown": {"x": [1]},
    }
    delta_log.commit(folder, 3, "WRITE", {"add": add})
    delete(folder, lambda number: number == 1001)
    _, remove, added = actions(folder, 4)
    vector = added["add"].pop("deletionVector")
    assert added["add"] == add | {"stats": stats.replace("true", "false")}
    assert vector["cardinality"] == 1
    kept = {name: add[name] for name in ("path", "partitionValues", "size", "tags", "baseRowId")}
    assert kept.items() <= remove["remove"].items()
    assert remove["remove"]["defaultRowCommitVersion"] == 3
    assert "deletionVector" not in remove["remove"]


def test_rows_that_the_log_does_not_count_are_counted_in_the_file(folder: Path) -> None:
    add = delta_log.data_file(folder, "c.parquet", 1000)
    del add["stats"]
    delta_log.commit(folder, 3, "WRITE", {"add": add})
    delete(folder, lambda number: number == 1001)
    added = actions(folder, 4)[2]["add"]
    assert json.loads(added["stats"]) == {"numRecords": delta_log.ROWS, "tightBounds": False}
    assert 1001 not in ids(folder)
    assert {1000, 1127} <= set(ids(folder))


def test_rows_of_another_format_that_the_log_does_not_count_are_refused(folder: Path) -> None:
    """A vector requires ``numRecords``; positions are not taken unchecked either."""
    first = actions(folder, 0)
    first[2]["metaData"]["format"]["provider"] = "orc"
    del first[4]["add"]["stats"]
    write(folder, 0, first)
    files = set(folder.rglob("*"))
    table = open_table(folder)
    assert isinstance(table, DeltaTable)
    with pytest.raises(UsageError, match=r"b\.parquet: its number of rows is not known"):
        table.delete(positions={"b.parquet": RowSet([3])})
    with pytest.raises(UsageError, match=r"b\.parquet: its row count is unknown, and a vector requires numRecords"):
        delete_positions(DeltaCommitter(table), {"b.parquet": RowSet([3])})
    assert set(folder.rglob("*")) == files


def test_vectors_that_read_back_otherwise_are_not_committed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(path: str, rows: dict[str, RowSet], **options: Any) -> Any:
        others = {name: RowSet([row + 1 for row in some]) for name, some in rows.items()}
        return delta.write_deletion_vectors(path, others, **options)

    monkeypatch.setattr("dvcodec.tables.delta.commit.write_deletion_vectors", wrong)
    files = set(folder.rglob("*"))
    with pytest.raises(
        NotCanonical, match=r"\.bin: vectors as read back: expected the rows that were written, found others"
    ):
        delete(folder, lambda number: number == 200)
    assert set(folder.rglob("*")) == files


def test_a_file_that_loses_all_its_rows_is_removed(folder: Path) -> None:
    done = delete(folder, lambda number: number < delta_log.ROWS)
    assert (done.files, done.removed, done.bytes_written) == (1, 1, 0)
    assert [next(iter(action)) for action in actions(folder, 3)] == ["commitInfo", "remove"]
    assert len(list(folder.glob("*.bin"))) == 2
    assert ids(folder) == list(range(delta_log.ROWS, 2 * delta_log.ROWS))


class Late(DeltaCommitter):
    """Lets others commit first, just before its own commit."""

    def __init__(self, table: DeltaTable, others: Iterator[Callable[[], object]]) -> None:
        super().__init__(table)
        self.others = others

    def commit(self, *arguments: Any) -> int:
        next(self.others, lambda: None)()
        return super().commit(*arguments)


def late(folder: Path, *others: Callable[[], object], condition: Callable[[Any], bool], **options: Any) -> Deletion:
    table = open_table(folder)
    assert isinstance(table, DeltaTable)
    return run(Late(table, iter(others)), Where("id", condition), **options)


def test_vectors_of_the_winner_are_taken_in(folder: Path) -> None:
    before = ids(folder)
    others = (lambda: delete(folder, lambda number: number == 7), lambda: delete(folder, lambda number: number == 200))
    done = late(folder, *others, condition=lambda number: number % 10 == 0)
    assert (done.snapshot, done.retries) == (5, 2)
    assert ids(folder) == [number for number in before if number % 10 and number != 7]
    assert audit(open_table(folder)).findings == ()


def changed(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    first = actions(folder, 0)
    change(first[1]["protocol"], first[2]["metaData"]["configuration"])
    write(folder, 0, first)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda _, found: found.clear(), UsageError, "deletion vectors are not enabled"),
        (lambda found, _: found.update(writerFeatures=[]), UsageError, "deletion vectors are not enabled"),
        (lambda _, found: found.update({"delta.appendOnly": "true"}), UsageError, "delta.appendOnly is set"),
        (lambda _, found: found.update({"delta.enableIcebergCompatV2": "true"}), UsageError, "IcebergCompatV2 is set"),
        (lambda found, _: found["writerFeatures"].append("new"), Unsupported, "found new"),
        (lambda found, _: found.update(minWriterVersion=8), Unsupported, "writer version 8"),
    ],
)
def test_refused(folder: Path, change: Callable[..., object], kind: type[Exception], message: str) -> None:
    changed(folder, change)
    with pytest.raises(kind, match=message):
        delete(folder, lambda number: number == 100)
    assert len(list(folder.glob("*.bin"))) == 2


def test_no_version_is_beyond_64_bits(folder: Path) -> None:
    """Readers would not list it, and the delete would be lost."""
    snapshot = open_table(folder).snapshot()
    assert isinstance(snapshot, DeltaSnapshot)
    check_next_version(replace(snapshot, info=replace(snapshot.info, id=2**63 - 2)))
    with pytest.raises(Unsupported, match=f"version: expected at most {2**63 - 2}, so that another follows"):
        check_next_version(replace(snapshot, info=replace(snapshot.info, id=2**63 - 1)))


def test_in_commit_timestamps(folder: Path) -> None:
    """They grow, even where the clock goes back."""
    changed(
        folder,
        lambda protocol, properties: (
            protocol["writerFeatures"].append("inCommitTimestamp"),
            properties.update({"delta.enableInCommitTimestamps": "true"}),
        ),
    )
    future = 4_000_000_000_000
    info, *rest = actions(folder, 2)
    info["commitInfo"] = {"inCommitTimestamp": future} | info["commitInfo"]
    write(folder, 2, [info, *rest])
    delete(folder, lambda number: number == 150)
    info, *rest = actions(folder, 3)
    assert next(iter(info["commitInfo"].items())) == ("inCommitTimestamp", future + 1)
    info["commitInfo"]["inCommitTimestamp"] = 2**63 - 1
    write(folder, 3, [info, *rest])
    with pytest.raises(Unsupported, match="inCommitTimestamp: expected at most"):
        delete(folder, lambda number: number == 151)


def test_change_data_feed(tmp_path: Path) -> None:
    """The feed has the rows that each commit deleted, without change data files.

    deltalake 1.6.6 cannot say it for a file that had a vector and is removed, whoever removed it: Spark says it in
    tests/interop/test_deletes.py.
    """
    deltalake = pytest.importorskip("deltalake")
    rows = pa.table({"id": pa.array(range(300)), "part": [number // 100 for number in range(300)]})
    properties = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(str(tmp_path), rows, partition_by=["part"], configuration=properties)
    assert enable(open_table(tmp_path)).path is not None
    assert actions(tmp_path, 1)[0]["commitInfo"]["timestamp"] > 1_700_000_000_000
    turns: list[set[int]] = [{1, 2, 101}, {3, 102, *range(200, 300)}, {4, 5}]
    for gone in turns:
        delete(tmp_path, gone.__contains__)
    found = pa.table(deltalake.DeltaTable(str(tmp_path)).load_cdf(starting_version=2)).to_pylist()
    assert {row["_change_type"] for row in found} == {"delete"}
    assert [sorted(row["id"] for row in found if row["_commit_version"] == version) for version in (2, 3, 4)] == [
        sorted(gone) for gone in turns
    ]


def test_a_listing_that_misses_a_commit_is_repeated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commits may come while names are listed, and only the second one be seen."""
    names, turns = Folder.names, [0]

    def without_one(self: Folder, name: str = "") -> list[str]:
        turns[0] += 1
        return [one for one in names(self, name) if turns[0] > 1 or one != f"{1:020}.json"]

    table = open_table(folder)
    monkeypatch.setattr(Folder, "names", without_one)
    assert isinstance(table, DeltaTable)
    assert DeltaCommitter(table).current().info.id == 2
    assert turns == [2]
    (folder / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(NotCanonical, match=f"{1:020}.json or a checkpoint"):
        DeltaCommitter(table).current()

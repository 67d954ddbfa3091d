"""Whole tables: real ones, ones made to order, the files that states need, vectors and index files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cases import each
from dvcodec import CardinalityMismatch, NotCanonical, RowSet, Unsupported, UsageError, paimon
from dvcodec.core.vector import StoredFrame
from dvcodec.io import Storage
from dvcodec.paimon import DeletionVectorMeta, IndexManifestEntry
from dvcodec.tables import DeletionVector, Folder, SnapshotInfo, TableKind, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.model import NO_SNAPSHOT
from dvcodec.tables.paimon import DataFileMeta, PaimonTable
from dvcodec.tables.paimon.manifests import IndexedVector, IndexVectors, Manifests, check_index_file
from dvcodec.tables.paimon.table import References
from dvcodec.tables.rows.bounds import ColumnBounds
from dvcodec.tables.snapshots.live import live_batches
from samples.paimon_table import TIME_MS, PaimonFile, build_paimon, rewrite_avro, rewrite_json
from tables.true_bounds import check_bounds

COLUMNS = [(0, "id", "BIGINT"), (1, "p", "STRING")]


def rows(start: int, count: int, p: str | None = None) -> pa.Table:
    return pa.table({"id": range(start, start + count), "p": pa.array([p] * count, pa.string())})


A = PaimonFile("a.parquet", rows(0, 300), [0, 5, 299])
B = PaimonFile("b.parquet", rows(300, 200), range(50), bits=64)
C = PaimonFile("c.parquet", rows(500, 100))


def live(table: PaimonTable, id: int | None = None) -> pa.Table:  # noqa: A002
    """The rows that are neither deleted nor hidden."""
    return pa.Table.from_batches(live_batches(table, snapshot_id=id), table.snapshot(id).schema())


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    return PaimonTable(str(build_paimon(tmp_path / "t", COLUMNS, [[A], [A, B], [B, C]], kinds=["APPEND", "OVERWRITE"])))


def test_states_data_files_and_vectors(table: PaimonTable) -> None:
    assert table.snapshots() == (
        SnapshotInfo(1, TIME_MS + 1, "APPEND", None),
        SnapshotInfo(2, TIME_MS + 2, "OVERWRITE", 1),
        SnapshotInfo(3, TIME_MS + 3, "APPEND", 2),
    )
    second = table.snapshot(2)
    assert [(file.path, file.physical_rows) for file in second.data_files] == [
        ("bucket-0/a.parquet", 300),
        ("bucket-0/b.parquet", 200),
    ]
    assert [(v.data_file, v.format, v.where, v.cardinality) for v in second.vectors] == [
        ("bucket-0/a.parquet", "paimon32", "index/index-2-0@1", 3),
        ("bucket-0/b.parquet", "paimon64", "index/index-2-0@35", 50),
    ]
    assert table.snapshot() == table.snapshot(3)
    for wrong in (0, 4, -1):
        with pytest.raises(UsageError, match=f"there is no snapshot {wrong}"):
            table.snapshot(wrong)


def test_state_of_an_expired_snapshot_is_that_of_its_tag(table: PaimonTable) -> None:
    folder = Path(table.location)
    (folder / "tag").mkdir()
    rows_before = live(table, 1)
    (folder / "snapshot/snapshot-1").rename(folder / "tag/tag-first")
    (folder / "tag/tag-second").write_bytes((folder / "snapshot/snapshot-2").read_bytes())
    rewrite_json(folder / "tag/tag-second", tagCreateTime=1)
    later = json.loads((folder / "snapshot/snapshot-2").read_text()) | {"id": 9}
    (folder / "tag/tag-later").write_text(json.dumps(later))
    (folder / "tag/.tag-half.tmp").write_text("{")
    (folder / "snapshot/EARLIEST").write_text("7")
    (folder / "snapshot/LATEST").unlink()
    assert [info.id for info in table.snapshots()] == [1, 2, 3]
    assert live(table, 1) == rows_before


def test_table_without_snapshots(tmp_path: Path) -> None:
    """CREATE TABLE writes the schema and nothing else."""
    folder = build_paimon(tmp_path / "t", COLUMNS, [])
    for name in ("snapshot", "manifest", "index"):
        shutil.rmtree(folder / name, ignore_errors=True)
    assert [path.name for path in folder.iterdir()] == ["schema"]
    table = open_table(folder)
    assert table.snapshots() == ()
    snapshot = table.snapshot()
    assert (snapshot.info.id, snapshot.data_files, snapshot.vectors) == (NO_SNAPSHOT, (), ())
    rows = pa.Table.from_batches(live_batches(table), snapshot.schema())
    assert (rows.num_rows, rows.schema.names) == (0, ["id", "p"])
    assert audit(table).findings == ()


def test_files_of_one_name_in_other_partitions_are_others(tmp_path: Path) -> None:
    files = [
        PaimonFile("f.parquet", rows(0, 10, "a/b"), [1], ("a/b",), "p=a%2Fb"),
        PaimonFile("f.parquet", rows(10, 10, "x"), [2], ("x",), "p=x"),
        PaimonFile("f.parquet", rows(20, 10, "x"), [3], ("x",), "p=x", bucket=1),
        PaimonFile("f.parquet", rows(30, 10), [4], (None,), "p=__DEFAULT_PARTITION__"),
    ]
    table = PaimonTable(str(build_paimon(tmp_path / "t", COLUMNS, [files], partition_keys=["p"])))
    snapshot = table.snapshot()
    assert [(file.path, file.partition) for file in snapshot.data_files] == [
        ("p=a%2Fb/bucket-0/f.parquet", "p=a/b"),
        ("p=x/bucket-0/f.parquet", "p=x"),
        ("p=x/bucket-1/f.parquet", "p=x"),
        ("p=__DEFAULT_PARTITION__/bucket-0/f.parquet", "p=null"),
    ]
    assert [vector.data_file for vector in snapshot.vectors] == [file.path for file in snapshot.data_files]
    assert live(table)["id"].to_pylist() == sorted(set(range(40)) - {1, 12, 23, 34})


def test_data_files_elsewhere(tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere/p=x/bucket-0/f.parquet"
    file = PaimonFile("f.parquet", rows(0, 10), [1, 2], more={"_EXTERNAL_PATH": str(outside)})
    table = PaimonTable(str(build_paimon(tmp_path / "t", COLUMNS, [[file]])))
    snapshot = table.snapshot()
    assert snapshot.data_files[0].path == snapshot.data_files[0].location == str(outside)
    assert snapshot.vectors[0].data_file == str(outside)
    assert live(table)["id"].to_pylist() == [0, 3, 4, 5, 6, 7, 8, 9]
    assert str(outside) in table.referenced()


def test_vector_with_another_cardinality_than_recorded(table: PaimonTable) -> None:
    path = Path(table.location) / "manifest/index-manifest-3-0"
    rewrite_avro(path, lambda record: record["_DELETIONS_VECTORS_RANGES"][0].update(_CARDINALITY=49))
    snapshot = table.snapshot()
    with pytest.raises(CardinalityMismatch, match=r"expected 49 \(metadata\), found 50"):
        snapshot.read(snapshot.vectors[0])


def test_metadata_that_leads_elsewhere_is_refused(table: PaimonTable) -> None:
    folder = Path(table.location)
    rewrite_avro(folder / "manifest/index-manifest-3-0", lambda record: record.update(_FILE_NAME="../../x"))
    with pytest.raises(NotCanonical, match="index-manifest-3-0: _FILE_NAME: expected a bare file name"):
        table.snapshot()
    rewrite_avro(folder / "manifest/index-manifest-2-0", lambda record: record.update(_KIND=1))
    with pytest.raises(NotCanonical, match="index-manifest-2-0: _KIND: expected ADD, found DELETE"):
        PaimonTable(table.location).snapshot(2)  # the other one has read it, to name an older snapshot
    rewrite_avro(folder / "manifest/manifest-1-0", lambda record: record.update(_PARTITION=b"\0\0\0\1" + bytes(16)))
    with pytest.raises(NotCanonical, match="manifest-1-0: _PARTITION: expected 0 fields, found 1"):
        PaimonTable(table.location).snapshot(1)
    rewrite_json(folder / "snapshot/snapshot-1", id=2)
    with pytest.raises(NotCanonical, match="snapshot-1: id: expected 1, found 2"):
        table.snapshots()


def test_file_at_two_levels_is_refused(tmp_path: Path) -> None:
    files = [PaimonFile("a.parquet", rows(0, 10), level=level) for level in (1, 2)]
    table = PaimonTable(str(build_paimon(tmp_path / "t", COLUMNS, [files])))
    with pytest.raises(NotCanonical, match=r"_FILE: expected 'bucket-0/a\.parquet' at one level"):
        table.snapshot()


def test_deletes_that_no_vector_expresses_are_reported(tmp_path: Path) -> None:
    files = [
        PaimonFile("new.parquet", rows(0, 10)),
        PaimonFile("plain.parquet", rows(0, 10), level=4),
        PaimonFile("gone.parquet", rows(0, 10), level=5, more={"_DELETE_ROW_COUNT": 1}),
        PaimonFile("old.parquet", rows(0, 10), level=5, more={"_DELETE_ROW_COUNT": None}),
    ]
    table = PaimonTable(str(build_paimon(tmp_path / "t", COLUMNS, [files], primary_keys=["id"])))
    snapshot = table.snapshot()
    retracts = "some of its records say that a key is gone (_VALUE_KIND)"
    assert [snapshot.other_deletes(file) for file in snapshot.data_files] == [
        "its records are not seen before they are compacted",
        None,
        retracts,
        retracts,
    ]
    options = {"deletion-vectors.enabled": "false"}
    table = PaimonTable(str(build_paimon(tmp_path / "u", COLUMNS, [files], primary_keys=["id"], options=options)))
    snapshot = table.snapshot()
    assert "have to be merged by key" in str(snapshot.other_deletes(snapshot.data_files[0]))


def test_moved_table_is_read_where_it_is(table: PaimonTable, tmp_path: Path) -> None:
    moved = PaimonTable(str(Path(table.location).rename(tmp_path / "moved żółć #1 50%")))
    assert live(moved)["id"].to_pylist() == list(range(350, 600))
    url = PaimonTable(Path(moved.location).as_uri())
    assert live(url)["id"].to_pylist() == list(range(350, 600))
    assert len(url.referenced()) == len(moved.referenced())
    assert {file.location for file in url.stored_files()} == url.referenced()


def test_a_branch_has_its_snapshots_and_the_files_of_its_table(table: PaimonTable) -> None:
    """Java's layout: ``branch/branch-NAME`` has schema and snapshot, manifests and data are the table's."""
    root = Path(table.location)
    branch = root / "branch/branch-b"
    shutil.copytree(root / "schema", branch / "schema")
    (branch / "snapshot").mkdir()
    for number in (1, 2):
        shutil.copy(root / f"snapshot/snapshot-{number}", branch / "snapshot")
    found = open_table(branch)
    assert isinstance(found, PaimonTable)
    assert [info.id for info in found.snapshots()] == [1, 2]
    assert live(found)["id"].to_pylist() == live(table, 2)["id"].to_pylist()
    assert found.snapshot().vectors == table.snapshot(2).vectors
    assert [str(finding) for finding in audit(found).findings] == []


_KEYS = {2: range(8), 3: range(8), 4: [1, 2, 3, 5, 6, 7]}
_PRICES = ["11.0", "11.1", "12.1", "13.1", "14.1", "14.1", "16.1", "17.1", "18.1"]
_LATER = ["11.0", "12.1", "13.1", "14.1", "16.1", "17.1", "18.1", "19.1", "19.1"]
UPSTREAM: dict[tuple[str, str], dict[int, Sequence[object]]] = {
    ("pk_with_bitmap_dv", "key"): {1: [], **_KEYS},
    ("pk_09", "f3"): {
        1: [],
        **dict.fromkeys((2, 3), _PRICES),
        **dict.fromkeys((4, 5), sorted([*_PRICES, "19.1", "20.1"])),
        **dict.fromkeys((6, 7), _LATER),
        8: [*_LATER[:-1], "21.1"],
    },
    ("append_avro", "ts_tz_milli"): {1: [*(f"1970-01-01 00:00:00.00{i}000+00:00" for i in (2, 4)), None]},
    ("append_avro", "ts_micro"): {1: [*(f"1970-01-01 00:00:00.00000{i}" for i in (1, 5)), None]},
}
"""Tables of paimon-cpp, and the values of a column at each snapshot, as their READMEs say and Java's reader returns."""


@pytest.mark.parametrize(("name", "column"), UPSTREAM)
def test_tables_of_paimon_cpp(vectors: Path, name: str, column: str) -> None:
    """Manifests in ORC; Avro ones of a Paimon before 0.9.0, whose root and data files are nullable; Avro data files."""
    table = PaimonTable(str(vectors / "paimon/paimon-cpp" / name))
    expected = {number: list(map(str, values)) for number, values in UPSTREAM[name, column].items()}
    found = {
        number: sorted(str(value) for batch in live_batches(table, snapshot_id=number) for value in batch[column])
        for number in expected
    }
    assert found == expected
    assert [info.id for info in table.snapshots()] == sorted(expected)
    assert [str(finding) for finding in audit(table, snapshot_id=None).findings] == []


def test_table_of_java_0_9(vectors: Path) -> None:
    table = PaimonTable(str(vectors / "paimon/java-0.9.0-tables/db.db/dv"))
    truth: dict[str, Any] = json.loads((vectors / "paimon/java-0.9.0-tables/dv_truth.json").read_text())
    snapshot = table.snapshot()
    assert [DataFileMeta.of(file).level for file in snapshot.data_files] == [5, 4]
    (vector,) = snapshot.vectors
    assert (vector.format, vector.size, vector.cardinality) == ("paimon32", 72, None)
    assert (vector.path, vector.file_size) == (f"index/{truth['index_file']}", truth["file_size"])
    (found,) = snapshot.read(vector)
    assert found.data_file.endswith(truth["ranges"][0]["f0"])
    assert list(found.rows) == truth["deleted_positions"]
    for info in table.snapshots():
        # Upserts of keys that are there: at any time each is there once, but the first commit is not compacted yet.
        ids = live(table, info.id)["id"].to_pylist()
        assert sorted(ids) == ([] if info.id == 1 else list(range(20000)))


def test_table_with_a_hash_index_and_without_vectors(vectors: Path) -> None:
    table = PaimonTable(str(vectors / "paimon/java-0.9.0-tables/db.db/dyn"))
    assert table.snapshot().vectors == ()
    assert live(table, 1).num_rows == 200
    with pytest.raises(Unsupported, match="its records have to be merged by key"):
        live(table)


def test_table_of_pypaimon(vectors: Path) -> None:
    table = PaimonTable(str(vectors / "paimon/pypaimon-2.1.0/db.db/t1"))
    truth = json.loads((vectors / "paimon/pypaimon-2.1.0/t1_truth.json").read_text())
    everything = live(table, 2)
    kept = [i for i in range(1500) if i not in set(truth["deleted_row_ids"])]
    assert live(table) == everything.take(kept)
    parts = PaimonTable(str(vectors / "paimon/pypaimon-2.1.0/db.db/part"))
    assert [file.partition for file in parts.snapshot().data_files] == ["p=x1/q=7", "p=longer-partition/q=7"]
    assert live(parts).num_rows == 17
    assert set(live(parts)["p"].to_pylist()) == {"x1", "longer-partition"}


def test_folder_of_another_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a Paimon table: there is no schema/schema-N"):
        open_table(tmp_path, kind=TableKind.PAIMON).snapshot()


def test_bounds_are_those_of_the_partition(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1, 2])})
    files = [
        PaimonFile("1.parquet", rows, partition=("a",), folder="p=a"),
        PaimonFile("2.parquet", rows, partition=(None,), folder="p=__DEFAULT_PARTITION__"),
    ]
    snapshot = PaimonTable(str(build_paimon(tmp_path / "t", COLUMNS, [files], partition_keys=["p"]))).snapshot()
    one, other = (snapshot.bounds(file, ["id", "p"]) for file in snapshot.data_files)
    assert one == {"p": ColumnBounds.of_partition(pa.scalar("a"))}
    assert other == {"p": ColumnBounds(values=False, constant=True)}
    check_bounds(snapshot)


# ---------------------------------------------------------------------- files that some state still needs


TEN = pa.table({"id": pa.array(range(10))})
ONE_COLUMN = [(0, "id", "BIGINT")]
FIRST = PaimonFile("a.parquet", TEN, [1], more={"_EXTRA_FILES": ["a.parquet.index"]})
SECOND = PaimonFile("b.parquet", TEN)
THIRD = PaimonFile("c.parquet", TEN, [2])


@pytest.fixture
def states(tmp_path: Path) -> Path:
    return build_paimon(tmp_path / "t", ONE_COLUMN, [[FIRST], [FIRST, SECOND], [SECOND, THIRD]])


def referenced(states: Path) -> frozenset[str]:
    folder = Folder(str(states))
    return References(folder, Manifests(folder)).collect()


def needed(states: Path) -> set[str]:
    found = referenced(states)
    assert all(name.startswith(f"{states}/") for name in found)
    return {name.removeprefix(f"{states}/") for name in found}


def stored(states: Path) -> set[str]:
    return {file.location.removeprefix(f"{states}/") for file in Folder(str(states)).walk()}


def test_tag_keeps_what_has_expired(states: Path) -> None:
    (states / "tag").mkdir()
    (states / "snapshot/snapshot-1").rename(states / "tag/tag-first")
    (states / "snapshot/snapshot-2").unlink()
    gone = {
        "index/index-2-0",
        "manifest/index-manifest-2-0",
        "manifest/manifest-list-2-0",
        "manifest/manifest-list-2-1",
    }
    assert stored(states) - needed(states) == gone


def test_changelog_keeps_what_its_snapshot_added(states: Path) -> None:
    (states / "changelog").mkdir()
    (states / "snapshot/snapshot-1").rename(states / "changelog/changelog-1")
    (states / "snapshot/snapshot-2").unlink()
    assert {"bucket-0/a.parquet", "changelog/changelog-1"} <= needed(states)


def test_changelog_files_and_statistics(states: Path) -> None:
    path = states / "snapshot/snapshot-3"
    changes = {"changelogManifestList": "manifest-list-1-1", "statistics": "stat-1"}
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    (states / "snapshot/snapshot-1").unlink()
    (states / "snapshot/snapshot-2").unlink()
    assert {"manifest/manifest-list-1-1", "bucket-0/a.parquet", "statistics/stat-1"} <= needed(states)


def test_branch_has_states_of_its_own_and_the_tables_files(states: Path) -> None:
    branch = states / "branch/branch-b"
    shutil.copytree(states / "schema", branch / "schema")
    (branch / "snapshot").mkdir()
    (states / "snapshot/snapshot-1").rename(branch / "snapshot/snapshot-1")
    (states / "snapshot/snapshot-2").unlink()
    found = needed(states)
    assert {"branch/branch-b/snapshot/snapshot-1", "branch/branch-b/schema/schema-0"} <= found
    assert {"bucket-0/a.parquet", "index/index-1-0", "manifest/manifest-list-1-1"} <= found


def test_each_layout_has_its_own_paths(states: Path) -> None:
    schema = json.loads((states / "schema/schema-0").read_text())
    options = schema["options"] | {"data-file.path-directory": "data"}
    (states / "schema/schema-1").write_text(json.dumps(schema | {"id": 1, "options": options}))
    before = needed(states)
    rewrite_json(states / "snapshot/snapshot-1", schemaId=1)
    assert needed(states) == before | {
        *("schema/schema-1", "data/bucket-0/a.parquet", "data/bucket-0/a.parquet.index"),
    }


def test_real_tables_hold_no_file_that_is_not_needed(vectors: Path) -> None:
    for name in ("java-0.9.0-tables/db.db/dv", "java-0.9.0-tables/db.db/dyn", "pypaimon-2.1.0/db.db/t1"):
        states = vectors / "paimon" / name
        assert needed(states) == stored(states)


# ---------------------------------------- vectors as the index manifest records them, and index files held against it


DELETED = {"a": RowSet([1, 5]), "b": RowSet(range(300)), "c": RowSet([2**20])}


def write(folder: Path, kinds: Sequence[int]) -> IndexManifestEntry:
    """An index file with a vector of each kind."""
    frames = [
        StoredFrame(name, len(rows), paimon.encode(rows, layout=f"bitmap{bits}"))
        for bits, (name, rows) in zip(kinds, DELETED.items(), strict=False)
    ]
    written = paimon.write_stored_vectors(folder / "index-1", frames)
    metas = tuple(map(DeletionVectorMeta.from_location, written))
    size = (folder / "index-1").stat().st_size
    return IndexManifestEntry(paimon.DELETION_VECTORS, "index-1", size, len(metas), vectors=metas)


def vectors(folder: Path, entry: IndexManifestEntry, *, bitmap64: bool = False) -> list[DeletionVector]:
    return list(IndexVectors(entry, Folder(str(folder)), "index-1", lambda name: f"d/{name}", bitmap64=bitmap64))


def failed(folder: Path, entry: IndexManifestEntry) -> dict[str, str | None]:
    found = check_index_file(str(folder / "index-1"), vectors(folder, entry), Storage())
    return {finding.check: finding.what for finding in found}


@each("kinds", [(32,), (64,), (32, 32, 32), (64, 64, 64), (32, 64, 32), (64, 32, 64)])
@each("bitmap64", [False, True])
def test_each_vector_is_of_its_own_kind_and_its_size_that_of_the_frame(
    tmp_path: Path, kinds: tuple[int, ...], bitmap64: bool
) -> None:
    entry = write(tmp_path, kinds)
    found = vectors(tmp_path, entry, bitmap64=bitmap64)
    assert [vector.format for vector in found] == [f"paimon{bits}" for bits in kinds]
    for vector, bits, (name, rows) in zip(found, kinds, DELETED.items(), strict=False):
        assert vector.size == len(paimon.encode(rows, layout=f"bitmap{bits}"))
        assert (vector.data_file, vector.path, vector.cardinality) == (f"d/{name}", "index-1", len(rows))
        assert (vector.location, vector.file_size) == (str(tmp_path / "index-1"), entry.file_size)
        assert IndexedVector.of(vector).meta in (entry.vectors or ())
    assert failed(tmp_path, entry) == {}


def test_file_is_not_opened_for_vectors_that_stand_back_to_back(tmp_path: Path) -> None:
    entry = write(tmp_path, (32, 64, 32))
    (tmp_path / "index-1").unlink()
    assert [vector.format for vector in vectors(tmp_path, entry)] == ["paimon32", "paimon64", "paimon32"]


def test_magic_decides_where_records_leave_gaps(tmp_path: Path) -> None:
    entry = write(tmp_path, (64, 32, 64))
    some = replace(entry, vectors=((entry.vectors or ())[0], (entry.vectors or ())[2]))
    assert [vector.format for vector in vectors(tmp_path, some)] == ["paimon64", "paimon64"]
    assert failed(tmp_path, replace(some, row_count=3)) == {}
    (tmp_path / "index-1").unlink()
    assert [vector.format for vector in vectors(tmp_path, some)] == ["paimon32", "paimon64"]
    assert [vector.format for vector in vectors(tmp_path, some, bitmap64=True)] == ["paimon64", "paimon64"]


def change_meta(entry: IndexManifestEntry, number: int, **changes: Any) -> IndexManifestEntry:
    metas = list(entry.vectors or ())
    metas[number] = replace(metas[number], **changes)
    return replace(entry, vectors=tuple(metas))


def test_what_the_metadata_says_wrong_is_found(tmp_path: Path) -> None:
    entry = write(tmp_path, (32, 64, 32))
    metas = entry.vectors or ()
    assert failed(tmp_path, replace(entry, row_count=2)) == {"count": "_ROW_COUNT"}
    assert failed(tmp_path, change_meta(entry, 1, offset=metas[1].offset - 1)) == {"record": "vector"}
    longer = change_meta(entry, 1, length=metas[1].length + 4)
    assert failed(tmp_path, longer) == {"record": "size of the vector"}

"""Whole tables: real ones, and ones made to order."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dvcodec import (
    CardinalityMismatch,
    NotCanonical,
    RowSet,
    Unsupported,
    UsageError,
)
from dvcodec.tables import SnapshotInfo, TableKind, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.model import NO_SNAPSHOT
from dvcodec.tables.paimon import DataFileMeta, PaimonTable
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
    snapshot = table.snapshot(id)
    deleted = {found.data_file: found.rows for vector in snapshot.vectors for found in snapshot.read(vector)}
    parts = []
    for file in snapshot.data_files:
        for part in snapshot.rows(file):
            end = part.start + part.batch.num_rows
            keep = deleted.get(file.path, RowSet()).arrow_mask(part.start, end, keep=True)
            parts.append(part.batch.filter(keep if part.keep is None else pc.and_(keep, part.keep)))
    return pa.Table.from_batches(parts, snapshot.schema())


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    return PaimonTable(str(build_paimon(tmp_path / "t", COLUMNS, [[A], [A, B], [B, C]], kinds=["APPEND", "OVERWRITE"])))


def test_the_current_state_has_the_columns_that_the_table_has_now(tmp_path: Path) -> None:
    renamed = [(number, "label" if name == "p" else name, kind) for number, name, kind in COLUMNS]
    table = PaimonTable(str(build_paimon(tmp_path / "t", [COLUMNS, renamed], [[A]])))
    now, then = table.snapshot(), table.snapshot(1)
    assert (now.schema_id, then.schema_id) == (1, 0)
    for snapshot, names in ((now, ["id", "label"]), (then, ["id", "p"])):
        assert snapshot.schema().names == names
        parts = list(snapshot.rows(snapshot.data_files[0]))
        assert pa.Table.from_batches([part.batch for part in parts]).column_names == names


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


def test_live_rows_of_each_state(table: PaimonTable) -> None:
    first = sorted(set(range(300)) - {0, 5, 299})
    assert live(table, 1)["id"].to_pylist() == first
    assert live(table, 2)["id"].to_pylist() == [*first, *range(350, 500)]
    assert live(table)["id"].to_pylist() == list(range(350, 600))


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
    with pytest.raises(UsageError, match="there is no snapshot 1"):
        table.snapshot(1)


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
    url = PaimonTable(f"file://{'/'.join(map(_quoted, Path(moved.location).parts))[1:]}")
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


def _quoted(part: str) -> str:
    from urllib.parse import quote

    return quote(part)


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

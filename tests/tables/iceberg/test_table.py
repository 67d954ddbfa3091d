"""Iceberg tables built by hand, as a whole: snapshots, vectors, position deletes, live rows, moved folders, damage."""

from __future__ import annotations

import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import each
from dvcodec import RowSet, report
from dvcodec.core.errors import (
    CardinalityMismatch,
    DecodeError,
    NotCanonical,
    Unsupported,
    UsageError,
)
from dvcodec.ops.convert import VectorStats
from dvcodec.tables import SnapshotInfo, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.iceberg import ManifestEntry
from dvcodec.tables.iceberg import open as open_iceberg
from dvcodec.tables.model import NO_SNAPSHOT
from dvcodec.tables.repair import repair_plan
from dvcodec.tables.snapshots.changes import history
from dvcodec.tables.snapshots.findings import Severity
from dvcodec.tables.snapshots.live import export_live, live_batches
from samples.iceberg_table import (
    STEP,
    VECTOR,
    Commit,
    IcebergFiles,
    altered,
    build_iceberg,
    list_schema,
    write_avro,
)
from samples.rows import deleted, ids

COMMITS = (
    Commit(data={"a.parquet": 250, "b.parquet": 120}),
    Commit(vectors={"a.parquet": RowSet([0, 100, 249])}, operation="delete"),
    Commit(data={"c.parquet": 10}, vectors={"a.parquet": RowSet([0, 100, 101, 249]), "b.parquet": RowSet([7])}),
    Commit(remove=["b.parquet"], operation="overwrite"),
)


def ids_of(number: int, rows: int, *gone: int) -> list[int]:
    return [number * STEP + position for position in range(rows) if position not in gone]


@pytest.fixture
def crafted(tmp_path: Path) -> IcebergFiles:
    return build_iceberg(tmp_path / "t", *COMMITS)


# ---------------------------------------------------------------------------------------------------- snapshots


def test_each_snapshot_has_its_files_and_vectors_and_live_rows(crafted: IcebergFiles) -> None:
    table = open_iceberg(crafted.folder)
    a, b, c = "a.parquet", "b.parquet", "c.parquet"
    one, two = RowSet([0, 100, 249]), RowSet([0, 100, 101, 249])
    found: dict[int, dict[str, Any]]
    found = {101: {a: (), b: ()}, 102: {a: one, b: ()}, 103: {a: two, b: RowSet([7]), c: ()}, 104: {a: two, c: ()}}
    assert [info.id for info in table.snapshots()] == list(found)
    for info in table.snapshots():
        snapshot, gone = table.snapshot(info.id), found[info.id]
        assert snapshot.info == info
        assert sorted(file.path.rpartition("/")[2] for file in snapshot.data_files) == list(gone)
        assert deleted(snapshot) == {name: rows for name, rows in gone.items() if rows}
        counts = enumerate({a: 250, b: 120, c: 10}.items())
        live = [ids_of(number, rows, *gone[name]) for number, (name, rows) in counts if name in gone]
        assert ids(table, info.id) == [*chain.from_iterable(live)]
    assert table.snapshot() == table.snapshot(104)


def test_what_is_recorded_of_files_and_vectors(crafted: IcebergFiles) -> None:
    snapshot = open_iceberg(crafted.folder).snapshot(103)
    old, file = (snapshot.files[crafted.paths[name]] for name in ("a.parquet", "c.parquet"))
    assert (file.physical_rows, file.partition, file.size) == (10, None, Path(file.location).stat().st_size)
    records = [(one.sequence_number, (entry := ManifestEntry.of(one)).status, entry.snapshot_id) for one in (old, file)]
    assert records == [(1, 0, 101), (3, 1, 103)]
    vector = next(vector for vector in snapshot.vectors if vector.data_file == old.path)
    assert (vector.format, vector.cardinality, ManifestEntry.of(vector).file_format) == ("iceberg", 4, "puffin")
    assert (vector.file_size, vector.to_location().data_file) == (Path(vector.location).stat().st_size, old.path)
    (found,) = snapshot.read(vector)
    assert isinstance(found.stats, VectorStats)
    assert (found.stats.cardinality, found.stats.row_count, found.stats.size) == (4, 250, vector.size)


def test_version_1_and_2_are_read(tmp_path: Path) -> None:
    for version in (1, 2):
        made = build_iceberg(tmp_path / str(version), Commit(data={"a": 5}), Commit(data={"b": 6}), version=version)
        table = open_iceberg(made.folder)
        assert [info.id for info in table.snapshots()] == [101, 102]
        assert ids(table) == ids_of(0, 5) + ids_of(1, 6)
        numbers = [file.sequence_number for file in table.snapshot().data_files]
        assert numbers == ([0, 0] if version == 1 else [1, 2])


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    table = open_iceberg(build_iceberg(tmp_path / "t").folder)
    snapshot, found = table.snapshot(), audit(table)
    assert (snapshot.info, snapshot.data_files, snapshot.vectors) == (SnapshotInfo(NO_SNAPSHOT), (), ())
    assert (table.snapshots(), list(live_batches(table)), list(history(table))) == ((), [], [])
    assert export_live(table, tmp_path / "out.parquet") == 0
    assert pq.read_schema(tmp_path / "out.parquet").names == snapshot.schema().names == ["id", "name"]
    assert (found.ok, found.to_dict()["snapshot"]["id"], repair_plan(found, table).actions) == (True, -1, ())
    assert "none yet" in report.render(found)
    with pytest.raises(UsageError, match="no snapshot 7"):
        table.snapshot(7)
    assert table.referenced() >= {str(tmp_path / "t" / "metadata" / "v1.metadata.json")}


def test_the_current_snapshot_is_the_last_after_a_rollback(tmp_path: Path) -> None:
    made = build_iceberg(tmp_path, *COMMITS, tweak=lambda metadata: metadata | {"current-snapshot-id": 102})
    table = open_iceberg(made.folder)
    assert [info.id for info in table.snapshots()] == [101, 103, 104, 102]
    assert table.snapshot().info.id == 102
    with pytest.raises(UsageError, match="no snapshot -1"):
        table.snapshot(NO_SNAPSHOT)
    made = build_iceberg(tmp_path / "t", Commit(data={"a": 5}), tweak=lambda one: one | {"current-snapshot-id": -1})
    table = open_iceberg(made.folder)
    assert (table.snapshot().data_files, len(table.snapshot(101).data_files)) == ((), 1)


def test_a_manifest_is_what_each_list_says_of_it(tmp_path: Path) -> None:
    """Its entries inherit from the list: of another list they are others."""
    crafted = build_iceberg(tmp_path, Commit(data={"a.parquet": 5}), Commit())
    lists = tmp_path / "metadata"
    with (lists / "snap-101.avro").open("rb") as file:
        (manifest,) = fastavro.reader(file)
    assert isinstance(manifest, dict)
    later = {**manifest, "sequence_number": 2, "added_snapshot_id": 102}
    write_avro(lists / "snap-102.avro", list_schema(3), [later], "null")
    table = open_iceberg(crafted.folder)
    files = [table.snapshot(number).data_files[0] for number in (101, 102, 101)]
    numbers = [(file.sequence_number, ManifestEntry.of(file).snapshot_id) for file in files]
    assert numbers == [(1, 101), (2, 102), (1, 101)]


# ---------------------------------------------------------------------------------------------------- where things are


@pytest.mark.parametrize("location", ["s3://lake/db/t", "/elsewhere/t", "file:/elsewhere/t", "hdfs://h:8020/w/t/"])
def test_a_moved_table_is_read_where_it_is(tmp_path: Path, location: str) -> None:
    made = build_iceberg(tmp_path / "now here", *COMMITS, location=location)
    table = open_iceberg(made.folder)
    assert table.folder.moved
    snapshot = table.snapshot(103)
    assert all(file.path.startswith(location) for file in snapshot.data_files)
    assert ids(table, 103) == ids_of(0, 250, 0, 100, 101, 249) + ids_of(1, 120, 7) + ids_of(2, 10)
    for vector in snapshot.vectors:
        assert list(snapshot.check_container(vector.location, [vector])) == []
    stored = {file.location for file in table.stored_files()}
    assert stored == table.referenced()


def test_logs_and_statistics_are_referenced(tmp_path: Path) -> None:
    def tweak(metadata: dict[str, Any]) -> dict[str, Any]:
        where = metadata["location"]
        return metadata | {
            "metadata-log": [{"timestamp-ms": 1, "metadata-file": f"{where}/metadata/v0.metadata.json"}],
            "statistics": [{"snapshot-id": 101, "statistics-path": f"{where}/metadata/s.stats"}],
            "partition-statistics": [{"snapshot-id": 101, "statistics-path": "s3://other/p.parquet"}],
        }

    made = build_iceberg(tmp_path, *COMMITS, location="s3://lake/t", tweak=tweak)
    found = open_iceberg(made.folder).referenced()
    folder = tmp_path / "metadata"
    assert {str(folder / "v0.metadata.json"), str(folder / "s.stats"), "s3://other/p.parquet"} <= found


def test_a_metadata_file_elsewhere_says_where_the_table_is(crafted: IcebergFiles, tmp_path: Path) -> None:
    path = tmp_path / "copied.metadata.json"
    shutil.copy(crafted.metadata, path)
    table = open_table(path)
    assert table.location == str(crafted.folder)
    assert len(table.snapshot().data_files) == 2


# ---------------------------------------------------------------------------------------------------- position deletes

PARTS = [{"name": "part", "transform": "identity", "source-id": 2, "field-id": 1000}]


def part_of(name: str) -> dict[str, Any]:
    return {"part": name[0]}


@pytest.mark.parametrize("scope", ["referenced", "bounds"])
def test_position_deletes_of_one_data_file(tmp_path: Path, scope: str) -> None:
    first, later = [{"a": RowSet([1, 2])}, {"b": RowSet([3])}], [{"a": RowSet([2, 5])}]
    made = build_iceberg(
        tmp_path,
        Commit(data={"a": 20, "b": 20}),
        Commit(deletes=first, scope=scope),
        Commit(deletes=later, scope=scope),
        version=2,
    )
    table = open_iceberg(made.folder)
    snapshot = table.snapshot()
    wanted = [(made.paths[name], rows) for one in (*first, *later) for name, rows in one.items()]
    assert [(one.format, one.data_file, one.cardinality, one.offset) for one in snapshot.vectors] == [
        ("position-deletes", path, rows.cardinality, None) for path, rows in wanted
    ]
    found = [one for vector in snapshot.vectors for one in snapshot.read(vector)]
    assert [(one.data_file, one.rows, one.stats) for one in found] == [(path, rows, None) for path, rows in wanted]
    assert ids(table) == ids_of(0, 20, 1, 2, 5) + ids_of(1, 20, 3)


def test_position_deletes_of_a_partition(tmp_path: Path) -> None:
    """They apply to data files of the partition that are not newer and have no vector, whatever paths they name."""
    made = build_iceberg(
        tmp_path,
        Commit(data={"a1": 20, "a2": 20, "b1": 20}),
        Commit(
            deletes=[{"a1": RowSet([1]), "a2": RowSet([2]), "b1": RowSet([3])}], scope=None, vectors={"a2": RowSet([9])}
        ),
        spec=PARTS,
        partition=part_of,
    )
    snapshot = open_iceberg(made.folder).snapshot()
    (wide,) = (vector for vector in snapshot.vectors if vector.format == "position-deletes")
    assert (wide.data_file, wide.cardinality, ManifestEntry.of(wide).partition.label) == (None, 3, "part=a")
    assert [(one.data_file, one.rows) for one in snapshot.read(wide)] == [(made.paths["a1"], RowSet([1]))]
    assert deleted(snapshot) == {"a1": RowSet([1]), "a2": RowSet([9])}


def test_position_deletes_do_not_hold_for_newer_data_files(tmp_path: Path) -> None:
    """A file that was deleted from and then written again under its name is another file."""
    commits = (
        Commit(data={"a": 20, "b": 20}),
        Commit(deletes=[{"a": RowSet([1]), "b": RowSet([2])}], scope=None),
        Commit(remove=["a"]),
        Commit(data={"a": 20}),
    )
    made = build_iceberg(tmp_path, *commits, version=2)
    table = open_iceberg(made.folder)
    assert deleted(table.snapshot(102)) == {"a": RowSet([1]), "b": RowSet([2])}
    unknown = [table.snapshot(number).unknown_files(table.snapshot(number).vectors[0]) for number in (102, 103)]
    assert unknown == [(), (made.paths["a"],)]
    assert deleted(table.snapshot(103)) == {"b": RowSet([2])}
    assert deleted(table.snapshot(104)) == {"b": RowSet([2])}
    with pytest.raises(UsageError, match=r"deletes-2-0.parquet: no vector of snapshot 101"):
        table.snapshot(101).read(table.snapshot().vectors[0])


def test_position_deletes_of_another_file_than_they_say(tmp_path: Path) -> None:
    commit = Commit(data={"a": 20, "b": 20}, deletes=[{"a": RowSet([1]), "b": RowSet([2])}])
    table = open_iceberg(build_iceberg(tmp_path, commit, version=2).folder)
    (vector,) = table.snapshot().vectors
    with pytest.raises(NotCanonical, match=r"deletes-1-0.parquet: file_path: expected .*/data/a, found .*/data/b"):
        table.snapshot().read(vector)


# ---------------------------------------------------------------------------------------------------- damage


def test_unknown_sizes_are_unknown(tmp_path: Path) -> None:
    """Paimon's Iceberg metadata has -1."""
    tweak = altered({"file_size_in_bytes": -1}, content=1)
    snapshot = open_iceberg(build_iceberg(tmp_path, VECTOR, tweak_entry=tweak).folder).snapshot()
    (vector,) = snapshot.vectors
    assert vector.file_size is None
    assert list(snapshot.check_container(vector.location, [vector])) == []


@each(
    ("change", "counted", "error", "match"),
    [
        ({"file_format": "vortex"}, None, Unsupported, "file format: expected parquet or orc or avro, found vortex"),
        ({"key_metadata": b"k"}, None, Unsupported, "file: expected no encryption"),
        ({"record_count": 21}, 20, CardinalityMismatch, "record_count: expected 21 .manifest., found 20 rows"),
    ],
)
def test_data_files_that_are_listed_not_read(
    tmp_path: Path, change: dict[str, Any], counted: int | None, error: type[DecodeError], match: str
) -> None:
    snapshot = open_iceberg(build_iceberg(tmp_path, VECTOR, tweak_entry=altered(change, content=0)).folder).snapshot()
    assert deleted(snapshot) == {"a": RowSet([1, 2])}
    (file,) = snapshot.data_files
    assert snapshot.stored_rows(file) == counted  # in the footer of a Parquet file
    with pytest.raises(error, match=rf"data/a: {match}"):
        list(snapshot.rows(file))


def test_a_manifest_list_that_names_itself(crafted: IcebergFiles) -> None:
    path = crafted.folder / "metadata" / "snap-104.avro"
    manifest = {"manifest_path": str(path), "manifest_length": 1, "partition_spec_id": 0}
    names = ("manifest_path", "string", 500), ("manifest_length", "long", 501), ("partition_spec_id", "int", 502)
    fields = [{"name": name, "type": kind, "field-id": number} for name, kind, number in names]
    schema = {"type": "record", "name": "manifest_file", "fields": fields}
    write_avro(path, schema, [manifest], "null")
    with pytest.raises(NotCanonical, match=r"snap-104.avro .*field status \(0\) of manifest entry"):
        open_iceberg(crafted.folder).snapshot()
    dotted = manifest | {"manifest_path": f"{path.parent}/././snap-104.avro"}
    url = manifest | {"manifest_path": f"file://{path}"}
    for listed, match in (
        ([manifest, dotted], r"each manifest once, found .*/snap-104.avro in several spellings"),
        ([url, manifest], r"each manifest once, found .*/snap-104.avro in several spellings"),
        ([manifest, manifest], "manifest_path of manifest 1: expected each manifest once"),
        ([manifest | {"partition_spec_id": 9}], r"partition_spec_id of .*: expected one of partition-specs, found 9"),
    ):
        write_avro(path, schema, listed, "null")
        with pytest.raises(NotCanonical, match=match):
            open_iceberg(crafted.folder).snapshot()


@each(
    ("record", "error", "match"),
    [
        ({"key-id": "k"}, Unsupported, "snapshot 101: expected no encryption"),
        ({"manifest-list": None, "manifests": ["a.avro"]}, Unsupported, "snapshot 101: expected a manifest-list"),
        ({"schema-id": 7}, NotCanonical, "schema-id of snapshot 101: expected one of schemas, found 7"),
    ],
)
def test_snapshots_that_are_not_read(
    tmp_path: Path, record: dict[str, Any], error: type[DecodeError], match: str
) -> None:
    def tweak(metadata: dict[str, Any]) -> dict[str, Any]:
        metadata["snapshots"][0] |= record
        return metadata

    table = open_iceberg(build_iceberg(tmp_path, VECTOR, Commit(data={"b": 1}), tweak=tweak).folder)
    assert len(table.snapshots()) == 2
    assert ids(table) == ids_of(0, 20, 1, 2) + ids_of(1, 1)
    with pytest.raises(error, match=match):
        table.snapshot(101).schema()


def respelled(folder: Path, deletes: str, manifests: str, *commits: Commit, **given: Any) -> IcebergFiles:
    """Make a table whose deletes name data files with another scheme than its manifests."""
    location = f"{deletes}{folder}"

    def spelled(entry: dict[str, Any]) -> dict[str, Any]:
        file = entry["data_file"]
        if file["content"]:
            return entry
        path = file["file_path"].replace(location, f"{manifests}{folder}")
        return {**entry, "data_file": {**file, "file_path": path}}

    return build_iceberg(folder, *commits, version=2, location=location, tweak_entry=spelled, **given)


@each(
    ("deletes", "manifests", "scope"),
    [
        ("hdfs://host:8020", "", "referenced"),
        ("file:", "", "bounds"),
        ("", "file:", None),
        ("s3a://lake", "s3://lake", "bounds"),
    ],
)
def test_position_deletes_by_another_scheme(tmp_path: Path, deletes: str, manifests: str, scope: str | None) -> None:
    """Engines compare plain text, and the rows live for them: an error of the audit. Here they are deleted."""
    commits = (
        Commit(data={"a": 10, "b": 10}),
        Commit(deletes=[{"a": RowSet([1, 2])}], scope=scope),
        Commit(deletes=[{"b": RowSet([9])}], data={"c": 1}, scope=scope),
    )
    table = open_iceberg(respelled(tmp_path / "t", deletes, manifests, *commits).folder)
    found = audit(table)
    findings = [finding for finding in found.findings if finding.check != "moved"]
    assert [(one.check, one.severity, one.expected, one.actual) for one in findings] == [
        ("path-scheme", Severity.ERROR, file.path, file.path.replace(manifests, deletes, 1))
        for file in table.snapshot().data_files[:2]
    ]
    assert [(file.deleted, bool(file.errors)) for file in found.scan.files] == [(2, False), (1, False), (0, False)]
    assert repair_plan(found, table).unfixed == found.findings
    assert ids(table) == [*ids_of(0, 10, 1, 2), *ids_of(1, 10, 9), *ids_of(2, 1)]
    assert [change.deleted for change in history(table)] == [0, 2, 1]


def test_one_file_of_deletes_in_two_spellings(tmp_path: Path) -> None:
    commits = Commit(data={"a": 10}), Commit(deletes=[{"a": RowSet([1])}], scope=None)
    made = build_iceberg(tmp_path, *commits, version=2, tweak_entry=altered({"record_count": 2}, content=1))
    path = made.paths["a"]
    deletes = next((tmp_path / "data").glob("deletes-*"))
    pq.write_table(pa.table([[path, f"hdfs://host{path}"], [1, 3]], schema=pq.read_schema(deletes)), deletes)
    table = open_iceberg(made.folder)
    assert deleted(table.snapshot()) == {"a": RowSet([1, 3])}
    assert {finding.check for finding in audit(table).findings} == {"path-scheme", "file-size"}


def test_deletes_that_do_not_hold_are_no_finding_for_their_scheme(tmp_path: Path) -> None:
    """The data file is newer than the deletes."""
    commits = Commit(data={"a": 10}), Commit(deletes=[{"a": RowSet([1])}], scope=None), Commit(data={"a": 10})
    table = open_iceberg(respelled(tmp_path / "t", "file:", "", *commits).folder)
    assert sum(batch.num_rows for batch in live_batches(table)) == 10
    assert [finding.check for finding in audit(table).findings if finding.check != "file-size"] == []


@each("location", ["./t", "t", "t/", ".", "../lake/t", "file://elsewhere/lake/t"])
def test_locations_that_mean_where_the_table_is(tmp_path: Path, location: str) -> None:
    made = build_iceberg(tmp_path / "t", VECTOR, location=location)
    table = open_iceberg(made.folder)
    assert ids(table) == [number for number in ids_of(0, 20) if number not in (1, 2)]
    found = audit(table)
    assert [finding.check for finding in found.findings] == (["moved"] if location.startswith("file:") else [])
    assert found.ok
    assert table.referenced() == {file.location for file in table.stored_files()}

"""A table's deletes in another format: as files with commit values that point at the right bytes, or committed."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dvcodec.tables.convert as writing
from cases import each
from cli_runner import run
from dvcodec import (
    ChecksumMismatch,
    NotCanonical,
    RowSet,
    Unsupported,
    UsageError,
    delta,
    iceberg,
    paimon,
)
from dvcodec.iceberg import read_position_deletes
from dvcodec.io import open_source
from dvcodec.tables import (
    DataFile,
    DeletedRows,
    DeletionVector,
    SnapshotInfo,
    TableKind,
    audit,
    convert_table,
    copy_deletes,
    open_table,
)
from dvcodec.tables.convert import ENTRIES, TARGETS, Conversion, How, Target, partition_values
from dvcodec.tables.delta.rows import partition_scalar
from dvcodec.tables.metadata.json_fields import PartitionValue
from dvcodec.tables.rows.columns import Column
from samples import delta_log, iceberg_table, paimon_table
from samples.delta_table import delta_of_files
from samples.iceberg_table import STEP, Commit, IcebergFiles, build_iceberg
from samples.id_tables import MAKERS
from samples.memory_table import FakeSnapshot, FakeTable, beside, flip, make_table, write_vectors
from tables.deleting.libraries import ids_by_library

ELSEWHERE: tuple[Target, ...] = ("delta", "paimon32", "paimon64")
ROWS = RowSet([0, 3, 4, 5, 700])
OTHER = RowSet(range(100, 400))


class Given(FakeTable):
    """A table whose vectors' rows are given, where no file holds a frame of them."""

    def __init__(self, *arguments: Any, kind: TableKind = TableKind.ICEBERG) -> None:
        super().__init__(*arguments)
        self.kind = kind
        self.given: dict[DeletionVector, dict[str, RowSet]] = {}

    def read(self, vector: DeletionVector, snapshot: FakeSnapshot) -> tuple[DeletedRows, ...]:
        if vector in self.given:
            return tuple(DeletedRows(path, rows) for path, rows in self.given[vector].items())
        return super().read(vector, snapshot)


def a_table(files: Sequence[DataFile], vectors: Sequence[DeletionVector], folder: Path, **options: Any) -> Given:
    """Make a table of one state; its data files need not be there."""
    table = Given(str(folder), [], **options)
    table.states = [FakeSnapshot(table, SnapshotInfo(7, 1234), tuple(files), tuple(vectors))]
    return table


def a_file(name: str = "a.parquet", rows: int | None = 1000, **values: Any) -> DataFile:
    return DataFile(**({"path": f"/t/{name}", "location": f"/t/{name}", "physical_rows": rows, "size": 99} | values))


def position_deletes(name: str) -> DeletionVector:
    return DeletionVector("position-deletes", None, f"/t/{name}", f"/t/{name}", None, 400)


def log_of(root: Path, deleted: Mapping[str, dict[str, Any] | None]) -> str:
    """Write the log of a table: data file, as in `add.path` -> the vector's descriptor."""
    add = {"partitionValues": {}, "size": 99, "modificationTime": 1, "dataChange": True}
    add["stats"] = '{"numRecords": 1000}'
    vectors = {path: {"deletionVector": found} if found else {} for path, found in deleted.items()}
    delta_log.empty_table(root, [add | {"path": path} | vector for path, vector in vectors.items()])
    return str(root)


def on_disk(root: Path, rows: Mapping[str, RowSet]) -> dict[str, dict[str, Any]]:
    """Write a Delta vector file; return the descriptors."""
    written = delta.write_deletion_vectors(delta.new_file(str(root)), rows)
    return {str(at.data_file): json.loads(delta.Descriptor.from_location(at, str(root)).to_json()) for at in written}


def lines(done: Conversion) -> dict[str, dict[str, Any]]:
    """Return the entries by data file, after a look at their form."""
    text = Path(done.entries).read_text(encoding="ascii")
    found = [json.loads(line) for line in text.splitlines()]
    assert found == [vector.to_dict() for vector in done.vectors]
    assert len({line["data_file"] for line in found}) == len(found)
    assert sum(line["cardinality"] for line in found) == done.rows
    return {line["data_file"]: line for line in found}


def rows_of(line: dict[str, Any], root: str | None = None) -> RowSet:
    """Read a vector by what a commit would say of it, and by nothing else."""
    if "manifest_entry" in line:
        entry = line["manifest_entry"]
        with open_source(entry["file_path"]) as source:
            assert source.size == entry["file_size_in_bytes"]
            frame = source.read(entry["content_offset"], entry["content_size_in_bytes"])
        return iceberg.decode(frame, cardinality=entry["record_count"])
    if "add" in line:
        return delta.load(delta.Descriptor.from_json(line["add"]["deletionVector"]), root)
    meta = paimon.DeletionVectorMeta(**line["deletion_vector_meta"])
    path = Path(line["path"])
    file = line["index_file"]
    assert (file["file_name"], file["file_size"]) == (path.name, path.stat().st_size)
    assert len(paimon.load_frames(path)) == file["row_count"]
    return paimon.load(meta, path)


def assert_untouched(folder: Path) -> None:
    assert not folder.exists() or not any(folder.iterdir())


# ---------------------------------------------------------------------- from Delta


def test_delta_vectors_are_referenced_in_place(tmp_path: Path) -> None:
    root, out = tmp_path / "t 100% ☃", beside(tmp_path) / "out"
    root.mkdir()
    names = {"p%3D1/x%20y.parquet": ROWS, "z.parquet": OTHER}
    table = open_table(log_of(root, {**on_disk(root, names), "whole.parquet": None}))
    done = convert_table(table, "iceberg", str(out))
    assert sorted(path.name for path in out.iterdir()) == [ENTRIES]
    assert (done.files, done.to_dict()["in_place"]) == ((), 2)
    found = lines(done)
    assert {path: rows_of(line) for path, line in found.items()} == {
        f"{root}/p=1/x y.parquet": ROWS,
        f"{root}/z.parquet": OTHER,
    }
    (container,) = root.glob("*.bin")
    line = found[f"{root}/z.parquet"]
    at = line["manifest_entry"]["content_offset"]
    assert line["manifest_entry"] == {
        "content": 1,
        "file_path": str(container),
        "file_format": "PUFFIN",
        "record_count": 300,
        "file_size_in_bytes": container.stat().st_size,
        "referenced_data_file": f"{root}/z.parquet",
        "content_offset": at,
        "content_size_in_bytes": len(delta.encode(OTHER)),
    }
    assert line["sources"] == [{"format": "delta", "path": container.name, "offset": at, "size": line["size"]}]
    assert (line["physical_rows"], line["data_file_size"], line["how"]) == (1000, 99, "in-place")


def test_vectors_of_other_layouts_are_encoded_again(tmp_path: Path) -> None:
    rows = {"native.parquet": ROWS, "portable.parquet": OTHER}
    frames = [delta.encode(ROWS, layout="native"), delta.encode(OTHER)]
    path = Path(delta.new_file(str(tmp_path)))
    path.write_bytes(b"\1" + b"".join(frames))
    place = {"storageType": "p", "pathOrInlineDv": path.as_uri()}
    descriptors = {
        name: place | {"offset": at, "sizeInBytes": len(frame) - 8, "cardinality": wanted.cardinality}
        for (name, wanted), frame, at in zip(rows.items(), frames, (1, 1 + len(frames[0])), strict=True)
    }
    inline = delta.encode_inline(RowSet([1, 9]), layout="native")
    descriptors |= {"inline.parquet": json.loads(inline.to_json()), "none.parquet": json.loads(delta.EMPTY.to_json())}
    done = convert_table(open_table(log_of(tmp_path, descriptors)), "iceberg", str(beside(tmp_path) / "out"))
    found = {Path(path).name: line for path, line in lines(done).items()}
    hows = {"native.parquet": "encoded", "portable.parquet": "in-place", "inline.parquet": "encoded"}
    assert {name: line["how"] for name, line in found.items()} == hows
    assert {name: rows_of(line) for name, line in found.items()} == rows | {"inline.parquet": RowSet([1, 9])}
    assert done.empty == 1


# ---------------------------------------------------------------------- to Delta


@pytest.mark.parametrize("where", ["table", "elsewhere"])
def test_iceberg_vectors_become_delta_actions(tmp_path: Path, where: str) -> None:
    table = make_table(tmp_path)
    out = tmp_path if where == "table" else beside(tmp_path) / "out" / "deep"
    done = convert_table(table, "delta", str(out), root=str(tmp_path))
    found = lines(done)
    assert {path: rows_of(line, str(tmp_path)) for path, line in found.items()} == {
        "data/a.parquet": RowSet([1, 2, 500]),
        "data/b.parquet": RowSet(range(1000)),
        "data/c.parquet": RowSet([0, 999, 7]),
    }
    line = found["data/c.parquet"]
    vector = line["add"].pop("deletionVector")
    assert line["add"] == {
        "path": "data/c.parquet",
        "partitionValues": {},
        "size": (tmp_path / "data" / "c.parquet").stat().st_size,
        "modificationTime": 2000,
        "dataChange": True,
        "stats": '{"numRecords":1000,"tightBounds":false}',
    }
    assert line["remove"] == {"path": "data/c.parquet", "deletionTimestamp": 2000, "dataChange": True}
    assert vector["storageType"] == ("u" if where == "table" else "p")
    (container,) = done.files
    assert Path(container).parent == out
    assert {vector.how for vector in done.vectors} == {How.COPIED}


@pytest.mark.interop
def test_delta_rs_reads_the_actions(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    table = make_table(tmp_path)
    done = convert_table(table, "delta", str(beside(tmp_path) / "out" / "deep"))
    log_of(tmp_path, {f"data/{name}.parquet": None for name in "abcd"})
    actions = [{kind: line[kind]} for line in lines(done).values() for kind in ("remove", "add")]
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (tmp_path / "_delta_log" / f"{1:020}.json").write_text(text)
    read = pa.table(deltalake.DeltaTable(str(tmp_path)).deletion_vectors().read_all()).to_pylist()
    found = {Path(unquote(row["filepath"])).stem: RowSet.from_mask(row["selection_vector"]) for row in read}
    everything = RowSet(range(1000))
    assert {name: everything - kept for name, kept in found.items()} == {
        "a": RowSet([1, 2, 500]),
        "b": everything,
        "c": RowSet([0, 7, 999]),
    }


def test_delta_paths_are_as_delta_writes_them(tmp_path: Path) -> None:
    """The literals are what Delta 4.4 and Hadoop's Path make of these folders."""
    spelled = {
        "part=a%23b/x.parquet": "part=a%2523b/x.parquet",
        "part=two words/x.parquet": "part=two%20words/x.parquet",
        "part=zażółć ☃/x.parquet": "part=zażółć%20☃/x.parquet",
        "part=x%2Fy%3Dz%3F&/x.parquet": "part=x%252Fy%253Dz%253F&/x.parquet",
        "part=%2520+%7B%5B1%5D}/x.parquet": "part=%252520+%257B%255B1%255D%7D/x.parquet",
        "a:b/x#?.parquet": "a%3Ab/x%23%3F.parquet",
    }
    files = [a_file(path=f"/t/{name}", location=f"/t/{name}") for name in spelled]
    vectors = write_vectors(tmp_path, "v", {file.path: ROWS for file in files})
    done = convert_table(a_table(files, vectors, Path("/t")), "delta", str(beside(tmp_path) / "out"))
    assert sorted(line["add"]["path"] for line in lines(done).values()) == sorted(spelled.values())
    other = a_table(files, vectors, Path("/t"))
    other.states = [replace(other.states[0], info=SnapshotInfo(7))]  # whose time is not recorded
    elsewhere = convert_table(other, "delta", str(beside(tmp_path) / "out2"), root="s3a://lake/other")
    assert {line["remove"]["deletionTimestamp"] for line in lines(elsewhere).values()} == {0}
    assert {line["add"]["path"] for line in lines(elsewhere).values()} == {
        f"file:///t/{name}" for name in spelled.values()
    }


# ---------------------------------------------------------------------- position deletes, and Iceberg to Iceberg


def test_position_deletes_become_one_vector_for_each_data_file(tmp_path: Path) -> None:
    files = [a_file(f"{name}.parquet") for name in "abc"]
    first, second, third = (position_deletes(f"{i}-deletes.parquet") for i in range(3))
    (vector,) = write_vectors(tmp_path, "v", {files[2].path: OTHER})
    table = a_table(files, [first, vector, second, third], tmp_path)
    table.given = {
        first: {files[0].path: RowSet([1, 2]), files[1].path: RowSet([9])},
        second: {files[0].path: RowSet([2, 999])},
        third: {files[2].path: RowSet([100])},  # does not count where there is a vector
    }
    steps: list[tuple[int, int]] = []
    done = convert_table(table, "iceberg", str(beside(tmp_path) / "out"), progress=lambda *step: steps.append(step))
    found = lines(done)
    assert {path: rows_of(line) for path, line in found.items()} == {
        files[0].path: RowSet([1, 2, 999]),
        files[1].path: RowSet([9]),
        files[2].path: OTHER,
    }
    assert [source["path"] for source in found[files[0].path]["sources"]] == [first.path, second.path]
    assert [found[file.path]["how"] for file in files] == ["encoded", "encoded", "in-place"]
    assert steps == [(1, 3), (2, 3), (3, 3)]


# ---------------------------------------------------------------------- Paimon


@pytest.mark.parametrize(("to", "bits", "how"), [("paimon32", 32, "encoded"), ("paimon64", 64, "copied")])
def test_index_files_are_written_for_each_partition_and_bucket(tmp_path: Path, to: Target, bits: int, how: str) -> None:
    files = [
        a_file("p=1/a.parquet", partition="p=1"),
        a_file("p=2/a.parquet", partition="p=2", bucket=3),
        a_file("p=2/b.parquet", partition="p=2", bucket=3),
        a_file("p=2/c.parquet", partition="p=2", bucket=4),
    ]
    vectors = write_vectors(tmp_path, "v", {file.path: RowSet([i, 500]) for i, file in enumerate(files)})
    done = convert_table(a_table(files, vectors, tmp_path), to, str(beside(tmp_path) / "out"))
    found = [json.loads(line) for line in Path(done.entries).read_text().splitlines()]
    assert len(done.files) == 3
    assert [(line["deletion_vector_meta"]["data_file"], line["index_file"]["bucket"]) for line in found] == [
        ("a.parquet", 0),
        ("a.parquet", 3),
        ("b.parquet", 3),
        ("c.parquet", 4),
    ]
    assert [line["index_file"]["row_count"] for line in found] == [1, 2, 2, 1]
    assert len({line["path"] for line in found[1:3]}) == 1
    for i, line in enumerate(found):
        assert rows_of(line) == RowSet([i, 500])
        assert line["how"] == how
        data = Path(line["path"]).read_bytes()[line["offset"] : line["offset"] + line["size"]]
        assert data == paimon.encode(RowSet([i, 500]), layout=f"bitmap{bits}")


def paimon_vectors(folder: Path, rows: Mapping[str, RowSet], bits: int) -> list[DeletionVector]:
    written = paimon.write_deletion_vectors(str(folder / f"index-{bits}"), rows, layout=f"bitmap{bits}")
    return [
        DeletionVector(at.format, at.data_file, at.path, at.path, at.offset, at.size, at.cardinality, at.file_size)
        for at in written
    ]


@each("bits", [32, 64])
@each("to", TARGETS)
def test_from_paimon(tmp_path: Path, bits: int, to: Target) -> None:
    files = [a_file("bucket-0/a.parquet"), a_file("bucket-0/b.parquet")]
    rows = {files[0].path: ROWS, files[1].path: OTHER}
    table = a_table(files, paimon_vectors(tmp_path, rows, bits), Path("/t"), kind=TableKind.PAIMON)
    done = convert_table(table, to, str(beside(tmp_path) / "out"))
    assert [rows_of(line, "/t") for line in lines(done).values()] == [ROWS, OTHER]
    expected = {("iceberg", 64): How.IN_PLACE, ("delta", 64): How.COPIED, (f"paimon{bits}", bits): How.COPIED}
    assert {vector.how for vector in done.vectors} == {expected.get((to, bits), How.ENCODED)}


# ---------------------------------------------------------------------- files


def test_files_are_closed_when_they_are_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(iceberg.encode(ROWS))
    monkeypatch.setattr(writing, "FILE_BYTES", 2 * size)
    files = [a_file(f"{i}.parquet") for i in range(5)]
    table = a_table(files, write_vectors(tmp_path, "v", {file.path: ROWS for file in files}), tmp_path)
    done = convert_table(table, "iceberg", str(beside(tmp_path) / "out"), reference_in_place=False)
    assert [len(iceberg.read_deletion_vectors(path)) for path in done.files] == [2, 2, 1]
    assert [rows_of(line) for line in lines(done).values()] == [ROWS] * 5


def test_a_broken_vector_takes_back_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "FILE_BYTES", 1)
    table = make_table(tmp_path)
    last = table.snapshot().vectors[-1]
    assert last.offset is not None
    flip(last.location, last.offset + 12)
    with pytest.raises(ChecksumMismatch, match=r"deletes\.puffin"):
        convert_table(table, "delta", str(beside(tmp_path) / "out" / "deep"))
    assert not (beside(tmp_path) / "out" / "deep").exists()
    (beside(tmp_path) / "kept").mkdir()
    (beside(tmp_path) / "kept" / "mine").touch()
    with pytest.raises(ChecksumMismatch):
        convert_table(table, "delta", str(beside(tmp_path) / "kept"))
    assert [path.name for path in (beside(tmp_path) / "kept").iterdir()] == ["mine"]
    (beside(tmp_path) / "kept" / ENTRIES).touch()  # of an earlier conversion
    with pytest.raises(UsageError, match=ENTRIES):
        convert_table(table, "iceberg", str(beside(tmp_path) / "kept"), reference_in_place=False)


# ---------------------------------------------------------------------- what cannot be converted


def a_vector(folder: Path, file: DataFile | None = None, rows: RowSet = ROWS, **values: Any) -> Given:
    """Make a table of a data file with deleted rows."""
    file = file or a_file(**values)
    return a_table([file], write_vectors(folder, "v", {file.path: rows}), folder)


def of_kind(folder: Path, format: str) -> Given:  # noqa: A002
    return a_table([a_file()], [DeletionVector(format, "/t/a.parquet", "/t/d", "/t/d")], folder)


def beyond(folder: Path, *, given: bool) -> Given:
    """Vectors, or position deletes, of rows that the data file does not have."""
    file, deletes = a_file("short.parquet", rows=700), position_deletes("deletes.parquet")
    if not given:
        return a_vector(folder, file)
    table = a_table([file], [deletes], folder)
    table.given = {deletes: {file.path: ROWS}}
    return table


def twins(folder: Path) -> Given:
    files = [a_file("x/a.parquet"), a_file("y/a.parquet")]
    return a_table(files, write_vectors(folder, "v", {file.path: ROWS for file in files}), folder)


def partition(*value: Any) -> DataFile:
    return a_file(partition="c=?", partition_values=(PartitionValue("c", *value),))


BEYOND = r"for /t/short\.parquet: expected below 700.*found 700"


@each(
    ("make", "to", "options", "error", "message"),
    [
        *((partial(beyond, given=given), to, {}, NotCanonical, BEYOND) for to in TARGETS for given in (True, False)),
        (partial(of_kind, format="lance"), "delta", {}, Unsupported, "/t/d: deletes of the kind lance"),
        (lambda folder: a_table([], [], folder, kind=TableKind.SCORCH), "iceberg", {}, UsageError, "scorch"),
        (lambda folder: a_table([], [], folder, kind=TableKind.DELTA), "delta", {}, UsageError, "Delta's already"),
        (twins, "paimon64", {}, UsageError, r"/t/y/a\.parquet and /t/x/a\.parquet"),
        (partial(a_vector, rows=RowSet([1]), file=a_file(rows=None)), "delta", {}, UsageError, "its rows are unknown"),
        (partial(a_vector, file=a_file(size=None)), "delta", {}, UsageError, "its bytes are unknown"),
        (partial(a_vector, file=a_file(partition="p=1")), "delta", {}, UsageError, "partition values are unknown"),
        (partial(a_vector, file=a_file(file_format="orc")), "delta", {}, UsageError, "it is orc"),
        (partial(a_vector, file=a_file(path="/t/a.avro")), "delta", {}, UsageError, "it is avro"),
        (partial(a_vector, file=partition("the type uuid", bytes(16))), "delta", {}, UsageError, "has the type uuid"),
        (partial(a_vector, file=partition("string", "")), "delta", {}, UsageError, "is empty text"),
        (partial(a_vector, file=partition("date", -800_000)), "delta", {}, UsageError, "of the years 1 to 9999"),
        (partial(a_vector, file=partition("timestamp", 2**63 - 1)), "delta", {}, UsageError, "of the years 1 to 9999"),
        (make_table, "puffin", {}, UsageError, "only to iceberg, delta, paimon32, paimon64"),
        (make_table, "paimon64", {"reference_in_place": True}, UsageError, "cannot be referenced in place"),
        (make_table, "delta", {"snapshot_id": 99}, UsageError, "no snapshot 99"),
        (make_table, "delta", {"version": 2}, UsageError, "it goes with iceberg, not with delta"),
        (make_table, "iceberg", {"version": 1}, UsageError, "format version 1: expected 2, for position deletes, or 3"),
        (
            make_table,
            "iceberg",
            {"version": 2, "reference_in_place": True},
            UsageError,
            "cannot be referenced in place",
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_refused(
    make: Callable[[Path], Any],
    to: Target,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(error, match=message):
        convert_table(make(tmp_path), to, str(beside(tmp_path) / "out"), **options)
    assert_untouched(beside(tmp_path) / "out")


def test_equality_deletes_hold_within_iceberg_alone(tmp_path: Path) -> None:
    """Another format would bring the rows back that they delete; in the same table they go on holding."""
    first = iceberg_table.Commit({"a.parquet": 20, "b.parquet": 20}, {"a.parquet": RowSet([3])})
    later = iceberg_table.Commit({"c.parquet": 20}, equality=True)
    crafted = iceberg_table.build_iceberg(tmp_path / "t", first, later)
    table = open_table(crafted.folder)
    for to in ELSEWHERE:
        with pytest.raises(Unsupported, match=r"a\.parquet: .*equality-\d+\.parquet"):
            convert_table(table, to, str(beside(tmp_path) / "out"))
        assert_untouched(beside(tmp_path) / "out")
    assert convert_table(table, "iceberg", str(beside(tmp_path) / "out1")).rows == 1
    assert convert_table(table, "delta", str(beside(tmp_path) / "out2"), snapshot_id=crafted.snapshots[0]).rows == 1


def test_a_vector_that_is_older_than_its_data_file(tmp_path: Path) -> None:
    """It does not hold, and to say it in another format would make it hold."""

    def older(entry: dict[str, Any]) -> dict[str, Any]:
        return entry | {"sequence_number": 1} if entry["data_file"]["content"] else entry

    commits = (iceberg_table.Commit({"a": 1}), iceberg_table.Commit({"b": 20}, {"b": RowSet([3])}))
    iceberg_table.build_iceberg(tmp_path / "t", *commits, tweak_entry=older)
    for to in TARGETS:
        with pytest.raises(NotCanonical, match=r"/b\b.*expected at least 2, .*found 1"):
            convert_table(open_table(tmp_path / "t"), to, str(beside(tmp_path) / "out"))


def test_paimons_partitions_are_known_to_delta(tmp_path: Path) -> None:
    rows = pa.table({"id": range(5)})
    data = [
        paimon_table.PaimonFile("a.parquet", rows, [2], (part, 20_000), f"p={folder}/day=20000")
        for part, folder in (("a/b=c", "a%2Fb%3Dc"), (None, "__DEFAULT_PARTITION__"))
    ]
    columns = [(0, "id", "BIGINT"), (1, "p", "STRING"), (2, "day", "DATE")]
    paimon_table.build_paimon(tmp_path / "t", columns, [data], partition_keys=["p", "day"])
    found = lines(convert_table(open_table(tmp_path / "t"), "delta", str(beside(tmp_path) / "out")))
    assert {path: line["add"]["partitionValues"] for path, line in found.items()} == {
        "p=a%252Fb%253Dc/day=20000/bucket-0/a.parquet": {"p": "a/b=c", "day": "2024-10-04"},
        "p=__DEFAULT_PARTITION__/day=20000/bucket-0/a.parquet": {"p": None, "day": "2024-10-04"},
    }


# ------------------------------------------------- deletes that are committed to another table of the same data files


COUNT = 20


def two_files(folder: Path, *more: Commit) -> IcebergFiles:
    vectors = {"a": RowSet([1, 2])}
    return build_iceberg(folder, Commit(data={"a": COUNT, "b": COUNT}, vectors=vectors), *more)


def left_of(*gone: int) -> list[int]:
    return [file * STEP + row for file in range(2) for row in range(COUNT) if file * STEP + row not in gone]


def test_from_iceberg_to_delta(tmp_path: Path) -> None:
    """Vectors, and position deletes of one data file; the table is both, and deltalake reads it."""
    made = two_files(tmp_path / "t", Commit(deletes=[{"b": RowSet([3])}]))
    delta_of_files(made.folder, made.folder)
    command = ("convert-table", made.folder, "--kind", "iceberg", "--to", "delta", "--root", made.folder, "--commit")
    planned = run(*command, "--dry-run")
    assert (planned.code, planned.err) == (0, "")
    assert planned.out.splitlines()[-1] == "dry run: 3 rows of 2 data files would be deleted"
    assert len(list((made.folder / "_delta_log").iterdir())) == 1
    done = run(*command)
    assert done.out.splitlines()[-1] == f"snapshot 1 of {made.folder}: 3 rows of 2 data files deleted"
    assert run(*command).out == "all of these rows are deleted already: nothing was committed\n"
    assert run(*command, "--json").json["committed"] is False
    assert audit(open_table(made.folder, kind=TableKind.DELTA)).ok
    deltalake = pytest.importorskip("deltalake")
    found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(made.folder)).execute("SELECT id FROM t")
    assert sorted(pa.table(found)["id"].to_pylist()) == left_of(1, 2, STEP + 3)


def test_from_delta_to_iceberg(tmp_path: Path) -> None:
    """What each has deleted by itself is deleted in the target; pyiceberg reads it."""
    made = two_files(tmp_path / "t")
    source = delta_of_files(tmp_path / "d", made.folder)
    open_table(source).delete(pc.field("id").isin([2, 5, STEP]))
    target = open_table(made.folder)
    done = copy_deletes(open_table(source), target)
    assert (done.rows, done.files, done.committed) == (2, 2, True)
    assert audit(target).info.id == done.snapshot
    assert audit(target).ok
    assert ids_by_library({"location": str(made.folder)}) == left_of(1, 2, 5, STEP)
    old = build_iceberg(tmp_path / "old", Commit(data={"a": COUNT, "b": COUNT}), version=2)
    source = delta_of_files(tmp_path / "e", old.folder)
    open_table(source).delete(pc.field("id").isin([2, STEP + 5]))
    assert run("convert-table", source, "--to", "iceberg", "--root", old.folder, "--commit").code == 0
    assert {vector.format for vector in open_table(old.folder).snapshot().vectors} == {"position-deletes"}


def test_options_go_together() -> None:
    for given, line in (
        ("--to delta --commit", "--commit goes with --root"),
        ("--to delta --commit --root r -o x", "--commit goes with --root"),
        ("--to delta -o x --dry-run", "--dry-run needs --commit"),
        ("--to delta", "expected --output"),
        ("--to iceberg --root r --commit --version 2", "--commit writes what the version of the table"),
    ):
        assert line in run("convert-table", "t", *given.split()).complaint


def test_copies_that_are_refused(tmp_path: Path) -> None:
    made = two_files(tmp_path / "t")
    source = open_table(made.folder)
    with pytest.raises(UsageError, match=r"expected another table.*upgrade-deletes"):
        copy_deletes(source, open_table(made.folder))
    with pytest.raises(UsageError, match=r"does not have .*/data/a, which has deleted rows"):
        copy_deletes(source, open_table(delta_of_files(tmp_path / "without", made.folder, "b")))
    with pytest.raises(UsageError, match="19 rows, and 20 in"):
        copy_deletes(source, open_table(delta_of_files(tmp_path / "fewer", made.folder, rows=19)))
    equality = two_files(tmp_path / "e", Commit(equality=True))
    with pytest.raises(Unsupported, match="equality"):
        copy_deletes(open_table(equality.folder), open_table(delta_of_files(tmp_path / "d", equality.folder)))
    ghost = build_iceberg(tmp_path / "g", Commit(data={"a": COUNT}, vectors={"ghost": RowSet([1])}))
    with pytest.raises(NotCanonical, match="not in the snapshot"):
        copy_deletes(open_table(ghost.folder), open_table(delta_of_files(tmp_path / "h", ghost.folder, "a")))


# ---------------------------------- vectors that become entries, values of partitions, and what a commit says of them


UTC = pa.timestamp("us", tz="UTC")


def spelled(kind: str, value: Any) -> str | None:
    return partition_values(DataFile("/t/a", "/t/a", 1, 1, "c=?", (PartitionValue("c", kind, value),)))["c"]


@each(
    ("kind", "value", "text", "arrow"),
    [
        ("boolean", True, "true", pa.bool_()),
        ("int", -7, "-7", pa.int64()),
        ("float", float(np.float32(0.1)), "0.1", pa.float32()),
        ("double", float("nan"), "NaN", None),
        ("serialized", "", "", None),
        ("decimal", Decimal("-1E-9"), "-0.000000001", pa.decimal128(12, 9)),
        ("date", -719_162, "0001-01-01", pa.date32()),
        ("timestamp", -1, "1969-12-31 23:59:59.999999", pa.timestamp("us")),
        ("timestamptz", 1, "1970-01-01T00:00:00.000001Z", UTC),
        ("string", "a/b=\u2603", "a/b=\u2603", pa.string()),
        ("string", None, None, pa.string()),
    ],
)
def test_texts_are_read_as_the_values(kind: str, value: Any, text: str | None, arrow: pa.DataType | None) -> None:
    assert spelled(kind, value) == text
    if arrow is not None:
        found = partition_scalar({"c": text}, Column("c", type=arrow), "file")
        assert found.equals(pa.scalar(value, arrow))


# ----------------------------------------- deletes as position delete files, for tables of Iceberg's format version 2


@pytest.mark.parametrize("kind", ["iceberg", "delta", "paimon"])
def test_each_format(tmp_path: Path, kind: str) -> None:
    """One file for each data file with deleted rows, and its manifest entry."""
    MAKERS[kind](tmp_path / "t", 300, 100)
    table = open_table(tmp_path / "t")
    table.delete("id IN (1, 2, 40, 107)")
    out = beside(tmp_path) / "out"
    shown = run("convert-table", tmp_path / "t", "--to", "iceberg", "--version", "2", "-o", out)
    assert (shown.code, shown.err) == (0, "")
    assert "2 vectors, 4 deleted rows, 2 encoded" in shown.out
    entries = [json.loads(line) for line in (out / ENTRIES).read_text().splitlines()]
    found = sorted(entries, key=lambda line: -line["cardinality"])
    first, second, _ = sorted(file.location for file in table.snapshot().data_files)
    assert {Path(line["path"]) for line in found} == set(out.glob("*-deletes.parquet"))
    for line, location, rows in zip(found, (first, second), (RowSet([1, 2, 40]), RowSet([7])), strict=True):
        entry = line["manifest_entry"]
        assert read_position_deletes(entry["file_path"]) == {line["data_file"]: rows}
        assert (line["data_file"], entry["referenced_data_file"]) == (location, location)
        assert (entry["content"], entry["file_format"], entry["record_count"]) == (1, "PARQUET", rows.cardinality)
        assert entry["file_size_in_bytes"] == line["size"] == Path(line["path"]).stat().st_size
        lower = {pair["key"]: bytes.fromhex(pair["value"]) for pair in entry["lower_bounds"]}
        assert lower == {2147483546: location.encode(), 2147483545: struct.pack("<q", rows.min)}
        assert pq.read_schema(line["path"]).field("pos").metadata[b"PARQUET:field_id"] == b"2147483545"


def test_position_deletes_stay(tmp_path: Path) -> None:
    MAKERS["iceberg 2"](tmp_path / "t", 300, 100)
    table, out = open_table(tmp_path / "t"), beside(tmp_path) / "out"
    assert convert_table(table, "iceberg", str(out / "none"), version=2).vectors == ()
    table.delete("id < 3")
    with pytest.raises(UsageError, match="position deletes already; compact-deletes merges them"):
        convert_table(table, "iceberg", str(out / "some"), version=2)
    assert convert_table(table, "iceberg", str(out / "three"), version=3).rows == 3
    with pytest.raises(UsageError, match="the folder to write to is empty"):
        convert_table(table, "delta", "")


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux alone")
def test_position_deletes_name_only_unicode(tmp_path: Path) -> None:
    MAKERS["delta"](tmp_path / "t", 300, 100)
    open_table(tmp_path / "t").delete("id < 3")
    table = open_table((tmp_path / "t").rename(tmp_path / "t\udcff"))
    with pytest.raises(UsageError, match="its name is not valid UTF-8, so position deletes cannot name it"):
        convert_table(table, "iceberg", str(tmp_path / "out"), version=2)
    assert not list((tmp_path / "out").glob("*.parquet"))

"""repair_plan and commit_repair: what would repair a table, and what does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cli_runner import run
from dvcodec import CommitConflict, RowSet, UsageError, iceberg, paimon
from dvcodec.tables import (
    DeletionVector,
    SnapshotInfo,
    TableKind,
    audit,
    commit_repair,
    open_table,
    repair_plan,
)
from dvcodec.tables.iceberg import open as open_iceberg
from dvcodec.tables.snapshots.findings import Finding
from samples import delta_log
from samples.damages import equal_vector, gone_file, second_vector, stale_blob, stale_metadata, wrong_count, wrong_size
from samples.iceberg_table import Commit, IcebergFiles, altered, build_iceberg
from samples.id_tables import MAKERS
from samples.memory_table import ROWS, FakeTable, changed, flip, make_table, write_vectors
from samples.paimon_table import PaimonFile, build_paimon
from samples.rows import deleted, ids
from tables.deleting.libraries import ids_by_library


def stale(table: FakeTable, folder: Path) -> None:
    """The metadata names a path of before; so does the Puffin file."""
    vector = table.snapshot().vectors[0]
    (old,) = write_vectors(folder, "more", {"s3://old/t/data/a.parquet": RowSet([4, 5])})
    changed(table, old, drop=[vector])


def orphan(table: FakeTable, folder: Path) -> None:
    write_vectors(folder, "more", {"x": RowSet([1])})


def wreck(vector: DeletionVector) -> None:
    """Flip more bits than can be corrected."""
    at = vector.offset or 0
    flip(vector.location, at + 9, at + 13, at + 17)


def broken(table: FakeTable, folder: Path) -> None:
    """A third state replaces the vector of a; the new one has more damage than can be corrected."""
    old = table.snapshot()
    (new,) = write_vectors(folder, "third", {old.data_files[0].path: RowSet([1, 2, 3, 500, 600])})
    vectors = (new, *old.vectors[1:])
    table.states.append(replace(old, info=SnapshotInfo(3, parent=2), vectors=vectors))
    wreck(new)


@pytest.mark.parametrize(
    ("damage", "action", "reads"),
    [
        (second_vector, "merge-vectors", RowSet([1, 2, 9, 500])),
        (equal_vector, "drop-vectors", RowSet()),
        (gone_file, "drop-vectors", RowSet()),
        (stale, "rewrite-paths", RowSet()),
        (stale_metadata, "rewrite-paths", RowSet()),
        (stale_blob, "write-again", RowSet([1, 2, 500])),
        (wrong_count, "correct-cardinality", RowSet()),
        (wrong_size, "correct-file-size", RowSet()),
        (orphan, "remove-file", RowSet()),
        (broken, "take-from-snapshot", RowSet([1, 2, 500])),
    ],
)
def test_the_plan_repairs(
    damage: Callable[[FakeTable, Path], None], action: str, reads: RowSet, tmp_path: Path
) -> None:
    """`reads`: the rows of the new vector, where one is written."""
    folder = tmp_path / "table"
    table = make_table(folder)
    damage(table, folder)
    found = audit(table)
    plan = repair_plan(found, table)
    assert ([one.action for one in plan.actions], plan.unfixed) == ([action], ())
    assert plan.actions[0].fixes == tuple(finding.check for finding in found.findings)
    assert json.loads(json.dumps(plan.to_dict()))["actions"][0]["action"] == action
    read_from = table.snapshot(plan.actions[0].snapshot)
    deleted = [one.rows for vector in plan.actions[0].reads for one in read_from.read(vector)]
    assert RowSet().union(*deleted) == reads


@pytest.mark.parametrize(
    ("check", "actual"), [("cardinality", None), ("cardinality", "several"), ("file-size", None), ("file-size", "77")]
)
def test_values_that_say_too_little_are_not_committed(check: str, actual: str | None, tmp_path: Path) -> None:
    """Nor is the size of a file of which a vector is lost."""
    table = make_table(tmp_path)
    vector = table.snapshot().vectors[0]
    found = audit(table)
    finding = Finding.of_vector(check, vector, check, 5, actual)
    lost = ((vector, "gone"),) if actual == "77" else ()
    plan = repair_plan(replace(found, findings=(finding,), scan=replace(found.scan, lost=lost)), table)
    assert (plan.actions, plan.unfixed) == ((), (finding,))


def test_older_vectors_that_do_not_help(tmp_path: Path) -> None:
    """The same vector, broken ones, none at all, and those with positions beyond the file."""
    table = make_table(tmp_path)
    broken(table, tmp_path)
    path = table.snapshot().data_files[0].path
    same = replace(table.states[1], vectors=table.states[2].vectors)
    (far,) = write_vectors(tmp_path, "far", {path: RowSet([ROWS])})
    (bad,) = write_vectors(tmp_path, "bad", {path: RowSet([9])})
    wreck(bad)
    for vectors in (same.vectors, (far,), (bad,), ()):
        table.states[1] = replace(same, vectors=vectors)
        plan = repair_plan(audit(table, orphans=False), table)
        assert [(one.action, one.fixes) for one in plan.actions] == [("restore-rows", ("crc",))]
        assert "whose 5 rows become live again" in plan.actions[0].message


def test_what_cannot_be_fixed_is_kept(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    files, (a, b, c) = table.snapshot().data_files, table.snapshot().vectors
    (far,) = write_vectors(tmp_path, "far", {files[3].path: RowSet([ROWS])})
    changed(table, a, b, c, far, drop=[a, b, c])
    Path(files[1].location).unlink()
    plan = repair_plan(audit(table), table)
    assert plan.actions == ()
    assert [finding.check for finding in plan.unfixed] == ["rows", "missing-data-file"]
    assert len(plan.to_dict()["unfixed"]) == 2


def test_swapped_vectors_are_put_right(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    a, b, c = table.snapshot().vectors
    swapped = (replace(a, offset=c.offset, size=c.size), replace(c, offset=a.offset, size=a.size))
    changed(table, swapped[0], b, swapped[1], drop=[a, b, c])
    plan = repair_plan(audit(table), table)
    assert {one.action for one in plan.actions} == {"correct-range"}
    assert {one.reads for one in plan.actions} == {(a,), (c,)}
    assert all(one.restores_rows for one in plan.actions)  # it may be the file that has them swapped
    assert plan.unfixed == ()


def test_what_a_file_says_of_a_replaced_vector_is_fixed_too(tmp_path: Path) -> None:
    """Of a Delta vector of a wrong size, ``length`` and ``frame`` are errors; one action fixes both."""
    log = delta_log.restored_table(tmp_path / "t") / "_delta_log" / f"{2:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["deletionVector"]["sizeInBytes"] -= 1
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    table = open_table(str(tmp_path / "t"))
    plan = repair_plan(audit(table), table)
    assert [(action.action, action.fixes) for action in plan.actions] == [("take-from-snapshot", ("length", "frame"))]
    assert plan.unfixed == ()


def test_only_snapshots_from_which_it_was_made(tmp_path: Path) -> None:
    """Snapshots of other branches, or rolled back, hold other rows; a circle of parents ends."""
    table = make_table(tmp_path)
    broken(table, tmp_path)
    last = table.states[-1]
    (more,) = write_vectors(tmp_path, "branch", {last.data_files[0].path: RowSet(range(5))})
    branch = replace(last, info=SnapshotInfo(7, parent=2), vectors=(more,))
    table.states.insert(2, branch)
    assert [action.snapshot for action in repair_plan(audit(table, orphans=False), table).actions] == [2]
    table.states[0] = replace(table.states[0], info=SnapshotInfo(1, parent=3))
    table.states[1] = replace(table.states[1], vectors=last.vectors)
    assert [one.action for one in repair_plan(audit(table, orphans=False), table).actions] == ["restore-rows"]
    table.states = [replace(state, info=SnapshotInfo(state.info.id)) for state in table.states]
    assert [action.snapshot for action in repair_plan(audit(table, orphans=False), table).actions] == [7]


def test_older_vectors_of_more_rows_are_refused(tmp_path: Path) -> None:
    """Rows were restored since: they live."""
    table = make_table(tmp_path, {"a": RowSet(range(6))})
    broken(table, tmp_path)
    plan = repair_plan(audit(table, orphans=False), table)
    assert [(one.action, one.reads, plan.unfixed) for one in plan.actions] == [("restore-rows", (), ())]


# -------------------------------- repair plans that are committed: the table is valid afterwards, and engines read it


COUNT = 20
Tweak = Callable[[dict[str, Any]], dict[str, Any]]


def deleted_lists(folder: Path) -> dict[str, list[int]]:
    return {name: list(rows) for name, rows in deleted(open_table(folder).snapshot()).items()}


def other_vector(folder: Path, rows: RowSet) -> Tweak:
    """Make the vector of ``b`` another one of ``a``."""

    def tweak(entry: dict[str, Any]) -> dict[str, Any]:
        file = entry["data_file"]
        if file.get("content") == 1 and file["referenced_data_file"].endswith("/b"):
            (place,) = iceberg.write_deletion_vectors(folder / "data" / "more.puffin", {f"{folder}/data/a": rows})
            file |= iceberg.manifest_entry(place)
        return entry

    return tweak


@pytest.mark.parametrize(
    ("tweak", "action", "rows"),
    [
        (lambda folder: other_vector(folder, RowSet([2, 7])), "merge-vectors", [1, 2, 7]),
        (lambda folder: other_vector(folder, RowSet([1, 2])), "drop-vectors", [1, 2]),
        (lambda _: altered({"record_count": 5}, content=1), "correct-cardinality", [1, 2]),
        (lambda _: altered({"file_size_in_bytes": 9999}, content=1), "correct-file-size", [1, 2]),
    ],
    ids=["different", "equal", "cardinality", "size"],
)
def test_iceberg(tmp_path: Path, tweak: Callable[[Path], Tweak], action: str, rows: list[int]) -> None:
    folder = tmp_path / "t"
    first = Commit(data={"a": COUNT, "b": COUNT}, vectors={"a": RowSet([1, 2]), "b": RowSet([3])})
    build_iceberg(folder, first, tweak_entry=tweak(folder))
    assert run("audit", folder).code == 1
    done = run("repair", folder, "--commit", "--json")
    assert (done.code, done.err) == (0, "")
    commit = done.json["commit"]
    assert {one["action"] for one in commit["actions"]} == {action}
    assert (commit["committed"], commit["left"]) == (True, [])
    found = deleted_lists(folder)
    assert found.pop("a") == rows
    assert found in ({}, {"b": [3]})
    table = pytest.importorskip("pyiceberg.table").StaticTable
    source = open_iceberg(folder).metadata.source
    assert table.from_metadata(source).scan().to_arrow().num_rows == 2 * COUNT - len(rows) - len(found)
    again = run("repair", folder, "--commit", "--json")
    assert (again.code, again.json["commit"]["committed"]) == (0, False)


@pytest.mark.parametrize(("other", "by"), [(RowSet([3, 4]), 2), (RowSet([3, 4]), None), (RowSet([3]), None)])
def test_a_vector_of_another_range(tmp_path: Path, other: RowSet, by: int | None) -> None:
    """The range is `by` bytes off, or the other vector's: then nothing that reads vectors alone sees it."""
    folder, first = tmp_path / "t", Commit(data={"a": COUNT, "b": COUNT}, vectors={"a": RowSet([1, 2]), "b": other})
    build_iceberg(folder, first)
    of_a, of_b = sorted(open_table(folder).snapshot().vectors, key=lambda one: str(one.data_file))
    assert of_a.path == of_b.path
    wrong = {
        "content_offset": of_b.offset if by is None else (of_a.offset or 0) + by,
        "content_size_in_bytes": of_b.size if by is None else of_a.size,
    }

    def tweak(entry: dict[str, Any]) -> dict[str, Any]:
        if entry["data_file"].get("referenced_data_file", "").endswith("/a"):
            entry["data_file"] |= wrong
        return entry

    build_iceberg(folder, first, tweak_entry=tweak)
    done = run("repair", folder, "--commit", "--json")
    assert (done.code, done.err, done.json["unfixed"]) == (0, "", [])
    assert [one["action"] for one in done.json["commit"]["actions"]] == ["correct-range"]
    assert deleted_lists(folder) == {"a": [1, 2], "b": list(other)}


def test_vectors_of_data_files_that_are_gone(tmp_path: Path) -> None:
    """They are taken out; the others, in the same files, stay."""
    iceberg_folder, paimon_folder = tmp_path / "iceberg", tmp_path / "paimon"
    build_iceberg(iceberg_folder, Commit(data={"a": COUNT}, vectors={"a": RowSet([1, 2]), "ghost": RowSet([3])}))
    files = [PaimonFile(f"f{number}.parquet", pa.table({"id": range(COUNT)}), [number, 9]) for number in range(2)]
    build_paimon(paimon_folder, [(0, "id", "BIGINT")], [files])
    (path,) = paimon_folder.glob("manifest/index-manifest-*")
    (entry,) = paimon.read_index_manifest(path)
    first, second = entry.vectors or ()
    paimon.write_index_manifest(path, [replace(entry, vectors=(first, replace(second, data_file="ghost")))])
    for folder, left in ((iceberg_folder, {"a": [1, 2]}), (paimon_folder, {"f0.parquet": [0, 9]})):
        assert "gone-data-file" in run("audit", folder, "--json").out
        done = run("repair", folder, "--commit", "--json")
        assert (done.code, done.err, done.json["unfixed"]) == (0, "", [])
        assert (done.json["commit"]["committed"], done.json["commit"]["left"]) == (True, [])
        assert audit(open_table(folder), orphans=False).findings == ()
        assert deleted_lists(folder) == left


def test_what_is_left(tmp_path: Path) -> None:
    """Position deletes are for other commands."""
    wrong = altered({"file_size_in_bytes": 9999}, content=1)
    folder = build_iceberg(
        tmp_path / "t", Commit(data={"a": COUNT}), Commit(deletes=[{"a": RowSet([1])}]), tweak_entry=wrong
    ).folder
    files = set(folder.rglob("*"))
    line = "not committed: correct-file-size of .*: it concerns position deletes: compact-deletes"
    shown = run("repair", folder)
    assert "can be committed" not in shown.out
    assert re.match(line, shown.complaint)
    done = run("repair", folder, "--commit", "--json")
    assert (done.json["commit"]["committed"], len(done.json["commit"]["left"])) == (False, 1)
    assert set(folder.rglob("*")) == files


def test_only_the_audited_snapshot_is_repaired(tmp_path: Path) -> None:
    made: IcebergFiles = build_iceberg(
        tmp_path / "t",
        Commit(data={"a": COUNT, "b": COUNT}, vectors={"a": RowSet([1, 2])}),
        tweak_entry=altered({"file_size_in_bytes": 9999}, content=1),
    )
    table = open_table(made.folder)
    found = audit(table)
    plan = repair_plan(found, table)
    with pytest.raises(UsageError, match="the audit is for"):
        repair_plan(replace(found, table="elsewhere"), table)
    open_table(made.folder).delete(positions={made.paths["b"]: RowSet([5])})
    with pytest.raises(CommitConflict, match="audit it again"):
        commit_repair(plan, table)
    with pytest.raises(UsageError, match="the plan is for"):
        commit_repair(replace(plan, table="elsewhere"), table)


def test_what_is_damaged_after_the_plan_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    rows = {"a": RowSet([1, 2]), "b": RowSet([3])}
    wrong = altered({"file_size_in_bytes": 9999}, content=1)
    build_iceberg(folder, Commit(data={"a": COUNT, "b": COUNT}, vectors=rows), tweak_entry=wrong, per_puffin=1)
    table = open_table(folder)
    plan = repair_plan(audit(table), table)
    assert [action.action for action in plan.actions] == ["correct-file-size"] * 2
    path = folder / "data" / "vectors-1-0.puffin"
    flip(str(path), 30)
    done = commit_repair(plan, table)
    assert (done.committed, done.files) == (True, 1)
    assert [action.path for action in done.actions] == [str(folder / "data" / "vectors-1-1.puffin")]
    ((action, why),) = done.left
    assert (action.path, "vectors-1-0.puffin" in why, "\n" in why) == (str(path), True, False)
    assert table.snapshot().info.id == done.snapshot


# ------------------------------------------------------------------------- vectors that cannot be read, of real tables


def make(kind: str, folder: Path) -> None:
    """Ids from 0 on in two data files; of the first, rows were deleted twice."""
    MAKERS[kind](folder, 2 * COUNT, COUNT)
    for gone in ([1, 2], [5, COUNT + 3]):
        open_table(folder).delete(pc.field("id").isin(gone))


def live_by_libraries(folder: Path) -> Iterator[list[int]]:
    """Ids of the live rows, sorted, as each library reads them that has no defect with such a table."""
    table, pl = open_table(folder), pytest.importorskip("polars")
    yield ids_by_library({"location": str(folder)})
    if table.kind is TableKind.ICEBERG:
        yield sorted(pl.scan_iceberg(open_iceberg(folder).metadata.source).collect()["id"].to_list())
    elif table.kind is TableKind.DELTA:
        yield sorted(pl.scan_delta(str(folder)).collect()["id"].to_list())


KINDS = ("iceberg", "delta", "paimon", "lance")
REPAIRED = {
    "bit": (0, "correct-bits", {1, 2, 5, COUNT + 3}),
    "more": (0, "take-from-snapshot", {1, 2, COUNT + 3}),
    "the only vector": (1, "restore-rows", {1, 2, 5}),
}
"""Damage -> the number of the data file with the damaged vector, how it is repaired, ids that are gone afterwards."""


@pytest.mark.filterwarnings("ignore:.*polars_iceberg.*")
@pytest.mark.parametrize("damage", REPAIRED)
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_that_cannot_be_read(kind: str, damage: str, tmp_path: Path) -> None:
    """Libraries read the table afterwards, and dvcodec deletes from it."""
    if (kind, damage) == ("lance", "bit"):
        pytest.skip("deletion files of Lance have no checksum")
    folder = tmp_path / "t"
    make(kind, folder)
    number, action, gone = REPAIRED[damage]
    snapshot = open_table(folder).snapshot()
    first_ids = {file.path: next(snapshot.rows(file)).batch["id"][0].as_py() for file in snapshot.data_files}
    (damaged,) = (one for one in snapshot.vectors if first_ids[str(one.data_file)] == number * COUNT)
    if damage == "bit":
        flip(damaged.location, (damaged.offset or 0) + 20)
    elif kind == "lance":
        data = Path(damaged.location).read_bytes()
        Path(damaged.location).write_bytes(data[:16] + bytes(len(data) - 32) + data[-16:])
    else:
        wreck(damaged)
    flags = ["--accept-restored-rows"] if action != "correct-bits" else []
    shown = run("repair", folder, *flags)
    assert (shown.code, shown.out.splitlines()[0].split()[0]) == (1, action)
    assert "1 repair can be committed, nothing was written yet: add --commit" in shown.out
    if flags:
        left = run("repair", folder, "--commit")
        assert re.match(f"not committed: {action} of .*: deleted rows would be live again", left.complaint)
        assert (left.code, left.out.splitlines()[0]) == (1, "nothing was committed")
    done = run("repair", folder, "--commit", *flags)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1].startswith(f"1 repaired, snapshot {open_table(folder).snapshot().info.id};")
    assert audit(open_table(folder), orphans=False).findings == ()
    expected = [one for one in range(2 * COUNT) if one not in gone]
    for found in live_by_libraries(folder):
        assert found == expected
    open_table(folder).delete("id = 7")
    for found in live_by_libraries(folder):
        assert found == [one for one in expected if one != 7]


BESIDE = [
    ("iceberg", lambda data: len(data) - 2, "container"),
    ("iceberg", lambda data: data.index(b"referenced-data-file") + 2, "blob-properties"),
    ("iceberg", lambda data: data.index(b"/data/") + 6, "referenced-data-file"),
    ("iceberg", lambda data: data.index(b"/data/") - 2, "stale-blob-path"),
    ("iceberg", lambda data: data.index(b'"length"') + 9, "blob-at-range"),
    ("delta", lambda _: 0, "container"),
    ("paimon", lambda _: 0, "container"),
]


@pytest.mark.filterwarnings("ignore:.*polars_iceberg.*")
@pytest.mark.parametrize(("kind", "place", "check"), BESIDE, ids=lambda one: "" if callable(one) else str(one))
def test_damage_beside_the_vectors(kind: str, place: Callable[[bytes], int], check: str, tmp_path: Path) -> None:
    """The metadata still finds the vectors: they are written again, and libraries read the rows of before."""
    folder = tmp_path / "t"
    make(kind, folder)
    before = ids(folder)
    path = open_table(folder).snapshot().vectors[0].location
    flip(path, place(Path(path).read_bytes()))
    found = run("audit", folder, "--json", "--no-orphans")
    assert check in [one["check"] for one in found.json["findings"]]
    done = run("repair", folder, "--commit")
    assert (done.code, done.err) == (0, "")
    assert path not in [vector.location for vector in open_table(folder).snapshot().vectors]
    assert ids(folder) == before
    for found_ids in live_by_libraries(folder):
        assert found_ids == before


def test_no_rows_of_another_file_are_committed(tmp_path: Path) -> None:
    """Two vectors at one place, of a file that is damaged beside them: whose rows these are is not certain."""
    make("delta", tmp_path / "t")
    log = tmp_path / "t" / "_delta_log" / f"{3:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    first, second = (one["add"] for one in actions if one.get("add", {}).get("deletionVector"))
    second["deletionVector"] = {**first["deletionVector"], "cardinality": 1}
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    table = open_table(tmp_path / "t")
    flip(table.snapshot().vectors[0].location, 0)
    plan = repair_plan(audit(table, orphans=False), table)
    assert plan.actions == ()
    assert {"overlap", "container"} <= {one.check for one in plan.unfixed}


def test_paimon_writes_the_vectors_of_a_file_together(tmp_path: Path) -> None:
    """So none of them is corrected while another one is lost, unless that is accepted."""
    make("paimon", tmp_path / "t")
    first, second = open_table(tmp_path / "t").snapshot().vectors
    assert first.location == second.location
    flip(first.location, (first.offset or 0) + 20)
    wreck(second)
    shown = run("repair", tmp_path / "t")
    assert "can be committed" not in shown.out
    assert "is in the same file, cannot be read" in shown.complaint
    done = run("repair", tmp_path / "t", "--commit", "--accept-restored-rows")
    assert (done.code, done.err) == (0, "")

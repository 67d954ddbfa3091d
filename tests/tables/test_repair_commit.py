"""Repair plans that are committed: the table is valid afterwards, and engines read it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cli_runner import run
from dvcodec import CommitConflict, MissingExtra, RowSet, UsageError, delta, iceberg, paimon
from dvcodec.tables import audit, commit_repair, enable, open_table, repair_plan
from dvcodec.tables.iceberg import open as open_iceberg
from dvcodec.tables.iceberg.snapshot import IcebergSnapshot
from samples.contradictions import make_iceberg
from samples.iceberg_table import Commit, IcebergFiles, altered, build_iceberg
from samples.paimon_table import PaimonFile, build_paimon

ROWS = 20
Tweak = Callable[[dict[str, Any]], dict[str, Any]]


def deleted(folder: Path) -> dict[str, list[int]]:
    snapshot = open_table(folder).snapshot()
    found: dict[str, list[int]] = {}
    for vector in snapshot.vectors:
        for part in snapshot.read(vector):
            found.setdefault(part.data_file.rpartition("/")[2], []).extend(part.rows)
    return found


def second_vector(folder: Path, rows: RowSet) -> Tweak:
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
        (lambda folder: second_vector(folder, RowSet([2, 7])), "merge-vectors", [1, 2, 7]),
        (lambda folder: second_vector(folder, RowSet([1, 2])), "drop-vectors", [1, 2]),
        (lambda _: altered({"record_count": 5}, content=1), "correct-cardinality", [1, 2]),
        (lambda _: altered({"file_size_in_bytes": 9999}, content=1), "correct-file-size", [1, 2]),
    ],
    ids=["different", "equal", "cardinality", "size"],
)
def test_iceberg(tmp_path: Path, tweak: Callable[[Path], Tweak], action: str, rows: list[int]) -> None:
    folder = tmp_path / "t"
    first = Commit(data={"a": ROWS, "b": ROWS}, vectors={"a": RowSet([1, 2]), "b": RowSet([3])})
    build_iceberg(folder, first, tweak_entry=tweak(folder))
    assert run("audit", folder).code == 1
    done = run("audit", folder, "--repair-plan", "--commit")
    assert (done.code, done.err) == (0, "")
    commit = done.json["commit"]
    assert {one["action"] for one in commit["actions"]} == {action}
    assert (commit["committed"], commit["left"]) == (True, [])
    found = deleted(folder)
    assert found.pop("a") == rows
    assert found in ({}, {"b": [3]})
    table = pytest.importorskip("pyiceberg.table").StaticTable
    source = open_iceberg(folder).metadata.source
    assert table.from_metadata(source).scan().to_arrow().num_rows == 2 * ROWS - len(rows) - len(found)
    again = run("audit", folder, "--repair-plan", "--commit")
    assert (again.code, again.json["commit"]["committed"]) == (0, False)


@pytest.mark.parametrize(("other", "by"), [(RowSet([3, 4]), 2), (RowSet([3, 4]), None), (RowSet([3]), None)])
def test_a_vector_of_another_range(tmp_path: Path, other: RowSet, by: int | None) -> None:
    """The range is `by` bytes off, or the other vector's: then nothing that reads vectors alone sees it."""
    folder = tmp_path / "t"
    vectors = {"a": RowSet([1, 2]), "b": other}
    build_iceberg(folder, Commit(data={"a": ROWS, "b": ROWS}, vectors=vectors))
    places = {str(one.data_file).rpartition("/")[2]: one for one in open_table(folder).snapshot().vectors}
    assert places["a"].path == places["b"].path
    of_a, of_b = places["a"], places["b"]
    wrong = {
        "content_offset": of_b.offset if by is None else (of_a.offset or 0) + by,
        "content_size_in_bytes": of_b.size if by is None else of_a.size,
    }

    def tweak(entry: dict[str, Any]) -> dict[str, Any]:
        if entry["data_file"].get("content") == 1 and entry["data_file"]["referenced_data_file"].endswith("/a"):
            entry["data_file"] |= wrong
        return entry

    build_iceberg(tmp_path / "t", Commit(data={"a": ROWS, "b": ROWS}, vectors=vectors), tweak_entry=tweak)
    assert run("audit", folder).code == 1
    done = run("audit", folder, "--repair-plan", "--commit")
    assert (done.code, done.err, done.json["unfixed"]) == (0, "", [])
    assert [one["action"] for one in done.json["commit"]["actions"]] == ["correct-range"]
    assert deleted(folder) == {"a": [1, 2], "b": list(other)}


@pytest.mark.parametrize("name", ["other tuple", "other spec"])
def test_vectors_of_another_partition(tmp_path: Path, name: str) -> None:
    """Java refuses to plan a scan of such a table."""
    folder = tmp_path / "t"
    make_iceberg(name, folder)
    before = deleted(folder)
    done = run("audit", folder, "--repair-plan", "--commit")
    assert (done.code, done.json["commit"]["committed"], done.json["unfixed"]) == (0, True, [])
    assert deleted(folder) == before


def test_vectors_of_data_files_that_are_gone(tmp_path: Path) -> None:
    """They are taken out; the others, in the same files, stay."""
    iceberg_folder, paimon_folder = tmp_path / "iceberg", tmp_path / "paimon"
    build_iceberg(iceberg_folder, Commit(data={"a": ROWS}, vectors={"a": RowSet([1, 2]), "ghost": RowSet([3])}))
    files = [PaimonFile(f"f{number}.parquet", pa.table({"id": range(ROWS)}), [number, 9]) for number in range(2)]
    build_paimon(paimon_folder, [(0, "id", "BIGINT")], [files])
    (path,) = paimon_folder.glob("manifest/index-manifest-*")
    (entry,) = paimon.read_index_manifest(path)
    first, second = entry.vectors or ()
    paimon.write_index_manifest(path, [replace(entry, vectors=(first, replace(second, data_file="ghost")))])
    for folder, left in ((iceberg_folder, {"a": [1, 2]}), (paimon_folder, {"f0.parquet": [0, 9]})):
        assert "gone-data-file" in run("audit", folder, "--json").out
        done = run("audit", folder, "--repair-plan", "--commit")
        assert (done.code, done.err, done.json["unfixed"]) == (0, "", [])
        assert (done.json["commit"]["committed"], done.json["commit"]["left"]) == (True, [])
        assert audit(open_table(folder), orphans=False).findings == ()
        assert deleted(folder) == left


def unreadable(folder: Path) -> None:
    """Of the last snapshot: the one before has a vector that can be read, of fewer rows."""
    first = Commit(data={"a": ROWS}, vectors={"a": RowSet([1, 2])})
    build_iceberg(folder, first, Commit(vectors={"a": RowSet([1, 2, 5])}))
    path = folder / "data" / "vectors-2-0.puffin"
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)


def position_deletes(folder: Path) -> None:
    build_iceberg(
        folder,
        Commit(data={"a": ROWS}),
        Commit(deletes=[{"a": RowSet([1])}]),
        tweak_entry=altered({"file_size_in_bytes": 9999}, content=1),
    )


@pytest.mark.parametrize(
    ("craft", "line"),
    [
        (unreadable, "not committed: take-from-snapshot: rows that are deleted now would live again"),
        (position_deletes, "not committed: correct-file-size: it concerns position deletes: upgrade-deletes"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_is_left(tmp_path: Path, craft: Callable[[Path], None], line: str) -> None:
    folder = tmp_path / "t"
    craft(folder)
    files = set(folder.rglob("*"))
    done = run("audit", folder, "--repair-plan", "--commit")
    assert done.complaint.startswith(line.format(folder))
    assert (done.json["commit"]["committed"], len(done.json["commit"]["left"])) == (False, 1)
    assert set(folder.rglob("*")) == files


def test_only_the_audited_snapshot_is_repaired(tmp_path: Path) -> None:
    made: IcebergFiles = build_iceberg(
        tmp_path / "t",
        Commit(data={"a": ROWS, "b": ROWS}, vectors={"a": RowSet([1, 2])}),
        tweak_entry=altered({"file_size_in_bytes": 9999}, content=1),
    )
    table = open_table(made.folder)
    plan = repair_plan(audit(table), table)
    open_table(made.folder).delete(positions={made.paths["b"]: RowSet([5])})
    with pytest.raises(CommitConflict, match="audit it again"):
        commit_repair(plan, table)
    with pytest.raises(UsageError, match="the plan is for"):
        commit_repair(replace(plan, table="elsewhere"), table)


def test_what_is_damaged_after_the_plan_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "t"
    rows = {"a": RowSet([1, 2]), "b": RowSet([3])}
    wrong = altered({"file_size_in_bytes": 9999}, content=1)
    build_iceberg(folder, Commit(data={"a": ROWS, "b": ROWS}, vectors=rows), tweak_entry=wrong, per_puffin=1)
    table = open_table(folder)
    plan = repair_plan(audit(table), table)
    assert [action.action for action in plan.actions] == ["correct-file-size"] * 2
    with monkeypatch.context() as patch:
        patch.setattr(IcebergSnapshot, "read", missing)
        with pytest.raises(MissingExtra, match="fastavro"):
            commit_repair(plan, table)
    path = folder / "data" / "vectors-1-0.puffin"
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    done = commit_repair(plan, table)
    assert (done.committed, done.files) == (True, 1)
    assert [action.path for action in done.actions] == [str(folder / "data" / "vectors-1-1.puffin")]
    ((action, why),) = done.left
    assert action.path == str(path)
    assert re.search(r"vectors-1-0\.puffin", why)
    assert "\n" not in why
    snapshot = table.snapshot()
    assert snapshot.info.id == done.snapshot
    read = {one.data_file: one.rows for v in snapshot.vectors if v.path != str(path) for one in snapshot.read(v)}
    assert read == {f"{folder}/data/b": RowSet([3])}


def missing(*_: object) -> Any:
    raise MissingExtra("fastavro", "tables")


def test_options_go_together(tmp_path: Path) -> None:
    build_iceberg(tmp_path / "t", Commit(data={"a": ROWS}))
    assert "--commit needs --repair-plan" in run("audit", tmp_path / "t", "--commit").complaint


@pytest.mark.parametrize("doubled", [True, False], ids=["doubled", "cardinality"])
def test_delta(tmp_path: Path, doubled: bool) -> None:
    """deltalake reads the table afterwards."""
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path / "t"
    deltalake.write_deltalake(folder, pa.table({"id": range(ROWS)}))
    enable(open_table(folder))
    version = open_table(folder).delete(pc.field("id") < 3).snapshot
    log = folder / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    (added,) = (action["add"] for action in actions if "add" in action)
    if doubled:
        (place,) = delta.write_deletion_vectors(delta.new_file(str(folder)), {"x": RowSet([2, 9])})
        descriptor = json.loads(delta.Descriptor.from_location(place, str(folder)).to_json())
        actions.append({"add": added | {"deletionVector": descriptor}})
    else:
        added["deletionVector"]["cardinality"] = 7
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    done = run("audit", folder, "--repair-plan", "--commit", "--no-orphans")
    assert (done.code, done.json["commit"]["committed"]) == (0, True)
    expected = [number for number in range(ROWS) if number not in ((0, 1, 2, 9) if doubled else (0, 1, 2))]
    found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(folder)).execute("SELECT id FROM t")
    assert sorted(pa.table(found)["id"].to_pylist()) == expected


def test_paimon(tmp_path: Path) -> None:
    """The vectors of both data files are in one index file."""
    files = [PaimonFile(f"f{number}.parquet", pa.table({"id": range(ROWS)}), [number, 9]) for number in range(2)]
    folder = build_paimon(tmp_path / "t", [(0, "id", "BIGINT")], [files])
    (path,) = folder.glob("manifest/index-manifest-*")
    (entry,) = paimon.read_index_manifest(path)
    wrong = tuple(replace(meta, cardinality=5) for meta in entry.vectors or ())
    paimon.write_index_manifest(path, [replace(entry, vectors=wrong)])
    done = run("audit", folder, "--repair-plan", "--commit", "--no-orphans")
    assert (done.code, done.json["commit"]["files"]) == (0, 2)
    assert deleted(folder) == {"f0.parquet": [0, 9], "f1.parquet": [1, 9]}

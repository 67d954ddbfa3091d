"""repair_plan: what would repair a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dvcodec import RowSet, UsageError
from dvcodec.core.errors import NotCanonical
from dvcodec.tables import DeletionVector, SnapshotInfo, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.metadata.file_names import PathMatcher
from dvcodec.tables.repair import repair_plan
from dvcodec.tables.snapshots.findings import Finding
from samples import delta_log
from samples.damages import equal_vector, gone_file, second_vector, stale_blob, stale_metadata, wrong_count, wrong_size
from samples.memory_table import ROWS, FakeSnapshot, FakeTable, changed, flip, make_table, write_vectors


def stale(table: FakeTable, folder: Path) -> None:
    """The metadata names a path of before; so does the Puffin file."""
    vector = table.snapshot().vectors[0]
    (old,) = write_vectors(folder, "more", {"s3://old/t/data/a.parquet": RowSet([4, 5])})
    changed(table, old, drop=[vector])


def orphan(table: FakeTable, folder: Path) -> None:
    write_vectors(folder, "more", {"x": RowSet([1])})


def broken(table: FakeTable, folder: Path) -> None:
    """A third state replaces the vector of a; the new one has a flipped bit."""
    old = table.snapshot()
    (new,) = write_vectors(folder, "third", {old.data_files[0].path: RowSet([1, 2, 3, 500, 600])})
    vectors = (new, *old.vectors[1:])
    table.states.append(replace(old, info=SnapshotInfo(3, parent=2), vectors=vectors))
    flip(new.location, (new.offset or 0) + 20)


@pytest.mark.parametrize(
    ("damage", "action", "reads"),
    [
        (second_vector, "merge-vectors", RowSet([1, 2, 9, 500])),
        (equal_vector, "drop-vectors", RowSet()),
        (gone_file, "drop-vectors", RowSet()),
        (stale, "rewrite-paths", RowSet()),
        (stale_metadata, "rewrite-paths", RowSet()),
        (stale_blob, "rewrite-paths", RowSet()),
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
    before = sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*"))
    found = audit(table)
    plan = repair_plan(found, table)
    assert ([one.action for one in plan.actions], plan.unfixed) == ([action], ())
    assert plan.actions[0].fixes == tuple(finding.check for finding in found.findings)
    assert json.loads(json.dumps(plan.to_dict()))["actions"][0]["action"] == action
    assert sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*")) == before
    read_from = table.snapshot(plan.actions[0].snapshot)
    deleted = [one.rows for vector in plan.actions[0].reads for one in read_from.read(vector)]
    assert RowSet().union(*deleted) == reads


def test_lost_rows_are_reported(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    broken(table, tmp_path)
    (action,) = repair_plan(audit(table), table).actions
    assert (action.snapshot, action.cardinality, action.reads) == (2, 3, table.states[1].vectors[:1])
    assert action.details == {"recorded_cardinality": 5, "lossless": False}
    assert "at least 2 rows that were deleted since become live again" in action.message


def test_broken_vectors_of_files_that_are_gone_are_dropped(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    (vector,) = write_vectors(tmp_path, "more", {"/other/z.parquet": RowSet([1])})
    changed(table, vector)
    flip(vector.location, (vector.offset or 0) + 20)
    plan = repair_plan(audit(table), table)
    assert [(action.action, action.replaces) for action in plan.actions] == [("drop-vectors", (vector,))]
    assert [finding.check for finding in plan.unfixed] == ["crc"]


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
    flip(bad.location, (bad.offset or 0) + 20)
    for vectors in (same.vectors, (far,), (bad,), ()):
        table.states[1] = replace(same, vectors=vectors)
        plan = repair_plan(audit(table, orphans=False), table)
        assert plan.actions == ()
        assert [finding.check for finding in plan.unfixed] == ["crc"]


def test_older_metadata_that_is_corrupt(tmp_path: Path) -> None:
    class Half(FakeTable):
        def snapshot(self, id: int | None = None) -> FakeSnapshot:  # noqa: A002
            if id in (1, 2):
                raise NotCanonical("snapshot", source="s.json")
            return super().snapshot(id)

    made = make_table(tmp_path)
    broken(made, tmp_path)
    table = Half(str(tmp_path), made.states)
    assert [finding.check for finding in repair_plan(audit(table, orphans=False), table).unfixed] == ["crc"]


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
    assert plan.unfixed == ()


def test_vectors_to_be_united_that_cannot_be_read(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    second_vector(table, tmp_path)
    added = table.snapshot().vectors[-1]
    flip(added.location, (added.offset or 0) + 20)
    plan = repair_plan(audit(table), table)
    assert "different-vectors" in [finding.check for finding in plan.unfixed]
    assert "merge-vectors" not in [action.action for action in plan.actions]


def test_wrong_blob_descriptions_are_written_again(tmp_path: Path) -> None:
    class Described(FakeTable):
        def check_container(
            self,
            location: str,  # noqa: ARG002
            vectors: Sequence[DeletionVector],
            matcher: PathMatcher,  # noqa: ARG002
        ) -> Iterator[Finding]:
            for vector in vectors[:1]:
                for name in ("blob-ids", "blob-cardinality"):
                    yield Finding.of_vector(name, vector, "x", 1, 2)

    folder = tmp_path / "table"
    table = Described(str(folder), make_table(folder).states)
    plan = repair_plan(audit(table), table)
    (action,) = plan.actions
    assert (action.action, action.fixes) == ("write-again", ("blob-ids", "blob-cardinality"))
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


def test_usage(tmp_path: Path) -> None:
    table, other = make_table(tmp_path / "a"), make_table(tmp_path / "b")
    second_vector(table, tmp_path / "a")
    found = audit(table)
    with pytest.raises(UsageError, match="the audit is for"):
        repair_plan(found, other)


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
    assert repair_plan(audit(table, orphans=False), table).actions == ()
    table.states = [replace(state, info=SnapshotInfo(state.info.id)) for state in table.states]
    assert [action.snapshot for action in repair_plan(audit(table, orphans=False), table).actions] == [7]


def test_older_vectors_of_more_rows_are_refused(tmp_path: Path) -> None:
    """Rows were restored since: they live."""
    table = make_table(tmp_path, {"a": RowSet(range(6))})
    broken(table, tmp_path)
    plan = repair_plan(audit(table, orphans=False), table)
    assert (plan.actions, [finding.check for finding in plan.unfixed]) == ((), ["crc"])


def test_wrong_files_of_the_same_name_are_left_alone(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    last = table.snapshot()
    other = last.data_files[3].path.replace("/data/", "/data/p=1/")
    changed(table, *write_vectors(tmp_path, "more", {other: RowSet([5])}))
    (action,) = repair_plan(audit(table, orphans=False), table).actions
    assert (action.action, action.mapping) == ("drop-vectors", {})


def test_stale_position_deletes_are_not_fixed(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    vector = table.snapshot().vectors[0]
    changed(table, replace(vector, format="position-deletes", data_file="s3://old/t/data/a.parquet"), drop=[vector])
    plan = repair_plan(audit(table, orphans=False), table)
    assert (plan.actions, [finding.check for finding in plan.unfixed][:1]) == ((), ["stale-path"])

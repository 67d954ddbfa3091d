"""repair_plan: what would repair a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dvcodec import RowSet, UsageError
from dvcodec.core.errors import MissingExtra, NotCanonical
from dvcodec.puffin import rewrite_paths
from dvcodec.tables import DeletedRows, DeletionVector, SnapshotInfo, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.findings import Finding
from dvcodec.tables.path_matching import PathMatcher
from dvcodec.tables.repair import RepairAction, repair_plan
from dvcodec.tables.repair import plan as plan_module
from samples import delta_log
from samples.memory_table import ROWS, FakeSnapshot, FakeTable, changed, flip, make_table, write_vectors


def second(table: FakeTable, folder: Path) -> None:
    changed(table, *write_vectors(folder, "more", {table.snapshot().data_files[0].path: RowSet([1, 9])}))


def equal(table: FakeTable, folder: Path) -> None:
    changed(table, *write_vectors(folder, "more", {table.snapshot().data_files[0].path: RowSet([1, 2, 500])}))


def gone(table: FakeTable, folder: Path) -> None:
    changed(table, *write_vectors(folder, "more", {"/other/z.parquet": RowSet([1])}))


def stale(table: FakeTable, folder: Path) -> None:
    """The metadata names a path of before; so does the Puffin file."""
    vector = table.snapshot().vectors[0]
    (old,) = write_vectors(folder, "more", {"s3://old/t/data/a.parquet": RowSet([4, 5])})
    changed(table, old, drop=[vector])


def stale_metadata(table: FakeTable, folder: Path) -> None:
    """Only the metadata names a path of before."""
    vector = table.snapshot().vectors[0]
    changed(table, replace(vector, data_file="s3://old/t/data/a.parquet"), drop=[vector])


def stale_blob(table: FakeTable, folder: Path) -> None:
    vector = table.snapshot().vectors[0]
    rewrite_paths(vector.location, vector.location, {str(vector.data_file): "s3://old/data/a.parquet"})
    grown = Path(vector.location).stat().st_size
    changed(table, *(replace(one, file_size=grown) for one in table.snapshot().vectors), drop=table.snapshot().vectors)


def wrong_count(table: FakeTable, folder: Path) -> None:
    vector = table.snapshot().vectors[0]
    changed(table, replace(vector, cardinality=4), drop=[vector])


def wrong_size(table: FakeTable, folder: Path) -> None:
    vectors = table.snapshot().vectors
    changed(table, *(replace(vector, file_size=77) for vector in vectors), drop=vectors)


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
        (second, "merge-vectors", RowSet([1, 2, 9, 500])),
        (equal, "drop-vectors", RowSet()),
        (gone, "drop-vectors", RowSet()),
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


def test_older_snapshots_are_read_once_for_all_vectors(tmp_path: Path) -> None:
    """Of ``c``, all older ones are read in vain: of an only vector, which is the broken one."""

    class Counting(FakeTable):
        read_again: list[int]

        def snapshot(self, id: int | None = None) -> FakeSnapshot:  # noqa: A002
            if id is not None:
                self.read_again.append(id)
            return super().snapshot(id)

    made = make_table(tmp_path)
    broken(made, tmp_path)
    last = made.states[-1]
    (new,) = write_vectors(tmp_path, "fourth", {last.data_files[1].path: RowSet(range(9))})
    flip(new.location, (new.offset or 0) + 20)
    a, b, c = last.vectors
    flip(c.location, (c.offset or 0) + 20)
    made.states[-1] = replace(last, vectors=(a, new, c))
    made.states.pop(0)
    table = Counting(str(tmp_path), made.states)
    table.read_again = []
    found = audit(table, orphans=False)
    table.read_again.clear()
    plan = repair_plan(found, table)
    assert [(action.data_file, action.reads) for action in plan.actions] == [
        (a.data_file, (made.states[0].vectors[0],))
    ]
    assert [finding.data_file for finding in plan.unfixed] == [b.data_file, c.data_file]
    assert table.read_again == [3, 2]


def test_a_broken_older_vector_is_read_once(tmp_path: Path) -> None:
    """Of all older snapshots that have it; and no more is read than the table allows."""
    made = make_table(tmp_path)
    broken(made, tmp_path)
    *older, last = made.states
    old = older[-1].vectors[0]
    flip(old.location, (old.offset or 0) + 20)
    older += [
        replace(older[-1], info=SnapshotInfo(i, parent=i - 1), data_files=older[-1].data_files[:3]) for i in (3, 4)
    ]
    table = FakeTable(str(tmp_path), [*older, replace(last, info=SnapshotInfo(5, parent=4))])
    found = audit(table, orphans=False)
    table.reads.clear()
    assert [finding.data_file for finding in repair_plan(found, table).unfixed] == [old.data_file]
    assert table.reads == [old]


def test_findings_are_not_compared_with_all_actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each broken vector is for a data file of its own, which is gone: an action and an unfixed finding."""
    table = make_table(tmp_path)
    vectors = write_vectors(tmp_path, "more", {f"/other/{i}.parquet": RowSet([1]) for i in range(20)})
    table.states.append(replace(table.states[-1], info=SnapshotInfo(3, parent=2), vectors=vectors))
    for vector in vectors:
        flip(vector.location, (vector.offset or 0) + 20)
    compared: list[str] = []
    plain = plan_module._Planner._renews

    def renews(action: RepairAction, finding: Finding) -> bool:
        compared.append(action.action)
        return plain(action, finding)

    monkeypatch.setattr(plan_module._Planner, "_renews", staticmethod(renews))
    plan = repair_plan(audit(table, orphans=False), table)
    assert [len(plan.actions), len(plan.unfixed), len(compared)] == [20, 20, 20]


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


@pytest.mark.parametrize("where", ["snapshot", "read"])
def test_a_missing_package_is_no_damage(where: str, tmp_path: Path) -> None:
    """Older vectors that another package would read are not passed over."""
    made = make_table(tmp_path)
    broken(made, tmp_path)
    old = made.states[1].vectors[0]

    class Bare(FakeTable):
        def snapshot(self, id: int | None = None) -> FakeSnapshot:  # noqa: A002
            if where == "snapshot" and id == 2:
                raise MissingExtra("fastavro", "tables")
            return super().snapshot(id)

        def read(self, vector: DeletionVector, snapshot: FakeSnapshot) -> tuple[DeletedRows, ...]:
            if where == "read" and vector == old:
                raise MissingExtra("fastavro", "tables")
            return super().read(vector, snapshot)

    table = Bare(str(tmp_path), made.states)
    found = audit(table, orphans=False)
    with pytest.raises(MissingExtra, match=r"dvcodec\[tables\]"):
        repair_plan(found, table)


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
    second(table, tmp_path)
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
    second(table, tmp_path / "a")
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

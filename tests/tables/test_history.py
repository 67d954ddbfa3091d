"""history: what each snapshot deleted and restored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.tables import DataFile, DeletedRows, DeletionVector, SnapshotInfo, Table, TableKind, open_table
from dvcodec.tables.snapshots.changes import SnapshotRows, history
from samples.changes import sorted_values
from samples.memory_table import FakeSnapshot, FakeTable, changed, flip, make_table, write_data, write_vectors


def grown(folder: Path) -> FakeTable:
    """Three states after the first: rows deleted; more and fewer; a file replaced."""
    table = make_table(folder)
    files, (a, b, c) = table.states[-1].data_files, table.states[-1].vectors
    assert files[0].path == a.data_file
    (more,) = write_vectors(folder, "third", {files[0].path: RowSet([2, 3, 500])})
    e = write_data(folder, "e", first=4000)
    (fresh,) = write_vectors(folder, "fourth", {e.path: RowSet([9])})
    table.states += [
        FakeSnapshot(table, SnapshotInfo(3, 3_000, "overwrite", 2), files, (more, b, c)),
        FakeSnapshot(table, SnapshotInfo(4, 4_000, "replace", 3), (*files[:1], *files[2:], e), (more, c, fresh)),
    ]
    return table


def test_each_snapshot_against_the_one_before(tmp_path: Path) -> None:
    table = grown(tmp_path)
    changes = list(history(table, keep_rows=True))
    assert [(change.info.id, change.previous and change.previous.id) for change in changes] == [
        (1, None),
        (2, 1),
        (3, 2),
        (4, 3),
    ]
    assert [(len(change.added), len(change.removed)) for change in changes] == [(4, 0), (0, 0), (0, 0), (1, 1)]
    assert [(change.deleted, change.restored) for change in changes] == [(0, 0), (1006, 0), (1, 1), (1, 0)]
    (third,) = changes[2].files
    assert (third.deleted_rows, third.restored_rows) == (RowSet([3]), RowSet([1]))
    assert Path(changes[3].removed[0].path).stem == "b"
    assert Path(changes[3].files[0].data_file.path).stem == "e"
    (file,) = changes[2].to_dict()["files"]
    assert (file["deleted_ranges"], file["restored_ranges"]) == ([[3, 4]], [[1, 2]])
    table.states = [replace(state, info=replace(state.info, parent=None)) for state in table.states]
    assert [change.deleted for change in history(table)] == [0, 1006, 1, 1]  # without parents the list decides


def test_a_rolled_back_snapshot_is_held_against_its_parent(tmp_path: Path) -> None:
    table = grown(tmp_path)
    first = table.states[0]
    (vector,) = write_vectors(tmp_path, "fifth", {first.data_files[3].path: RowSet([4])})
    table.states.append(replace(first, info=SnapshotInfo(5, parent=1), vectors=(vector,)))
    (change,) = history(table, since=5)
    assert change.previous == first.info
    assert (change.deleted, change.restored, change.removed) == (1, 0, ())


@pytest.mark.parametrize("reused", ["inline", "scorch"])
def test_vectors_without_a_lasting_place_are_read(reused: str, tmp_path: Path) -> None:
    """Two vectors may be described alike and hold other rows."""

    class Changing(FakeTable):
        def read(self, vector: DeletionVector, snapshot: FakeSnapshot) -> tuple[DeletedRows, ...]:
            return (DeletedRows(str(vector.data_file), RowSet([snapshot.info.id])),)

    made = make_table(tmp_path)
    vector = made.states[1].vectors[0]
    if reused == "inline":
        vector = replace(vector, path="")
    table = Changing(str(tmp_path), [replace(state, vectors=(vector,)) for state in made.states])
    if reused == "scorch":
        table.kind = TableKind.SCORCH
    assert [(change.deleted, change.restored) for change in history(table)] == [(1, 0), (1, 1)]


def test_position_deletes_of_a_partition(tmp_path: Path) -> None:
    """They apply to the files that were there before them: the table says which."""

    class Wide(FakeTable):
        def read(self, vector: DeletionVector, snapshot: FakeSnapshot) -> tuple[DeletedRows, ...]:
            if vector.data_file is not None:
                return super().read(vector, snapshot)
            return tuple(DeletedRows(file.path, RowSet([7])) for file in snapshot.data_files)

    made = make_table(tmp_path)
    first, second = made.states
    wide = DeletionVector("position-deletes", None, "w", "w")
    kept = replace(second, vectors=second.vectors)
    table = Wide(str(tmp_path), [first, kept, replace(kept, info=SnapshotInfo(3), vectors=(*kept.vectors, wide))])
    assert [change.deleted for change in history(table)] == [0, 1006, 2]  # row 7 of b and c was deleted


def test_arguments(tmp_path: Path) -> None:
    table = grown(tmp_path)
    for since, until in ((9, None), (None, 9)):
        with pytest.raises(UsageError, match="no snapshot 9"):
            next(history(table, since=since, until=until))
    with pytest.raises(UsageError, match="snapshot 1 comes before 2"):
        next(history(table, since=2, until=1))
    assert list(history(FakeTable(str(tmp_path), []))) == []


OWN = Path(__file__).parents[1] / "vectors"
LOGS = [path for name in ("_delta_log", "snapshot", "metadata") for path in OWN.rglob(name) if path.is_dir()]


@each("log", LOGS, ids=lambda path: str(path.parent.relative_to(OWN)))
def test_what_commits_record_is_what_differs(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of engines: the history by their commits, and by whole snapshots."""
    found = [sorted_values(change) for change in history(open_table(log.parent), keep_rows=True)]
    monkeypatch.setattr(type(open_table(log.parent)), "compared", Table.compared)
    assert found == [sorted_values(change) for change in history(open_table(log.parent), keep_rows=True)]
    assert sum(change["deleted"] for change in found) + len(found[0]["added"])


# ------------------------------------------------- deleted rows of snapshots: a vector that several have is read once


def by_turns(folder: Path, turns: int = 3) -> FakeTable:
    """Snapshots without and with vectors."""
    made = make_table(folder)
    without, with_them = (replace(state, info=replace(state.info, parent=None)) for state in made.states)
    made.states = [
        replace(state, info=replace(state.info, id=2 * turn + i))
        for turn in range(turns)
        for i, state in enumerate((without, with_them))
    ]
    return made


def test_what_could_not_be_read_is_reported_again(tmp_path: Path) -> None:
    table = by_turns(tmp_path)
    bad = table.states[1].vectors[0]
    flip(bad.location, (bad.offset or 0) + 20)
    changes = list(history(table))
    assert [[vector for vector, _ in change.unreadable] for change in changes] == [[], *[[bad]] * 5]
    assert len({reason for change in changes[1:] for _, reason in change.unreadable}) == 1
    assert len(table.reads) == len(table.states[1].vectors)


def test_position_deletes_are_read_again(tmp_path: Path) -> None:
    """They may be for other data files in another snapshot."""

    class Deletes(FakeTable):
        def read(self, vector: DeletionVector, snapshot: FakeSnapshot) -> tuple[DeletedRows, ...]:  # noqa: ARG002
            self.reads.append(vector)
            return (DeletedRows(str(vector.data_file), RowSet(range(2**20))),)

    made = by_turns(tmp_path)
    deletes = DeletionVector("position-deletes", made.states[0].data_files[0].path, "w", "w")
    table = Deletes(str(tmp_path), [replace(state, vectors=(deletes,) * bool(state.vectors)) for state in made.states])
    assert [change.deleted for change in history(table)] == [0, 1000] * 3  # as many as the file has
    assert table.reads == [deletes] * 5


@each(
    ("read", "doubtful", "doubt", "rows"),
    [
        (None, set(), False, []),
        ([1, 2], {"b"}, False, [1, 2]),
        ([1, 2], {"a"}, True, [1, 2]),
        ([1, 2], {None}, True, [1, 2]),
        ([9], set(), False, [9]),
        ([9, 10], set(), True, [9]),  # the file has ten rows
    ],
)
def test_what_is_deleted_for_certain(
    read: list[int] | None, doubtful: set[str | None], doubt: bool, rows: list[int]
) -> None:
    found = SnapshotRows({} if read is None else {"a": RowSet(read)}, unread=doubtful)
    file = DataFile("a", "a", 10)
    assert (found.in_doubt(file), found.of(file)) == (doubt, RowSet(rows))
    assert bool(found) is bool(read or doubtful)


def test_vectors_that_contradict_each_other(tmp_path: Path) -> None:
    """What both delete is deleted, whichever an engine reads: 1, 2 and 500, or 2 and 500."""
    table = make_table(tmp_path)
    path = table.snapshot().data_files[0].path
    changed(table, *write_vectors(tmp_path, "more", {path: RowSet([2, 500])}))
    *_, last = history(table)
    assert [(file.data_file.path, file.deleted, file.exact) for file in last.files][:1] == [(path, 2, False)]
    assert (last.exact, last.unreadable) == (False, ())

"""Deleted rows of snapshots: a vector that several have is read once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cases import each
from dvcodec import RowSet
from dvcodec.tables import DataFile, DeletedRows, DeletionVector
from dvcodec.tables.snapshots.changes import SnapshotRows, history
from samples.memory_table import FakeSnapshot, FakeTable, changed, flip, make_table, write_vectors


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
        ([1, 2], set(), False, [1, 2]),
        ([1, 2], {"b"}, False, [1, 2]),
        (None, {"a"}, True, []),
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

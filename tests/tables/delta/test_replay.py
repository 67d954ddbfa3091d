"""States of a version, whatever they are rebuilt from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dvcodec import RowSet
from dvcodec.core.errors import NotCanonical
from dvcodec.tables.delta.log import Log
from dvcodec.tables.delta.replay import State, commit_infos, rebuild
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import SnapshotInfo
from samples.delta_table import TIME, DeltaBuilder, build_delta


def log_of(table: DeltaBuilder) -> Log:
    return Log.from_names(str(table.log), [file.name for file in table.log.iterdir()])


def state_of(table: DeltaBuilder, version: int, known: State | None = None) -> State:
    return rebuild(Folder(str(table.root)), log_of(table), version, known)


@pytest.fixture
def table(tmp_path: Path) -> DeltaBuilder:
    return build_delta(tmp_path / "table")


def test_from_a_known_state(table: DeltaBuilder) -> None:
    known = state_of(table, 1)
    before = dict(known.files)
    assert state_of(table, 3, known).files == state_of(table, 3).files
    assert known.files == before


@pytest.mark.parametrize("form", ["classic", "json", "removed first"])
def test_a_file_that_a_checkpoint_has_live_and_removed(table: DeltaBuilder, form: str) -> None:
    """Its actions are in no order that would tell which of them holds."""
    live = next(add for add in table.live.values())
    table.tombstones.append({"path": live["path"], "deletionVector": live.get("deletionVector"), "dataChange": True})
    (file, *_) = table.checkpoint("json alone" if form == "removed first" else form)
    if form == "removed first":
        file.write_text("\n".join(reversed(file.read_text().splitlines())))
    table.commit_file(0).unlink()
    with pytest.raises(NotCanonical, match=r"path: expected a file that is either live or removed, found both of"):
        state_of(table, 4)


def test_the_vector_is_part_of_the_key(table: DeltaBuilder) -> None:
    """Removing a file with its old vector leaves it live with its new one, in either order of the two actions."""
    path = next(iter(table.live))
    descriptor = table.write_vectors({path: RowSet([1])})[path]
    remove, add = table.replaced(path, descriptor)
    table.commit(add, remove)
    vectors = [added.vector for added in state_of(table, 5).files.values() if added.path == path]
    assert [vector.descriptor.cardinality for vector in vectors if vector is not None] == [1]


@pytest.mark.parametrize("name", ["protocol", "metaData"])
def test_one_of_each_in_a_version(table: DeltaBuilder, name: str) -> None:
    action = {name: table.protocol if name == "protocol" else table.metadata}
    table.commit(action)
    state_of(table, 5)
    table.commit(action, action)
    with pytest.raises(NotCanonical, match=rf"{6:020}\.json, line 3: second {name}"):
        state_of(table, 6)


def test_a_log_without_protocol_or_metadata(tmp_path: Path) -> None:
    table = DeltaBuilder(tmp_path / "a")
    table.commit({"metaData": table.metadata})
    with pytest.raises(NotCanonical, match="protocol: expected one up to version 0, found none"):
        state_of(table, 0)
    table = DeltaBuilder(tmp_path / "b")
    table.commit({"protocol": table.protocol})
    with pytest.raises(NotCanonical, match="metaData: expected one up to version 0, found none"):
        state_of(table, 0)


def test_a_checkpoint_has_to_have_them_itself(table: DeltaBuilder) -> None:
    top = table.checkpoint("json alone")[0]
    top.write_text("\n".join(line for line in top.read_text().splitlines() if "metaData" not in line))
    table.commit({"metaData": table.metadata})
    table.commit_file(0).unlink()
    with pytest.raises(NotCanonical, match=rf"{top.name}: metaData: expected one up to version 4"):
        state_of(table, 5)


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"timestamp": TIME, "operation": "DELETE"}, (TIME, "DELETE")),
        ({"timestamp": TIME, "inCommitTimestamp": TIME + 5}, (TIME + 5, None)),
        ({"timestamp": "now", "operation": ["DELETE"]}, (None, None)),
        ({"timestamp": -1, "operation": None}, (None, None)),
        ({"timestamp": True}, (None, None)),
        ({}, (None, None)),
        ("free text", (None, None)),
        (None, (None, None)),
    ],
)
def test_commit_info(table: DeltaBuilder, info: Any, expected: tuple[int | None, str | None]) -> None:
    lines = [{"add": {"path": 'x"commitInfo"'}}, {"commitInfo": info}]
    table.commit_file(5).write_text("\n".join(map(json.dumps, lines)))
    (found,) = commit_infos(Folder(str(table.root)), log_of(table), [5])
    assert found == SnapshotInfo(5, *expected, parent=4)


def test_a_version_without_a_commit(table: DeltaBuilder) -> None:
    table.checkpoint("classic")
    for version in range(5):
        table.commit_file(version).unlink()
    (found,) = commit_infos(Folder(str(table.root)), log_of(table), [4])
    assert found == SnapshotInfo(4, parent=3)

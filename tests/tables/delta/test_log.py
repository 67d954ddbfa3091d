"""The log: which versions it holds, states of a version, and versions one after another."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, RowSet, delta
from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.tables import Table, history, open_table
from dvcodec.tables.delta import table as reading
from dvcodec.tables.delta.log import Log
from dvcodec.tables.delta.replay import State, commit_infos, rebuild
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import SnapshotInfo
from samples.changes import sorted_values
from samples.delta_log import commit, empty_table
from samples.delta_table import TIME, DeltaBuilder, build_delta

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def commit_name(version: int) -> str:
    return f"{version:020}.json"


def classic(version: int) -> str:
    return f"{version:020}.checkpoint.parquet"


def part(version: int, number: int, count: int) -> str:
    return f"{version:020}.checkpoint.{number:010}.{count:010}.parquet"


def log_of(*names: str) -> Log:
    return Log.from_names("log", names)


def test_parts_count_when_all_are_there() -> None:
    whole = log_of(part(3, 2, 2), part(3, 1, 2))
    assert whole.checkpoints == {3: ((part(3, 1, 2), part(3, 2, 2)),)}
    assert len(whole.names) == 2
    for names in ([part(3, 1, 2)], [part(3, 1, 2), part(3, 3, 2)], [part(3, 0, 1)], [part(3, 1, 10**10 - 1)]):
        left = log_of(*names)
        assert left.checkpoints == {}
        assert not left.names


def test_names() -> None:
    kept = {commit_name(1), classic(1), f"{1:020}.crc", f"{1:020}.{4:020}.compacted.json", "_last_checkpoint"}
    other = {
        "1.json",
        f".{commit_name(1)}.crc",
        f"{commit_name(1)}.tmp",
        f"{1:020}.checkpoint.json",
        f"{1:020}.{UUID}.json",
        "_sidecars",
        "_staged_commits",
        "\N{ARABIC-INDIC DIGIT ZERO}" * 20 + ".json",
    }
    assert log_of(*kept, *other).names == kept


@given(st.sets(st.integers(0, 12)), st.sets(st.integers(0, 12)))
def test_versions_are_those_that_check_passes(commits: set[int], checkpoints: set[int]) -> None:
    log = log_of(*map(commit_name, commits), *map(classic, checkpoints))

    def rebuilt(version: int) -> bool:
        if version in checkpoints:
            return True
        return version in commits and (version == 0 or rebuilt(version - 1))

    assert log.versions == tuple(version for version in range(13) if rebuilt(version))
    for version in range(13):
        if rebuilt(version):
            log.check(version)
        else:
            with pytest.raises(UsageError):
                log.check(version)


# ---------------------------------------------------------------- states of a version, whatever they are rebuilt from


def log_in(table: DeltaBuilder) -> Log:
    return Log.from_names(str(table.log), [file.name for file in table.log.iterdir()])


def state_of(table: DeltaBuilder, version: int, known: State | None = None) -> State:
    return rebuild(Folder(str(table.root)), log_in(table), version, known)


@pytest.fixture
def table(tmp_path: Path) -> DeltaBuilder:
    return build_delta(tmp_path / "table")


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


@each(
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
    (found,) = commit_infos(Folder(str(table.root)), log_in(table), [5])
    assert found == SnapshotInfo(5, *expected, parent=4)


def test_a_version_without_a_commit(table: DeltaBuilder) -> None:
    table.checkpoint("classic")
    for version in range(5):
        table.commit_file(version).unlink()
    (found,) = commit_infos(Folder(str(table.root)), log_in(table), [4])
    assert found == SnapshotInfo(4, parent=3)


# --------------------- versions one after another, by what their commits change: the same as whole versions, compared


Live = dict[tuple[str, str], dict[str, Any]]


def added(name: str) -> dict[str, Any]:
    return {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}


def random_commit(chance: random.Random, live: Live) -> Iterator[dict[str, Any]]:
    """Actions of a commit on a few data files, with and without vectors: also such as no engine writes."""
    for _ in range(chance.randrange(4)):
        name = chance.choice(["a", "b", "c%20d", "e"])
        add = added(name) | {"modificationTime": chance.randrange(3), "stats": json.dumps({"numRecords": 100})}
        identity = ""
        if chance.random() < 0.7:
            rows = RowSet(chance.sample(range(100), chance.randrange(1, 4)))
            add["deletionVector"] = json.loads(delta.encode_inline(rows).to_json())
            identity = add["deletionVector"]["pathOrInlineDv"]
        for key in [key for key in live if key[0] == name]:
            # A data file that is live twice needs two vectors.
            if chance.random() < 0.8 or not identity or not key[1] or key[1] == identity:
                old = live.pop(key)
                yield {"remove": {name: old[name] for name in old if name not in ("stats", "partitionValues")}}
        if chance.random() < 0.8:
            live[name, identity] = add
            yield {"add": add}
    if chance.random() < 0.1:
        yield {"metaData": DeltaBuilder(Path()).metadata}


def both(location: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The history by commits, and by whole versions."""
    found = [sorted_values(change) for change in history(open_table(location), keep_rows=True)]
    with monkeypatch.context() as patched:
        patched.setattr(reading.DeltaTable, "walk_from", Table.walk_from)
        return found, [sorted_values(change) for change in history(open_table(location), keep_rows=True)]


@each("seed", range(12))
def test_random_commits(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    empty_table(tmp_path)
    live: Live = {}
    for version in range(1, 40):
        commit(tmp_path, version, "WRITE", *random_commit(chance, live))
    found, expected = both(tmp_path, monkeypatch)
    assert found == expected
    assert sum(change["deleted"] for change in found) > 10
    assert any(change["restored"] for change in found)


@pytest.mark.parametrize("form", ["classic", "parts", "json"])
def test_checkpoints_in_between(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build_delta(tmp_path / "t")
    made.checkpoint(form)
    made.delete({path: RowSet([7, 8, 9]) for path in list(made.live)[:1]})
    found, expected = both(made.root, monkeypatch)
    assert found == expected
    for version in range(5):  # the checkpoint's own one is the last
        made.commit_file(version).unlink()
    found, expected = both(made.root, monkeypatch)
    assert found == expected
    assert [change["snapshot"]["id"] for change in found] == [4, 5]


def test_a_file_with_and_without_a_vector_is_refused_in_its_version(tmp_path: Path) -> None:
    empty_table(tmp_path, [added("a")])
    vector = json.loads(delta.encode_inline(RowSet([1])).to_json())
    commit(tmp_path, 1, "WRITE", {"add": added("b")})
    commit(tmp_path, 2, "WRITE", {"add": added("a") | {"deletionVector": vector}})
    changes = history(open_table(tmp_path))
    assert [next(changes).info.id, next(changes).info.id] == [0, 1]
    with pytest.raises(DecodeError, match="expected one live action, found two for 'a'"):
        next(changes)

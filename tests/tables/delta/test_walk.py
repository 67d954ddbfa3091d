"""Versions one after another, by what their commits change: the same as whole versions, compared."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import each
from dvcodec import DecodeError, RowSet, delta
from dvcodec.tables import Table, history, open_table
from dvcodec.tables.delta import table as reading
from samples.changes import sorted_values
from samples.delta_log import commit, empty_table
from samples.delta_table import FIELDS, build_delta, schema_string

Live = dict[tuple[str, str], dict[str, Any]]


def random_commit(chance: random.Random, live: Live) -> Iterator[dict[str, Any]]:
    """Actions of a commit on a few data files, with and without vectors: also such as no engine writes."""
    for _ in range(chance.randrange(4)):
        name = chance.choice(["a", "b", "c%20d", "e"])
        add: dict[str, Any] = {
            "path": name,
            "partitionValues": {},
            "size": 1,
            "modificationTime": chance.randrange(3),
            "dataChange": True,
            "stats": json.dumps({"numRecords": 100}),
        }
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
        metadata = {
            "id": "0",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_string(FIELDS),
            "partitionColumns": [],
            "configuration": {"delta.enableDeletionVectors": "true"},
        }
        yield {"metaData": metadata}


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


def added(name: str) -> dict[str, Any]:
    return {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}


def test_a_file_with_and_without_a_vector_is_refused_in_its_version(tmp_path: Path) -> None:
    empty_table(tmp_path, [added("a")])
    vector = json.loads(delta.encode_inline(RowSet([1])).to_json())
    commit(tmp_path, 1, "WRITE", {"add": added("b")})
    commit(tmp_path, 2, "WRITE", {"add": added("a") | {"deletionVector": vector}})
    changes = history(open_table(tmp_path))
    assert [next(changes).info.id, next(changes).info.id] == [0, 1]
    with pytest.raises(DecodeError, match="expected one live action, found two for 'a'"):
        next(changes)

"""Data files that a commit adds are the same in columns as line by line; what is unusual is read line by line."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from cases import each
from dvcodec.delta import encode_z85
from dvcodec.tables.delta.checkpoint import Columns
from dvcodec.tables.delta.commit_columns import commit_actions
from dvcodec.tables.delta.log import AddFile, parse_lines
from dvcodec.tables.delta.replay import Replay

pytestmark = pytest.mark.libraries

VECTOR = {"storageType": "u", "pathOrInlineDv": encode_z85(uuid.UUID(int=1).bytes), "offset": 1, "sizeInBytes": 38}
VECTOR["cardinality"] = 3
COUNT = 100


def added(number: int) -> dict[str, Any]:
    action: dict[str, Any] = {"path": f"day={number % 3}/a%20{number}.parquet", "partitionValues": {"day": "é"}}
    action |= {"size": number, "modificationTime": 1, "dataChange": True, "tags": {"a": "b"}}
    action |= {"stats": json.dumps({"numRecords": number, "minValues": {"n": number}})} if number % 5 else {}
    action |= {"partitionValues": {"day": None, "x": str(number % 4)}} if number % 2 else {}
    return action | ({"deletionVector": VECTOR if number % 3 else None} if number % 7 else {})


def lines_of(**changed: Any) -> list[str]:
    actions = [added(number) for number in range(COUNT)]
    actions[50] = {key: value for key, value in (actions[50] | changed).items() if value is not ...}
    first = [json.dumps({"commitInfo": {"timestamp": 1}}), json.dumps({"txn": {"appId": "a", "version": 1}})]
    return [*first, *(json.dumps({"add": action}, ensure_ascii=False) for action in actions)]


def data_of(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_columns() -> None:
    data = data_of(lines_of())
    found = list(commit_actions(data, "c.json"))
    expected = list(parse_lines(data, "c.json"))
    assert [action for actions in found for action in actions] == expected
    (columns,) = (actions for actions in found if isinstance(actions, Columns))
    files = [AddFile.parse(action) for action in expected if action.where == "add"]
    assert len(columns) == len(files) == COUNT
    assert list(columns.keys) == [file.key for file in files]
    assert columns.paths == [file.path for file in files]
    assert columns.sizes.tolist() == [file.size for file in files]
    assert columns.rows.tolist() == [-1 if file.rows is None else file.rows for file in files]
    assert columns.has_vector.tolist() == [file.vector is not None for file in files]
    codes, values = columns.partitions
    assert [dict(values[code]) for code in codes.tolist()] == [file.partition_values for file in files]
    assert columns.may_have_statistics.tolist() == ["stats" in file.action for file in files]


UNUSUAL: dict[str, dict[str, Any]] = {
    "no path": {"path": ...},
    "a number as a path": {"path": 1},
    "a path above": {"path": "../a.parquet"},
    "the path of another": {"path": "day=0/a 0.parquet"},
    "no size": {"size": ...},
    "a fraction as a size": {"size": 1.0},
    "true as a size": {"size": True},
    "a negative size": {"size": -1},
    "a size of 65 bits": {"size": 2**64},
    "no partition values": {"partitionValues": ...},
    "a number in partition values": {"partitionValues": {"day": 1}},
    "partition values in a list": {"partitionValues": [["day", "1"]]},
    "no time": {"modificationTime": ...},
    "no change": {"dataChange": None},
    "statistics that are no text": {"stats": {"numRecords": 1}},
    "statistics that are no JSON": {"stats": "{"},
    "statistics as columns": {"stats_parsed": {"numRecords": 1}},
    "a row count that is none": {"stats": '{"numRecords": -1}'},
    "a vector that is no object": {"deletionVector": [1]},
    "a vector without a size": {"deletionVector": VECTOR | {"sizeInBytes": None}},
    "a vector with a fraction": {"deletionVector": VECTOR | {"offset": 1.5}},
    "a vector with more": {"deletionVector": VECTOR | {"other": 1}},
    "an inline vector": {"deletionVector": VECTOR | {"storageType": "i"}},
    "half a surrogate": {"path": "\\ud800"},
}


def outcome(batches: Any) -> Any:
    replay = Replay()
    try:
        replay.apply(batches)
    except Exception as error:  # noqa: BLE001
        return type(error), str(error)
    return [(key, file) for key, file in replay.files.items()], list(replay.checks)


@each("changed", UNUSUAL.values(), ids=list(UNUSUAL))
def test_unusual(changed: dict[str, Any]) -> None:
    data = data_of(lines_of(**changed))
    if "path" not in changed or changed["path"] != "day=0/a 0.parquet":  # which is seen when it is applied
        assert not any(isinstance(actions, Columns) for actions in commit_actions(data, "c.json"))
    assert outcome(commit_actions(data, "c.json")) == outcome([action] for action in parse_lines(data, "c.json"))


@each("line", ['{"add": {}, "remove": {}}', '{"add": {}} {}', '{"add": {', '{"add": {}, "add": []}'])
def test_lines(line: str) -> None:
    lines = lines_of()
    lines[50] = line
    data = data_of(lines)
    assert outcome(commit_actions(data, "c.json")) == outcome([action] for action in parse_lines(data, "c.json"))


def test_order() -> None:
    removed = {"path": added(7)["path"], "deletionVector": added(7).get("deletionVector"), "dataChange": True}
    lines = [*lines_of(), json.dumps({"remove": removed}), *lines_of()[-1:], json.dumps({"add": added(COUNT)})]
    data = data_of(lines)
    assert outcome(commit_actions(data, "c.json")) == outcome([action] for action in parse_lines(data, "c.json"))

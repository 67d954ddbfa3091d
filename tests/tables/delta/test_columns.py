"""Checkpoints and commits in columns: the same files, vectors and errors as one by one; the same data files ruled out.

What is unusual is read one by one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cases import each
from dvcodec.core.errors import DvcodecError
from dvcodec.tables.columns import FileColumns, VectorColumns
from dvcodec.tables.deleting.keys import keys_finder
from dvcodec.tables.deleting.matching import ConditionFinder
from dvcodec.tables.deleting.predicate import where_finder
from dvcodec.tables.delta import actions as actions_module
from dvcodec.tables.delta import open as open_delta
from dvcodec.tables.delta.actions import Actions, Columns, commit_actions
from dvcodec.tables.delta.log import parse_lines
from dvcodec.tables.delta.replay import Replay
from dvcodec.tables.delta.table import DeltaSnapshot
from samples.delta_table import Action, DeltaBuilder

PLACE = "^-aqEH.-t@S}K{vb[*k^"
VECTOR = {"storageType": "u", "pathOrInlineDv": PLACE, "offset": 1, "sizeInBytes": 40, "cardinality": 6}


def added(number: int, stats: str | None, vector: Action | None = None, **more: Any) -> Action:
    action: Action = {"path": f"part-{number}.parquet", "partitionValues": {}, "size": 9, "dataChange": True}
    action |= {"modificationTime": 1} | ({} if stats is None else {"stats": stats})
    return action | ({} if vector is None else {"deletionVector": vector}) | more


def table_of(folder: Path, actions: list[Action], removed: list[Action] | None = None) -> Path:
    builder = DeltaBuilder(folder, configuration={"delta.enableDeletionVectors": "true"})
    builder.create()
    builder.live = {f"{number}": action for number, action in enumerate(actions)}
    builder.tombstones = removed or []
    builder.checkpoint()
    return folder


def committed(folder: Path, actions: list[Action]) -> Path:
    builder = DeltaBuilder(folder)
    builder.create()
    builder.commit(*({"add": action} for action in actions))
    return folder


def opened(folder: Path) -> DeltaSnapshot:
    return open_delta(str(folder)).snapshot()


def read(folder: Path) -> Any:
    """What a table has, or why it cannot be opened. Its columns are those of its objects."""
    try:
        found = opened(folder)
    except DvcodecError as error:
        return str(error)
    files = [(file, file.record, file.partition_values) for file in found.data_files]
    assert of_files(found.file_columns) == of_files(FileColumns(tuple(found.data_files)))
    assert of_vectors(found.vector_columns) == of_vectors(VectorColumns(tuple(found.vectors), found.numbers))
    return files, list(found.files), [(vector, vector.record) for vector in found.vectors]


def of_files(columns: FileColumns) -> list[list[Any]]:
    lists = (columns.paths, columns.locations, columns.partitions)
    return [*map(list, lists), *(one.tolist() for one in (columns.rows, columns.sizes, columns.single))]


def of_vectors(columns: VectorColumns) -> list[Any]:
    numbers = (columns.files, columns.bitmaps, columns.counts, columns.offsets, columns.sizes, columns.cardinalities)
    places = columns.places
    return [
        *(one.tolist() for one in (*numbers, columns.file_sizes, *columns.containers)),
        [places.paths[one] for one in places.path_of],
        [list(places.locations), [places.locations[one] for one in places.location_of]],
        columns.have_wide,
        [list(columns.of_file(number)) for number in set(columns.files.tolist())],
    ]


CASES = [
    (added(1, '{"numRecords":5}'), True),
    (added(1, '{"numRecords": 5,"minValues":{"id":1}}', VECTOR), True),
    (added(1, None, {**VECTOR, "offset": None}, path="day=a%20b%3A1/x%2Cy.parquet"), True),
    (added(1, '{"numRecords":05}'), False),
    (added(1, '{"numRecords":-1}'), False),
    (added(1, '{"numRecords":123456789012345678901}'), False),
    (added(1, '{"minValues":{"numRecords":7},"numRecords":5}'), False),
    (added(1, '{"numRecords":5,"minValues":{"numRecords":7}}'), False),
    (added(1, "[1]"), False),
    (added(1, None, path="a/../b.parquet"), False),
    (added(1, None, path="a//b.parquet"), False),
    (added(1, None, path="a/%ff.parquet"), False),
    (added(1, None, path="a/%00.parquet"), False),
    (added(1, None, path="s3://bucket/b.parquet"), False),
    (added(1, None, path="a/b::c.parquet"), False),
    (added(1, None, path="a/ż.parquet"), False),
    (added(1, None, path=""), False),
    (added(1, None, path="a/" + "b" * 9000), False),
    (added(1, None, path=None), False),
    (added(1, None, size=-1), False),
    (added(1, None, size=None), False),
    (added(1, None, partitionValues={"other": "x"}), True),
    (added(1, None, {**VECTOR, "storageType": "p", "pathOrInlineDv": "file:/x/y.bin"}), False),
    (added(1, None, {**VECTOR, "storageType": "i", "offset": None}), False),
    (added(1, None, {**VECTOR, "storageType": "x"}), False),
    (added(1, None, {**VECTOR, "pathOrInlineDv": "short"}), False),
    (added(1, None, {**VECTOR, "pathOrInlineDv": "##################:."}), False),
    (added(1, None, {**VECTOR, "pathOrInlineDv": f"../{PLACE}"}), False),
    (added(1, None, {**VECTOR, "sizeInBytes": -1}), False),
    (added(1, None, {**VECTOR, "cardinality": None}), False),
    (added(1, None, {**VECTOR, "offset": -1}), False),
    (added(1, None, {**VECTOR, "storageType": None}), False),
]


@each(("action", "is_usual"), CASES)
def test_columns_are_as_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: Action, is_usual: bool) -> None:
    others = [added(2, '{"numRecords":1}', VECTOR), added(3, None)]
    table = table_of(tmp_path / "table", [action, *others])
    batches = actions_module.read_batches(open_delta(str(table)).folder, (f"{0:020}.checkpoint.parquet",), 0)
    usual = [actions.are_usual for actions in batches if isinstance(actions, Columns) and actions.where == "add"]
    assert usual[0] == is_usual
    by_columns = read(table)
    monkeypatch.setattr(actions_module, "_usual_files", lambda *_: None)
    assert by_columns == read(table)


@each(
    ("live", "removed"),
    [
        ([added(1, None), added(1, None, VECTOR)], []),
        ([added(1, None, VECTOR), added(1, None, {**VECTOR, "offset": 50})], []),
        ([added(1, None), added(1, '{"numRecords":5}')], []),
        ([added(number, None) for number in (1, 2, 3, 1, 4)], []),
        ([added(1, None), added(2, None)], [added(2, None)]),
        ([added(1, None), added(2, None)], [added(1, None, VECTOR), added(3, None)]),
    ],
    ids=("with and without", "two vectors", "twice in a batch", "twice", "live and removed", "removed"),
)
def test_files_that_are_there_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, live: list[Action], removed: list[Action]
) -> None:
    removed = [{name: one[name] for name in ("path", "dataChange", "deletionVector") if name in one} for one in removed]
    table = table_of(tmp_path / "table", live, removed)
    by_columns = read(table)
    monkeypatch.setattr(actions_module, "_usual_files", lambda *_: None)
    assert by_columns == read(table)


def test_checkpoint_without_a_column_of_vectors(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table", [added(1, None), added(2, '{"numRecords":1}')])
    (path,) = (table / "_delta_log").glob("*.parquet")
    stored = pq.read_table(path)
    adds = stored["add"].combine_chunks()
    kept = [field for field in adds.type if field.name != "deletionVector"]
    fewer = pa.StructArray.from_arrays([adds.field(one.name) for one in kept], fields=kept, mask=adds.is_null())
    pq.write_table(stored.set_column(stored.schema.names.index("add"), "add", fewer), path)
    assert read(table)[2] == []


@pytest.mark.parametrize("form", ["checkpoint", "commit"])
def test_bounds_of_all_files_at_once_rule_out_the_same(tmp_path: Path, form: str) -> None:
    """Of random statistics, some of them odd."""
    chance = random.Random(7)
    odd = [None, "{}", '{"numRecords":1}', '{"numRecords":2,"minValues":{"id":null},"maxValues":{"id":9}}']
    odd += ['{"numRecords":2,"minValues":{"id":1.0},"maxValues":{"id":9}}', '{"numRecords":3,\n"minValues":{}}']

    if form == "commit":
        odd += ["", "[1]", '{"numRecords":2,"minValues":{"name":"\ud800"},"maxValues":{"id":5}}', '{"a":1.5}']

    def stats() -> str | None:
        low = chance.randrange(100)
        known = {"numRecords": 9, "minValues": {"id": low, "x": 1.5}, "maxValues": {"id": low + chance.randrange(9)}}
        return json.dumps(known) if chance.random() < 0.97 else chance.choice(odd)

    actions = [added(number, stats()) for number in range(60)]
    table = table_of(tmp_path / "table", actions) if form == "checkpoint" else committed(tmp_path / "table", actions)
    looked_at, id_, fewer = opened(table), pc.field("id"), 0
    values = [chance.randrange(-5, 115) for _ in range(6)]
    finders: list[ConditionFinder] = []
    for low, high in pairwise(values):
        several = (id_ == low, id_ < low, id_ >= high, (id_ > low) & (id_ <= high), (id_ == low) | (id_ == high))
        finders += [where_finder(chance.choice((one, one & id_.is_valid(), one | id_.is_null()))) for one in several]
        finders.append(where_finder(f"id = {low} or id between {high} and {high + 1}"))
        finders.append(keys_finder(pa.table({"id": [low, high]}), ["id"]))  # type: ignore[arg-type]
    for finder in finders:
        found = opened(table)
        finder.prepare(found)
        wanted = [file.path for file in looked_at.data_files if finder.may_match(looked_at, file)]
        numbers = found.files_in(finder.condition.ranges)
        fewer += len(numbers) < 50
        assert {looked_at.data_files[number].path for number in numbers} >= set(wanted)
        assert [file.path for file in finder.candidates(found)] == wanted
    assert fewer > len(finders) / 3


# ---------------------------------------------------------------------- data files that a commit adds


def various(number: int) -> Action:
    stats = json.dumps({"numRecords": number, "minValues": {"n": number}}) if number % 5 else None
    more = {"partitionValues": {"day": None, "x": str(number % 4)}} if number % 2 else {"tags": {"a": "é"}}
    action = added(number, stats, path=f"day={number % 3}/a%20{number}.parquet", size=number, **more)
    return action | ({"deletionVector": VECTOR if number % 3 else None} if number % 7 else {})


def lines_with(line: str) -> list[str]:
    """A line among a hundred that add data files."""
    first = [json.dumps({"commitInfo": {"timestamp": 1}}), json.dumps({"txn": {"appId": "a", "version": 1}})]
    adds = [json.dumps({"add": various(number)}, ensure_ascii=False) for number in range(100)]
    return [*first, *adds[:50], line, *adds[50:]]


def replayed(batches: Iterable[Actions]) -> Any:
    replay = Replay()
    try:
        replay.apply(batches)
    except Exception as error:  # noqa: BLE001
        return type(error), str(error)
    return [(key, file) for key, file in replay.files.items()], list(replay.checks)


def check_lines(lines: list[str], *, has_columns: bool | None = None) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    if has_columns is not None:
        assert any(isinstance(actions, Columns) for actions in commit_actions(data, "c.json")) == has_columns
    assert replayed(commit_actions(data, "c.json")) == replayed([action] for action in parse_lines(data, "c.json"))


ONLY_IN_JSON: dict[str, Action] = {
    "a fraction as a size": {"size": 1.0},
    "true as a size": {"size": True},
    "a size of 65 bits": {"size": 2**64},
    "a number in partition values": {"partitionValues": {"day": 1}},
    "partition values in a list": {"partitionValues": [["day", "1"]]},
    "no time": {"modificationTime": ...},
    "no change": {"dataChange": None},
    "statistics that are not text": {"stats": {"numRecords": 1}},
    "statistics as columns": {"stats_parsed": {"numRecords": 1}},
    "a vector that is not an object": {"deletionVector": [1]},
    "a vector with a fraction": {"deletionVector": VECTOR | {"offset": 1.5}},
    "an offset of 32 bits": {"deletionVector": VECTOR | {"offset": 2**31}},
    "a vector with more": {"deletionVector": VECTOR | {"other": 1}},
    "half a surrogate": {"path": "\ud800"},
}


@each(("action", "is_usual"), CASES)
def test_lines_are_as_one_by_one(action: Action, is_usual: bool) -> None:
    check_lines(lines_with(json.dumps({"add": action})), has_columns=is_usual)


@each("changes", ONLY_IN_JSON.values(), ids=list(ONLY_IN_JSON))
def test_what_only_json_may_say(changes: Action) -> None:
    action = {name: value for name, value in (various(100) | changes).items() if value is not ...}
    check_lines(lines_with(json.dumps({"add": action})), has_columns=False)


@each("line", ['{"add": {}, "remove": {}}', '{"add": {}} {}', '{"add": {', '{"add": {}, "add": []}'])
def test_lines_that_are_not_one_action(line: str) -> None:
    check_lines(lines_with(line))


def test_order_of_lines() -> None:
    gone = {name: various(7).get(name) for name in ("path", "deletionVector", "dataChange")}
    twice = json.dumps({"add": various(0)})  # which is seen when it is applied
    check_lines([*lines_with(twice), json.dumps({"remove": gone}), *lines_with("")[-1:]], has_columns=True)

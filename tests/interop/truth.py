"""What is true of tables that engines made, as interop/spark writes it down, and how dvcodec is held against it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec import RowSet
from dvcodec.tables import DeletionVector, Snapshot, Table, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.snapshots.live import live_batches

STORED_RECORDS = "_VALUE_KIND IN (0, 2)"
BITMAP_ALONE = 8
"""Bytes that Delta, and Paimon of 32-bit vectors, leave out of a vector's length: the length field and the CRC."""

VECTOR_FILES = {
    "iceberg": ("*.puffin", "*.bin"),
    "delta": ("*.puffin", "*.bin"),
}
"""How engines name the files that hold vectors. Paimon keeps those of data files that are gone: no listing has them."""


@dataclass(frozen=True)
class State:
    """One state of a table by its engine's word; interop/spark/common.py describes the fields.

    `live` has the table's columns, and ``_file`` and ``_pos``: bare name of the data file, and physical position.
    `unread` are data files that the engine's reads leave out.
    """

    version: int
    live: Path | None
    files: dict[str, int]
    unread: frozenset[str]
    vectors: list[dict[str, Any]]
    condition: str | None
    operation: str | None
    timestamp_ms: int | None
    parent: int | None

    def rows(self) -> pa.Table:
        assert self.live is not None
        return pq.read_table(self.live, partitioning=None)


@dataclass(frozen=True)
class MadeTable:
    """A table that an engine made, and its states, the oldest first."""

    engine: str
    name: str
    root: str
    states: list[State]
    current: int
    head: Path | None

    @property
    def latest(self) -> State:
        return next(state for state in self.states if state.version == self.current)

    def open(self) -> Table:
        return open_table(self.root)

    def snapshots(self) -> Iterator[tuple[Table, Snapshot, State]]:
        """Open every state."""
        opened = self.open()
        for state in self.states:
            yield opened, opened.snapshot(state.version), state


def read_truth(path: Path, root: Path | None = None) -> list[MadeTable]:
    """Read a truth file; `root` is where its only table lies, if no longer where it was made."""
    tables = json.loads(path.read_text())["tables"]
    return [_table(path.parent, found, found["root"] if root is None else str(root)) for found in tables]


def _table(folder: Path, found: dict[str, Any], root: str) -> MadeTable:
    def here(location: str | None) -> str | None:
        old = f"{found['root']}/"
        return f"{root}/{location.removeprefix(old)}" if location is not None and location.startswith(old) else location

    states = [
        State(
            state["version"],
            folder / state["live"] if state["live"] else None,
            {str(here(file["path"])): file["rows"] for file in state["data_files"]},
            frozenset(str(here(file["path"])) for file in state["data_files"] if not file["is_read"]),
            [
                vector | {"data_file": here(vector["data_file"]), "container": here(vector["container"])}
                for vector in state["vectors"]
            ],
            *(state[name] for name in ("condition", "operation", "timestamp_ms", "parent")),
        )
        for state in found["snapshots"]
    ]
    for state, read in zip(found["snapshots"], states, strict=True):
        assert len(read.files) == len(state["data_files"]), "no data file twice"
    head = folder / found["head"] if found["head"] else None
    return MadeTable(found["engine"], found["name"], root, states, found["current"], head)


def check_states(made: MadeTable) -> None:
    """The states are the engine's, and the last is the current one."""
    infos = made.open().snapshots()
    assert infos[-1].id == made.current
    found = {info.id: info for info in infos}
    assert len(found) == len(infos)
    assert found.keys() == {state.version for state in made.states}
    for state in made.states:
        info = found[state.version]
        assert info.operation == state.operation, state.version
        if state.timestamp_ms is not None:
            assert info.timestamp_ms == state.timestamp_ms, state.version
        if state.parent is not None:
            assert info.parent == state.parent, state.version


def check_listing(made: MadeTable) -> None:
    """Data files, their physical rows, and where the vectors are: what the engine lists, no more and no less."""
    for opened, snapshot, state in made.snapshots():
        listed = {file.location: file.physical_rows for file in snapshot.data_files}
        assert listed == state.files, state.version
        assert len(snapshot.data_files) == len(listed)
        recorded = [_recorded(made, vector) for vector in state.vectors]
        # Whom position deletes are for may be known from their bounds alone, which the engine's listing does not name.
        wide = {place[0] for place in recorded if place[1] == -1 and not place[-1]}
        found = [_place(opened, vector) for vector in snapshot.vectors]
        found = [(*place[:-1], "") if place[0] in wide else place for place in found]
        assert sorted(found) == sorted(recorded), state.version


Place = tuple[str, int, int, int, str]


def _place(opened: Table, vector: DeletionVector) -> Place:
    data_file = "" if vector.data_file is None else opened.folder.locate(vector.data_file)
    offset = -1 if vector.offset is None else vector.offset
    cardinality = -1 if vector.cardinality is None else vector.cardinality
    return vector.location, offset, vector.size or -1, cardinality, data_file


def _recorded(made: MadeTable, vector: dict[str, Any]) -> Place:
    alone = made.engine in ("delta", "paimon") or made.name.endswith("32")
    offset = -1 if vector["offset"] is None else vector["offset"]
    cardinality = -1 if vector["cardinality"] is None else vector["cardinality"]
    length = vector["length"] + (BITMAP_ALONE if alone else 0)
    return vector["container"], offset, length, cardinality, vector["data_file"] or ""


def check_deleted(made: MadeTable) -> None:
    """What the vectors hold, read by range, is what the engine leaves out, position by position."""
    for _, snapshot, state in made.snapshots():
        if state.live is None:
            continue
        rows: dict[str, RowSet] = {}
        for vector in snapshot.vectors:
            for found in snapshot.read(vector):
                assert found.stats is None or found.stats.cardinality == len(found.rows)
                rows[found.data_file] = rows.get(found.data_file, RowSet()) | found.rows
        paths = {file.location: file.path for file in snapshot.data_files}
        assert rows.keys() <= set(paths.values()), state.version
        live = _positions(state)
        assert live.keys() <= {Path(location).name for location in state.files.keys() - state.unread}
        for location, physical in state.files.items():
            left_out = RowSet.from_ranges([(0, physical)]) - live.get(Path(location).name, RowSet())
            if location in state.unread:
                continue
            if state.condition is not None:
                assert state.condition == STORED_RECORDS
                left_out = left_out - _retractions(location)
            assert rows.get(paths[location], RowSet()) == left_out, (state.version, location)


def _positions(state: State) -> dict[str, RowSet]:
    """The physical positions of the live rows, by the bare names of data files, which are unique."""
    rows = state.rows().select(["_file", "_pos"])
    positions = rows["_pos"].to_numpy()
    names = rows["_file"].combine_chunks().dictionary_encode()
    indices = names.indices.to_numpy()
    return {
        name: RowSet.from_positions(positions[indices == index])
        for index, name in enumerate(names.dictionary.to_pylist())
    }


def _retractions(location: str) -> RowSet:
    """Positions of records that say that a key is gone: no row of the table, and in no vector."""
    kinds = pq.read_table(location, columns=["_VALUE_KIND"], partitioning=None)["_VALUE_KIND"].to_numpy()
    return RowSet.from_positions(np.flatnonzero(~np.isin(kinds, (0, 2))))


def check_live_rows(made: MadeTable) -> None:
    """The live rows are the engine's: every value, of the same type, at its position."""
    for opened, snapshot, state in made.snapshots():
        if state.live is None:
            continue
        truth = state.rows()
        ranks_of = {Path(file.location).name: rank for rank, file in enumerate(snapshot.data_files)}
        ranks = pa.array([ranks_of[name] for name in truth["_file"].to_pylist()], pa.int64())
        order = truth.append_column("_rank", ranks).sort_by([("_rank", "ascending"), ("_pos", "ascending")])
        batches = list(live_batches(opened, snapshot_id=state.version))
        found = pa.Table.from_batches(batches, snapshot.schema())
        assert_equal(found, _without_places(order), f"state {state.version}")


def check_head(made: MadeTable) -> None:
    """As of now, in the latest schema, where that is newer than the current state."""
    assert made.head is not None
    opened = made.open()
    found = pa.Table.from_batches(list(live_batches(opened)), opened.snapshot().schema())
    truth = _without_places(pq.read_table(made.head, partitioning=None))
    key = [("id", "ascending")]
    assert len(set(truth["id"].to_pylist())) == truth.num_rows
    assert_equal(found.sort_by(key), truth.sort_by(key), "head")
    assert found.schema.names != _without_places(made.latest.rows()).schema.names


def _without_places(rows: pa.Table) -> pa.Table:
    return rows.select([name for name in rows.schema.names if name not in ("_file", "_pos", "_rank")])


def assert_equal(found: pa.Table, truth: pa.Table, where: str) -> None:
    assert found.schema.names == truth.schema.names, where
    for field in truth.schema:
        of_type = found.schema.field(field.name).type
        assert plain_type(of_type) == plain_type(field.type), f"{where}: {field.name}"
    assert found.num_rows == truth.num_rows, where
    for field in truth.schema:
        column = found[field.name].cast(field.type)
        assert column.equals(truth[field.name]), f"{where}: {field.name}"


def plain_type(of: pa.DataType) -> str:
    """A type without what engines do not report: whether parts may be null, parts' names, units of times."""
    if pa.types.is_timestamp(of):
        return "timestamp" if of.tz is None else f"timestamp, {of.tz}"
    if pa.types.is_struct(of):
        return f"struct<{', '.join(f'{field.name}: {plain_type(field.type)}' for field in of)}>"
    if pa.types.is_map(of):
        return f"map<{plain_type(of.key_type)}, {plain_type(of.item_type)}>"
    if pa.types.is_list(of):
        return f"list<{plain_type(of.value_type)}>"
    return str(of)


def orphans(made: MadeTable) -> set[str]:
    """The vector files that Iceberg or Delta left, and that no state has.

    How many there are is chance: where all rows of a data file are deleted, its vector is left, in a file of its own or
    in one with others.
    """
    stored = {str(path) for pattern in VECTOR_FILES[made.engine] for path in Path(made.root).rglob(pattern)}
    return stored - {vector["container"] for state in made.states for vector in state.vectors}


def check_audit(made: MadeTable, state: State, *, left: int = 0, moved: bool = False) -> None:
    """An audit finds nothing but what the engine left.

    Args:
        made: the table.
        state: what is audited.
        left: how many vector files Paimon left.
        moved: the table is not where its metadata says.
    """
    found: dict[str, list[str]] = {}
    for finding in audit(made.open(), state.version).findings:
        found.setdefault(finding.check, []).append(finding.path or "")
    found_left = sorted(found.pop("orphan-vector-file", []))
    if made.engine in VECTOR_FILES:
        assert found_left == sorted(orphans(made)), state.version
    else:
        assert len(found_left) == left, state.version
    assert not {vector["container"] for other in made.states for vector in other.vectors} & set(found_left)
    assert bool(found.pop("moved", [])) == moved
    gone = {path for path in state.files if not Path(path).exists()}
    vectors_gone = {vector["container"] for vector in state.vectors if not Path(vector["container"]).exists()}
    # What an engine cleaned up, though its log still has it, is missed, file by file.
    assert (state.live is None) == bool(gone | vectors_gone)
    assert set(found.pop("missing-data-file", [])) == gone
    assert set(found.pop("missing-file", [])) == vectors_gone
    assert found == {}, state.version

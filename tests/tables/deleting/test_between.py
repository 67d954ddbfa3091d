"""What others may do to a table between the snapshot that a delete read and its commit."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dvcodec import CommitConflict, RowSet, UsageError
from dvcodec.tables import DataFile, Snapshot, audit, open_table
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting.positions import positions_finder
from dvcodec.tables.deleting.predicate import where_finder
from dvcodec.tables.deleting.run import Committer, Found, Written, run
from dvcodec.tables.folder import Folder
from dvcodec.tables.iceberg.folder_place import FolderPlace
from dvcodec.tables.model import Deletion
from samples import delta_log
from samples.id_tables import MAKERS
from samples.rows import ids
from tables.deleting.finders import Where
from tables.deleting.libraries import ids_by_library
from tables.deleting.races import KINDS

ROWS, SIZE = 256, 64


class Between(Committer[Any]):
    """Lets something happen once, after the vectors are written and before the commit."""

    def __init__(self, inner: Committer[Any], act: Callable[[], object]) -> None:
        self.inner = inner
        self.acts = [act]

    def current(self) -> Any:
        return self.inner.current()

    def check(self, base: Any) -> None:
        self.inner.check(base)

    def write(self, base: Any, deletes: Any, written: list[str]) -> Written:
        return self.inner.write(base, deletes, written)

    def commit(self, base: Any, deletes: Any, written: Written, files: list[str]) -> int:
        while self.acts:
            self.acts.pop()()
        return self.inner.commit(base, deletes, written, files)


def delete(folder: Path, *gone: int, between: Callable[[], object] = lambda: None) -> Deletion:
    return run(Between(committer_of(open_table(folder)), between), Where("id", gone.__contains__))


def check(folder: Path, *gone: int, rows: int = ROWS, extra: frozenset[str] = frozenset()) -> None:
    """Check the rows that are left, by dvcodec and by the format's library."""
    left = [number for number in range(rows) if number not in gone]
    assert ids(open_table(folder)) == ids_by_library({"location": str(folder)}) == left
    assert {one.check for one in audit(open_table(folder)).findings} <= extra


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(kind: str, tmp_path: Path) -> Path:
    """Ids 0 to 255 in four files, of which 1 and 100 are deleted."""
    folder = tmp_path / kind
    MAKERS[kind](folder, ROWS, SIZE)
    delete(folder, 1, 100)
    return folder


# ---------------------------------------------------------------------- interruptions, and what is missing


def delta_folder(tmp_path: Path) -> Path:
    return delta_log.restored_table(tmp_path / "delta")


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Ctrl-C raises, as in a program that a user started: a shell's background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_waits_until_the_commit_is_settled(tmp_path: Path) -> None:
    folder = delta_folder(tmp_path)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        delete(folder, 200, between=lambda: signal.raise_signal(signal.SIGINT))
    assert 200 not in ids(open_table(folder))
    assert audit(open_table(folder)).findings == ()
    assert signal.getsignal(signal.SIGINT) is before


def test_serializable_goes_on_if_what_is_added_cannot_match(tmp_path: Path) -> None:
    """Its bounds say so; without them it would be a conflict."""
    folder = delta_folder(tmp_path)
    bounds = {"minValues": {"id": 300}, "maxValues": {"id": 427}, "nullCount": {"id": 0}}
    add = delta_log.data_file(folder, "c.parquet", 300)
    add["stats"] = json.dumps({"numRecords": delta_log.ROWS, **bounds})
    late = Between(committer_of(open_table(folder)), lambda: delta_log.commit(folder, 3, "WRITE", {"add": add}))
    done = run(late, where_finder(pc.field("id") == 200), isolation="serializable")
    assert (done.rows, done.retries) == (1, 1)
    assert {300, 427} <= set(ids(open_table(folder)))


# ---------------------------------------------------------------------- another table in the same place


def remake(kind: str, folder: Path, *, other: bool) -> None:
    """Drop a table and create one with as many versions, and with an id of its own if `other`."""
    shutil.rmtree(folder)
    MAKERS[kind](folder, 2 * ROWS, 2 * SIZE)
    for path in (*folder.glob("_delta_log/*.json"), *folder.glob("metadata/v1.metadata.json")):
        text = path.read_text().replace('"timestamp": 17', '"timestamp": 18')
        if other:
            text = text.replace('"id": "0"', '"id": "1"').replace('"table-uuid": "9c', '"table-uuid": "00')
        path.write_text(text)
    delete(folder, 3)


def test_a_table_that_was_dropped_and_created_anew(kind: str, folder: Path) -> None:
    """Its own files never get vectors of the other table's: where its id says that it is another, the delete fails."""

    def act() -> None:
        remake(kind, folder, other=True)

    if kind in ("delta", "iceberg", "iceberg 2"):
        with pytest.raises(CommitConflict, match="the table was dropped, and another one created"):
            delete(folder, 5, 70, between=act)
        check(folder, 3, rows=2 * ROWS)
    else:  # these formats have no id of a table
        assert delete(folder, 5, 70, between=act).retries == 1
        check(folder, 3, 5, 70, rows=2 * ROWS)


def test_a_table_whose_log_begins_anew(kind: str, folder: Path) -> None:
    """What was read of it before does not count, though the version is the same."""
    paths = [file.path for file in open_table(folder).snapshot().data_files]
    assert delete(folder, 5, 70, between=lambda: remake(kind, folder, other=False)).retries == 1
    check(folder, 3, 5, 70, rows=2 * ROWS)
    writer = Between(committer_of(open_table(folder)), lambda: remake(kind, folder, other=False))
    with pytest.raises((CommitConflict, UsageError)):  # positions are of its files alone
        run(writer, positions_finder({paths[-1]: RowSet([5])}))


# ---------------------------------------------------------------------- the base is gone


def clean_up(kind: str, folder: Path) -> None:
    """Commit, and remove all that only older versions need."""
    base = open_table(folder).snapshot()
    for number in range(10, 14):
        delete(folder, number)
    if kind == "delta":
        deltalake = pytest.importorskip("deltalake")
        deltalake.DeltaTable(str(folder)).create_checkpoint()
        for path in sorted((folder / "_delta_log").glob("0*.json"))[:-1]:
            path.unlink()
    elif kind == "lance":
        import lance

        lance.dataset(str(folder)).cleanup_old_versions(older_than=timedelta(0))
    elif kind.startswith("iceberg"):
        newest = Path(open_table(folder).metadata.source)  # type: ignore[attr-defined]
        metadata = json.loads(newest.read_text())
        for record in metadata["snapshots"][:-1]:
            Path(record["manifest-list"]).unlink()
        metadata["snapshots"], metadata["snapshot-log"] = metadata["snapshots"][-1:], metadata["snapshot-log"][-1:]
        metadata["metadata-log"] = []
        newest.write_text(json.dumps(metadata))
        for path in (folder / "metadata").glob("v*.json"):
            if path != newest:
                path.unlink()
    else:
        for number in range(1, base.info.id + 2):
            (folder / f"snapshot/snapshot-{number}").unlink()


def test_a_base_that_was_cleaned_up(kind: str, folder: Path) -> None:
    """The file of the next version is absent, and creating it would lose the delete."""
    done = delete(folder, 5, 70, between=lambda: clean_up(kind, folder))
    assert done.retries == 1
    assert open_table(folder).snapshot().info.id == done.snapshot
    # The index files and Puffin files that older snapshots had are left.
    check(folder, 1, 100, 5, 70, 10, 11, 12, 13, extra=frozenset({"orphan-vector-file"}))


class Vanishing(Where):
    """A data file is gone when it is searched."""

    def __init__(self, act: Callable[[DataFile], object]) -> None:
        super().__init__("id", (70).__eq__)
        self.act = act

    def find(self, snapshot: Snapshot, data_file: DataFile) -> Found:
        if data_file.path.endswith("64.parquet"):
            self.act(data_file)
        return super().find(snapshot, data_file)


def test_a_data_file_that_was_rewritten_and_vacuumed(tmp_path: Path) -> None:
    folder = tmp_path / "delta"
    MAKERS["delta"](folder, ROWS, SIZE)

    def compact(_: DataFile) -> None:
        if not (folder / "new.parquet").exists():
            add = delta_log.data_file(folder, "new.parquet", 64, SIZE)
            gone = {"path": "64.parquet", "dataChange": False, "deletionTimestamp": 1}
            delta_log.commit(folder, 2, "OPTIMIZE", {"remove": gone}, {"add": add})
            (folder / "64.parquet").unlink()

    assert run(committer_of(open_table(folder)), Vanishing(compact)).rows == 1
    check(folder, 70)


# ---------------------------------------------------------------------- other values under the same names


def named(field: dict[str, Any], name: str, number: int) -> dict[str, Any]:
    return field | {"name": name, "id": number, "required": False, "nullable": True}


def iceberg_names(folder: Path, turn: int, ids: dict[str, int]) -> None:
    source = Path(open_table(folder).metadata.source)  # type: ignore[attr-defined]
    metadata = json.loads(source.read_text())
    fields = [named(metadata["schemas"][0]["fields"][0], name, number) for name, number in ids.items()]
    metadata["schemas"].append(metadata["schemas"][0] | {"schema-id": turn, "fields": fields})
    new = source.with_name(f"v{turn + 1}.metadata.json")
    new.write_text(json.dumps(metadata | {"current-schema-id": turn, "last-column-id": 9}))


def delta_names(folder: Path, turn: int, ids: dict[str, int]) -> None:
    first = (folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    (metadata,) = (one["metaData"] for one in map(json.loads, first) if "metaData" in one)
    schema = json.loads(metadata["schemaString"])
    field = schema["fields"][0]
    keys = {
        name: {"delta.columnMapping.id": n, "delta.columnMapping.physicalName": STORED[n]} for name, n in ids.items()
    }
    schema["fields"] = [named(field, name, number) | {"metadata": keys[name]} for name, number in ids.items()]
    on = metadata["configuration"] | {"delta.columnMapping.mode": "name"}
    new = metadata | {"schemaString": json.dumps(schema), "configuration": on}
    delta_log.commit(folder, turn + 1, "RENAME COLUMN", {"metaData": new})


def paimon_names(folder: Path, turn: int, ids: dict[str, int]) -> None:
    schema = json.loads((folder / "schema" / "schema-0").read_text())
    fields = [named(schema["fields"][0], name, number - 1) for name, number in ids.items()]
    (folder / "schema" / f"schema-{turn}").write_text(
        json.dumps(schema | {"id": turn, "fields": fields, "highestFieldId": 9})
    )


STORED = {1: "id", 9: "new"}
"""Names in data files, which have no second column."""
NAMES = {"iceberg": iceberg_names, "delta": delta_names, "paimon": paimon_names}


@pytest.mark.parametrize("kind", NAMES)
def test_columns_that_swap_their_names(tmp_path: Path, kind: str) -> None:
    """What is called ``id`` afterwards has the same name and type, but is another column, without a value."""
    folder = tmp_path / "t"
    MAKERS[kind](folder, ROWS, SIZE)
    NAMES[kind](folder, 1, {"id": 1, "was": 9})
    before = open_table(folder).snapshot().schema()

    def swap() -> None:
        NAMES[kind](folder, 2, {"id": 9, "was": 1})

    done = run(Between(committer_of(open_table(folder)), swap), where_finder(pc.field("id") == 5))
    after = open_table(folder).snapshot().schema()
    assert (before, done.rows, done.committed, done.retries) == (after, 0, False, 1)
    assert run(committer_of(open_table(folder)), where_finder(pc.field("was") == 5)).rows == 1


def test_a_column_that_is_dropped_and_added_again(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    path = str(tmp_path / "t")
    lance.write_dataset(pa.table({"kept": range(10), "id": range(10)}), path)

    def again() -> None:
        lance.dataset(path).drop_columns(["id"])
        lance.dataset(path).add_columns(pa.field("id", pa.int64()))

    (before,) = open_table(path).snapshot().data_files
    done = run(Between(committer_of(open_table(path)), again), where_finder(pc.field("id") == 5))
    assert open_table(path).snapshot().data_files == (before,)
    assert (done.rows, done.committed, done.retries) == (0, False, 1)


def test_a_fragment_that_gets_other_values_is_searched_again(tmp_path: Path) -> None:
    """It stays the same by its number, its rows and its bytes."""
    lance = pytest.importorskip("lance")
    path = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": range(10), "x": range(10)}), path)

    def update(*values: int) -> None:
        dataset = lance.dataset(path)
        changed, fields = dataset.get_fragments()[0].update_columns(pa.table({"id": [3, 4], "x": values}), left_on="id")
        operation = lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
        lance.LanceDataset.commit(path, operation, read_version=dataset.version)

    update(3, 30)
    (before,) = open_table(path).snapshot().data_files
    done = run(Between(committer_of(open_table(path)), lambda: update(30, 3)), where_finder(pc.field("x") == 3))
    (after,) = open_table(path).snapshot().data_files
    assert (before.path, before.size, before.physical_rows) == (after.path, after.size, after.physical_rows)
    assert done.rows == 1
    left = lance.dataset(path).to_table().to_pydict()
    assert (4 in left["id"], 3 in left["x"], 30 in left["x"]) == (False, False, True)


# ---------------------------------------------------------------------- hints


@pytest.fixture
def iceberg(tmp_path: Path) -> Path:
    """Only the last metadata file but one is kept."""
    folder = tmp_path / "iceberg"
    MAKERS["iceberg"](folder, ROWS, SIZE)
    path = folder / "metadata" / "v1.metadata.json"
    kept = {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"properties": kept}))
    delete(folder, 1)
    return folder


def test_a_version_that_is_newer_than_the_listing(iceberg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer commits after the names are listed, and before the hint is read."""
    names, turns = Folder.names, [0]

    def then_commit(self: Folder, name: str = "") -> list[str]:
        found = names(self, name)
        if name == "metadata" and not turns[0]:
            turns[0] += 1
            delete(iceberg, 100)
        return found

    monkeypatch.setattr(Folder, "names", then_commit)
    assert delete(iceberg, 5).retries == 0
    assert turns == [1]
    check(iceberg, 1, 100, 5)


def test_a_slow_writer_does_not_leave_its_hint(iceberg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a version whose file is removed meanwhile, where no reader would find the table."""
    write, turns = FolderPlace._write_hint, [0]

    def slow(self: FolderPlace, folder: str, version: int, *, is_last: bool) -> None:
        turns[0] += 1
        if turns[0] == 1:
            for number in (100, 5, 6):
                delete(iceberg, number)
        write(self, folder, version, is_last=is_last)

    monkeypatch.setattr(FolderPlace, "_write_hint", slow)
    delete(iceberg, 7)
    assert (iceberg / "metadata" / "version-hint.text").read_text() == "6"
    check(iceberg, 1, 100, 5, 6, 7)


# ---------------------------------------------------------------------- clocks, and stores


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit there would be visible before it is whole."""
    folder = delta_folder(tmp_path)
    before = {path for path in folder.rglob("*") if path.is_file()}
    monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError(1, "Operation not permitted")))
    with pytest.raises(OSError, match="a commit requires hard links"):
        delete(folder, 200)
    assert {path for path in folder.rglob("*") if path.is_file()} == before

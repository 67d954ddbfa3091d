"""Checkpoints of every form say what the commits said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec.core.errors import NotCanonical
from dvcodec.tables.delta.checkpoint import read_checkpoint, read_sidecars
from dvcodec.tables.folder import Folder
from dvcodec.tables.json_fields import JsonFields
from samples.delta_table import DeltaBuilder, build_delta

FORMS = ("classic", "parts", "json", "parquet", "json alone", "parquet alone")
VERSION = 4


@pytest.fixture
def table(tmp_path: Path) -> DeltaBuilder:
    return build_delta(tmp_path / "table", partitioned=True)


def actions_of(table: DeltaBuilder, files: list[Path], version: int = VERSION) -> list[JsonFields]:
    names = tuple(file.name for file in files if file.parent == table.log)
    return list(read_checkpoint(Folder(str(table.root)), names, version))


def by_kind(actions: list[JsonFields], kind: str) -> list[Any]:
    return sorted((action.values for action in actions if action.where == kind), key=lambda members: members["path"])


@pytest.mark.parametrize("form", FORMS)
def test_forms(table: DeltaBuilder, form: str) -> None:
    actions = actions_of(table, table.checkpoint(form))
    assert by_kind(actions, "add") == sorted(table.live.values(), key=lambda add: str(add["path"]))
    assert len(by_kind(actions, "remove")) == len(table.tombstones)
    kinds = [action.where for action in actions]
    assert kinds.count("protocol") == kinds.count("metaData") == 1
    metadata = next(action.values for action in actions if action.where == "metaData")
    assert metadata["schemaString"] == table.metadata["schemaString"]
    assert metadata["configuration"] == {"delta.enableDeletionVectors": "true"}


@pytest.mark.parametrize("form", ["classic", "json"])
def test_parsed_statistics(table: DeltaBuilder, form: str) -> None:
    adds = by_kind(actions_of(table, table.checkpoint(form, parsed_stats=True)), "add")
    assert [add["stats_parsed"] for add in adds] == [{"numRecords": 100}] * 3
    assert not any("stats" in add for add in adds)


def test_sidecars_are_named(table: DeltaBuilder) -> None:
    for form in ("json", "parquet"):
        top, *sidecars = table.checkpoint(form)
        assert sorted(read_sidecars(Folder(str(table.root)), top.name)) == sorted(map(str, sidecars))
    (top,) = table.checkpoint("classic")
    assert list(read_sidecars(Folder(str(table.root)), top.name)) == []


def test_a_sidecar_recorded_by_its_whole_path_is_looked_for_here(table: DeltaBuilder) -> None:
    top, *sidecars = table.checkpoint("json")
    text = top.read_text()
    for file in sidecars:
        text = text.replace(f'"{file.name}"', f'"s3://lake/table/_delta_log/_sidecars/{file.name}"')
    top.write_text(text)
    assert len(by_kind(actions_of(table, [top]), "add")) == 3


@pytest.mark.parametrize("path", ["../x.parquet", "/etc/x.parquet", "..", "_sidecars/x.parquet", "s3://b/x.parquet"])
def test_a_sidecar_elsewhere(table: DeltaBuilder, path: str) -> None:
    top, *_ = table.checkpoint("json")
    top.write_text(json.dumps({"sidecar": {"path": path}}))
    with pytest.raises(NotCanonical, match=r"line 1: sidecar\.path: expected a file in _delta_log/_sidecars"):
        actions_of(table, [top])


def test_a_sidecar_that_is_gone(table: DeltaBuilder) -> None:
    top, gone, _ = table.checkpoint("parquet")
    gone.unlink()
    with pytest.raises(FileNotFoundError, match=gone.name):
        actions_of(table, [top])


def test_a_checkpoint_of_another_version(table: DeltaBuilder) -> None:
    files = table.checkpoint("json alone")
    with pytest.raises(NotCanonical, match=r"checkpointMetadata\.version: expected 3, found 4"):
        actions_of(table, files, 3)


def test_rows_are_named(table: DeltaBuilder) -> None:
    rows = [{"add": {"path": "a", "size": size}} for size in (1, 2)]
    (file,) = table.checkpoint("classic")
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=1)
    sources = [action.source for action in actions_of(table, [file])]
    assert sources == [f"{file}, row 0", f"{file}, row 1"]


def test_invalid_checkpoints_are_refused(table: DeltaBuilder) -> None:
    (file,) = table.checkpoint("classic")
    whole = file.read_bytes()
    pq.write_table(pa.table({"add": ["a.parquet"]}), file)
    with pytest.raises(NotCanonical, match="column add: expected a struct, found string"):
        actions_of(table, [file])
    pq.write_table(pa.table({"unknown": [1]}), file)
    assert actions_of(table, [file]) == []
    text = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    pq.write_table(pa.table({"add": pa.StructArray.from_arrays([text], ["path"])}), file)
    with pytest.raises(NotCanonical, match="column add: expected readable values"):
        actions_of(table, [file])
    file.write_bytes(whole[:-20])
    with pytest.raises(NotCanonical, match=str(file)):
        actions_of(table, [file])

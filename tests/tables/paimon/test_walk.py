"""Snapshots one after another, by what differs: the same as whole snapshots, compared."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import amounts
from cases import each
from dvcodec.core import avro
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.tables import Table, history
from dvcodec.tables.paimon import PaimonTable
from dvcodec.tables.paimon import table as reading
from samples.changes import sorted_values
from samples.paimon_table import PaimonFile, build_paimon, rewrite_json

COLUMNS = [(0, "id", "BIGINT"), (1, "p", "STRING")]
ROWS = pa.table({"id": range(20)})


def random_states(chance: random.Random, count: int) -> list[list[PaimonFile]]:
    """States of a few data files in two partitions: added, gone, compacted, deleted in, restored."""
    live: dict[tuple[str, str], PaimonFile] = {}
    states = []
    for number in range(count):
        for _ in range(chance.randrange(4)):
            part = chance.choice("xy")
            name = f"{chance.choice('abc')}.parquet"
            if chance.random() < 0.3:
                live.pop((part, name), None)
                continue
            deleted = sorted(chance.sample(range(20), chance.randrange(1, 5))) if chance.random() < 0.7 else None
            known = live.get((part, name))
            level = known.level if known is not None and chance.random() < 0.7 else number
            bits = chance.choice([32, 64])
            live[part, name] = PaimonFile(name, ROWS, deleted, (part,), f"p={part}", level=level, bits=bits)
        states.append(list(live.values()))
    return states


def merge_manifests(table: Path, number: int) -> None:
    """Have a snapshot's base list name one manifest, as Paimon does once there are many."""
    folder = table / "manifest"
    base = folder / f"manifest-list-{number}-0"
    listed = avro.decode(Cursor(base.read_bytes()))
    (first, *_), schema = list(listed.records()), listed.schema
    manifests = [
        avro.decode(Cursor((folder / f"manifest-{i}-0").read_bytes()))
        for i in range(1, number)
        if (folder / f"manifest-{i}-0").exists()
    ]
    live: dict[str, dict[str, Any]] = {}
    for manifest in manifests:
        for record in manifest.records():
            file = record["_FILE"]
            key = str((record["_PARTITION"], file["_FILE_NAME"], file["_LEVEL"]))
            if record["_KIND"]:
                del live[key]
            else:
                live[key] = record
    (folder / f"merged-{number}").write_bytes(avro.encode(manifests[0].schema, live.values()))
    base.write_bytes(avro.encode(schema, [first | {"_FILE_NAME": f"merged-{number}"}]))


@each("seed", range(amounts.of(3, 8)))
def test_random_states(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    made = build_paimon(tmp_path / "t", COLUMNS, random_states(chance, 25), partition_keys=["p"])
    for number in chance.sample(range(8, 25), 4):
        merge_manifests(made, number)
    found = [sorted_values(change) for change in history(PaimonTable(str(made)), keep_rows=True)]
    monkeypatch.setattr(reading.PaimonTable, "walk_from", Table.walk_from)
    assert found == [sorted_values(change) for change in history(PaimonTable(str(made)), keep_rows=True)]
    assert sum(change["deleted"] for change in found) > 10
    assert any(change["restored"] for change in found)
    assert any(change["removed"] for change in found)


def test_a_data_file_that_is_added_again(tmp_path: Path) -> None:
    """Also if it was never deleted, or before: deletes hold whatever their order."""
    a, b = PaimonFile("a.parquet", ROWS), PaimonFile("b.parquet", ROWS)
    made = build_paimon(tmp_path / "t", COLUMNS, [[a], [a, b], [b], [a, b]])
    assert [len(change.added) for change in history(PaimonTable(str(made)))] == [1, 1, 0, 0]
    rewrite_json(made / "snapshot/snapshot-4", deltaManifestList="manifest-list-5-1")
    manifest_list = made / "manifest/manifest-list-2-1"
    file = avro.decode(Cursor(manifest_list.read_bytes()))
    (record,) = file.records()
    (made / "manifest/again").write_bytes((made / "manifest/manifest-2-0").read_bytes())
    (made / "manifest/manifest-list-5-1").write_bytes(avro.encode(file.schema, [record | {"_FILE_NAME": "again"}]))
    for walk_from in (reading.PaimonTable.walk_from, Table.walk_from):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(reading.PaimonTable, "walk_from", walk_from)
            with pytest.raises(NotCanonical, match=r"again: _FILE: expected 'b\.parquet' added once, found twice"):
                list(history(PaimonTable(str(made))))

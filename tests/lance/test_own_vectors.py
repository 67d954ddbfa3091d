"""The committed vectors of pylance: bytes to rows, and rows to the same bytes. (Runs without pylance.)"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import each
from dvcodec import RowSet, Unsupported, lance

VECTORS = Path(__file__).parents[1] / "vectors" / "lance"


def entries(part: str, name: str) -> list[Any]:
    """All entries of a part of the manifests, as pytest parameters."""
    found = [
        pytest.param(manifest.parent, entry, id=f"{manifest.parent.name}/{entry[name]}")
        for manifest in sorted(VECTORS.glob("*/manifest.json"))
        for entry in json.loads(manifest.read_text())[part]
    ]
    assert found, f"no committed vectors in {VECTORS}"
    return found


def numbers(ranges: Iterable[tuple[int, int]]) -> list[int]:
    return [value for start, stop in ranges for value in range(start, stop)]


@each(("folder", "entry"), entries("sequences", "name"))
def test_sequences(folder: Path, entry: dict[str, Any]) -> None:
    ids, data = numbers(entry["ids"]), bytes.fromhex(entry["hex"])
    found = lance.decode_row_ids(data)
    assert found.to_numpy().tolist() == ids
    assert lance.RowIdSequence.from_values(ids) == found
    assert lance.encode_row_ids(lance.RowIdSequence.from_values(ids)) == data
    assert lance.encode_row_ids(lance.RowIdSequence(found.segments)) == data


def versions() -> list[Any]:
    return [
        pytest.param(case.values[0] / case.values[1]["name"], entry, id=f"{case.id}-{entry['version']}")
        for case in entries("datasets", "name")
        for entry in case.values[1]["versions"]
    ]


@each(("folder", "entry"), versions())
def test_versions_of_datasets(folder: Path, entry: dict[str, Any]) -> None:
    manifest = lance.read_manifest(lance.find_manifest(str(folder), entry["version"]))
    assert manifest.version == entry["version"]
    assert manifest.has_stable_row_ids is (entry["row_ids"] is not None)
    columns: dict[str, list[int]] = {"addresses": [], "row_ids": [], "created": [], "updated": []}
    parts = []
    spilled = bool(manifest.reader_flags & 2048)
    for fragment in manifest.fragments:
        deleted = fragment.deleted_rows(str(folder))
        live = np.ones(fragment.physical_rows, np.bool_)
        live[deleted.to_numpy()] = False
        columns["addresses"] += lance.row_addresses(fragment.id, np.flatnonzero(live)).tolist()
        if spilled:
            with pytest.raises(Unsupported, match=r"spilled to the column _rowid \(field id -3\) of data/"):
                fragment.row_id_sequence()
        elif manifest.has_stable_row_ids:
            sequence = fragment.row_id_sequence()
            parts.append(lance.FragmentIds(fragment.id, sequence, deleted, fragment.physical_rows))
            assert fragment.row_ids is not None
            assert lance.encode_row_ids(lance.RowIdSequence(sequence.segments)) == fragment.row_ids.inline
            for stored, runs in (
                (fragment.created_at, fragment.created_at_versions().runs),
                (fragment.last_updated_at, fragment.last_updated_at_versions().runs),
            ):
                assert stored is not None
                assert lance.encode_versions(lance.RowDatasetVersionSequence(runs)) == stored.inline
            columns["row_ids"] += sequence.to_numpy()[live].tolist()
            columns["created"] += fragment.created_at_versions().to_numpy()[live].tolist()
            columns["updated"] += fragment.last_updated_at_versions().to_numpy()[live].tolist()
    order = sorted(range(len(columns["addresses"])), key=columns["addresses"].__getitem__)
    assert [columns["addresses"][i] for i in order] == numbers(entry["addresses"])
    if parts:
        wanted = {
            "row_ids": numbers(entry["row_ids"]),
            "created": [value for count, value in entry["row_created_at_version"] for _ in range(count)],
            "updated": [value for count, value in entry["row_last_updated_at_version"] for _ in range(count)],
        }
        for name, values in wanted.items():
            assert [columns[name][i] for i in order] == values, name
        assert lance.check_row_ids(parts, next_row_id=manifest.next_row_id).ok


@each("path", sorted(VECTORS.glob("*/*/_deletions/*")), ids=lambda path: path.name)
def test_deletion_files(path: Path, tmp_path: Path) -> None:
    rows = lance.read_deletion_file(path)
    assert rows
    (tmp_path / "_deletions").mkdir()
    kind: Any = path.suffix[1:]
    again = lance.write_deletion_file(str(tmp_path), rows, fragment=0, read_version=1, kind=kind)
    data = Path(again.path(str(tmp_path))).read_bytes()
    assert lance.read_deletion_file(data, num_deleted_rows=len(rows)) == rows
    if kind == "bin":
        assert data == path.read_bytes()


@each(("folder", "entry"), entries("row_addresses", "file"))
def test_row_address_maps(folder: Path, entry: dict[str, Any]) -> None:
    data = (folder / entry["file"]).read_bytes()
    rows = RowSet.from_ranges(entry["rows"])
    found = lance.decode_row_addr_map(data)
    assert found.to_row_set() == rows
    assert lance.encode_row_addr_map(lance.RowAddrMap.from_row_set(rows)) == data

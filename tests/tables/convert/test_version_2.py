"""Deletes as position delete files, for tables of Iceberg's format version 2."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cli_runner import run
from dvcodec import RowSet, UsageError
from dvcodec.iceberg import read_position_deletes
from dvcodec.tables import convert_table, open_table
from samples.iceberg_table import Commit, build_iceberg
from samples.id_tables import MAKERS
from samples.memory_table import beside


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "entries.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("kind", ["iceberg", "delta", "paimon"])
def test_each_format(tmp_path: Path, kind: str) -> None:
    """One file for each data file with deleted rows, and its manifest entry."""
    MAKERS[kind](tmp_path / "t", 300, 100)
    table = open_table(tmp_path / "t")
    table.delete("id IN (1, 2, 40, 107)")
    out = beside(tmp_path) / "out"
    shown = run("convert-table", tmp_path / "t", "--to", "iceberg", "--version", "2", "-o", out)
    assert (shown.code, shown.err) == (0, "")
    assert "2 vectors, 4 deleted rows, 2 encoded" in shown.out
    found = sorted(lines(out), key=lambda line: -line["cardinality"])
    first, second, _ = sorted(file.location for file in table.snapshot().data_files)
    assert {Path(line["path"]) for line in found} == set(out.glob("*-deletes.parquet"))
    for line, location, rows in zip(found, (first, second), (RowSet([1, 2, 40]), RowSet([7])), strict=True):
        entry = line["manifest_entry"]
        assert read_position_deletes(entry["file_path"]) == {line["data_file"]: rows}
        assert (line["data_file"], entry["referenced_data_file"]) == (location, location)
        assert (entry["content"], entry["file_format"], entry["record_count"]) == (1, "PARQUET", rows.cardinality)
        assert entry["file_size_in_bytes"] == line["size"] == Path(line["path"]).stat().st_size
        lower = {pair["key"]: bytes.fromhex(pair["value"]) for pair in entry["lower_bounds"]}
        assert lower == {2147483546: location.encode(), 2147483545: struct.pack("<q", rows.min)}
        assert pq.read_schema(line["path"]).field("pos").metadata[b"PARQUET:field_id"] == b"2147483545"


def test_vectors_without_rows_and_position_deletes(tmp_path: Path) -> None:
    """Of a table of version 3 that has deletes of both kinds; a vector replaces position deletes of its file."""
    made = build_iceberg(
        tmp_path / "t",
        Commit(data={"a": 20, "b": 20}, vectors={"a": RowSet([1, 2])}),
        Commit(deletes=[{"b": RowSet([3])}]),
    )
    done = convert_table(open_table(made.folder), "iceberg", str(beside(tmp_path) / "out"), version=2)
    found = {vector.location.data_file: read_position_deletes(vector.location.path) for vector in done.vectors}
    assert found == {
        made.paths[name]: {made.paths[name]: rows} for name, rows in (("a", RowSet([1, 2])), ("b", RowSet([3])))
    }
    assert done.count(done.vectors[0].how) == len(done.files) == 2


def test_what_is_refused(tmp_path: Path) -> None:
    MAKERS["iceberg 2"](tmp_path / "t", 300, 100)
    table = open_table(tmp_path / "t")
    out = beside(tmp_path) / "out"
    assert convert_table(table, "iceberg", str(out / "none"), version=2).vectors == ()
    table.delete("id < 3")
    for arguments, why in (
        ({"to": "iceberg", "version": 2}, "position deletes already; compact-deletes merges them"),
        ({"to": "delta", "version": 2}, "it goes with iceberg, not with delta"),
        ({"to": "iceberg", "version": 1}, "format version 1: expected 2, for position deletes, or 3"),
        ({"to": "iceberg", "version": 2, "reference_in_place": True}, "vectors cannot be referenced in place"),
    ):
        with pytest.raises(UsageError, match=why):
            convert_table(table, folder=str(out / "some"), **arguments)  # type: ignore[arg-type]
    assert not (out / "some").exists()
    assert convert_table(table, "iceberg", str(out / "three"), version=3).rows == 3

"""Rows that equality deletes delete are neither live nor deleted again, and can be read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dvcodec import NotCanonical, RowSet, Unsupported
from dvcodec.core import avro
from dvcodec.core.cursor import Cursor
from dvcodec.core.json_text import parse_json
from dvcodec.tables import deleted_rows, live_batches, open_table, upgrade_deletes
from dvcodec.tables.deleting import delete
from dvcodec.tables.iceberg.rows import read_name_mapping, read_rows
from dvcodec.tables.model import PhysicalRows
from samples.iceberg_equality import by_id, craft_equality
from samples.iceberg_table import STEP, Commit, IcebergFiles, build_iceberg

KEYS = {4: by_id(0, STEP + 7, 2 * STEP, 3 * STEP + 1), 5: by_id(STEP + 8, 3 * STEP + 2, 4 * STEP)}
GONE = {0: [0, 1, 2], 1: [3, 4, 5, 7, 8], 2: [0], 3: [2], 4: []}
"""Deleted rows by the number of the data file: deletes do not apply to data files of their own commit or later ones."""


@pytest.fixture
def crafted(tmp_path: Path) -> IcebergFiles:
    return craft_equality(tmp_path / "t", KEYS)


def ids(crafted: IcebergFiles, **options: bool) -> list[int]:
    batches = live_batches(open_table(crafted.folder), **options)  # type: ignore[arg-type]
    return [number for batch in batches for number in batch["id"].to_pylist()]


def test_every_row_is_live_or_deleted(crafted: IcebergFiles) -> None:
    gone = {file * STEP + row for file, rows in GONE.items() for row in rows}
    counts = zip(range(5), (20, 20, 5, 10, 10), strict=True)
    stored = [file * STEP + row for file, count in counts for row in range(count)]
    assert ids(crafted) == [number for number in stored if number not in gone]
    assert ids(crafted, deleted=True) == sorted(gone)
    table = open_table(crafted.folder)
    assert [deleted_rows(table, path) for path in crafted.paths.values()] == [RowSet(rows) for rows in GONE.values()]


def test_other_columns_are_read_without_the_keys(crafted: IcebergFiles) -> None:
    table = open_table(crafted.folder)
    rows = pa.Table.from_batches(live_batches(table, columns=["name"]))
    assert rows.column_names == ["name"]
    assert rows["name"] == pa.Table.from_batches(live_batches(table))["name"]


def test_an_older_snapshot_has_fewer(crafted: IcebergFiles) -> None:
    found = pa.Table.from_batches(live_batches(open_table(crafted.folder), snapshot_id=104))
    assert STEP + 7 not in found["id"].to_pylist()
    assert STEP + 8 in found["id"].to_pylist()


def test_a_delete_counts_rows_once(crafted: IcebergFiles) -> None:
    """Rows 7 and 8 of the second file are not live: the condition deletes 6 and 9."""
    table = open_table(crafted.folder)
    before = ids(crafted)
    done = delete(table, pc.field("id").isin([STEP + row for row in (6, 7, 8, 9)]))
    assert done.rows == 2
    assert ids(crafted) == [number for number in before if number not in (STEP + 6, STEP + 9)]


def test_what_only_equality_deletes_deleted_is_not_deleted_again(crafted: IcebergFiles) -> None:
    done = delete(open_table(crafted.folder), pc.field("id") == STEP + 7)
    assert (done.rows, done.committed) == (0, False)


@pytest.mark.parametrize(
    ("column", "error", "why"),
    [
        ((9,), Unsupported, "expected columns, found field 9"),
        ((), NotCanonical, "equality_ids: expected at least one column, found none"),
    ],
)
def test_keys_that_cannot_be_compared(
    tmp_path: Path, column: tuple[int, ...], error: type[Exception], why: str
) -> None:
    crafted = craft_equality(tmp_path / "t", {4: by_id(0)}, ids=column)
    with pytest.raises(error, match=why):
        ids(crafted)


@pytest.mark.parametrize("column", [(1, 1), (2, 1), (1, 2, 1)])
def test_columns_are_a_set(tmp_path: Path, column: tuple[int, ...]) -> None:
    """Writers order them as they like, and Java reads them into a set."""
    keys = by_id(0, STEP + 7)
    if 2 in column:
        names = pa.field("name", pa.string(), metadata={"PARQUET:field_id": "2"})
        keys = keys.append_column(names, pa.array(["row 0", "another"]))
    crafted = craft_equality(tmp_path / "t", {4: keys}, ids=column)
    assert (0 in ids(crafted), STEP + 7 in ids(crafted)) == (False, 2 in column)


def test_columns_of_one_name_in_two_schemas_are_two(tmp_path: Path) -> None:
    """A column was dropped, and another one has its name: the deletes are older than that."""
    crafted = craft_equality(tmp_path / "t", {4: by_id(0, STEP + 7)}, ids=(1, 3))
    metadata = crafted.folder / "metadata/v1.metadata.json"
    text = json.loads(metadata.read_text())
    (schema,) = text["schemas"]
    later = {"id": 3, "name": "id", "required": False, "type": "string"}
    text["schemas"].append(schema | {"schema-id": 1, "fields": [later, *schema["fields"][1:]]})
    metadata.write_text(json.dumps(text | {"current-schema-id": 1}))
    path = crafted.paths["a"]
    assert deleted_rows(open_table(crafted.folder), path) == RowSet([0, 1, 2])  # of the others, two are positions


def relisted(crafted: IcebergFiles, groups: Iterable[Sequence[int]]) -> None:
    """List the equality deletes of the last commit again, with other columns each time."""
    manifest = max((crafted.folder / "metadata").glob("manifest-*-1.avro"))
    file = avro.decode(Cursor(manifest.read_bytes()))
    *others, entry = file.records()
    assert entry["data_file"]["content"] == 2
    entries = [entry | {"data_file": entry["data_file"] | {"equality_ids": list(one)}} for one in groups]
    manifest.write_bytes(avro.encode(file.schema, [*others, *entries], validate=False))


def test_a_file_that_is_listed_in_any_order_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns are compared once, and so is each data file read once, however often the metadata says so."""
    crafted = craft_equality(tmp_path / "t", {4: by_id(0, 3)})
    path = crafted.paths["a"]
    expected = deleted_rows(open_table(crafted.folder), path)
    relisted(crafted, ([1] * (1 + i % 5) for i in range(1000)))
    opened: list[str] = []

    def counting(location: str, *args: object, **options: Any) -> Iterator[PhysicalRows]:
        opened.append(location.rpartition("/")[2])
        return read_rows(location, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("dvcodec.tables.iceberg.deletes.read_rows", counting)
    assert deleted_rows(open_table(crafted.folder), path) == expected
    assert opened == ["equality-4.parquet", "a"]


def test_deletes_of_other_columns_read_a_data_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = by_id(0, 3).append_column(
        pa.field("name", pa.string(), metadata={"PARQUET:field_id": "2"}), pa.array(["row 1", "row 7"])
    )
    crafted = craft_equality(tmp_path / "t", {4: keys})
    relisted(crafted, [[1], [2], [2, 1]])
    opened: list[str] = []

    def counting(location: str, *args: object, **options: Any) -> Iterator[PhysicalRows]:
        opened.append(location.rpartition("/")[2])
        return read_rows(location, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("dvcodec.tables.iceberg.deletes.read_rows", counting)
    found = deleted_rows(open_table(crafted.folder), crafted.paths["a"])
    assert found == RowSet([0, 3, 1, 7, 2])  # by id, by name, and by its vector
    assert opened.count("a") == 1


def test_the_name_mapping_is_parsed_once(tmp_path: Path) -> None:
    """It may have thousands of names, and equality deletes apply to all data files."""
    properties = {"schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}]'}
    commits = Commit(data={str(i): 1 for i in range(5)}), Commit(equality=True)
    files = build_iceberg(tmp_path, *commits, properties=properties, parquet=False)
    for name, value in {"equality-2.parquet": 3, **{str(i): i for i in range(5)}}.items():
        pq.write_table(pa.table({"id": pa.array([value], pa.int64())}), Path(files.folder) / "data" / name)
    with (
        patch("dvcodec.tables.iceberg.snapshot.read_name_mapping", autospec=True, side_effect=read_name_mapping) as one,
        patch("dvcodec.tables.iceberg.rows.parse_json", autospec=True, side_effect=parse_json) as parsed,
    ):
        assert ids(files, deleted=True) == [3]
    assert (one.call_count, parsed.call_count) == (1, 1)


def test_encrypted_equality_deletes_are_refused(tmp_path: Path) -> None:
    crafted = craft_equality(tmp_path / "t", {4: by_id(0)}, key_metadata=b"k")
    table = open_table(crafted.folder)
    why = r"equality-4\.parquet: file: expected no encryption, found key_metadata"
    with pytest.raises(Unsupported, match=why):
        deleted_rows(table, crafted.paths["a"])
    with pytest.raises(Unsupported, match=why):
        list(live_batches(table))
    with pytest.raises(Unsupported, match=why):
        upgrade_deletes(table)
    with pytest.raises(Unsupported, match=why):
        delete(table, pc.field("id") == 1)

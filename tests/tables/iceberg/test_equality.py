"""Rows that equality deletes delete are neither live nor deleted again, and can be read."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dvcodec import NotCanonical, RowSet, Unsupported
from dvcodec.tables import deleted_rows, live_batches, open_table, upgrade_deletes
from dvcodec.tables.deleting import delete
from samples.iceberg_equality import by_id, craft_equality
from samples.iceberg_table import STEP, IcebergFiles

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


def test_a_delete_counts_rows_once(crafted: IcebergFiles) -> None:
    """Rows 7 and 8 of the second file are not live: the condition deletes 6 and 9."""
    table = open_table(crafted.folder)
    before = ids(crafted)
    done = delete(table, pc.field("id").isin([STEP + row for row in (6, 7, 8, 9)]))
    assert done.rows == 2
    assert ids(crafted) == [number for number in before if number not in (STEP + 6, STEP + 9)]


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

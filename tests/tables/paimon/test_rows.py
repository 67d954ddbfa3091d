"""Rows of data files by physical position, in the schema of a state."""

from __future__ import annotations

from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dvcodec import NotCanonical, Unsupported, UsageError
from dvcodec.core import avro
from dvcodec.tables import PhysicalRows, Snapshot
from dvcodec.tables.paimon import PaimonTable
from dvcodec.tables.paimon.metadata import SchemaField, read_column
from dvcodec.tables.paimon.rows import Visible, _keep, partition_scalar
from samples.paimon_table import PaimonFile, build_paimon

COLUMNS = [(0, "id", "BIGINT NOT NULL"), (1, "name", "STRING")]
ROWS = pa.table({"id": range(250), "name": [f"row {i}" for i in range(250)]})


def read(
    path: Path, *, number: int = 0, columns: list[str] | None = None, batch_rows: int = 1 << 16
) -> tuple[PaimonTable, Snapshot, list[PhysicalRows]]:
    table = PaimonTable(str(path))
    snapshot = table.snapshot()
    rows = snapshot.rows(snapshot.data_files[number], columns=columns, batch_rows=batch_rows)
    return table, snapshot, list(rows)


def values(path: Path, **given: Any) -> list[dict[str, Any]]:
    return [row for part in read(path, **given)[2] for row in part.batch.to_pylist()]


def keyed(rows: int = 4, kinds: list[int] | None = None) -> pa.Table:
    return pa.table(
        {
            "_KEY_id": pa.array(range(rows), pa.int64()),
            "_SEQUENCE_NUMBER": pa.array(range(rows), pa.int64()),
            "_VALUE_KIND": pa.array([0, 1, 2, 3] if kinds is None else kinds, pa.int8()),
            "id": pa.array(range(rows), pa.int64()),
            "name": ["x"] * rows,
        }
    )


@pytest.mark.parametrize("name", ["f.parquet", "f.orc"])
def test_rows_come_in_physical_order_without_gaps(tmp_path: Path, name: str) -> None:
    path = build_paimon(tmp_path / "t", COLUMNS, [[PaimonFile(name, ROWS)]])
    _, snapshot, parts = read(path, batch_rows=70)
    assert sum(part.batch.num_rows for part in parts) == 250
    at = 0
    for part in parts:
        assert part.start == at
        assert part.batch.num_rows <= 70
        assert part.batch.schema == snapshot.schema()
        assert part.batch["id"].to_pylist() == list(range(at, at + part.batch.num_rows))
        assert part.keep is None
        at += part.batch.num_rows
    assert snapshot.schema() == pa.schema([pa.field("id", pa.int64(), False), ("name", pa.string())])


@pytest.mark.parametrize("name", ["f.parquet", "f.orc"])
def test_columns_are_given_in_the_order_asked_for(tmp_path: Path, name: str) -> None:
    path = build_paimon(tmp_path / "t", COLUMNS, [[PaimonFile(name, ROWS)]])
    assert values(path, columns=["name", "id"])[7] == {"name": "row 7", "id": 7}
    assert values(path, columns=["name"])[249] == {"name": "row 249"}
    parts = read(path, columns=[])[2]
    assert [part.batch.num_columns for part in parts] == [0] * len(parts)
    assert sum(part.batch.num_rows for part in parts) == 250
    with pytest.raises(UsageError, match="no column 'nome': it has id, name"):
        read(path, columns=["nome"])


def test_columns_are_matched_by_id_through_renames_additions_and_drops(tmp_path: Path) -> None:
    before = [(0, "id", "INT"), (1, "name", "STRING"), (2, "gone", "INT")]
    after = [(3, "name", "DATE"), (1, "title", "STRING"), (0, "id", "BIGINT")]
    old = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", None], "gone": pa.array([7, 8], pa.int32())})
    new = pa.table({"name": [date(2024, 1, 2)], "title": ["c"], "id": pa.array([3])})
    files = [PaimonFile("old.parquet", old), PaimonFile("new.parquet", new, schema_id=1)]
    path = build_paimon(tmp_path / "t", [before, after], [files[:1], files])
    assert values(path) == [{"name": None, "title": "a", "id": 1}, {"name": None, "title": None, "id": 2}]
    assert values(path, number=1) == [{"name": date(2024, 1, 2), "title": "c", "id": 3}]
    table = PaimonTable(str(path))
    first = table.snapshot(1)
    assert first.schema().names == ["id", "name", "gone"]
    (part,) = first.rows(first.data_files[0])
    assert part.batch.to_pylist()[0] == {"id": 1, "name": "a", "gone": 7}


def test_change_of_a_type_that_loses_is_named(tmp_path: Path) -> None:
    old = pa.table({"id": pa.array([1])})
    files = [PaimonFile("old.parquet", old), PaimonFile("new.parquet", old, schema_id=1)]
    path = build_paimon(tmp_path / "t", [[(0, "id", "BIGINT")], [(0, "id", "INT")]], [files])
    with pytest.raises(Unsupported, match=r"old\.parquet: column id: expected a type that INT holds"):
        read(path)


def test_partition_columns_are_those_of_the_partition(tmp_path: Path) -> None:
    kinds = [
        (0, "id", "INT"),
        (1, "day", "DATE"),
        (2, "at", "TIMESTAMP(6)"),
        (3, "p", "STRING"),
        (4, "d", "DECIMAL(20, 2)"),
    ]
    rows = pa.table({"id": pa.array([1, 2], pa.int32())})  # as from a Hive table: without the partition's columns
    file = PaimonFile(
        "f.parquet",
        rows,
        partition=(19000, 1_700_000_000_123_456_000, None, Decimal("12.50")),
        folder="day=19000/at=2023-11-14T22%3A13%3A20.123456/p=__DEFAULT_PARTITION__/d=12.50",
    )
    path = build_paimon(tmp_path / "t", kinds, [[file]], partition_keys=["day", "at", "p", "d"])
    moment = datetime(2023, 11, 14, 22, 13, 20, 123456)  # noqa: DTZ001
    partition = {"day": date(2022, 1, 8), "at": moment, "p": None, "d": Decimal("12.50")}
    assert values(path) == [{"id": 1} | partition, {"id": 2} | partition]
    assert read(path)[1].data_files[0].partition == "day=2022-01-08/at=2023-11-14 22:13:20.123456/p=null/d=12.50"


def test_records_that_are_rows_are_kept(tmp_path: Path) -> None:
    files = [PaimonFile("new.parquet", keyed()), PaimonFile("f.parquet", keyed(), level=5)]
    path = build_paimon(tmp_path / "t", COLUMNS, [files], primary_keys=["id"])
    _, _, parts = read(path, number=1, columns=["name"])
    assert [part.keep.to_pylist() for part in parts if part.keep is not None] == [[True, False, True, False]]
    assert parts[0].batch.schema.names == ["name"]
    _, _, parts = read(path)  # level 0: not seen until it is compacted
    assert [part.keep.to_pylist() for part in parts if part.keep is not None] == [[False] * 4]


def test_columns_and_fields_that_are_never_null(tmp_path: Path) -> None:
    """Records of deleted rows may have nulls in them, and so may structs that are null."""
    row = {"type": "ROW", "fields": [{"id": 5, "name": "x", "type": "INT NOT NULL"}]}
    columns = [(0, "id", "BIGINT NOT NULL"), (1, "name", "STRING NOT NULL"), (2, "r", row), (3, "v", "VARIANT")]
    for names, kinds in ((["a", None, "c", None], [0, 1, 2, 3]), (["a", "b", "c", None], [0, 0, 0, 0])):
        rows = keyed(kinds=kinds).set_column(4, "name", pa.array(names))
        files = [PaimonFile("f.parquet", rows, level=5)]
        path = build_paimon(tmp_path / f"{kinds}", columns, [files], primary_keys=["id"])
        if kinds[-1]:
            (part,) = read(path)[2]
            assert part.keep is not None
            found = part.batch.filter(part.keep).to_pylist()
            assert found == [{"id": i, "name": name, "r": None, "v": None} for i, name in ((0, "a"), (2, "c"))]
        else:
            with pytest.raises(
                NotCanonical, match=r"f\.parquet: column name: expected no nulls, found 1 from row 0 on"
            ):
                read(path)
    bad = pa.table({"id": [1], "name": ["a"], "r": pa.array([{"x": None}], pa.struct([("x", pa.int32())]))})
    with pytest.raises(NotCanonical, match=r"column r\.x: expected no nulls, found 1 from row 0 on"):
        read(build_paimon(tmp_path / "bad", columns, [[PaimonFile("f.parquet", bad)]]))


def test_records_that_have_to_be_merged_are_not_rows_yet(tmp_path: Path) -> None:
    files = [PaimonFile("new.parquet", keyed()), PaimonFile("f.parquet", keyed(), level=5)]
    path = build_paimon(
        tmp_path / "t", COLUMNS, [files], primary_keys=["id"], options={"deletion-vectors.enabled": "false"}
    )
    with pytest.raises(Unsupported, match=r"new\.parquet: rows of the data file: its records have to be merged by key"):
        read(path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (keyed(kinds=[0, 4, 0, 0]), "column _VALUE_KIND: expected 0 to 3, found 4"),
        (keyed(kinds=[0, None, 0, 0]), "column _VALUE_KIND: expected 0 to 3, found None"),  # type: ignore[list-item]
        (keyed().drop_columns(["_VALUE_KIND"]), "column: expected _VALUE_KIND, found no such column"),
    ],
)
def test_file_of_records_that_is_corrupt(tmp_path: Path, rows: pa.Table, message: str) -> None:
    path = build_paimon(tmp_path / "t", COLUMNS, [[PaimonFile("f.parquet", rows, level=5)]], primary_keys=["id"])
    with pytest.raises(NotCanonical, match=message):
        read(path)


def test_file_of_no_records(tmp_path: Path) -> None:
    path = build_paimon(
        tmp_path / "t", COLUMNS, [[PaimonFile("f.parquet", keyed(0, []), level=5)]], primary_keys=["id"]
    )
    assert values(path) == []
    no_rows = pa.record_batch([pa.array([], pa.int8())], names=["_VALUE_KIND"])
    assert _keep(Visible.KINDS, no_rows, "f") == pa.array([], pa.bool_())


@pytest.mark.parametrize("name", ["f.parquet", "f.orc"])
def test_file_with_other_rows_than_the_metadata_says(tmp_path: Path, name: str) -> None:
    path = build_paimon(tmp_path / "t", COLUMNS, [[PaimonFile(name, ROWS, more={"_ROW_COUNT": 249})]])
    with pytest.raises(NotCanonical, match=rf"{name}: rows of the data file: expected 249 \(metadata\), found 250"):
        read(path)


def test_format_that_is_not_read_is_named(tmp_path: Path) -> None:
    build_paimon(tmp_path / "t", COLUMNS, [[PaimonFile("data-1.csv", b"1,x", more={"_ROW_COUNT": 1})]])
    with pytest.raises(Unsupported, match=r"data-1\.csv: file format: expected parquet or orc or avro, found csv"):
        read(tmp_path / "t")


_AVRO_ROW = {"type": "record", "name": "r_row", "fields": [{"name": "x", "type": ["null", "int"]}]}
_AVRO_ENTRY = {
    "type": "record",
    "name": "r_map",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": ["null", "string"]}],
}
AVRO: list[tuple[Any, Any, Any, Any]] = [
    ("INT", "int", 5, 5),
    ("TINYINT", "int", -5, -5),
    ("FLOAT", "float", 0.5, 0.5),
    ("BYTES", "bytes", b"\0", b"\0"),
    ("DATE", {"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
    ("TIME(3)", {"type": "int", "logicalType": "time-millis"}, 5, time(microsecond=5000)),
    (
        "TIMESTAMP(3)",
        {"type": "long", "logicalType": "timestamp-millis"},
        -1,
        datetime.fromisoformat("1969-12-31T23:59:59.999000"),
    ),
    (
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        {"type": "long", "logicalType": "local-timestamp-micros"},
        7,
        datetime(1970, 1, 1, 0, 0, 0, 7, timezone.utc),
    ),
    (
        "DECIMAL(9, 2)",
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        b"\xff",
        Decimal("-0.01"),
    ),
    ({"type": "ARRAY", "element": "INT"}, {"type": "array", "items": ["null", "int"]}, [1, None], [1, None]),
    (
        {"type": "MAP", "key": "STRING", "value": "INT"},
        {"type": "map", "values": ["null", "int"]},
        {"k": 1},
        [("k", 1)],
    ),
    (
        {"type": "MAP", "key": "INT", "value": "STRING"},
        {"type": "array", "items": _AVRO_ENTRY, "logicalType": "map"},
        [{"key": 1, "value": None}],
        [(1, None)],
    ),
    ({"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "INT"}]}, _AVRO_ROW, {"x": 3}, {"x": 3}),
]
"""Type of a column, its type in Avro as ``AvroSchemaConverter`` has it, a value as stored, and what it means."""


def test_avro(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(len(AVRO))]
    fields = [{"name": name, "type": ["null", kind]} for name, (_, kind, *_) in zip(names, AVRO, strict=True)]
    records = [dict(zip(names, (stored for *_, stored, _ in AVRO), strict=True)), dict.fromkeys(names)]
    data = avro.encode({"type": "record", "name": "r", "fields": fields}, records)
    columns = [(i, name, kind) for i, (name, (kind, *_)) in enumerate(zip(names, AVRO, strict=True))]
    build_paimon(tmp_path / "t", columns, [[PaimonFile("f.avro", data, more={"_ROW_COUNT": 2})]])
    meant = dict(zip(names, (value for *_, value in AVRO), strict=True))
    assert values(tmp_path / "t") == [meant, dict.fromkeys(names)]
    assert [part.start for part in read(tmp_path / "t", columns=["c3"], batch_rows=1)[2]] == [0, 1]


def test_type_that_is_not_known_hides_no_other_column(tmp_path: Path) -> None:
    path = build_paimon(
        tmp_path / "t", [(0, "id", "BIGINT"), (1, "name", "GEOMETRY")], [[PaimonFile("f.parquet", ROWS, [1])]]
    )
    _, snapshot, parts = read(path, columns=["id"])
    assert sum(part.batch.num_rows for part in parts) == 250
    assert len(snapshot.vectors) == 1
    with pytest.raises(Unsupported, match="schema/schema-0: type of column name"):
        snapshot.schema()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("DECIMAL(5, 2)", Decimal(2**62).scaleb(-2)),
        ("DECIMAL(38, 0)", Decimal(2**127 - 1)),
        ("TIMESTAMP(9)", 250_000_000_000_000 * 1_000_000),
    ],
)
def test_partition_values_that_their_type_has_not(kind: str, value: Any) -> None:
    column = read_column(SchemaField(0, "p", kind), "/t/schema/schema-0")
    with pytest.raises(NotCanonical, match=r"^/t/f: partition value of column 'p': expected "):
        partition_scalar(value, column, "/t/f")

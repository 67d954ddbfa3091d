"""Rows of data files: types, values in a later schema, and which records are rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cases import each
from dvcodec import NotCanonical, Unsupported
from dvcodec.core import avro
from dvcodec.tables import PhysicalRows, Snapshot
from dvcodec.tables.paimon import PaimonTable
from dvcodec.tables.paimon.manifests import DataFileMeta, Entries, ManifestEntry, identity_of
from dvcodec.tables.paimon.metadata import (
    DataType,
    Field,
    PaimonEvolution,
    SchemaField,
    TableSchema,
    parse_type,
    read_column,
    to_column,
)
from dvcodec.tables.paimon.rows import Visible, _keep, partition_scalar, visible_records
from dvcodec.tables.rows.columns import Column
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
    assert snapshot.schema() == pa.schema([pa.field("id", pa.int64(), False), ("name", pa.string())])
    assert all(part.batch.schema == snapshot.schema() for part in parts)
    assert max(part.batch.num_rows for part in parts) <= 70
    assert [part.keep for part in parts] == [None] * len(parts)
    assert [part.batch["id"][0].as_py() for part in parts] == [part.start for part in parts]
    assert [row for part in parts for row in part.batch["id"].to_pylist()] == list(range(250))


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


def test_columns_that_were_not_written_are_null(tmp_path: Path) -> None:
    """Whatever the file has under their names."""
    file = PaimonFile("f.parquet", ROWS, more={"_WRITE_COLS": ["id"]})
    assert values(build_paimon(tmp_path / "t", COLUMNS, [[file]]))[7] == {"id": 7, "name": None}


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


def test_records_that_are_not_rows_may_have_nulls(tmp_path: Path) -> None:
    columns = [COLUMNS[0], (1, "name", "STRING NOT NULL")]
    rows = keyed().set_column(4, "name", pa.array(["a", None, "c", None]))
    path = build_paimon(tmp_path / "t", columns, [[PaimonFile("f.parquet", rows, level=5)]], primary_keys=["id"])
    (part,) = read(path)[2]
    assert part.keep is not None
    assert part.batch.filter(part.keep).to_pylist() == [{"id": 0, "name": "a"}, {"id": 2, "name": "c"}]


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


def test_batch_of_no_records() -> None:
    no_rows = pa.record_batch([pa.array([], pa.int8())], names=["_VALUE_KIND"])
    assert _keep(Visible.KINDS, no_rows, "f") == pa.array([], pa.bool_())


def test_file_with_other_rows_than_the_metadata_says(tmp_path: Path) -> None:
    path = build_paimon(tmp_path / "t", COLUMNS, [[PaimonFile("f.parquet", ROWS, more={"_ROW_COUNT": 249})]])
    with pytest.raises(NotCanonical, match=r"f.parquet: rows of the data file: expected 249 \(metadata\), found 250"):
        read(path)


_AVRO_ROW = {"type": "record", "name": "r_row", "fields": [{"name": "x", "type": ["null", "int"]}]}
_AVRO_ENTRY = {
    "type": "record",
    "name": "r_map",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": ["null", "string"]}],
}
AVRO: list[tuple[Any, Any, Any, Any]] = [
    ("INT", "int", 5, 5),
    ("TINYINT", "int", -5, -5),
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


# -------------------------------------------------- values in a later schema: by field id, cast where nothing is lost


def column(raw: Any) -> Column:
    return to_column(Field(1, "c", parse_type(raw, source="s", what="c")))


def evolve(array: pa.Array, old: Any, new: Any) -> pa.Array:
    return PaimonEvolution("f.parquet", [], []).convert(array, column(old), column(new), "column c")


def row(*fields: tuple[int, str, Any]) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"id": i, "name": name, "type": inner} for i, name, inner in fields]}


def run(values: list[Any], old: Any, new: Any) -> pa.Array:
    array = pa.array(values, column(old).type)
    found = evolve(array, old, new)
    assert found.type == column(new).type
    # A part of a batch is the same part of the result.
    part = evolve(array.slice(1), old, new)
    assert part.to_pylist() == found.to_pylist()[1:]
    found.validate(full=True)
    return found


@each(
    ("old", "new", "values", "expected"),
    [
        ("INT NOT NULL", "INT", [1, 2], [1, 2]),
        ("INT", "BIGINT", [1, None, -(2**31)], [1, None, -(2**31)]),
        ("TINYINT", "DECIMAL(5, 2)", [1, -128], [Decimal("1.00"), Decimal("-128.00")]),
        ("INT", "DOUBLE", [2**31 - 1, None], [2.0**31 - 1, None]),
        ("SMALLINT", "FLOAT", [3, 4], [3.0, 4.0]),
        ("FLOAT", "DOUBLE", [0.5, None], [0.5, None]),
        ("BIGINT", "STRING", [-5, None], ["-5", None]),
        ("DECIMAL(5, 2)", "DECIMAL(10, 4)", [Decimal("1.25"), None], [Decimal("1.2500"), None]),
        ("DECIMAL(5, 2)", "DECIMAL(7, 4)", [Decimal("999.25"), None], [Decimal("999.2500"), None]),
        ("CHAR(3)", "VARCHAR(3)", ["ab", "c"], ["ab", "c"]),
        ("VARBINARY(3)", "BYTES", [b"ab", None], [b"ab", None]),
        ("TIMESTAMP(3)", "TIMESTAMP(9)", [datetime(2024, 1, 2), None], [datetime(2024, 1, 2), None]),  # noqa: DTZ001
        (
            row((1, "a", "INT"), (2, "b", "STRING")),
            row((2, "renamed", "STRING"), (3, "added", "DATE"), (1, "a", "BIGINT")),
            [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}],
            [{"renamed": "x", "added": None, "a": 1}, None, {"renamed": "y", "added": None, "a": None}],
        ),
        (
            {"type": "ARRAY", "element": row((1, "a", "INT"))},
            {"type": "ARRAY", "element": row((1, "z", "BIGINT"))},
            [[{"a": 1}, None], None, [], [{"a": 2}]],
            [[{"z": 1}, None], None, [], [{"z": 2}]],
        ),
        (
            {"type": "MAP", "key": "STRING", "value": "INT NOT NULL"},
            {"type": "MAP", "key": "STRING", "value": "INT"},
            [{"k": 1}, None],
            [[("k", 1)], None],
        ),
    ],
)
def test_values_are_kept(old: Any, new: Any, values: list[Any], expected: list[Any]) -> None:
    assert run(values, old, new).to_pylist() == expected


@each(
    ("old", "new"),
    [
        ("BIGINT", "INT"),
        ("BIGINT", "DOUBLE"),
        ("INT", "FLOAT"),
        ("INT", "DECIMAL(9, 0)"),
        ("INT", "VARCHAR(5)"),
        ("STRING", "INT"),
        ("STRING", "VARCHAR(3)"),
        ("STRING", "BYTES"),
        ("DECIMAL(10, 4)", "DECIMAL(10, 2)"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 4)"),
        ("TIMESTAMP(9)", "TIMESTAMP(3)"),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"),
        ("DATE", "TIMESTAMP(3)"),
        ({"type": "MAP", "key": "STRING", "value": "INT"}, {"type": "MAP", "key": "STRING", "value": "BIGINT"}),
        (row((1, "a", "BIGINT")), row((1, "a", "INT"))),
    ],
)
def test_change_that_may_lose_is_named(old: Any, new: Any) -> None:
    with pytest.raises(Unsupported, match=r"f\.parquet: column c.*: expected a type that .* holds unchanged, found"):
        run([], old, new)


def test_value_that_a_later_type_does_not_hold_is_named() -> None:
    with pytest.raises(Unsupported, match=r"column c: expected values of timestamp\[ns\]"):
        run([datetime(9999, 1, 1)], "TIMESTAMP(3)", "TIMESTAMP(9)")  # noqa: DTZ001


@each(
    ("array", "raw"),
    [
        (pa.array([1], pa.int32()), "TINYINT"),
        (pa.array([0], pa.timestamp("us")), "TIMESTAMP(3)"),
        (pa.array([0], pa.timestamp("us")), "TIMESTAMP_LTZ(6)"),
        (pa.array([0], pa.time64("us")), "TIME(0)"),
        (pa.array([0], pa.int32()), "TIME(3)"),
        (pa.array(["x"], pa.string_view()), "STRING"),
        (pa.array([b"abc"], pa.binary(3)), "BINARY(3)"),
        (pa.array([Decimal("1.5")], pa.decimal128(9, 1)), "DECIMAL(10, 2)"),
        (pa.array([[1.0, 2.0]], pa.list_(pa.float32())), {"type": "VECTOR", "length": 2, "element": "FLOAT"}),
        (pa.array([{"x": 1}], pa.struct([("x", pa.int64())])), row((0, "x", "INT"))),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), {"type": "MULTISET", "element": "STRING"}),
    ],
)
def test_other_ways_to_store_a_type_are_read(array: pa.Array, raw: Any) -> None:
    assert evolve(array, raw, raw).type == column(raw).type


@each(
    ("array", "raw"),
    [
        (pa.array([1]), "STRING"),
        (pa.array(["1"]), "INT"),
        (pa.array([1.0]), "INT"),
        (pa.array([1]), "DATE"),
        (pa.array([{"y": 1}]), row((0, "x", "INT"))),
        (pa.array([[1.0]], pa.list_(pa.float32())), {"type": "VECTOR", "length": 2, "element": "FLOAT"}),
    ],
)
def test_file_that_stores_something_else_is_named(array: pa.Array, raw: Any) -> None:
    with pytest.raises(Unsupported, match=r"f\.parquet: column c.*: expected values of"):
        evolve(array, raw, raw)


# ------------------------------------------------------------- types as schemas spell them, and what Arrow holds them


def parsed(raw: Any) -> DataType:
    return parse_type(raw, source="schema-0", what="column c")


@each(
    ("raw", "arrow"),
    [
        ("TINYINT NOT NULL", pa.int8()),
        ("INTEGER NULL", pa.int32()),
        ("DOUBLE PRECISION", pa.float64()),
        ("DECIMAL", pa.decimal128(10, 0)),
        ("DECIMAL(38)", pa.decimal128(38, 0)),
        ("DECIMAL(1)", pa.decimal128(1, 0)),
        ("NUMERIC(5, 2) NOT NULL", pa.decimal128(5, 2)),
        ("TIME WITHOUT TIME ZONE", pa.time32("ms")),
        ("TIMESTAMP(0)", pa.timestamp("ms")),
        ("TIMESTAMP", pa.timestamp("us")),
        ("TIMESTAMP(9) WITHOUT TIME ZONE NOT NULL", pa.timestamp("ns")),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", pa.timestamp("ms", tz="UTC")),
        ("TIMESTAMP_LTZ(6)", pa.timestamp("us", tz="UTC")),
        ("CHAR(3)", pa.string()),
        ("BINARY(3)", pa.binary()),
        ("BLOB", pa.large_binary()),
        ("VARIANT", pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)])),
        ({"type": "ARRAY NOT NULL", "element": "INT NOT NULL"}, pa.list_(pa.field("element", pa.int32(), False))),
        ({"type": "MAP", "key": "STRING", "value": "DATE"}, pa.map_(pa.string(), pa.date32())),
        ({"type": "MULTISET", "element": "STRING"}, pa.map_(pa.string(), pa.field("value", pa.int32(), False))),
        ({"type": "VECTOR", "length": 3, "element": "FLOAT"}, pa.list_(pa.field("element", pa.float32()), 3)),
        (
            {"type": "ROW", "fields": [{"id": 4, "name": "x", "type": {"type": "ARRAY", "element": "DATE"}}]},
            pa.struct([pa.field("x", pa.list_(pa.field("element", pa.date32())))]),
        ),
    ],
)
def test_spellings_of_types(raw: Any, arrow: pa.DataType) -> None:
    assert to_column(Field(-1, "", parsed(raw))).type == arrow


def test_parameters_ids_and_nulls_are_kept() -> None:
    assert (parsed("STRING").length, parsed("VARCHAR").length, parsed("CHAR(7)").length) == (2**31 - 1, 1, 7)
    assert (parsed("DECIMAL(5, 2)").text, parsed("TIMESTAMP_LTZ(3)").text) == ("DECIMAL(5, 2)", "TIMESTAMP_LTZ(3)")
    row = parsed({"type": "ROW NOT NULL", "fields": [{"id": 9, "name": "x", "type": "INT NOT NULL"}]})
    assert (row.nullable, row.children[0].id, row.children[0].type.nullable, row.text) == (False, 9, False, "ROW<INT>")


@each(
    "raw",
    [
        "GEOMETRY",
        "int",
        "INT(",
        "STRING WITH LOCAL TIME ZONE",
        "",
        {"type": "ROW"},
        {"type": "VECTOR", "element": "INT"},
    ],
)
def test_type_that_is_not_known_is_named(raw: Any) -> None:
    with pytest.raises(Unsupported, match="schema-0: type of column c: expected a type that is known here"):
        parsed(raw)


@each(
    "raw",
    [
        None,
        1,
        {"type": "ARRAY"},
        {"type": "ROW", "fields": [{"name": "x", "type": "INT"}]},
        {"type": "ROW", "fields": [{"id": 1, "name": "x\udc00", "type": "INT"}]},
        "DECIMAL(39, 0)",
        "DECIMAL(3, 4)",
        "DECIMAL(0, 0)",
        "TIMESTAMP(10)",
        "INT(3)",
    ],
)
def test_invalid_type_is_refused(raw: Any) -> None:
    with pytest.raises(NotCanonical, match="schema-0: type of column c"):
        parsed(raw)


def test_types_in_one_another_without_end_are_refused() -> None:
    raw: Any = "INT"
    for _ in range(64):
        raw = row((1, "x", raw))
    assert parsed(raw).root == "ROW"
    for _ in range(200):
        raw = {"type": "ARRAY", "element": raw}
    with pytest.raises(Unsupported, match="at most 64 nested types"):
        parsed(raw)


# -------------------------------------------- which records of a data file are rows: Java's decision for a batch read


DV = {"deletion-vectors.enabled": "true"}
APPEND: tuple[str, ...] = ()
KEYED = ("id",)


def file(name: str, level: int = 0, bucket: int = 0, **more: Any) -> DataFileMeta:
    return DataFileMeta(b"", bucket, name, 99, 10, 0, level, **more)


def visible_of(keys: tuple[str, ...], options: dict[str, str], files: Sequence[DataFileMeta]) -> dict[str, Any]:
    entries = Entries.of(ManifestEntry("m", False, identity_of(one, None), one) for one in files)
    schema = TableSchema("schema/schema-0", 0, (), (), keys, options)
    return visible_records(schema, entries, [one.file_name for one in files])


def visible(keys: tuple[str, ...], options: dict[str, str], *files: DataFileMeta) -> list[Any]:
    found = visible_of(keys, options, files)
    assert list(found) == [file.file_name for file in files]
    return [value if isinstance(value := found[file.file_name], Visible) else "unsupported" for file in files]


ALL, KINDS, NONE, NOT = Visible.ALL, Visible.KINDS, Visible.NONE, "unsupported"


@each(
    ("keys", "options", "levels", "expected"),
    [
        (APPEND, {}, [0, 0, 1], [ALL, ALL, ALL]),
        (APPEND, DV, [0, 5], [ALL, ALL]),
        (KEYED, DV, [0, 3, 5], [NONE, KINDS, KINDS]),
        (KEYED, DV | {"deletion-vectors.merge-on-read": "true"}, [0, 3], [NOT, NOT]),
        (KEYED, DV | {"deletion-vectors.merge-on-read": "true"}, [3, 3], [KINDS, KINDS]),
        (KEYED, {"merge-engine": "first-row"}, [0, 3, 5], [NONE, KINDS, KINDS]),
        (KEYED, {}, [0], [KINDS]),
        (KEYED, {}, [5, 5, 5], [KINDS, KINDS, KINDS]),
        (KEYED, {}, [0, 0], [NOT, NOT]),
        (KEYED, {}, [4, 5], [NOT, NOT]),
        (APPEND, {"chain-table.enabled": "true"}, [0], [NOT]),
        (KEYED, {"chain-table.enabled": "false"}, [0], [KINDS]),
        (APPEND, {"scan.fallback-branch": "other"}, [0], [NOT]),
    ],
)
def test_tables_levels_and_engines(
    keys: tuple[str, ...], options: dict[str, str], levels: list[int], expected: list[Any]
) -> None:
    assert visible(keys, options, *(file(f"f{i}", level) for i, level in enumerate(levels))) == expected


def test_postponed_records_are_merged_if_the_table_says_so() -> None:
    files = [file("a", 5), file("b", 0, -2)]
    assert visible(KEYED, DV, *files) == [KINDS, NONE]
    merged = DV | {"postpone.merge-on-read": "true"}
    assert visible(KEYED, merged, *files) == [NOT, NOT]
    assert visible(KEYED, merged, files[0]) == [KINDS]


def test_buckets_are_decided_each_by_itself() -> None:
    files = [file("a", 0, 0), file("b", 0, 1), file("c", 5, 1), file("d", 0, -2)]
    assert visible(KEYED, {}, *files[:1], files[3]) == [KINDS, NONE]
    reasons = visible_of(KEYED, {}, files)
    assert reasons["a"] is KINDS
    assert reasons["b"] == (
        "its records have to be merged by key with those of 1 more files of bucket 1 (merge engine deduplicate)"
    )


def test_columns_spread_over_files() -> None:
    options = {"data-evolution.enabled": "true"}
    alone = [file("a", first_row_id=0), file("b", first_row_id=10), file("c", first_row_id=20)]
    assert visible(APPEND, options, *alone) == [ALL, ALL, ALL]
    shared = [*alone, file("b2", first_row_id=10, write_cols=("x",))]
    assert visible(APPEND, options, *shared) == [ALL, NOT, ALL, NOT]
    assert visible(APPEND, options, file("a"), file("b", first_row_id=5)) == [NOT, ALL]
    assert visible(APPEND, {}, *shared) == [ALL, ALL, ALL, ALL]
    chain = [file(str(start), first_row_id=start) for start in (0, 5, 12)]
    assert visible(APPEND, options, *chain) == [NOT, NOT, NOT]

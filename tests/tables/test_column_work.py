"""Columns that a schema of few bytes has are charged where data files lack them, are compared or are written."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dvcodec.core.errors import LimitExceeded
from dvcodec.core.limits import SharedWork
from dvcodec.io import Storage
from dvcodec.tables import delete, export_live, live_batches, open_table
from dvcodec.tables.column_size import Size, size_of_type
from dvcodec.tables.column_work import AbsentColumns, charge_columns, charge_equality
from dvcodec.tables.columns import Column
from dvcodec.tables.deleting import predicate
from dvcodec.tables.deleting.matching import Condition
from dvcodec.tables.delta.rows import DeltaEvolution
from dvcodec.tables.schema_evolution import file_columns
from samples.delta_log import empty_table
from samples.iceberg_table import Commit, build_iceberg, field_ids
from samples.paimon_table import PaimonFile, build_paimon


def wide_table(folder: Path, columns: int, files: int, stored: int) -> None:
    """A table of many columns, whose data files have some of them; only the first has values."""
    names = [f"c{i}" for i in range(columns)]
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    empty_table(folder)
    log = folder / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    data = pa.table({name: pa.array([None if i else 7], pa.int64()) for i, name in enumerate(names[:stored])})
    for i in range(files):
        pq.write_table(data, folder / f"{i}.parquet")
        add = {"path": f"{i}.parquet", "size": 1, "partitionValues": {}, "modificationTime": 0, "dataChange": True}
        actions.append({"add": add | {"stats": '{"numRecords":1}'}})
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


def test_columns_that_data_files_lack_are_charged_together(tmp_path: Path) -> None:
    wide_table(tmp_path / "few", 2_000, 40, 1)
    table = open_table(tmp_path / "few")
    for _ in range(3):  # reading a file again draws nothing
        assert sum(batch.num_rows for batch in live_batches(table)) == 40
    wide_table(tmp_path / "many", 2_000, 300, 1)
    table = open_table(tmp_path / "many")
    with pytest.raises(
        LimitExceeded, match=r"\d\.parquet: work for columns that data files lack .* in all metadata files"
    ):
        list(live_batches(table))
    assert len(list(live_batches(table, columns=[f"c{i}" for i in range(100)]))) == 300


def test_columns_that_data_files_have_draw_nothing(tmp_path: Path) -> None:
    """Nor do a hundred that they lack, in a table that has grown."""
    wide_table(tmp_path, 2_000, 6, 1_900)
    table = open_table(tmp_path)
    table.folder.storage.metadata_work.most = 0
    assert sum(batch.num_rows for batch in live_batches(table)) == 6


def test_values_that_data_files_lack_are_charged(tmp_path: Path) -> None:
    """A default of 20 kB in every row; short ones, of any number of rows, are not."""
    for default, rows in (("x" * 20_000, 10_000), ("x" * 20_000, 40_000), ("x" * 200, 100_000)):
        ids = field_ids(pa.schema([pa.field("id", pa.int64())]), (1,))
        late = {"id": 2, "name": "late", "required": False, "type": "string", "initial-default": default}
        fields = [{"id": 1, "name": "id", "required": False, "type": "long"}, late]
        folder = tmp_path / f"{len(default)}-{rows}"
        build_iceberg(folder, Commit(data={"a": pa.table([pa.array([7] * rows, pa.int64())], ids)}), fields=fields)
        table, seen = open_table(folder), 0
        with pytest.raises(LimitExceeded, match="columns that data files lack") if rows == 40_000 else nullcontext():
            for batch in live_batches(table):
                seen += batch.num_rows
                assert batch.nbytes < 20_000_000
                assert batch["late"][0].as_py() == default
        assert seen == rows or 15_000 < seen < rows == 40_000


def test_equality_deletes_are_charged_by_what_they_compare() -> None:
    """Eight columns of 2,000 data files; twice as many have the bytes of twice the metadata."""
    charge_equality("v1", 8_000, SharedWork())
    with pytest.raises(LimitExceeded, match=r"^equality deletes of v1: work for columns that equality deletes compare"):
        charge_equality("v1", 16_000, SharedWork())
    nothing = SharedWork(0)
    nothing.note("manifest", 16_000 * 8)
    charge_equality("v1", 16_000, nothing)


def test_columns_to_write_are_charged_beyond_what_the_metadata_allows() -> None:
    shared = SharedWork()
    charge_columns("/t", 8_192, shared)
    with pytest.raises(LimitExceeded, match=r"^columns of /t: work for columns to write \(columns= and --column"):
        charge_columns("/t", 8_193, shared)
    shared.note("metadata", 16)  # 256 units for each byte
    charge_columns("/t", 8_194, shared)


def evolution_of(columns: int, *, kind: pa.DataType | None = None, repeated: int = 0) -> DeltaEvolution:
    """Of a file that lacks some columns, and has constants of some bytes for the first of them."""
    kind = pa.int64() if kind is None else kind
    lacking = [Column(f"c{i}", type=kind) for i in range(columns)]
    constants = {}
    if repeated:
        lacking[0] = Column("c0", type=pa.binary())
        value = pa.scalar(b"x" * (repeated - pa.repeat(pa.scalar(b""), 1).nbytes))
        constants["c0"] = value
    return DeltaEvolution("f", lacking, [], constants)


@pytest.mark.parametrize(
    ("count", "repeated", "rows", "units"),
    [
        (100, 256, 255, 0),
        (101, 0, 256, 101 * 256),
        (128, 0, 255, 128 * 256),
        (1, 257, 32, 2),
        (101, 272, 255, 101 * 256 + 255),
        (129, 0, 100, 129 * 256 + 25),
    ],
)
def test_work_of_a_batch(count: int, repeated: int, rows: int, units: int, tmp_path: Path) -> None:
    """Up to 100 columns are free, and 256 bytes of values and 1,024 of nulls in a row."""
    data = tmp_path / "data"
    data.touch()
    for most in range(max(units - 1, 0), units + 1):
        storage = Storage()
        storage.metadata_work.most = most
        with pytest.raises(LimitExceeded, match="columns that data files lack") if most < units else nullcontext():
            AbsentColumns(str(data), storage, evolution_of(count, repeated=repeated)).charge(rows)
    expected = min((1 << 24) // max(repeated, 1), (1 << 25) // (8 * count))
    assert AbsentColumns(str(data), Storage(), evolution_of(count, repeated=repeated)).rows(1 << 30) == expected
    assert AbsentColumns(str(data), Storage(), evolution_of(1, repeated=1 << 25)).rows(7) == 1


@pytest.mark.parametrize(
    ("columns", "kind", "bytes_of_row"),
    [
        (3_000, pa.int64(), 6),
        (1, pa.struct([(f"f{i}", pa.decimal128(38, 0)) for i in range(200)]), 1),
        (1, pa.list_(pa.float32(), 4096), 2),
        (1, pa.binary(16), 0),
        (1, pa.list_(pa.float32(), 16), 0),
    ],
)
def test_files_of_millions_of_rows_have_paid_for_columns_that_were_added(
    columns: int, kind: pa.DataType, bytes_of_row: int, tmp_path: Path
) -> None:
    """Of few bytes a row; the shared work is not touched."""
    rows = 2_000_000
    data, storage = tmp_path / "data", Storage()
    with data.open("wb") as file:
        file.truncate(bytes_of_row * rows)
    storage.metadata_work.most = 0
    absent = AbsentColumns(str(data), storage, evolution_of(columns, kind=kind))
    most = absent.rows(1 << 16)
    assert most >= 1_024
    for _ in range(0, rows, most):
        absent.charge(most)


@pytest.mark.parametrize("present", [True, False])
def test_fields_of_a_struct_are_counted(present: bool, tmp_path: Path) -> None:
    """Whether the file lacks all of the struct, or has one field of it."""
    names = [f"f{i}" for i in range(1_000)]
    kind = pa.struct([(name, pa.decimal128(38, 0)) for name in names])
    column = Column("s", type=kind, children=tuple(Column(name, type=kind.field(name).type) for name in names))
    some = pa.struct([("f0", pa.decimal128(10, 0))])
    stored = file_columns([pa.field("s", some)], "f") if present else ()
    evolution = DeltaEvolution("f", [column], stored)
    lacking = 1_000 - present
    assert evolution.absent == Size(lacking, 16 * lacking, lacking)
    assert evolution.sizes == {"s": Size(1_000, 16_000, 1_000)}
    data, storage = tmp_path / "data", Storage()
    data.touch()
    storage.metadata_work.most = lacking * (256 + 32) - 1
    absent = AbsentColumns(str(data), storage, evolution)
    assert absent.rows(1 << 16) == (1 << 25) // 16_000
    with pytest.raises(LimitExceeded, match=r"work for columns that data files lack"):
        absent.charge(1)
    batch = pa.record_batch({"s": pa.array([{"f0": 1}], some)} if present else {"other": [1]})
    arrays = evolution.apply(batch).column(0).flatten()
    assert {array.buffers()[1].address for array in arrays[1:]} == {arrays[-1].buffers()[1].address}


def test_a_column_of_nulls_is_absent(tmp_path: Path) -> None:
    """The file has the column, but as a type that has no values."""
    stored = file_columns([pa.field("a", pa.null()), pa.field("b", pa.list_(pa.null()))], "f")
    element = Column("element", type=pa.binary(20))
    columns = [
        Column("a", type=pa.binary(100)),
        Column("b", type=pa.list_(element.field), children=(element,)),
    ]
    evolution = DeltaEvolution("f", columns, stored)
    assert evolution.absent == Size(2, 120, 0)
    data = tmp_path / "data"
    data.touch()
    assert AbsentColumns(str(data), Storage(), evolution).rows(1 << 30) == (1 << 25) // 120


@pytest.mark.parametrize("depth", [0, 1, 60])
def test_types_around_a_column_are_counted(depth: int, tmp_path: Path) -> None:
    """The data file has none of them; with them in each other, rows are chosen at each level."""
    kind, column = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int64()))]), Column("c", type=pa.int64())
    for _ in range(depth):
        kind = pa.struct([("s", kind)])
    assert size_of_type(kind) == Size(2, 16, 2 * depth + 3)
    for _ in range(depth):
        column = Column("s", type=pa.struct([column.field]), children=(column,))
    columns = [replace(column, name=f"c{i}") for i in range(101)]
    evolution = DeltaEvolution("f", columns, file_columns(pa.schema([("other", pa.int64())]), "f"))
    assert evolution.absent == Size(101, 808, 101 * depth)
    units, data, storage = 101 * (256 + 32 * depth), tmp_path / "data", Storage()
    data.touch()
    storage.metadata_work.most = units
    AbsentColumns(str(data), storage, evolution).charge(1)
    storage.metadata_work = SharedWork(units - 1)
    with pytest.raises(LimitExceeded, match=f"found {units}$"):
        AbsentColumns(str(data), storage, evolution).charge(1)


def test_elements_of_lists_are_charged_by_their_number(tmp_path: Path) -> None:
    """One row may have millions, each without a field that was added."""
    old = pa.struct([("a", pa.int64())])
    parts = (Column("a", type=pa.int64()), Column("b", type=pa.decimal128(38, 0)))
    element = Column("element", type=pa.struct([part.field for part in parts]), children=parts)
    column = Column("l", type=pa.list_(element.field), children=(element,))
    batch = pa.record_batch({"l": pa.array([[{"a": 1}] * 1_001], pa.list_(old))})
    data = tmp_path / "data"
    data.touch()
    for most in (1_999, 2_000):
        storage = Storage()
        storage.metadata_work.most = most
        evolution = DeltaEvolution("f", [column], file_columns(batch.schema, "f"))
        AbsentColumns(str(data), storage, evolution).charge(1)
        with pytest.raises(LimitExceeded, match="columns that data files lack") if most < 2_000 else nullcontext():
            assert evolution.apply(batch)["l"][0][1_000].as_py() == {"a": 1, "b": None}


def nested_table(folder: Path, fields: int, files: int, rows: int = 1, kind: str = "integer") -> None:
    """A table of one struct, whose data files have its first field."""
    names = [f"f{i}" for i in range(fields)]
    children = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name in names]
    struct = {"name": "s", "type": {"type": "struct", "fields": children}, "nullable": True, "metadata": {}}
    empty_table(folder)
    (log,) = (folder / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": [struct]})
    stored = pa.int32() if kind == "integer" else pa.decimal128(10, 0)
    data = pa.table({"s": pa.array([{"f0": 7}] * rows, pa.struct([("f0", stored)]))})
    for i in range(files):
        pq.write_table(data, folder / f"{i}.parquet")
        add = {"path": f"{i}.parquet", "size": 1, "partitionValues": {}, "modificationTime": 0, "dataChange": True}
        actions.append({"add": add | {"stats": json.dumps({"numRecords": rows})}})
    log.write_text("\n".join(map(json.dumps, actions)))


def test_fields_that_data_files_lack_are_charged_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nested_table(tmp_path / "few", 200, 30, 100)
    assert sum(batch.num_rows for batch in live_batches(open_table(tmp_path / "few"))) == 3_000
    nested_table(tmp_path / "many", 4_000, 20)
    monkeypatch.setattr(SharedWork, "note", lambda *_: None)  # as if the schema were compressed
    table = open_table(tmp_path / "many")
    with pytest.raises(LimitExceeded, match="columns that data files lack"):
        list(live_batches(table))
    table = open_table(tmp_path / "many")
    with pytest.raises(LimitExceeded, match="columns that data files lack"):
        delete(table, pc.field("s", "f0") == 8, dry_run=True)


def test_batches_are_bounded_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that a delete evaluates, and joins."""
    nested_table(tmp_path, 1_000, 1, 4_000, "decimal(38,0)")
    batches = list(live_batches(open_table(tmp_path)))
    assert [batch.num_rows for batch in batches] == [2_097, 1_903]
    assert max(batch.nbytes for batch in batches) < 36_000_000
    seen = []

    def positions(self: Condition, batch: pa.RecordBatch, known: object) -> Any:
        seen.append((batch.num_rows, batch.nbytes))
        return found(self, batch, known)

    condition: Any = predicate._ExpressionCondition
    found = condition.positions
    monkeypatch.setattr(condition, "positions", positions)
    deletion = delete(
        open_table(tmp_path), pc.field("s", "f0") == pa.scalar(Decimal(7), pa.decimal128(38, 0)), dry_run=True
    )
    assert deletion.rows == 4_000
    assert [rows for rows, _ in seen] == [2_097, 1_903]
    assert max(size for _, size in seen) < 36_000_000


def test_fields_of_an_export_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nested_table(tmp_path / "t", 50, 1)
    table = open_table(tmp_path / "t")
    charged = []
    monkeypatch.setattr("dvcodec.tables.live.charge_columns", lambda _, count, __: charged.append(count))
    assert export_live(table, str(tmp_path / "out.parquet")) == 1
    assert charged == [50]
    monkeypatch.setattr("dvcodec.tables.live._MOST_COLUMNS", 49)
    with pytest.raises(LimitExceeded, match=r"columns to write: expected at most 49 in one .*, found 50"):
        export_live(table, str(tmp_path / "out.parquet"))


@pytest.mark.parametrize("deleting", [False, True])
@pytest.mark.parametrize("kind", ["fixed", "VECTOR"])
def test_widths_that_a_schema_declares_are_bounded(
    kind: str, deleting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Widths of real tables only make batches smaller."""
    monkeypatch.setattr("dvcodec.tables.column_work._ROWS_BYTES", 1 << 20)
    for width in (4_096, 50_000_000):
        folder = tmp_path / str(width)
        rows = pa.table({"id": list(range(500))})
        if kind == "fixed":
            late = {"id": 2, "name": "late", "required": False, "type": f"fixed[{4 * width}]"}
            fields = [{"id": 1, "name": "id", "required": False, "type": "long"}, late]
            build_iceberg(folder, Commit(data={"a": rows.cast(field_ids(rows.schema, (1,)))}), fields=fields)
        else:
            build_paimon(folder, [(0, "id", "BIGINT")], [[PaimonFile("a.parquet", rows, deleted=[0])]])
            schema = json.loads((folder / "schema/schema-0").read_text())
            vector = {"type": "VECTOR", "element": "FLOAT", "length": width}
            schema["fields"].append({"id": 1, "name": "late", "type": vector})
            (folder / "schema/schema-0").write_text(json.dumps(schema | {"highestFieldId": 1}))
        table = open_table(folder)
        wide = r"bytes of a row, most of them of column late: expected at most 1048576 .*, found 2000000"
        with pytest.raises(LimitExceeded, match=wide) if width > 4_096 else nullcontext():
            if deleting:
                assert delete(table, ~pc.field("late").is_null(), dry_run=True).rows == 0
            else:
                batches = list(live_batches(table))
                assert sum(batch.num_rows for batch in batches) in (499, 500)
                assert max(batch.num_rows for batch in batches) == (1 << 20) // (4 * width + 8)
                assert max(batch.nbytes for batch in batches) < 1_100_000

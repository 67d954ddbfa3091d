"""Columns: files that hold none of their table, columns that are not read, nulls, how columns are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from cases import each
from dvcodec import NotCanonical, RowSet, Unsupported, UsageError
from dvcodec.tables import Table, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.delta.rows import DeltaEvolution
from dvcodec.tables.rows.columns import Column, ColumnIndex, ColumnKey, Required, file_columns
from dvcodec.tables.snapshots.live import export_live, live_batches
from samples.delta_table import DeltaBuilder
from samples.iceberg_table import Commit, build_iceberg
from samples.paimon_table import PaimonFile, build_paimon


def live(table: Table, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    return [row for batch in live_batches(table, columns=columns) for row in batch.to_pylist()]


# ------------------------------------------------------------------------------------------------ Delta


def mapped(name: str, number: int, kind: str = "long") -> dict[str, Any]:
    annotations = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    return {"name": name, "type": kind, "nullable": True, "metadata": annotations}


def plain(name: str, kind: str = "long") -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def stored(**ids: int) -> pa.Table:
    """Three rows, in columns of these field ids."""
    fields = [
        pa.field(name.replace("_", "-"), pa.int64(), metadata={b"PARQUET:field_id": str(number).encode()})
        for name, number in ids.items()
    ]
    return pa.table([[1, 2, 3]] * len(ids), schema=pa.schema(fields))


def test_delta_files_without_a_column_of_the_table(tmp_path: Path) -> None:
    fields = [plain("x"), plain("v", "void"), plain("p")]
    made = DeltaBuilder(tmp_path / "t", fields=fields, partition_columns=("p",))
    made.create()
    rows = pa.table({"y": [1, 2], "v": pa.nulls(2), "p": [7, 7]})
    made.commit({"add": made.write_file("a.parquet", rows, {"p": "7"})})
    table = open_table(made.root)
    expected = "a.parquet: columns of the data file: expected at least one of x, found y, v, p"
    for columns in (None, ["x"], ["p"], []):
        with pytest.raises(NotCanonical, match=expected):
            live(table, columns)
    made.fields = fields[1:]  # no column is left that a file has to hold
    made.commit({"metaData": made.metadata})
    assert live(open_table(made.root)) == [{"v": None, "p": 7}] * 2
    made.fields = [*fields, {**fields[0], "name": "Y"}]
    made.commit({"metaData": made.metadata})
    assert live(open_table(made.root), ["x"]) == [{"x": None}] * 2


@pytest.mark.parametrize("mode", ["name", "id"])
def test_delta_columns_that_were_all_dropped(tmp_path: Path, mode: str) -> None:
    """Ids that the table gave out, and no column has now, are those of dropped columns."""
    new = mapped("x", 3)
    inside = {**new, "type": {"type": "struct", "fields": [mapped("y", 2)]}}
    for number, (field, rows, is_read) in enumerate(
        (
            (new, stored(col_1=1, col_2=2), True),
            (inside, stored(col_1=1, col_2=2), False),
            (new, stored(col_1=1, col_2=10), False),  # beyond those given out
            (new, pa.table({"col-1": [1], "col-2": [2]}), False),  # without ids
        )
    ):
        configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "9"}
        features = ("deletionVectors", "columnMapping")
        made = DeltaBuilder(tmp_path / f"{number}", features=features, fields=[field], configuration=configuration)
        made.create()
        made.commit({"add": made.write_file("a.parquet", rows)})
        if is_read:
            assert live(open_table(made.root)) == [{"x": None}] * 3
            continue
        with pytest.raises(NotCanonical, match=r"(columns of the data file|field ids of columns): expected"):
            live(open_table(made.root))


# ------------------------------------------------------------------------------------------------ Iceberg

FIELDS = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "part", "required": False, "type": "long"},
]


def other_schema(*numbers: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Give the table another schema before its own."""

    def tweak(metadata: dict[str, Any]) -> dict[str, Any]:
        fields = [{"id": number, "name": f"c{number}", "required": False, "type": "long"} for number in numbers]
        metadata["schemas"].append({"type": "struct", "schema-id": 1, "fields": fields})
        return metadata

    return tweak


def test_iceberg_files_without_a_column_of_the_table(tmp_path: Path) -> None:
    data = Commit(data={"a": stored(id=7, other=8)}, vectors={"a": RowSet([1])})
    made = build_iceberg(tmp_path / "t", data, fields=FIELDS)
    for columns in (None, ["part"], []):
        expected = r"data/a: columns of the data file: expected at least one of id \(field id 1\), part \(field id 2\)"
        with pytest.raises(NotCanonical, match=expected):
            live(open_table(made.folder), columns)
    made = build_iceberg(tmp_path / "some", data, fields=FIELDS, tweak=other_schema(7))
    with pytest.raises(NotCanonical, match="columns of the data file"):
        live(open_table(made.folder))
    made = build_iceberg(tmp_path / "dropped", data, fields=FIELDS, tweak=other_schema(7, 8))
    assert live(open_table(made.folder)) == [{"id": None, "part": None}] * 2
    made = build_iceberg(tmp_path / "one", Commit(data={"a": stored(part=2, other=8)}), fields=FIELDS)
    assert live(open_table(made.folder), ["id"]) == [{"id": None}] * 3


# ------------------------------------------------------------------------------------------------ Paimon

ID, NAME = (0, "id", "BIGINT"), (1, "name", "STRING")


def test_paimon_files_without_a_column_of_the_table(tmp_path: Path) -> None:
    file = PaimonFile("a.parquet", pa.table({"x": [1, 2]}))
    for columns in (None, ["name"], []):
        table = open_table(build_paimon(tmp_path / f"t{columns}", [ID, NAME], [[file]]))
        with pytest.raises(NotCanonical, match="expected at least one of id, name, found x"):
            live(table, columns)
    file = PaimonFile("a.parquet", pa.table({"id": [1, 2]}))
    new = PaimonFile("b.parquet", pa.table({"name": ["x"]}), schema_id=1)
    states = [[file], [file, new]]
    table = open_table(build_paimon(tmp_path / "shared", [[ID, NAME], [NAME]], states))
    with pytest.raises(NotCanonical, match="expected at least one of name, found id"):
        live(table)
    table = open_table(build_paimon(tmp_path / "dropped", [[ID], [NAME]], states))
    assert live(table) == [{"name": None}, {"name": None}, {"name": "x"}]


# ------------------------------------------------------------------------------------------------ Lance


@pytest.mark.interop
def test_a_lance_fragment_without_a_column_is_refused(tmp_path: Path) -> None:
    """As Lance itself does."""
    pytest.importorskip("lance.fragment")
    lance = pytest.importorskip("lance")
    dataset = lance.write_dataset(pa.table({"a": [1, 2, 3]}), str(tmp_path / "t"))
    dataset.add_columns(pa.field("b", pa.int64()))
    dataset.drop_columns(["a"])
    with pytest.raises(NotCanonical, match="expected a data file, found none"):
        live(open_table(tmp_path / "t"))
    with pytest.raises(ValueError, match="does not contain any data"):
        lance.dataset(str(tmp_path / "t")).to_table()


# ------------------------------------------------------------------------------------------------ types


def test_a_column_that_is_not_read_stops_no_other(tmp_path: Path) -> None:
    columns = [ID, (1, "v", {"type": "ROW", "fields": [{"id": 2, "name": "x", "type": "GEOMETRY"}]})]
    file = PaimonFile("a.parquet", pa.table({"id": [1, 2, 3]}), deleted=[1])
    table = open_table(build_paimon(tmp_path / "t", columns, [[file]]))
    snapshot = table.snapshot()
    assert live(table, ["id"]) == [{"id": 1}, {"id": 3}]
    assert snapshot.schema(["id"]) == pa.schema([("id", pa.int64())])
    assert snapshot.schema([]) == pa.schema([])
    assert audit(table).ok
    message = r"column v.*; name the other columns \(--column, columns=\) to leave this one out, found"
    for ask in (snapshot.schema, lambda: live(table), lambda: export_live(table, tmp_path / "none.parquet")):
        with pytest.raises(Unsupported, match=message):
            ask()
    assert not (tmp_path / "none.parquet").exists()
    with pytest.raises(UsageError, match="no column 'w': it has id, v"):
        snapshot.schema(["w"])


# ---- columns are found in data files by id or name, however many there are. Promotions are tested with their formats


def test_the_way_in_which_columns_are_found() -> None:
    named = [Column(name, number, type=pa.int64()) for name, number in (("a", 1), ("A", 2), ("b", None), ("B", None))]
    index = ColumnIndex(named)
    assert index.find(ColumnKey("x", 2), "f") == 1
    assert index.find(ColumnKey("a", 3), "f") is None  # a name is not tried if there is an id
    assert (index.find(ColumnKey("a"), "f"), index.find(ColumnKey("B"), "f")) == (0, 3)
    assert index.find(ColumnKey("z", physical_name="A"), "f") == 1
    assert index.find(ColumnKey("c"), "f") is None
    only = ColumnIndex([Column("Ab", type=pa.int64())])
    assert only.find(ColumnKey("aB"), "f") == 0
    with pytest.raises(NotCanonical, match="f: column aB: expected one column with this name or id, found 2"):
        ColumnIndex([Column(name, type=pa.int64()) for name in ("AB", "ab")]).find(ColumnKey("aB"), "f")
    with pytest.raises(NotCanonical, match="column x: expected one column with this name or id, found 2"):
        ColumnIndex([Column(name, 7, type=pa.int64()) for name in "ab"]).find(ColumnKey("x", 7), "f")


def test_fields_of_a_struct_are_found_in_every_batch() -> None:
    struct = pa.struct([("b", pa.int32()), ("a", pa.int64())])
    wanted = Column("s", type=pa.struct([("a", pa.int64()), ("c", pa.int64()), ("b", pa.int64())]), children=(
        Column("a", type=pa.int64()), Column("c", type=pa.int64()), Column("b", type=pa.int64()),
    ))  # fmt: skip
    evolution = DeltaEvolution("f", [wanted], file_columns([pa.field("s", struct)], "f"))
    for start in range(3):
        array = pa.array([{"a": start, "b": start + 1}, None], struct)
        found = evolution.apply(pa.record_batch([array], ["s"]))
        assert found["s"].to_pylist() == [{"a": start, "c": None, "b": start + 1}, None]


def test_null_keys_of_a_map_are_refused() -> None:
    """A dictionary may hide them; pyarrow ends the process if an array has them."""
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["a", None]))
    array = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), keys, pa.array([1, 2]))
    parts = Column("key", type=pa.string(), nullable=False), Column("value", type=pa.int64())
    column = Column("m", type=pa.map_(pa.string(), pa.int64()), children=parts)
    batch = pa.record_batch([array], names=["m"])
    with pytest.raises(NotCanonical, match=r"f: column m\.key: expected no nulls, found 1"):
        DeltaEvolution("f", [column], file_columns(batch.schema, "f")).apply(batch)


# ------------------------- nulls are refused where a schema has none, at every level; below a null they do not count


X = pa.field("x", pa.int64(), nullable=False)
STRUCT, LIST = pa.struct([X, pa.field("y", pa.string())]), pa.list_(X.with_name("element"))
PAIRS = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))


def checked(array: pa.Array, *, nullable: bool = True, **given: Any) -> pa.Array:
    (found,) = Required(pa.schema([pa.field("c", array.type, nullable)]), "f").checked([array], **given)
    return found


@each(
    ("values", "kind", "nullable", "path", "count"),
    [
        ([1, None, None], pa.int64(), False, "c", 2),
        ([None], STRUCT, False, "c", 1),
        ([[1, None], None, [None, None]], LIST, True, "c.element", 3),
        ([[("a", None)], None], PAIRS, True, "c.value", 1),
        ([{"s": {"x": None}}, None], pa.struct([pa.field("s", STRUCT, nullable=False)]), True, "c.s.x", 1),
    ],
    ids=str,
)
def test_a_null_among_values_is_refused(
    values: list[Any], kind: pa.DataType, nullable: bool, path: str, count: int
) -> None:
    with pytest.raises(NotCanonical, match=f"f: column {path}: expected no nulls, found {count} from row 7 on"):
        checked(pa.array(values, kind), nullable=nullable, start=7)


def types_of(kind: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    field = st.builds(lambda one, nullable: pa.field("f", one, nullable), kind, st.booleans())
    return st.one_of(
        st.lists(field, min_size=1, max_size=2).map(
            lambda some: pa.struct([one.with_name(f"f{i}") for i, one in enumerate(some)])
        ),
        field.map(pa.list_),
        field.map(lambda one: pa.list_(one, 2)),
        field.map(lambda one: pa.map_(pa.int64(), one)),
    )


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        found: st.SearchStrategy[Any] = st.fixed_dictionaries({one.name: values_of(one.type) for one in kind})
    elif pa.types.is_map(kind):
        found = st.lists(st.tuples(st.integers(0, 9), values_of(kind.item_type)), max_size=3)
    elif pa.types.is_fixed_size_list(kind):
        found = st.lists(values_of(kind.value_type), min_size=2, max_size=2)
    elif pa.types.is_list(kind):
        found = st.lists(values_of(kind.value_type), max_size=3)
    else:
        found = st.integers(0, 9)
    return st.one_of(found, found, found, st.none())


def is_right(value: Any, field: pa.Field) -> bool:
    kind = field.type
    if value is None:
        return bool(field.nullable)
    if pa.types.is_struct(kind):
        return all(is_right(value[one.name], one) for one in kind)
    if pa.types.is_map(kind):
        return all(is_right(item, kind.item_field) for _, item in value)
    return not pa.types.is_nested(kind) or all(is_right(item, kind.value_field) for item in value)


@given(data=st.data())
@settings(max_examples=examples(200))
def test_nulls_are_found_as_one_by_one(data: st.DataObject) -> None:
    """In slices, too, and among records of which some are not rows."""
    kind = data.draw(st.recursive(st.just(pa.int64()), types_of, max_leaves=4))
    field = pa.field("c", kind, data.draw(st.booleans()))
    values = data.draw(st.lists(values_of(kind), max_size=6))
    first = data.draw(st.integers(0, len(values)))
    array, values = pa.array(values, kind)[first:], values[first:]
    keep = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    rows = data.draw(st.sampled_from([None, pa.array(keep, pa.bool_())]))
    shown = values if rows is None else [value for value, kept in zip(values, keep, strict=True) if kept]
    required = Required(pa.schema([field]), "f")
    if not all(is_right(value, field) for value in shown):
        with pytest.raises(NotCanonical, match="expected no nulls"):
            required.checked([array], rows=rows)
        return
    (found,) = required.checked([array], rows=rows)
    found.validate(full=True)
    found, array = (found, array) if rows is None else (found.filter(rows), array.filter(rows))
    assert found.to_pylist() == array.to_pylist()
    if "fixed_size_list" not in str(kind):  # which older versions of pyarrow do not store
        pq.write_table(pa.Table.from_arrays([found], schema=pa.schema([field])), pa.MockOutputStream())

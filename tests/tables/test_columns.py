"""Files that hold no column of their table, and columns of types that are not read, in all kinds of tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import each
from dvcodec import NotCanonical, RowSet, Unsupported, UsageError
from dvcodec.tables import Table, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.rows.columns import chosen
from dvcodec.tables.snapshots.live import export_live, live_batches
from samples.delta_table import DeltaBuilder
from samples.iceberg_table import Commit, build_iceberg
from samples.paimon_table import PaimonFile, build_paimon


def live(table: Table, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    return [row for batch in live_batches(table, columns=columns) for row in batch.to_pylist()]


def test_chosen() -> None:
    assert chosen(["a", "b"], None, "t") == ["a", "b"]
    assert chosen(["a", "b"], ["b", "a"], "t") == ["b", "a"]
    with pytest.raises(UsageError, match=r"^t has no column 'c': it has c0, .*c9 and 2 more$"):
        chosen([f"c{i}" for i in range(12)], ["c"], "t")


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


class Declared(DeltaBuilder):
    """A table of a given protocol."""

    declared: dict[str, Any]

    @property
    def protocol(self) -> dict[str, Any]:
        return self.declared


COMPAT: dict[str, Any] = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": [],
    "writerFeatures": ["columnMapping", "icebergCompatV1"],
}
"""As Delta 3.1 wrote it."""
PROTOCOLS: dict[str, dict[str, Any]] = {
    "compat": COMPAT,
    "none": {**COMPAT, "writerFeatures": []},
    "writer only": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["columnMapping"]},
    "old": {"minReaderVersion": 1, "minWriterVersion": 2},
}


def craft_mapped(
    folder: Path,
    protocol: dict[str, Any],
    mode: str,
    fields: Sequence[dict[str, Any]] = (mapped("id", 1), mapped("n", 2)),
    rows: pa.Table | None = None,
) -> Declared:
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "9"}
    made = Declared(folder, fields=fields, configuration=configuration)
    made.declared = protocol
    made.create()
    made.commit({"add": made.write_file("a.parquet", stored(col_1=1, col_2=2) if rows is None else rows)})
    return made


@each("mode", ["name", "id"])
@each("protocol", PROTOCOLS)
def test_mapped_columns_that_the_protocol_does_not_declare(tmp_path: Path, protocol: str, mode: str) -> None:
    made = craft_mapped(tmp_path / "t", PROTOCOLS[protocol], mode)
    assert live(open_table(made.root)) == [{"id": n, "n": n} for n in (1, 2, 3)]


def test_a_mode_without_annotations_does_not_map(tmp_path: Path) -> None:
    made = craft_mapped(tmp_path / "t", PROTOCOLS["old"], "name", [plain("col-1")])
    assert live(open_table(made.root))[2] == {"col-1": 3}
    declared = craft_mapped(tmp_path / "u", {"minReaderVersion": 2, "minWriterVersion": 5}, "name", [plain("col-1")])
    with pytest.raises(NotCanonical, match="physicalName"):
        live(open_table(declared.root))


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
    empty = DeltaBuilder(tmp_path / "u", fields=fields[:1])
    empty.create()
    empty.commit({"add": empty.write_file("a.parquet", rows.slice(0, 0))})
    assert live(open_table(empty.root)) == []


@pytest.mark.parametrize("mode", ["name", "id"])
def test_delta_columns_that_were_all_dropped(tmp_path: Path, mode: str) -> None:
    """Ids that the table gave out, and no column has now, are those of dropped columns."""
    declared = {"minReaderVersion": 2, "minWriterVersion": 5}
    new = mapped("x", 3)
    made = craft_mapped(tmp_path / "dropped", declared, mode, [new])
    assert live(open_table(made.root)) == [{"x": None}] * 3
    inside = {**new, "type": {"type": "struct", "fields": [mapped("y", 2)]}}
    for name, fields, rows in (
        ("inside", [inside], stored(col_1=1, col_2=2)),
        ("beyond", [new], stored(col_1=1, col_2=10)),
        ("without", [new], pa.table({"col-1": [1], "col-2": [2]})),
    ):
        made = craft_mapped(tmp_path / name, declared, mode, fields, rows)
        with pytest.raises(NotCanonical, match=r"(columns of the data file|field ids of columns): expected"):
            live(open_table(made.root))


# ------------------------------------------------------------------------------------------------ Iceberg

FIELDS = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "part", "required": False, "type": "long"},
]
SPEC = [{"name": "part", "transform": "identity", "source-id": 2, "field-id": 1000}]


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


def test_iceberg_partition_values_are_columns_of_no_file(tmp_path: Path) -> None:
    made = build_iceberg(
        tmp_path / "t",
        Commit(data={"a": stored(x=7)}),
        fields=FIELDS[1:],
        spec=SPEC,
        partition_types={"part": "long"},
        partition=lambda _: {"part": 5},
    )
    assert live(open_table(made.folder)) == [{"part": 5}] * 3


@pytest.mark.interop
def test_pyiceberg_reads_dropped_columns_as_null(tmp_path: Path) -> None:
    static = pytest.importorskip("pyiceberg.table").StaticTable
    made = build_iceberg(tmp_path / "t", Commit(data={"a": stored(x=7, y=8)}), fields=FIELDS, tweak=other_schema(7, 8))
    theirs = static.from_metadata(str(made.metadata)).scan().to_arrow().to_pylist()
    assert theirs == live(open_table(made.folder))


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


def delta_with_variant(folder: Path) -> Path:
    fields = [plain("id"), plain("v", "variant")]
    made = DeltaBuilder(folder, features=("deletionVectors", "variantType"), fields=fields)
    made.create()
    binary = pa.array([{"value": b"", "metadata": b""}] * 3)
    made.commit({"add": made.write_file("a.parquet", pa.table({"id": [1, 2, 3], "v": binary}))})
    made.delete({"a.parquet": RowSet([1])})
    return made.root


def iceberg_with_variant(folder: Path) -> Path:
    fields = [FIELDS[0], {"id": 2, "name": "v", "required": False, "type": "variant"}]
    commit = Commit(data={"a": stored(id=1)}, vectors={"a": RowSet([1])})
    return build_iceberg(folder, commit, fields=fields).folder


def paimon_with_geometry(folder: Path) -> Path:
    columns = [ID, (1, "v", {"type": "ROW", "fields": [{"id": 2, "name": "x", "type": "GEOMETRY"}]})]
    return build_paimon(folder, columns, [[PaimonFile("a.parquet", pa.table({"id": [1, 2, 3]}), deleted=[1])]])


@pytest.mark.parametrize("craft", [delta_with_variant, iceberg_with_variant, paimon_with_geometry])
def test_a_column_that_is_not_read_stops_no_other(tmp_path: Path, craft: Callable[[Path], Path]) -> None:
    table = open_table(craft(tmp_path / "t"))
    snapshot = table.snapshot()
    assert live(table, ["id"]) == [{"id": 1}, {"id": 3}]
    assert snapshot.schema(["id"]) == pa.schema([("id", pa.int64())])
    assert snapshot.schema([]) == pa.schema([])
    assert export_live(table, tmp_path / "out.parquet", columns=["id"]) == 2
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {"id": [1, 3]}
    assert audit(table).ok
    message = r"column v.*; name the other columns \(--column, columns=\) to leave this one out, found"
    for ask in (
        snapshot.schema,
        lambda: live(table),
        lambda: live(table, ["id", "v"]),
        lambda: export_live(table, tmp_path / "none.parquet"),
    ):
        with pytest.raises(Unsupported, match=message):
            ask()
    assert not (tmp_path / "none.parquet").exists()
    with pytest.raises(UsageError, match="no column 'w': it has id, v"):
        snapshot.schema(["w"])


# ------------------------------------------------------------------------------------------------ errors

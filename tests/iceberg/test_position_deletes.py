"""Position delete files of v2, read into vectors."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import RowSet, UsageError, iceberg
from dvcodec.core.errors import NotCanonical
from dvcodec.core.roaring import MAX_DV_POSITION
from dvcodec.iceberg import read_position_deletes, vectors_from_arrow, write_position_deletes
from dvcodec.io import Storage

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

PATHS = ["b", "a", "b", "a", "c"]
POSITIONS = [5, 1, 3, 1, 0]
EXPECTED = {"a": RowSet([1]), "b": RowSet([3, 5]), "c": RowSet([0])}


def parquet(table: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def columns(paths: Any = PATHS, positions: Any = POSITIONS) -> Any:
    return pa.table({"file_path": paths, "pos": positions})


FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (columns(), {}),
    "large strings": (columns(pa.array(PATHS, pa.large_string())), {}),
    "dictionary": (columns(pa.array(PATHS).dictionary_encode()), {}),
    "no dictionary in the file": (columns(), {"use_dictionary": False}),
    "row groups of 2": (columns(), {"row_group_size": 2}),
    "int32 positions": (columns(positions=pa.array(POSITIONS, pa.int32())), {}),
    "uint64 positions": (columns(positions=pa.array(POSITIONS, pa.uint64())), {}),
    "chunks": (pa.concat_tables([columns(), columns()]), {}),
    "other columns": (columns().append_column("row", [[{"id": 1}] * 5]).select(["row", "pos", "file_path"]), {}),
}


@each("name", FORMS)
def test_forms_are_read(name: str) -> None:
    table, options = FORMS[name]
    assert read_position_deletes(parquet(table, **options)) == EXPECTED
    assert vectors_from_arrow(table) == EXPECTED
    assert vectors_from_arrow(table.to_batches(max_chunksize=2)) == EXPECTED
    assert vectors_from_arrow(table.to_reader()) == EXPECTED


@each(
    ("table", "match"),
    [
        (columns().drop_columns("pos"), "no column 'pos' among file_path"),
        (columns().drop_columns("file_path"), "no column 'file_path' among pos"),
        (columns(pa.array(["a", None, "b", None, "c"])), "'file_path' contains 2 nulls"),
        (columns(positions=pa.array([1, None, 2, 3, 4], pa.int64())), "'pos' contains 1 nulls"),
        (columns(positions=[1, 2, -3, 4, 5]), "-3 is negative"),
        (columns(positions=[1, 2, 0x7FFFFFFE80000001, 4, 5]), "expected at most 0x7ffffffe80000000"),
        (columns(positions=[1.0, 2.0, 3.0, 4.0, 5.0]), "integers"),
        (columns(positions=["1", "2", "3", "4", "5"]), "integers"),
        (columns([1, 2, 3, 4, 5]), "int64, expected strings"),
        (columns([b"a", b"b", b"c", b"d", b"e"]), "binary, expected strings"),
    ],
)
def test_invalid_rows_are_a_usage_error_as_arrow_and_corrupt_in_a_file(table: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        vectors_from_arrow(table)
    with pytest.raises(NotCanonical, match=f"^<bytes>: position deletes: expected a path and a position.*{match}"):
        read_position_deletes(parquet(table))


@each(
    ("code", "names", "match"),
    [
        (1, ["a"], "codes outside its dictionary"),
        (-1, ["a"], "codes outside its dictionary"),
        (1, ["a", None], "None in place of a string"),
    ],
)
def test_invalid_dictionaries(code: int, names: list[str | None], match: str) -> None:
    paths = pa.DictionaryArray.from_arrays(pa.array([0, code], pa.int8()), pa.array(names), safe=False)
    with pytest.raises(UsageError, match=match):
        vectors_from_arrow(columns(paths, [1, 2]))


def test_damaged_pages(tmp_path: Path) -> None:
    rows = columns(pa.array(["a"] * 100), list(range(100)))
    path = tmp_path / "deletes.parquet"
    pq.write_table(rows, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(60) + whole[64:])
    with pytest.raises(NotCanonical, match=r"deletes.parquet: Parquet file: expected readable values"):
        read_position_deletes(path)


ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "s3://x/\u00e9.parquet"]), st.integers(0, 2**40)), max_size=60)


@given(ROWS, st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_any_rows_in_any_order(rows: list[tuple[str, int]], batch: int, group: int, encoded: bool) -> None:
    expected: dict[str, set[int]] = {}
    for path, position in rows:
        expected.setdefault(path, set()).add(position)
    paths = pa.array([path for path, _ in rows], pa.string())
    table = columns(
        paths.dictionary_encode() if encoded else paths, pa.array([position for _, position in rows], pa.int64())
    )
    wanted = {path: RowSet(positions) for path, positions in expected.items()}
    assert read_position_deletes(parquet(table, row_group_size=group), batch_rows=batch) == wanted
    assert vectors_from_arrow(table.to_batches(max_chunksize=batch)) == wanted


# ---------------------------------------------------------------------------------------------------- written


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.sets(st.integers(0, 2**40), max_size=9).map(RowSet)))
def test_written_rows_are_read_back(vectors: dict[str, RowSet]) -> None:
    out = io.BytesIO()
    assert write_position_deletes(out, vectors) == sum(map(len, vectors.values()))
    assert read_position_deletes(out.getvalue()) == {path: rows for path, rows in vectors.items() if rows}


@each(
    ("most", "vectors", "groups"),
    [
        (4, {name: RowSet([1]) for name in "abcdef"}, [4, 2]),
        (1 << 16, {"a": RowSet(range(1 << 17)), "b": RowSet(range(5))}, [1 << 16, 1 << 16, 5]),
    ],
)
def test_row_groups_are_full(
    most: int, vectors: dict[str, RowSet], groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg, "_ROW_GROUP", most)
    write_position_deletes(out := io.BytesIO(), vectors)
    metadata = pq.ParquetFile(out).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == groups


def test_written_files_are_those_of_the_specification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted by the bytes of paths and by positions, in several row groups, with the field ids and whole bounds."""
    monkeypatch.setattr(iceberg, "_ROW_GROUP", 1 << 16)
    long = "s3://lake/" + "p" * 200 + "/\U00010000.parquet"
    vectors = {long: RowSet(range(0, 200_000, 2)), "s3://lake/" + "p" * 200 + "/\uffff.parquet": RowSet([9, 3])}
    vectors["a"] = RowSet([7])
    assert write_position_deletes(tmp_path / "deletes.parquet", vectors, compression="snappy") == 100_003
    with pq.ParquetFile(tmp_path / "deletes.parquet") as file:
        table, metadata = file.read(), file.metadata
        fields = [file.schema.column(i) for i in range(2)]
    assert [(one.name, one.max_definition_level, str(one.physical_type)) for one in fields] == [
        ("file_path", 0, "BYTE_ARRAY"),
        ("pos", 0, "INT64"),
    ]
    ids = [field.metadata[b"PARQUET:field_id"] for field in table.schema]
    assert ids == [b"2147483546", b"2147483545"]
    assert metadata.metadata[b"delete-type"] == b"position"
    rows = list(zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True))
    assert rows == sorted(rows, key=lambda row: (row[0].encode(), row[1]))
    groups = [metadata.row_group(i).column(0) for i in range(metadata.num_row_groups)]
    assert len(groups) > 1
    assert [groups[0].statistics.min, groups[-1].statistics.max] == ["a", long]
    assert groups[0].compression == "SNAPPY"


def test_what_is_not_written(tmp_path: Path) -> None:
    for vectors, options, message in (
        ([("a", [1])], {}, "vectors"),
        ({"a": [1]}, {}, "rows of a"),
        ({b"a": RowSet([1])}, {}, "path of a data file"),
        ({"a": RowSet([1])}, {"compression": "zip"}, "compression must be"),
    ):
        with pytest.raises(UsageError, match=message):
            write_position_deletes(tmp_path / "none", vectors, **options)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_the_highest_position_is_the_last_that_is_written_and_read() -> None:
    vectors = {"a": RowSet([MAX_DV_POSITION])}
    write_position_deletes(out := io.BytesIO(), vectors)
    assert read_position_deletes(out) == vectors
    with pytest.raises(UsageError, match="expected at most"):
        write_position_deletes(io.BytesIO(), {"a": RowSet([MAX_DV_POSITION + 1])})


def test_a_file_that_a_commit_writes_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location, rows = str(tmp_path / "d.parquet"), {"a": RowSet([3, 70_000])}
    made = iceberg.write_file("s3://lake/d.parquet", location, rows, "zstd", Storage())
    assert (made.data_files, made.entry["content"], made.entry["record_count"]) == (("a",), 1, 2)
    assert (made.entry["file_path"], made.entry["referenced_data_file"]) == ("s3://lake/d.parquet", "a")
    schema = json.loads(pq.read_schema(location).metadata[b"iceberg.schema"])
    assert (schema["type"], schema["schema-id"], [field["id"] for field in schema["fields"]]) == (
        "struct",
        0,
        [2147483546, 2147483545],
    )
    write = iceberg.write_position_deletes
    monkeypatch.setattr(
        iceberg, "write_position_deletes", lambda path, _, **more: write(path, {"a": RowSet([4])}, **more)
    )
    with pytest.raises(NotCanonical, match=r"d\.parquet: position deletes as read back: expected the rows that were"):
        iceberg.write_file("s3://lake/d.parquet", location, rows, "zstd", Storage())


def test_a_changed_position_is_found(tmp_path: Path) -> None:
    """By Parquet's checksums of pages, which are written: the other position would be as good as this one."""
    path = tmp_path / "deletes.parquet"
    write_position_deletes(path, {"a": RowSet([1, 5005, 9009])}, compression="none")
    data, stored = path.read_bytes(), (5005).to_bytes(8, "little")
    at = data.index(stored)  # in a page, which is before the statistics
    path.write_bytes(data[:at] + (5004).to_bytes(8, "little") + data[at + 8 :])
    with pytest.raises(NotCanonical, match="CRC"):
        read_position_deletes(path)

"""Rows by keys, in memory and on disk, against DuckDB's and Python's idea of them."""

from __future__ import annotations

import gzip
import random
import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dvcodec import UsageError
from dvcodec.core.errors import NotCanonical
from dvcodec.tables.deleting import keys as key_store
from dvcodec.tables.deleting.keys import DiskKeys, keys_finder
from tables.deleting.plain import PlainTable
from tables.deleting.random_where import random_rows

pytestmark = pytest.mark.libraries

NAN = float("nan")


@pytest.fixture(params=["memory", "disk"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both stores of keys give the same."""
    if request.param == "disk":
        pytest.importorskip("duckdb", "2.0")
        monkeypatch.setattr(key_store, "IN_MEMORY", -1)
    return str(request.param)


def found(table: PlainTable, keys: Any, on: list[str]) -> list[set[int]]:
    finder = keys_finder(keys, on)
    finder.prepare(table.now)
    files = table.now.data_files
    return [set(finder.find(table.now, file).rows) if finder.may_match(table.now, file) else set() for file in files]


def column(kind: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"k": pa.array(values, kind)})


@pytest.mark.parametrize("on", [["n"], ["word"], ["n", "word"], ["small", "day", "flag"], ["time"], ["wide"]])
def test_random_keys(on: list[str], where: str, tmp_path: Path) -> None:
    """Nulls match nothing, and keys may come twice and be in no file."""
    chance = random.Random(3)
    files = [random_rows(chance, 0, count) for count in (60, 0, 90)]
    table = PlainTable(tmp_path, *files, row_group_size=25)
    picked = pa.concat_tables([files[0].slice(10, 15), files[2].slice(3, 20), files[2].slice(3, 2)])
    keys = pa.concat_tables([picked, random_rows(chance, 0, 30)]).select(on)
    wanted = {tuple(row.values()) for row in keys.to_pylist() if None not in row.values()}
    expected = [
        {i for i, row in enumerate(rows.select(on).to_pylist()) if tuple(row.values()) in wanted} for rows in files
    ]
    assert found(table, keys, on) == expected
    assert sum(map(len, expected)) > 15


def test_forms_of_keys(where: str, tmp_path: Path) -> None:
    table = PlainTable(tmp_path, pa.table({"a": range(10), "b": range(10)}))
    keys = pa.table({"other": ["x"] * 3, "a": [3, 5, 99]})
    whole = tmp_path / "keys"
    whole.mkdir()
    pq.write_table(keys, whole / "1.parquet")
    pq.write_table(keys.slice(0, 0), whole / "2.parquet")
    import polars as pl

    forms: dict[str, Any] = {
        "table": keys,
        "batch": keys.to_batches()[0],
        "reader": keys.to_reader(),
        "dataset": ds.dataset(keys),
        "file": whole / "1.parquet",
        "url": (whole / "1.parquet").as_uri(),
        "folder": str(whole),
        "polars": pl.from_arrow(keys),
    }
    for name, form in forms.items():
        assert found(table, form, ["a"]) == [{3, 5}], name


def test_keys_in_a_folder(where: str, tmp_path: Path) -> None:
    """Files are read whatever their names, but not what a writer has not committed; each is cast by itself."""
    table = PlainTable(tmp_path, pa.table({"a": range(10), "b": range(10)}))
    keys = tmp_path / "keys"
    (keys / "_temporary/0").mkdir(parents=True)
    pq.write_table(pa.table({"a": [3]}), keys / "000000_0")
    pq.write_table(pa.table({"x": ["x"], "a": pa.array([5], pa.int16())}), keys / "part-1.parquet")
    pq.write_table(pa.table({"a": [7]}), keys / "_temporary/0/part-2.parquet")
    (keys / "_SUCCESS").touch()
    assert found(table, keys, ["a"]) == [{3, 5}]
    (keys / "notes.txt").write_text("no keys")
    with pytest.raises(NotCanonical, match=re.escape(f"{keys}/notes.txt")):
        found(table, keys, ["a"])


SAME: list[tuple[pa.DataType, list[Any], pa.DataType, list[Any], list[int]]] = [
    (pa.int64(), [1, 2, None], pa.int8(), [2, None], [1]),
    (pa.int64(), [1, 2, None], pa.decimal128(20, 5), [Decimal(2)], [1]),
    (pa.int64(), [1, 2, None], pa.null(), [None], []),
    (pa.float64(), [0.0, -0.0, NAN, 1.0, None], pa.float64(), [-0.0, NAN], [0, 1, 2]),
    (pa.float32(), [0.5, 0.1], pa.float64(), [0.5], [0]),
    (pa.float16(), [np.float16(0.5), np.float16(1.5)], pa.float32(), [0.5], [0]),
    (pa.decimal128(10, 2), [Decimal("1.50"), Decimal(2)], pa.int64(), [2], [1]),
    (pa.decimal128(38, 30), [Decimal("1.5"), Decimal(2)], pa.decimal128(3, 1), [Decimal("1.5")], [0]),
    (pa.string(), ["a", "b", None], pa.string_view(), ["b"], [1]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b", None], pa.string(), ["b"], [1]),
    (pa.binary(2), [b"ab", b"cd"], pa.binary(), [b"cd"], [1]),
    (pa.date32(), [0, 1], pa.timestamp("us"), [86_400_000_000], [1]),
    (pa.timestamp("us", "UTC"), [0, 1], pa.timestamp("ns", "Asia/Tokyo"), [1000], [1]),
    (pa.time64("us"), [0, 1_000_000], pa.time32("s"), [1], [1]),
]


@pytest.mark.parametrize(("kind", "values", "of_keys", "keys", "rows"), SAME)
def test_types(
    kind: Any, values: list[Any], of_keys: Any, keys: list[Any], rows: list[int], where: str, tmp_path: Path
) -> None:
    table = PlainTable(tmp_path, column(kind, *values))
    assert found(table, column(of_keys, *keys), ["k"]) == [set(rows)]


@pytest.mark.parametrize(
    ("kind", "of_keys", "keys"),
    [
        (pa.int64(), pa.float64(), [1.5]),
        (pa.int32(), pa.int64(), [2**40]),
        (pa.int64(), pa.string(), ["1"]),
        (pa.float64(), pa.int64(), [2**53 + 1]),
        (pa.date32(), pa.timestamp("us"), [1]),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), [1]),
        (pa.binary(2), pa.binary(), [b"abc"]),
        (pa.list_(pa.int64()), pa.list_(pa.int64()), [[1]]),
    ],
)
def test_lossy_types(kind: Any, of_keys: Any, keys: list[Any], where: str, tmp_path: Path) -> None:
    table = PlainTable(tmp_path, column(kind, None))
    with pytest.raises(UsageError, match="column k ") as caught:
        found(table, column(of_keys, *keys), ["k"])
    assert "\n" not in str(caught.value)


def test_durations(where: str, tmp_path: Path) -> None:
    table = PlainTable(tmp_path, column(pa.duration("s"), 1, 2, None))
    keys = column(pa.duration("ms"), 2000)
    if where == "memory":
        assert found(table, keys, ["k"]) == [{1}]
    else:
        with pytest.raises(UsageError, match="too many for memory, and durations are not kept on disk"):
            found(table, keys, ["k"])


def test_wrong_arguments(tmp_path: Path) -> None:
    table = PlainTable(tmp_path, pa.table({"a": [1], "b": [2]}))
    keys = pa.table({"a": [1]})
    (tmp_path / "empty").mkdir()
    given: tuple[tuple[Any, list[str], str], ...] = (
        (keys, [], "distinct columns"),
        (keys, ["a", "a"], "distinct columns"),
        (pa.table({"x": [1]}), ["x"], "no column 'x'"),
        (keys, ["a", "b"], "keys: expected a column 'b', found 0"),
        (5, ["a"], "not int"),
        ("gone.json", ["a"], r"keys gone\.json: expected a Parquet or CSV file; COPY \(FROM 'gone\.json'\) TO "),
        (tmp_path / "empty", ["a"], "no Parquet files"),
    )
    for wrong, on, message in given:
        with pytest.raises(UsageError, match=message):
            found(table, wrong, on)


def test_files_without_keys_are_not_opened(where: str, tmp_path: Path) -> None:
    files = [pa.table({"a": range(i, i + 100), "b": ["x", None] * 50}) for i in range(0, 1000, 100)]
    table = PlainTable(tmp_path, *files)
    keys = pa.table({"a": [150, 155, 2000], "b": ["x", "x", "x"]})
    assert found(table, keys, ["a", "b"])[1] == {50}
    assert table.opened == [table.now.data_files[1].path] or where == "disk"
    table.opened.clear()
    found(table, pa.table({"a": [-5, None, 1000]}), ["a"])
    assert table.opened == [] or where == "disk"
    table.opened.clear()
    found(table, pa.table({"a": [1000, 1500]}), ["a"])
    found(table, pa.table({"a": [-5, -1]}), ["a"])
    found(table, pa.table({"b": ["y", "z"]}), ["b"])
    found(table, pa.table({"a": pa.array([], pa.int64())}), ["a"])
    assert table.opened == []


def test_keys_on_disk_go_with_the_finder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", "2.0")
    monkeypatch.setattr(key_store, "IN_MEMORY", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "t").mkdir()
    table = PlainTable(tmp_path / "t", pa.table({"a": range(1000)}))
    finder: Any = keys_finder(pa.table({"a": range(0, 2000, 2)}).to_reader(100), ["a"])
    for _ in range(2):  # a reader is read once
        finder.prepare(table.now)
    assert isinstance(finder.condition, DiskKeys)
    assert len(finder.find(table.now, table.now.data_files[0]).rows) == 500
    assert list(tmp_path.glob("dvcodec-keys-*"))
    del finder
    assert not list(tmp_path.glob("dvcodec-keys-*"))


def test_a_column_that_is_promoted_meanwhile(where: str, tmp_path: Path) -> None:
    """Keys on disk are not read again: the reader that they came from may be at its end."""
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    finder: Any = keys_finder(pa.table({"a": [2]}), ["a"])
    finder.prepare(PlainTable(tmp_path / "1", pa.table({"a": pa.array([1, 2], pa.int32())})).now)
    wide = PlainTable(tmp_path / "2", pa.table({"a": pa.array([1, 2, 2**40], pa.int64())})).now
    if where == "disk":
        with pytest.raises(UsageError, match=r"keys: the type of a column changed meanwhile \(a\): delete again"):
            finder.prepare(wide)
    else:
        finder.prepare(wide)
        assert list(finder.find(wide, wide.data_files[0]).rows) == [1]


def test_names_of_columns(where: str, tmp_path: Path) -> None:
    """Columns may be called as those that the join makes."""
    table = PlainTable(tmp_path, pa.table({"position": [5, 6, 7], "c0": ["a", "b", "c"], "C0": [1, 2, 3]}))
    keys = pa.table({"C0": [2, 3], "position": [6, 6], "c0": ["b", "c"]})
    assert found(table, keys, ["c0", "position", "C0"]) == [{1}]


def test_keys_in_csv_have_the_types_of_the_table(tmp_path: Path) -> None:
    day, moment = date(2026, 5, 4), np.datetime64("2026-05-04T10:00:00.000500")
    columns: dict[str, tuple[pa.DataType, list[Any], list[str]]] = {
        "number": (pa.int32(), [7, 8], ["008", "9"]),
        "text": (pa.string(), ["007", "NULL"], ["NULL", "7"]),
        "price": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("2.00")], ["2", "1.75"]),
        "day": (pa.date32(), [day, None], ["2026-05-04", ""]),
        "moment": (pa.timestamp("us"), [moment, None], ["2026-05-04 10:00:00.000500", ""]),
        "large": (pa.int64(), [2**62 + 1, 2**62], ["4611686018427387905", "1"]),
        "empty": (pa.string(), ["", None], ['""', ""]),
        "half": (pa.float64(), [0.5, 1.5], []),
    }
    rows = {"number": {1}, "text": {1}, "price": {1}, "day": {0}, "moment": {0}, "large": {0}, "empty": {0}}
    table = PlainTable(
        tmp_path, pa.table({name: pa.array(values, kind) for name, (kind, values, _) in columns.items()})
    )
    for name, expected in rows.items():
        keys = columns[name][2]
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join([f"other,{name}", *(f"x,{key}" for key in keys)]))
        assert found(table, path, [name]) == [expected]
    pressed = tmp_path / "two.tsv.gz"
    pressed.write_bytes(gzip.compress(b"text\tnumber\n007\t7\nNULL\t7\n"))
    assert found(table, pressed, ["number", "text"]) == [{0}]
    (tmp_path / "latin.csv").write_bytes("größe,number\n1,7\n".encode("latin-1"))
    with pytest.raises(UsageError, match="utf-8"):
        found(table, tmp_path / "latin.csv", ["number"])
    for name, text, why in [
        ("number", "number\n7.5\n", "column number has a field that is not an integer"),
        ("large", "large\n0xFFFFFFFFFFFFFFFF\n", "column large has a field that is not an integer"),
        ("large", "large\n9223372036854775808\n", "9223372036854775808"),
        ("half", "half\n0.5\n", "column half is double, to which text is rounded"),
        ("text", 'text\n"7\n8\n"\n', "column text has a field with a line break"),
        ("price", "price\n1.505\n", "would|scale|decimal"),
        ("number", "x\n7\n", "expected a column 'number', found 0"),
        ("number", "number,number\n7,8\n", "expected a column 'number', found 2"),
        ("number", "", "Empty CSV file"),
    ]:
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(UsageError, match=why):
            found(table, tmp_path / "bad.csv", [name])

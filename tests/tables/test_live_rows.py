"""Live rows as streams, and in Polars, DuckDB and pandas: against pyarrow's own filter, and against other readers."""

from __future__ import annotations

from datetime import date
from importlib.metadata import version
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cases import each
from dvcodec import RowSet
from dvcodec.tables import Table, enable, export_live, live_batches, open_table
from dvcodec.tables.rows import data_file
from dvcodec.tables.snapshots.live import implied
from samples.id_tables import MAKERS

pytestmark = pytest.mark.libraries

SIZE = 50
GONE = [0, 3, 49, 50, 77, 120, *range(150, 199)]
"""Of four files of 50 rows, the last keeps one."""
ID = pc.field("id")


def made(kind: str, folder: Path) -> Table:
    MAKERS[kind](folder, 4 * SIZE, SIZE)
    if kind == "iceberg 2":
        enable(open_table(folder))
    open_table(folder).delete(ID.isin(GONE))
    return open_table(folder)


@each("kind", MAKERS)
@each("wanted", [None, ID < 60, ID == 77, ID == 78, ID > 140, pc.bit_wise_and(ID, 7) == 3, ID < 0], ids=str)
def test_every_format_against_pyarrow(kind: str, wanted: Any, tmp_path: Path) -> None:
    table = made(kind, tmp_path / "t")
    live = pa.table({"id": sorted(set(range(4 * SIZE)) - set(GONE))})
    expected = live["id"] if wanted is None else live.filter(wanted)["id"]
    read = table.to_reader(where=wanted).read_all()
    assert read["id"].to_pylist() == expected.to_pylist()
    assert read.schema == table.snapshot().schema() == table.to_reader(["id"], wanted).schema
    assert pa.table(table) == pa.table(table.snapshot()) == table.snapshot().to_reader().read_all()
    rows = export_live(table, tmp_path / "out.parquet", where=wanted)
    assert rows == len(expected)
    assert pq.read_table(tmp_path / "out.parquet")["id"].to_pylist() == expected.to_pylist()
    deleted = live_batches(table, where=wanted, deleted=True)
    gone = pa.table({"id": GONE})
    assert [row for batch in deleted for row in batch["id"].to_pylist()] == (
        gone if wanted is None else gone.filter(wanted)
    )["id"].to_pylist()


# ------------------------------------------------------------------------------------- of several types, with peers

COUNT = 240
ROWS = pa.table(
    {
        "number": pa.array([None if row % 11 == 0 else row for row in range(COUNT)], pa.int64()),
        "price": pa.array([(None, nan, -0.0, inf, -inf, row / 4)[row % 6] for row in range(COUNT)], pa.float64()),
        "word": pa.array([None if row % 13 == 0 else f"w{row:03}" for row in range(COUNT)], pa.string()),
        "day": pa.array([None if row % 17 == 0 else date(2024, 1, 1 + row % 28) for row in range(COUNT)], pa.date32()),
    }
)
DELETED = RowSet([*range(0, 240, 5), *range(60, 120)])
LIVE = ROWS.filter(DELETED.arrow_mask(0, COUNT, keep=True))
number, price, word, day = map(pc.field, ROWS.column_names)


@pytest.fixture(scope="module")
def delta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two data files of three row groups each; deltalake wrote its log."""
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path_factory.mktemp("peers") / "delta"
    half = COUNT // 2
    properties = deltalake.WriterProperties(max_row_group_size=half // 3)
    for start in (0, half):
        part = ROWS.slice(start, half)
        deltalake.write_deltalake(folder, part, mode="append", writer_properties=properties)
    enable(open_table(folder))
    table = open_table(folder)
    first = {pq.read_table(file.location)["word"][1].as_py(): file for file in table.snapshot().data_files}
    numbers = DELETED.to_numpy()
    later = RowSet(numbers[numbers >= half] - half)
    table.delete(positions={first["w001"].path: RowSet(numbers[numbers < half]), first["w121"].path: later})
    return folder


def same(found: Any, expected: pa.Table) -> None:
    """Compare rows in any order; NaN is NaN."""
    lists = [sorted(map(repr, zip(*one.to_pydict().values(), strict=True))) for one in (found, expected)]
    assert lists[0] == lists[1]


def test_the_condition_is_not_asked_of_deleted_rows(delta: Path) -> None:
    """Row 61, which would divide by zero, is deleted."""
    found = open_table(delta).to_reader(["number"], pc.divide(pc.scalar(1000), number - 61) < -900).read_all()
    assert (
        found["number"].to_pylist() == LIVE.filter(pc.divide(pc.scalar(1000), number - 61) < -900)["number"].to_pylist()
    )


def test_row_groups_that_statistics_rule_out_are_not_read(delta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    whole = data_file.skipped_groups

    def noted(file: Any, *args: Any, **options: Any) -> Any:
        skipped = whole(file, *args, **options)
        read.append(file.metadata.num_row_groups - len(skipped))
        return skipped

    monkeypatch.setattr("dvcodec.tables.delta.rows.skipped_groups", noted)
    open_table(delta).to_reader(["word"], number == 122).read_all()
    assert read == [1, 1]  # one data file of two, one row group of three: for the condition, and for the rows


def polars_conditions() -> dict[str, Any]:
    pl = pytest.importorskip("polars")
    number, price, word, day = (pl.col(name) for name in ROWS.column_names)
    return {
        "less": number < 30,
        "null": number.is_null(),
        "NaN is more than all": price > 3,
        "NaN equals NaN": price == nan,  # noqa: PLW0177
        "values": number.is_in([3, 4, 200]),
        "values and null": number.is_in([3, None]),
        "words": word.is_in(["w004", "w233"]),
        "between": number.is_between(100, 130, closed="left"),
        "text": (word >= "w130") & (word < "w140"),
        "days": day == date(2024, 1, 3),
        "or": (number < 10) | (word == "w233"),
        "or of what is not known": (number < 10) | (price > 30),
        "the other way round": pl.lit(230) < number,
        "a fraction": number < 30.5,
        "of two columns": number > price,
        "beyond the type": number < 2**70,
    }


def polars_version() -> tuple[int, ...]:
    return tuple(map(int, version("polars").split(".")[:2]))


def test_polars_filters_as_it_filters_its_own_scan(delta: Path) -> None:
    pl = pytest.importorskip("polars")
    from deltalake.exceptions import DeltaProtocolError

    frame, expected = open_table(delta).to_polars(), pl.from_arrow(LIVE)
    for name, condition in polars_conditions().items():
        if name == "beyond the type" and polars_version() < (1, 36):
            continue  # an error in its own frames, too
        same(frame.filter(condition).collect().to_arrow(), expected.filter(condition).to_arrow())
        days = expected.filter(condition).select("day")
        same(frame.filter(condition).select("day").collect().to_arrow(), days.to_arrow())
        try:
            scanned = pl.scan_delta(str(delta)).filter(condition).collect()
        except DeltaProtocolError:
            assert polars_version() < (1, 40)  # which does not read vectors yet
        else:
            same(frame.filter(condition).collect().to_arrow(), scanned.to_arrow())


def test_polars_passes_on_what_pyarrow_understands_alike() -> None:
    pytest.importorskip("polars")
    conditions = polars_conditions()
    passed = {name for name, condition in conditions.items() if implied(condition, ROWS.schema) is not None}
    known = {"less", "null", "values", "words", "between", "text", "days", "or"}
    assert passed <= known | {"values and null"}
    assert known <= passed or polars_version() < (1, 31)  # which spells text otherwise


@each(
    "query",
    [
        lambda frame, pl: frame.head(60).filter(pl.col("number") > 40),
        lambda frame, pl: frame.filter(pl.col("number") > 40).head(60),
        lambda frame, pl: frame.head(60).filter(pl.col("word").is_null()).select("day"),
        lambda frame, pl: frame.filter(pl.col("price") > 3).head(9).filter(pl.col("number") > 20),
        lambda frame, pl: frame.filter(pl.col("number") > 30).slice(20, 40),
        lambda frame, pl: frame.with_row_index().filter(pl.col("number") > 30).head(7),
        lambda frame, pl: frame.tail(50).filter(pl.col("number") > 200),
        lambda frame, pl: frame.head(0).filter(pl.col("number") > 3),
        lambda frame, _: frame.select("word", "number").head(3),
        lambda frame, pl: frame.select(pl.len()),
    ],
)
def test_polars_takes_first_rows_before_or_after_a_filter(delta: Path, query: Any) -> None:
    pl = pytest.importorskip("polars")
    frame = open_table(delta).snapshot().to_polars()
    assert frame.collect_schema().names() == ROWS.column_names
    found = query(frame, pl).collect()
    assert repr(found.to_dicts()) == repr(query(pl.from_arrow(LIVE).lazy(), pl).collect().to_dicts())


SQL = (
    "number IS NULL",
    "price > 3",
    "isnan(price)",
    "price = 'nan'::DOUBLE",
    "price = 0",
    "number IN (3, 4, 201, 202, 203)",
    "word IN ('w004', 'w233', 'w002')",
    "word BETWEEN 'w130' AND 'w139'",
    "day = DATE '2024-01-03'",
    "number < 10 OR word = 'w233'",
    "word LIKE 'w23%'",
)


@each("condition", SQL)
def test_duckdb_filters_as_it_filters_its_own_table(delta: Path, condition: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    view = open_table(delta).to_duckdb(connection, "live")
    connection.from_arrow(LIVE).create("own")
    for columns in ("*", "day", "count(*)"):
        expected = connection.sql(f"SELECT {columns} FROM own WHERE {condition}").fetchall()
        assert repr(connection.sql(f"SELECT {columns} FROM live WHERE {condition}").fetchall()) == repr(expected)
    assert len(view.fetchall()) == len(LIVE) == connection.sql("SELECT count(*) FROM live").fetchall()[0][0]


def test_pandas(delta: Path) -> None:
    pytest.importorskip("pandas")
    frame = open_table(delta).to_pandas(["number"], number > 200)
    assert frame["number"].tolist() == LIVE.filter(number > 200)["number"].to_pylist()


@each("rows", [1, 7, 50, 1000])
def test_masks_of_many_batches_at_once(delta: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dvcodec.tables.snapshots.live._MASK_ROWS", rows)
    for batch_rows in (3, 16, 100):
        for where in (None, number > 100):
            batches = live_batches(open_table(delta), where=where, batch_rows=batch_rows)
            expected = LIVE if where is None else LIVE.filter(where)
            assert repr(pa.Table.from_batches(batches).to_pydict()) == repr(expected.to_pydict())

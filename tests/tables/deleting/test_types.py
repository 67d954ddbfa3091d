"""Columns of every logical type in SQL text: the rows that DuckDB finds in a table that has the type itself."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

from cases import each
from dvcodec import UsageError
from dvcodec.tables import open_table
from dvcodec.tables.deleting.predicate import where_finder
from tables.deleting.random_tables import folder_table
from tables.deleting.test_sql import bound, matched
from tables.deleting.type_cases import CASES, FORMS, Case, condition

pytestmark = pytest.mark.libraries

pc = cast("Any", pyarrow.compute)
duckdb = pytest.importorskip("duckdb", "2.0")


def rows_of(case: Case) -> pa.Table:
    """Each value with each number of a form."""
    values = pa.table([case.array], schema=pa.schema([case.field])).take(np.tile(np.arange(4), FORMS))
    return values.append_column("form", pa.array(np.repeat(np.arange(FORMS), 4)))


def native(case: Case, text: str) -> list[int]:
    """What DuckDB finds, that has the values from text."""
    database: Any = duckdb.connect(config={"threads": "1"})
    database.execute("SET TimeZone = 'UTC'")
    database.execute(f"CREATE TABLE one (x {case.duckdb}, place INTEGER)")
    database.executemany("INSERT INTO one VALUES (?, ?)", [(value, i) for i, value in enumerate([*case.texts, None])])
    query = f"SELECT form * 4 + place FROM one, range({FORMS}) AS forms(form) WHERE {text}"
    return sorted(row[0] for row in database.execute(query).fetchall())


@each("case", CASES, ids=lambda case: case.name)
def test_each_type_is_itself(case: Case) -> None:
    text = condition(case, natural=True)
    assert matched(text, rows_of(case)) == native(case, text)
    if case.duckdb not in ("VARCHAR", "JSON"):
        with pytest.raises(UsageError, match=r"LIKE is for text: CAST\(column AS VARCHAR\)"):
            bound("x LIKE '%1%'", rows_of(case))


UUIDS = [uuid.UUID(int=number << 96) for number in (1, 2, 2**31, 2**32 - 1)]
U = pc.field("u")


def ids_found(location: Path, where: Any) -> list[int]:
    snapshot = open_table(str(location)).snapshot()
    finder = where_finder(where)
    finder.prepare(snapshot)
    ids = []
    for file in snapshot.data_files:
        if finder.may_match(snapshot, file):
            of_file = [i for part in snapshot.rows(file, columns=["id"]) for i in part.batch["id"].to_pylist()]
            ids += [of_file[row] for row in finder.find(snapshot, file).rows]
    return sorted(ids)


def rows_with_uuids() -> pa.Table:
    stored = pa.array([*(value.bytes for value in UUIDS), None], pa.binary(16))
    return pa.table({"id": range(5), "u": pa.ExtensionArray.from_storage(pa.uuid(), stored)})


def written_by_pyiceberg(folder: Path) -> None:
    folder_table(folder, rows_with_uuids().schema).append(rows_with_uuids())


def written_by_pylance(folder: Path) -> None:
    lance = pytest.importorskip("lance.dataset")
    lance.write_dataset(rows_with_uuids(), str(folder), max_rows_per_file=2)


@pytest.mark.parametrize("write", [written_by_pyiceberg, written_by_pylance])
def test_uuids_of_tables(write: Any, tmp_path: Path) -> None:
    write(tmp_path / "t")
    texts, bytes_of = [f"'{value}'" for value in UUIDS], [value.bytes for value in UUIDS]
    cases: list[tuple[Any, list[int]]] = [
        (f"u = {texts[1]}", [1]),
        (f"u < {texts[2]}", [0, 1]),
        (f"u NOT IN ({texts[0]}, {texts[3]})", [1, 2]),
        ("CAST(u AS VARCHAR) LIKE '80%'", [2]),
        ("u IS NULL", [4]),
        (bytes_of[1] == U, [1]),
        (pc.scalar(bytes_of[2]) > U, [0, 1]),
        (U.isin([bytes_of[0], bytes_of[3]]), [0, 3]),
        (U.is_null(), [4]),
    ]
    for where, ids in cases:
        assert ids_found(tmp_path / "t", where) == ids, where
    for expression in (
        str(UUIDS[1]) == U,
        U.isin([str(UUIDS[1])]),
        U < b"\x80",
        # pyarrow 19 ends the process when it prints or pickles a literal of an extension type.
        *([] if pa.__version__.startswith("19.") else [pa.scalar(bytes_of[1], pa.uuid()) == U]),
        pc.starts_with(U, "80"),
        U.cast("string") == "x",
    ):
        with pytest.raises(
            UsageError, match=r"column u has values of type arrow.uuid: compare it with uuid.UUID\('...'\).bytes"
        ):
            ids_found(tmp_path / "t", expression)


def test_uuids_within_columns(tmp_path: Path) -> None:
    """A field is compared by its path, with bytes; other parts are for SQL text."""
    ids = rows_with_uuids().column("u").combine_chunks()
    parts = pa.StructArray.from_arrays([ids], ["u"]), pa.ListArray.from_arrays(np.arange(6), ids)
    rows = pa.table({"id": range(5), "st": parts[0], "l": parts[1]})
    folder_table(tmp_path / "t", rows.schema).append(rows)
    values = [value.bytes for value in UUIDS]
    inner = pc.field("st", "u")
    for where, found in (
        (inner == values[1], [1]),
        (pc.list_value_length(pc.field("l")) == 1, [0, 1, 2, 3, 4]),
        (f"st.u > '{UUIDS[1]}' AND l[1] < '{UUIDS[3]}'", [2]),
        (f"st = {{'u': UUID '{UUIDS[1]}'}} OR l = [UUID '{UUIDS[2]}']", [1, 2]),
    ):
        assert ids_found(tmp_path / "t", where) == found
    for wrong, message in (
        (inner == str(UUIDS[1]), "column u .*compare it with uuid"),
        (pc.list_element(pc.field("l"), 0) == str(UUIDS[1]), "column l .*use SQL text"),
        (pc.struct_field(pc.field("st"), "u") == str(UUIDS[1]), "column st .*use SQL text"),
    ):
        with pytest.raises(UsageError, match=message):
            ids_found(tmp_path / "t", wrong)

"""Rows by predicates and keys in small tables that the engines made, against Python over the rows as read."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dvcodec import RowSet
from dvcodec.core.errors import Unsupported
from dvcodec.tables import DataFile, Snapshot
from dvcodec.tables.deleting.keys import joinable, keys_finder
from dvcodec.tables.deleting.plan import Finder
from dvcodec.tables.deleting.predicate import where_finder
from interop.truth import read_truth
from tables.test_engines import FOLDER, TABLES

pytestmark = pytest.mark.libraries

SOME = 3
"""Values of a column that are looked for."""


@pytest.fixture(params=TABLES)
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    folder = FOLDER / request.param
    (made,) = read_truth(folder / "truth.json", folder / "table")
    return made.open().snapshot()


def contents(snapshot: Snapshot) -> dict[str, pa.Table]:
    """Rows of the data files that can be read, by path."""
    found = {}
    for file in snapshot.data_files:
        try:
            found[file.path] = pa.Table.from_batches([part.batch for part in snapshot.rows(file)], snapshot.schema())
        except Unsupported:
            continue
    return found


def search(finder: Finder, snapshot: Snapshot, rows: dict[str, pa.Table]) -> dict[str, RowSet]:
    finder.prepare(snapshot)
    files: list[DataFile] = [file for file in snapshot.data_files if file.path in rows]
    return {
        file.path: finder.find(snapshot, file).rows if finder.may_match(snapshot, file) else RowSet() for file in files
    }


def expected(rows: dict[str, pa.Table], name: str, wanted: set[Any]) -> dict[str, RowSet]:
    return {
        path: RowSet(i for i, value in enumerate(table.column(name).to_pylist()) if hashable(value) in wanted)
        for path, table in rows.items()
    }


def hashable(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def test_values_of_each_column(snapshot: Snapshot) -> None:
    rows = contents(snapshot)
    tried = 0
    for field in snapshot.schema():
        try:
            joinable(field.type, field.name)
        except ValueError:
            continue
        every = pa.concat_tables([table.select([field.name]) for table in rows.values()])
        some = [value for value in dict.fromkeys(every.column(0).to_pylist()) if value is not None][:SOME]
        if not some:
            continue
        keys = pa.table({field.name: pa.array([*some, None], field.type)})
        wanted = expected(rows, field.name, {hashable(value) for value in some})
        assert search(keys_finder(keys, [field.name]), snapshot, rows) == wanted, field
        first = some[0]
        if hashable(first) != "nan":
            equal = where_finder(pc.field(field.name) == pa.scalar(first, field.type))
            assert search(equal, snapshot, rows) == expected(rows, field.name, {first}), field
        null = where_finder(pc.field(field.name).is_null())
        assert search(null, snapshot, rows) == expected(rows, field.name, {None}), field
        tried += 1
    assert tried

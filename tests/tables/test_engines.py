"""Small tables that the engines made, at every state, against what the engines said of them; needs no engine.

tests/interop/test_tables.py does the same with all the tables that interop/spark makes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")

from dvcodec.tables import TableKind
from interop import truth
from interop.truth import MadeTable, read_truth
from tables.true_bounds import check_bounds

FOLDER = Path(__file__).parents[1] / "vectors" / "tables"
TABLES = {
    "iceberg/spark-1.12.0/evolved": 5,
    "iceberg/spark-1.12.0/upgraded": 7,
    "delta/spark-4.4.0/named": 11,
    "delta/spark-4.4.0/checkpointed": 6,
    "delta/spark-4.4.0/compacted": 10,
    "paimon/java-1.4.2/changed64": 7,
    "paimon/java-1.4.2/merged32": 4,
    "paimon/spark-0.9.0/changed": 9,
}
"""Tables, and their states."""
LEFT = {"changed64": 2}
"""The index files of a commit that was rolled back."""


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> MadeTable:
    folder = FOLDER / request.param
    (found,) = read_truth(folder / "truth.json", folder / "table")
    return found


def test_all_is_there() -> None:
    found = {path.parent.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*/*/truth.json")}
    assert found == TABLES.keys()
    for name, states in TABLES.items():
        (table,) = read_truth(FOLDER / name / "truth.json", FOLDER / name / "table")
        assert len(table.states) == states
        assert any(state.vectors for state in table.states)


def test_states(table: MadeTable) -> None:
    truth.check_states(table)


def test_data_files_and_vectors(table: MadeTable) -> None:
    truth.check_listing(table)


def test_bounds_hold_what_is_in_the_files(table: MadeTable) -> None:
    for opened, snapshot, _ in table.snapshots():
        known, _ = check_bounds(snapshot)
        assert known or opened.kind is not TableKind.ICEBERG


def test_deleted_positions(table: MadeTable) -> None:
    truth.check_deleted(table)


def test_live_rows(table: MadeTable) -> None:
    truth.check_live_rows(table)


@pytest.mark.parametrize(
    "name", ["iceberg/spark-1.12.0/evolved", "paimon/java-1.4.2/changed64", "paimon/spark-0.9.0/changed"]
)
def test_live_rows_as_of_now(name: str) -> None:
    """The schema is newer than the current state."""
    (table,) = read_truth(FOLDER / name / "truth.json", FOLDER / name / "table")
    truth.check_head(table)


def test_audit(table: MadeTable) -> None:
    """Nothing but what engines left, and that Iceberg's tables are not where their metadata says."""
    for state in table.states:
        truth.check_audit(table, state, left=LEFT.get(table.name, 0), moved=table.engine == "iceberg")
    if table.engine in truth.VECTOR_FILES:
        # Where a commit deleted all rows of a data file.
        assert len(truth.orphans(table)) == (table.name == "compacted")

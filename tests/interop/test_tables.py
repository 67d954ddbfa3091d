"""Whole tables by the released Spark connectors, at every state: opened, listed, read and audited without an engine.

`make interop-spark` gets the connectors; interop/spark/README.md says what the tables went through.
"""

from __future__ import annotations

import pytest

import amounts
from interop import truth
from interop.connectors import TABLES, Key
from interop.truth import MadeTable

pytest.importorskip("fastavro")

# The same process as the tests with Spark: the tables are made once.
pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("spark")]

LEFT = {("paimon-library", "changed32"): 2, ("paimon-library", "changed64"): 2}
"""The index files of a commit that was rolled back."""


@pytest.fixture(params=TABLES, ids="-".join)
def table(made: dict[Key, MadeTable], request: pytest.FixtureRequest) -> MadeTable:
    return made[request.param]


def test_every_table_is_tested(made: dict[Key, MadeTable]) -> None:
    assert sorted(made) == sorted(TABLES)


def test_states(table: MadeTable) -> None:
    truth.check_states(table)


def test_data_files_and_vectors(table: MadeTable) -> None:
    truth.check_listing(table)


def test_deleted_positions(table: MadeTable) -> None:
    truth.check_deleted(table)


def test_live_rows(table: MadeTable) -> None:
    truth.check_live_rows(table)


def test_live_rows_as_of_now(made: dict[Key, MadeTable]) -> None:
    """Where the schema is newer than the current state."""
    newer = [table for table in made.values() if table.head is not None]
    assert len(newer) == amounts.of(3, 4)
    for table in newer:
        truth.check_head(table)


def test_audit(table: MadeTable) -> None:
    for state in table.states:
        truth.check_audit(table, state, left=LEFT.get((table.engine, table.name), 0))

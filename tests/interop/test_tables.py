"""Whole tables by the released Spark connectors, at every state: opened, listed, read and audited without an engine.

`make interop-spark` gets the connectors; interop/spark/README.md says what the tables went through.
"""

from __future__ import annotations

import pytest

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


def test_states(table: MadeTable) -> None:
    truth.check_states(table)


def test_data_files_and_vectors(table: MadeTable) -> None:
    truth.check_listing(table)


def test_deleted_positions(table: MadeTable) -> None:
    truth.check_deleted(table)


def test_live_rows(table: MadeTable) -> None:
    truth.check_live_rows(table)


def test_audit(table: MadeTable) -> None:
    for state in table.states:
        truth.check_audit(table, state, left=LEFT.get((table.engine, table.name), 0))

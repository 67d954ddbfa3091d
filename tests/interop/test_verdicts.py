"""What engines make of tables whose metadata contradicts their vectors: why each such finding has its severity.

The tables are those of tests/tables/contradictions.py, whose audits tests/tables/test_contradictions.py looks at.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pyarrow as pa
import pytest

from dvcodec.tables import open_table
from dvcodec.tables.auditing import audit
from interop.driver import PyPaimon, need
from interop.engines import Engines
from samples import contradictions

pytestmark = pytest.mark.interop

ALL, LIVE = 256, 188
"""Rows of the Delta tables."""
REFUSED = "refused"


# ---------------------------------------------------------------------- Delta

DELTA = {
    # Polars, deltalake's pyarrow reader (which has no vectors), deltalake's DataFusion: rows and nulls among the ids.
    "healthy": ((LIVE, 0), REFUSED, (LIVE, 0)),
    "old protocol": ((ALL, 0), (ALL, 0), (LIVE, 0)),
    "legacy protocol": (REFUSED, (ALL, 0), (LIVE, 0)),
    "no feature": ((ALL, 0), (ALL, 0), (LIVE, 0)),
    "no feature, off": ((ALL, 0), (ALL, 0), (LIVE, 0)),
    "readers only": (REFUSED, REFUSED, REFUSED),
    "writers only": (REFUSED, REFUSED, REFUSED),
    "writers only, old readers": (REFUSED, REFUSED, REFUSED),
    "append only": ((LIVE, 0), REFUSED, (LIVE, 0)),
    "append only, no feature": ((LIVE, 0), REFUSED, (LIVE, 0)),
    "off": ((LIVE, 0), REFUSED, (LIVE, 0)),
    "mapped": (REFUSED, REFUSED, (LIVE, 0)),
    "mapped, no feature": ((LIVE, LIVE), REFUSED, (LIVE, LIVE)),
    "mapped, writers only": ((LIVE, LIVE), REFUSED, (LIVE, 0)),
}


@pytest.mark.parametrize("name", contradictions.DELTA)
def test_delta_in_python(name: str, tmp_path: Path) -> None:
    """Of three readers none does the right thing with all of them."""
    polars, deltalake = pytest.importorskip("polars"), pytest.importorskip("deltalake")
    root = str(tmp_path / "t")
    contradictions.make_delta(name, tmp_path / "t")

    def by_polars() -> tuple[int, int]:
        frame = polars.read_delta(root)
        return frame.height, frame["id"].null_count()

    def by_pyarrow() -> tuple[int, int]:
        found = deltalake.DeltaTable(root).to_pyarrow_table()
        return found.num_rows, found["id"].null_count

    def by_datafusion() -> tuple[int, int]:
        batches = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(root)).execute("SELECT id FROM t")
        found = pa.table(batches) if hasattr(batches, "__arrow_c_stream__") else pa.Table.from_batches(batches)
        return found.num_rows, found["id"].null_count

    answers: list[object] = []
    for reader in (by_polars, by_pyarrow, by_datafusion):
        try:
            answers.append(reader())
        except Exception:  # noqa: BLE001  (each library has errors of its own)
            answers.append(REFUSED)
    assert tuple(answers) == DELTA[name]


NOT_LISTED = "enabled in metadata but not listed in protocol: "
SPARK_DELTA: dict[str, int | str] = dict.fromkeys(DELTA, LIVE) | {
    **dict.fromkeys(("old protocol", "legacy protocol", "no feature, off"), ALL),
    **dict.fromkeys(("no feature", "readers only"), f"{NOT_LISTED}deletionVectors"),
    "append only, no feature": f"{NOT_LISTED}appendOnly",
    "mapped, no feature": f"{NOT_LISTED}columnMapping",
}


@pytest.mark.xdist_group("spark")
def test_delta_in_spark(engines: Engines, tmp_path: Path) -> None:
    assert SPARK_DELTA.keys() == contradictions.DELTA.keys()
    for name, expected in SPARK_DELTA.items():
        contradictions.make_delta(name, tmp_path / name)
        found = engines.answer("delta-scan", root=str(tmp_path / name))
        if isinstance(expected, str):
            assert expected in found["error"], name
        else:
            assert len(found["result"]) == expected, name


# ---------------------------------------------------------------------- Iceberg

SPARK_ICEBERG: dict[str, int | str] = {
    "healthy": 197,
    "partitioned": 197,
    "other tuple": "Mismatched partition tuples (PartitionData{name=b}, PartitionData{name=a})",
    "other spec": "Mismatched partition specs (1, 0)",
    "older": "DV data sequence number (1) must be greater than or equal to data file sequence number (2)",
    "version 2": 197,
    "deletes of another tuple": "Mismatched partition tuples",
    "deletes of another tuple, by bounds": "Mismatched partition tuples",
    "deletes of another partition": 200,
    "deletes of another scheme": 200,
}


@pytest.mark.xdist_group("spark")
def test_iceberg_in_spark(engines: Engines, tmp_path: Path) -> None:
    """Java plans no scan of most of these tables."""
    assert SPARK_ICEBERG.keys() == contradictions.ICEBERG.keys()
    for name, expected in SPARK_ICEBERG.items():
        folder = tmp_path / name.replace(" ", "-").replace(",", "")
        contradictions.make_iceberg(name, folder)
        found = engines.answer("iceberg-scan", root=str(folder))
        if isinstance(expected, str):
            assert expected in found["error"], name
        else:
            assert len(found["result"]) == expected, name


PYICEBERG = dict.fromkeys(SPARK_ICEBERG, 197) | {"other spec": 200, "deletes of another scheme": 200}
"""pyiceberg 0.12 looks at no partition of position deletes, and at the spec of vectors only."""


@pytest.mark.parametrize("name", contradictions.ICEBERG)
def test_iceberg_in_python(name: str, tmp_path: Path) -> None:
    """pyiceberg applies most of what Java refuses, and passes a vector of another spec over."""
    table = pytest.importorskip("pyiceberg.table")
    contradictions.make_iceberg(name, tmp_path / "t")
    scan = table.StaticTable.from_metadata(str(tmp_path / "t" / "metadata" / "v1.metadata.json")).scan()
    assert scan.to_arrow().num_rows == PYICEBERG[name]


# ---------------------------------------------------------------------- Paimon

LIVE_OF_PAIMON = {"healthy": 297, "off": 300, "not set": 300, "off by now": 300, "on by now": 297}


@pytest.mark.parametrize("name", contradictions.PAIMON)
def test_paimon_in_python(name: str, pypaimon: PyPaimon, tmp_path: Path) -> None:
    findings = contradictions.make_paimon(name, tmp_path / "db.db" / "t")
    rows = json.loads(pypaimon.run("table-scan", tmp_path))
    assert len(rows) == LIVE_OF_PAIMON[name]
    assert (len(rows) == 300) == bool(findings)


@pytest.mark.xdist_group("spark")
def test_paimon_in_java(engines: Engines, tmp_path: Path) -> None:
    for name, expected in LIVE_OF_PAIMON.items():
        contradictions.make_paimon(name, tmp_path / name)
        assert len(engines.ask("paimon-scan", root=str(tmp_path / name))) == expected, name


# ---------------------------------------------------------------------- Lance


def test_lance_goes_by_the_manifest(tmp_path: Path) -> None:
    """The manifest says 90 rows, the file has 100, and 3 are deleted: pylance counts and returns 87."""
    need(importlib.util.find_spec("lance.fragment") is not None, "pylance")
    import lance as pylance

    path = str(tmp_path / "t")
    pylance.write_dataset(pa.table({"id": range(100)}), path)
    pylance.dataset(path).delete("id IN (1, 5, 7)")
    table = open_table(path)
    assert audit(table, deep=True).findings == ()
    contradictions.shrink_fragment(tmp_path / "t")
    assert pylance.dataset(path).count_rows() == 87
    assert pylance.dataset(path).to_table()["id"].to_pylist()[-1] == 89  # ten rows that nobody deleted are gone
    assert audit(open_table(path)).findings == ()
    (finding,) = audit(open_table(path), deep=True).findings
    assert (finding.check, finding.expected, finding.actual) == (
        "physical-rows",
        "90 rows (metadata)",
        "100 rows (its footer)",
    )


def test_an_error_is_what_an_engine_gets_wrong(tmp_path: Path) -> None:
    """And only that: a reader that does not know a feature at all (pyarrow vectors, polars mapping) proves nothing."""
    for name, (polars, _, datafusion) in DELTA.items():
        contradictions.make_delta(name, tmp_path / name)
        wrong = {polars, datafusion} != {(LIVE, 0)} or SPARK_DELTA[name] != LIVE
        assert audit(open_table(str(tmp_path / name))).ok != (wrong and name != "mapped"), name

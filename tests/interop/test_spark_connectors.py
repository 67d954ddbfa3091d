"""Tables by the released Spark connectors: their vectors, applied here, leave exactly the rows that the engines return.

`make interop-spark` gets the connectors; interop/spark/make_tables.py makes the tables, and writes down what is true.
The latest state of each is looked at here; `test_tables` opens whole tables, at all states.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dvcodec
from interop.connectors import PLAIN_TABLES, Key
from interop.truth import MadeTable

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

from spark import conftest as in_spark

# A JVM is large: the same process, and the same session, as all other tests with Spark.
pytestmark = [
    pytest.mark.interop,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("default"),
]
spark = in_spark.spark

COLUMNS = ["id", "part", "name", "price", "day"]


@dataclass(frozen=True)
class Table:
    """What is true of the latest snapshot of a table; see interop/spark/common.py."""

    engine: str
    name: str
    root: str
    version: int
    live: pa.Table
    files: list[dict[str, Any]]
    vectors: list[dict[str, Any]]
    condition: str | None


def latest(table: MadeTable) -> Table:
    state = table.latest
    live = state.rows().select(COLUMNS)
    files = [{"path": path, "rows": rows} for path, rows in state.files.items()]
    rows = in_order(live, live.schema)
    return Table(table.engine, table.name, table.root, state.version, rows, files, state.vectors, state.condition)


@pytest.fixture(params=PLAIN_TABLES, ids="-".join)
def table(made: dict[Key, MadeTable], request: pytest.FixtureRequest) -> Table:
    return latest(made[request.param])


def in_order(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return rows.select(COLUMNS).cast(schema).sort_by([(name, "ascending") for name in COLUMNS]).combine_chunks()


def assert_same_rows(found: pa.Table, table: Table) -> None:
    found = in_order(found, table.live.schema)
    assert found.num_rows == table.live.num_rows
    for name in COLUMNS:
        assert found[name].equals(table.live[name]), name


def stored_vectors(spark: SparkSession, table: Table) -> tuple[DataFrame, list[dict[str, Any]]]:
    """Return every vector in the table's folder, and of those that are live what the data source says of them."""
    from pyspark.sql import functions as sf

    from dvcodec.spark import register

    register(spark)
    stored = spark.read.format("dvcodec").option("ignore-others", "true").load(table.root)
    listed = stored.select(*[name for name in stored.columns if name not in ("dv", "containers")]).collect()
    live = {(vector["container"], vector["offset"]) for vector in table.vectors}
    known = [row.asDict() for row in listed if (local(row["container"]), row["offset"]) in live]
    # As a join on the container and the offset in it: what a log or a manifest knows a vector by.
    names = spark.createDataFrame(
        [
            (next(row["container"] for row in known if local(row["container"]) == v["container"]), v["offset"], of(v))
            for v in table.vectors
        ],
        "container string, offset long, named string",
    )
    joined = stored.join(names, ["container", "offset"])
    data_file = "data_file" if table.engine == "iceberg" else "named"
    return joined.select(sf.col(data_file).alias("data_file"), "dv"), known


def of(vector: dict[str, Any]) -> str:
    """How the table itself names the data file of a vector: Paimon without folders."""
    name: str = vector["details"].get("name", vector["data_file"])
    return name


def local(path: str) -> str:
    return "/" + path.removeprefix("file:").lstrip("/")


def test_rows_that_the_data_source_and_apply_leave(spark: SparkSession, table: Table) -> None:
    from dvcodec.spark.jobs import apply

    vectors, known = stored_vectors(spark, table)
    expected = {(vector["container"], vector["offset"]): vector for vector in table.vectors}
    found = {(local(row["container"]), row["offset"]): row for row in known}
    assert found.keys() == expected.keys()
    assert len(found) == len(known)
    for key, row in found.items():
        assert row["error"] is None
        assert row["crc_ok"] is True
        assert row["size"] - expected[key]["length"] == (8 if counts_bitmap_alone(table) else 0)
        if table.engine == "paimon":
            assert expected[key]["cardinality"] is None, "0.9 records none"
        else:
            assert row["cardinality"] == expected[key]["cardinality"]
        if table.engine == "iceberg":
            assert local(row["data_file"]) == expected[key]["data_file"]

    rows = spark.read.parquet(*(file["path"] for file in table.files))
    live = apply(rows, vectors, match="name" if table.engine.startswith("paimon") else "path", unmatched="fail")
    if table.condition is not None:
        live = live.where(table.condition)
    else:
        assert (
            sum(file["rows"] for file in table.files) - sum(row["cardinality"] for row in known) == table.live.num_rows
        )
    assert_same_rows(live.select(*COLUMNS).toArrow(), table)


def counts_bitmap_alone(table: Table) -> bool:
    """Whether the lengths that the engine records leave out the length field and the CRC."""
    return table.engine in ("delta", "paimon") or table.name.endswith("32")


def test_tables_are_what_they_are_made_for(made: dict[Key, MadeTable]) -> None:
    """Guards the tests above: every engine replaced vectors, and made all kinds of containers and of paths."""
    for engine, name in PLAIN_TABLES:
        table = latest(made[engine, name])
        on_disk = [path for path in Path(table.root).rglob("*") if is_container(engine, path)]
        stored = [ref for path in on_disk for ref in dvcodec.sniff(path).vectors]
        assert len(stored) > len(table.vectors), f"{engine} {name}: no vector was superseded"
        assert len(table.vectors) > 0
        if name.startswith(("plain", "keyed")):
            assert max(pq.ParquetFile(file["path"]).num_row_groups for file in table.files) > 4
        if name.startswith("parts"):
            paths = " ".join(file["path"].removeprefix(table.root) for file in table.files)
            assert "%25" in paths
            assert "%23" in paths or "#" in paths
            assert "☃" in paths or "%E2%98%83" in paths
            assert engine == "iceberg" or " " in paths
        mixes = [dvcodec.decode_at(v["container"], v["offset"], v["length"]).containers for v in table.vectors]
        if name.startswith("large"):
            assert any(mix.bitsets for mix in mixes)
            assert any(mix.runs for mix in mixes)


def is_container(engine: str, path: Path) -> bool:
    if engine.startswith("paimon"):
        return path.parent.name == "index" and not path.name.startswith(".")
    return path.suffix in (".puffin", ".bin") and path.is_file()

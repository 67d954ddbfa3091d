"""Tables by the released Spark connectors: their vectors, applied here, leave exactly the rows that the engines return.

`make interop-spark` gets the connectors; interop/spark/make_tables.py makes the tables, and writes down what is true.
The latest state of each is looked at here; `test_tables` opens whole tables, at all states.
"""

from __future__ import annotations

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

# A JVM is large: the same process, and the same session, as other tests with Spark.
pytestmark = [
    pytest.mark.interop,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("default"),
]
spark, sources = in_spark.spark, in_spark.sources

COLUMNS = ["id", "part", "name", "price", "day"]


def in_order(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return rows.select(COLUMNS).cast(schema).sort_by([(name, "ascending") for name in COLUMNS]).combine_chunks()


def stored_vectors(spark: SparkSession, table: MadeTable) -> tuple[DataFrame, list[dict[str, Any]]]:
    """Return every vector in the table's folder, and of those that are live what the data source says of them."""
    from pyspark.sql import functions as sf

    stored = spark.read.format("dvcodec").option("ignore-others", "true").load(table.root)
    listed = stored.select(*[name for name in stored.columns if name not in ("dv", "containers")]).collect()
    live = {(vector["container"], vector["offset"]) for vector in table.latest.vectors}
    known = [row.asDict() for row in listed if (local(row["container"]), row["offset"]) in live]
    # As a join on the container and the offset in it: what a log or a manifest knows a vector by.
    spelled = {local(row["container"]): row["container"] for row in known}
    places = [
        (spelled[v["container"]], v["offset"], v["details"].get("name", v["data_file"])) for v in table.latest.vectors
    ]
    joined = stored.join(
        spark.createDataFrame(places, "container string, offset long, named string"), ["container", "offset"]
    )
    return joined.select(sf.col("data_file" if table.engine == "iceberg" else "named").alias("data_file"), "dv"), known


def local(path: str) -> str:
    return "/" + path.removeprefix("file:").lstrip("/")


@pytest.mark.parametrize("key", PLAIN_TABLES, ids="-".join)
def test_rows_that_the_data_source_and_apply_leave(sources: SparkSession, made: dict[Key, MadeTable], key: Key) -> None:
    from dvcodec.spark.jobs import apply

    table = made[key]
    vectors, known = stored_vectors(sources, table)
    expected = {(vector["container"], vector["offset"]): vector for vector in table.latest.vectors}
    found = {(local(row["container"]), row["offset"]): row for row in known}
    assert found.keys() == expected.keys()
    assert len(found) == len(known)
    bitmap_alone = table.engine in ("delta", "paimon") or table.name.endswith("32")
    for place, row in found.items():
        assert (row["error"], row["crc_ok"]) == (None, True)
        assert row["size"] - expected[place]["length"] == (8 if bitmap_alone else 0)
        # 0.9 records none
        assert expected[place]["cardinality"] == (None if table.engine == "paimon" else row["cardinality"])
        if table.engine == "iceberg":
            assert local(row["data_file"]) == expected[place]["data_file"]

    rows, truth = sources.read.parquet(*table.latest.files), table.latest.rows().select(COLUMNS)
    live_rows = apply(rows, vectors, match="name" if table.engine.startswith("paimon") else "path", unmatched="fail")
    if table.latest.condition is not None:
        live_rows = live_rows.where(table.latest.condition)
    else:
        assert sum(table.latest.files.values()) - sum(row["cardinality"] for row in known) == truth.num_rows
    assert in_order(live_rows.select(*COLUMNS).toArrow(), truth.schema).equals(in_order(truth, truth.schema))


def test_tables_are_what_they_are_made_for(made: dict[Key, MadeTable]) -> None:
    """Guards the tests above: every engine replaced vectors, and made all kinds of containers and of paths."""
    for engine, name in PLAIN_TABLES:
        table = made[engine, name]
        vectors, files = table.latest.vectors, table.latest.files
        on_disk = [path for path in Path(table.root).rglob("*") if is_container(engine, path)]
        stored = [ref for path in on_disk for ref in dvcodec.sniff(path).vectors]
        assert len(stored) > len(vectors) > 0, f"{engine} {name}: no vector was superseded"
        if name.startswith(("plain", "keyed")):
            assert max(pq.ParquetFile(path).num_row_groups for path in files) > 4
        if name.startswith("parts"):
            paths = " ".join(path.removeprefix(table.root) for path in files)
            assert "%25" in paths
            assert "%23" in paths or "#" in paths
            assert "☃" in paths or "%E2%98%83" in paths
            assert engine == "iceberg" or " " in paths
        if name.startswith("large"):
            mixes = [dvcodec.decode_at(v["container"], v["offset"], v["length"]).containers for v in vectors]
            assert any(mix.bitsets for mix in mixes)
            assert any(mix.runs for mix in mixes)


def is_container(engine: str, path: Path) -> bool:
    if engine.startswith("paimon"):
        return path.parent.name == "index" and not path.name.startswith(".")
    return path.suffix in (".puffin", ".bin") and path.is_file()

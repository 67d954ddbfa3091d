"""Iceberg tables whose data files are ORC or Avro: the rows that Spark reads, before and after deletes of both."""

from __future__ import annotations

from typing import Any

import pytest

from dvcodec.tables import audit, live_batches, open_table
from interop.engines import Engines

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("spark")]

COLUMNS = (
    "id BIGINT, flag BOOLEAN, small INT, ratio FLOAT, wide DOUBLE, price DECIMAL(20, 4), day DATE, moment TIMESTAMP, "
    "local TIMESTAMP_NTZ, name STRING, bytes BINARY, place STRUCT<x: INT, y: STRING>, tags ARRAY<STRING>, "
    "counts MAP<STRING, BIGINT>, ranks MAP<INT, DECIMAL(9, 2)>, spans ARRAY<STRUCT<a: DATE, b: DECIMAL(30, 3)>>"
)
VALUES = (
    "SELECT id, id % 2 = 0, CAST(id AS INT), CAST(id / 4 AS FLOAT), id / 8, CAST(id AS DECIMAL(20, 4)) / 3, "
    "date_add(DATE '1969-12-01', CAST(id AS INT)), timestamp_micros(id * 86400000123 - 1000000), "
    "TIMESTAMP_NTZ '2024-01-01 00:00:00.000001' + make_interval(0, 0, 0, CAST(id AS INT)), "
    "IF(id % 7 = 0, NULL, 'row ' || id), unhex(hex(id)), IF(id % 5 = 0, NULL, named_struct('x', CAST(id AS INT), 'y', "
    "'y' || id)), array('a', NULL, 'n' || id), map('k', id), map(CAST(id AS INT), CAST(-id AS DECIMAL(9, 2)) / 4), "
    "array(named_struct('a', DATE '2024-02-29', 'b', CAST(-id AS DECIMAL(30, 3)) * 1000000000000), NULL)"
)


def live(root: str) -> list[dict[str, Any]]:
    rows = [row for batch in live_batches(open_table(root)) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_spark_and_dvcodec_read_the_same_rows(engines: Engines, file_format: str) -> None:
    def sql(statement: str) -> list[list[Any]]:
        found: list[list[Any]] = engines.ask("iceberg-sql", name=file_format, statement=statement)
        return found

    def both() -> list[int]:
        """The ids, after a look at each column as text, as Spark writes it."""
        rows = live(root)
        texts = "id, CAST(ratio AS STRING), CAST(price AS STRING), CAST(day AS STRING), unix_micros(moment), "
        texts += "CAST(local AS STRING), name, hex(bytes), place.x, place.y, tags[2], counts['k'], "
        texts += "CAST(ranks[id] AS STRING), CAST(spans[0].a AS STRING), CAST(spans[0].b AS STRING), spans[1] IS NULL"
        for row, theirs in zip(rows, sql(f"SELECT {texts} FROM {{table}} ORDER BY id"), strict=True):
            place = row["place"] or {"x": None, "y": None}
            seconds, micros = divmod(theirs[4], 1_000_000)
            assert row["moment"].timestamp() == pytest.approx(seconds + micros / 1e6)
            assert row["moment"].microsecond == micros
            ours = [row["id"], row["ratio"], str(row["price"]), str(row["day"]), str(row["local"]), row["name"]]
            ours += [row["bytes"].hex().upper(), place["x"], place["y"], row["tags"][2], dict(row["counts"])["k"]]
            ours += [str(dict(row["ranks"])[row["id"]]), str(row["spans"][0]["a"]), f"{row['spans'][0]['b']:f}"]
            ours += [row["spans"][1] is None]
            assert ours == [theirs[0], float(theirs[1]), *theirs[2:4], *theirs[5:]]
        return [row["id"] for row in rows]

    options = f"'write.format.default' = '{file_format}', 'write.delete.mode' = 'merge-on-read', 'format-version' = '3'"
    table = f"ice.db.{file_format}"
    engines.ask("iceberg-run", statement=f"CREATE TABLE {table} ({COLUMNS}) USING iceberg TBLPROPERTIES ({options})")
    described = dict(row[:2] for row in engines.ask("iceberg-run", statement=f"DESCRIBE TABLE EXTENDED {table}"))
    root = described["Location"].removeprefix("file:")
    sql(f"INSERT INTO {{table}} {VALUES} FROM range(0, 300, 1, 2)")
    assert {file.location.rpartition(".")[2] for file in open_table(root).snapshot().data_files} == {file_format}
    left = set(range(300))
    assert both() == sorted(left)
    sql("DELETE FROM {table} WHERE id % 11 = 3")
    left -= set(range(3, 300, 11))
    assert both() == sorted(left)
    open_table(root).delete("id BETWEEN 50 AND 99 OR name IS NULL")
    left -= {*range(50, 100), *range(0, 300, 7)}
    assert both() == sorted(left)
    sql("DELETE FROM {table} WHERE id < 10")
    left -= set(range(10))
    assert both() == sorted(left)
    assert audit(open_table(root)).ok

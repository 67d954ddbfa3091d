"""Which DataFrames `apply`, `deleted`, `unmatched` and `positions` take: rows equal to plain Python, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from dvcodec import RowSet, UsageError, iceberg
from dvcodec.spark.compat import HAS_SOURCES
from dvcodec.spark.jobs import apply, deleted, positions, unmatched
from dvcodec.spark.jobs.build import origin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.everywhere

FILES, ROWS = 2, 40
IDS = range(FILES * ROWS)
DELETED = {id_ for id_ in IDS if id_ % 3 == 0}


@dataclass(frozen=True)
class Given:
    """Rows ``id, key = id % 4, tags = [id, -id]`` in two files, some of them deleted; as a folder and as a table."""

    spark: SparkSession
    df: DataFrame
    folder: str
    vectors: DataFrame
    keys: DataFrame

    def sql(self, query: str) -> DataFrame:
        return self.spark.sql(query.replace("FILES", f"parquet.`{self.folder}`"))


@pytest.fixture(scope="module")
def given(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Given]:
    folder = tmp_path_factory.mktemp("origin")
    frames = []
    for i in range(FILES):
        ids = np.arange(i * ROWS, (i + 1) * ROWS)
        path = str(folder / f"{i}.parquet")
        pq.write_table(pa.table({"id": ids, "key": ids % 4, "tags": [[n, -n] for n in ids.tolist()]}), path)
        frames.append((path, bytearray(iceberg.encode(RowSet(np.flatnonzero(ids % 3 == 0))))))
    spark.sql(f"CREATE TABLE dvcodec_rows USING parquet LOCATION '{folder}'")
    df = spark.read.parquet(str(folder))
    df.createOrReplaceTempView("dvcodec_view")
    df.select("*", "_metadata").createOrReplaceTempView("dvcodec_view_with_metadata")
    vectors = spark.createDataFrame(frames, "data_file string, dv binary").coalesce(1)
    yield Given(spark, df, str(folder), vectors, spark.sql("SELECT * FROM VALUES (1L), (1L), (2L), (9L) AS k (wanted)"))
    spark.sql("DROP TABLE dvcodec_rows")


Make = Callable[[Given], "DataFrame"]
IN_KEYS = [id_ for id_ in IDS if id_ % 4 in (1, 2)]
IS_ONE = [id_ for id_ in IDS if id_ % 4 == 1]
IS_LARGE = [id_ for id_ in IDS if id_ > 30]

EACH: dict[str, tuple[Make, Iterable[int]]] = {
    "scan": (lambda g: g.df, IDS),
    "filter, projection": (lambda g: g.df.where("id > 30").select("id"), IS_LARGE),
    "new columns": (lambda g: g.df.withColumn("key", sf.col("id") * 2).where("key > 60"), IS_LARGE),
    "aliases, structs": (lambda g: g.df.alias("a").select(sf.struct("a.*").alias("s")).select("s.id"), IDS),
    "sort": (lambda g: g.df.orderBy(sf.desc("id")), IDS),
    "repartition": (lambda g: g.df.repartition(3, "key").repartition(2).coalesce(1).hint("rebalance"), IDS),
    "broadcast hint": (lambda g: sf.broadcast(g.df), IDS),
    "observed": (lambda g: g.df.observe("seen", sf.count(sf.lit(1)).alias("n")), IDS),
    "a function of Python": (lambda g: g.df.where(sf.udf(lambda n: n > 30, "boolean")("id")), IS_LARGE),
    "cached": (lambda g: g.df.where("id >= 31").cache(), IS_LARGE),
    "a cached scan": (lambda g: g.spark.read.parquet(g.folder).cache().where("id > 30"), IS_LARGE),
    "no row": (lambda g: g.df.where("false"), []),
    "explode": (lambda g: g.df.select("id", sf.explode("tags")), [*IDS, *IDS]),
    "lateral view": (lambda g: g.sql("SELECT id, t FROM FILES LATERAL VIEW explode(tags) AS t WHERE t > 30"), IS_LARGE),
    "left semi": (lambda g: g.df.join(g.keys, g.df.key == g.keys.wanted, "left_semi"), IN_KEYS),
    "left anti": (lambda g: g.df.join(g.keys, g.df.key == g.keys.wanted, "left_anti"), [*{*IDS} - {*IN_KEYS}]),
    "semi join with itself": (
        lambda g: g.df.alias("a").join(g.df.where("id > 30").alias("b"), sf.expr("a.id = b.id"), "left_semi"),
        IS_LARGE,
    ),
    "SQL with a hint": (lambda g: g.sql("SELECT /*+ REPARTITION(3) */ * FROM FILES ORDER BY id"), IDS),
    "a table": (lambda g: g.spark.table("dvcodec_rows").where("id > 30"), IS_LARGE),
    "subqueries": (
        lambda g: g.sql(
            "SELECT id, (SELECT max(id) FROM dvcodec_rows) AS most FROM FILES AS f"
            " WHERE key IN (SELECT DISTINCT key FROM dvcodec_view WHERE key IN (1, 2))"
            " AND EXISTS (SELECT 1 FROM dvcodec_rows AS r WHERE r.id = f.id)"
        ),
        IN_KEYS,
    ),
    "already without some rows": (lambda g: apply(g.df, g.vectors, strategy="shuffle"), [*{*IDS} - DELETED]),
}  # fmt: skip

CHOSEN: dict[str, tuple[Make, Iterable[int]]] = {
    "limit": (lambda g: g.df.orderBy("id").limit(4), range(4)),
    "offset": (lambda g: g.df.orderBy("id").offset(77), range(77, 80)),
    "window": (
        lambda g: g.df.withColumn("n", sf.row_number().over(Window.partitionBy("key").orderBy(sf.desc("id")))).where(
            "n = 1"
        ),
        range(76, 80),
    ),
    "SQL with a window": (lambda g: g.sql("SELECT id, count(*) OVER (PARTITION BY key) AS n FROM FILES"), IDS),
}
if HAS_SOURCES:  # so is this of Spark 4.0
    EACH["SQL with pipes"] = (lambda g: g.sql("FROM FILES |> WHERE id > 30 |> SELECT id"), IS_LARGE)

CARRIED: dict[str, tuple[Make, Iterable[int]]] = {
    "join": (
        lambda g: g.df.select("*", "_metadata").join(g.keys, sf.col("key") == sf.col("wanted")),
        [*IN_KEYS, *IS_ONE],
    ),
    "USING": (lambda g: g.df.select("*", "_metadata").join(g.keys.toDF("key"), "key"), [*IN_KEYS, *IS_ONE]),
    "union": (lambda g: g.df.select("*", "_metadata").union(g.df.select("*", "_metadata")), [*IDS, *IDS]),
    "checkpoint": (lambda g: g.df.select("*", "_metadata").localCheckpoint(), IDS),
    "view": (lambda g: g.spark.table("dvcodec_view_with_metadata").where("id > 30"), IS_LARGE),
}

OTHERS: dict[str, tuple[Make, str]] = {
    "distinct": (lambda g: g.df.distinct(), "Deduplicate"),
    "dropDuplicates": (lambda g: g.df.dropDuplicates(["key"]).where("id > 3"), "Deduplicate"),
    "join": (lambda g: g.df.join(g.keys, g.df.key == g.keys.wanted), "Join Inner"),
    "outer join": (lambda g: g.df.join(g.keys, g.df.key == g.keys.wanted, "left"), "Join LeftOuter"),
    "right of a semi join": (lambda g: g.keys.join(g.df, g.df.key == g.keys.wanted, "left_semi"), ""),
    "lateral join": (lambda g: g.sql("SELECT * FROM FILES AS t, LATERAL (SELECT t.id + 1)"), "LateralJoin"),
    "union": (lambda g: g.df.union(g.df), "Union"),
    "aggregate": (lambda g: g.df.groupBy("id").count().where("count > 0"), "Aggregate"),
    "unpivot": (lambda g: g.df.unpivot("id", ["key"], "name", "value"), "Expand"),
    "mapInArrow": (lambda g: g.df.mapInArrow(lambda batches: batches, g.df.schema), r"\w*MapInArrow"),
    "checkpoint": (lambda g: g.df.localCheckpoint(eager=False), "Logical"),
    "view": (lambda g: g.spark.table("dvcodec_view").where("id > 3"), "View"),
    "WITH": (lambda g: g.sql("WITH c AS (SELECT * FROM FILES) SELECT * FROM c AS a, c AS b"), ""),
    "no files": (lambda g: g.spark.range(3), "Range"),
}  # fmt: skip


def collected(frames: dict[str, DataFrame], *columns: str) -> dict[str, list[Any]]:
    """Collect columns of several frames in one job: to plan and start one for each is what takes time."""
    found: dict[str, list[Any]] = {case: [] for case in frames}
    named = [df.select(sf.lit(case).alias("case"), *columns) for case, df in frames.items()]
    for case, *values in reduce(DataFrame.union, named).collect():
        found[case].append(values[0] if len(values) == 1 else tuple(values))
    return {case: sorted(values) for case, values in found.items()}


def placed(given: Given, ids: Iterable[int]) -> list[tuple[str, int]]:
    return sorted((f"file:{given.folder}/{id_ // ROWS}.parquet", id_ % ROWS) for id_ in ids)


def test_rows_of_files(given: Given) -> None:
    frames = {case: make(given) for case, (make, _) in EACH.items()}
    live = {case: apply(df, given.vectors, strategy="broadcast", unmatched="ignore") for case, df in frames.items()}
    assert collected(live, "id") == {
        case: sorted(id_ for id_ in ids if id_ not in DELETED) for case, (_, ids) in EACH.items()
    }


def test_vectors_of_other_files(given: Given) -> None:
    for case in ("scan", "cached", "a cached scan", "no row"):
        found = unmatched(EACH[case][0](given), given.vectors)
        assert found.count() == (FILES if case == "no row" else 0), case


def test_positions_of_rows(given: Given) -> None:
    """To delete rows that a limit or a window chooses is meant, and rows may carry ``_metadata`` through anything."""
    cases = EACH | CHOSEN | CARRIED
    found = collected({case: positions(make(given)) for case, (make, _) in cases.items()}, "file_path", "pos")
    assert found == {case: placed(given, ids) for case, (_, ids) in cases.items()}


@pytest.mark.parametrize("case", CHOSEN)
def test_vectors_come_before_a_choice(case: str, given: Given) -> None:
    """Applied after it, they would leave fewer or other rows than applied before."""
    df = CHOSEN[case][0](given)
    for job in (apply, deleted, unmatched):
        with pytest.raises(
            UsageError, match=rf"^{job.__name__} needs .* come out of (Window|GlobalLimit|Offset): call"
        ):
            job(df, given.vectors)


@pytest.mark.parametrize("case", OTHERS)
def test_other_rows(case: str, given: Given) -> None:
    make, operator = OTHERS[case]
    df = make(given)
    for job in (apply, deleted, unmatched):
        with pytest.raises(
            UsageError, match=rf"^{job.__name__} needs rows .* come out of {operator}\w*: call it before"
        ):
            job(df, given.vectors)
    with pytest.raises(UsageError, match=rf"^positions needs rows .* {operator}\w*: .* _metadata .* left semi join$"):
        positions(df)


def test_a_stream(given: Given, tmp_path: Path) -> None:
    rows = given.spark.readStream.schema(given.df.schema).parquet(given.folder)
    with pytest.raises(UsageError, match="come out of Deduplicate: call it before"):
        apply(rows.dropDuplicates(["id"]), given.vectors)
    live = apply(rows.where("id > 30"), given.vectors, strategy="broadcast", unmatched="ignore")
    writer = live.writeStream.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
    assert writer.start(str(tmp_path / "live"), "parquet").awaitTermination(300)
    found = pq.read_table(str(tmp_path / "live"))["id"].to_pylist()
    assert sorted(found) == [id_ for id_ in IS_LARGE if id_ not in DELETED]


class Printed:
    """A DataFrame of Spark Connect, which has its plan as text only."""

    def __init__(self, *plan: str) -> None:
        self.plan = plan

    def alias(self, name: str) -> Printed:
        return Printed(f"SubqueryAlias {name}", *self.plan)

    def _explain_string(self, *, extended: bool) -> str:
        assert extended
        lines = "\n".join(self.plan)
        heads = "== Parsed Logical Plan ==", "== Analyzed Logical Plan ==", "== Optimized Logical Plan =="
        return f"{heads[0]}\n'{lines}\n\n{heads[1]}\nid: bigint\n{lines}\n\n{heads[2]}\n{lines}"


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        # Line breaks in a literal that look like a child, or like the left side of a join.
        (("+- Filter (text = a", "   +- Relation [id] parquet)", "   +- Distinct", "      +- Relation"), "whole"),
        (("+- Filter (text = a", "   :- Relation [id] parquet)", "   +- Distinct", "      +- Relation"), "whole"),
        (("+- Join LeftSemi, (text = a", "   :- Relation [id] parquet)", "   :- Distinct", "   +- Relation"), "whole"),
        # Cut short.
        (("+- Project [id]", "   +- Fil... 1000 more characters"), "Fil: call"),
        (("+- Project [id]", "... 1000 more characters"), "whole plan"),
        # Subqueries, and the right side of a join, are not where rows come from.
        (("+- Filter exists", "   :  +- Relation [id] parquet", "   +- LocalRelation [id]"), "LocalRelation"),
        (("+- Join LeftAnti", "   :- Range (0, 3)", "   +- Relation [id] parquet"), "Range"),
    ],
)  # fmt: skip
def test_text_of_a_plan_that_shows_no_scan(plan: tuple[str, ...], message: str) -> None:
    frame: Any = Printed(*plan)
    with pytest.raises(UsageError, match=message):
        origin(frame, "file_path", "apply")

"""Functions for `select`, against row sets and plain Python."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812

import dvcodec
from dvcodec import DecodeError, LimitExceeded, RowSet, UsageError, dialects, mumbling
from dvcodec.core import batch, vector
from dvcodec.core.cursor import Cursor
from dvcodec.core.vector import Magic
from dvcodec.ops.read import format_of
from dvcodec.spark import functions, register
from dvcodec.spark import vectors as spark_vectors
from dvcodec.spark.compat import to_arrow
from dvcodec.spark.functions import (
    bitmap_build,
    dv_cardinality,
    dv_contains,
    dv_decode,
    dv_diff,
    dv_encode,
    dv_export,
    dv_import,
    dv_positions,
    dv_ranges,
    dv_union,
    dv_verify,
    kernels,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
WIDE = 2**32
LIMIT = 2**40


def row_sets() -> list[list[int]]:
    rng = np.random.default_rng(7)
    clusters = rng.integers(0, 1 << 20, 6)
    return [
        [],
        [0],
        [3, 5, 9],
        sorted(set(rng.integers(0, 1 << 24, 500).tolist())),
        sorted({int(start) + k for start in clusters for k in range(50)}),
        sorted(set(rng.integers(0, 1 << 17, 20_000).tolist())),
        list(range(60_000, 80_000)),
        [7, WIDE - 1, WIDE, 5 * WIDE + 3],
        [1, LIMIT + 1, LIMIT + 2, 2**44],
    ]


def framed(positions: list[int], magic: Magic = Magic.PORTABLE64) -> bytes:
    return vector.build(magic, vector.encode_payload(RowSet(positions), magic))


def cases() -> list[tuple[list[int] | None, bytes | None]]:
    """Row sets and their vectors, in every layout that holds them; a null between."""
    found: list[tuple[list[int] | None, bytes | None]] = [(None, None)]
    for positions in row_sets():
        for magic in Magic:
            highest = max(positions, default=0)
            if (magic is Magic.PAIMON32 and highest >= 2**31) or (magic is Magic.NATIVE64 and highest > 2**40):
                continue
            found.append((positions, framed(positions, magic)))
        found.append((None, None))
    return found


def ranges_of(positions: list[int]) -> list[Row]:
    found: list[Row] = []
    for position in positions:
        if found and found[-1]["stop"] == position:
            found[-1]["stop"] += 1
        else:
            found.append({"start": position, "stop": position + 1})
    return found


def decoded(positions: list[int], data: bytes) -> Row:
    names = {b"\xd1": "portable64", b"\xd0": "native64", b"\x5e": "paimon32"}
    mix = vector.read(Cursor(data)).view.mix
    return {
        "layout": names[data[4:5]],
        "cardinality": len(positions),
        "min": min(positions, default=None),
        "max": max(positions, default=None),
        "containers": {"arrays": mix[0], "bitsets": mix[1], "runs": mix[2]},
    }


def broken() -> dict[str, bytes]:
    """Vectors that are corrupt; of all but one the rows cannot be counted."""
    good = framed([1, 2, 3, 100])
    swapped = good[:-8] + good[-6:-4] + good[-8:-6] + good[-4:]
    return {
        "nothing": b"",
        "short": good[:7],
        "cut": good[:-1],
        "longer": good + b"\0",
        "checksum": good[:-1] + bytes([good[-1] ^ 1]),
        "magic": struct.pack(">I", 12) + b"abcdefghijkl" + struct.pack(">I", zlib.crc32(b"abcdefghijkl")),
        "order": vector.build(Magic.PORTABLE64, swapped[8:-4]),
        "structure": vector.build(Magic.PORTABLE64, b"\xff" * 40),
        "both": swapped[:-1] + bytes([swapped[-1] ^ 1]),
    }


def error_of(data: bytes) -> str:
    with pytest.raises(DecodeError) as caught:
        vector.read(Cursor(data)).load()
    return str(caught.value)


def frame_of(spark: SparkSession, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
    return spark.createDataFrame(
        [tuple(bytearray(v) if isinstance(v, bytes) else v for v in row) for row in rows], schema
    )


def rows_of(found: DataFrame) -> list[Row]:
    listed: list[Row] = to_arrow(found).to_pylist()
    return listed


@pytest.fixture(scope="module")
def vectors(spark: SparkSession) -> DataFrame:
    return frame_of(spark, [(i, dv) for i, (_, dv) in enumerate(cases())], "i int, dv binary").repartition(3, "i")


def by_case(found: DataFrame) -> list[Row]:
    rows = sorted(rows_of(found), key=lambda row: int(row["i"]))
    assert [row.pop("i") for row in rows] == list(range(len(cases())))
    return rows


# ---------------------------------------------------------------------- in Spark


@pytest.mark.everywhere
def test_what_vectors_hold(vectors: DataFrame) -> None:
    """All in one plain select; names and columns alike."""
    found = by_case(
        vectors.select(
            "i",
            dv_cardinality("dv").alias("n"),
            dv_positions("dv").alias("positions"),
            dv_ranges(F.col("dv")).alias("ranges"),
            dv_decode("dv").alias("it"),
            dv_verify(F.col("dv")).alias("check"),
        )
    )
    for row, (positions, data) in zip(found, cases(), strict=True):
        if positions is None or data is None:
            assert set(row.values()) == {None}
            continue
        assert row["n"] == len(positions)
        assert row["positions"] == positions
        assert row["ranges"] == ranges_of(positions)
        assert row["it"] == decoded(positions, data)
        assert row["check"] == {"ok": True, "crc_ok": True, "cardinality": len(positions), "error": None}


@pytest.mark.everywhere
def test_rows_joined_with_vectors(spark: SparkSession, vectors: DataFrame) -> None:
    rng = np.random.default_rng(1)
    asked: list[tuple[int, int | None]] = []
    for i, (positions, _) in enumerate(cases()):
        some = [*rng.choice(positions, 20).tolist()] if positions else []
        asked += [
            (i, pos) for pos in [*some, *rng.integers(0, 1 << 18, 20).tolist(), -1, 2**63 - 1, None, 5 * WIDE + 3]
        ]
    rows = spark.createDataFrame(asked, "i int, pos long").repartition(2, "pos")
    joined = rows.join(F.broadcast(vectors), "i").select("i", "pos", dv_contains("dv", "pos").alias("deleted"))
    found = {(row["i"], row["pos"]): row["deleted"] for row in rows_of(joined)}
    sets = [None if positions is None else set(positions) for positions, _ in cases()]
    assert len(found) == len(set(asked))
    for (i, pos), deleted in found.items():
        rows_deleted = sets[i]
        assert deleted == (None if rows_deleted is None or pos is None else pos in rows_deleted)


@pytest.mark.everywhere
def test_unions_of_groups(spark: SparkSession) -> None:
    sets = [(i % 4, positions, dv) for i, (positions, dv) in enumerate(cases())]
    frame = frame_of(spark, [*((key, dv) for key, _, dv in sets), (9, None), (9, None)], "key int, dv binary")
    found = {row["key"]: row["dv"] for row in rows_of(frame.groupBy("key").agg(dv_union("dv").alias("dv")))}
    expected = {
        key: framed(sorted({pos for other, rows, _ in sets if other == key for pos in rows or ()})) for key in range(4)
    }
    assert found == {**expected, 9: None}


@pytest.mark.everywhere
def test_differences(spark: SparkSession) -> None:
    found = [*[case for case in cases() if case[0]][::5], ([], framed([])), (None, None)]
    pairs = [(a, b) for a in found for b in found]
    frame = frame_of(spark, [(i, a[1], b[1]) for i, (a, b) in enumerate(pairs)], "i int, old binary, new binary")
    rows = rows_of(frame.select("i", dv_diff("old", F.col("new")).alias("diff")))
    for row in rows:
        (old, _), (new, _) = pairs[row["i"]]
        if old is None or new is None:
            assert row["diff"] is None
        else:
            assert row["diff"]["added"] == framed(sorted(set(new) - set(old)))
            assert row["diff"]["restored"] == framed(sorted(set(old) - set(new)))
    assert len(rows) == len(pairs)


@pytest.mark.everywhere
def test_encoding(spark: SparkSession) -> None:
    rng = np.random.default_rng(3)
    narrow = [None if rows is None else rows for rows in [None, *row_sets()[:7], None]]
    shuffled = [rows and rng.permutation(rows + rows[:5]).tolist() for rows in narrow]
    frame = spark.createDataFrame(list(enumerate(shuffled)), "i int, pos array<long>")
    formats = list(get_args(get_type_hints(dv_encode, vars(functions) | {"Column": Any})["format"]))
    assert formats == ["iceberg", "delta", "paimon64", "paimon32"]
    encoders: dict[str, Callable[[RowSet], bytes]] = {
        "iceberg": dvcodec.iceberg.encode,
        "delta": dvcodec.delta.encode,
        "paimon64": lambda rows: dvcodec.paimon.encode(rows, layout="bitmap64"),
        "paimon32": dvcodec.paimon.encode,
    }
    columns = [dv_encode("pos", name).alias(name) for name in formats]
    for row in rows_of(frame.select("i", *columns, dv_encode(F.array(F.lit(2), F.lit(1))).alias("ints"))):
        positions = narrow[row["i"]]
        for name in formats:
            assert row[name] == (None if positions is None else encoders[name](RowSet(positions))), name
        assert row["ints"] == framed([1, 2])


def test_vectors_that_are_corrupt(spark: SparkSession) -> None:
    names = list(broken())
    frame = frame_of(
        spark, [(name, broken()[name]) for name in names] + [("valid", framed([4]))], "name string, dv binary"
    )
    found = {row["name"]: row["it"] for row in rows_of(frame.select("name", dv_verify("dv").alias("it")))}
    assert found.pop("valid") == {"ok": True, "crc_ok": True, "cardinality": 1, "error": None}
    assert {name: it["ok"] for name, it in found.items()} == dict.fromkeys(names, False)
    assert {name for name in names if found[name]["crc_ok"]} == {"magic", "order", "structure"}
    assert {name: it["cardinality"] for name, it in found.items()} == {
        name: 4 if name == "checksum" else None for name in names
    }
    for name in names:
        assert found[name]["error"] == error_of(broken()[name]), name
    with pytest.raises(Exception, match=r"deletion vector of 48 bytes .*CRC-32 of magic and bitmap") as caught:
        frame.where("name IN ('valid', 'checksum')").select(F.sum(dv_cardinality("dv"))).collect()
    assert "00 00 00 28 d1 d3 39 64" in str(caught.value)


def test_values_in_the_place_of_columns() -> None:
    """As ``spark.udf.register("f", dv_cardinality)`` would call it."""
    wrong: Any = b"x"
    with pytest.raises(UsageError, match=r"dv_cardinality takes columns and their names, not bytes: .*dvcodec\.decode"):
        dv_cardinality(wrong)
    wrong = 7
    with pytest.raises(UsageError, match=r"dv_contains takes .*, not int: for a constant, F\.lit"):
        dv_contains("dv", wrong)
    wrong = None
    with pytest.raises(UsageError, match=r"file_key takes .*, not NoneType"):
        functions.file_key(wrong)


@pytest.mark.everywhere
def test_sql_has_the_functions(spark: SparkSession, vectors: DataFrame) -> None:
    register(spark)
    some = vectors.where("dv IS NOT NULL")
    some.createOrReplaceTempView("vectors_of_sql")
    asked = (
        "i",
        "dv_cardinality(dv) n",
        "dv_positions(dv) positions",
        "dv_decode(dv).max AS max",
        "dv_verify(dv).ok AS ok",
    )
    for row in rows_of(spark.sql(f"SELECT {', '.join(asked)}, dv_contains(dv, 3) third FROM vectors_of_sql")):
        positions, _ = cases()[row.pop("i")]
        assert positions is not None
        shown = {"n": len(positions), "positions": positions, "max": max(positions, default=None), "ok": True}
        assert row == shown | {"third": 3 in positions}
    with pytest.raises(PySparkException, match="UsageError: a vector is binary, and this column is text"):
        spark.sql("SELECT dv_verify('s3://x') FROM range(2)").collect()
    union = "dv_union(dv) FROM vectors_of_sql WHERE i > 2 UNION ALL SELECT dv_encode(array(7, 5, 7))"
    everything = {pos for positions, _ in cases()[3:] for pos in positions or ()}
    assert [row[0] for row in spark.sql(f"SELECT {union}").collect()] == [framed(sorted(everything)), framed([5, 7])]


@pytest.mark.everywhere
def test_a_column_that_is_not_binary_is_refused_by_the_analyzer(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1)], "data_file string, n long")
    for column in (dv_cardinality("data_file"), dv_positions("n"), dv_contains(F.col("data_file"), "n")):
        with pytest.raises(AnalysisException, match='requires the "BINARY" type'):
            frame.select(column).schema  # noqa: B018  (over Connect, this asks the server)
    assert frame.select(dv_cardinality(F.lit(None).cast("binary"))).columns == ["dv_cardinality(CAST(NULL AS BINARY))"]
    nested = dv_cardinality(dv_import(F.lit(b"").alias("data"), "roaring64"))
    assert frame.select(nested).columns == ["dv_cardinality(dv_import(data))"]
    plan = spark.createDataFrame([], "dv binary").select(dv_cardinality("dv"))
    assert "bitmap_count" not in explained(plan), "the optimizer has removed it"


def explained(frame: DataFrame) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        frame.explain()
    return out.getvalue()


@pytest.mark.everywhere
def test_bitmaps_of_other_systems(spark: SparkSession) -> None:
    lists = [(0, [5, 1, 9]), (1, list(range(100))), (2, []), (3, None)]
    frame = spark.createDataFrame(lists, "i int, ps array<bigint>").select("i", dv_encode("ps").alias("dv"))
    encoders: dict[str, Callable[[RowSet], bytes]] = {"mumbling": mumbling.encode}
    encoders |= {name: partial(dialects.encode, dialect=name) for name in dialects.DIALECTS}
    for name, encode in encoders.items():
        exported = frame.select("i", dv_export("dv", name).alias("data"))
        expected = [None if positions is None else encode(RowSet(positions)) for _, positions in lists]
        assert [row["data"] for row in rows_of(exported)] == expected, name
        assert rows_of(exported.select("i", dv_import("data", name).alias("dv"))) == rows_of(frame), name
    with pytest.raises(UsageError, match="format"):
        dv_export("dv", "druid")


@pytest.mark.everywhere
def test_one_bitmap_a_group(spark: SparkSession) -> None:
    rows = [(i % 3, 7 * i % 1000) for i in range(900)] + [(0, None), (3, None), (4, 2**53 + 1), (4, None)]
    frame = spark.createDataFrame(rows, "segment int, id bigint")
    expected = [RowSet([v for s, v in rows if s == segment and v is not None]) for segment in range(5)]
    for name in ("clickhouse64", "doris", "java-art", "roaring64"):
        built = frame.groupBy("segment").agg(bitmap_build("id", name))
        assert built.columns == ["segment", "bitmap_build(id)"]
        found = [row["bitmap_build(id)"] for row in rows_of(built.orderBy("segment"))]
        assert found == [format_of(name).write(one) for one in expected], name
    small = frame.where("segment < 3").select("segment", F.col("id").cast("int"))
    assert len(rows_of(small.groupBy("segment").agg(bitmap_build(F.col("id") % 50, "clickhouse8")))) == 3
    with pytest.raises(Exception, match="id -5 is negative"):
        spark.createDataFrame([(-5,)], "id bigint").agg(bitmap_build("id", "doris")).collect()
    with pytest.raises(Exception, match="does not fit"):
        spark.createDataFrame([(500,)], "id bigint").agg(bitmap_build("id", "clickhouse8")).collect()
    with pytest.raises(UsageError, match="format"):
        bitmap_build("id", "druid")


# ---------------------------------------------------------------------- without Spark


def column(*data: bytes | None, large: bool = False) -> pa.Array:
    return pa.array(list(data), pa.large_binary() if large else pa.binary())


def test_a_vector_of_many_rows_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    true_survey = batch.survey

    def survey(data: Any, starts: Any, *rest: Any, **options: Any) -> Any:
        sizes.append(len(starts))
        return true_survey(data, starts, *rest, **options)

    loaded: list[int] = []
    true_load = kernels.Vectors.load

    def load(self: kernels.Vectors, i: int) -> RowSet:
        loaded.append(i)
        return true_load(self, i)

    monkeypatch.setattr(batch, "survey", survey)
    monkeypatch.setattr(kernels.Vectors, "load", load)
    many = list(range(0, 60_000, 3))
    some = [1, 2, 2000]
    dv = column(*[framed(many), framed(some)] * 500)
    pos = np.arange(1000) * 7
    found = kernels.dv_contains(dv, pa.array(pos)).to_pylist()
    sets = set(many), set(some)
    assert found == [value in sets[i % 2] for i, value in enumerate(pos.tolist())]
    assert sizes == [2]
    assert loaded == [0], "the large one alone, the others together"


def test_positions_that_need_all_bits() -> None:
    high, last = 2**44, 2**63 - 2**33
    sets = [[1, LIMIT - 1], [LIMIT], [5, high], [5, 6]]
    top = vector.build(Magic.PORTABLE64, vector.encode_payload(RowSet([5, last]), Magic.PORTABLE64, gap_keys=False))
    dv = column(*map(framed, sets), top, top)
    pos = pa.array([LIMIT - 1, LIMIT, high, high, last, last + 1])
    assert kernels.dv_contains(dv, pos).to_pylist() == [True, True, True, False, True, False]
    assert pa.concat_arrays(list(kernels.dv_positions(iter([dv])))).to_pylist() == [*sets, [5, last], [5, last]]
    ranges = pa.concat_arrays(list(kernels.dv_ranges(iter([dv])))).to_pylist()
    assert ranges[-1] == [{"start": 5, "stop": 6}, {"start": last, "stop": last + 1}]
    diff = kernels.dv_diff(dv[:4], column(*map(framed, sets[1:] + sets[:1]))).to_pylist()
    assert diff[0] == {"added": framed([LIMIT]), "restored": framed([1, LIMIT - 1])}
    assert diff[2] == {"added": framed([6]), "restored": framed([high])}
    with pytest.raises(UsageError, match="bytes"):  # Java would write every key below
        kernels.dv_union(dv)


@pytest.mark.parametrize(("at_once", "small"), [(1, 0), (600, 100), (600, 1 << 14), (1 << 22, 0)])
def test_any_way_to_cut_gives_the_same(at_once: int, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kernels, spark_vectors):
        monkeypatch.setattr(module, "_AT_ONCE", at_once)
    monkeypatch.setattr(spark_vectors, "_SMALL", small)
    monkeypatch.setattr(kernels, "_FEW", small)
    sets = [positions for positions, _ in cases()]
    dv = column(None, *[data for _, data in cases()], large=small == 0).slice(1)
    counts = [None if rows is None else len(rows) for rows in sets]
    assert kernels.dv_cardinality(dv).to_pylist() == counts
    assert kernels.dv_cardinality(dv.slice(3, 0)).to_pylist() == []
    parts = list(kernels.dv_positions(iter([dv])))
    assert pa.concat_arrays(parts).to_pylist() == sets
    assert all(len(part) == 1 or len(part.flatten()) <= at_once for part in parts)
    order = np.random.default_rng(at_once).permutation(np.repeat(np.arange(len(sets)), 3))
    pos = np.array([(sets[i] or [0])[k % len(sets[i] or [0])] + k % 2 for k, i in enumerate(order.tolist())])
    assert kernels.dv_contains(dv.take(pa.array(order)), pa.array(pos)).to_pylist() == [
        None if (rows := sets[i]) is None else value in rows
        for i, value in zip(order.tolist(), pos.tolist(), strict=True)
    ]
    ranges = pa.concat_arrays(list(kernels.dv_ranges(iter([dv])))).to_pylist()
    assert ranges == [None if positions is None else ranges_of(positions) for positions in sets]
    assert kernels.dv_union(dv) == framed(sorted({pos for positions in sets for pos in positions or ()}))
    others = [*sets[3:], *sets[:3]]
    diff = kernels.dv_diff(dv, column(*[None if rows is None else framed(rows) for rows in others]))
    for row, old, new in zip(diff.to_pylist(), sets, others, strict=True):
        assert (row is None) == (old is None or new is None)
        if row is not None and old is not None and new is not None:
            assert row["added"] == framed(sorted(set(new) - set(old)))
            assert row["restored"] == framed(sorted(set(old) - set(new)))


def test_runs_are_not_expanded() -> None:
    whole = dvcodec.iceberg.encode(RowSet.from_ranges([(0, 2**33), (2**34, 2**34 + 5)]))
    dv = column(whole, framed([9]))
    ranges = pa.concat_arrays(list(kernels.dv_ranges(iter([dv]))))
    assert ranges.to_pylist()[0] == [{"start": 0, "stop": 2**33}, {"start": 2**34, "stop": 2**34 + 5}]
    assert kernels.dv_cardinality(dv).to_pylist() == [2**33 + 5, 1]
    assert kernels.dv_contains(dv, pa.array([2**33 - 1, 8])).to_pylist() == [True, False]
    union = kernels.dv_union(dv)
    assert union == whole
    assert kernels.dv_diff(dv, column(framed([9]), whole)).field("restored")[1].as_py() == framed([])
    with pytest.raises(LimitExceeded, match=r"deletion vector of .* positions in one row.*dv_ranges"):
        list(kernels.dv_positions(iter([dv])))


def test_what_cannot_be_encoded() -> None:
    def encode(*lists: list[int | None] | None, magic: Magic = Magic.PORTABLE64) -> pa.Array:
        return kernels.dv_encode(pa.array(lists, pa.list_(pa.int64())), magic)

    with pytest.raises(UsageError, match="2 positions are null"):
        encode([1, None], None, [None])
    with pytest.raises(UsageError, match="position -3 is negative"):
        encode([1], [2, -3])
    with pytest.raises(UsageError, match=r"position 2147483648 does not fit a 32-bit vector .*paimon64"):
        encode([1], [2**31], magic=Magic.PAIMON32)
    with pytest.raises(UsageError, match="the highest in a deletion vector"):
        encode([2**63 - 1])
    with pytest.raises(UsageError, match="iceberg, delta, paimon64, paimon32, not 'lance'"):
        dv_encode("pos", "lance")  # type: ignore[arg-type]
    assert encode([2**31 - 1], magic=Magic.PAIMON32).to_pylist() == [framed([2**31 - 1], Magic.PAIMON32)]
    sliced = pa.array([[3, None], [2, 1, 2], None, []], pa.list_(pa.int64())).slice(1)
    assert kernels.dv_encode(sliced).to_pylist() == [framed([1, 2]), None, framed([])]


def test_every_function_refuses_what_is_corrupt() -> None:
    wrong = broken()["order"]
    bad, good = column(framed([1]), wrong, None), column(framed([1]), framed([2]), None)
    calls: list[Callable[[], object]] = [
        lambda: kernels.dv_cardinality(bad),
        lambda: kernels.dv_decode(bad),
        lambda: kernels.dv_contains(bad, pa.array([1, 2, 3])),
        lambda: kernels.dv_union(bad),
        lambda: kernels.dv_diff(bad, good),
        lambda: kernels.dv_diff(good, bad),
        lambda: list(kernels.dv_positions(iter([good, bad]))),
        lambda: list(kernels.dv_ranges(iter([good, bad]))),
    ]
    for call in calls:
        with pytest.raises(DecodeError) as caught:
            call()
        text = str(caught.value)
        assert text.startswith(f"deletion vector of {len(wrong)} bytes (")
        assert text.endswith(error_of(wrong)), "offsets count from the vector's beginning"

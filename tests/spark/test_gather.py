"""From rows and from vectors to one vector a data file, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from dvcodec import ChecksumMismatch, RowSet, UsageError, delta, iceberg, paimon
from dvcodec.spark import gather
from dvcodec.spark.gather import RowGatherer, VectorGatherer
from dvcodec.spark.jobs import build
from spark.data import ORDERS, reference, rows


def vectors_of(batches: Iterator[pa.RecordBatch]) -> list[tuple[str, int, bytes]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def gathered(table: pa.Table, step: int = 7_000) -> list[tuple[str, int, bytes]]:
    gatherer, found = RowGatherer(), []
    for batch in table.to_batches(max_chunksize=step):
        found += vectors_of(gatherer.add(batch.column(0), batch.column(1)))
    return found + vectors_of(gatherer.flush())


def united(parts: list[tuple[str, int, bytes]], *, trusted: bool, step: int = 500) -> list[tuple[str, int, bytes]]:
    gatherer = VectorGatherer(trusted=trusted)
    for i in range(0, len(parts), step):
        files, cards, frames = zip(*parts[i : i + step], strict=True)
        gatherer.add(pa.array(files), pa.array(frames, pa.binary()), pa.array(cards))
    return vectors_of(gatherer.flush())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("chunk", [1_000, 9_000, 1 << 22])
@pytest.mark.parametrize("trusted", [True, False])
def test_every_chunking_gives_the_same_bytes(
    order: str, chunk: int, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "CHUNK_ROWS", chunk)
    table = rows(order, 12_000)
    found = united(gathered(table, 700), trusted=trusted)
    want = reference(table)
    assert {path: data for path, _, data in found} == want
    assert len(found) == len(want)
    assert all(cardinality == len(iceberg.decode(data)) for _, cardinality, data in found)


def test_folding_on_the_way_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "CHUNK_ROWS", 900)
    monkeypatch.setattr(gather, "FOLD_BYTES", 20_000)
    monkeypatch.setattr(gather, "BATCH_BYTES", 3_000)
    table = rows("clustered", 12_000)
    assert {path: data for path, _, data in united(gathered(table, 300), trusted=True, step=20)} == reference(table)


def test_dictionaries_of_any_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows("random", 5_000)
    want = reference(table)
    for kind in (
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
    ):
        column = table["file_path"]
        column = column.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else column.cast(kind)
        assert {path: data for path, _, data in gathered(pa.table({"f": column, "p": table["pos"]}))} == want


def test_positions_of_any_integer_type() -> None:
    for kind in (pa.int16(), pa.int32(), pa.uint32(), pa.uint64()):
        table = pa.table({"f": ["a", "b", "a"], "p": pa.array([3, 1, 2], kind)})
        assert gathered(table) == [("a", 2, iceberg.encode(RowSet([2, 3]))), ("b", 1, iceberg.encode(RowSet([1])))]


def test_positions_above_two_to_the_forty() -> None:
    table = pa.table({"f": ["a", "a", "b"], "p": [1 << 41, 1, (1 << 41) + 5]})
    found = gathered(table)
    assert [iceberg.decode(data) for _, _, data in found] == [RowSet([1, 1 << 41]), RowSet([(1 << 41) + 5])]


@pytest.mark.parametrize(
    ("files", "positions", "message"),
    [
        (["a", None], [1, 2], "1 rows name no data file"),
        (["a", "b"], [1, None], "1 rows have no position"),
        (["a", "b"], [1, -2], "position -2 is negative"),
        (["a", "b"], [1.0, 2.0], "integers, not double"),
    ],
)
def test_rows_that_are_none(files: list[str | None], positions: list[object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gathered(pa.table({"f": files, "p": positions}))


def test_a_null_in_a_dictionary() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    with pytest.raises(UsageError, match="null"):
        gathered(pa.table({"f": column, "p": [1, 2]}))


def test_vectors_of_all_layouts_are_united() -> None:
    parts = [RowSet([1, 5]), RowSet(range(100, 70_000)), RowSet([7, 1 << 30])]
    frames = [iceberg.encode(parts[0]), delta.encode(parts[1], layout="native"), paimon.encode(parts[2])]
    found = united([("a", 0, data) for data in frames] + [("b", 0, frames[2])], trusted=False)
    assert {path: data for path, _, data in found} == {"a": iceberg.encode(RowSet.union(*parts)), "b": frames[2]}
    assert {path: cardinality for path, cardinality, _ in found} == {"a": len(RowSet.union(*parts)), "b": 2}


def test_empty_vectors_stay() -> None:
    empty = iceberg.encode(RowSet())
    assert united([("a", 0, empty), ("a", 0, empty), ("b", 0, empty)], trusted=False) == [
        ("b", 0, empty),
        ("a", 0, empty),
    ]


def test_unsound_vectors_are_named() -> None:
    bad = bytearray(iceberg.encode(RowSet([1, 2, 3])))
    bad[-1] ^= 1
    with pytest.raises(ChecksumMismatch, match="vector of s3://b"):
        united([("s3://a", 0, iceberg.encode(RowSet([1]))), ("s3://b", 0, bytes(bad))], trusted=False)
    with pytest.raises(UsageError, match="'x' has no vector"):
        VectorGatherer().add(pa.array(["x"]), pa.array([None], pa.binary()))
    with pytest.raises(UsageError, match="name no data file"):
        VectorGatherer().add(pa.array([None], pa.string()), pa.array([b""]))


def test_large_and_small_partials_of_one_file() -> None:
    sets = [RowSet(range(0, 60_000, 2)), RowSet([1]), RowSet(np.arange(0, 1 << 20, 50)), RowSet([1 << 33])]
    found = united([(name, len(s), iceberg.encode(s)) for name in "ab" for s in sets], trusted=True)
    assert [(len(RowSet.union(*sets)), data) for _, _, data in found[:1]] == [
        (found[0][1], iceberg.encode(RowSet.union(*sets)))
    ]
    assert found[0][1:] == found[1][1:]


def named(*rows: tuple[str, int | None, bytes | None, str | None]) -> list[pa.RecordBatch]:
    schema = pa.schema(
        [("data_file", pa.string()), ("cardinality", pa.int64()), ("dv", pa.binary()), ("name", pa.string())]
    )
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)]
    return [pa.record_batch(columns, schema=schema)]


def test_hashes_meet_their_names() -> None:
    one, two = iceberg.encode(RowSet([1])), iceberg.encode(RowSet([2, 3]))
    batches = named(("7", 1, one, None), ("7", None, None, "a"), ("-8", 2, two, None), ("-8", None, None, "b"))
    assert vectors_of(build._unite_named(iter(batches))) == [("a", 1, one), ("b", 2, two)]
    assert vectors_of(build._unite_named(iter(named(("7", None, None, "a"))))) == []
    assert vectors_of(build._unite_named(iter([]))) == []


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([("7", None, None, "a"), ("7", None, None, "b")], "same hash"),
        ([("7", None, None, None)], "name no data file"),
        ([("8", None, None, "a")], "other data files"),
    ],
)
def test_hashes_without_one_name(names: list[tuple[str, None, None, str | None]], message: str) -> None:
    batches = named(("7", 1, iceberg.encode(RowSet([1])), None), *names)
    with pytest.raises(UsageError, match=message):
        list(build._unite_named(iter(batches)))

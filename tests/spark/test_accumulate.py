"""Rows to vectors, and the vectors of a data file to one, without Spark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dvcodec import ChecksumMismatch, RowSet, UsageError, delta, iceberg, paimon
from dvcodec.core.roaring import MAX_DV_POSITION
from dvcodec.spark import accumulate
from dvcodec.spark.accumulate import RowAccumulator, VectorUnion, group
from samples.position_rows import ORDERS, gathered, reference, rows, united, vectors_of


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_names_that_are_not_utf8(kind: pa.DataType) -> None:
    names = pa.array([b"a", b"\xff"]).cast(pa.large_binary() if kind == pa.large_string() else pa.binary())
    names = names if kind == pa.binary() else pa.Array.from_buffers(kind, 2, names.buffers())
    for column in (names, names.dictionary_encode()):
        gatherer = RowAccumulator()
        assert not list(gatherer.add(column, pa.array([1, 2])))
        with pytest.raises(UsageError, match=r"'\\udcff': a data file whose name is not UTF-8"):
            list(gatherer.flush())


@pytest.mark.parametrize("position", [MAX_DV_POSITION + 1, 1 << 63])
def test_unsigned_positions_that_are_too_high(position: int) -> None:
    gatherer = RowAccumulator()
    assert not list(gatherer.add(pa.array(["a", "b"]), pa.array([1, position], pa.uint64())))
    with pytest.raises(UsageError, match=f"position {position} is above {MAX_DV_POSITION}"):
        list(gatherer.flush())


def test_columns_of_several_types() -> None:
    """Parquet files of one task may store names in different ways."""
    gatherer, found = RowAccumulator(), []
    columns = (
        pa.array(["a", "b"]),
        pa.array(["b", "c"]).dictionary_encode(),
        pa.array(["c", "a"], pa.large_string()),
        pa.array(["b", "c"], pa.large_string()).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([3, 1], pa.int8()), pa.array(["x", "a", "y", "c", "z"])),
    )
    for i, column in enumerate(columns):
        positions = pa.array([i, 10 + i], (pa.int64(), pa.int32(), pa.int16(), pa.uint32(), pa.uint64())[i])
        found += [batch.to_pylist() for batch in gatherer.add(column, positions)]
    assert not found
    rows_of = {"a": [0, 12, 14], "b": [10, 1, 3], "c": [11, 2, 13, 4]}
    want = [(name, len(rows), iceberg.encode(RowSet(rows))) for name, rows in rows_of.items()]
    assert vectors_of(gatherer.flush()) == want


def test_a_chunk_ends_by_rows_or_by_the_bytes_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows("many files", 6_000)
    want = reference(table)
    monkeypatch.setattr(accumulate, "_PENDING_BYTES", 4_000)
    for limit, most in (("CHUNK_ROWS", 1_000), ("NAME_BYTES", 8_000)):
        with monkeypatch.context() as patch:
            patch.setattr(accumulate, limit, most)
            parts = gathered(table, step=100)
        assert len(parts) > len(want), "several vectors of a data file"
        assert {path: data for path, _, data in united(parts, trusted=True)} == want


@pytest.mark.parametrize("one_large", [False, True])
@pytest.mark.parametrize("highest", [100, 1 << 22, 1 << 32, (1 << 63) - 1])
def test_group_by_numbers_of_any_width(highest: int, *, one_large: bool) -> None:
    chance = np.random.default_rng(5)
    codes = chance.integers(0, 1000, 5_000).astype(np.int32)
    positions = chance.integers(0, highest, 5_000, endpoint=True)
    positions[:50], codes[:50] = positions[50:100], codes[50:100]
    if one_large:
        positions %= 1_000
    positions[-1] = highest
    want = sorted(set(zip(codes.tolist(), positions.tolist(), strict=True)))
    files, counts, ordered = group(codes, positions)
    assert list(zip(np.repeat(files, counts).tolist(), ordered.tolist(), strict=True)) == want
    assert ordered.dtype == files.dtype == np.int64


@pytest.mark.parametrize(
    ("files", "positions", "message"),
    [
        (["a", None], [1, 2], "1 rows name no data file"),
        (["a", "b"], [1, None], "1 rows have no position"),
        (["a", "b"], [1, -2], "position -2 is negative"),
        (["a", "b"], [1.0, 2.0], "integers, not double"),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])), [1, 2], "null"),
        ([["a"], ["b"]], [1, 2], "^names of data files must be strings, not list"),
    ],
)
def test_rows_that_are_refused(files: Any, positions: list[object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gathered(pa.table({"f": files, "p": positions}))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("chunk", [1_000, 9_000, 1 << 22])
@pytest.mark.parametrize("trusted", [True, False])
def test_every_chunking_gives_the_same_bytes(
    order: str, chunk: int, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accumulate, "CHUNK_ROWS", chunk)
    table = rows(order, 12_000)
    found = united(gathered(table, 700), trusted=trusted)
    want = reference(table)
    assert {path: data for path, _, data in found} == want
    assert len(found) == len(want)
    assert all(cardinality == len(iceberg.decode(data)) for _, cardinality, data in found)


def test_folding_on_the_way_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulate, "CHUNK_ROWS", 900)
    monkeypatch.setattr(accumulate, "FOLD_BYTES", 20_000)
    monkeypatch.setattr(accumulate, "BATCH_BYTES", 3_000)
    table = rows("clustered", 12_000)
    assert {path: data for path, _, data in united(gathered(table, 300), trusted=True, step=20)} == reference(table)


def test_vectors_of_all_layouts_are_united() -> None:
    parts = [RowSet([1, 5]), RowSet(range(100, 70_000)), RowSet([7, 1 << 30])]
    frames = [iceberg.encode(parts[0]), delta.encode(parts[1], layout="native"), paimon.encode(parts[2])]
    found = united([("a", 0, data) for data in frames] + [("b", 0, frames[2])], trusted=False)
    assert {path: data for path, _, data in found} == {"a": iceberg.encode(RowSet().union(*parts)), "b": frames[2]}
    assert {path: cardinality for path, cardinality, _ in found} == {"a": len(RowSet().union(*parts)), "b": 2}


def test_empty_vectors_stay() -> None:
    empty = iceberg.encode(RowSet())
    assert united([("a", 0, empty), ("a", 0, empty), ("b", 0, empty)], trusted=False) == [
        ("b", 0, empty),
        ("a", 0, empty),
    ]


@pytest.mark.parametrize("fold", [1 << 30, 1])
def test_spellings_of_one_file_are_united(fold: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulate, "FOLD_BYTES", fold)
    gatherer = VectorUnion()
    parts = [
        (0, {"/t/a": [1], "s3a://b/x": [2], "/t/a b": [9]}),
        (1, {"file:/t/a": [3], "s3://b//x": [4], "gs://b/x": [5]}),
        (2, {"file:///t/a": [6], "/t/a b": [10], "/t/a%20b": [11]}),
    ]
    for number, vectors in parts:
        frames = pa.array([iceberg.encode(RowSet(positions)) for positions in vectors.values()])
        gatherer.add(pa.array(list(vectors)), frames, inputs=pa.array([accumulate.input_bit(number)] * len(vectors)))
    found = {name: list(iceberg.decode(data)) for name, _, data in vectors_of(gatherer.flush())}
    assert found == {
        "/t/a": [1, 3, 6],
        "s3a://b/x": [2, 4],
        "gs://b/x": [5],
        "/t/a b": [9, 10],
        "/t/a%20b": [11],
    }


def test_names_that_may_be_one_file_or_two_are_refused() -> None:
    frames = pa.array([iceberg.encode(RowSet([1]))])
    for order in ((0, 1), (1, 0)):
        gatherer = VectorUnion()
        for number, name in zip(order, ("file:/t/a%20b", "/t/a b"), strict=True):
            gatherer.add(pa.array([name]), frames, inputs=pa.array([accumulate.input_bit(number)]))
        with pytest.raises(UsageError, match="'file:/t/a%20b' and '/t/a b' may be one data file"):
            list(gatherer.flush())


def test_corrupt_vectors_are_named() -> None:
    bad = bytearray(iceberg.encode(RowSet([1, 2, 3])))
    bad[-1] ^= 1
    with pytest.raises(ChecksumMismatch, match="vector of s3://b"):
        united([("s3://a", 0, iceberg.encode(RowSet([1]))), ("s3://b", 0, bytes(bad))], trusted=False)
    with pytest.raises(UsageError, match="'x' has no vector"):
        VectorUnion().add(pa.array(["x"]), pa.array([None], pa.binary()))
    with pytest.raises(UsageError, match="name no data file"):
        VectorUnion().add(pa.array([None], pa.string()), pa.array([b""]))

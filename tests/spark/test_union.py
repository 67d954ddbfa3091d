"""From vectors of the same data file to one, without Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from dvcodec import ChecksumMismatch, RowSet, UsageError, delta, iceberg, paimon
from dvcodec.spark import accumulate, union
from dvcodec.spark.union import VectorUnion
from samples.position_rows import ORDERS, gathered, reference, rows, united, vectors_of


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
    monkeypatch.setattr(union, "FOLD_BYTES", 20_000)
    for module in (accumulate, union):
        monkeypatch.setattr(module, "BATCH_BYTES", 3_000)
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
    monkeypatch.setattr(union, "FOLD_BYTES", fold)
    gatherer = VectorUnion()
    parts = [
        (0, {"/t/a": [1], "s3a://b/x": [2], "/t/a b": [9]}),
        (1, {"file:/t/a": [3], "s3://b//x": [4], "gs://b/x": [5]}),
        (2, {"file:///t/a": [6], "/t/a b": [10], "/t/a%20b": [11]}),
    ]
    for number, vectors in parts:
        frames = pa.array([iceberg.encode(RowSet(positions)) for positions in vectors.values()])
        gatherer.add(pa.array(list(vectors)), frames, inputs=pa.array([union.input_bit(number)] * len(vectors)))
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
            gatherer.add(pa.array([name]), frames, inputs=pa.array([union.input_bit(number)]))
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


def test_large_and_small_partials_of_one_file() -> None:
    sets = [RowSet(range(0, 60_000, 2)), RowSet([1]), RowSet(np.arange(0, 1 << 20, 50)), RowSet([1 << 33])]
    found = united([(name, len(s), iceberg.encode(s)) for name in "ab" for s in sets], trusted=True)
    assert [(len(RowSet().union(*sets)), data) for _, _, data in found[:1]] == [
        (found[0][1], iceberg.encode(RowSet().union(*sets)))
    ]
    assert found[0][1:] == found[1][1:]

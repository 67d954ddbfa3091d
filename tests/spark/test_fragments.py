"""Vectors in rows of bounded size, without Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from dvcodec.spark import hand_over
from dvcodec.spark.accumulate import SCHEMA
from dvcodec.spark.hand_over import FRAGMENT_BATCH_BYTES, FRAGMENTS, cut, join

BATCH_ROWS = 10_000
FRAGMENT_BYTES = FRAGMENT_BATCH_BYTES // BATCH_ROWS

Vector = dict[str, object]


def vectors(count: int = 40) -> list[Vector]:
    chance = np.random.default_rng(1)
    sizes = [0, 1, FRAGMENT_BYTES - 1, FRAGMENT_BYTES, FRAGMENT_BYTES + 1, 5 * FRAGMENT_BYTES]
    sizes += chance.integers(0, 4 * FRAGMENT_BYTES, count - len(sizes)).tolist()
    return [{"data_file": f"f{i}", "cardinality": i, "dv": chance.bytes(size)} for i, size in enumerate(sizes)]


def rows(given: list[Vector]) -> list[dict[str, object]]:
    batches = [pa.RecordBatch.from_pylist(given[at : at + 7], schema=SCHEMA) for at in range(0, len(given), 7)]
    found = list(cut(iter([batches[0].slice(0, 0), *batches]), BATCH_ROWS))
    assert all(batch.schema.names == FRAGMENTS.names for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


def joined(given: list[dict[str, object]], size: int) -> list[Vector]:
    schema = hand_over._SCHEMA
    batches = [pa.RecordBatch.from_pylist(given[at : at + size], schema=schema) for at in range(0, len(given), size)]
    found = list(join(iter(batches)))
    assert all(batch.schema == SCHEMA for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("most", [1, 3 * FRAGMENT_BYTES, 1 << 26])
def test_fragments_in_any_order_are_the_vectors(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_over, "JOINED_BYTES", most)
    want = vectors()
    found = rows(want)
    assert max(len(bytes(row["dv"])) for row in found) == FRAGMENT_BYTES  # type: ignore[call-overload]
    shuffled = [found[i] for i in np.random.default_rng(2).permutation(len(found))]
    for given in (found, found[::-1], shuffled):
        assert sorted(joined(given, 11), key=lambda row: str(row["data_file"])) == sorted(
            want, key=lambda row: str(row["data_file"])
        )
    assert joined([], 1) == []


def test_fragments_that_are_missing_or_twice() -> None:
    found = rows(vectors())
    (at, *_) = (i for i, row in enumerate(found) if row["part"] == 1)
    name = found[at]["data_file"]
    with pytest.raises(RuntimeError, match=f"vector of {name}: fragments are missing"):
        joined(found[:at] + found[at + 1 :], 11)
    with pytest.raises(RuntimeError, match=f"vector of {name}: a fragment is there twice"):
        joined([*found, found[at]], len(found) + 1)


def test_fragments_of_large_types() -> None:
    """As Spark hands them over with ``spark.sql.execution.arrow.useLargeVarTypes``."""
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    schema = pa.schema([field.with_type(large.get(field.type, field.type)) for field in hand_over._SCHEMA])
    want = vectors()
    batch = pa.RecordBatch.from_pylist(rows(want), schema=schema)
    found = [row for part in join(iter([batch])) for row in part.to_pylist()]
    assert sorted(row["data_file"] for row in found) == sorted(str(row["data_file"]) for row in want)
    assert {row["data_file"]: row["dv"] for row in found} == {row["data_file"]: row["dv"] for row in want}

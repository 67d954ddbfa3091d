"""What the Python libraries make of files written here: pyiceberg, and deltalake (Rust inside)."""

from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dvcodec import RowSet, delta, iceberg
from interop.cases import row_sets
from interop.driver import need
from samples.delta_table import DeltaBuilder, rows_from

pytestmark = pytest.mark.interop


@pytest.fixture
def vectors() -> dict[str, RowSet]:
    # pyiceberg fails on a gap key (ArrowInvalid from an empty chunk), so these stay below 2**32.
    sets = [rows for rows in row_sets(120, seed=21) if len(rows) and rows[-1] < 2**32]
    return {f"s3://bucket/{i}.parquet": RowSet(rows) for i, rows in enumerate(sets[:20])}


def test_pyiceberg_reads_our_puffin_files(vectors: dict[str, RowSet], tmp_path: Path) -> None:
    need(importlib.util.find_spec("pyiceberg") is not None, "pyiceberg")
    from pyiceberg.table.puffin import PuffinFile

    path = tmp_path / "ours.puffin"
    iceberg.write_deletion_vectors(path, vectors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = PuffinFile(path.read_bytes()).to_vector()
    assert set(found) == set(vectors)
    for name, rows in vectors.items():
        assert np.array_equal(found[name].to_numpy(), rows.to_numpy())


def test_deltalake_reads_our_vector_files_and_inline_vectors(tmp_path: Path) -> None:
    need(importlib.util.find_spec("deltalake") is not None, "deltalake")
    from deltalake import DeltaTable

    count = 200_000
    random = np.random.default_rng(9)
    rows = {
        "sparse.parquet": RowSet(random.choice(count, 500, replace=False)),
        "dense.parquet": RowSet(random.choice(count, 90_000, replace=False)),
        "runs.parquet": RowSet.from_ranges([(i * 1000, i * 1000 + 400) for i in range(200)]),
        "all.parquet": RowSet.from_ranges([(0, count)]),
    }
    made = DeltaBuilder(tmp_path)
    made.create()
    descriptors = made.write_vectors(rows, "x9")
    rows["inline.parquet"] = RowSet([3, 4, 7, 11, 18, 29, 70_000])
    descriptors["inline.parquet"] = json.loads(delta.encode_inline(rows["inline.parquet"]).to_json())
    adds = [made.write_file(name, rows_from(0, count)) | {"deletionVector": descriptors[name]} for name in rows]
    made.commit(*({"add": add} for add in adds))

    found = {}
    for batch in DeltaTable(tmp_path).deletion_vectors():
        table = pa.record_batch(batch)
        for name, keep in zip(table["filepath"].to_pylist(), table["selection_vector"], strict=True):
            found[Path(name).name] = RowSet.from_mask(~np.asarray(keep.values))
    assert found == rows

"""What the Python libraries make of files written here: pyiceberg, and deltalake (Rust inside)."""

from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec import RowSet, delta, iceberg
from interop.cases import row_sets
from interop.driver import need

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


def write_table(root: Path, rows_by_file: dict[str, int], descriptors: dict[str, delta.Descriptor]) -> None:
    """A Delta table of one commit, with a deletion vector for every file."""
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"],
    }
    metadata = {
        "id": "00000000-0000-0000-0000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {"delta.enableDeletionVectors": "true"},
        "createdTime": 0,
    }
    actions: list[object] = [{"protocol": protocol}, {"metaData": metadata}]
    for name, count in rows_by_file.items():
        pq.write_table(pa.table({"id": np.arange(count)}), root / name)
        add = {
            "path": name,
            "partitionValues": {},
            "size": (root / name).stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps({"numRecords": count}),
            "deletionVector": json.loads(descriptors[name].to_json()),
        }
        actions.append({"add": add})
    log = root / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.json").write_text("\n".join(json.dumps(action) for action in actions) + "\n")


def test_deltalake_reads_our_vector_files_and_inline_vectors(tmp_path: Path) -> None:
    need(importlib.util.find_spec("deltalake") is not None, "deltalake")
    from deltalake import DeltaTable

    count = 200_000
    random = np.random.default_rng(9)
    row_sets_by_file = {
        "sparse.parquet": RowSet(random.choice(count, 500, replace=False)),
        "dense.parquet": RowSet(random.choice(count, 90_000, replace=False)),
        "runs.parquet": RowSet.from_ranges([(i * 1000, i * 1000 + 400) for i in range(200)]),
        "all.parquet": RowSet.from_ranges([(0, count)]),
    }
    path = delta.new_file(str(tmp_path), "x9")
    Path(path).parent.mkdir()
    locations = delta.write_deletion_vectors(path, row_sets_by_file)
    descriptors = {str(at.data_file): delta.Descriptor.from_location(at, str(tmp_path)) for at in locations}
    row_sets_by_file["inline.parquet"] = RowSet([3, 4, 7, 11, 18, 29, 70_000])
    descriptors["inline.parquet"] = delta.encode_inline(row_sets_by_file["inline.parquet"])
    write_table(tmp_path, dict.fromkeys(row_sets_by_file, count), descriptors)

    found = {}
    for batch in DeltaTable(tmp_path).deletion_vectors():
        table = pa.record_batch(batch)
        for name, keep in zip(table["filepath"].to_pylist(), table["selection_vector"], strict=True):
            found[Path(name).name] = RowSet.from_mask(~np.asarray(keep.values))
    assert found == row_sets_by_file

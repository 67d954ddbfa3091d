"""What was written is read back by its locations, the same way in every format."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import dvcodec
from dvcodec import (
    CardinalityMismatch,
    LimitExceeded,
    Limits,
    RowSet,
    Truncated,
    Unsupported,
    UsageError,
    delta,
    iceberg,
    paimon,
)

VECTORS = {"s3://b/one.parquet": RowSet([1, 5]), "s3://b/two.parquet": RowSet(range(100, 9000)), "none": RowSet()}


@pytest.mark.parametrize("module", [iceberg, delta, paimon], ids=lambda module: module.__name__)
def test_locations_are_read_back(module: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "vectors")
    locations = module.write_deletion_vectors(path, VECTORS)
    assert {location.data_file: module.load(location) for location in locations} == VECTORS
    rest = () if module is iceberg else (locations,)
    assert module.read_deletion_vectors(path, *rest) == VECTORS
    with pytest.raises(LimitExceeded):
        module.load(max(locations, key=lambda one: one.size), limits=Limits(max_vector_bytes=20))


def test_manifest_entries_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "x.puffin"
    for location in iceberg.write_deletion_vectors(path, VECTORS):
        entry = iceberg.manifest_entry(location)
        rows = VECTORS[entry["referenced_data_file"]]
        assert iceberg.load(entry) == iceberg.load(entry, path.read_bytes()) == rows
        with pytest.raises(CardinalityMismatch):
            iceberg.load(entry | {"record_count": 7})
        with pytest.raises(Truncated):
            iceberg.load(entry | {"content_offset": 10**6})
        with pytest.raises(Unsupported):
            iceberg.load(entry | {"file_path": "http://host/x.puffin"})
        with pytest.raises(UsageError, match="content_offset must be of type int"):
            iceberg.load(entry | {"content_offset": None})


def test_delta_reads_by_descriptors() -> None:
    out = io.BytesIO()
    locations = delta.write_deletion_vectors(out, VECTORS)
    descriptors = {
        str(one.data_file): delta.Descriptor("p", "/elsewhere", one.size - 8, one.cardinality, one.offset)
        for one in locations
    }
    assert delta.read_deletion_vectors(out.getvalue(), descriptors) == VECTORS
    with pytest.raises(UsageError, match="inline"):
        delta.read_deletion_vectors(out.getvalue(), {"a": delta.encode_inline(RowSet([1]))})
    with pytest.raises(UsageError, match="a second vector"):
        delta.read_deletion_vectors(out.getvalue(), [locations[0], locations[0]])


def test_bytes_are_sources() -> None:
    out = io.BytesIO()
    iceberg.write_deletion_vectors(out, VECTORS)
    assert len(dvcodec.puffin.decode_footer(out.getvalue()).blobs) == 3
    out = io.BytesIO()
    delta.write_deletion_vectors(out, VECTORS)
    assert len(list(delta.read_frames(out.getvalue()))) == 3


def test_paimon_metadata_needs_its_file() -> None:
    with pytest.raises(UsageError, match="pass it as source"):
        paimon.load(paimon.DeletionVectorMeta("a", 1, 26))

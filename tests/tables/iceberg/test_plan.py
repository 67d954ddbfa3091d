"""Which deletes apply to which data file: by sequence number, partition, and vectors that come before them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dvcodec.core.errors import NotCanonical
from dvcodec.tables import DataFile, DeletionVector
from dvcodec.tables.iceberg.manifests import EqualityDeletes, ListedFile, ManifestEntry
from dvcodec.tables.iceberg.metadata import PartitionField
from dvcodec.tables.iceberg.partitions import Partition
from dvcodec.tables.iceberg.plan import ScanPlan

SPECS = {
    0: (),
    1: (PartitionField(1000, 1, "p", "identity"),),
    2: (PartitionField(1000, 1, "p", "void"),),
}


def part(value: str | None = None, spec: int = 1) -> Partition:
    return Partition(spec, () if spec == 0 else (value,), {})


def data(path: str, number: int, partition: Partition) -> DataFile:
    record = ManifestEntry("m", 1, 1, partition, "parquet")
    return DataFile(path, path, 9, partition_key=partition, sequence_number=number, record=record)


def deletes(path: str, number: int, partition: Partition, data_file: str | None = None) -> DeletionVector:
    kind = "position-deletes"
    return DeletionVector(kind, data_file, path, path, partition_key=partition, sequence_number=number)


def vector(path: str, number: int, data_file: str | None) -> DeletionVector:
    return replace(deletes(path, number, part("a"), data_file), format="iceberg")


def equality(path: str, number: int, partition: Partition) -> EqualityDeletes:
    record = ManifestEntry("manifest.avro", 1, 1, partition, "parquet")
    return EqualityDeletes(path, path, 1, number, (1,), record)


def plan(*files: ListedFile) -> ScanPlan:
    return ScanPlan.of(files, SPECS, "list.avro")


def test_a_vector_without_a_data_file_is_listed() -> None:
    made = plan(data("a1", 1, part("a")), vector("v", 6, None))
    assert [one.path for one in made.vectors] == ["v"]
    assert made.with_vector == set()


@pytest.mark.parametrize("spec", [0, 2])
def test_equality_deletes_of_unpartitioned_specs_hold_for_all(spec: int) -> None:
    made = plan(data("a1", 1, part("a")), data("b2", 2, part("b")), equality("e", 2, part(spec=spec)))
    assert [bool(made.equality_deletes(entry)) for entry in made.data.values()] == [True, False]


def test_equality_deletes_of_a_partition() -> None:
    files = [data("a1", 1, part("a")), data("a2", 2, part("a")), data("a3", 3, part("a")), data("b1", 1, part("b"))]
    made = plan(*files, equality("new", 3, part("a")), equality("old", 2, part("a")))
    found = {path: made.equality_deletes(entry) for path, entry in made.data.items()}
    assert {path: [one.path for one in deletes] for path, deletes in found.items()} == {
        "a1": ["old", "new"],
        "a2": ["new"],
        "a3": [],
        "b1": [],
    }
    newest = {path: made.newest_equality_deletes(entry) for path, entry in made.data.items()}
    assert {path: one and one.path for path, one in newest.items()} == {
        "a1": "new",
        "a2": "new",
        "a3": None,
        "b1": None,
    }


def test_a_data_file_twice() -> None:
    with pytest.raises(NotCanonical, match=r"list.avro: manifests: expected each data file once, found x twice"):
        plan(data("x", 1, part("a")), data("x", 2, part("b")))

"""Which deletes apply to which data file of a snapshot.

Specification: Iceberg table spec, "Scan Planning", as Java's ``DeleteFileIndex`` does it. Paths are compared as
spelled, as engines do, except position deletes whose paths differ only in the scheme: see `spellings`.

Deletes that name one data file apply to it here, whatever partition they record. Engines disagree if it differs from
the data file's: Java 1.12 refuses to plan the scan, others skip the deletes or apply them. An audit finds them
(`mismatched_partitions`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from dvcodec.core.errors import NotCanonical
from dvcodec.tables.iceberg.manifests import EqualityDeletes, ListedFile, ManifestEntry
from dvcodec.tables.iceberg.metadata import PartitionField
from dvcodec.tables.iceberg.partitions import Partition
from dvcodec.tables.iceberg.spellings import Spellings
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The contents of a snapshot's manifests.

    Attributes:
        data_files: in the order of the manifests.
        vectors: deletion vectors and position delete files, in the order of the manifests.
        data: data files by path.
        with_vector: data files that have a deletion vector: position deletes do not apply to them.
        equality: equality deletes by partition; those of unpartitioned specs, which apply to all data files, are
            under None.
        respelled: for position deletes of one data file that they name with another scheme, by path: that name.
        spellings: spellings of the data files.
    """

    data_files: tuple[DataFile, ...]
    vectors: tuple[DeletionVector, ...]
    data: Mapping[str, DataFile]
    with_vector: frozenset[str]
    equality: Mapping[Partition | None, tuple[EqualityDeletes, ...]]
    respelled: Mapping[str, str]
    spellings: Spellings

    @classmethod
    def of(cls, files: Iterable[ListedFile], specs: Mapping[int, tuple[PartitionField, ...]], source: str) -> Plan:
        """Sort the files of the manifests that `source` lists.

        Raises:
            NotCanonical: a data file is repeated.
        """
        data: dict[str, DataFile] = {}
        vectors: list[DeletionVector] = []
        equality: dict[Partition | None, list[EqualityDeletes]] = {}
        for file in files:
            if isinstance(file, DataFile):
                if file.path in data:
                    raise NotCanonical(
                        "manifests", source=source, expected="each data file once", actual=f"{file.path} twice"
                    )
                data[file.path] = file
            elif isinstance(file, DeletionVector):
                vectors.append(file)
            else:
                partition = file.record.partition
                partitioned = any(field.transform != "void" for field in specs[partition.spec_id])
                equality.setdefault(partition if partitioned else None, []).append(file)
        with_vector = {one.data_file for one in vectors if one.format == "iceberg" and one.data_file is not None}
        spellings = Spellings(data)
        respelled: dict[str, str] = {}
        for i, vector in enumerate(vectors):
            path = vector.data_file
            if vector.format == POSITION_DELETES and path is not None and path not in data:
                meant = spellings.find(path)
                if meant is not None:
                    vectors[i] = replace(vector, data_file=meant)
                    respelled[vector.path] = path
        return cls(
            tuple(data.values()),
            tuple(vectors),
            data,
            frozenset(with_vector),
            {key: tuple(sorted(some, key=attrgetter("sequence_number"))) for key, some in equality.items()},
            respelled,
            spellings,
        )

    def find(self, path: str) -> str | None:
        """Return the data file that position deletes name by a path; None if the snapshot does not have it."""
        return path if path in self.data else self.spellings.find(path)

    def equality_deletes(self, data: DataFile) -> tuple[EqualityDeletes, ...]:
        """Return the equality deletes that apply to a data file, the oldest of each partition first.

        Value bounds, by which engines skip more of them, are ignored.
        """
        number = _number(data)
        found: list[EqualityDeletes] = []
        for key in (None, ManifestEntry.of(data).partition):
            deletes = self.equality.get(key, ())
            found += deletes[bisect_right(deletes, number, key=attrgetter("sequence_number")) :]
        return tuple(found)

    def newest_equality_deletes(self, data: DataFile) -> EqualityDeletes | None:
        """Return the newest of the equality deletes that apply to a data file; None without any."""
        if not self.equality:
            return None
        groups = (self.equality.get(key, ()) for key in (None, ManifestEntry.of(data).partition))
        newest = max((one[-1] for one in groups if one), key=attrgetter("sequence_number"), default=None)
        return newest if newest is not None and _number(data) < newest.sequence_number else None

    def mismatched_partitions(self) -> Iterator[tuple[DeletionVector, DataFile]]:
        """Yield deletes of one data file that record another partition or spec than the file's, with the file."""
        for vector in self.vectors:
            data = None if vector.data_file is None else self.data.get(vector.data_file)
            if data is None or not (vector.format == "iceberg" or self.holds(vector, data)):
                continue
            if vector.partition_key != data.partition_key:
                yield vector, data

    def holds(self, deletes: DeletionVector, data: DataFile) -> bool:
        """Whether position deletes apply to a data file whose path they name."""
        if data.path in self.with_vector or _number(data) > _number(deletes):
            return False
        if deletes.data_file is not None:
            return deletes.data_file == data.path
        return deletes.partition_key == data.partition_key


def _number(one: DataFile | DeletionVector) -> int:
    return one.sequence_number or 0

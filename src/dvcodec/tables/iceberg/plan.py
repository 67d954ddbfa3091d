"""Which deletes apply to which data file of a snapshot.

Specification: Iceberg table spec, "Scan Planning", as Java's ``DeleteFileIndex`` does it. Paths are compared as
spelled, as engines do, except position deletes whose paths differ only in the scheme: see `spellings`.

Deletes that name one data file apply to it here, whatever partition they record. Engines disagree if it differs from
the data file's: Java 1.12 refuses to plan the scan, others skip the deletes or apply them. An audit finds them
(`mismatched_partitions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dvcodec.core.errors import NotCanonical
from dvcodec.tables.iceberg.manifests import EQUALITY_DELETES, Entry
from dvcodec.tables.iceberg.metadata import PartitionField
from dvcodec.tables.iceberg.spellings import Spellings
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector

__all__ = ["Plan"]

_Key = tuple[int, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The contents of a snapshot's manifests.

    Attributes:
        data_files: in the order of the manifests.
        vectors: deletion vectors and files of position deletes, in the order of the manifests.
        data: entries of data files by path.
        with_vector: data files that have a deletion vector: position deletes do not hold for them.
        equality: the newest equality deletes by partition; those of unpartitioned specs, which hold for all data
            files, are under None.
        by_partition: position deletes that may be for several data files, by path.
        respelled: position deletes for one data file that they name with another scheme, by path: that name.
        spellings: of the data files.
    """

    data_files: tuple[DataFile, ...]
    vectors: tuple[DeletionVector, ...]
    data: Mapping[str, Entry]
    with_vector: frozenset[str]
    equality: Mapping[_Key | None, Entry]
    by_partition: Mapping[str, Entry]
    respelled: Mapping[str, str]
    spellings: Spellings

    @classmethod
    def of(cls, entries: Iterable[Entry], specs: Mapping[int, tuple[PartitionField, ...]], source: str) -> Plan:
        """Sort the entries of the manifests that `source` lists.

        Raises:
            NotCanonical: a data file is repeated.
        """
        data: dict[str, Entry] = {}
        data_files: list[DataFile] = []
        vectors: list[DeletionVector] = []
        with_vector: set[str] = set()
        equality: dict[_Key | None, Entry] = {}
        by_partition: dict[str, Entry] = {}
        for entry in entries:
            if isinstance(entry.file, DataFile):
                if entry.path in data:
                    raise NotCanonical(
                        "manifests", source=source, expected="each data file once", actual=f"{entry.path} twice"
                    )
                data[entry.path] = entry
                data_files.append(entry.file)
            elif entry.file is not None:
                vectors.append(entry.file)
                if entry.file.data_file is None:
                    by_partition[entry.path] = entry
                elif entry.is_vector:
                    with_vector.add(entry.file.data_file)
            elif entry.content == EQUALITY_DELETES:
                partitioned = any(field.transform != "void" for field in specs[entry.partition.spec_id])
                key = entry.partition.key if partitioned else None
                newest = equality.get(key)
                if newest is None or newest.sequence_number < entry.sequence_number:
                    equality[key] = entry
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
            tuple(data_files),
            tuple(vectors),
            data,
            frozenset(with_vector),
            equality,
            by_partition,
            respelled,
            spellings,
        )

    def find(self, path: str) -> str | None:
        """Return the data file that position deletes name by a path; None if the snapshot does not have it."""
        return path if path in self.data else self.spellings.find(path)

    def equality_deletes(self, data: Entry) -> Entry | None:
        """Return equality deletes that apply to a data file, or None.

        Value bounds, by which engines skip more of them, are ignored.
        """
        for key in (None, data.partition.key):
            found = self.equality.get(key)
            if found is not None and data.sequence_number < found.sequence_number:
                return found
        return None

    def mismatched_partitions(self) -> Iterator[tuple[DeletionVector, Entry]]:
        """Yield deletes of one data file that record another partition, or partition spec, than it; and the file."""
        for vector in self.vectors:
            data = None if vector.data_file is None else self.data.get(vector.data_file)
            if data is None or not (vector.format == "iceberg" or self.holds(vector, data)):
                continue
            if _recorded(vector) != _recorded(data.file):
                yield vector, data

    def holds(self, deletes: DeletionVector, data: Entry) -> bool:
        """Whether position deletes hold for a data file whose path they name."""
        if data.path in self.with_vector or data.sequence_number > deletes.record["sequence_number"]:
            return False
        if deletes.data_file is not None:
            return deletes.data_file == data.path
        return self.by_partition[deletes.path].partition.key == data.partition.key


def _recorded(file: DataFile | DeletionVector | None) -> tuple[Any, Any] | None:
    return None if file is None else (file.record.get("spec_id"), file.record.get("partition_values"))

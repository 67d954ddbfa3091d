"""Which deletes apply to which data file of a snapshot.

Specification: Iceberg table spec, "Scan Planning", as Java's ``DeleteFileIndex`` does it. Paths are compared as
spelled, as engines do, except position deletes whose paths differ only in the scheme.

Deletes that name one data file apply to it here, whatever partition they record. Engines disagree if it differs from
the data file's: Java 1.12 refuses to plan the scan, others skip the deletes or apply them. An audit finds them
(`mismatched_partitions`).

Deletes may name a data file with another scheme than manifests do. The specification requires ``file_path`` of a
position delete to equal the data file's path in the manifest, and Iceberg Java and pyiceberg compare text: to them, a
delete for ``hdfs://host/t/a`` does not apply to ``/t/a``. Engines that qualify paths by file system write such tables
and read them as intended. Here the delete applies, because a deleted row that comes back is the worse fault, and the
audit reports an error, because engines disagree.

`contradictions` finds metadata that makes engines refuse a table or skip its vectors, however valid each vector is.
Specification: Iceberg table spec, "Deletion Vectors" (from format version 3 on) and "Scan Planning" (a delete file
applies to data files of its partition and spec). Engines were run to find their other rules: see "Will every engine see
these deletes" in `docs/tables.md`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from dvcodec.core.errors import NotCanonical
from dvcodec.io.target import file_key
from dvcodec.tables.iceberg.manifests import EqualityDeletes, ListedFile, ManifestEntry
from dvcodec.tables.iceberg.metadata import PartitionField, TableMetadata
from dvcodec.tables.iceberg.schema import Partition
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector
from dvcodec.tables.snapshots.findings import Finding, shortened

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*(?=/)|(?=/))")


class Spellings:
    """The data files of a snapshot, by path without scheme and authority.

    >>> files = Spellings(["/t/a", "s3://lake/t/b"])
    >>> files.find("hdfs://host:8020/t/a"), files.find("s3a://lake/t/b"), files.find("s3://other/t/b")
    ('/t/a', 's3://lake/t/b', None)
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = paths
        self._known: dict[str, list[str]] = {}

    def find(self, path: str) -> str | None:
        """Return the one data file that `path` names with another scheme; None if none or several match.

        One of the two has no scheme, or both are the same to `file_key`.
        """
        if not self._known:
            for known in self._paths:
                self._known.setdefault(_bare(known), []).append(known)
        found = self._known.get(_bare(path), [])
        if len(found) != 1:
            return None
        alike = file_key(path) == file_key(found[0])
        return found[0] if alike or _is_bare(path) or _is_bare(found[0]) else None


def _bare(path: str) -> str:
    head = _SCHEME.match(path)  # a search would begin at every character of a long name
    rest = path[head.end() :] if head else path
    return "/" + rest.lstrip("/") if rest.startswith("//") else rest


def _is_bare(path: str) -> bool:
    return path.startswith("/")


@dataclass(frozen=True, slots=True)
class ScanPlan:
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
    def of(cls, files: Iterable[ListedFile], specs: Mapping[int, tuple[PartitionField, ...]], source: str) -> ScanPlan:
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
                    raise repeated(file.path, source)
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


def repeated(path: str, source: str) -> NotCanonical:
    """Return the error for a data file that manifests have twice."""
    return NotCanonical("manifests", source=source, expected="each data file once", actual=f"{path} twice")


def _number(one: DataFile | DeletionVector) -> int:
    return one.sequence_number or 0


VECTORS_VERSION = 3
"""The first format version that has Puffin vectors."""


def contradictions(metadata: TableMetadata, plan: ScanPlan, skipped_metadata: tuple[str, ...]) -> Iterator[Finding]:
    """Find metadata that does not fit the vectors of a snapshot.

    Checks:

    - ``iceberg-version``: Puffin vectors in a table of a format version below 3. Iceberg releases without vectors
      refuse the file format; newer ones read them until they rewrite a manifest, because manifests of version 2 do
      not record the byte ranges;
    - ``partition-mismatch``: deletes of one data file that record another partition, or partition spec, than the file.
      Java refuses to plan a scan; polars ignores such vectors, pyiceberg those with another spec;
    - ``metadata-name``: metadata files without a version in their names, which may be newer.

    A vector whose sequence number is below that of its data file (``sequence-number``) is found when it is read.

    Args:
        metadata: metadata of the table.
        plan: plan of the snapshot.
        skipped_metadata: bare names of metadata files that were not read.
    """
    if metadata.format_version < VECTORS_VERSION and any(vector.format == "iceberg" for vector in plan.vectors):
        what = "format-version of a table with Puffin vectors"
        expected, actual = f"{VECTORS_VERSION} or higher", str(metadata.format_version)
        yield Finding.failed("iceberg-version", what, expected, actual, path=metadata.source)
    for vector, data in plan.mismatched_partitions():
        what = "partition of the deletes"
        wanted, own = (ManifestEntry.of(one).partition for one in (data, vector))
        expected, actual = shortened(wanted.label or "none"), shortened(own.label or "none")
        if own.spec_id != wanted.spec_id:
            what = "partition spec of the deletes"
            expected, actual = str(wanted.spec_id), str(own.spec_id)
        expected += " (the data file's)"
        yield Finding.of_vector("partition-mismatch", vector, what, expected, actual)
    if skipped_metadata:
        what = "metadata files without a version in their names, which may be newer and were not read"
        expected, actual = "names like v3.metadata.json or 00003-<uuid>.metadata.json", ", ".join(skipped_metadata)
        yield Finding.failed("metadata-name", what, expected, actual, path=metadata.source)

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import attrgetter

import numpy as np

from dvcodec.core.errors import NotCanonical
from dvcodec.core.ragged import Flags, Index
from dvcodec.io.target import file_key
from dvcodec.tables.iceberg.entries import DataFiles, Deletes, EqualityDeletes, ManifestEntry, ManifestFiles
from dvcodec.tables.iceberg.metadata import TableMetadata
from dvcodec.tables.iceberg.schema import Partition
from dvcodec.tables.model import ByPath, DataFile, DeletionVector, OnDemand, joined
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


@dataclass(frozen=True, eq=False)
class ScanPlan:
    """The contents of a snapshot's manifests.

    Attributes:
        data_files: in the order of the manifests.
        vectors: deletion vectors and position delete files, in the order of the manifests.
        parts: contents of each manifest.
        data_parts: those of data files.
        vector_parts: those of deletes, by the data files that they name.
        numbers: numbers of the data files by path.
        named: data file of each of `vectors`; None if there may be several.
        bitmaps: which of `vectors` are deletion vectors.
        equality: equality deletes by partition; those of unpartitioned specs, which apply to all data files, are
            under None.
        respelled: for position deletes of one data file that they name with another scheme, by path: that name.
        spellings: spellings of the data files.
    """

    data_files: OnDemand[DataFile]
    vectors: OnDemand[DeletionVector]
    parts: Sequence[ManifestFiles]
    data_parts: Sequence[DataFiles]
    vector_parts: Sequence[Deletes]
    numbers: Mapping[str, int]
    named: Sequence[str | None]
    bitmaps: Flags
    equality: Mapping[Partition | None, tuple[EqualityDeletes, ...]]
    respelled: Mapping[str, str]
    spellings: Spellings

    @classmethod
    def of(cls, manifests: Iterable[ManifestFiles], source: str) -> ScanPlan:
        """Sort the files of each of the manifests that `source` lists.

        Raises:
            NotCanonical: a data file is repeated.
        """
        parts = tuple(manifests)
        data = [part for part in parts if isinstance(part, DataFiles)]
        vectors = [part for part in parts if isinstance(part, Deletes)]
        equality: dict[Partition | None, list[EqualityDeletes]] = {}
        for one in chain.from_iterable(part.equality for part in parts):
            partition = ManifestEntry.of(one.file).partition
            equality.setdefault(partition if partition.typed else None, []).append(one)
        paths = [path for part in data for path in part.entries.paths]
        numbers = dict(zip(paths, range(len(paths)), strict=True))
        if len(numbers) < len(paths):
            raise repeated(next(path for number, path in enumerate(paths) if numbers[path] != number), source)
        named = [path for part in vectors for path in part.paths]
        bitmaps = np.concatenate([np.zeros(0, np.bool_), *(part.bitmaps for part in vectors)])
        spellings, recorded = Spellings(numbers), joined(vectors, named)
        meant: dict[int, str] = {}
        for number in np.flatnonzero(~bitmaps).tolist():
            path = named[number]
            found = None if path is None or path in numbers else spellings.find(path)
            if found is not None:
                meant[number] = found
        respelled = _respelled(recorded, meant)
        return cls(
            joined(data, paths),
            respelled,
            parts,
            data,
            vectors,
            numbers,
            respelled.paths,
            bitmaps,
            {key: tuple(sorted(some, key=attrgetter("file.sequence_number"))) for key, some in equality.items()},
            {recorded[number].path: named[number] or "" for number in meant},
            spellings,
        )

    @cached_property
    def data(self) -> Mapping[str, DataFile]:
        """Data files by path."""
        return ByPath(self.data_files, self.numbers)

    @cached_property
    def equality_files(self) -> Sequence[DataFile]:
        """Files of equality deletes."""
        return [one.file for group in self.equality.values() for one in group]

    @cached_property
    def with_vector(self) -> frozenset[str]:
        """Data files that have a deletion vector: position deletes do not apply to them."""
        found = (self.named[number] for number in np.flatnonzero(self.bitmaps).tolist())
        return frozenset(path for path in found if path is not None)

    @cached_property
    def files_of_vectors(self) -> Index:
        """Number of the data file of each of `vectors`, int64; -1 if it is not here, or not named."""
        return np.array([-1 if path is None else self.numbers.get(path, -1) for path in self.named], np.int64)

    @cached_property
    def sequence_numbers(self) -> tuple[Index, Index]:
        """Data sequence numbers of the data files and of the vectors, int64."""
        return _sequence_numbers(self.data_parts), _sequence_numbers(self.vector_parts)

    @cached_property
    def partitions(self) -> tuple[Sequence[Partition], Index, Index]:
        """Partitions, each once, and the number of that of each data file and of each vector, int64."""
        codes: dict[Partition, int] = {}
        of_files, of_vectors = (_partitions(parts, codes) for parts in (self.data_parts, self.vector_parts))
        return list(codes), of_files, of_vectors

    def find(self, path: str) -> str | None:
        """Return the data file that position deletes name by a path; None if the snapshot does not have it."""
        return path if path in self.data else self.spellings.find(path)

    def mismatched_partitions(self) -> Iterator[tuple[DeletionVector, DataFile]]:
        """Yield deletes of one data file that record another partition or spec than the file's, with the file."""
        files, (_, of_files, of_vectors) = self.files_of_vectors, self.partitions
        known = np.flatnonzero(files >= 0)
        for number in known[of_vectors[known] != of_files[files[known]]].tolist():
            vector, data = self.vectors[number], self.data_files[files[number]]
            if self.bitmaps[number] or self.holds(vector, data):
                yield vector, data

    def holds(self, deletes: DeletionVector, data: DataFile) -> bool:
        """Whether position deletes apply to a data file whose path they name."""
        if data.path in self.with_vector or _number(data) > _number(deletes):
            return False
        if deletes.data_file is not None:
            return deletes.data_file == data.path
        return deletes.partition_key == data.partition_key


def _sequence_numbers(parts: Iterable[ManifestFiles]) -> Index:
    return np.concatenate([np.zeros(0, np.int64), *(part.entries.sequence_numbers for part in parts)])


def _partitions(parts: Iterable[ManifestFiles], codes: dict[Partition, int]) -> Index:
    """Return the numbers of partitions; unknown ones are put into `codes`."""
    found = [np.zeros(0, np.int64)]
    for part in parts:
        own = np.array([codes.setdefault(one, len(codes)) for one in part.entries.partitions], np.int64)
        found.append(own[part.entries.partition_of])
    return np.concatenate(found)


def _respelled(vectors: OnDemand[DeletionVector], meant: Mapping[int, str]) -> OnDemand[DeletionVector]:
    """Return vectors, some of them for another data file than they name."""
    if not meant:
        return vectors

    def make(number: int) -> DeletionVector:
        one = vectors[number]
        return replace(one, data_file=meant[number]) if number in meant else one

    return OnDemand(len(vectors), make, [meant.get(number, path) for number, path in enumerate(vectors.paths)])


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
    if metadata.format_version < VECTORS_VERSION and bool(plan.bitmaps.any()):
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

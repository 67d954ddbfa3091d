"""Count the deleted rows of each data file of a snapshot: every vector is read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.bitmap import ContainerMix
from dvcodec.core.errors import DecodeError
from dvcodec.core.rowset import RowSet
from dvcodec.tables.model import DataFile, DeletedRows, DeletionVector, SnapshotInfo, TableKind, vectors_of
from dvcodec.tables.snapshots import rules
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.snapshots.reading import Progress, VectorRead, read_vectors
from dvcodec.tables.snapshots.rules import Found
from dvcodec.tables.table import Snapshot, Table, check_progress, check_table

__all__ = ["DENSITY_PARTS", "FileDeletes", "Scan", "density", "scan", "scan_snapshot"]

DENSITY_PARTS = 64
"""Equal parts of a data file, each with its deleted share."""
_NO_ROWS = RowSet()
_FEW = 4096
"""Deleted rows whose positions are looked at one by one: a bitmap's own way to count takes longer for them."""
_MOST_ERRORS = 10
"""Errors of position deletes of a partition that each of its data files has: there may be thousands of both."""


@dataclass(frozen=True, slots=True, eq=False)
class FileDeletes:
    """A data file of a snapshot and its deleted rows.

    Attributes:
        data_file: the data file.
        vectors: those that apply to it, read or not. More than one is a finding, unless they are position deletes.
        rows: union of the vectors that could be read; None without `keep_rows`.
        min_deleted: rows of the file in that union, 0 if its vectors have different rows: a lower bound of the deleted
            rows, which are more if `errors` or `other_deletes` say so.
        stored_bytes: bytes of its vectors as stored. A file of position deletes counts for each of its data files
            by their share of its rows.
        containers: roaring containers of its vectors.
        density: float32[`DENSITY_PARTS`], deleted share of each equal part of the file, 0 to 1 (see `density`);
            float32[0] if the file's rows are unknown.
        errors: why these numbers may be wrong: vectors that could not be read, positions beyond the file, vectors of
            different rows.
        unreadable: number of its vectors that could not be read.
        other_deletes: what else deletes its rows, which are not counted: see `Snapshot.other_deletes`.
        hidden: whether its records are no rows yet: see `Snapshot.is_hidden`.
    """

    data_file: DataFile
    vectors: tuple[DeletionVector, ...] = ()
    rows: RowSet | None = None
    min_deleted: int = 0
    stored_bytes: int = 0
    containers: ContainerMix = field(default_factory=ContainerMix)
    density: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    errors: tuple[str, ...] = ()
    unreadable: int = 0
    other_deletes: str | None = None
    hidden: bool = False

    @property
    def deleted(self) -> int | None:
        """Number of deleted rows; None if only a lower bound is known."""
        return None if self.errors or self.other_deletes else self.min_deleted

    @property
    def deleted_share(self) -> float | None:
        """`min_deleted` per physical row; None if the rows are unknown or 0."""
        return self.min_deleted / self.data_file.physical_rows if self.data_file.physical_rows else None

    @property
    def fully_deleted(self) -> bool:
        """Whether the file has rows and all are deleted; False if a vector is in doubt."""
        rows = self.data_file.physical_rows
        return bool(rows) and self.min_deleted == rows and not self.errors


@dataclass(frozen=True, slots=True)
class Scan:
    """A snapshot and its deleted rows.

    Attributes:
        table: location of the table's folder.
        kind: kind of the table.
        info: the snapshot.
        files: all data files, in the snapshot's order, also those without deletes.
        lost: vectors that could not be read or whose data file is gone, with the reason.
        unreadable: number of these that could not be read.
        findings: what is wrong, in the order it was found; empty if all vectors are valid.
        unopened: locations of vector files that could not be opened.
    """

    table: str
    kind: TableKind
    info: SnapshotInfo
    files: tuple[FileDeletes, ...]
    lost: tuple[tuple[DeletionVector, str], ...]
    findings: tuple[Finding, ...]
    unreadable: int = 0
    unopened: frozenset[str] = frozenset()


def scan(
    table: Table,
    snapshot_id: int | None = None,
    *,
    threads: int | None = None,
    keep_rows: bool = False,
    progress: Progress | None = None,
) -> Scan:
    """Read all vectors of a snapshot and count what they delete.

    Args:
        table: see `open_table`.
        snapshot_id: the snapshot to scan; None = the current one.
        threads: number of concurrent readers; None = 8, or for remote tables the maximum of the storage.
        keep_rows: True keeps each data file's rows; by default they are dropped once counted.
        progress: called with the number of vectors read, and the total.

    Returns:
        Corrupt vectors are in its `lost` and `findings`; they do not raise.

    Raises:
        UsageError: the table has no such snapshot.
        DecodeError: the table's metadata is corrupt.
        OSError: the metadata cannot be read.
    """
    check_table(table)
    check_progress(progress)
    snapshot = table.snapshot(snapshot_id)
    return scan_snapshot(snapshot, threads=threads, keep_rows=keep_rows, progress=progress)


def scan_snapshot(
    snapshot: Snapshot,
    *,
    threads: int | None = None,
    keep_rows: bool = False,
    progress: Progress | None = None,
) -> Scan:
    """Scan an open snapshot; see `scan`."""
    collector = _Collector(snapshot, keep_rows)
    for read in read_vectors(snapshot, snapshot.vectors, threads=threads, progress=progress):
        collector.add(read)
    files = tuple(map(collector.deletes_of, snapshot.data_files))
    table, found, lost = snapshot.table, tuple(collector.findings), tuple(collector.lost)
    unopened = frozenset(collector.unopened)
    return Scan(table.location, table.kind, snapshot.info, files, lost, found, collector.unreadable, unopened)


class _Collector:
    """Groups vectors by data file; a file's rows are dropped once all its vectors are read."""

    def __init__(self, snapshot: Snapshot, keep_rows: bool) -> None:
        self.lost: list[tuple[DeletionVector, str]] = []
        self.unreadable = 0
        self.unopened: set[str] = set()
        self.findings: list[Finding] = []
        self._keep_rows = keep_rows
        self._files: dict[str, FileDeletes] = {}
        self._snapshot, self._number = snapshot, snapshot.info.id
        self._named = vectors_of(vector for vector in snapshot.vectors if vector.data_file in snapshot.files)
        self._waiting = {path: len(vectors) for path, vectors in self._named.items()}
        self._wide = sum(vector.data_file is None for vector in snapshot.vectors)
        self._found: dict[str, list[Found]] = {}
        self._stored_bytes: Counter[str] = Counter()
        self._errors: dict[str, list[str]] = {}
        self._wide_errors: dict[Hashable | None, list[str]] = {}

    def add(self, read: VectorRead) -> None:
        """Take a vector that was read, or could not be."""
        vector, path = read.vector, read.vector.data_file
        if read.error is not None:
            error = str(read.error)
            self.lost.append((vector, error))
            self.unreadable += 1
            if not isinstance(read.error, DecodeError):
                self.unopened.add(vector.location)
            self._note(rules.unreadable(vector, read.error))
            if path is None:
                self._wide_errors.setdefault(vector.partition_key, []).append(error)
        else:
            self._note(*rules.schemes(self._snapshot, vector))
        misplaced = () if read.error is not None and path is None else tuple(rules.paths(self._snapshot, vector))
        self._note(*misplaced)
        if path is not None and misplaced:
            if read.error is None:
                self.lost += [(vector, f"{finding.what}: {path}") for finding in misplaced]
            return
        if read.error is not None and path is not None:
            self._errors.setdefault(path, []).append(error)
        total = sum(found.rows.cardinality for found in read.found)
        for found in read.found:
            self._found.setdefault(found.data_file, []).append((vector, found))
            self._stored_bytes[found.data_file] += _stored_bytes(vector, found, total)
        if path is None:
            self._wide -= 1
        else:
            self._waiting[path] -= 1
        if self._wide == 0:  # those of partitions may apply to any file
            for done in dict.fromkeys([*self._found, *self._errors]) if path is None else [path]:
                if not self._waiting.get(done):
                    self._finish(done)

    def _note(self, *findings: Finding) -> None:
        for finding in findings:
            self.findings.append(finding.in_snapshot(self._number))

    def deletes_of(self, file: DataFile) -> FileDeletes:
        """Return the deleted rows of a data file, once all vectors were added."""
        found = self._files.get(file.path)
        if found is None:
            rows, shares = _NO_ROWS if self._keep_rows else None, density(_NO_ROWS, file.physical_rows)
            found = FileDeletes(file, rows=rows, density=shares)
        if self._snapshot.is_hidden(file):
            return replace(found, hidden=True)
        wide, other = self._wide_errors_of(file.partition_key), self._snapshot.other_deletes(file)
        return replace(found, errors=(*found.errors, *wide), other_deletes=other) if wide or other else found

    def _wide_errors_of(self, partition: Hashable | None) -> list[str]:
        """Return errors of position deletes that may be for the data files of a partition: the first few."""
        groups = self._wide_errors
        some = groups.values() if partition is None else [groups.get(None, []), groups.get(partition, [])]
        count = sum(map(len, some))
        found = list(islice(chain.from_iterable(some), _MOST_ERRORS))
        more = count - len(found)
        return [*found, f"{more} more position deletes cannot be read"] if more else found

    def _finish(self, path: str) -> None:
        file = self._snapshot.files[path]  # of files that are gone, none is finished
        found, errors = self._found.pop(path, []), self._errors.pop(path, [])
        unreadable = len(errors)
        wide = tuple(vector for vector, _ in found if vector.data_file is None)
        vectors = (*self._named.get(path, ()), *wide)
        doubts = tuple(rules.of_data_file(file, vectors, found))
        self._note(*doubts)
        errors += [finding.message for finding in doubts if finding.check != "equal-vectors"]
        rows = RowSet().union(*(part.rows for _, part in found))
        deleted = rows.cardinality if file.physical_rows is None else rows.count(0, file.physical_rows)
        if any(finding.check == "different-vectors" for finding in doubts):
            deleted = 0
        mix = ContainerMix()
        for _, part in found:
            if part.stats is not None:
                mix = mix.plus(part.stats.containers)
        self._files[path] = FileDeletes(
            file,
            vectors,
            rows if self._keep_rows else None,
            deleted,
            self._stored_bytes[path],
            mix,
            density(rows, file.physical_rows),
            tuple(errors),
            unreadable,
        )


def _stored_bytes(vector: DeletionVector, found: DeletedRows, total: int) -> int:
    """Return the bytes of a vector as stored; of position deletes for `total` rows, the share of one data file."""
    if found.stats is not None:
        return found.stats.size
    whole = vector.size or vector.file_size or 0
    return whole * found.rows.cardinality // total if total else 0


def density(rows: RowSet, physical_rows: int | None) -> NDArray[np.float32]:
    """Return the deleted share of each of `DENSITY_PARTS` equal parts of a data file, 0 to 1.

    Part i is the rows from ``physical_rows * i // DENSITY_PARTS`` up to where the next begins. A file of fewer rows has
    each of them in several parts. Positions beyond the file are ignored. If the rows are unknown, there are no parts.

    >>> density(RowSet([0, 1, 2]), 128)[:3].tolist()
    [1.0, 0.5, 0.0]
    """
    if physical_rows is None:
        return np.zeros(0, np.float32)
    if not rows or not physical_rows:
        return np.zeros(DENSITY_PARTS, np.float32)
    edges = [physical_rows * part // DENSITY_PARTS for part in range(DENSITY_PARTS + 1)]
    if physical_rows < DENSITY_PARTS:
        deleted = np.zeros(physical_rows, np.float32)
        if rows.cardinality <= _FEW:  # thousands of small files may have a deleted row each
            positions = rows.to_numpy(np.uint64)
            deleted[positions[positions < physical_rows]] = 1
        else:
            deleted[rows.mask(0, physical_rows)] = 1
        return deleted[edges[:-1]]
    return (rows.histogram(physical_rows, DENSITY_PARTS) / np.diff(edges)).astype(np.float32)

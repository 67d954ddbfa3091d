"""Count the deleted rows of each data file of a snapshot; statistics of these, and the data files worth rewriting.

Every vector is read once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.bitmap import ContainerMix
from dvcodec.core.errors import DecodeError, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_type
from dvcodec.ops.convert import WORTH_REWRITING, check_thresholds
from dvcodec.tables.model import DataFile, DeletedRows, DeletionVector, SnapshotInfo, TableKind, vectors_of
from dvcodec.tables.snapshots import rules
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.snapshots.reading import Progress, VectorRead, read_vectors
from dvcodec.tables.snapshots.rules import BEYOND, VectorRows
from dvcodec.tables.table import Snapshot, Table, check_progress, check_table

__all__ = [
    "DENSITY_PARTS",
    "FileDeletes",
    "RewriteCandidate",
    "Scan",
    "Totals",
    "density",
    "rewrite_candidates",
    "scan",
    "scan_snapshot",
    "totals",
]

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
        self._found: dict[str, list[VectorRows]] = {}
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


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers of a whole snapshot.

    Attributes:
        data_files: number of data files.
        with_deletes: data files with deleted rows.
        fully_deleted: data files without live rows.
        in_doubt: data files with a vector that could not be read or contradicts the metadata or another vector.
        other_deletes: data files with rows that are deleted by other means than vectors, and not counted.
        uncounted: data files without a recorded row count.
        hidden: data files whose records are no rows yet, and not counted (Paimon's that wait for compaction).
        rows: physical rows as recorded; None if not recorded for all data files.
        deleted: deleted rows; None if only a lower bound is known.
        min_deleted: lower bound of the deleted rows: those of vectors that could be read and are not in doubt.
        max_live: upper bound of the live rows: `rows` less `min_deleted`; None if `rows` is, or if a vector has
            positions beyond the recorded rows of its data file, which may have more.
        unreadable: vectors of the snapshot that could not be read.
        data_bytes: bytes of the data files as recorded; None if not recorded for all.
        vectors: vectors that apply to data files of the snapshot.
        stored_bytes: bytes of these vectors as stored, as far as they could be read.
        containers: roaring containers of these vectors.
    """

    data_files: int
    with_deletes: int
    fully_deleted: int
    in_doubt: int
    other_deletes: int
    uncounted: int
    hidden: int
    rows: int | None
    deleted: int | None
    min_deleted: int
    max_live: int | None
    unreadable: int
    data_bytes: int | None
    vectors: int
    stored_bytes: int
    containers: ContainerMix

    @property
    def exact(self) -> bool:
        """Whether the deleted rows are known; if not, `min_deleted` is a lower bound and `max_live` an upper one."""
        return self.deleted is not None

    @property
    def deleted_share(self) -> float | None:
        """`min_deleted` per physical row; None without rows, or if their number is unknown."""
        return self.min_deleted / self.rows if self.rows else None

    @property
    def bytes_per_row(self) -> float | None:
        """Bytes of vectors per deleted row; None if nothing is deleted, or it is not known how many rows."""
        return self.stored_bytes / self.deleted if self.deleted else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        numbers = {name: getattr(self, name) for name in self.__slots__ if name != "containers"}
        shares = {"exact": self.exact, "deleted_share": self.deleted_share, "bytes_per_row": self.bytes_per_row}
        return numbers | {"containers": self.containers._asdict()} | shares


def totals(scan: Scan) -> Totals:
    """Sum up a scan.

    Raises:
        UsageError: not a `Scan`.
    """
    check_type(scan, Scan, "scan", "a Scan")
    mix = ContainerMix()
    for file in scan.files:
        mix = mix.plus(file.containers)
    seen = [file for file in scan.files if not file.hidden]
    rows = [file.data_file.physical_rows for file in seen]
    min_deleted = sum(file.min_deleted for file in seen)
    exact = not scan.lost and all(file.deleted is not None for file in seen)
    total = _sum(rows)
    too_few = any(finding.check == BEYOND for finding in scan.findings)
    return Totals(
        data_files=len(scan.files),
        with_deletes=sum(file.min_deleted > 0 for file in seen),
        fully_deleted=sum(file.fully_deleted for file in seen),
        in_doubt=sum(bool(file.errors) for file in scan.files),
        other_deletes=sum(file.other_deletes is not None for file in scan.files),
        uncounted=rows.count(None),
        hidden=len(scan.files) - len(seen),
        rows=total,
        deleted=min_deleted if exact else None,
        min_deleted=min_deleted,
        max_live=None if total is None or too_few else total - min_deleted,
        unreadable=scan.unreadable,
        data_bytes=_sum([file.data_file.size for file in scan.files]),
        vectors=len({id(vector) for file in scan.files for vector in file.vectors}),
        stored_bytes=sum(file.stored_bytes for file in scan.files),
        containers=mix,
    )


def _sum(numbers: list[int | None]) -> int | None:
    """Return the sum of numbers; None if one is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


@dataclass(frozen=True, slots=True)
class RewriteCandidate:
    """A data file that is worth rewriting.

    Attributes:
        file: the data file and its deleted rows.
        reasons: ``fully-deleted``, ``deleted-ratio``, ``bytes-per-row``, ``small-vector``, ``small-file``.
    """

    file: FileDeletes
    reasons: tuple[str, ...]

    @property
    def live_rows(self) -> int | None:
        """Rows that a rewrite keeps; None if the file's rows, or the deleted ones, are unknown."""
        rows, deleted = self.file.data_file.physical_rows, self.file.deleted
        return None if rows is None or deleted is None else rows - deleted

    @property
    def gain(self) -> int | None:
        """Estimated bytes of data that a rewrite removes; None if the file's bytes or rows are unknown."""
        size, share = self.file.data_file.size, self.file.deleted_share
        return None if size is None or share is None else round(size * share)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        data_file = self.file.data_file
        return {
            "data_file": data_file.path,
            "rows": data_file.physical_rows,
            "deleted": self.file.deleted,
            "live_rows": self.live_rows,
            "deleted_ratio": self.file.deleted_share,
            "fully_deleted": self.file.fully_deleted,
            "gain": self.gain,
            "reasons": list(self.reasons),
        }


def rewrite_candidates(
    scan: Scan,
    *,
    min_ratio: float = WORTH_REWRITING,
    min_deleted: int = 1,
    max_bytes_per_row: float | None = None,
    small_vector: int | None = None,
    small_file: int | None = None,
) -> tuple[RewriteCandidate, ...]:
    """Return the data files that are worth rewriting, highest gain first. Terms as in `compaction_candidates`.

    A file without live rows is always a candidate: it can be dropped instead of rewritten. A file with a vector in
    doubt is not: a rewrite would make the wrong rows permanent.

    Args:
        scan: the scan of a snapshot.
        min_ratio: 0 to 1; a file is a candidate if at least this share of its rows is deleted, and at least
            `min_deleted`.
        min_deleted: rows. Raise it to skip small files, whose rewrite costs more than it gains.
        max_bytes_per_row: a file is a candidate if its vectors have more bytes than this per deleted row.
        small_vector: bytes; a file is a candidate if its vectors are smaller.
        small_file: bytes; a file is a candidate if it is smaller, with deleted rows or without.

    Raises:
        UsageError: numbers out of range, or an argument of a wrong type.
    """
    check_type(scan, Scan, "scan", "a Scan")
    check_thresholds(min_ratio, min_deleted)
    numbers = {"max_bytes_per_row": max_bytes_per_row, "small_vector": small_vector, "small_file": small_file}
    for name, value in numbers.items():
        check_type(value, (int, float, type(None)), name, "a number")
        if value is not None and value < 0:
            raise UsageError(f"{name} must not be negative")

    def reasons(file: FileDeletes) -> Iterator[str]:
        share, size = file.deleted_share, file.data_file.size
        if file.fully_deleted:
            yield "fully-deleted"
        if share is not None and share >= min_ratio and file.min_deleted >= min_deleted:
            yield "deleted-ratio"
        if max_bytes_per_row is not None and file.stored_bytes > max_bytes_per_row * file.min_deleted:
            yield "bytes-per-row"
        if small_vector is not None and file.vectors and file.stored_bytes < small_vector:
            yield "small-vector"
        if small_file is not None and size is not None and size < small_file:
            yield "small-file"

    found = [RewriteCandidate(file, why) for file in scan.files if not file.errors and (why := tuple(reasons(file)))]
    return tuple(sorted(found, key=lambda one: (-(one.gain or 0), -one.file.min_deleted, one.file.data_file.path)))

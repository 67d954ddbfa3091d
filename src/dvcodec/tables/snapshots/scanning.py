"""Count the deleted rows of each data file of a snapshot; statistics of these, and the data files worth rewriting.

Every vector is read once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.batch import Few
from dvcodec.core.errors import DecodeError, UsageError
from dvcodec.core.ragged import Flags, Index
from dvcodec.core.roaring import ContainerMix
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import card, counted, share_text, shares_text
from dvcodec.core.text import number as number_text
from dvcodec.core.usage import check_type
from dvcodec.ops.convert import WORTH_REWRITING, check_thresholds
from dvcodec.tables.columns import ODD, UNKNOWN, FileColumns, VectorColumns, values_of
from dvcodec.tables.model import DataFile, DeletedRows, DeletionVector, OnDemand, SnapshotInfo, TableKind
from dvcodec.tables.snapshots import rules
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.snapshots.reading import FewRead, Progress, VectorRead, read_and_count, read_vectors
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
_NEARLY = 1 - 1e-9
"""Of a threshold: shares of so many rows that a float is not exact are looked at."""
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
        hidden: whether its records are not rows yet: see `Snapshot.is_hidden`.
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


VectorPlace: TypeAlias = "tuple[str, int | None, int | None, int | None]"
"""Path, offset, size and recorded cardinality of a vector."""


@dataclass(frozen=True, slots=True, repr=False)
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
    files: Sequence[FileDeletes]
    lost: tuple[tuple[DeletionVector, str], ...]
    findings: tuple[Finding, ...]
    unreadable: int = 0
    unopened: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<scan of {self.kind.value} table {self.table!r:.200}, snapshot {self.info.id}>"

    def _repr_html_(self) -> str:
        """Return the data files and what is deleted of them, as HTML for notebooks."""
        rows = (
            (
                one.data_file.path,
                number_text(one.data_file.physical_rows),
                number_text(one.deleted),
                share_text(one.deleted_share),
                shares_text(one.density.reshape(-1, 2).mean(axis=1).tolist()),
            )
            for one in self.files
        )
        facts = (f"snapshot {self.info.id}", counted(len(self.files), "data file"))
        return card(
            f"{self.kind.value} table {self.table}",
            facts,
            ("data file", "rows", "deleted", "share", "where"),
            rows,
            len(self.files),
        )


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
    reads: Iterator[FewRead | VectorRead]
    if keep_rows:
        reads = read_vectors(snapshot, snapshot.vectors, threads=threads, progress=progress)
    else:
        reads = read_and_count(snapshot, threads=threads, progress=progress)
    for read in reads:
        if isinstance(read, FewRead):
            collector.few.append(read)
        else:
            collector.add(read)
    table, found, lost = snapshot.table, tuple(collector.findings), tuple(collector.lost)
    unopened = frozenset(collector.unopened)
    return Scan(
        table.location, table.kind, snapshot.info, collector.files(), lost, found, collector.unreadable, unopened
    )


class ScanColumns:
    """The data files of a scan and their deleted rows, by column; see `FileDeletes`.

    Attributes:
        files: the data files.
        min_deleted: int64[n].
        stored_bytes: int64[n].
        containers: int64[n, 3].
        vectors: int64[n], number of vectors.
        in_doubt: bool[n], whether there are errors.
        other_deletes: bool[n], whether there are any.
        hidden: bool[n].
        others: data files with several vectors, or with position deletes, by number.
        vector_of: int64[n], number of the vector of each data file with one that is not of `others`; -1 for the rest.
        density: float32[k, `DENSITY_PARTS`] of some data files.
        density_of: int64[n], where in `density` that of each data file is; -1 if it is not there: nothing is deleted,
            or it is of `others`.
    """

    def __init__(self, files: FileColumns, vectors: VectorColumns) -> None:
        count = len(files.files)
        self.files, self._vectors = files, vectors
        self.min_deleted, self.stored_bytes, self.vectors = (np.zeros(count, np.int64) for _ in range(3))
        self.containers = np.zeros((count, 3), np.int64)
        self.in_doubt, self.other_deletes, self.hidden = (np.zeros(count, np.bool_) for _ in range(3))
        self.others: dict[int, FileDeletes] = {}
        self.density = np.zeros((0, DENSITY_PARTS), np.float32)
        self.density_of, self.vector_of = (np.full(count, -1, np.int64) for _ in range(2))

    @classmethod
    def of(cls, scan: Scan) -> ScanColumns:
        """Return the columns of a scan."""
        if isinstance(scan.files, _Files):
            return scan.files.columns
        made = cls(FileColumns([file.data_file for file in scan.files]), VectorColumns((), {}))
        for number, file in enumerate(scan.files):
            made.put(number, file)
        return made

    def put(self, number: int, file: FileDeletes) -> None:
        """Put in one of `others`."""
        self.others[number] = file
        self.min_deleted[number], self.stored_bytes[number] = file.min_deleted, file.stored_bytes
        self.containers[number], self.vectors[number] = file.containers, len(file.vectors)
        self.in_doubt[number], self.hidden[number] = bool(file.errors), file.hidden
        self.other_deletes[number] = file.other_deletes is not None
        self.vector_of[number] = -1

    def put_few(self, few: Sequence[FewRead]) -> None:
        """Put in the data files of vectors, with one each."""
        files = [self._vectors.files[one.numbers] for one in few]
        parts = [density_of_each(one.few, self.files.rows[numbers]) for one, numbers in zip(few, files, strict=True)]
        self.density = np.concatenate([self.density, *parts])
        if few:
            numbers = np.concatenate(files)
            self.min_deleted[numbers] = np.concatenate([one.few.cardinality for one in few])
            self.containers[numbers] = np.concatenate([one.few.mix for one in few])
            self.density_of[numbers] = np.arange(len(numbers))
            self.vectors[numbers] = 1
            self.vector_of[numbers] = of_each = np.concatenate([one.numbers for one in few])
            self.stored_bytes[numbers] = self._vectors.sizes[of_each]

    def vectors_by_file(self) -> Iterator[tuple[int, Sequence[VectorPlace]]]:
        """Yield the number of each data file with vectors, and where these are, in the order of the data files."""
        columns, alone = self._vectors, self.vector_of[self.vector_of >= 0]
        cardinalities = values_of(columns.cardinalities[alone], lambda _: None)
        paths = (columns.places.paths[place] for place in columns.places.path_of[alone].tolist())
        each = zip(paths, columns.offsets[alone].tolist(), columns.sizes[alone].tolist(), cardinalities, strict=True)
        for number in np.flatnonzero(self.vectors).tolist():
            other = self.others.get(number)
            if other is None:
                yield number, [next(each)]
            else:
                yield (
                    number,
                    [(vector.path, vector.offset, vector.size, vector.cardinality) for vector in other.vectors],
                )

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """`FileDeletes.deleted_share` of each, 0 without one."""
        rows = self.files.rows
        return np.where(rows > 0, self.min_deleted / np.maximum(rows, 1), 0.0)

    @property
    def most_deleted(self) -> Index:
        """The data files that have vectors or errors by number, those with the highest share first."""
        numbers = np.flatnonzero((self.vectors > 0) | self.in_doubt)
        return numbers[np.argsort(-self.shares[numbers], kind="stable")]

    @cached_property
    def fully_deleted(self) -> Flags:
        """`FileDeletes.fully_deleted` of each."""
        rows: Index = self.files.rows
        return np.asarray((rows > 0) & (self.min_deleted == rows) & ~self.in_doubt)

    @cached_property
    def exact(self) -> Flags:
        """Whether `FileDeletes.deleted` of each is known."""
        return ~self.in_doubt & ~self.other_deletes


class _Files(OnDemand[FileDeletes]):
    """The data files of a scan, made when they are looked at.

    Args:
        columns: their numbers.
        make: takes the number of one.
    """

    def __init__(self, columns: ScanColumns, make: Callable[[int], FileDeletes]) -> None:
        super().__init__(len(columns.min_deleted), make)
        self.columns = columns


class _Collector:
    """Groups vectors by data file; a file's rows are dropped once all its vectors are read."""

    def __init__(self, snapshot: Snapshot, keep_rows: bool) -> None:
        self.lost: list[tuple[DeletionVector, str]] = []
        self.unreadable = 0
        self.unopened: set[str] = set()
        self.findings: list[Finding] = []
        self.few: list[FewRead] = []
        self._keep_rows = keep_rows
        self._files: dict[str, FileDeletes] = {}
        self._snapshot, self._number = snapshot, snapshot.info.id
        self._waiting: dict[str, int] = {}
        apart = snapshot.vectors if snapshot.vector_columns.have_wide else ()
        self._wide = sum(vector.data_file is None for vector in apart)
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
            self._waiting[path] = self._left(path) - 1
        if self._wide == 0:  # those of partitions may apply to any file
            for done in dict.fromkeys([*self._found, *self._errors]) if path is None else [path]:
                if not self._left(done):
                    self._finish(done)

    def _left(self, path: str) -> int:
        """Return how many vectors of a data file were not added yet."""
        left = self._waiting.get(path)
        return len(self._snapshot.vectors_of(self._snapshot.files[path])) if left is None else left

    def _note(self, *findings: Finding) -> None:
        for finding in findings:
            self.findings.append(finding.in_snapshot(self._number))

    def files(self) -> Sequence[FileDeletes]:
        """Return the deleted rows of all data files, once all vectors were added."""
        snapshot, number_of = self._snapshot, self._snapshot.numbers
        made = ScanColumns(snapshot.file_columns, snapshot.vector_columns)
        made.put_few(self.few)
        for path, file in self._files.items():
            made.put(number_of[path], file)

        def make(number: int) -> FileDeletes:
            found = made.others.get(number)
            if found is not None:
                return found
            file = snapshot.data_files[number]
            vector = int(made.vector_of[number])
            if vector < 0:
                rows, shares = _NO_ROWS if self._keep_rows else None, density(_NO_ROWS, file.physical_rows)
                return FileDeletes(file, rows=rows, density=shares)
            return FileDeletes(
                file,
                (snapshot.vectors[vector],),
                None,
                int(made.min_deleted[number]),
                int(made.stored_bytes[number]),
                ContainerMix(*made.containers[number].tolist()),
                made.density[made.density_of[number]] if file.physical_rows is not None else density(_NO_ROWS, None),
            )

        for number in range(len(snapshot.data_files)) if self._wide_errors else snapshot.with_other_deletes():
            found = make(number)
            if (changed := self._with_other_deletes(found)) is not found:
                made.put(number, changed)
        return _Files(made, make)

    def _with_other_deletes(self, found: FileDeletes) -> FileDeletes:
        file = found.data_file
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
        vectors = (*self._snapshot.vectors_of(file), *wide)
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


def density_of_each(few: Few, rows: Index) -> NDArray[np.float32]:
    """Return `density` of many vectors: float32[n, `DENSITY_PARTS`].

    Args:
        few: the vectors, all `found`.
        rows: int64[n], physical rows of their data files; if they are unknown, nothing is deleted here.
    """
    parts, every = np.arange(DENSITY_PARTS), np.arange(DENSITY_PARTS + 1)
    vector = np.repeat(np.arange(len(rows)), few.cardinality)
    known, small = rows[vector] >= DENSITY_PARTS, (rows[vector] > 0) & (rows[vector] < DENSITY_PARTS)
    owner, positions = vector[known], few.positions[known]
    part = (positions * DENSITY_PARTS + DENSITY_PARTS - 1) // rows[owner]
    counts = np.bincount(owner * DENSITY_PARTS + part, minlength=len(rows) * DENSITY_PARTS)
    edges = np.maximum(rows, DENSITY_PARTS)[:, None] * every // DENSITY_PARTS
    shares = (counts.reshape(-1, DENSITY_PARTS) / np.diff(edges, axis=1)).astype(np.float32)
    if small.any():
        deleted = np.zeros((len(rows), DENSITY_PARTS), np.float32)
        deleted[vector[small], few.positions[small]] = 1
        few_rows = np.unique(vector[small])
        shares[few_rows] = deleted[few_rows[:, None], rows[few_rows, None] * parts // DENSITY_PARTS]
    return shares


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
        hidden: data files whose records are not rows yet, and not counted (Paimon's that wait for compaction).
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
    columns = ScanColumns.of(scan)
    seen = ~columns.hidden
    rows, min_deleted = columns.files.rows, int(columns.min_deleted[seen].sum())
    exact = not scan.lost and bool(columns.exact[seen].all())
    total = _sum(rows[seen], lambda: [file.data_file.physical_rows for file in scan.files if not file.hidden])
    too_few = any(finding.check == BEYOND for finding in scan.findings)
    shared = {id(vector) for file in columns.others.values() for vector in file.vectors}
    alone = int(columns.vectors.sum()) - sum(len(file.vectors) for file in columns.others.values())
    return Totals(
        data_files=len(scan.files),
        with_deletes=int(((columns.min_deleted > 0) & seen).sum()),
        fully_deleted=int((columns.fully_deleted & seen).sum()),
        in_doubt=int(columns.in_doubt.sum()),
        other_deletes=int(columns.other_deletes.sum()),
        uncounted=int((rows[seen] == UNKNOWN).sum()),
        hidden=int(columns.hidden.sum()),
        rows=total,
        deleted=min_deleted if exact else None,
        min_deleted=min_deleted,
        max_live=None if total is None or too_few else total - min_deleted,
        unreadable=scan.unreadable,
        data_bytes=_sum(columns.files.sizes, lambda: [file.data_file.size for file in scan.files]),
        vectors=alone + len(shared),
        stored_bytes=int(columns.stored_bytes.sum()),
        containers=ContainerMix(*columns.containers.sum(axis=0).tolist()),
    )


def _sum(numbers: Index, exactly: Callable[[], list[int | None]]) -> int | None:
    """Return the sum of recorded numbers; None if one is not known.

    Args:
        numbers: see `numbers_of`.
        exactly: returns them where there are odd ones.
    """
    if (numbers == UNKNOWN).any():
        return None
    if (numbers == ODD).any():
        return sum(number or 0 for number in exactly())
    return int(sum(numbers.tolist()))


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

    columns = ScanColumns.of(scan)
    may = columns.fully_deleted | (columns.shares >= min_ratio * _NEARLY)
    may |= np.full(len(may), max_bytes_per_row is not None or small_vector is not None or small_file is not None)
    files = (scan.files[number] for number in np.flatnonzero(may & ~columns.in_doubt).tolist())
    found = [RewriteCandidate(file, why) for file in files if (why := tuple(reasons(file)))]
    return tuple(sorted(found, key=lambda one: (-(one.gain or 0), -one.file.min_deleted, one.file.data_file.path)))

"""Statistics of a scanned table, and the data files worth rewriting. No vector is read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dvcodec.core.bitmap import ContainerMix
from dvcodec.core.errors import UsageError
from dvcodec.core.usage import check_type
from dvcodec.ops.stats import WORTH_REWRITING, check_thresholds
from dvcodec.tables.snapshots.rules import BEYOND
from dvcodec.tables.snapshots.scanning import FileDeletes, Scan

__all__ = ["RewriteCandidate", "Totals", "rewrite_candidates", "totals"]


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

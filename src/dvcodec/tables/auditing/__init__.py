"""Audit the deletion vectors of a table: read every one, and compare it with metadata, container and folder.

Checks, each the `check` of its findings:

- ``length``, ``crc``, ``magic``, ``structure``: the bytes of a vector, as in `verify`; ``unsupported``, ``limit``: a
  vector that looks well-formed but is not read;
- ``cardinality``: rows of a vector differ from the number in the metadata;
- ``rows``: positions of a vector beyond the physical rows of its data file;
- ``equal-vectors``, ``different-vectors``: two live vectors for one data file, with the same rows or with others;
- ``stale-path``, ``gone-data-file``: a vector, or rows of position deletes, whose data file has another path in the
  snapshot; a vector whose data file is not in the snapshot;
- ``path-scheme``: position deletes that name a data file with another scheme than the metadata (``hdfs://host/t/a`` for
  ``/t/a``) and are applied here: Iceberg Java and pyiceberg compare text and do not delete the rows;
- ``stale-blob-path``: a Puffin blob with another path for its data file than the metadata;
- ``delta-protocol``, ``delta-feature``, ``delta-column-mapping``, ``delta-append-only``, ``delta-property``: the
  protocol or properties of a Delta table contradict its vectors or its columns;
- ``delta-schema``, ``delta-action``, ``delta-path``, ``delta-checkpoint``: deltalake does not open the table, because
  of its columns, of missing members of actions, or of a checkpoint that is damaged, or that ``_last_checkpoint`` names
  and is missing or empty; a data file with two spellings in the log, which deltalake takes for two files;
- ``delta-empty-checkpoint``: a checkpoint without a byte, which engines ignore; ``delta-statistics``: times before 1973
  whose zone offset seems to lack its seconds, so that Delta Spark may skip the file though it has the rows;
- ``iceberg-version``, ``partition-mismatch``, ``sequence-number``: Puffin vectors in a table of version 1 or 2; deletes
  of one data file with another partition or partition spec, or a lower sequence number, than the file;
- ``metadata-name``: metadata files of an Iceberg table that were not read, because their names have no version;
- ``paimon-vectors-disabled``: vectors in a Paimon table whose options disable them;
- ``overlap``: two vectors share bytes of a file. Of this check, ``record`` (Paimon) and ``blob-at-range`` (Iceberg),
  the first 1,000 findings of a file are listed, and one says how many more there are;
- ``missing-file``, ``unreadable-file``, ``file-size``: the file of a vector;
- ``one-vector-per-file``: a Puffin file with two blobs for one data file, however it is spelled;
- ``container``, and names that depend on the format: the file's own metadata;
- ``missing-data-file``, ``unreadable-data-file``, ``data-file-size``: a data file; with ``deep`` also
  ``physical-rows`` (its footer has another row count than the metadata), ``column-bounds`` (bounds or counts of nulls
  in the metadata exclude rows that the footer has: engines that skip files by them miss the rows) and ``segment``
  (what `verify` finds in a search segment);
- ``orphan-vector-file``, ``orphan-data-file``: a file that no snapshot needs;
- ``references``, ``listing``: why orphans could not be found;
- ``moved``: the metadata records another location of the table.

Two swapped vectors of the same cardinality are found by the data files that their Puffin blobs name. Files of Delta,
Paimon and Lance do not name data files: there such a swap is not found. `Audit.notes` lists other damage that no check
finds in a table: ``no-checksum`` (Lance), ``rows-not-counted``, ``bounds-not-compared``, and without ``deep``
``segment-contents`` (scorch).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from dvcodec.core.errors import DvcodecError, MissingExtra
from dvcodec.io import Listed as StoredFile
from dvcodec.io.parallel import run_bounded
from dvcodec.tables.auditing.storage import check_data_files, find_orphans, list_files
from dvcodec.tables.model import DeletionVector, SnapshotInfo, TableKind
from dvcodec.tables.snapshots import rules
from dvcodec.tables.snapshots.findings import Finding, Severity
from dvcodec.tables.snapshots.older import older_without
from dvcodec.tables.snapshots.reading import Progress, by_container
from dvcodec.tables.snapshots.scanning import Scan, scan_snapshot
from dvcodec.tables.table import Table, check_progress, check_table

__all__ = ["Audit", "AuditCounts", "audit"]

_MOST_ALIKE = 1000
_ALIKE = frozenset({"blob-at-range", "overlap", "record"})


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """How much was checked.

    Attributes:
        data_files: data files of the snapshot.
        vectors: vectors of the snapshot; each was read, or is unreadable.
        containers: files that hold them.
        stored_files: files below the table's folder; None if it was not listed.
        unreadable: vectors that could not be read: their rows are unknown.
        counted_files: data files whose row count was compared with the metadata; None without ``deep``.
    """

    data_files: int
    vectors: int
    containers: int
    stored_files: int | None
    unreadable: int = 0
    counted_files: int | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        table: location of the table's folder.
        kind: kind of the table.
        info: which snapshot.
        findings: those of the snapshot, then those of the whole table; none if the table is valid.
        counts: how much was checked.
        scan: what the vectors delete; rows are not kept.
        notes: damage that no check can find here, and why; a table without findings may have notes.
        older: id of the newest snapshot before the current one that has no vector or data file with an error; None if
            there are no such errors, or it is not among the last ten. It is not audited.
    """

    table: str
    kind: TableKind
    info: SnapshotInfo
    findings: tuple[Finding, ...]
    counts: AuditCounts
    scan: Scan
    notes: tuple[Finding, ...] = ()
    older: int | None = None

    @property
    def ok(self) -> bool:
        """Whether no finding is an error: every engine can read the right rows. There may be warnings."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    def summary(self) -> dict[str, Any]:
        """Return plain values for JSON, without the scan, the findings and the notes."""
        severities = Counter(finding.severity for finding in self.findings)
        return {
            "table": self.table,
            "kind": self.kind.value,
            "snapshot": asdict(self.info),
            "ok": self.ok,
            "older": self.older,
            "counts": asdict(self.counts) | {f"{kind.value}s": severities[kind] for kind in Severity},
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the scan."""
        return self.summary() | {
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": [note.to_dict() for note in self.notes],
        }


def _first_of_each(findings: Iterable[Finding], location: str) -> Iterator[Finding]:
    """Yield the findings of a file of vectors; of some checks the first thousand, and how many more there are.

    Where the metadata is of another file, no vector is where it should be, and each has three findings or four. No
    repair needs those that are counted here: they do not have the right place.
    """
    counts: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for finding in findings:
        counts[finding.check] += 1
        if finding.check not in _ALIKE or counts[finding.check] <= _MOST_ALIKE or finding.details:
            yield finding
        else:
            left[finding.check] += 1
    for check, more in sorted(left.items()):
        if more:
            yield Finding.failed(check, f"{more:,} more vectors of the file", None, None, path=location)


def audit(
    table: Table,
    snapshot_id: int | None = None,
    *,
    orphans: bool = True,
    deep: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit a snapshot of a table. Corrupt vectors and files are findings, not errors.

    Args:
        table: see `open_table`.
        snapshot_id: the snapshot to audit; None = the current one.
        orphans: True lists the table's folder, to find orphans and missing data files.
        deep: True opens every data file, compares the row count and the bounds of columns in its footer with the
            metadata, and verifies search segments.
        threads: number of concurrent readers; None = 8, or for remote tables the maximum of the storage.
        progress: called with the number of vectors and files done, and the total.

    Raises:
        UsageError: the table has no such snapshot.
        DecodeError: the metadata of the snapshot is corrupt, so its vectors are unknown.
        OSError: it cannot be read.
    """
    check_table(table)
    check_progress(progress)
    readers = table.folder.storage.threads(table.location, threads)
    snapshot = table.snapshot(snapshot_id)
    of_table = list(rules.moved(table))
    stored: dict[str, StoredFile] | None = None
    if orphans:  # before vectors are read: the listing has the sizes of their files
        try:
            stored = list_files(table)
        except OSError as error:
            of_table.append(Finding.failed("listing", "list of the table's files", None, error, path=table.location))
    containers = {location: group for location, group in by_container(snapshot.vectors).items() if location}
    before_files = len(snapshot.vectors) + len(containers)
    total = before_files + (len(snapshot.data_files) if deep else 0)

    def advance(done: int) -> None:
        if progress is not None:
            progress(done, total)

    scan = scan_snapshot(snapshot, threads=threads, progress=lambda done, _: advance(done))
    number = snapshot.info.id
    findings = [*scan.findings, *(finding.in_snapshot(number) for finding in snapshot.check_metadata())]

    def check(item: tuple[str, list[DeletionVector]]) -> list[Finding]:
        location, group = item
        found = rules.overlaps(group)
        # A file that could not be opened is a finding of each of its vectors already.
        more = () if location in scan.unopened else rules.container(snapshot, location, group)
        return list(_first_of_each(chain(found, more), location))

    for done, found in enumerate(run_bounded(check, containers.items(), readers), len(snapshot.vectors) + 1):
        findings += (finding.in_snapshot(number) for finding in found)
        advance(done)
    notes = list(snapshot.blind_spots(deep=deep))
    counted = None
    if deep or stored is not None or snapshot.damaged_files():
        files = check_data_files(
            snapshot, stored, readers, deep=deep, progress=lambda done: advance(before_files + done)
        )
        findings += (finding.in_snapshot(number) for finding in files.findings)
        if deep:
            counted = files.counted
        notes += files.notes()
    if stored is not None:
        try:
            of_table += find_orphans(table, stored)
        except MissingExtra:
            raise
        except (DvcodecError, OSError) as error:
            what = "files that the table's snapshots need, to find orphans"
            of_table.append(Finding.failed("references", what, None, error, path=table.location))
    table.folder.storage.forget()  # another audit reads again
    counts = AuditCounts(
        len(snapshot.data_files),
        len(snapshot.vectors),
        len(containers),
        None if stored is None else len(stored),
        scan.unreadable,
        counted,
    )
    return Audit(
        table.location,
        table.kind,
        snapshot.info,
        (*findings, *of_table),
        counts,
        scan,
        tuple(Finding(check, Severity.INFO, message, number) for check, message in notes),
        older_without(table, findings) if snapshot_id is None else None,
    )

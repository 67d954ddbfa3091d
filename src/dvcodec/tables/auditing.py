"""Are the deletion vectors of a table sound? Every vector is read, and held against metadata, container and folder.

Checks, each the `check` of its findings:

- ``length``, ``crc``, ``magic``, ``structure``: the bytes of a vector, as in `verify`; ``unsupported``, ``limit``: a
  vector that is well-formed as far as can be seen, but is not read;
- ``cardinality``: rows of a vector, against what the metadata records;
- ``rows``: positions of a vector, against the physical rows of its data file;
- ``equal-vectors``, ``different-vectors``: two live vectors for one data file, of the same rows or of others;
- ``stale-path``, ``gone-data-file``: a vector, or rows of position deletes, whose data file is in the snapshot by
  another path; a vector whose data file is not;
- ``path-scheme``: position deletes that name a data file with another scheme than the metadata (``hdfs://host/t/a`` for
  ``/t/a``) and are applied here: Iceberg Java and pyiceberg compare text and leave the rows in;
- ``stale-blob-path``: a Puffin blob that names its data file by another path than the metadata does;
- ``delta-protocol``, ``delta-feature``, ``delta-column-mapping``, ``delta-append-only``, ``delta-property``: the
  protocol or properties of a Delta table contradict its vectors or its columns;
- ``delta-schema``, ``delta-action``, ``delta-path``, ``delta-checkpoint``: columns of a Delta table, or members of its
  actions, without which deltalake does not open it; a data file that the log spells in two ways, which is two files to
  deltalake; a ``_last_checkpoint`` that names a checkpoint that is not there;
- ``iceberg-version``, ``partition-mismatch``, ``sequence-number``: Puffin vectors in a table of version 1 or 2; deletes
  of one data file that record another partition or partition spec than it, or a lower sequence number;
- ``metadata-name``: metadata files of an Iceberg table that were not read, as their names say no version;
- ``paimon-vectors-disabled``: vectors in a Paimon table whose options switch them off;
- ``overlap``: two vectors that share bytes of a file;
- ``missing-file``, ``unreadable-file``, ``file-size``: the file of a vector;
- ``one-vector-per-file``: a Puffin file that names one data file twice, however it is spelled;
- ``container``, and names that depend on the format: what that file says of itself;
- ``missing-data-file``, ``unreadable-data-file``, ``data-file-size``: a data file; with ``deep`` also
  ``physical-rows`` (it has other rows than the metadata says);
- ``orphan-vector-file``, ``orphan-data-file``: a file that no state needs;
- ``references``, ``listing``: why orphans could not be looked for;
- ``moved``: a table whose metadata says that it is elsewhere.

A vector that stands in the place of another of the same cardinality is told by the data file that its Puffin blob
names. The files of Delta, Paimon and Lance name no data files: there nothing tells such vectors apart. What else no
check can find in a table is one of `Audit.notes`: ``no-checksum`` (Lance), ``rows-not-counted``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dvcodec.core.errors import DecodeError, DvcodecError, MissingExtra
from dvcodec.core.report import Check, Status
from dvcodec.iceberg.lint import ONE_VECTOR
from dvcodec.io.parallel import run_bounded
from dvcodec.tables import rules
from dvcodec.tables.findings import Finding, Severity, from_check, severity_of
from dvcodec.tables.folder import StoredFile
from dvcodec.tables.model import DeletionVector, SnapshotInfo, TableKind
from dvcodec.tables.reading import Progress, by_container
from dvcodec.tables.scanning import Scan, scan_snapshot
from dvcodec.tables.storage import check_data_files, count_data_files, find_orphans, list_files
from dvcodec.tables.table import Snapshot, Table

__all__ = ["Audit", "AuditCounts", "audit"]


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """How much was looked at.

    Attributes:
        data_files: of the snapshot.
        vectors: of the snapshot; all were read, or tried to.
        containers: files that hold them.
        stored_files: files below the table's folder; None if it was not listed.
        unreadable: vectors that could not be read: nothing is known of their rows.
        counted_files: data files whose own row count was held against the metadata; None without ``deep``.
    """

    data_files: int
    vectors: int
    containers: int
    stored_files: int | None
    unreadable: int = 0
    counted_files: int | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """What came of an audit.

    Attributes:
        table: location of the table's folder.
        kind: of the table.
        info: which snapshot.
        findings: in the order they were made; none if the table is sound.
        counts: how much was looked at.
        scan: what the vectors delete; rows are not kept.
        notes: what no check could find here, and why; a table without findings may have some.
    """

    table: str
    kind: TableKind
    info: SnapshotInfo
    findings: tuple[Finding, ...]
    counts: AuditCounts
    scan: Scan
    notes: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is no error: every engine can read the right rows. Warnings may be there."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; the scan aside."""
        severities = Counter(finding.severity for finding in self.findings)
        return {
            "table": self.table,
            "kind": self.kind.value,
            "snapshot": asdict(self.info),
            "ok": self.ok,
            "counts": asdict(self.counts) | {f"{kind.value}s": severities[kind] for kind in Severity},
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": [note.to_dict() for note in self.notes],
        }


def audit(
    table: Table,
    snapshot_id: int | None = None,
    *,
    orphans: bool = True,
    deep: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit a snapshot of a table. What is not sound is a finding, and stops nothing.

    Args:
        table: see `open_table`.
        snapshot_id: which state; None = the current one.
        orphans: True lists the table's folder, for orphans and for data files that are missing.
        deep: True opens every data file, and compares the rows that its footer says with those of the metadata.
        threads: how many read at a time; None = 8, or for remote tables as many as the storage takes at once.
        progress: called with how many vectors and their files are done, and of how many.

    Raises:
        UsageError: there is no such state.
        DecodeError: the metadata of this state is not sound: nothing is known of its vectors then.
        OSError: it cannot be read.
    """
    threads = table.folder.storage.threads(table.location, threads)
    snapshot = table.snapshot(snapshot_id)
    # Before vectors are read: the list says how large their files are.
    stored, unlisted = _listed(table) if orphans else (None, [])
    containers = {location: group for location, group in by_container(snapshot.vectors).items() if location}
    total = len(snapshot.vectors) + len(containers) + (len(snapshot.data_files) if deep else 0)

    def told(done: int) -> None:
        if progress is not None:
            progress(done, total)

    scan = scan_snapshot(snapshot, threads=threads, progress=lambda done, _: told(done))
    findings = [*scan.findings, *snapshot.check_metadata()]
    findings += _moved(table)
    for group in containers.values():
        findings += rules.overlaps(group)
    paths = rules.Paths(snapshot)
    unopened = {finding.path for finding in scan.findings if finding.check in _FILE_CHECKS}

    def check(item: tuple[str, list[DeletionVector]]) -> list[Finding]:
        return list(_container(snapshot, *item, paths))

    for done, (location, found) in enumerate(
        zip(containers, run_bounded(check, containers.items(), threads), strict=True), 1
    ):
        # Where a file cannot be opened at all, its vectors have said so.
        findings += [finding for finding in found if finding.check not in _FILE_CHECKS or location not in unopened]
        told(len(snapshot.vectors) + done)
    findings += unlisted
    if stored is not None:
        findings += check_data_files(snapshot, stored, threads)
        findings += _orphans(table, stored)
    notes = [_note(check, message, snapshot) for check, message in snapshot.blind_spots()]
    counted = None
    if deep:
        done = len(snapshot.vectors) + len(containers)
        rows = count_data_files(snapshot, threads, lambda files: told(done + files))
        known = {finding.data_file for finding in findings if finding.check in _UNREAD_DATA}
        findings += [finding for finding in rows.findings if finding.data_file not in known]
        counted = rows.counted
        if rows.passed_over:
            example, more = rows.passed_over[0], len(rows.passed_over) - 1
            which = f"{example}{f' and {more} more' if more else ''}"
            message = f"the rows of {which} were not counted: a format whose footer is not read here"
            notes.append(_note("rows-not-counted", message, snapshot))
    table.folder.storage.forget()  # another audit looks again
    counts = AuditCounts(
        len(snapshot.data_files),
        len(snapshot.vectors),
        len(containers),
        None if stored is None else len(stored),
        scan.unreadable,
        counted,
    )
    of_state = tuple(_of(snapshot, finding) for finding in findings)
    return Audit(table.location, table.kind, snapshot.info, of_state, counts, scan, tuple(notes))


def _listed(table: Table) -> tuple[dict[str, StoredFile] | None, list[Finding]]:
    try:
        return list_files(table), []
    except OSError as error:
        return None, [_whole_table("listing", "the table's folder cannot be listed", error)]


def _orphans(table: Table, stored: Mapping[str, StoredFile]) -> list[Finding]:
    try:
        return list(find_orphans(table, stored))
    except MissingExtra:
        raise
    except (DvcodecError, OSError) as error:
        return [_whole_table("references", "orphans cannot be told: metadata of some state", error)]


_FILE_CHECKS = ("missing-file", "unreadable-file")
_UNREAD_DATA = ("missing-data-file", "unreadable-data-file")
_OWN_CHECKS = ("file-size", "overlap")
"""What is looked at here for all kinds of tables, whether a container's checks have it or not."""
_WHOLE_TABLE = ("listing", "moved", "orphan-data-file", "orphan-vector-file", "references")


def _of(snapshot: Snapshot, finding: Finding) -> Finding:
    """Record which snapshot a finding is of."""
    return finding if finding.check in _WHOLE_TABLE else replace(finding, snapshot=snapshot.info.id)


def _note(check: str, message: str, snapshot: Snapshot) -> Finding:
    return Finding(check, Severity.INFO, message, snapshot.info.id)


def _whole_table(check: str, what: str, error: Exception) -> Finding:
    return Finding(check, severity_of(check), f"{what}: {error}", actual=str(error))


def _moved(table: Table) -> Iterator[Finding]:
    if table.folder.moved:
        recorded, actual = table.folder.recorded, table.location
        yield Finding(
            "moved",
            severity_of("moved"),
            f"{actual}: the metadata says that the table is at {recorded}; its files were looked for here",
            path=actual,
            expected=recorded,
            actual=actual,
        )


def _container(
    snapshot: Snapshot, location: str, group: Sequence[DeletionVector], paths: rules.Paths
) -> Iterator[Finding]:
    """Check one file of vectors: its size, and what it says of itself."""
    try:
        with snapshot.table.folder.storage.open(location) as source:
            size = source.size
        yield from rules.file_sizes(location, group, size)
        checks = list(snapshot.table.check_container(location, group))
    except MissingExtra:
        raise
    except DecodeError as error:
        check = Check.from_error("container", location, error)
        yield from_check(check, tuple(group), None, location)
    except (DvcodecError, OSError) as error:
        name = "missing-file" if isinstance(error, FileNotFoundError) else "unreadable-file"
        check = Check.failed(name, location, None, "file of vectors", "a file", error)
        yield from_check(check, tuple(group), None, location)
    else:
        at = {vector.offset: vector for vector in group}
        often = Counter(vector.data_file for vector in group)
        for check in checks:
            if check.status is not Status.FAIL or check.name in _OWN_CHECKS:
                continue
            if check.name == ONE_VECTOR and check.offset in at and often[at[check.offset].data_file] > 1:
                continue  # equal-vectors or different-vectors say so
            yield from paths.blob(check, location, at.get(check.offset))

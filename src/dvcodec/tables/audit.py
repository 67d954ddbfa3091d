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
from dataclasses import replace

from dvcodec.core.errors import DecodeError, DvcodecError, MissingExtra
from dvcodec.core.report import Check, Status
from dvcodec.iceberg.lint import ONE_VECTOR
from dvcodec.io.parallel import run_bounded
from dvcodec.tables.findings import Audit, AuditCounts, Finding, Severity
from dvcodec.tables.folder import StoredFile
from dvcodec.tables.model import DeletionVector, Snapshot, Table
from dvcodec.tables.namesakes import Namesakes
from dvcodec.tables.problems import Problem
from dvcodec.tables.reading import Progress, by_container
from dvcodec.tables.scan import scan_snapshot
from dvcodec.tables.storage import check_data_files, count_data_files, find_orphans, list_files

__all__ = ["audit"]


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

    scan, problems = scan_snapshot(table, snapshot, threads=threads, progress=lambda done, _: told(done))
    findings = [_from_problem(problem, snapshot) for problem in problems]
    findings += _of_metadata(table, snapshot)
    findings += _moved(table)
    for group in containers.values():
        findings += _overlaps(group, snapshot)
    namesakes = Namesakes(table.folder, [file.path for file in snapshot.data_files])
    lost = {vector.location for vector, _ in scan.lost}

    def check(item: tuple[str, list[DeletionVector]]) -> list[Finding]:
        return list(_container(table, *item, snapshot, namesakes))

    for done, (location, found) in enumerate(
        zip(containers, run_bounded(check, containers.items(), threads), strict=True), 1
    ):
        # Where a file cannot be opened at all, its vectors have said so.
        findings += [finding for finding in found if finding.check not in _FILE_CHECKS or location not in lost]
        told(len(snapshot.vectors) + done)
    findings += unlisted
    if stored is not None:
        findings += check_data_files(table, snapshot, stored, threads)
        findings += _orphans(table, stored)
    notes = [_note(check, message, snapshot) for check, message in table.blind_spots(snapshot)]
    counted = None
    if deep:
        done = len(snapshot.vectors) + len(containers)
        rows = count_data_files(table, snapshot, threads, lambda files: told(done + files))
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
    return Audit(table.location, table.kind, snapshot.info, tuple(findings), counts, scan, tuple(notes))


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
_WARNINGS = (
    "delta-append-only",
    "gone-data-file",
    "listing",
    "metadata-name",
    "moved",
    "references",
    "stale-blob-path",
)
_INFOS = ("delta-property",)


def _severity(check: str) -> Severity:
    if check in _INFOS:
        return Severity.INFO
    return Severity.WARNING if check in _WARNINGS else Severity.ERROR


def _note(check: str, message: str, snapshot: Snapshot) -> Finding:
    return Finding(check, Severity.INFO, message, snapshot.info.id)


def _of_metadata(table: Table, snapshot: Snapshot) -> Iterator[Finding]:
    """Find what the metadata of the whole table, or of a vector, contradicts."""
    for problem in table.check_metadata(snapshot):
        yield _from_problem(problem, snapshot)


def _from_check(
    check: Check, snapshot: Snapshot, vectors: tuple[DeletionVector, ...], data_file: str | None, path: str | None
) -> Finding:
    where = vectors[0].where if len(vectors) == 1 and data_file is not None else path or check.subject
    place = f"{where}, for {data_file}" if data_file is not None and data_file not in where else where
    parts = [f"{name} {value}" for name, value in (("expected", check.expected), ("found", check.actual)) if value]
    message = f"{place}: {check.message or check.name}{': ' if parts else ''}{', '.join(parts)}"
    return Finding(
        check.name,
        _severity(check.name),
        message.replace("\n", " "),
        snapshot.info.id,
        data_file,
        vectors,
        path,
        check.offset,
        check.expected,
        check.actual,
    )


def _from_problem(problem: Problem, snapshot: Snapshot) -> Finding:
    path = problem.source or (problem.vectors[0].location if problem.vectors else None)
    return _from_check(problem.check, snapshot, problem.vectors, problem.data_file, path)


def _whole_table(check: str, what: str, error: Exception) -> Finding:
    return Finding(check, _severity(check), f"{what}: {error}", actual=str(error))


def _moved(table: Table) -> Iterator[Finding]:
    if table.folder.moved:
        recorded, actual = table.folder.recorded, table.location
        yield Finding(
            "moved",
            _severity("moved"),
            f"{actual}: the metadata says that the table is at {recorded}; its files were looked for here",
            path=actual,
            expected=recorded,
            actual=actual,
        )


def _overlaps(group: Sequence[DeletionVector], snapshot: Snapshot) -> Iterator[Finding]:
    """Find vectors of one file, in file order, that share bytes. One vector twice for one data file is no overlap."""
    reach = 0
    owner: DeletionVector | None = None
    for vector in group:
        start, size = vector.offset, vector.size
        if start is None or size is None:
            continue
        if owner is not None and start < reach and (vector.data_file, start) != (owner.data_file, owner.offset):
            check = Check.failed(
                "overlap",
                vector.where,
                start,
                f"bytes shared with the vector for {owner.data_file}",
                f"an offset of at least {reach}",
                start,
            )
            yield _from_check(check, snapshot, (vector, owner), vector.data_file, vector.location)
        if start + size > reach:
            reach, owner = start + size, vector


def _container(
    table: Table, location: str, group: Sequence[DeletionVector], snapshot: Snapshot, namesakes: Namesakes
) -> Iterator[Finding]:
    """Check one file of vectors: its size, and what it says of itself."""
    try:
        with table.folder.storage.open(location) as source:
            size = source.size
        yield from _sizes(location, group, size, snapshot)
        checks = list(table.check_container(location, group))
    except MissingExtra:
        raise
    except DecodeError as error:
        check = Check.from_error("container", location, error)
        yield _from_check(check, snapshot, tuple(group), None, location)
    except (DvcodecError, OSError) as error:
        name = "missing-file" if isinstance(error, FileNotFoundError) else "unreadable-file"
        check = Check.failed(name, location, None, "file of vectors", "a file", error)
        yield _from_check(check, snapshot, tuple(group), None, location)
    else:
        at = {vector.offset: vector for vector in group}
        often = Counter(vector.data_file for vector in group)
        for check in checks:
            if check.status is not Status.FAIL or check.name in _OWN_CHECKS:
                continue
            if check.name == ONE_VECTOR and check.offset in at and often[at[check.offset].data_file] > 1:
                continue  # equal-vectors or different-vectors say so
            yield from _of_container(check, location, at.get(check.offset), snapshot, namesakes)


def _sizes(location: str, group: Sequence[DeletionVector], size: int, snapshot: Snapshot) -> Iterator[Finding]:
    recorded = {vector.file_size for vector in group if vector.file_size is not None}
    for wrong in sorted(recorded - {size}):
        check = Check.failed("file-size", location, None, "bytes of the file", f"{wrong} (metadata)", size)
        told = tuple(vector for vector in group if vector.file_size == wrong)
        yield _from_check(check, snapshot, told, None, location)


def _of_container(
    check: Check, location: str, vector: DeletionVector | None, snapshot: Snapshot, namesakes: Namesakes
) -> Iterator[Finding]:
    """Tell a blob that names its data file as it was called before the table moved from one of another data file."""
    data_file = None if vector is None else vector.data_file
    if data_file is not None and check.actual is not None:
        meant = namesakes.find(data_file)
        if meant is not None and meant == namesakes.find(check.actual):
            if data_file != meant:  # it is the metadata that is stale, which was said of the vector
                return
            check = replace(check, name="stale-blob-path")
    yield _from_check(check, snapshot, () if vector is None else (vector,), data_file, location)

"""Replaces the deletes of a table by others in one commit, with the same live rows.

The snapshot's operation is ``replace``, as of a compaction: no row is deleted that was not before. Data files stay.

`compact_deletes`: streams leave many small files of position deletes, each of which a scan has to open. Those of a
table of version 2 are merged into few; equality deletes stay, as with Iceberg Java's ``rewrite_position_delete_files``.

`upgrade_deletes`: position deletes of version 2 and equality deletes become deletion vectors. Readers that know only
deletion vectors, or only position deletes, read the table afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.tables.deleting.run import retried
from dvcodec.tables.iceberg.commit import IcebergCommitter, committer
from dvcodec.tables.iceberg.deletes import new_rows
from dvcodec.tables.iceberg.entries import EqualityDeletes, ManifestEntry
from dvcodec.tables.iceberg.metadata import properties_of, read_members
from dvcodec.tables.iceberg.plan import VECTORS_VERSION
from dvcodec.tables.iceberg.snapshot import IcebergSnapshot
from dvcodec.tables.iceberg.snapshot_writer import Replacement, places
from dvcodec.tables.iceberg.table import IcebergTable
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector, FileDelete
from dvcodec.tables.snapshots.reading import Deletes, Progress, are_all_rows
from dvcodec.tables.table import Table, check_progress, check_table
from dvcodec.tables.writing import committing, new_files, refreshed


@dataclass(frozen=True, slots=True)
class CompactedDeletes:
    """The result of `compact_deletes`.

    Attributes:
        snapshot: id of the new snapshot; that of the base if nothing was committed.
        committed: False if there are as few files as there can be, or for a dry run.
        before: files of position deletes that were merged, or would be.
        after: files that they were merged into.
        rows: positions in these.
    """

    snapshot: int
    committed: bool = False
    before: int = 0
    after: int = 0
    rows: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def compact_deletes(table: Table, *, dry_run: bool = False, progress: Progress | None = None) -> CompactedDeletes:
    """Merge all position deletes of an Iceberg table of format version 2, in one commit.

    There is one file for each data file afterwards, or for each partition, as the table's property
    ``write.delete.granularity`` says. The same rows are live. If another writer commits first, everything is read
    again, as often as the table's properties ``commit.retry.*`` allow.

    Args:
        table: see `open_table`; its newest state counts.
        dry_run: read the deletes only; nothing is written.
        progress: called with how many data files have been searched for deletes, and of how many.

    Raises:
        UsageError: a table of another format or version, or one that must not be written to; the message says why.
        Unsupported: it uses an unknown feature; the message names it.
        DecodeError: a delete file is corrupt; nothing was committed.
        CommitConflict: another writer committed first each time; nothing was committed.
        CommitUnknown: it could not be found out whether the commit is in.
        OSError: a file cannot be read or written; nothing was committed.
    """
    writer = _committer(table, progress)
    with refreshed(table, dry_run):
        return retried(writer, lambda base: _compact(writer, base, dry_run, progress))


def _committer(table: Table, progress: Progress | None) -> IcebergCommitter:
    check_table(table)
    check_progress(progress)
    if not isinstance(table, IcebergTable):
        raise UsageError(
            f"{table.location}: position deletes and equality deletes are Iceberg's, and this is a {table.kind.value} "
            "table"
        )
    return committer(table)


def _replaced(
    writer: IcebergCommitter,
    base: IcebergSnapshot,
    new: Sequence[FileDelete],
    gone: Iterable[DeletionVector],
    equality: Sequence[EqualityDeletes] = (),
    removed: frozenset[str] = frozenset(),
) -> int:
    """Commit new files of deletes in place of others; return the id of the snapshot.

    Args:
        writer: of the table.
        base: its current snapshot.
        new: what is written.
        gone: the vectors and position deletes that it replaces.
        equality: the same for equality deletes.
        removed: paths of data files without a live row.
    """
    gone = list(gone)
    manifests = {one.record.manifest for one in equality} | {ManifestEntry.of(vector).manifest for vector in gone}
    with new_files(base.table.folder.storage) as files:
        written = writer.write(base, new, files)
        replacement = Replacement(
            vectors=written.locations,
            position_deletes=written.position_deletes,
            removed=removed,
            gone=frozenset((one.path, None, None) for one in equality) | places(gone),
            manifests=frozenset(manifests),
            operation="replace",
        )
        with committing(files):
            return writer.replace(base, replacement, files)


def _compact(
    writer: IcebergCommitter, base: IcebergSnapshot, dry_run: bool, progress: Progress | None
) -> CompactedDeletes:
    source, version = base.metadata.source, base.metadata.format_version
    if version >= VECTORS_VERSION:
        raise UsageError(
            f"{source}: format version {version}: dvcodec upgrade-deletes turns position deletes into vectors"
        )
    old = [vector for vector in base.vectors if vector.format == POSITION_DELETES]
    found = ((file, rows) for file, _, rows in _deleted(base, progress))
    deletes = [FileDelete(file, (), RowSet(), rows, whole=False) for file, rows in found if rows]
    properties = properties_of(read_members(source, base.table.folder.storage))
    after = len(new_rows(deletes, properties, source))
    planned = CompactedDeletes(base.info.id, False, len(old), after, sum(one.rows.cardinality for one in deletes))
    if dry_run or after >= len(old):
        return planned
    return replace(planned, snapshot=_replaced(writer, base, deletes, old), committed=True)


@dataclass(frozen=True, slots=True)
class UpgradedDeletes:
    """The result of `upgrade_deletes`.

    Attributes:
        snapshot: id of the new snapshot; that of the base if nothing was committed.
        committed: False if there was nothing to replace, or for a dry run.
        position_deletes: files of position deletes that were replaced, or would be.
        equality_deletes: the same for files of equality deletes.
        vectors: new vectors.
        removed: data files without a live row, which were removed from the table.
    """

    snapshot: int
    committed: bool = False
    position_deletes: int = 0
    equality_deletes: int = 0
    vectors: int = 0
    removed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def upgrade_deletes(table: Table, *, dry_run: bool = False, progress: Progress | None = None) -> UpgradedDeletes:
    """Replace all position deletes and equality deletes of an Iceberg table by deletion vectors, in one commit.

    The same rows are live afterwards, and readers that support only vectors can read the table. It has to be of format
    version 3 already: see `dvcodec.tables.enable`. If another writer commits first, everything is read again, as
    often as the table's properties ``commit.retry.*`` allow.

    Args:
        table: see `open_table`; its newest state counts.
        dry_run: find the rows only; nothing is written.
        progress: called with how many data files have been searched, and of how many.

    Raises:
        UsageError: a table of another format, or one that must not be written to; the message says why.
        Unsupported: it uses an unknown feature; the message names it.
        DecodeError: a data file or delete file is corrupt; nothing was committed.
        CommitConflict: another writer committed first each time; nothing was committed.
        CommitUnknown: it could not be found out whether the commit is in.
        OSError: a file cannot be read or written; nothing was committed.
    """
    writer = _committer(table, progress)
    with refreshed(table, dry_run):
        return retried(writer, lambda base: _upgrade(writer, base, dry_run, progress))


def _upgrade(
    writer: IcebergCommitter, base: IcebergSnapshot, dry_run: bool, progress: Progress | None
) -> UpgradedDeletes:
    writer.check_vectors(base)
    equality = [one for deletes in base.plan.equality.values() for one in deletes]
    positional = [vector for vector in base.vectors if vector.format == POSITION_DELETES]
    if not positional and not equality:
        return UpgradedDeletes(base.info.id)
    deletes = list(_deletes(base, progress))
    partial = [delete for delete in deletes if not delete.whole]
    planned = UpgradedDeletes(
        base.info.id, False, len(positional), len(equality), len(partial), len(deletes) - len(partial)
    )
    if dry_run:
        return planned
    touched = {delete.data_file.path for delete in deletes}
    removed = frozenset(delete.data_file.path for delete in deletes if delete.whole)
    gone = [vector for vector in base.vectors if vector.format != "iceberg" or vector.data_file in touched]
    snapshot = _replaced(writer, base, partial, gone, equality, removed)
    return replace(planned, snapshot=snapshot, committed=True)


def _deletes(base: IcebergSnapshot, progress: Progress | None) -> Iterator[FileDelete]:
    """Yield the deletes of each data file that has other deletes than a vector."""
    for file, formats, before in _deleted(base, progress):
        rows = before | base.deleted_by_value(file)
        if rows.cardinality > before.cardinality or formats - {"iceberg"}:
            yield FileDelete(file, (), before, rows, are_all_rows(base, file, rows))


def _deleted(base: IcebergSnapshot, progress: Progress | None) -> Iterator[tuple[DataFile, set[str], RowSet]]:
    """Yield each data file with the formats of its vectors and position deletes, and the rows that these delete.

    Raises:
        DecodeError, OSError: see `Deletes`.
    """
    deletes = Deletes(base)
    for done, file in enumerate(base.data_files, 1):
        found = deletes.found(file)
        yield file, {vector.format for vector, _ in found}, RowSet().union(*(deleted.rows for _, deleted in found))
        if progress is not None:
            progress(done, len(base.data_files))

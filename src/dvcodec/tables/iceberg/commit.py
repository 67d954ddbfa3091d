"""Commits deletes to Iceberg tables of format versions 2 and 3, and replaces older deletes by others.

Specification: Iceberg table spec, "Deletion Vectors", "Position Delete Files", "Manifests", "Snapshots"; where it
leaves a choice, commits are those of Iceberg Java's ``RowDelta``. The commit is to one branch; tags and other
branches are not touched.

In version 3, a data file has one vector at most: the new one includes the old one and position deletes for that data
file alone, whose entries become deleted. Position deletes of a whole partition and equality deletes stay. In version 2,
new files of position deletes have the rows that were not deleted before, and all other deletes stay.

`enable` makes format version 3 of a table of version 2: Iceberg table spec, "Version 3". Position deletes of the table
stay valid; rows get ids from now on.

`compact_deletes` and `upgrade_deletes` leave the same rows live and all data files in place, so the operation of their
snapshots is ``replace``. The first merges the many small files of position deletes that streams leave in a table of
version 2, each of which a scan has to open; equality deletes stay, as with Iceberg Java's
``rewrite_position_delete_files``. The second makes deletion vectors of position deletes and equality deletes, for
readers that know nothing else.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, TypeVar

from dvcodec import iceberg
from dvcodec.core.errors import CommitConflict, Unsupported, UsageError
from dvcodec.core.interrupts import uninterrupted
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import Magic
from dvcodec.iceberg import PositionDeleteFile, write_file
from dvcodec.io.frames import load_ranges
from dvcodec.io.storage import run_bounded
from dvcodec.io.target import local_path
from dvcodec.tables.deleting.run import (
    STREAM_BATCH,
    STREAM_QUERY,
    Committer,
    Retries,
    Written,
    batch_number,
    batch_properties,
    check_read_back,
    retried,
)
from dvcodec.tables.iceberg.deletes import compression_of, new_rows, refuse_encrypted
from dvcodec.tables.iceberg.entries import ManifestEntry
from dvcodec.tables.iceberg.folder_place import place_of
from dvcodec.tables.iceberg.metadata import MAIN, Change, number_of, properties_of, read_members
from dvcodec.tables.iceberg.plan import VECTORS_VERSION
from dvcodec.tables.iceberg.snapshot import IcebergSnapshot
from dvcodec.tables.iceberg.snapshot_writer import IcebergWritten, Replacement, SnapshotWriter
from dvcodec.tables.iceberg.table import IcebergTable, Place, table_of
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import NO_SNAPSHOT, POSITION_DELETES, DataFile, DeletionVector, Enabled, FileDelete
from dvcodec.tables.snapshots.reading import Deletes, Progress, are_all_rows
from dvcodec.tables.table import Table, check_progress, check_table
from dvcodec.tables.writing import committing, new_files, refreshed, removed_on_error

Result = TypeVar("Result")
_RETRIES = {
    "number": "num-retries",
    "min_wait_ms": "min-wait-ms",
    "max_wait_ms": "max-wait-ms",
    "total_ms": "total-timeout-ms",
}
"""Fields of `Retries`, and the ends of their properties' names."""


def committer(table: Table) -> IcebergCommitter:
    """Return what commits deletes to a table: to the catalog that it was opened from, else to its folder."""
    return IcebergCommitter(place_of(table), table.reference if isinstance(table, IcebergTable) else MAIN)


class IcebergCommitter(Committer[IcebergSnapshot]):
    """Commits deletes to an Iceberg table of format version 2 or 3.

    Args:
        place: a folder or a catalog.
        branch: of the table.
    """

    def __init__(self, place: Place, branch: str = MAIN) -> None:
        self._place, self._branch = place, branch
        self._uuid: str | None = None

    def current(self) -> IcebergSnapshot:
        """Return the newest snapshot of the branch; see `Committer.current`."""
        return self._place.load().at(self._branch).snapshot()

    def check(self, base: IcebergSnapshot) -> None:
        """Refuse a table that must not be written to; see `Committer.check`.

        Raises:
            UsageError: format version 1; ``write.delete.mode`` is copy-on-write; the table was moved, or cannot be
                committed to where it was opened from.
            Unsupported: encryption, or a property that dvcodec cannot obey.
            CommitConflict: it is another table than before.
        """
        table, members = table_of(base), _members(base)
        self._uuid = self._checked_uuid(members)
        if not table.metadata.references[self._branch].is_branch:
            raise UsageError(f"{table.location}: {self._branch} is a tag, which stays as it is: commit to a branch")
        refuse_unknown(table, members)
        self._place.check(table, members)
        refuse_without_deletes(base, members)

    def check_vectors(self, base: IcebergSnapshot) -> None:
        """Refuse a table of format version 2, and say how to upgrade it; see `Committer.check_vectors`."""
        source, version = base.metadata.source, base.metadata.format_version
        if version < VECTORS_VERSION:
            raise UsageError(
                f"{source}: format version {version}, and deletion vectors need {VECTORS_VERSION}: upgrade the table "
                "first (dvcodec enable, or ALTER TABLE ... SET TBLPROPERTIES ('format-version' = '3')); readers of "
                "version 2 cannot read it afterwards"
            )

    def _checked_uuid(self, members: JsonFields) -> str | None:
        found = members.text_or_none("table-uuid")
        if self._uuid not in (None, found):
            raise CommitConflict(f"{members.source}: the table was dropped, and another one created")
        return found

    def retries(self, base: IcebergSnapshot) -> Retries:
        """Return the table's properties ``commit.retry.*``; defaults for those that are missing or not numbers."""
        properties = properties_of(_members(base))
        numbers = {one: number_of(properties.get(f"commit.retry.{name}"), -1) for one, name in _RETRIES.items()}
        return Retries(**{one: number for one, number in numbers.items() if number >= 0})

    def last_batch(self, base: IcebergSnapshot, query: str) -> int | None:
        """Return the highest batch in the summaries of the snapshot and its ancestors; see `Committer.last_batch`."""
        snapshots = {one.integer("snapshot-id"): one for one in _members(base).objects_if_any("snapshots")}
        number: int | None = base.info.id
        while number in snapshots:
            summary = snapshots[number].object_if_any("summary")
            if summary.text_or_none(STREAM_QUERY) == query:
                return batch_number(summary.text_or_none(STREAM_BATCH), summary.source)
            number = snapshots.pop(number).integer_or_none("parent-snapshot-id")
        return None

    def write(self, base: IcebergSnapshot, deletes: Sequence[FileDelete], written: list[str]) -> IcebergWritten:
        """Write new files into the table's data folder, and read them back; see `Committer.write`.

        These are one Puffin file with all vectors, or in version 2 the files of `new_rows`.

        Raises:
            Unsupported: an encrypted data file, whose deletes would have to be encrypted too.
        """
        for delete in deletes:
            refuse_encrypted(ManifestEntry.of(delete.data_file), delete.data_file.path)
        if not deletes:
            return IcebergWritten({}, 0)
        table, properties = table_of(base), properties_of(_members(base))
        storage = table.folder.storage
        root = properties.get("write.data.path", f"{table.metadata.location}/data").rstrip("/")
        local = local_path(table.folder.locate(root))
        if local is not None:
            local.mkdir(parents=True, exist_ok=True)
        name = f"{root}/{uuid.uuid4()}"
        if table.metadata.format_version < VECTORS_VERSION:
            codec = compression_of(properties, base.metadata.source)

            def write_one(numbered: tuple[int, Mapping[str, RowSet]]) -> PositionDeleteFile:
                path = f"{name}-{numbered[0]:05}-deletes.parquet"
                location = table.folder.locate(path)
                written.append(location)
                return write_file(path, location, numbered[1], codec, storage)

            threads = storage.threads(table.location, None)
            new = tuple(run_bounded(write_one, enumerate(new_rows(deletes, properties, base.metadata.source)), threads))
            return IcebergWritten({}, sum(one.entry["file_size_in_bytes"] for one in new), new)
        vectors = {delete.data_file.path: delete.rows for delete in deletes}
        path = f"{name}-deletes.puffin"
        location = table.folder.locate(path)
        written.append(location)
        found = iceberg.write_deletion_vectors(location, vectors, storage_options=storage)
        size = found[0].file_size or 0
        ranges = [(one.offset, one.size, one.cardinality) for one in found]
        with storage.open(location, size=size) as source:
            rows = load_ranges(source, ranges, allowed=(Magic.PORTABLE64,))
        names = (str(one.data_file) for one in found)
        check_read_back(location, vectors, dict(zip(names, rows, strict=True)))
        return IcebergWritten({str(one.data_file): replace(one, path=path) for one in found}, size)

    def commit(self, base: IcebergSnapshot, deletes: Sequence[FileDelete], written: Written, files: list[str]) -> int:
        """Commit a snapshot of operation ``delete`` on top of the base; see `Committer.commit`."""
        has_vectors = base.metadata.format_version >= VECTORS_VERSION
        removed = frozenset(delete.data_file.path for delete in deletes if delete.whole)
        without = {delete.data_file.path for delete in deletes} if has_vectors else removed
        gone = [vector for vector in base.vectors if vector.data_file in without]
        if has_vectors:
            _check_replaced(base, deletes, gone)
        gone += self.dropped
        restored = any(not delete.rows and not delete.whole for delete in deletes)
        replacement = Replacement(
            operation="overwrite" if restored else "delete",
            written=written,
            removed=removed,
            gone=gone,
            summary=batch_properties(self.batch),
        )
        return self.replace(base, replacement, files)

    def replace(self, base: IcebergSnapshot, replacement: Replacement, files: list[str]) -> int:
        """Commit a snapshot with other files; return its id.

        Args:
            base: the current snapshot must still be this one.
            replacement: which files are added and removed.
            files: location of each file that is written, appended before it is.

        Raises:
            CommitConflict, CommitUnknown, OSError: see `Committer.commit`.
        """
        with removed_on_error(files, base.table.folder.storage):
            members = _members(base)
            self._checked_uuid(members)  # reading the rows may have taken long
            change = replace(SnapshotWriter(base, members, files).write(replacement), branch=self._branch)
        self._place.put(table_of(base), members, change)
        return change.snapshot_id


def _members(base: IcebergSnapshot) -> JsonFields:
    return read_members(base.metadata.source, base.table.folder.storage)


def _check_replaced(base: IcebergSnapshot, deletes: Sequence[FileDelete], gone: Sequence[DeletionVector]) -> None:
    """Check that the new vectors include every delete that applies only to their data files."""
    taken = {(vector.path, vector.offset) for delete in deletes for vector in delete.replaced}
    for vector in gone:
        data = base.plan.data.get(str(vector.data_file))
        holds = data is not None and (vector.format == "iceberg" or base.plan.holds(vector, data))
        if holds and (vector.path, vector.offset) not in taken:
            raise UsageError(f"{vector.where}: applies to {vector.data_file}, and the new vector does not include it")


def enable(table: IcebergTable, *, dry_run: bool = False) -> Enabled:
    """Upgrade the newest metadata of a table of version 2; see `dvcodec.tables.enable`.

    Raises:
        UsageError: the table cannot be committed to where it was opened from.
        Unsupported: format version 1, or an unknown feature.
    """
    place = place_of(table)
    newest = place.load()
    source, version = newest.metadata.source, newest.metadata.format_version
    if version >= VECTORS_VERSION:
        return Enabled(())
    if version < VECTORS_VERSION - 1:
        raise Unsupported("format-version", source=source, expected=f"from {VECTORS_VERSION - 1} on", actual=version)
    members = read_members(source, newest.folder.storage)
    refuse_unknown(newest, members)
    place.check(newest, members)
    changes = (f"format-version: {version} -> {VECTORS_VERSION}",)
    if dry_run:
        return Enabled(changes)
    now = max(int(time.time() * 1000), members.integer("last-updated-ms"))
    with uninterrupted():
        place.put(newest, members, Change(now, upgrade=VECTORS_VERSION))
    return Enabled(changes, place.load().metadata.source)


_DELETE_MODE = "write.delete.mode"
_REFUSED = {
    "encryption.key-id": "tables without encryption",
    "write.location-provider.impl": "files in the table's own folders",
    "delta-version": "a table that Iceberg writers commit to, not one that Delta makes",
}
"""Table properties that dvcodec cannot obey, and what it supports instead."""
_TOP = 2**63 - 1


def refuse_unknown(table: IcebergTable, members: JsonFields) -> None:
    """Refuse a table with a feature that a commit would have to support, and does not.

    Raises:
        UsageError: the table was moved.
        Unsupported: an unknown feature; the message names it.
    """
    source = table.metadata.source
    if table.folder.moved:
        raise UsageError(
            f"{source}: the table was moved: its metadata names {table.folder.recorded}, so that engines would not "
            f"find new files at {table.location}"
        )
    properties = properties_of(members)
    for name, known in _REFUSED.items():
        if name in properties:
            raise Unsupported(f"property {name}", source=source, expected=known, actual=properties[name])
    if members.values.get("encryption-keys"):
        raise Unsupported("encryption-keys", source=source, expected="tables without encryption", actual="keys")
    branch = members.object_if_any("refs").object_if_any(MAIN)
    if branch.values.get("type", "branch") != "branch":
        raise Unsupported(f"refs.{MAIN}", source=source, expected="a branch", actual=branch.values["type"])


def refuse_without_deletes(base: IcebergSnapshot, members: JsonFields) -> None:
    """Refuse a table whose format version or properties do not have deletes of rows in data files that stay.

    Raises:
        UsageError: the message says what to change.
        Unsupported: position deletes are to be written in another format than Parquet.
        NotCanonical: numbers that the next snapshot would have are in use, or out of range.
    """
    source, version = base.metadata.source, base.metadata.format_version
    if version < VECTORS_VERSION - 1:
        raise UsageError(
            f"{source}: format version {version} has no deletes of rows: upgrade the table to 2 or 3 first"
        )
    if version < VECTORS_VERSION and any(vector.format == "iceberg" for vector in base.vectors):
        raise UsageError(f"{source}: deletion vectors in a table of format version {version}: see dvcodec audit")
    has_row_ids = version >= VECTORS_VERSION and base.info.id != NO_SNAPSHOT
    if has_row_ids and members.integer_or_none("next-row-id", least=0) is None:
        members.fail("next-row-id", "a number, in format version 3")
    _refuse_numbers_in_use(base, members)
    mode = properties_of(members).get(_DELETE_MODE, "merge-on-read")
    if mode.lower() != "merge-on-read":
        raise UsageError(
            f"{source}: property {_DELETE_MODE} is {mode}: deletes are to rewrite data files; set it to merge-on-read, "
            "or remove it"
        )
    if version < VECTORS_VERSION:
        compression_of(properties_of(members), source)
        new_rows((), properties_of(members), source)


def _refuse_numbers_in_use(base: IcebergSnapshot, members: JsonFields) -> None:
    """Refuse a table whose next sequence number is not above all others: its deletes would apply to no data file."""
    numbers = chain(
        (one.sequence_number for one in base.metadata.snapshots.values()),
        (int(numbers.max(initial=0)) for numbers in base.plan.sequence_numbers),
        (one.sequence_number or 0 for one in base.plan.equality_files),
    )
    highest = max(numbers, default=0)
    last = members.integer("last-sequence-number", least=0)
    if not highest <= last < _TOP:
        members.fail("last-sequence-number", f"{highest}, the highest in use, to {_TOP - 1}", str(last))


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
    return _rewritten(table, _compact, dry_run, progress)


def _rewritten(table: Table, rewrite: Callable[..., Result], dry_run: bool, progress: Progress | None) -> Result:
    check_table(table)
    check_progress(progress)
    if not isinstance(table, IcebergTable):
        raise UsageError(
            f"{table.location}: position deletes and equality deletes are Iceberg's, and this is a {table.kind.value} "
            "table"
        )
    writer = committer(table)
    with refreshed(table, dry_run):
        return retried(writer, lambda base: rewrite(writer, base, dry_run, progress))


def _replaced(
    writer: IcebergCommitter,
    base: IcebergSnapshot,
    new: Sequence[FileDelete],
    gone: Sequence[DeletionVector | DataFile],
    removed: frozenset[str] = frozenset(),
) -> int:
    """Commit new files of deletes in place of others; return the id of the snapshot.

    Args:
        writer: of the table.
        base: its current snapshot.
        new: what is written.
        gone: see `Replacement`.
        removed: paths of data files without a live row.
    """
    with new_files(base.table.folder.storage) as files:
        written = writer.write(base, new, files)
        with committing(files):
            return writer.replace(base, Replacement(written, removed, gone, "replace"), files)


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
    return _rewritten(table, _upgrade, dry_run, progress)


def _upgrade(
    writer: IcebergCommitter, base: IcebergSnapshot, dry_run: bool, progress: Progress | None
) -> UpgradedDeletes:
    writer.check_vectors(base)
    equality = base.plan.equality_files
    positional = [vector for vector in base.vectors if vector.format == POSITION_DELETES]
    if not positional and not equality:
        return UpgradedDeletes(base.info.id)
    deletes = []
    for file, formats, before in _deleted(base, progress):
        rows = before | base.deleted_by_value(file)
        if rows.cardinality > before.cardinality or formats - {"iceberg"}:  # not by a vector alone
            deletes.append(FileDelete(file, (), before, rows, are_all_rows(base, file, rows)))
    partial = [delete for delete in deletes if not delete.whole]
    planned = UpgradedDeletes(
        base.info.id, False, len(positional), len(equality), len(partial), len(deletes) - len(partial)
    )
    if dry_run:
        return planned
    touched = {delete.data_file.path for delete in deletes}
    removed = frozenset(delete.data_file.path for delete in deletes if delete.whole)
    gone = [vector for vector in base.vectors if vector.format != "iceberg" or vector.data_file in touched]
    snapshot = _replaced(writer, base, partial, [*gone, *equality], removed)
    return replace(planned, snapshot=snapshot, committed=True)


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

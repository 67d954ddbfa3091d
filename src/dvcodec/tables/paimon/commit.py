"""Commit deletes to an append table: index files, manifests, and the snapshot file that names them all.

Java class ``FileStoreCommitImpl``: ``snapshot/snapshot-N+1`` is created only if it does not exist, then the hint
``snapshot/LATEST`` is written.

Paimon's own Python library is not used: pypaimon requires releases of pyarrow and pandas that exclude the current ones,
writes 32-bit vectors into tables of ``deletion-vectors.bitmap64`` and cannot read such a table. A commit is a few files
that this package reads anyway. All that it does not change is carried over from the snapshot before, members that are
not known here included.

Two writers of this package, or one and a store that renames without replacing (HDFS), cannot both create a snapshot. In
object stores, and between processes on a local disk, Paimon's Java writers first look whether the file exists and then
replace it; they are protected by the lock of their catalog, which this package does not take.

`enable` makes a new schema, with the option ``deletion-vectors.enabled``.
Java class ``SchemaManager``, whose ``ALTER TABLE`` wants ``deletion-vectors.modifiable`` too. That is for tables with a
primary key, whose readers find rows twice until they are compacted; the data files of an append table stay as they are.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dvcodec.core.errors import CommitConflict, UsageError
from dvcodec.core.interrupts import uninterrupted
from dvcodec.core.json_text import encode_json, parse_json
from dvcodec.io import open_sink
from dvcodec.paimon import read_index_manifest, write_index_manifest
from dvcodec.tables.deleting.committer import Committer, Written
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import Enabled, FileDelete
from dvcodec.tables.paimon.metadata import SnapshotRecord, TableSchema, numbered, read_snapshot
from dvcodec.tables.paimon.new_manifests import Lists, NewIndex, write_lists
from dvcodec.tables.paimon.partition import Layout
from dvcodec.tables.paimon.snapshot import ENABLED, PaimonSnapshot
from dvcodec.tables.paimon.table import PaimonTable
from dvcodec.tables.paimon.writable import check_next, check_writable
from dvcodec.tables.writing import put_once, removed_on_error

BATCH = 2**63 - 1
"""``commitIdentifier`` of a commit that is not one of a stream."""
_OF_ONE_COMMIT = frozenset(
    ["changelogManifestList", "changelogManifestListSize", "changelogRecordCount", "properties", "operation"]
)
"""Members that describe the commit that made a snapshot; others hold until they are changed."""
_WRITER = "writerVersion"
"""Member with the release of Paimon that wrote a snapshot."""


def committer(table: PaimonTable) -> PaimonCommitter:
    """Return what commits to a table."""
    return PaimonCommitter(table)


class PaimonCommitter(Committer[PaimonSnapshot]):
    """Commits deletes to an append table; see `Committer`."""

    def __init__(self, table: PaimonTable) -> None:
        self._folder = table.folder
        self._reopen()

    def current(self) -> PaimonSnapshot:
        """Return the newest snapshot in the newest schema; see `Committer.current`."""
        self._reopen()
        return PaimonTable(self._folder).snapshot()

    def check(self, base: PaimonSnapshot) -> None:
        """Refuse tables with a primary key or without deletion vectors, and features; see `check_writable`."""
        check_writable(base)

    def last_batch(self, base: PaimonSnapshot, query: str) -> int | None:
        """Return the highest ``commitIdentifier`` of the stream's ``commitUser``; see `Committer.last_batch`."""
        for number in sorted(numbered(self._folder.names("snapshot"), "snapshot"), reverse=True):
            name = f"snapshot/snapshot-{number}"
            source = self._folder.join(name)
            found = JsonFields.of(parse_json(self._folder.read(name), source, "metadata"), source)
            if number <= base.info.id and found.text_or_none("commitUser") == query:
                return found.integer("commitIdentifier")
        return None

    def write(self, base: PaimonSnapshot, deletes: Sequence[FileDelete], written: list[str]) -> Written:
        """Write new index files; see `Committer.write`."""
        return NewIndex(base).write(deletes, written)

    def commit(self, base: PaimonSnapshot, deletes: Sequence[FileDelete], written: Written, files: list[str]) -> int:
        """Write manifests and create the next snapshot; see `Committer.commit`."""
        state = base.state
        if state is None:
            raise UsageError(f"{self._folder.location}: there is no snapshot to delete from")
        try:
            with removed_on_error(files, self._folder.storage):
                snapshot, unused = self._prepare(base, state, deletes, written, files)
                data = encode_json(snapshot, self._folder.join(state.name), "metadata", lines=True)
        except FileNotFoundError:
            self._check_current(base, state)  # the snapshot may have been replaced, and then expired
            raise
        self._check_current(base, state)
        location = self._folder.join(f"snapshot/snapshot-{state.id + 1}")
        put_once(self._folder.storage, location, data)
        self._hint(state.id + 1)
        for path in unused:
            with suppress(OSError):
                self._folder.storage.remove(path)
        return state.id + 1

    def _prepare(
        self,
        base: PaimonSnapshot,
        state: SnapshotRecord,
        deletes: Sequence[FileDelete],
        written: Written,
        files: list[str],
    ) -> tuple[dict[str, Any], list[str]]:
        """Write all files of the new snapshot but its own.

        Returns:
            The new snapshot, and files of `written` that it does not need.
        """
        folder, token = self._folder, uuid.uuid4()
        schema = base.schemas(base.schema_id or 0)

        def new_file(kind: str) -> str:
            name = f"{kind}-{token}-{len(files)}"
            files.append(folder.join(f"manifest/{name}"))
            return name

        removed = [one.data_file for one in deletes if one.whole]
        lists = write_lists(folder, state, removed, Layout(folder, schema), new_file)
        old = []
        if state.index_manifest is not None:
            source = folder.join(f"manifest/{state.index_manifest}")
            old = read_index_manifest(source, limits=folder.storage.limits, storage_options=folder.storage)
        entries, unused = NewIndex(base, self.dropped).entries(old, deletes, written, files)
        index_manifest = new_file("index-manifest") if entries else None
        if index_manifest is not None:
            target = folder.join(f"manifest/{index_manifest}")
            write_index_manifest(
                target,
                entries,
                codec=lists.format.codec,
                file_format=lists.format.name,
                storage_options=folder.storage,
            )
        return self._snapshot(state, schema.id, lists, index_manifest), unused

    def _snapshot(
        self, state: SnapshotRecord, schema_id: int, lists: Lists, index_manifest: str | None
    ) -> dict[str, Any]:
        """Return the new snapshot: the members of the one before, with what changes.

        Statistics of another schema are left out, as Paimon's writers do.
        """
        source = self._folder.join(state.name)
        before: dict[str, Any] = dict(parse_json(self._folder.read(state.name), source, "metadata"))
        changed: dict[str, Any] = {
            "uuid": str(uuid.uuid4()),
            "id": state.id + 1,
            "schemaId": schema_id,
            "baseManifestList": lists.base,
            "baseManifestListSize": lists.base_size,
            "deltaManifestList": lists.delta,
            "deltaManifestListSize": lists.delta_size,
            "indexManifest": index_manifest,
            "commitUser": str(uuid.uuid4()) if self.batch is None else self.batch.query,
            "commitIdentifier": BATCH if self.batch is None else self.batch.number,
            "commitKind": "OVERWRITE",
            "timeMillis": max(time.time_ns() // 1_000_000, state.time_ms),
            "totalRecordCount": (state.total_records or 0) - lists.deleted_rows,
            "deltaRecordCount": -lists.deleted_rows,
        }
        optional = {"uuid", "baseManifestListSize", "deltaManifestListSize"} - before.keys()
        after = before | {name: value for name, value in changed.items() if name not in optional}
        if schema_id != state.schema_id:
            after.pop("statistics", None)
        gone = _OF_ONE_COMMIT | {_WRITER}
        return {name: value for name, value in after.items() if value is not None and name not in gone}

    def _check_current(self, base: PaimonSnapshot, state: SnapshotRecord) -> None:
        """Check that nothing was committed, rolled back or altered since the base was read.

        Raises:
            CommitConflict: it was.
        """
        self._reopen()
        for name, number in (("snapshot", state.id), ("schema", base.schema_id)):
            found = max(numbered(self._folder.names(name), name), default=None)
            if found != number:
                raise self._conflict(f"{name} {number} is not the newest one any more, that is {found}")
        try:
            same = read_snapshot(self._folder, state.name) == state
        except FileNotFoundError:
            same = False
        if not same:
            raise self._conflict(f"snapshot {state.id} is not the one that was read")

    def _hint(self, number: int) -> None:
        """Write the hint to the newest snapshot; readers check whether there is a newer one."""
        with (
            suppress(OSError),
            open_sink(self._folder.join("snapshot/LATEST"), storage_options=self._folder.storage) as out,
        ):
            out.write(str(number).encode())

    def _conflict(self, what: str) -> CommitConflict:
        return CommitConflict(f"{self._folder.location}: {what}")

    def _reopen(self) -> None:
        """Forget what is known of the table's files."""
        self._folder.storage.reopen(self._folder.location)


def enable(table: PaimonTable, *, dry_run: bool = False) -> Enabled:
    """Enable deletion vectors in the newest schema; see `dvcodec.tables.enable`.

    Raises:
        Unsupported: a table that deletes could not be committed to afterwards either, see `check_writable`; or no id is
            left for another schema.
    """
    folder = table.folder
    folder.storage.reopen(folder.location)
    base = PaimonTable(folder).snapshot()
    schema = base.schemas(base.schema_id or 0)

    def enabled(number: int) -> TableSchema:
        found = base.schemas(number)
        return replace(found, options={**found.options, ENABLED: "true"}) if number == schema.id else found

    check_writable(replace(base, schemas=enabled))
    if schema.is_true(ENABLED):
        return Enabled(())
    source = folder.join(schema.name)
    check_next(schema.id, source)
    changes = (f"{ENABLED}: {schema.options.get(ENABLED, 'not set')} -> true",)
    if dry_run:
        return Enabled(changes)
    members = JsonFields.of(parse_json(folder.read(schema.name), source, "metadata"), source).values
    new = {
        **members,
        "id": schema.id + 1,
        "options": {**(members.get("options") or {}), ENABLED: "true"},
        "timeMillis": int(time.time() * 1000),
    }
    data = encode_json(new, source, "metadata", lines=True)
    location = folder.join(f"schema/schema-{schema.id + 1}")
    with uninterrupted():
        put_once(folder.storage, location, data)
    return Enabled(changes, location)

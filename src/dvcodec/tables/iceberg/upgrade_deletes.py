"""Turns position deletes of version 2 and equality deletes into deletion vectors: one commit, and the same live rows.

Readers that know only deletion vectors, or only position deletes, read the table afterwards. The snapshot's operation
is ``replace``, as of a compaction: no row is deleted that was not before.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from dvcodec.core.errors import CommitConflict, DecodeError, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.tables.deleting.committer import FileDelete
from dvcodec.tables.iceberg.commit import IcebergCommitter
from dvcodec.tables.iceberg.equality import EqualityMatcher
from dvcodec.tables.iceberg.manifests import EqualityDeletes, ManifestEntry
from dvcodec.tables.iceberg.snapshot import IcebergSnapshot
from dvcodec.tables.iceberg.snapshot_writer import Replacement
from dvcodec.tables.model import POSITION_DELETES
from dvcodec.tables.new_files import new_files

__all__ = ["UpgradedDeletes", "upgrade_deletes"]


@dataclass(frozen=True, slots=True)
class UpgradedDeletes:
    """The result of `upgrade_deletes`.

    Attributes:
        snapshot: id of the new snapshot; that of the base if there was nothing to do.
        position_deletes: files of position deletes that went.
        equality_deletes: files of equality deletes that went.
        vectors: new vectors.
        removed: data files that had no live row, and went.
    """

    snapshot: int
    position_deletes: int
    equality_deletes: int
    vectors: int
    removed: int


def upgrade_deletes(committer: IcebergCommitter) -> UpgradedDeletes:
    """Replace all position deletes and equality deletes of the current snapshot by vectors.

    The table has to be of format version 3: see `IcebergCommitter.upgrade`. If another writer commits first, all is
    read again, as often as the table's properties ``commit.retry.*`` say.

    Raises:
        UsageError: the table must not be written to, see `IcebergCommitter.check`.
        Unsupported: it uses a feature that is not known here.
        DecodeError: a data file or delete file is corrupt.
        CommitConflict: other writers were faster each time; nothing was committed.
        CommitUnknown: it could not be found out whether the commit is in.
        OSError: a file cannot be read or written.
    """
    tries = 0
    while True:
        base = committer.current()
        committer.check(base)
        try:
            return _upgrade(committer, base)
        except CommitConflict:
            retries = committer.retries(base)
            tries += 1
            if tries > retries.number:
                raise
        longest = min(retries.max_wait_ms, retries.min_wait_ms * 2 ** min(tries, 20))
        time.sleep(random.uniform(0, longest / 1000))  # noqa: S311  (no secret)


def _upgrade(committer: IcebergCommitter, base: IcebergSnapshot) -> UpgradedDeletes:
    record = base.metadata.snapshots.get(base.info.id)
    listed = () if record is None else base.iceberg_table.entries(record)
    equality = [one for one in listed if isinstance(one, EqualityDeletes)]
    positional = [vector for vector in base.vectors if vector.format == POSITION_DELETES]
    old = {vector.path for vector in positional} | {one.path for one in equality}
    if not old:
        return UpgradedDeletes(base.info.id, 0, 0, 0, 0)
    deletes = list(_deletes(base, EqualityMatcher(base, equality)))
    partial = [delete for delete in deletes if not delete.whole]
    touched = {delete.data_file.path for delete in deletes}
    gone = [vector for vector in base.vectors if vector.format != "iceberg" or vector.data_file in touched]
    with new_files(base.table.folder.storage) as files:
        written = committer.write(base, partial, files)
        replacement = Replacement(
            vectors=written.locations,
            removed=frozenset(touched - written.locations.keys()),
            gone=frozenset({(path, None) for path in old} | {(vector.path, vector.offset) for vector in gone}),
            manifests=frozenset(
                {one.manifest for one in equality} | {ManifestEntry.of(vector).manifest for vector in gone}
            ),
            operation="replace",
        )
        try:
            snapshot = committer.replace(base, replacement, files)
        except (CommitConflict, DecodeError, UsageError, OSError):
            raise
        except BaseException:  # the commit may be in: its files stay
            files.clear()
            raise
    return UpgradedDeletes(snapshot, len(positional), len(equality), len(partial), len(deletes) - len(partial))


def _deletes(base: IcebergSnapshot, equality: EqualityMatcher) -> Iterator[FileDelete]:
    """Yield what each data file needs that has other deletes than a vector."""
    stored: dict[str, list[RowSet]] = {}
    replaced: set[str] = set()
    for vector in base.vectors:
        for found in base.read(vector):
            stored.setdefault(found.data_file, []).append(found.rows)
            if vector.format != "iceberg":
                replaced.add(found.data_file)
    for file in base.data_files:
        before = RowSet().union(*stored.get(file.path, ()))
        rows = before | equality.find(file)
        if file.path in replaced or rows.cardinality > before.cardinality:
            yield FileDelete(file, (), before, rows, whole=rows.cardinality == file.physical_rows)

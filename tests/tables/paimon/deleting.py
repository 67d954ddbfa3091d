"""Deletes by position, committed as `dvcodec.tables.deleting.run` does, in one attempt."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from dvcodec import CommitUnknown, RowSet
from dvcodec.tables import audit
from dvcodec.tables.deleting.run import Written
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import FileDelete
from dvcodec.tables.paimon import DataFileMeta, PaimonTable
from dvcodec.tables.paimon.commit import PaimonCommitter
from dvcodec.tables.paimon.table import PaimonSnapshot
from dvcodec.tables.writing import new_files
from samples.rows import ids

Rows = Mapping[str, Iterable[int]]
"""Positions by the bare name of a data file."""
Root = Folder | str | os.PathLike[str]


def open_committer(root: Root) -> PaimonCommitter:
    return PaimonCommitter(PaimonTable(Folder.of(root)))


def deletes(base: PaimonSnapshot, rows: Rows) -> list[FileDelete]:
    found = []
    for file in base.data_files:
        if DataFileMeta.of(file).file_name in rows:
            replaced = tuple(base.vectors_of(file))
            before = RowSet([])
            for vector in replaced:
                before = before.union(base.read(vector)[0].rows)
            after = before.union(RowSet(rows[DataFileMeta.of(file).file_name]))
            found.append(FileDelete(file, replaced, before, after, whole=len(after) == file.physical_rows))
    return found


def delete(root: Root, rows: Rows, base: PaimonSnapshot | None = None) -> int:
    """Delete rows, upon the current snapshot or one that was read before; return the new snapshot's id."""
    to = open_committer(root)
    base = base or to.current()
    to.check(base)
    wanted = deletes(base, rows)
    assert {DataFileMeta.of(one.data_file).file_name for one in wanted} == set(rows)
    with new_files(base.table.folder.storage) as files:
        partial = [one for one in wanted if not one.whole]
        written = to.write(base, partial, files) if partial else Written({}, 0)
        try:
            return to.commit(base, wanted, written, files)
        except CommitUnknown:
            files.clear()
            raise


def live(root: Root, snapshot: int | None = None, column: str = "id") -> list[int]:
    """Return the sorted values of a column in the live rows."""
    return ids(PaimonTable(Folder.of(root)), snapshot, column)


def assert_clean(root: Root) -> None:
    """Check that an audit finds nothing, orphans included."""
    report = audit(PaimonTable(Folder.of(root)))
    assert [str(finding) for finding in report.findings] == []

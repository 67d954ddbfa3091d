"""Deletes by position, in one attempt."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from dvcodec import RowSet
from dvcodec.tables import audit
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import FileDelete
from dvcodec.tables.paimon import DataFileMeta, PaimonTable
from dvcodec.tables.paimon.commit import PaimonCommitter
from dvcodec.tables.paimon.table import PaimonSnapshot
from samples.rows import ids
from tables.iceberg import deleting

Rows = Mapping[str, Iterable[int]]
"""Positions by the bare name of a data file."""
Root = Folder | str | os.PathLike[str]


def open_committer(root: Root) -> PaimonCommitter:
    return PaimonCommitter(PaimonTable(Folder.of(root)))


def by_path(base: PaimonSnapshot, rows: Rows) -> dict[str, RowSet]:
    names = {DataFileMeta.of(file).file_name: file.path for file in base.data_files}
    return {names[name]: RowSet(some) for name, some in rows.items()}


def deletes(base: PaimonSnapshot, rows: Rows) -> list[FileDelete]:
    return deleting.file_deletes(base, by_path(base, rows))


def delete(root: Root, rows: Rows, base: PaimonSnapshot | None = None) -> int:
    """Delete rows, upon the current snapshot or one that was read before; return the new snapshot's id."""
    to = open_committer(root)
    base = base or to.current()
    return deleting.delete(to, by_path(base, rows), base=base)


def live(root: Root, snapshot: int | None = None, column: str = "id") -> list[int]:
    """Return the sorted values of a column in the live rows."""
    return ids(PaimonTable(Folder.of(root)), snapshot, column)


def assert_clean(root: Root) -> None:
    """Check that an audit finds nothing, orphans included."""
    report = audit(PaimonTable(Folder.of(root)))
    assert [str(finding) for finding in report.findings] == []

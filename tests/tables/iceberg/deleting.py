"""Delete rows by position through a committer, as `dvcodec.tables.deleting.run` does, once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dvcodec import RowSet
from dvcodec.tables.deleting.run import Committer
from dvcodec.tables.model import FileDelete
from dvcodec.tables.writing import new_files


def file_deletes(base: Any, rows: Mapping[str, RowSet]) -> list[FileDelete]:
    """What a delete of rows of data files (by path) comes to, upon a base."""
    before: dict[str, RowSet] = {}
    for vector in base.vectors:
        for found in base.read(vector):
            before[found.data_file] = before.get(found.data_file, RowSet()) | found.rows
    deletes = []
    for path, some in rows.items():
        file, old = base.files[path], before.get(path, RowSet())
        own = tuple(vector for vector in base.vectors if vector.data_file == path)
        whole = (old | some).cardinality == file.physical_rows
        deletes.append(FileDelete(file, own, old, old | some, whole))
    return deletes


def delete(committer: Committer[Any], rows: Mapping[str, RowSet], *, base: Any = None) -> int:
    """Delete rows of data files by path; return the new snapshot."""
    base = committer.current() if base is None else base
    committer.check(base)
    deletes = file_deletes(base, rows)
    with new_files(base.table.folder.storage) as files:
        written = committer.write(base, [one for one in deletes if not one.whole], files)
        return committer.commit(base, deletes, written, files)

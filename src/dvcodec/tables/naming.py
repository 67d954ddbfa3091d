"""Find a data file by name: its recorded path, location, path below the table, or bare name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.core.usage import check_type
from dvcodec.io.file_key import file_key
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import DataFile
from dvcodec.tables.table import Snapshot

__all__ = ["named_files"]

_NEAR = 3


def named_files(snapshot: Snapshot, name: str | None) -> tuple[DataFile, ...]:
    """Return the data files with a name, all of them for None; several are spellings of one.

    The first of these that matches is used: `DataFile.path` as spelled; `DataFile.path` or `DataFile.location` in
    another spelling (see `file_key`); the path relative to the table's folder; the bare name.

    Raises:
        UsageError: none matches, or the bare name matches several.
    """
    table, files = snapshot.table, snapshot.data_files
    if name is None:
        return files
    check_type(name, str, "data_file", "a str")
    key, below, bare = file_key(name), _below(table.folder, name), _bare(name) == name
    ways: tuple[Callable[[DataFile], bool], ...] = (
        lambda file: file.path == name,
        lambda file: key in (file_key(file.path), file_key(file.location)),
        lambda file: below is not None and below == _below(table.folder, file.path),
    )
    for way in ways:
        if found := tuple(filter(way, files)):
            return found
    found = tuple(file for file in files if bare and _bare(file.path) == name)
    if not found:
        near = get_close_matches(_bare(name), {_bare(file.path) for file in files}, _NEAR)
        paths = [file.path for file in files if _bare(file.path) in near][:_NEAR]
        hint = f"; similar: {', '.join(paths)}" if paths else ""
        raise UsageError(f"{table.location}: no data file {name} in snapshot {snapshot.info.id}{hint}")
    if len(found) > 1:
        paths = [file.path for file in found[:_NEAR]]
        raise UsageError(
            f"{table.location}: {name} is the name of {len(found)} data files in snapshot {snapshot.info.id}, "
            f"expected one: give the path, as in {', '.join(paths)}"
        )
    return found


def _below(folder: Folder, path: str) -> str | None:
    try:
        below = folder.below(path)
    except NotCanonical:
        return None
    return None if below is None else file_key(below).lstrip("/")


def _bare(path: str) -> str:
    return path.rpartition("/")[2]

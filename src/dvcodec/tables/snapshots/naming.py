"""Find data files by name: the recorded path, the location, the path below the table, or the bare name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cached_property

from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.core.usage import check_type
from dvcodec.io.file_key import file_key
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import DataFile
from dvcodec.tables.table import Snapshot

_NEAR = 3
_MOST_COMPARED = 1000


def named_files(snapshot: Snapshot, name: str | None) -> tuple[DataFile, ...]:
    """Return the data files with a name, see `FileNames.find`; all of them for None."""
    if name is None:
        return snapshot.data_files
    check_type(name, str, "data_file", "a str")
    return FileNames(snapshot).find(name)


class FileNames:
    """Finds data files of a snapshot by name. All of them are named once, in each way that is asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def find(self, name: str) -> tuple[DataFile, ...]:
        """Return the data files with a name; several are spellings of one.

        The first of these that matches is used: `DataFile.path` as spelled; `DataFile.path` or `DataFile.location` in
        another spelling (see `file_key`); the path relative to the table's folder; the bare name.

        Raises:
            UsageError: none matches, or the bare name matches several.
        """
        known = self._snapshot.files.get(name)
        if known is not None:
            return (known,)
        found = self._by_key.get(file_key(name))
        if found is None and (below := _below(self._snapshot.table.folder, name)) is not None:
            found = self._by_path_below.get(below)
        return tuple(found) if found is not None else (self._named(name),)

    @cached_property
    def _by_key(self) -> dict[str, list[DataFile]]:
        return _grouped(self._snapshot, lambda file: {file_key(file.path), file_key(file.location)})

    @cached_property
    def _by_path_below(self) -> dict[str, list[DataFile]]:
        folder = self._snapshot.table.folder
        return _grouped(self._snapshot, lambda file: () if (one := _below(folder, file.path)) is None else (one,))

    @cached_property
    def _by_bare_name(self) -> dict[str, list[DataFile]]:
        return _grouped(self._snapshot, lambda file: (_bare(file.path),))

    def _named(self, name: str) -> DataFile:
        """Return the data file with a bare name."""
        where = f"snapshot {self._snapshot.info.id}"
        location = self._snapshot.table.location
        found = self._by_bare_name.get(name, [])
        if not found:
            few = len(self._by_bare_name) <= _MOST_COMPARED  # each takes up to half a millisecond
            near = get_close_matches(_bare(name), self._by_bare_name, _NEAR) if few else []
            paths = [file.path for one in near for file in self._by_bare_name[one]][:_NEAR]
            hint = f"; similar: {', '.join(paths)}" if paths else ""
            raise UsageError(f"{location}: no data file {name} in {where}{hint}")
        if len(found) > 1:
            paths = [file.path for file in found[:_NEAR]]
            raise UsageError(
                f"{location}: {name} is the name of {len(found)} data files in {where}, "
                f"expected one: give the path, as in {', '.join(paths)}"
            )
        return found[0]


def _grouped(snapshot: Snapshot, names: Callable[[DataFile], Iterable[str]]) -> dict[str, list[DataFile]]:
    found: dict[str, list[DataFile]] = {}
    for file in snapshot.data_files:
        for name in names(file):
            found.setdefault(name, []).append(file)
    return found


def _below(folder: Folder, path: str) -> str | None:
    try:
        below = folder.below(path)
    except NotCanonical:
        return None
    return None if below is None else file_key(below).lstrip("/")


def _bare(path: str) -> str:
    return path.rpartition("/")[2]

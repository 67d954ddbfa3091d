"""Find data files: by the stale paths of a table that moved, and by the names that users give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property

from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.io.target import file_key
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import DataFile


class PathMatcher:
    """Finds the data file that a path of a moved table refers to.

    Moving a table changes its root; paths below it, partition folders included, stay the same. Bare names prove
    nothing: engines reuse them across partitions and tables.

    >>> files = PathMatcher(Folder("/new/t"), ["/new/t/data/p=1/a.parquet", "/new/t/data/p=2/a.parquet"])
    >>> files.find("s3://old/t/data/p=2/a.parquet"), files.find("s3://old/t/data/p=3/a.parquet")
    ('/new/t/data/p=2/a.parquet', None)
    """

    def __init__(self, folder: Folder, paths: Iterable[str]) -> None:
        self._folder = folder
        self._paths = paths

    def find(self, path: str) -> str | None:
        """Return the one data file whose path below the table's folder equals that of `path`.

        If the folder of one of them is unknown, it has to end in the other's path below the folder: at least one
        folder and the name. None without a match, with several, or if the path leaves the folder.
        """
        try:
            key, inside = self._key(path)
        except NotCanonical:
            return None
        found = []
        for other, other_inside, known in self._known.get(_end(key), ()):
            below, whole = (key, other) if inside else (other, key)
            if key == other if inside == other_inside else "/" in below and whole.endswith(f"/{below}"):
                found.append(known)
        return found[0] if len(found) == 1 else None

    @cached_property
    def _known(self) -> dict[str, list[tuple[str, bool, str]]]:
        """The data files by the last folder and the name."""
        found: dict[str, list[tuple[str, bool, str]]] = {}
        for known in self._paths:
            key, inside = self._key(known)
            found.setdefault(_end(key), []).append((key, inside, known))
        return found

    def _key(self, path: str) -> tuple[str, bool]:
        """Return a path below the folder without repeated slashes, or the key of another, and whether it is below."""
        below = self._folder.below(path)
        return (file_key(path), False) if below is None else (file_key(below).lstrip("/"), True)


def _end(key: str) -> str:
    return "/".join(key.rsplit("/", 2)[-2:])


_NEAR = 3
_MOST_COMPARED = 1000


class FileNames:
    """Finds data files of a snapshot by name. All of them are named once, in each way that is asked for.

    Args:
        folder: the table's.
        files: by path.
        snapshot: its id, for errors.
    """

    def __init__(self, folder: Folder, files: Mapping[str, DataFile], snapshot: int) -> None:
        self._folder, self._files, self._snapshot = folder, files, snapshot

    def find(self, name: str) -> tuple[DataFile, ...]:
        """Return the data files with a name; several are spellings of one.

        The first of these that matches is used: `DataFile.path` as spelled; `DataFile.path` or `DataFile.location` in
        another spelling (see `file_key`); the path relative to the table's folder; the bare name.

        Raises:
            UsageError: none matches, or the bare name matches several.
        """
        known = self._files.get(name)
        if known is not None:
            return (known,)
        found = self._by_key.get(file_key(name))
        if found is None and (below := _path_below(self._folder, name)) is not None:
            found = self._by_path_below.get(below)
        return tuple(found) if found is not None else (self._named(name),)

    @cached_property
    def _by_key(self) -> dict[str, list[DataFile]]:
        return self._grouped(lambda file: {file_key(file.path), file_key(file.location)})

    @cached_property
    def _by_path_below(self) -> dict[str, list[DataFile]]:
        return self._grouped(lambda file: [one for one in [_path_below(self._folder, file.path)] if one is not None])

    @cached_property
    def _by_bare_name(self) -> dict[str, list[DataFile]]:
        return self._grouped(lambda file: [_bare(file.path)])

    def _grouped(self, names: Callable[[DataFile], Iterable[str]]) -> dict[str, list[DataFile]]:
        found: dict[str, list[DataFile]] = {}
        for file in self._files.values():
            for name in names(file):
                found.setdefault(name, []).append(file)
        return found

    def _named(self, name: str) -> DataFile:
        """Return the data file with a bare name."""
        where, location = f"snapshot {self._snapshot}", self._folder.location
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


def _path_below(folder: Folder, path: str) -> str | None:
    try:
        below = folder.below(path)
    except NotCanonical:
        return None
    return None if below is None else file_key(below).lstrip("/")


def _bare(path: str) -> str:
    return path.rpartition("/")[2]

"""A table's folder: its files, and where to open the paths that metadata records.

Recorded paths are relative to the table's folder, or absolute. A table that was moved, or copied, still records its old
location: such paths are opened below the folder in which the metadata was found. Paths elsewhere are opened if metadata
may reference them: see `dvcodec.io.target`.

Data files are found by the stale paths of a table that moved, and by the names that users give.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.io import ListedFiles, Storage, is_url
from dvcodec.io.storage import run_bounded
from dvcodec.io.store import BucketNotFound
from dvcodec.io.target import check_reach, check_step, file_key, join, local_name, local_path, path_below, with_slashes
from dvcodec.tables.model import DataFile

MOST_CHARACTERS = 8192
"""Of a recorded path: more than any file system or store takes."""
_PLAIN = re.compile(r"(?:[A-Za-z0-9_=-][ -.0-9;-\[\]-~]*/)*[A-Za-z0-9_=-][ -.0-9;-\[\]-~]*")
"""A relative path without colons, whose steps do not begin with a dot."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A table's folder.

    Attributes:
        location: path or URL, without a slash at its end.
        recorded: how the table's own metadata spells the folder, None if it does not. A relative one (``./t``) means
            the table's folder, wherever it is.
        allow: protocols that the metadata may use besides those of `check_reach`.
        storage: opens all files of the table; errors about files outside the folder do not show what is in them.
    """

    location: str
    recorded: str | None = None
    allow: frozenset[str] = frozenset()
    storage: Storage = field(default_factory=Storage, compare=False, repr=False)
    _roots: tuple[str, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage", self.storage.of_table(self.location))
        recorded = [] if self.recorded is None or _is_relative(self.recorded) else [self.recorded]
        object.__setattr__(self, "_roots", tuple(dict.fromkeys(map(_key, [*recorded, self.location]))))

    @classmethod
    def of(cls, location: Folder | str | os.PathLike[str]) -> Folder:
        """Return a folder by its path or URL; a `Folder` is returned unchanged.

        Raises:
            UsageError: the path is empty.
        """
        return location if isinstance(location, Folder) else cls(folder_location(location))

    @property
    def moved(self) -> bool:
        """Whether the metadata records another location of the table."""
        recorded = self.recorded
        if recorded is None or _is_relative(recorded):
            return False
        return _key(self.location) not in (_key(recorded), file_key(recorded))  # the folder may be called a%20b

    def join(self, name: str) -> str:
        """Return the location of something below the folder (`name` may have slashes).

        Raises:
            NotCanonical: it would name another file system (see `check_step`), or has more than 8,192 characters.
        """
        self._check_length(name)
        check_step(name, self.location)
        return join(self.location, name)

    def _check_length(self, path: str) -> None:
        if len(path) > MOST_CHARACTERS:
            expected = f"at most {MOST_CHARACTERS} characters"
            raise NotCanonical("path", source=self.location, expected=expected, actual=f"{len(path)}: {path:.80}...")

    def inner(self, name: str) -> Folder:
        """Return a folder below this one.

        Raises:
            NotCanonical: the name leaves it.
        """
        return replace(self, location=self.locate(name))

    def locate(self, path: str) -> str:
        """Return the location at which to open a recorded path (plain text, not percent-encoded).

        >>> Folder("/copy/t", recorded="s3://lake/t").locate("s3a://lake/t/data/a b.parquet")
        '/copy/t/data/a b.parquet'
        >>> Folder("/wh/t").locate("part=1/a.parquet"), Folder("/wh/t").locate("s3://other/a.parquet")
        ('/wh/t/part=1/a.parquet', 's3://other/a.parquet')

        Raises:
            NotCanonical: it leaves the folder, is not a location, or has more than 8,192 characters.
            Unsupported: metadata must not reference it; see `check_reach`.
        """
        self._check_length(path)
        below = self.below(path)
        if below is not None:
            return self.join(below)
        check_reach(path, self.location, self.allow)
        local = local_name(path)
        if local is None:
            return path
        if path.startswith("file:"):
            return file_key(path)
        return str(Path(local))

    def locate_each(self, paths: Sequence[str]) -> list[str]:
        """Return `locate` of many paths: of those that are relative and have no odd steps, all at once.

        Raises:
            NotCanonical, Unsupported: see `locate`.
        """
        root = self.location.rstrip("/")
        if is_url(self.location) or (self.recorded is not None and _is_relative(self.recorded)):
            return [self.locate(path) for path in paths]
        return [
            f"{root}/{path}" if _PLAIN.fullmatch(path) and len(path) <= MOST_CHARACTERS else self.locate(path)
            for path in paths
        ]

    def below(self, path: str) -> str | None:
        """Return a recorded path relative to the folder, without ``.`` segments; None if it is elsewhere.

        >>> Folder("/copy/t", recorded="s3://lake/t").below("s3://lake/t/data/a.parquet")
        'data/a.parquet'
        >>> Folder("s3://lake/t").below("./data/a.parquet")
        'data/a.parquet'

        Raises:
            NotCanonical: it has a ``..`` segment there, which no writer makes: such a path may leave the folder.
        """
        below = self._below(path)
        if below is None:
            return None
        steps = below.split("/")
        if ".." in steps:
            raise NotCanonical("path", source=self.location, expected="no step .. below the folder", actual=path)
        return "/".join(step for step in steps if step != ".") if "." in steps else below

    def _below(self, path: str) -> str | None:
        if _is_relative(path):
            return path if self.recorded is None or not _is_relative(self.recorded) else _after(self.recorded, path)
        return next((inside for root in self._roots if (inside := path_below(path, root)) is not None), None)

    def names(self, name: str = "") -> list[str]:
        """Return the bare names of the files and folders in the folder, or in one below it; none if it does not exist.

        Raises:
            OSError: it cannot be listed.
        """
        try:
            return self.storage.names(self.join(name) if name else self.location)
        except BucketNotFound:  # a wrong name, or a wrong endpoint: not a folder without a table
            raise
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        """Read a whole file of metadata below the folder.

        Raises:
            LimitExceeded: it is larger than `Limits.max_metadata_bytes`.
            OSError: it is missing, or cannot be read.
        """
        return self.storage.read(self.join(name))

    def read_each(self, names: Iterable[str]) -> Iterator[bytes]:
        """Read files of metadata below the folder, several concurrently if they are remote; yield each in order.

        Raises:
            LimitExceeded, OSError: see `read`.
        """
        return run_bounded(self.read, names, self.storage.readers(self.location))

    def walk(self) -> ListedFiles:
        """List all files below the folder, unordered; links to folders are not followed.

        Raises:
            OSError: a folder cannot be listed.
        """
        return self.storage.walk(self.location)


def folder_location(folder: str | os.PathLike[str]) -> str:
    """Return a path or URL with ``/`` between its parts, and none at its end.

    Raises:
        UsageError: it is empty.
    """
    location = with_slashes(folder)
    if not location:
        raise UsageError("expected a table's path or URL, found an empty one")
    return location.rstrip("/") or "/"


def real_path(location: str) -> str:
    """Return one path for all paths to a local file: symbolic links are resolved."""
    local = local_path(location)
    return file_key(location) if local is None else os.path.realpath(local)


def _is_relative(path: str) -> bool:
    return not is_url(path) and not path.startswith("/")


def _after(folder: str, path: str) -> str:
    """Return a relative path without a leading relative folder; unchanged if it does not begin with it.

    >>> _after("./t", "./t/data/a"), _after("t/", "./t//data/a"), _after(".", "./data/a"), _after("./t", "data/a")
    ('data/a', 'data/a', 'data/a', 'data/a')
    """
    root, steps = ([step for step in one.split("/") if step not in ("", ".")] for one in (folder, path))
    return "/".join(steps[len(root) :] if steps[: len(root)] == root else steps)


def _key(folder: str) -> str:
    """Return a key that all spellings of a folder share: for a local one, its absolute path in plain text."""
    if folder.startswith("/"):
        return file_key(folder)
    try:
        local = local_path(folder)
    except UsageError:  # a file URL of another host, which is compared as it is spelled
        local = None
    if local is not None:
        folder = str(local.absolute())
    return file_key(folder)


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

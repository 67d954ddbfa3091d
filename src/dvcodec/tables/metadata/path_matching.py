"""Match the paths that vectors record with the data files of a snapshot: a moved table keeps its old paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dvcodec.core.errors import NotCanonical
from dvcodec.io.file_key import file_key
from dvcodec.tables.folder import Folder

_MOST_STEPS, _MOST_CHARACTERS = 16, 1024


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
        self._inside: dict[str, list[str]] = {}
        self._outside: dict[int, list[str]] = {}
        self._names: set[str] = set()

    def find(self, path: str) -> str | None:
        """Return the one data file whose path below the table's folder equals that of `path`.

        If the folder of one of them is unknown, it has to end in the other's path below the folder: at least one
        folder and the name. None without a match, with several, or if the path leaves the folder.
        """
        if not self._inside and not self._outside:
            self._index()
        if _name(path) not in self._names:  # thousands of vectors may name files that are gone
            return None
        try:
            below = self._folder.below(path)
        except NotCanonical:
            return None
        if below is not None:
            below = _plain(below)
            found = [*self._inside.get(below, ()), *self._ending(below)]
        else:
            key = file_key(path)
            found = self._ending(key)
            for tail in _tails(key):
                found += self._inside.get(tail, ())
        return found[0] if len(found) == 1 else None

    def _ending(self, tail: str) -> list[str]:
        """Return the data files outside the folder whose path is this, or ends in it."""
        return [known for known in self._outside.get(hash(tail), ()) if tail in _endings(known)]

    def _index(self) -> None:
        for known in self._paths:
            self._names.add(_name(known))
            below = self._folder.below(known)
            if below is not None:
                self._inside.setdefault(_plain(below), []).append(known)
            else:
                for tail in _endings(known):  # by their hashes: the texts may have a kilobyte each
                    self._outside.setdefault(hash(tail), []).append(known)


def _name(path: str) -> str:
    return file_key(path).rpartition("/")[2]


def _endings(path: str) -> tuple[str, ...]:
    key = file_key(path)
    return key, *_tails(key)


def _plain(below: str) -> str:
    """Drop repeated slashes, which `Folder.below` keeps for opening."""
    return file_key(below).lstrip("/")


def _tails(key: str) -> Iterator[str]:
    """Yield the suffixes of a path that may be a path below a table's folder: at least one folder and the name.

    Those of more steps or characters than any table has are left out, for there may be thousands.
    """
    steps = key.rsplit("/", _MOST_STEPS)
    for first in range(1, len(steps) - 1):
        if steps[first]:
            tail = "/".join(steps[first:])
            if len(tail) <= _MOST_CHARACTERS:
                yield tail

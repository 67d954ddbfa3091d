"""Which data file a stale path means: tables that were moved keep the old paths inside their vector files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dvcodec.core.errors import NotCanonical
from dvcodec.io.file_key import file_key
from dvcodec.tables.folder import Folder

__all__ = ["Namesakes"]


class Namesakes:
    """The data files of a snapshot, by what stale paths still have in common with them.

    A table that was moved has another root: everything below it, folders of partitions too, is as it was. Engines give
    files of different partitions, and of different tables, the same bare names: these mean nothing.

    >>> files = Namesakes(Folder("/new/t"), ["/new/t/data/p=1/a.parquet", "/new/t/data/p=2/a.parquet"])
    >>> files.find("s3://old/t/data/p=2/a.parquet"), files.find("s3://old/t/data/p=3/a.parquet")
    ('/new/t/data/p=2/a.parquet', None)
    """

    def __init__(self, folder: Folder, paths: Iterable[str]) -> None:
        self._folder = folder
        self._paths = paths
        self._inside: dict[str, list[str]] = {}
        self._outside: dict[str, list[str]] = {}

    def find(self, path: str) -> str | None:
        """Return the one data file that `path` means: from the table's folder on, both are the same.

        Where the folder is not known of one of them, that one ends in the other's path below the folder, which is at
        least a folder and a name. None if there is none, or several, or if the path climbs out of the folder.
        """
        if not self._inside and not self._outside:
            self._index()
        try:
            below = self._folder.below(path)
        except NotCanonical:
            return None
        if below is not None:
            below = _plain(below)
            found = [*self._inside.get(below, ()), *self._outside.get(below, ())]
        else:
            key = file_key(path)
            found = list(self._outside.get(key, ()))
            for tail in _tails(key):
                found += self._inside.get(tail, ())
        return found[0] if len(found) == 1 else None

    def _index(self) -> None:
        for known in self._paths:
            below = self._folder.below(known)
            if below is not None:
                self._inside.setdefault(_plain(below), []).append(known)
            else:
                key = file_key(known)
                for tail in (key, *_tails(key)):
                    self._outside.setdefault(tail, []).append(known)


def _plain(below: str) -> str:
    """Drop slashes that follow another, which `Folder.below` keeps for opening."""
    return file_key(below).lstrip("/")


def _tails(key: str) -> Iterator[str]:
    """Yield how a path elsewhere may go on from a table's folder: whole steps, a folder and a name at least."""
    steps = key.split("/")
    for first in range(1, len(steps) - 1):
        if steps[first]:
            yield "/".join(steps[first:])

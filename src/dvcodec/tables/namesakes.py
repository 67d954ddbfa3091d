"""Which data file a stale path means: tables that were moved keep the old paths inside their vector files."""

from __future__ import annotations

from collections.abc import Iterable

from dvcodec.io.paths import same_key
from dvcodec.tables.folder import Folder

__all__ = ["Namesakes"]


class Namesakes:
    """The data files of a snapshot, by what stale paths still have in common with them.

    >>> files = Namesakes(Folder("/new/t"), ["/new/t/p=1/a.parquet", "/new/t/p=2/a.parquet"])
    >>> files.find("s3://old/t/p=2/a.parquet"), files.find("s3://old/t/p=3/a.parquet")
    ('/new/t/p=2/a.parquet', None)
    """

    def __init__(self, folder: Folder, paths: Iterable[str]) -> None:
        self._folder = folder
        self._paths = paths
        self._by_name: dict[str, list[tuple[str, list[str]]]] = {}

    def find(self, path: str) -> str | None:
        """Return the one data file whose path ends like `path`: in the same name, and in more folders than any other.

        None if there is none, or several that are as near.
        """
        if not self._by_name:
            for known in self._paths:
                steps = self._steps(known)
                self._by_name.setdefault(steps[0], []).append((known, steps))
        wanted = self._steps(path)
        near = [(_shared(steps, wanted), known) for known, steps in self._by_name.get(wanted[0], [])]
        best = max((shared for shared, _ in near), default=0)
        found = [known for shared, known in near if shared == best]
        return found[0] if len(found) == 1 else None

    def _steps(self, path: str) -> list[str]:
        """Take a path apart, the bare name first."""
        return same_key(self._folder.below(path) or path).split("/")[::-1]


def _shared(some: list[str], others: list[str]) -> int:
    for count, (a, b) in enumerate(zip(some, others, strict=False)):
        if a != b:
            return count
    return min(len(some), len(others))

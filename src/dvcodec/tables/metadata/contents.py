"""The data files that differ between a snapshot and the next one, where a format says what is gone and what is new."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeAlias, TypeVar

__all__ = ["Contents", "Key"]

Item = TypeVar("Item")
Key: TypeAlias = tuple[Hashable, Hashable]
"""The data file that something is of, None if it names none, and its own identity."""


class Contents(Generic[Item]):
    """What a snapshot records of data files and vectors.

    Attributes:
        items: each by the data file that it is of, None if it names none, and by its own identity.
    """

    def __init__(self, items: Mapping[Key, Item]) -> None:
        self.items: dict[Key, Item] = {}
        self._of_file: dict[Hashable, dict[Key, None]] = {}
        self._add(items)

    def step(self, gone: Mapping[Key, Item], new: Mapping[Key, Item]) -> tuple[list[Item], list[Item]]:
        """Take out and put in items; those that come again in the same form are no change.

        Returns:
            All items of the data files that change: before, and now.
        """
        changed = [key for key in gone if key not in new]
        changed += [key for key, item in new.items() if key not in gone or gone[key] != item]
        files = dict.fromkeys(file for file, _ in changed if file is not None)
        before = self.of(files)
        for key in gone:
            if self.items.pop(key, None) is not None:
                left = self._of_file[key[0]]
                del left[key]
                if not left:
                    del self._of_file[key[0]]
        self._add(new)
        return before, self.of(files)

    def of(self, files: Iterable[Hashable]) -> list[Item]:
        """Return the items of data files."""
        return [self.items[key] for file in files for key in self._of_file.get(file, ())]

    def _add(self, items: Mapping[Key, Item]) -> None:
        self.items.update(items)
        for key in items:
            self._of_file.setdefault(key[0], {})[key] = None

"""The files of a snapshot by the data file that they are of, kept from snapshot to snapshot in columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import count

import numpy as np

from dvcodec.tables.iceberg.entries import DataFiles, Deletes, ManifestFiles
from dvcodec.tables.iceberg.manifests import Manifest
from dvcodec.tables.iceberg.plan import repeated

_BITS = 32
"""A file is known by the number of its manifest, shifted by so many bits, and its place there."""
_PLACE = (1 << _BITS) - 1


class WalkedFiles:
    """The files of a snapshot. To go to another one costs what differs.

    Attributes:
        parts: by manifest.

    Args:
        parts: by manifest.
    """

    def __init__(self, parts: Mapping[Manifest, ManifestFiles]) -> None:
        self.parts: dict[Manifest, ManifestFiles] = {}
        self._plain = True
        self._next = count()
        self._numbers: dict[Manifest, int] = {}
        self._numbered: dict[int, ManifestFiles] = {}
        self._data: dict[str, int] = {}
        self._deletes: dict[str | None, list[int]] = {}
        touched = set[str | None]()
        for manifest, part in parts.items():
            touched |= self._put_in(manifest, part, "")
        self._check(touched)

    def are_plain(self) -> bool:
        """Return whether all position deletes name a data file of the snapshot."""
        return self._plain

    def change(
        self, gone: Mapping[Manifest, ManifestFiles], new: Mapping[Manifest, ManifestFiles], source: str
    ) -> tuple[list[ManifestFiles], list[ManifestFiles]]:
        """Take manifests out, and put others in.

        Args:
            gone: some of `parts`.
            new: others.
            source: lists them, for errors.

        Returns:
            All files of the data files that change: before, and now. Files that come again in the same form are no
            change.

        Raises:
            NotCanonical: a data file is there twice.
        """
        changed = {path for path, *_ in _compared(gone.values()) ^ _compared(new.values())}
        before = self._of(changed)
        touched = set[str | None]()
        for manifest, part in gone.items():
            touched |= self._take_out(manifest, part)
        for manifest, part in new.items():
            touched |= self._put_in(manifest, part, source)
        self._check(touched)
        return before, self._of(changed)

    def _check(self, paths: set[str | None]) -> None:
        self._plain = all(map(self._has_vectors_alone, paths - self._data.keys()))

    def _take_out(self, manifest: Manifest, part: ManifestFiles) -> set[str | None]:
        """Return the data files that its files are of."""
        del self.parts[manifest]
        number = self._numbers.pop(manifest)
        del self._numbered[number]
        paths = set(part.paths)
        if isinstance(part, DataFiles):
            for path in part.entries.paths:
                del self._data[path]
            return paths
        for named in paths:
            left = [one for one in self._deletes.pop(named) if one >> _BITS != number]
            if left:
                self._deletes[named] = left
        return paths

    def _put_in(self, manifest: Manifest, part: ManifestFiles, source: str) -> set[str | None]:
        """Return the data files that its position deletes are of."""
        self.parts[manifest] = part
        number = self._numbers[manifest] = next(self._next)
        self._numbered[number] = part
        places = range(number << _BITS, (number << _BITS) + len(part))
        if isinstance(part, DataFiles):
            known = len(self._data)
            self._data.update(zip(part.entries.paths, places, strict=True))
            if len(self._data) < known + len(part):
                raise repeated(self._twice(part.entries.paths), source)
            return set()
        for path, place in zip(part.paths, places, strict=True):
            self._deletes.setdefault(path, []).append(place)
        return {part.paths[number] for number in np.flatnonzero(~part.bitmaps).tolist()}

    def _twice(self, paths: Sequence[str]) -> str:
        """Return the first of paths that manifests have more than once."""
        parts = (part for part in self.parts.values() if isinstance(part, DataFiles))
        counts = Counter(path for part in parts for path in part.entries.paths)
        return next(path for path in paths if counts[path] > 1)

    def _of(self, paths: Iterable[Hashable]) -> list[ManifestFiles]:
        """Return the files that are of data files, in the order of the manifests."""
        named = [path for path in paths if isinstance(path, str)]
        found = [self._data[path] for path in named if path in self._data]
        found += [one for path in named for one in self._deletes.get(path, ())]
        places = np.sort(np.array(found, np.int64))
        numbers, firsts = np.unique(places >> _BITS, return_index=True)
        groups = np.split(places & _PLACE, firsts[1:]) if found else []
        return [self._numbered[number].take(group) for number, group in zip(numbers.tolist(), groups, strict=True)]

    def _has_vectors_alone(self, path: str | None) -> bool:
        """Whether there are no position deletes of a data file, or of those that name none."""
        of_path = [(self._numbered[one >> _BITS], one & _PLACE) for one in self._deletes.get(path, ())]
        return all(part.bitmaps[place] for part, place in of_path if isinstance(part, Deletes))


def _compared(parts: Iterable[ManifestFiles]) -> set[tuple[Hashable, ...]]:
    return set[tuple[Hashable, ...]]().union(*(part.compared() for part in parts))

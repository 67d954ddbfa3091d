"""The snapshots of a table one after another, each by the manifests that only it or the one before it lists."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

from dvcodec.core.errors import NotCanonical
from dvcodec.tables.iceberg.manifests import ListedFile, Manifest
from dvcodec.tables.iceberg.plan import Plan
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector

__all__ = ["ManifestWalk"]

ReadEntries: TypeAlias = Callable[[Iterable[Manifest]], Iterable[ListedFile]]
Vectors: TypeAlias = dict[Hashable, DeletionVector]


class ManifestWalk:
    """Goes from snapshot to snapshot. A step reads the manifests that are not in both.

    Position deletes that name no data file, or one by another scheme, may be for any data file: a snapshot with such
    deletes is not walked to.

    Args:
        snapshot_id: of the snapshot where the walk starts.
        plan: its contents.
        manifests: what it lists.
        entries: returns the live files of manifests.

    Attributes:
        snapshot_id: the snapshot that it is at.
    """

    def __init__(self, snapshot_id: int, plan: Plan, manifests: Sequence[Manifest], entries: ReadEntries) -> None:
        self.snapshot_id = snapshot_id
        self._entries = entries
        self._manifests = dict.fromkeys(manifests)
        self._files = dict(plan.data)
        self._vectors: dict[str | None, Vectors] = {}
        for one in plan.vectors:
            self._vectors.setdefault(one.data_file, {})[_key(one)] = one
        plain = all(self._is_plain(path, found.values()) for path, found in self._vectors.items())
        self._plain = plain and not plan.respelled

    def step(
        self, snapshot_id: int, manifests: Sequence[Manifest], source: str
    ) -> tuple[list[ListedFile], list[ListedFile]] | None:
        """Go to a snapshot.

        Args:
            snapshot_id: of the snapshot.
            manifests: what it lists.
            source: the list, for errors.

        Returns:
            The data files that are only in the snapshot of before or in this one, or that have other vectors, with all
            their vectors: as they were, and as they are. Equality deletes only of manifests that are not in both. None
            if it is not walked to, which ends the walk.

        Raises:
            DecodeError: a manifest is corrupt.
            OSError: it cannot be read.
        """
        if not self._plain:
            return None
        now = dict.fromkeys(manifests)
        gone_files, gone_vectors, gone_others = self._read([one for one in self._manifests if one not in now], source)
        more = [one for one in manifests if one not in self._manifests]
        new_files, new_vectors, new_others = self._read(more, source)
        for path in new_files:
            if path in self._files and path not in gone_files:
                raise _twice(path, source)
        paths = dict.fromkeys(path for path in gone_files if path not in new_files)
        paths.update((path, None) for path in new_files if path not in gone_files)
        changed = [*_without(gone_vectors, new_vectors), *_without(new_vectors, gone_vectors)]
        paths.update((one.data_file, None) for one in changed if one.data_file is not None)
        before = self._part(paths)
        for path in gone_files:
            del self._files[path]
        self._files |= new_files
        for key, one in gone_vectors.items():
            self._vectors[one.data_file].pop(key, None)
        for key, one in new_vectors.items():
            self._vectors.setdefault(one.data_file, {})[key] = one
        named = self._vectors.keys() & {one.data_file for one in new_vectors.values()}.union(gone_files)
        self._plain = all(self._is_plain(path, self._vectors[path].values()) for path in named)
        self._manifests, self.snapshot_id = now, snapshot_id
        return (before + gone_others, self._part(paths) + new_others) if self._plain else None

    def _read(
        self, manifests: Sequence[Manifest], source: str
    ) -> tuple[dict[str, DataFile], Vectors, list[ListedFile]]:
        files: dict[str, DataFile] = {}
        vectors: Vectors = {}
        others: list[ListedFile] = []
        for one in self._entries(manifests):
            if isinstance(one, DataFile):
                if one.path in files:
                    raise _twice(one.path, source)
                files[one.path] = one
            elif isinstance(one, DeletionVector):
                vectors[_key(one)] = one
            else:
                others.append(one)
        return files, vectors, others

    def _part(self, paths: Iterable[str]) -> list[ListedFile]:
        found: list[ListedFile] = []
        for path in paths:
            if path in self._files:
                found.append(self._files[path])
            if path in self._vectors:
                found += self._vectors[path].values()
        return found

    def _is_plain(self, path: str | None, vectors: Collection[DeletionVector]) -> bool:
        return path in self._files or all(one.format != POSITION_DELETES for one in vectors)


def _key(one: DeletionVector) -> Hashable:
    return one.format, one.path, one.offset, one.size, one.cardinality, one.data_file, one.sequence_number


def _without(vectors: Mapping[Hashable, DeletionVector], others: Mapping[Hashable, object]) -> list[DeletionVector]:
    return [one for key, one in vectors.items() if key not in others]


def _twice(path: str, source: str) -> NotCanonical:
    return NotCanonical("manifests", source=source, expected="each data file once", actual=f"{path} twice")

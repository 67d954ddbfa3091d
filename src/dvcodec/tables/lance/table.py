"""Lance datasets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.io.parallel import run_bounded
from dvcodec.lance import Fragment, Manifest, read_manifest, read_operation
from dvcodec.lance.manifest import manifest_names
from dvcodec.tables.deleting import WritableTable
from dvcodec.tables.folder import Folder
from dvcodec.tables.lance.files import TRANSACTIONS, VERSIONS, data_file_place, deletion_file_place, needed
from dvcodec.tables.lance.snapshot import DeletionRecord, FragmentRecord, LanceSnapshot
from dvcodec.tables.model import DataFile, DeletionVector, SnapshotInfo, TableKind, refuse_twins
from dvcodec.tables.snapshots.older import checks_snapshot

__all__ = ["KNOWN_FLAGS", "LanceTable", "open"]

KNOWN_FLAGS = 1 | 2 | 4 | 8 | 16 | 32 | 64 | 128 | 2048
"""Features that a reader has to support: deletion files, stable row ids, the v2 format, table config, base paths, no
transaction files, overlays, covering indices, spilled row ids. Only deletion files and base paths matter for deleted
rows."""


def open(location: Folder | str | os.PathLike[str]) -> LanceTable:  # noqa: A001  (every kind of table has one)
    """Open a dataset by its folder, or a branch by its own.

    Args:
        location: the `Folder`; or its path or URL, if it needs no storage options.

    Raises:
        UsageError: there is no version.
        OSError: the folder cannot be read.
    """
    folder = Folder.of(location)
    table = LanceTable(folder)
    table.manifests()
    return table


class LanceTable(WritableTable):
    """A Lance dataset; see `Table`."""

    kind = TableKind.LANCE

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def manifests(self) -> Mapping[int, str]:
        """Return the locations of the manifests by version, ascending; detached versions are omitted.

        Raises:
            UsageError: there is none.
            NotCanonical: two of one version.
        """
        named = manifest_names(self.folder.names(VERSIONS), f"{self.location}/{VERSIONS}")
        found = {version: self.folder.join(f"{VERSIONS}/{name}") for version, name in named.items()}
        if not found:
            raise UsageError(f"{self.location}: no version of a Lance dataset in {VERSIONS}")
        return dict(sorted(found.items()))

    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """Return the versions, oldest first. The parent is the version before, if it still exists.

        Raises:
            UsageError: there is none.
            DecodeError: a manifest is corrupt.
            OSError: it cannot be read.
        """
        manifests = self.manifests()

        def info(item: tuple[int, str]) -> SnapshotInfo:
            return self._info(_read(self.folder, item[1], item[0]), item[1], manifests)

        return tuple(run_bounded(info, manifests.items(), self.folder.storage.readers(self.location)))

    @checks_snapshot
    def snapshot(self, id: int | None = None) -> LanceSnapshot:  # noqa: A002
        """Return a version; see `Table.snapshot`.

        Raises:
            UsageError: there is no such version.
            DecodeError: its manifest is corrupt.
            Unsupported: it has an unknown feature, or names a file that metadata must not reference.
            OSError: it cannot be read.
        """
        return self._snapshot(id, self.manifests())

    def older_ids(self) -> Iterator[int]:
        """Yield the versions before the current one; see `Table.older_ids`."""
        yield from list(self.manifests())[-2::-1]

    def opener(self) -> Callable[[int], LanceSnapshot]:
        """Return what opens versions; see `Table.opener`. The folder of manifests is listed once."""
        manifests = self.manifests()
        return lambda id_: self._snapshot(id_, manifests)

    def _snapshot(self, id: int | None, manifests: Mapping[int, str]) -> LanceSnapshot:  # noqa: A002
        version = max(manifests) if id is None else id
        if version not in manifests:
            raise UsageError(f"{self.location}: no version {version}")
        location = manifests[version]
        manifest = _read(self.folder, location, version)
        data_files = [_data_file(self.folder, fragment, manifest, location) for fragment in manifest.fragments]
        refuse_twins((fragment.id for fragment in manifest.fragments), "fragments of one id", location)
        refuse_twins((file.path for file in data_files), "fragments of one data file", location)
        vectors = tuple(_vectors(self.folder, data_files, manifest, location))
        return LanceSnapshot(self, self._info(manifest, location, manifests), tuple(data_files), vectors)

    def referenced(self) -> frozenset[str]:
        """Return the locations of all files that a version, a detached version or a branch needs.

        Data files, deletion files and transactions are those that manifests name. Everything else below the folder
        (manifests, tags and branches, indices, write-ahead logs) counts as referenced: whether it is still needed is
        not checked.
        """
        return needed(self.folder, self.stored_files())

    def _info(self, manifest: Manifest, location: str, manifests: Mapping[int, str]) -> SnapshotInfo:
        operation = None
        if manifest.transaction_offset is not None:
            operation = read_operation(location, manifest.transaction_offset, storage_options=self.folder.storage)
        elif manifest.transaction_file:
            with suppress(FileNotFoundError):  # committed versions do not need it
                place = self.folder.locate(f"{TRANSACTIONS}/{manifest.transaction_file}")
                operation = read_operation(place, storage_options=self.folder.storage)
        before = manifest.version - 1
        return SnapshotInfo(manifest.version, manifest.timestamp_ms, operation, before if before in manifests else None)


def _read(folder: Folder, location: str, version: int) -> Manifest:
    """Read the manifest of a version.

    Raises:
        Unsupported: it uses an unknown feature.
        NotCanonical: its version is not the one in its name.
    """
    with folder.storage.open(location) as source:
        manifest = read_manifest(source, limits=folder.storage.limits)
    if manifest.version != version:
        raise NotCanonical("version", source=location, expected=f"{version} (its name)", actual=manifest.version)
    if manifest.reader_flags & ~KNOWN_FLAGS:
        raise Unsupported(
            "features that a reader has to know",
            source=location,
            expected=f"no others than those of {KNOWN_FLAGS:#x}",
            actual=f"{manifest.reader_flags:#x}",
        )
    return manifest


def _data_file(folder: Folder, fragment: Fragment, manifest: Manifest, source: str) -> DataFile:
    files = (*fragment.files, *fragment.overlays)
    if not fragment.files:
        raise NotCanonical(f"fragment {fragment.id}", source=source, expected="a data file", actual="none")
    places = [data_file_place(folder, file, manifest, source) for file in files]
    return DataFile(
        *places[0],
        physical_rows=fragment.physical_rows or None,
        size=sum(file.size for file in files) if all(file.size for file in files) else None,
        files=tuple(place.path for place in places),
        record=FragmentRecord(fragment.id, len(fragment.overlays)),
    )


def _vectors(
    folder: Folder, data_files: Iterable[DataFile], manifest: Manifest, source: str
) -> Iterator[DeletionVector]:
    for fragment, data_file in zip(manifest.fragments, data_files, strict=True):
        file = fragment.deletion_file
        if file is not None:
            yield DeletionVector(
                "lance",
                data_file.path,
                *deletion_file_place(folder, file, manifest, source),
                cardinality=file.num_deleted_rows or None,
                record=DeletionRecord(file, data_file.physical_rows),
            )

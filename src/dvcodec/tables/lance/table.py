"""Lance datasets: their versions, where their files are, and which of these are needed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.io import Listed as StoredFile
from dvcodec.io import is_url
from dvcodec.io.allowed_locations import check_reach
from dvcodec.io.parallel import run_bounded
from dvcodec.io.target import join, split
from dvcodec.lance import (
    BasePath,
    DeletionFile,
    Fragment,
    FragmentFile,
    Manifest,
    manifest_version,
    read_manifest,
    read_operation,
)
from dvcodec.lance.manifest import manifest_names
from dvcodec.tables.deleting import WritableTable
from dvcodec.tables.folder import Folder
from dvcodec.tables.lance.snapshot import DeletionRecord, FragmentRecord, LanceSnapshot
from dvcodec.tables.model import DataFile, DeletionVector, SnapshotInfo, TableKind, refuse_twins
from dvcodec.tables.snapshots.older import checks_snapshot

VERSIONS, DATA, DELETIONS, TRANSACTIONS, BRANCHES = "_versions", "data", "_deletions", "_transactions", "tree"
_BRANCH_NAMES = "_refs/branches"
_LISTED = frozenset({DATA, DELETIONS, TRANSACTIONS})
"""Folders whose files manifests name individually."""
_DETACHED = re.compile(r"d[0-9]{1,20}\.manifest")
_DATA_SUFFIX = ".lance"


class FileLocation(NamedTuple):
    """A file of a dataset: its path below the dataset's folder, or its location if outside; and where to open it."""

    path: str
    location: str


def data_file_place(folder: Folder, file: FragmentFile, manifest: Manifest, source: str) -> FileLocation:
    """Return where a data file is stored.

    Raises:
        NotCanonical: its path is invalid, or its base path is not in the manifest.
        Unsupported: its base path is not absolute, or one that metadata must not reference.
    """
    if not file.path or file.path.startswith("/") or is_url(file.path) or ".." in file.path.split("/"):
        raise NotCanonical("path of a data file", source=source, expected="a relative path", actual=repr(file.path))
    base = _base(folder, file.base_id, manifest, source)
    if base is None:
        return FileLocation(f"{DATA}/{file.path}", folder.join(f"{DATA}/{file.path}"))
    path = join(base.path, f"{DATA}/{file.path}" if base.is_dataset_root else file.path)
    return FileLocation(path, folder.locate(path))


def deletion_file_place(folder: Folder, file: DeletionFile, manifest: Manifest, source: str) -> FileLocation:
    """Return where a deletion file is stored.

    Raises:
        NotCanonical, Unsupported: as `data_file_place`; or a base path that is not the folder of a dataset.
    """
    base = _base(folder, file.base_id, manifest, source)
    if base is None:
        path = file.path("").lstrip("/")
        return FileLocation(path, folder.join(path))
    if not base.is_dataset_root:
        what = f"base path of the deletion file of fragment {file.fragment}"
        raise NotCanonical(what, source=source, expected="the folder of a dataset", actual=base.path)
    path = file.path(base.path)
    return FileLocation(path, folder.locate(path))


def _base(folder: Folder, base_id: int | None, manifest: Manifest, source: str) -> BasePath | None:
    if base_id is None:
        return None
    base = manifest.base_paths.get(base_id)
    if base is None:
        known = ", ".join(map(str, manifest.base_paths)) or "none"
        raise NotCanonical("base path", source=source, expected=f"one of the manifest's: {known}", actual=base_id)
    if not is_url(base.path) and not base.path.startswith("/"):
        raise Unsupported("base path", source=source, expected="an absolute path or a URL", actual=repr(base.path))
    check_reach(base.path, folder.location, folder.allow)
    return base


def needed(folder: Folder, stored: Iterable[StoredFile]) -> frozenset[str]:
    """Return the locations of the files that a dataset needs; see `LanceTable.referenced`.

    Raises:
        DecodeError: a manifest is corrupt.
    """
    branches = [unquote(name.removesuffix(".json")) for name in folder.names(_BRANCH_NAMES)]
    prefixes = [f"{BRANCHES}/{branch}/" for branch in sorted(branches, key=len, reverse=True)]
    found = set(_named(folder))
    # Names that are encoded differently may be one folder.
    for branch_folder in dict.fromkeys(folder.inner(prefix.rstrip("/")) for prefix in prefixes):
        for location in _named(branch_folder):
            found.add(location)
            found.update(folder.join(below) for below in _belows(location))
    # Blobs that are too large for a data file are stored in a folder with its name.
    blob_folders = {location.removesuffix(_DATA_SUFFIX) for location in found if location.endswith(_DATA_SUFFIX)}
    known = set(prefixes)
    for file in stored:
        below = file.location[len(folder.location) :].lstrip("/")
        prefix = next((start for start in _starts(below) if start in known), "")
        if below[len(prefix) :].partition("/")[0] not in _LISTED or split(file.location)[0] in blob_folders:
            found.add(file.location)
    return frozenset(found)


def _starts(below: str) -> Iterator[str]:
    """Yield a path's folders, the longest first, each with its slash."""
    end = below.rfind("/")
    while end > 0:
        yield below[: end + 1]
        end = below.rfind("/", 0, end)


def _named(folder: Folder) -> Iterator[str]:
    """Return the files that the manifests of a dataset, or of a branch, name."""
    names = folder.names(VERSIONS)
    known = (name for name in names if manifest_version(name) is not None or _DETACHED.fullmatch(name))

    def read(source: str) -> tuple[str, Manifest]:
        return source, read_manifest(source, limits=folder.storage.limits, storage_options=folder.storage)

    sources = (folder.join(f"{VERSIONS}/{name}") for name in known)
    for source, manifest in run_bounded(read, sources, folder.storage.readers(folder.location)):
        if manifest.transaction_file:
            yield folder.locate(f"{TRANSACTIONS}/{manifest.transaction_file}")
        for fragment in manifest.fragments:
            for file in (*fragment.files, *fragment.overlays):
                yield data_file_place(folder, file, manifest, source).location
            if fragment.deletion_file is not None:
                yield deletion_file_place(folder, fragment.deletion_file, manifest, source).location


def _belows(location: str) -> Iterator[str]:
    """Return the paths that a location may have relative to its dataset's folder.

    Branches record the dataset's folder, and go on recording it when the dataset is moved.
    """
    for part in (DATA, DELETIONS, BRANCHES):
        at = location.rfind(f"/{part}/")
        if at >= 0:
            yield location[at + 1 :]


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

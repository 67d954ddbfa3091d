"""Locations of the files of a Lance dataset, and which of them are needed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.io import is_url
from dvcodec.io.allowed_locations import check_reach
from dvcodec.io.parallel import run_bounded
from dvcodec.io.target import join, split
from dvcodec.lance import BasePath, DeletionFile, FragmentFile, Manifest, manifest_version, read_manifest
from dvcodec.tables.folder import Folder, StoredFile

__all__ = ["TRANSACTIONS", "VERSIONS", "FileLocation", "data_file_place", "deletion_file_place", "needed"]

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

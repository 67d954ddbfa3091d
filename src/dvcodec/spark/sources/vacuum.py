"""Removal of files that killed jobs left."""

from __future__ import annotations

import re
import time
from datetime import timedelta

from dvcodec.io import Storage, StorageOptions, storage_of
from dvcodec.io.paths import join
from dvcodec.spark.sources import storage
from dvcodec.spark.sources.manifest import STAGING, committed_in, job_of, journal_of

__all__ = ["vacuum"]

_STAGING = re.compile(re.escape(STAGING) + "([0-9a-f]{32})")
_PUFFIN = re.compile(r"([0-9a-f]{32})-\d{5,}-\d+-\d+\.puffin")
_PARTIAL = re.compile(r"\._manifest-[0-9a-f]{32}\.[^/]*\.partial")


def vacuum(
    path: str, older_than: timedelta = timedelta(days=1), *, storage_options: StorageOptions = None
) -> list[str]:
    """Remove the files of writes that were killed, or whose manifest was removed.

    These are: staging folders, containers that a commit moved but no manifest names, unfinished manifests, and Puffin
    files with the name of our writes that no manifest names. Other files are kept: engines use the same names for
    Delta and Paimon containers.

    Args:
        path: the folder that was written to (not its subfolders).
        older_than: files modified since are kept, because their job may be running.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The removed paths, sorted.

    Raises:
        NotCanonical: a manifest is corrupt.
        OSError: a file could not be removed.
    """
    stores = Storage(storage_of(storage_options).options)  # a new one, without cached listings
    names = sorted(storage.names(path, stores))
    jobs = {job for job in map(job_of, names) if job}
    kept = set(committed_in(path, names, stores).containers)
    removed: list[str] = []

    def remove(name: str) -> None:
        storage.remove_file(join(path, name), stores)
        removed.append(join(path, name))

    for name in names:
        staging = _STAGING.fullmatch(name)
        folder = join(path, name)
        if staging and _is_old(folder, older_than, stores):
            if staging[1] not in jobs:
                for container in set(journal_of(folder, stores)).intersection(names) - kept:
                    remove(container)
            storage.remove_folder(folder, stores)
            removed.append(folder)
    now = storage.names(path, Storage(stores.options))
    running = {match[1] for match in map(_STAGING.fullmatch, now) if match}
    for name in names:
        ours = _PUFFIN.fullmatch(name)
        orphan = ours is not None and ours[1] not in running and name not in kept
        file = join(path, name)
        if (orphan or _PARTIAL.fullmatch(name)) and file not in removed and _is_old(file, older_than, stores):
            remove(name)
    return sorted(removed)


def _is_old(path: str, older_than: timedelta, stores: Storage) -> bool:
    """Whether a file, or a folder and its contents, was last modified that long ago; False if unknown."""
    latest = storage.modified(path, stores)
    return latest is not None and time.time() - latest >= older_than.total_seconds()

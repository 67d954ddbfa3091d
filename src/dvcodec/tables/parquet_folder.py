"""Parquet files in a folder that is not a table."""

from __future__ import annotations

import os
from pathlib import Path

from dvcodec.core.errors import UsageError
from dvcodec.io import Listed, Storage
from dvcodec.io.target import local_path

__all__ = ["list_parquet"]


def list_parquet(folder: str, storage: Storage) -> list[Listed]:
    """List the files that Spark reads from a folder of Parquet files, and from folders in it, in order.

    These are all files, whatever their names (Hive's have no suffix), except hidden ones (Spark's
    ``HadoopFSUtils.shouldFilterOutPathName``): what a write has not committed yet is in ``_temporary``. Empty
    files are skipped, too, because they mark folders in a store; not those named ``*.parquet``, which are corrupt.

    Args:
        folder: path or URL without a slash at its end.
        storage: lists it.

    Raises:
        UsageError: a folder in it is a link, whose files would be left out.
        OSError: it cannot be listed.
    """
    _refuse_links(folder)
    below = len(folder) + 1
    seen = (file for file in storage.walk(folder) if not any(map(_is_hidden, file.location[below:].split("/"))))
    files = (file for file in seen if file.size or file.location.endswith(".parquet"))
    return sorted(files, key=lambda file: file.location)


def _is_hidden(name: str) -> bool:
    """Whether Spark skips a file or folder of this name.

    >>> [_is_hidden(name) for name in ("_temporary", "_year=2024", ".part-0.crc", "part-0", "part-0._COPYING_")]
    [True, False, True, False, True]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _refuse_links(folder: str) -> None:
    local = local_path(folder)
    if local is None:
        return
    for here, folders, _ in os.walk(local):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        for name in folders:
            if (link := Path(here, name)).is_symlink():
                raise UsageError(f"{link}: a link to a folder, and links are not followed")

"""Errors about files outside a table's folder do not show what is in the files.

Metadata may reference any local file that the process can read, and so may a symbolic link in the folder. A decoder's
error names the bytes that it found: read as a vector at offset 0, 4, 8, a password file would be shown four bytes at a
time. So such an error keeps what was wrong and where, but no value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dvcodec.core.errors import CardinalityMismatch, DecodeError, UsageError
from dvcodec.io.file_key import path_below
from dvcodec.io.target import local_path

__all__ = ["HIDDEN", "ask_once", "hide_values", "is_outside"]

HIDDEN = "something else (values are not shown: the file is outside the table's folder)"
"""The value found, in an error about a file outside the table's folder."""


def is_outside(location: str, folder: str) -> bool:
    """Whether a file is outside a folder, after symbolic links of local paths are resolved.

    >>> is_outside("s3://lake/t/a", "s3://lake/t"), is_outside("s3://lake/t2/a", "s3://lake/t")
    (False, True)
    """
    try:
        file, home = local_path(location), local_path(folder)
    except UsageError:
        return True
    if file is None or home is None:
        return path_below(location, folder) is None
    real, root = os.path.realpath(file), os.path.realpath(home)
    return not real.startswith(root if root.endswith(os.sep) else root + os.sep)


class hide_values:  # noqa: N801  (used like a function; a class for the reason of `enough_memory`)
    """Remove the values from errors in the block, if the file is outside the folder.

    The number of rows in a valid vector or data file is kept: no other file has one.

    Args:
        location: path or URL of the file that the block reads.
        folder: path or URL of the table's folder; None if there is no table.

    The error is changed in place: a table may have 100,000 vectors outside its folder, each with an error.
    """

    __slots__ = ("_folder", "_location")

    def __init__(self, location: str, folder: str | None) -> None:
        self._location, self._folder = location, folder

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Remove the values from the error, which goes on."""
        if not isinstance(error, DecodeError) or isinstance(error, CardinalityMismatch) or error.actual is HIDDEN:
            return
        if self._folder is not None and _is_outside(self._location, self._folder):
            error.hide(HIDDEN)


_KNOWN: ContextVar[dict[tuple[str, str], bool] | None] = ContextVar("files known to be outside or not", default=None)


@contextmanager
def ask_once() -> Iterator[None]:
    """Resolve the links of a file once within the block, in which it stays open: that takes longer than most reads."""
    token = _KNOWN.set({})
    try:
        yield
    finally:
        _KNOWN.reset(token)


def _is_outside(location: str, folder: str) -> bool:
    known = _KNOWN.get()
    if known is None:
        return is_outside(location, folder)
    key = location, folder
    found = known.get(key)
    if found is None:
        found = known[key] = is_outside(location, folder)
    return found

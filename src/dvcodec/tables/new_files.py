"""Files that are written together: all of them, or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dvcodec.io import StorageOptions, remove

__all__ = ["new_files"]


@contextmanager
def new_files(storage_options: StorageOptions = None) -> Iterator[list[str]]:
    """Yield a list: the files that it names are removed if the block fails.

    Their names have to be nobody else's; a name stands there before its file is written.
    """
    written: list[str] = []
    try:
        yield written
    except BaseException:
        for path in written:
            remove(path, storage_options=storage_options)
        raise

"""New files: outside of the source table, and all of them written or none."""

from __future__ import annotations

import os
import posixpath
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from dvcodec.core.errors import UsageError
from dvcodec.delta.descriptor import new_file
from dvcodec.io import SinkTarget, StorageOptions, remove
from dvcodec.io.file_key import file_key
from dvcodec.io.target import join, local_path

__all__ = ["check_outside", "is_inside", "new_files", "vector_file"]


def check_outside(target: SinkTarget, table: str) -> None:
    """Refuse to write into a table: its own files could be replaced, and the next commit may not know the new ones.

    Args:
        target: the output: path, URL or open file. Open files are not checked.
        table: path or URL of the table's folder. Links and ``..`` are resolved, spellings compared by `file_key`.

    Raises:
        UsageError: it is the table's folder, or in it.
    """
    if is_inside(target, table):
        raise UsageError(f"{target}: expected an output outside of the table {table}, found one in the table")


def is_inside(target: SinkTarget, folder: str) -> bool:
    """Whether a path or URL is a folder, or in it; see `check_outside`."""
    if not isinstance(target, (str, os.PathLike)):
        return False
    root = _spellings(folder)[0].rstrip("/")
    return any(path == root or path.startswith(f"{root}/") for path in _spellings(target))


def _spellings(target: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the keys of a path: its target; for a local link, also the link itself."""
    local = local_path(target)
    if local is not None:
        there = os.path.join(os.path.realpath(local.parent), local.name)  # noqa: PTH118  (a Path would drop "..")
        return file_key(os.path.realpath(local)), file_key(os.path.normpath(there))
    scheme, _, rest = file_key(str(target)).partition("://")
    return (f"{scheme}://{posixpath.normpath(rest)}",)


def vector_file(folder: str, layout: str, number: int = 0) -> str:
    """Return the path of a new file of vectors, named as its format does.

    Args:
        folder: path or URL of its folder.
        layout: ``puffin``, ``delta``, ``paimon32`` or ``paimon64``.
        number: in the names of Paimon's files.
    """
    if layout == "puffin":
        return join(folder, f"{uuid.uuid4()}-deletes.puffin")
    return new_file(folder) if layout == "delta" else join(folder, f"index-{uuid.uuid4()}-{number}")


@contextmanager
def new_files(storage_options: StorageOptions = None) -> Iterator[list[str]]:
    """Yield a list; the files in it are removed if the block fails.

    Their names must be unique; a name is added before its file is written.
    """
    written: list[str] = []
    try:
        yield written
    except BaseException:
        for path in written:
            remove(path, storage_options=storage_options)
        raise

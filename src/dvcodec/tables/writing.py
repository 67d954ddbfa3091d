"""New files: all of them or none, and the one that commits them.

Delta, Paimon, Lance and Iceberg folders commit by creating a file that must not exist yet.
"""

from __future__ import annotations

import os
import posixpath
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from dvcodec.core.errors import CommitConflict, CommitUnknown, DecodeError, DvcodecError, UsageError
from dvcodec.core.interrupts import uninterrupted
from dvcodec.delta import new_file
from dvcodec.io import SinkTarget, Storage, StorageOptions
from dvcodec.io.opening import remove
from dvcodec.io.store import Reason, StoreError
from dvcodec.io.target import file_key, join, local_path
from dvcodec.tables.table import Table

_REFUSED = (
    *(Reason.DENIED, Reason.BAD_CREDENTIALS, Reason.EXPIRED, Reason.NO_BUCKET, Reason.NO_OBJECT),
    *(Reason.REGION, Reason.PLAIN_HTTP, Reason.CONFLICT),
)
"""Answers after which nothing was written. After any other failure it may have been, or may still be."""


def put_once(storage: Storage, location: str, data: bytes) -> None:
    """Create the file of a commit: of several writers, one succeeds.

    A file that exists with the same bytes is this commit: an earlier request was done, and its answer lost. So the
    bytes of two commits must differ.

    Raises:
        CommitConflict: another writer created it.
        CommitUnknown: the store did not answer, and does not have the file now: it may come later. Or it has the file,
            and whose it is could not be read.
        UsageError: the store cannot create a file exclusively.
        OSError: it cannot be written; nothing is committed.
    """
    storage.check_exclusive(location)
    try:
        storage.put_if_absent(location, data)
    except (FileExistsError, StoreError) as error:
        # An object that exists may be of an earlier request of this commit.
        is_unsure = isinstance(error, StoreError) and error.reason not in _REFUSED
        found = _stored(storage, location, len(data)) if is_unsure or isinstance(error, FileExistsError) else None
        if found == data:
            return
        if found is not None or (isinstance(error, FileExistsError) and not is_unsure):
            raise CommitConflict(f"{location}: another writer committed it first") from None
        if isinstance(error, FileExistsError):
            raise CommitUnknown(f"{location}: exists, and could not be read: {error}") from error
        if is_unsure:
            raise CommitUnknown(f"{location}: the store did not answer the commit: {error}") from error
        raise


@contextmanager
def refreshed(table: Table, dry_run: bool = False) -> Iterator[None]:
    """Refresh a table after the block, which commits to it; not after a dry run, or an error before the commit."""
    is_same = dry_run
    try:
        yield
    except (DvcodecError, OSError) as error:
        is_same |= not isinstance(error, (CommitConflict, CommitUnknown))
        raise
    finally:
        if not is_same:
            table.refresh()


@contextmanager
def committing(files: list[str]) -> Iterator[None]:
    """Hold Ctrl-C back while the block commits, and empty the list of new files if the commit is in, or may be.

    A second Ctrl-C interrupts it; see `uninterrupted`.

    Args:
        files: their locations; the caller removes those that are left after an error.
    """
    with uninterrupted():
        try:
            yield
        except (CommitConflict, DecodeError, UsageError, OSError):
            raise
        except BaseException:  # the commit may be in
            files.clear()
            raise
        files.clear()


@contextmanager
def removed_on_error(files: list[str], storage_options: StorageOptions = None) -> Iterator[None]:
    """Remove new files if the block, which prepares a commit, fails: nothing can have been committed yet.

    After the block, an unexpected error leaves that open, and the files are kept.

    Args:
        files: their locations; none are left in it after an error.
        storage_options: how to reach them.
    """
    try:
        yield
    except BaseException:
        while files:
            remove(files.pop(), storage_options=storage_options)
        raise


def _stored(storage: Storage, location: str, size: int) -> bytes | None:
    """Return a file's first bytes, one more than `size` at most; None if it is not there or cannot be read."""
    try:
        with storage.open(location) as source:
            return bytes(source.read(0, min(source.size, size + 1)))
    except OSError:
        return None


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
        layout: ``iceberg``, ``delta``, ``paimon32`` or ``paimon64``.
        number: in the names of Paimon's files.
    """
    if layout == "iceberg":
        return join(folder, f"{uuid.uuid4()}-deletes.puffin")
    return new_file(folder) if layout == "delta" else join(folder, f"index-{uuid.uuid4()}-{number}")


@contextmanager
def new_files(storage_options: StorageOptions = None) -> Iterator[list[str]]:
    """Yield a list; the files in it are removed if the block fails.

    Their names must be unique; a name is added before its file is written.
    """
    files: list[str] = []
    with removed_on_error(files, storage_options):
        yield files

"""Local files behind the interface of stores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dvcodec.io.sink import open_local_sink
from dvcodec.io.store.base import Fetched, Store, StoredObject
from dvcodec.io.target import with_slashes


class LocalStore(Store):
    """The local file system. Keys are paths.

    Its errors are the operating system's, not `StoreError`.
    """

    root = ""
    reports_size = True

    def url(self, key: str) -> str:
        """Return the path."""
        return key

    def get(self, key: str, start: int | None = None, stop: int | None = None, *, etag: str | None = None) -> Fetched:
        """Read a file or a byte range of it; see `Store.get`. A concurrent replacement is not detected."""
        del etag
        with Path(key).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            first = min(start or 0, size)
            file.seek(first)
            data = file.read(max(min(size if stop is None else stop, size) - first, 0))
        return Fetched(memoryview(data), first, StoredObject(key, size))

    def head(self, key: str) -> StoredObject:
        """Return the size of a file; see `Store.head`."""
        return _object(key, Path(key).stat())

    def list_all(self, folder: str = "") -> Iterator[StoredObject]:
        """Yield all files below a folder; links to folders are not followed. See `Store.list_all`."""
        top = folder or "."
        left = [top]
        while left:
            here = left.pop()
            try:
                entries = os.scandir(here)
            except FileNotFoundError:
                if here == top:
                    raise
                continue  # removed since it was listed
            with entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    elif (file := _file(entry)) is not None:
                        yield file

    def list_folder(self, folder: str = "") -> tuple[list[str], list[StoredObject]]:
        """Return the contents of a folder, without dangling links; see `Store.list_folder`."""
        with os.scandir(folder or ".") as entries:
            found = list(entries)
        files = [file for file in map(_file, found) if file is not None]
        return [entry.name for entry in found if entry.is_dir()], files

    def names(self, folder: str) -> list[str]:
        """Return all bare names in a folder, including dangling links."""
        with os.scandir(folder or ".") as entries:
            return [entry.name for entry in entries]

    def put(self, key: str, data: bytes) -> None:
        """Write a file atomically; see `Store.put`."""
        with open_local_sink(Path(key)) as sink:
            sink.write(data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write a file that must not exist; see `Store.put_if_absent`.

        Raises:
            FileExistsError: it exists.
            OSError: the file system has no hard links: readers could see an empty file.
        """
        with open_local_sink(Path(key), exclusive=True, whole=True) as sink:
            sink.write(data)

    def delete(self, key: str) -> None:
        """Delete a file; see `Store.delete`."""
        Path(key).unlink()


def _object(path: str, state: os.stat_result) -> StoredObject:
    return StoredObject(with_slashes(path), state.st_size, None, state.st_mtime_ns // 1_000_000)


def _file(entry: os.DirEntry[str]) -> StoredObject | None:
    """Return a file that was listed; None for something else, and for a file removed meanwhile."""
    with suppress(FileNotFoundError):
        return _object(entry.path, entry.stat()) if entry.is_file() else None
    return None

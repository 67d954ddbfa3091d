"""A table's folder: what is in it, and where the paths that metadata records are to be opened.

Metadata may spell a path from the table's folder, or whole. A table that was moved, or copied, still records where it
was: such paths are opened below the folder in which the metadata was found. What lies elsewhere is opened if metadata
may name it: see `dvcodec.io.reach`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from dvcodec.core.errors import LimitExceeded, NotCanonical, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS
from dvcodec.io import is_url, list_names, open_source
from dvcodec.io.file_key import file_key, path_below
from dvcodec.io.paths import join
from dvcodec.io.reach import check_reach, check_step
from dvcodec.io.target import filesystem_of, local_path, remote_errors

__all__ = ["Folder", "StoredFile"]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file below a table's folder.

    Attributes:
        location: where it can be opened.
        size: bytes.
        modified_ms: when it was written last, milliseconds since 1970 UTC; None where the storage does not say.
    """

    location: str
    size: int
    modified_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Folder:
    """A table's folder.

    Attributes:
        location: path or URL, without a slash at its end.
        recorded: how the table's own metadata spells the folder, None if it does not.
        allow: protocols that the metadata may name besides those of `check_reach`.
    """

    location: str
    recorded: str | None = None
    allow: frozenset[str] = frozenset()

    @property
    def moved(self) -> bool:
        """Whether the metadata says that the table is somewhere else."""
        return self.recorded is not None and _key(self.recorded) != _key(self.location)

    def join(self, name: str) -> str:
        """Return the location of something below the folder (`name` may have slashes).

        Raises:
            NotCanonical: it would name another file system; see `check_step`.
        """
        check_step(name, self.location)
        return join(self.location, name)

    def inner(self, name: str) -> Folder:
        """Return a folder below this one.

        Raises:
            NotCanonical: the name climbs out of it.
        """
        return replace(self, location=self.locate(name))

    def locate(self, path: str) -> str:
        """Return where a recorded path (plain text, not percent-encoded) is to be opened.

        >>> Folder("/copy/t", recorded="s3://lake/t").locate("s3a://lake/t/data/a b.parquet")
        '/copy/t/data/a b.parquet'
        >>> Folder("/wh/t").locate("part=1/a.parquet"), Folder("/wh/t").locate("s3://other/a.parquet")
        ('/wh/t/part=1/a.parquet', 's3://other/a.parquet')

        Raises:
            NotCanonical: it climbs out of the folder, or is no location.
            Unsupported: metadata may not name it; see `check_reach`.
        """
        try:
            below = self.below(path)
        except UsageError as err:  # a file URL of another host, here or in `recorded`
            raise NotCanonical("path", source=self.location, expected="a path", actual=f"{err!s:.200}") from None
        if below is not None:
            return self.join(below)
        check_reach(path, self.location, self.allow)
        local = local_path(path)
        return path if local is None else str(local) if not path.startswith("file:") else file_key(path)

    def below(self, path: str) -> str | None:
        """Return a recorded path from the folder on; None if it lies elsewhere.

        >>> Folder("/copy/t", recorded="s3://lake/t").below("s3://lake/t/data/a.parquet")
        'data/a.parquet'

        Raises:
            NotCanonical: it has a step ``..`` there, which no writer makes: such a path may climb out of the folder.
        """
        below = self._below(path)
        if below is not None and ".." in below.split("/"):
            raise NotCanonical("path", source=self.location, expected="no step .. below the folder", actual=path)
        return below

    def _below(self, path: str) -> str | None:
        if not is_url(path) and not path.startswith("/"):
            return path
        for root in (self.recorded, self.location):
            if root is not None and (inside := path_below(path, _key(root))) is not None:
                return inside
        return None

    def names(self, name: str = "") -> list[str]:
        """Return the bare names of what lies in the folder, or in one below it; none if it is not there.

        Raises:
            OSError: it cannot be listed.
        """
        try:
            return list_names(self.join(name) if name else self.location)
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        """Read a whole file of metadata below the folder.

        Raises:
            LimitExceeded: it is larger than the default `Limits.max_manifest_bytes`.
            OSError: it is not there, or cannot be read.
        """
        most = DEFAULT_LIMITS.max_manifest_bytes
        with open_source(self.join(name)) as source:
            if source.size > most:
                raise LimitExceeded(
                    "Limits.max_manifest_bytes",
                    source=source.name,
                    expected=f"at most {most} bytes",
                    actual=source.size,
                )
            return bytes(source.read(0, source.size))

    def walk(self) -> Iterator[StoredFile]:
        """List all files below the folder, in no order; links to folders are not followed.

        Raises:
            OSError: a folder cannot be listed.
        """
        local = local_path(self.location)
        if local is not None:
            yield from _walk(self.location, local)
            return
        filesystem, root = filesystem_of(self.location)
        with remote_errors(self.location):
            found = filesystem.find(root, detail=True)
        for path, info in found.items():
            below = str(path)[len(str(root)) :].strip("/")
            yield StoredFile(join(self.location, below), int(info.get("size") or 0), _modified(info))


def _walk(spelled: str, folder: Path) -> Iterator[StoredFile]:
    left = [(spelled, str(folder))]
    while left:
        spelled, path = left.pop()
        with os.scandir(path) as entries:
            for entry in entries:
                here = join(spelled, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    left.append((here, entry.path))
                elif entry.is_file():
                    found = entry.stat()
                    yield StoredFile(here, found.st_size, found.st_mtime_ns // 1_000_000)


def _modified(info: Mapping[str, Any]) -> int | None:
    """Find the time in what a store says of a file: each calls it something else."""
    for name in ("mtime", "LastModified", "last_modified", "created"):
        value = info.get(name)
        if isinstance(value, datetime):
            value = value.timestamp()
        if isinstance(value, (int, float)):
            return int(value * 1000)
    return None


def _key(folder: str) -> str:
    """Spell a folder so that two spellings of it are equal: a local one whole, in plain text."""
    local = local_path(folder)
    if local is not None:
        folder = str(local.absolute()) if is_url(folder) or not folder.startswith("/") else folder
    return file_key(folder)

"""Commits to Iceberg tables without a catalog: the new metadata file is put beside the old one, if it is absent.

``v3.metadata.json`` is followed by ``v4.metadata.json``, as Iceberg Java's ``HadoopTableOperations`` does it: of
several writers only one can create that file, so this naming is safe for concurrent commits, unless another writer
replaces existing files. (Java renames, which is atomic on HDFS. On a local disk and on object stores it first checks
and then renames, and a commit in between is lost.) The version hint is written afterwards; readers go on from it to
newer versions.

Catalogs name metadata files ``00003-<uuid>.metadata.json``. Which one is current is recorded in the catalog, and it
ignores any other file in the folder. Such a table is refused, unless the caller knows that no catalog has it, and that
only dvcodec commits to it (`only_writer`). The ``uuid`` of the next file is then derived from the name of the last one:
so two dvcodec processes want the same file, and only one of them gets it.
"""

from __future__ import annotations

import errno
import logging
import uuid
from pathlib import Path

from dvcodec.core.errors import CommitConflict, DvcodecError, UsageError
from dvcodec.io import open_sink
from dvcodec.io.target import join, local_path, split
from dvcodec.tables.folder import Folder
from dvcodec.tables.iceberg.metadata import (
    HADOOP_NAME,
    METADATA,
    VERSION_HINT,
    Change,
    changed,
    forgotten,
    metadata_bytes,
    properties_of,
    read_members,
    remove_old,
    version_of,
)
from dvcodec.tables.iceberg.table import IcebergTable, Place, open_newest
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.table import Table
from dvcodec.tables.writing import put_once

_LOGGER = logging.getLogger("dvcodec.tables")
_COMPRESSION = "write.metadata.compression-codec"
_NAMES = uuid.UUID("5b0f4e0e-7d0a-4f2e-9d7e-0d3a3b0c6f11")
"""Namespace of the names of next metadata files."""
_MOST = 2**31 - 1
"""Highest version in the name of a metadata file: Java parses it as an ``int``."""


def place_of(table: Table) -> Place:
    """Return where commits to a table go: to the catalog that it was opened from, else to its folder."""
    own = table.place if isinstance(table, IcebergTable) else None
    return own or FolderPlace(table.folder)


class FolderPlace(Place):
    """A table's folder.

    Args:
        folder: of the table.
        only_writer: whether no catalog has the table, and nothing but dvcodec commits to it.
    """

    def __init__(self, folder: Folder, *, only_writer: bool = False) -> None:
        self._folder = folder
        self._only_writer = only_writer

    def load(self) -> IcebergTable:
        """Open the table by its newest metadata file."""
        return open_newest(self._folder)

    def check(self, table: IcebergTable, members: JsonFields) -> None:
        """Refuse a table of a catalog or another format, one whose files are elsewhere, and one without a next name."""
        source, name = table.metadata.source, split(table.metadata.source)[1]
        if table.skipped_metadata:
            raise UsageError(f"{source}: {table.skipped_metadata[0]} beside it may be newer: its name has no version")
        if properties_of(members).get("write.metadata.path") is not None:
            raise UsageError(f"{source}: property write.metadata.path: commit through the table's catalog")
        beside = set(table.folder.names())
        for kind, names in (("Delta", {"_delta_log"}), ("Paimon", {"snapshot", "schema"})):
            if names <= beside:
                raise UsageError(f"{source}: Iceberg metadata of a {kind} table: commit to that table")
        if not HADOOP_NAME.fullmatch(name) and not (self._only_writer and version_of(name) >= 0):
            raise UsageError(
                f"{source}: metadata files of this name belong to a catalog, which would not see a commit by folder: "
                "open the table through its catalog; or pass only_writer=True to open_table (--only-writer) if no "
                "catalog has the table and nothing but dvcodec commits to it"
            )
        if version_of(name) >= _MOST:
            raise UsageError(f"{source}: the next metadata file needs a version above {_MOST}, which no engine reads")

    def put(self, table: IcebergTable, members: JsonFields, change: Change) -> None:
        """Write the next metadata file if it is absent, then the version hint."""
        storage = table.folder.storage
        source, last = table.metadata.source, split(table.metadata.source)[1]
        compressed = properties_of(members).get(_COMPRESSION, "none").lower() == "gzip"
        version, name = _next_name(last, ".gz.metadata.json" if compressed else ".metadata.json")
        folder = split(source)[0]
        if self._newest() >= version:  # also if it is compressed
            raise CommitConflict(f"{source}: not the newest metadata file any more")
        try:
            is_same = read_members(source, storage).values == members.values
        except FileNotFoundError:
            is_same = False
        if not is_same:
            raise CommitConflict(
                f"{source}: not the file that was read: the table was dropped, and another one created"
            )
        new = changed(members, change, f"{table.metadata.location}/{METADATA}/{last}")
        old = forgotten(members, new)
        put_once(storage, join(folder, name), metadata_bytes(new, name, source))
        storage.reopen(table.folder.location)
        if HADOOP_NAME.fullmatch(name):
            self._write_hint(folder, version, is_last=not old)
        remove_old(table.folder, join(folder, name), old)

    def _newest(self) -> int:
        """Return the highest version in the names of metadata files."""
        self._folder.storage.reopen(self._folder.location)
        return max(map(version_of, self._folder.names(METADATA)), default=-1)

    def _write_hint(self, folder: str, version: int, *, is_last: bool) -> None:
        """Write the version hint; readers that find an older one go on to newer versions.

        Where old metadata files are removed (`is_last` is False), a slow writer must not leave the hint at one of them:
        so it checks afterwards for newer versions by others.
        """
        storage, hint = self._folder.storage, join(folder, VERSION_HINT)
        local = local_path(hint)
        try:
            if local is not None:  # Hadoop's checksum of the old one would make the new one unreadable
                local.with_name(f".{local.name}.crc").unlink(missing_ok=True)
            try:
                with open_sink(hint, storage_options=storage) as sink:
                    sink.write(str(version).encode())
            except OSError:
                if local is None:
                    raise
                _overwrite(local, version)
            if not is_last and (newest := self._newest()) > version:
                self._write_hint(folder, newest, is_last=False)
        except (OSError, DvcodecError) as error:
            _LOGGER.warning("%s: not written: %s", hint, error)


def _overwrite(hint: Path, version: int) -> None:
    """Write a version into the hint's file: if the disk is full, there is room for it, and not for a new file.

    Raises:
        OSError: it does not exist, has no older version, or cannot be written.
    """
    with hint.open("r+b", buffering=0) as file:
        old, new = file.read().strip(), str(version).encode()
        if not old.isdigit() or int(old) > version:
            raise OSError(errno.EINVAL, "it has no older version", str(hint))
        file.seek(0)
        file.write(new)


def _next_name(last: str, suffix: str) -> tuple[int, str]:
    version = version_of(last) + 1
    stem = f"v{version}" if HADOOP_NAME.fullmatch(last) else f"{version:05d}-{uuid.uuid5(_NAMES, last)}"
    return version, f"{stem}{suffix}"

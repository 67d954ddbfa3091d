"""Commit deletes to a Lance dataset, by Lance's own library (extra ``lance``).

Specification: Lance's ``table.proto`` (``DeletionFile``) and ``transaction.proto`` (``Delete``).

Deletion files are written here and not by the library's ``LanceFragment.delete_rows``: that takes rows one Python
integer at a time, does not say how it names the file before it has written it, and does not read it back. The library
makes the manifest: a ``Delete`` of the fragments as they are, with another deletion file. So data files, row ids,
indices and config stay, and the library updates its flags. Fragments without a live row are left out.

The commit is strict, see below. What the library does after every commit it does after this one too, such as
removing old versions if the dataset's config asks for it (``lance.auto_cleanup.interval``). Where a namespace service
manages the versions of a dataset, its folder does not say so: change such a dataset through that service.

The atomic step publishes the manifest of the next version, and of no later one. On its own, the library rebases a
commit: if the versions that others committed meanwhile changed other fragments, it silently commits on top of them. It
does not rebase past what its namespace client refuses. Such a client is asked for the newest version, and to publish
the manifest that the library has written under a temporary name (``create_table_version`` of Lance's namespace
specification).
"""

from __future__ import annotations

import os
import secrets
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Any

from dvcodec.core.errors import CommitConflict, DvcodecError, NotCanonical, Unsupported
from dvcodec.core.extras import require_extra
from dvcodec.core.vector import DvLocation
from dvcodec.io.storage import run_bounded
from dvcodec.io.store import open_store
from dvcodec.io.target import local_path, split
from dvcodec.lance import DeletionFile, choose_kind, read_deletion_file, read_manifest
from dvcodec.lance.deletions import encode_deletion_file
from dvcodec.lance.manifest import manifest_name
from dvcodec.tables.deleting.run import (
    STREAM_BATCH,
    STREAM_QUERY,
    Committer,
    Written,
    batch_number,
    batch_properties,
    check_read_back,
)
from dvcodec.tables.folder import Folder
from dvcodec.tables.lance.table import (
    DELETIONS,
    KNOWN_FLAGS,
    TRANSACTIONS,
    VERSIONS,
    DeletionRecord,
    FragmentRecord,
    LanceSnapshot,
    LanceTable,
    of_library,
    open_version,
)
from dvcodec.tables.model import FileDelete
from dvcodec.tables.writing import put_once


class NextVersion:
    """A namespace client that knows one dataset, and publishes one version of it. The library calls it from a thread.

    Args:
        folder: of the dataset.
        base: the version to commit on top of.
        manifest: name of its manifest.
    """

    def __init__(self, folder: Folder, base: int, manifest: str) -> None:
        self._folder, self._base, self._manifest = folder, base, manifest
        self._lock = Lock()
        self._asked = self._committed = False
        self._error: BaseException | None = None

    def settle(self) -> bool:
        """Return whether the version was published; after this call it cannot be.

        Raises:
            CommitConflict, CommitUnknown, UsageError, OSError: why it was not; see `put_once`.
        """
        with self._lock:
            self._asked = True
        if self._error is not None:
            raise self._error
        return self._committed

    def namespace_id(self) -> str:
        """Return a name for the library's own messages."""
        return "dvcodec"

    def list_table_versions(self, request: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Answer that the base is the newest version."""
        return {"versions": [self._answer(self._base, self._manifest)]}

    def describe_table_version(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer where the manifest of the base is, or else that of the next version, by whoever committed it."""
        version = request.get("version")
        if version in (None, self._base):
            return {"version": self._answer(self._base, self._manifest)}
        return {"version": self._answer(self._base + 1, self._name(self._base + 1))}

    def create_table_version(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Publish the manifest that the library has written, if it is that of the next version."""
        with self._lock:
            if self._asked:
                raise RuntimeError("one version only")
            self._asked = True
            try:
                self._publish(request["version"], split(request["manifest_path"])[1])
            except BaseException as error:
                self._error = error
                raise
            self._committed = True
        return {"version": self._answer(self._base + 1, self._name(self._base + 1))}

    def _publish(self, version: int, written: str) -> None:
        if version != self._base + 1:
            raise CommitConflict(f"{self._folder.location}: another writer committed version {self._base + 1}")
        storage, source = self._folder.storage, self._folder.join(f"{VERSIONS}/{written}")
        data = storage.read(source)
        put_once(storage, self._folder.join(f"{VERSIONS}/{self._name(version)}"), data)
        with suppress(OSError):
            storage.remove(source)

    def _name(self, version: int) -> str:
        """Return the name of a manifest, in the naming scheme of the base's."""
        return manifest_name(version, "V2" if self._manifest == manifest_name(self._base) else "V1")

    def _answer(self, version: int, manifest: str) -> dict[str, Any]:
        location = self._folder.join(f"{VERSIONS}/{manifest}")
        local = local_path(location)
        path = open_store(location, self._folder.storage.options)[1] if local is None else os.path.abspath(local)  # noqa: PTH100  (links stay)
        return {"version": version, "manifest_path": path.lstrip("/")}


_FILE_TYPES = {"arrow": "array", "bin": "bitmap"}
_WRITE_AHEAD_LOG = "_mem_wal"
_UNKNOWN = "check the table state before retrying: "
"""How the library's message begins after a write that failed; the reason follows."""


class LanceCommitter(Committer[LanceSnapshot]):
    """Commits deletes to a Lance dataset, or to a branch by its folder; see `Committer`."""

    def __init__(self, table: LanceTable) -> None:
        self._table = table
        table.folder.storage.reopen(table.location)  # the first time may drop nothing, that of `current` does

    def current(self) -> LanceSnapshot:
        """Return the newest version; see `Committer.current`."""
        self._table.folder.storage.reopen(self._table.location)
        return self._table.snapshot()

    def check(self, base: LanceSnapshot) -> None:
        """Refuse features that are not known, a write-ahead log, and fragments whose rows are not recorded.

        Raises:
            MissingExtra: Lance's library is not installed.
            Unsupported: see above.
        """
        require_extra("lance.dataset", "lance", "pylance")
        folder = self._table.folder
        location = self._table.manifests()[base.info.id]
        flags = read_manifest(location, limits=folder.storage.limits, storage_options=folder.storage).writer_flags
        if flags & ~KNOWN_FLAGS:
            expected = f"no others than those of {KNOWN_FLAGS:#x}"
            what = "features that a writer has to know"
            raise Unsupported(what, source=location, expected=expected, actual=f"{flags:#x}")
        if _WRITE_AHEAD_LOG in folder.names():
            actual = f"{_WRITE_AHEAD_LOG}: rows that are not in a fragment yet would not be deleted"
            raise Unsupported("write-ahead log", source=folder.location, expected="none", actual=actual)
        for file in base.data_files:
            if file.physical_rows is None:
                what = f"rows of fragment {FragmentRecord.of(file).id}"
                raise Unsupported(what, source=location, expected="a number", actual="none")

    def last_batch(self, base: LanceSnapshot, query: str) -> int | None:
        """Return the highest batch in the properties of the versions' transactions; see `Committer.last_batch`."""
        folder = base.table.folder
        dataset = open_version(folder.location, base.info.id, folder.storage.options)
        for version in sorted((one for one in self._table.manifests() if one <= base.info.id), reverse=True):
            found = dataset.read_transaction(version)
            properties = {} if found is None else found.transaction_properties or {}
            if properties.get(STREAM_QUERY) == query:
                return batch_number(
                    properties.get(STREAM_BATCH), f"{folder.location}: transaction of version {version}"
                )
        return None

    def write(self, base: LanceSnapshot, deletes: Sequence[FileDelete], written: list[str]) -> Written:
        """Write a deletion file for each fragment; see `Committer.write`."""
        folder = base.table.folder
        local = local_path(folder.location)
        if local is not None:
            (local / DELETIONS).mkdir(exist_ok=True)

        def write(one: FileDelete) -> DvLocation:
            return _write(folder, base.info.id, one, written)

        locations = list(run_bounded(write, deletes, folder.storage.readers(folder.location)))
        return Written({str(one.data_file): one for one in locations}, sum(one.size for one in locations))

    def commit(self, base: LanceSnapshot, deletes: Sequence[FileDelete], written: Written, files: list[str]) -> int:
        """Commit a ``Delete``; see `Committer.commit`. The new version is the one after the base.

        Raises:
            UsageError: the store cannot create a file exclusively.
            NotCanonical: Lance's library refuses the dataset.
        """
        folder, version = base.table.folder, base.info.id
        folder.storage.reopen(folder.location)
        manifests = self._table.manifests()
        if max(manifests) != version:
            raise CommitConflict(f"{folder.location}: another writer committed version {version + 1}")
        now = read_manifest(manifests[version], limits=folder.storage.limits, storage_options=folder.storage)
        if now.timestamp_ms != base.info.timestamp_ms:
            raise CommitConflict(f"{folder.location}: version {version} is not the one that was read")
        lance = require_extra("lance.dataset", "lance", "pylance")
        token = str(uuid.uuid4())
        files.append(folder.join(f"{TRANSACTIONS}/{version}-{token}.txn"))
        next_version = NextVersion(folder, version, split(manifests[version])[1])
        location, options = of_library(folder.location, folder.storage.options)
        try:
            operation = lance.LanceOperation.Delete(*_changes(base, deletes, written), "")
            lance.LanceDataset.commit(
                location,
                lance.Transaction(version, operation, token, batch_properties(self.batch)),
                storage_options=options,
                max_retries=0,
                namespace_client=next_version,
                table_id=[location],
                namespace_client_managed_versioning=True,
            )
        except BaseException as error:  # noqa: BLE001  (a panic of the library is not an Exception)
            if next_version.settle():
                return version + 1
            raise _refusal(error, folder.location) from None
        if not next_version.settle():
            raise NotCanonical("commit", source=folder.location, expected="a new version", actual="none")
        return version + 1


def _write(folder: Folder, version: int, delete: FileDelete, written: list[str]) -> DvLocation:
    """Write the deletion file of a fragment and read it back."""
    rows, file, fragment = delete.rows, delete.data_file, FragmentRecord.of(delete.data_file).id
    before = DeletionRecord.of(delete.replaced[0]).file.kind if delete.replaced else None
    kind = choose_kind(rows.cardinality, before)
    name = DeletionFile(kind, fragment, version, secrets.randbits(64), rows.cardinality)
    data = encode_deletion_file(rows, kind)
    path = folder.join(name.path("").lstrip("/"))
    written.append(path)
    folder.storage.put_if_absent(path, data)
    with folder.storage.open(path) as source:
        found = read_deletion_file(source, num_deleted_rows=rows.cardinality, physical_rows=file.physical_rows)
    check_read_back(path, {file.path: rows}, {file.path: found})
    return DvLocation("lance", path, 0, len(data), rows.cardinality, file.path, len(data))


def _changes(base: LanceSnapshot, deletes: Sequence[FileDelete], written: Written) -> tuple[list[Any], list[int]]:
    """Return the fragments with their new deletion files, and the ids of those without a live row."""
    folder = base.table.folder
    dataset = open_version(folder.location, base.info.id, folder.storage.options)
    updated, gone = [], []
    for one in deletes:
        number = FragmentRecord.of(one.data_file).id
        if one.whole:
            gone.append(number)
        else:
            location = written.locations.get(one.data_file.path)
            file = None if location is None else _deletion_file(location)
            updated.append(replace(dataset.get_fragment(number).metadata, deletion_file=file))
    return updated, gone


def _deletion_file(location: DvLocation) -> Any:
    """Return the entry of the manifest for a file of `_write`."""
    fragments = require_extra("lance.fragment", "lance", "pylance")
    name, _, ending = split(location.path)[1].partition(".")
    _, version, number = map(int, name.split("-"))
    return fragments.DeletionFile(version, number, _FILE_TYPES[ending], location.cardinality, None)


def _refusal(error: BaseException, source: str) -> BaseException:
    """Convert an error of Lance's library to one of dvcodec's; return any other unchanged."""
    message = str(error).partition("\n")[0]
    if type(error).__name__ == "CommitConflictError":
        return CommitConflict(f"{source}: {message}")
    if type(error) is OSError and error.errno is None:  # of the library, to which the outcome is unknown
        return OSError(f"{source}: nothing was committed: {message.rpartition(_UNKNOWN)[2]}")
    if isinstance(error, (DvcodecError, OSError, KeyboardInterrupt, SystemExit, MemoryError)):
        return error
    return NotCanonical("commit", source=source, expected="what Lance's library can write", actual=message)

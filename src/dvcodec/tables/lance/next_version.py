"""The atomic step of a commit by Lance's library: the manifest of the next version, and of no later one.

On its own, the library rebases a commit: if the versions that others committed meanwhile changed other fragments, it
silently commits on top of them. It does not rebase past what its namespace client refuses. Such a client is asked for
the newest version, and to publish the manifest that the library has written under a temporary name
(``create_table_version`` of Lance's namespace specification).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock
from typing import Any

from dvcodec.core.errors import CommitConflict
from dvcodec.io.store import open_store
from dvcodec.io.target import local_path, split
from dvcodec.lance.manifest import manifest_name
from dvcodec.tables.folder import Folder
from dvcodec.tables.lance.files import VERSIONS
from dvcodec.tables.put import put_once

__all__ = ["NextVersion"]


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

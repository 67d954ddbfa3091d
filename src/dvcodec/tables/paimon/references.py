"""Files that some snapshot, tag or changelog of a table still needs.

Java class ``OrphanFilesClean``. States are snapshots, tags and changelogs, of the table and of its branches. Branches
have their own metadata folders (``branch/branch-NAME``) and share the table's data and manifests.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from dvcodec.paimon import read_index_manifest
from dvcodec.tables.folder import Folder
from dvcodec.tables.paimon.files import Layout
from dvcodec.tables.paimon.manifests import ManifestEntry, live_entries, read_manifest_list, read_manifests
from dvcodec.tables.paimon.metadata import SnapshotRecord, read_schema, read_snapshot

__all__ = ["referenced_files"]

_STATES = {"snapshot": "snapshot-", "tag": "tag-", "changelog": "changelog-"}
_OWN = ("snapshot", "tag", "changelog", "schema", "consumer", "service", "metadata")
"""Folders whose files are all needed: states, hints to the first and last state, progress of readers, addresses of
services, and Iceberg metadata of the table."""


def referenced_files(folder: Folder) -> frozenset[str]:
    """Return the locations of all files that some state needs, metadata included.

    Raises:
        DecodeError: metadata is corrupt.
        OSError: it cannot be read.
    """
    return _References(folder).collect()


class _References:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._paths: set[str] = set()
        self._manifests: dict[str, list[ManifestEntry]] = {}
        # Each is read once for all states.
        self._index_entries = cache(partial(read_index_manifest, storage_options=folder.storage))

    def collect(self) -> frozenset[str]:
        branches = [f"branch/{name}/" for name in self._folder.names("branch") if name.startswith("branch-")]
        for root in ["", *branches]:
            branch = self._folder.inner(root[:-1]) if root else self._folder
            layout_of = cache(partial(self._layout, branch))
            for name in _OWN:
                self._paths |= {f"{root}{name}/{file}" for file in branch.names(name)}
            for kind, prefix in _STATES.items():
                for file in branch.names(kind):
                    if file.startswith(prefix):
                        state = read_snapshot(branch, f"{kind}/{file}")
                        self._add(state, layout_of(state.schema_id), whole=kind != "changelog")
        return frozenset(map(self._folder.locate, self._paths))

    def _layout(self, branch: Folder, schema_id: int) -> Layout:
        return Layout(self._folder, read_schema(branch, schema_id))

    def _add(self, state: SnapshotRecord, layout: Layout, *, whole: bool) -> None:
        """Add the files that a state needs; a changelog has only the changes of a snapshot and is not `whole`."""
        for name, place in ((state.statistics, "statistics"), (state.index_manifest, "manifest")):
            if name is not None:
                self._paths.add(f"{place}/{name}")
        if state.index_manifest is not None:
            source = self._folder.join(f"manifest/{state.index_manifest}")
            self._paths |= {layout.index_file(entry, source) for entry in self._index_entries(source)}
        base, delta = (list(self._entries(name)) for name in (state.base_manifest_list, state.delta_manifest_list))
        changelog = list(self._entries(state.changelog_manifest_list)) if state.changelog_manifest_list else []
        alive = live_entries([*base, *delta]) if whole else [entry for entry in delta if not entry.deleted]
        for entry in [*alive, *(entry for entry in changelog if not entry.deleted)]:
            self._paths.update(layout.files(entry))

    def _entries(self, manifest_list: str) -> Iterator[ManifestEntry]:
        """Yield the entries of a manifest list's manifests; each manifest is read once for all states."""
        self._paths.add(f"manifest/{manifest_list}")
        names = read_manifest_list(self._folder, manifest_list)
        self._paths.update(f"manifest/{name}" for name in names)
        self._manifests.update(read_manifests(self._folder, [name for name in names if name not in self._manifests]))
        for name in names:
            yield from self._manifests[name]

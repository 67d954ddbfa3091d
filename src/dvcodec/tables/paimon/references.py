"""Files that some snapshot, tag or changelog of a table still needs.

Java class ``OrphanFilesClean``. States are snapshots, tags and changelogs, of the table and of its branches. Branches
have their own metadata folders (``branch/branch-NAME``) and share the table's data and manifests.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cache, partial

from dvcodec.tables.folder import Folder
from dvcodec.tables.paimon.manifests import ManifestEntry, Manifests
from dvcodec.tables.paimon.metadata import SnapshotRecord, read_schema, read_snapshot
from dvcodec.tables.paimon.partition import Layout

__all__ = ["referenced_files"]

_STATES = {"snapshot": "snapshot-", "tag": "tag-", "changelog": "changelog-"}
_OWN = ("snapshot", "tag", "changelog", "schema", "consumer", "service", "metadata")
"""Folders whose files are all needed: states, hints to the first and last state, progress of readers, addresses of
services, and Iceberg metadata of the table."""


def referenced_files(folder: Folder, manifests: Manifests) -> frozenset[str]:
    """Return the locations of all files that some state needs, metadata included.

    Raises:
        DecodeError: metadata is corrupt.
        OSError: it cannot be read.
    """
    return _References(folder, manifests).collect()


class _Manifest:
    """What a manifest adds and deletes, by identity."""

    __slots__ = ("added", "deleted")

    def __init__(self, entries: Iterable[ManifestEntry]) -> None:
        entries = list(entries)
        self.added = {entry.identity: entry for entry in entries if not entry.deleted}
        self.deleted = frozenset(entry.identity for entry in entries if entry.deleted)


class _References:
    """Collects paths. States share most of their manifests: each file is read once, and located once for a layout."""

    def __init__(self, folder: Folder, manifests: Manifests) -> None:
        self._folder = folder
        self._reader = manifests
        self._paths: set[str] = set()
        self._layouts: dict[Hashable, Layout] = {}
        self._manifests: dict[str, _Manifest] = {}
        self._left: dict[tuple[str, Layout], dict[tuple[object, ...], ManifestEntry]] = {}
        """Entries that no state needed yet, by manifest."""
        self._seen: set[Hashable] = set()
        self._manifest_list = cache(self._read_list)
        self._index_entries = cache(manifests.index)

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
        """Return the layout of a schema: one for all that agree in it."""
        layout = Layout(self._folder, read_schema(branch, schema_id))
        return self._layouts.setdefault(layout.key, layout)

    def _add(self, state: SnapshotRecord, layout: Layout, *, whole: bool) -> None:
        """Add the files that a state needs; a changelog has only the changes of a snapshot and is not `whole`."""
        if state.statistics is not None:
            self._paths.add(f"statistics/{state.statistics}")
        if state.index_manifest is not None and self._is_new("index", state.index_manifest, layout):
            self._add_index(state.index_manifest, layout)
        base, delta, changelog = state.base_manifest_list, state.delta_manifest_list, state.changelog_manifest_list
        if self._is_new("state", base, delta, layout, whole):
            manifests = [*self._manifest_list(base), *self._manifest_list(delta)]
            if whole:
                gone = frozenset[object]().union(*(self._manifests[name].deleted for name in manifests))
                self._add_files(manifests, layout, gone)
            else:
                self._add_files(self._manifest_list(delta), layout)
        if changelog is not None and self._is_new("changelog", changelog, layout):
            self._add_files(self._manifest_list(changelog), layout)

    def _is_new(self, *key: Hashable) -> bool:
        """Whether what has this key was not added yet."""
        known = len(self._seen)
        self._seen.add(key)
        return len(self._seen) > known

    def _add_index(self, manifest: str, layout: Layout) -> None:
        path = f"manifest/{manifest}"
        source = self._folder.join(path)
        self._paths.add(path)
        self._paths |= {layout.index_file(entry, source) for entry in self._index_entries(manifest)}

    def _add_files(self, manifests: Iterable[str], layout: Layout, gone: frozenset[object] = frozenset()) -> None:
        """Add the files that manifests add, but those that are gone.

        A file that is added twice is not refused, unlike in `live_entries`: it is needed anyway.
        """
        for name in manifests:
            left = self._left.get((name, layout))
            if left is None:
                left = self._left[name, layout] = dict(self._manifests[name].added)
            for identity in [identity for identity in left if identity not in gone]:
                self._paths.update(layout.files(left.pop(identity)))

    def _read_list(self, name: str) -> list[str]:
        """Return the manifests of a list; those that were not yet read are read."""
        self._paths.add(f"manifest/{name}")
        names = self._reader.listed(name)
        self._paths.update(f"manifest/{one}" for one in names)
        new = [one for one in names if one not in self._manifests]
        for one, entries in self._reader.read(new):
            self._manifests[one] = _Manifest(entries)
        return names

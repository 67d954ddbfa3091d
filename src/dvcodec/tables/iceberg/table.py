"""Iceberg tables, and the places that they are committed to."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, count
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported, UsageError
from dvcodec.io.storage import run_bounded
from dvcodec.io.target import check_reach, is_local, is_url, split
from dvcodec.tables.deleting import WritableTable
from dvcodec.tables.folder import MOST_CHARACTERS, Folder
from dvcodec.tables.iceberg.deletes import PositionDeletes
from dvcodec.tables.iceberg.entries import DataFiles, Deletes, Manifest, ManifestFiles, read_list, read_manifest
from dvcodec.tables.iceberg.metadata import (
    MAIN,
    METADATA,
    VERSION_HINT,
    Change,
    SnapshotRecord,
    TableMetadata,
    check_newest,
    find_metadata,
    older_metadata,
    read_metadata,
    some_of,
    without_version,
)
from dvcodec.tables.iceberg.plan import ScanPlan, repeated
from dvcodec.tables.iceberg.snapshot import IcebergSnapshot
from dvcodec.tables.metadata import Cache
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import (
    METADATA_SUFFIXES,
    NO_SNAPSHOT,
    SnapshotInfo,
    TableKind,
)
from dvcodec.tables.table import Snapshot, Walk, add_note, checks_snapshot, is_damage

if TYPE_CHECKING:
    from typing_extensions import Self

Item = TypeVar("Item")
Result = TypeVar("Result")
_LOGGER = logging.getLogger("dvcodec.tables")
_ODD = ("\n\n", "\n/", "\n.", "//", "/.", ":", "\\", "\0")
"""In paths below the folder, each after a line feed: what `Folder.locate` looks at."""
_KEPT_PLANS = 8
"""Maximum number of cached manifest lists; they share most of their entries."""
_KEPT_MANIFESTS = 50_000
"""Maximum number of manifests in cached lists, about 0.6 KB each."""
_KEPT_ENTRIES = 500_000
"""Maximum number of cached manifest entries, about 0.2 KB each: snapshots share most of their manifests."""
_NO_FILES = np.zeros(0, np.int64)
_BITS = 32
"""A walk knows a file by the number of its manifest, shifted by so many bits, and its place there."""
_PLACE = (1 << _BITS) - 1
_KEPT_DELETES = 64 << 20
"""Maximum bytes of cached position deletes."""


def open(location: Folder | str | os.PathLike[str]) -> IcebergTable:  # noqa: A001  (every kind of table has one)
    """Open a table by its folder, or by one of its ``*.metadata.json`` files.

    If the table is opened by its folder, metadata files without a version in their names are ignored, because it is
    unknown how new they are. `IcebergTable.skipped_metadata` and a warning of the logger ``dvcodec.tables`` list them;
    open one by its path.

    Args:
        location: the `Folder`; or its path or URL, if it needs no storage options.

    Raises:
        UsageError: there is no metadata file, or only a catalog knows which one is current.
        DecodeError: the metadata is corrupt.
        Unsupported: another format version; or a file outside of a folder ``metadata`` records a location of its table
            that metadata must not reference.
        OSError: it cannot be read.
    """
    folder = Folder.of(location)
    spelled = folder.location
    of_folder = not spelled.endswith(METADATA_SUFFIXES)
    names: Collection[str] = folder.names(METADATA) if of_folder else ()
    nameless = without_version(names)
    try:
        spelled = find_metadata(folder, names) if of_folder else spelled
        metadata = read_metadata(spelled, folder.storage)
    except (DecodeError, FileNotFoundError) as error:
        if is_damage(error):
            for older in older_metadata(names, split(spelled)[1]):
                with suppress(DecodeError, OSError):
                    read_metadata(folder.join(f"{METADATA}/{older}"), folder.storage)
                    add_note(error, f"{METADATA}/{older} can be read: open the table by its path")
                    break
        raise
    above, name = split(split(spelled)[0])
    if name != METADATA:
        check_reach(metadata.location, spelled, folder.allow)
        above = metadata.location
    known = {split(spelled)[1], *metadata.earlier}
    skipped_metadata = tuple(other for other in nameless if other not in known)
    if skipped_metadata:
        message = "%s: ignored %s: names without a version; the table is read from %s. Open another file by its path"
        _LOGGER.warning(message, above, some_of(skipped_metadata), split(spelled)[1])
    return IcebergTable(replace(folder, location=above, recorded=metadata.location), metadata, skipped_metadata)


def open_newest(folder: Folder) -> IcebergTable:
    """Open a table by the newest metadata file in its folder, not from a cache; see `open`.

    It is opened again if that file is removed before it is read.
    """
    folder = replace(folder, recorded=None)
    try:
        folder.storage.reopen(folder.location)
        return open(folder)
    except FileNotFoundError:
        folder.storage.reopen(folder.location)
        return open(folder)


class IcebergTable(WritableTable):
    """An Iceberg table as one metadata file describes it: that of its opening, or the newest after `refresh`.

    A snapshot opened by its id has the columns of the schema that it was written with, the current one those of the
    table's current schema.

    Attributes:
        place: where commits go, if not to the folder: the catalog that the table was opened from.
        reference: the branch or tag whose snapshot is the current one here.
    """

    kind = TableKind.ICEBERG

    def __init__(self, folder: Folder, metadata: TableMetadata, skipped_metadata: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self._read: tuple[TableMetadata, tuple[str, ...]] | None = (metadata, skipped_metadata)
        self.place: Place | None = None
        self.reference = MAIN
        self._plans: Cache[str, ScanPlan] = Cache(_KEPT_PLANS, lambda _: 1)  # by manifest list: snapshots may share one
        self._lists: Cache[str, list[Manifest]] = Cache(_KEPT_MANIFESTS, lambda manifests: len(manifests) + 1)
        self._entries: Cache[Manifest, ManifestFiles] = Cache(
            _KEPT_ENTRIES, lambda files: 1 + len(files) + len(files.equality)
        )
        self._deletes: Cache[str, PositionDeletes] = Cache(_KEPT_DELETES, lambda deletes: deletes.cost)

    @property
    def metadata(self) -> TableMetadata:
        """The metadata file."""
        return self._newest()[0]

    @property
    def skipped_metadata(self) -> tuple[str, ...]:
        """Bare names of metadata files next to it that may be newer: their names have no version."""
        return self._newest()[1]

    def refresh(self) -> None:
        """Read the newest metadata file with the next call, as the catalog or folder has it; see `Table.refresh`."""
        super().refresh()
        self._read = None

    def _newest(self) -> tuple[TableMetadata, tuple[str, ...]]:
        if self._read is None:
            newest = open_newest(self.folder) if self.place is None else self.place.load()
            self._read = newest.metadata, newest.skipped_metadata
        return self._read

    def at(self, reference: str) -> Self:
        """Have a branch or tag be the current state of this table, and return the table.

        Raises:
            UsageError: it has no such branch or tag.
        """
        known = self.metadata.references
        if reference not in known:
            raise UsageError(f"{self.location}: no branch or tag {reference}; there are {', '.join(known)}")
        self.reference = reference
        return self

    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """Return the snapshots of the metadata by sequence number, with the current one last, whatever its branch.

        Of a table opened at another branch or at a tag, these are its snapshot and the ancestors of that.
        """
        metadata = self.metadata
        if self.reference == MAIN:
            return tuple(record.info for record in metadata.snapshots.values())
        found: list[SnapshotInfo] = []
        number = self._current
        while number in metadata.snapshots:
            found.append(metadata.snapshots[number].info)
            number = found[-1].parent
        return tuple(reversed(found))

    @property
    def _current(self) -> int | None:
        """The id of the current snapshot.

        Raises:
            UsageError: the branch or tag has been removed.
        """
        self.at(self.reference)
        return self.metadata.references[self.reference].snapshot_id

    @checks_snapshot
    def snapshot(self, id: int | None = None) -> IcebergSnapshot:  # noqa: A002
        """Return a snapshot; None = the current one, that of the branch or tag (the main branch, by default).

        For a table without a current snapshot, this has the table's schema and no data files; its id is -1, as in the
        metadata.

        Its vectors are deletion vectors and position delete files. Equality deletes are not among them: see
        `Snapshot.deleted_by_value`.

        Raises:
            UsageError: there is no such snapshot.
            DecodeError: its manifests are corrupt.
            Unsupported: they are encrypted, or have an unknown feature.
            OSError: they cannot be read.
        """
        metadata = self.metadata
        current = self._current
        number = current if id is None else id
        if current is None and number in (None, NO_SNAPSHOT):
            info, plan, schema_id = SnapshotInfo(NO_SNAPSHOT), ScanPlan.of((), metadata.source), None
        elif number is None or number not in metadata.snapshots:
            raise UsageError(f"{self.location}: no snapshot {number}")
        else:
            record = metadata.snapshots[number]
            info, schema_id = record.info, record.schema_id
            source = self.manifest_list(record)
            plan = self._plans.get(source, lambda: ScanPlan.of(self.read_each(self.listed(record)), source))
        has_own_columns = id is not None or not metadata.references[self.reference].is_branch
        return self.snapshot_of(info, plan, schema_id if has_own_columns else None)

    def walk_from(self, snapshot: Snapshot) -> ManifestWalk:
        """Return what reads the manifests that neighbours do not share; see `Table.walk_from`."""
        return ManifestWalk(self, cast("IcebergSnapshot", snapshot))

    def snapshot_of(self, info: SnapshotInfo, plan: ScanPlan, schema_id: int | None) -> IcebergSnapshot:
        """Return a snapshot of these files, in the table's current schema by default."""
        return IcebergSnapshot(
            self,
            info,
            plan.data_files,
            plan.vectors,
            self.metadata.current_schema_id if schema_id is None else schema_id,
            metadata=self.metadata,
            plan=plan,
            deletes=self._deletes,
            locate_each=self.locate_each,
            skipped_metadata=self.skipped_metadata,
        )

    def referenced(self) -> frozenset[str]:
        """Return the locations of metadata, statistics, manifests, data files and delete files of all snapshots.

        Raises:
            UsageError: another metadata file is as new or newer: what its snapshots need is unknown.
            DecodeError: manifests are corrupt.
            OSError: they cannot be read.
        """
        metadata = self.metadata
        if self.place is None or not self.place.knows_newest:
            check_newest(metadata.source, self.folder.storage, metadata.earlier)
        found = {metadata.source, self.folder.join(f"{METADATA}/{VERSION_HINT}")}
        found.update(map(self._locate, (*metadata.metadata_log, *metadata.statistics)))
        # Each file is read once, however many snapshots and lists name it.
        lists = dict.fromkeys(map(self.manifest_list, metadata.snapshots.values()))
        found.update(lists)
        manifests: dict[str, Manifest] = {}
        for manifest in chain.from_iterable(self._each(self._read_list, lists)):
            manifests.setdefault(manifest.location, manifest)  # lists differ in numbers that its entries inherit
        found.update(manifests)
        for entries in self._each(self._read_manifest, manifests.values()):
            found.update(self.locate_each(entries.entries.paths))
            found.update(one.file.location for one in entries.equality)
        return frozenset(found)

    def _each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Read metadata files of one level, several concurrently if they are remote."""
        return run_bounded(work, items, self.folder.storage.readers(self.location))

    def read_each(self, manifests: Iterable[Manifest]) -> Iterator[ManifestFiles]:
        """Return the live files of each of the manifests: data files, vectors, position deletes, equality deletes.

        Raises:
            DecodeError: manifests are corrupt.
            OSError: they cannot be read.
        """
        return self._each(self._read_manifest, manifests)

    def listed(self, record: SnapshotRecord) -> list[Manifest]:
        """Return the manifests of a snapshot.

        Raises:
            DecodeError: their list is corrupt.
            OSError: it cannot be read.
        """
        location = self.manifest_list(record)
        return self._lists.get(location, lambda: self._read_list(location))

    def _read_list(self, location: str) -> list[Manifest]:
        return read_list(location, self._locate, self.folder.storage)

    def manifest_list(self, record: SnapshotRecord) -> str:
        """Return the location of a snapshot's manifest list.

        Raises:
            Unsupported: it has none, or an encrypted one.
        """
        where = f"snapshot {record.info.id}"
        if record.manifest_list is None:
            raise Unsupported(where, source=self.metadata.source, expected="a manifest-list", actual="manifests")
        if record.encrypted:
            raise Unsupported(where, source=self.metadata.source, expected="no encryption", actual="a key-id")
        return self._locate(record.manifest_list)

    def _read_manifest(self, manifest: Manifest) -> ManifestFiles:
        fields = self.metadata.specs.get(manifest.spec_id)
        if fields is None:
            what, source = f"partition_spec_id of {manifest.path}", self.metadata.source
            raise NotCanonical(what, source=source, expected="one of partition-specs", actual=manifest.spec_id)
        storage = self.folder.storage
        return self._entries.get(
            manifest, lambda: read_manifest(manifest, fields, self._locate, storage, self._are_inside)
        )

    def _are_inside(self, paths: Sequence[str]) -> bool:
        """Whether paths are all below the folder, and have nothing that `_locate` checks."""
        return self._below(paths) is not None

    def _below(self, paths: Sequence[str]) -> str | None:
        """Return paths relative to the folder, each after a line feed; None if `_locate` has to look at each."""
        root, text = f"\n{self.metadata.location}/", "\n".join(["", *paths])
        if not len(paths) == text.count(root) == text.count("\n") or not text.isascii():
            return None
        below = text.replace(root, "\n")
        odd = below.endswith("\n") or any(one in below for one in _ODD)
        return None if odd or max(map(len, paths), default=0) > MOST_CHARACTERS else below

    def locate_each(self, paths: Sequence[str]) -> list[str]:
        """Return where recorded paths can be opened.

        Raises:
            NotCanonical, Unsupported: see `Folder.locate`.
        """
        below, folder = self._below(paths), self.folder.location
        if not below or "::" in folder or (is_url(folder) and is_local(folder)):
            return list(map(self._locate, paths))
        above = self.folder.join("x")[:-1]
        return below.replace("\n", f"\n{above}").split("\n")[1:]

    def _locate(self, path: str) -> str:
        root = self.metadata.location
        below = path[len(root) :]
        if path.startswith(f"{root}/") and "//" not in below and "/." not in below:  # as most of many thousands are
            return self.folder.join(below[1:])
        return self.folder.locate(path)


class ManifestWalk(Walk):
    """Reads the manifests that are not in both of two snapshots: to go to another one costs what differs.

    Position deletes that name no data file, or one by another scheme, may be for any data file: the walk does not go to
    a snapshot with such deletes.

    Args:
        table: whose snapshots.
        start: a whole one.
    """

    def __init__(self, table: IcebergTable, start: IcebergSnapshot) -> None:
        self.info = start.info
        self._table = table
        self._start: IcebergSnapshot | None = start
        self._is_plain = True
        self._next = count()
        self._numbers: dict[Manifest, int] = {}
        self._parts: dict[int, ManifestFiles] = {}
        self._data: dict[str, int] = {}
        self._deletes: dict[str | None, list[int]] = {}

    def step(self, info: SnapshotInfo) -> tuple[Snapshot, Snapshot] | None:
        """Go to another snapshot; see `Walk.step`. Equality deletes are only those of manifests that are not in both.

        Files that come again in the same form are not a change.

        Raises:
            NotCanonical: also if a data file is there twice.
        """
        table, before = self._table, self.info
        if self._start is not None:
            plan, listed = self._start.plan, table.listed(table.metadata.snapshots[before.id])
            self._is_plain = self._exchange((), dict(zip(listed, plan.parts, strict=True)), "") and not plan.respelled
            self._start = None
        if not self._is_plain:
            return None
        record = table.metadata.snapshots[info.id]
        now = dict.fromkeys(table.listed(record))
        gone = {manifest: self._parts[number] for manifest, number in self._numbers.items() if manifest not in now}
        added = [manifest for manifest in now if manifest not in self._numbers]
        new = dict(zip(added, table.read_each(added), strict=True))
        changed = {path for path, *_ in _compared(gone.values()) ^ _compared(new.values())}
        old_part = self._of(changed)
        self._is_plain = self._exchange(gone, new, table.manifest_list(record))
        self.info = info
        if not self._is_plain:
            return None
        return self._part(before, old_part, gone.values()), self._part(info, self._of(changed), new.values())

    def _part(self, info: SnapshotInfo, parts: Sequence[ManifestFiles], alone: Iterable[ManifestFiles]) -> Snapshot:
        """Return a snapshot of these files, and of the equality deletes of manifests that it has alone."""
        table, record = self._table, self._table.metadata.snapshots[info.id]
        equality = [
            part.take(_NO_FILES, part.equality) for part in alone if isinstance(part, Deletes) and part.equality
        ]
        plan = ScanPlan.of([*parts, *equality], table.manifest_list(record))
        return table.snapshot_of(info, plan, record.schema_id)

    def _exchange(self, gone: Iterable[Manifest], new: Mapping[Manifest, ManifestFiles], source: str) -> bool:
        """Take manifests out, and put others in; return whether all position deletes name a data file that is here.

        Args:
            gone: some of those that are here.
            new: others, and their files.
            source: lists them, for errors.

        Raises:
            NotCanonical: a data file is there twice.
        """
        touched = set[str | None]()
        for manifest in gone:
            touched |= self._take_out(manifest)
        for manifest, part in new.items():
            touched |= self._put_in(manifest, part, source)
        return all(map(self._has_vectors_alone, touched - self._data.keys()))

    def _take_out(self, manifest: Manifest) -> set[str | None]:
        """Return the data files that its files are of."""
        number = self._numbers.pop(manifest)
        part = self._parts.pop(number)
        paths = set(part.paths)
        if isinstance(part, DataFiles):
            for path in part.entries.paths:
                del self._data[path]
            return paths
        for named in paths:
            left = [one for one in self._deletes.pop(named) if one >> _BITS != number]
            if left:
                self._deletes[named] = left
        return paths

    def _put_in(self, manifest: Manifest, part: ManifestFiles, source: str) -> set[str | None]:
        """Return the data files that its position deletes are of."""
        number = self._numbers[manifest] = next(self._next)
        self._parts[number] = part
        places = range(number << _BITS, (number << _BITS) + len(part))
        if isinstance(part, DataFiles):
            known = len(self._data)
            self._data.update(zip(part.entries.paths, places, strict=True))  # a loop would take a third longer
            if len(self._data) < known + len(part):
                data = (one for one in self._parts.values() if isinstance(one, DataFiles))
                counts = Counter(path for one in data for path in one.entries.paths)
                raise repeated(counts.most_common(1)[0][0], source)
            return set()
        for named, place in zip(part.paths, places, strict=True):
            self._deletes.setdefault(named, []).append(place)
        return {part.paths[number] for number in np.flatnonzero(~part.bitmaps).tolist()}

    def _of(self, paths: Iterable[Hashable]) -> list[ManifestFiles]:
        """Return the files that are of data files, in the order of the manifests."""
        named = [path for path in paths if isinstance(path, str)]
        found = [self._data[path] for path in named if path in self._data]
        found += [one for path in named for one in self._deletes.get(path, ())]
        places = np.sort(np.array(found, np.int64))
        numbers, firsts = np.unique(places >> _BITS, return_index=True)
        groups = np.split(places & _PLACE, firsts[1:]) if found else []
        return [self._parts[number].take(group) for number, group in zip(numbers.tolist(), groups, strict=True)]

    def _has_vectors_alone(self, path: str | None) -> bool:
        """Whether there are no position deletes of a data file, or of those that name none."""
        of_path = [(self._parts[one >> _BITS], one & _PLACE) for one in self._deletes.get(path, ())]
        return all(part.bitmaps[place] for part, place in of_path if isinstance(part, Deletes))


def _compared(parts: Iterable[ManifestFiles]) -> set[tuple[Hashable, ...]]:
    return set[tuple[Hashable, ...]]().union(*(part.compared() for part in parts))


def table_of(snapshot: IcebergSnapshot) -> IcebergTable:
    """Return the table of a snapshot, by its own type."""
    return cast("IcebergTable", snapshot.table)


class Place(ABC):
    """Knows which metadata file of a table is current: a folder, or a catalog.

    Attributes:
        knows_newest: whether it is certain which file is current, regardless of the files in the folder.
    """

    knows_newest: bool = False

    @abstractmethod
    def load(self) -> IcebergTable:
        """Open the table as it is now, not from a cache.

        Raises:
            UsageError: it does not exist any more.
            DecodeError: its metadata is corrupt.
            OSError: it cannot be read.
        """

    @abstractmethod
    def check(self, table: IcebergTable, members: JsonFields) -> None:
        """Refuse a table that cannot be committed to here.

        Raises:
            UsageError: the message says why, and what to do instead.
        """

    @abstractmethod
    def put(self, table: IcebergTable, members: JsonFields, change: Change) -> None:
        """Make the change, if the table is still as it was loaded.

        Args:
            table: of `load`.
            members: its metadata.
            change: the commit.

        Raises:
            CommitConflict: the table has changed; nothing is committed.
            CommitUnknown: it could not be found out whether the change is in.
            OSError: it cannot be written; nothing is committed.
        """

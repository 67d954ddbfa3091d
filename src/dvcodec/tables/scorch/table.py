"""Scorch indexes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from dvcodec.core.errors import DecodeError, DvcodecError, NotCanonical, Unsupported, UsageError
from dvcodec.io.parallel import run_bounded
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import DataFile, DeletionVector, SnapshotInfo, TableKind, refuse_twins
from dvcodec.tables.scorch.metadata import Epoch, Root, SegmentEntry, read_root, read_transaction
from dvcodec.tables.scorch.snapshot import ScorchSnapshot, SegmentRecord
from dvcodec.tables.snapshots.older import checks_snapshot
from dvcodec.tables.table import Table
from dvcodec.zap.footer import decode_footer

ROOT, STORE, SEGMENT_SUFFIX = "root.bolt", "store", ".zap"


def open(location: Folder | str | os.PathLike[str]) -> ScorchTable:  # noqa: A001  (every kind of table has one)
    """Open an index by its folder, or by the folder ``store`` in it.

    Args:
        location: the `Folder`; or its path or URL, if it needs no storage options.

    Raises:
        UsageError: there is no ``root.bolt``.
        OSError: the folder cannot be read.
    """
    folder = Folder.of(location)
    for store in ("", f"{STORE}/"):
        if ROOT in folder.names(store.rstrip("/")):
            return ScorchTable(folder, store)
    raise UsageError(f"{folder.location}: not a scorch index (neither {ROOT} nor {STORE}/{ROOT} exists)")


class ScorchTable(Table):
    """A scorch index; see `Table`."""

    kind = TableKind.SCORCH

    def __init__(self, folder: Folder, store: str) -> None:
        """`store` is the path from the folder to ``root.bolt``: nothing, or ``store/``."""
        self.folder = folder
        self._store = store

    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """Return the epochs, oldest first. Epochs record neither operation nor parent, and older ones no time.

        Raises:
            DecodeError: the file of epochs is corrupt.
            OSError: it cannot be read.
        """
        return tuple(map(_info, self._root().epochs))

    @checks_snapshot
    def snapshot(self, id: int | None = None) -> ScorchSnapshot:  # noqa: A002
        """Return an epoch; see `Table.snapshot`.

        Rows and bytes of a segment are those of its file, whose footer is read; they are None if there is no such
        file or its footer is corrupt, and then `SegmentRecord.problem` says why. Cardinalities are not recorded.

        Raises:
            Unsupported: contents that the application transformed (encrypted).
        """
        return self._snapshot(self._root(), id)

    def opener(self) -> Callable[[int], ScorchSnapshot]:
        """Return what opens epochs; see `Table.opener`. Their file is read again if it was written meanwhile."""
        root = self._root()

        def opened(id_: int) -> ScorchSnapshot:
            nonlocal root
            if read_transaction(self._location(ROOT), self.folder.storage) != root.transaction:
                root = self._root()
            return self._snapshot(root, id_)

        return opened

    def _snapshot(self, root: Root, id: int | None) -> ScorchSnapshot:  # noqa: A002
        found = {epoch.id: epoch for epoch in root.epochs}
        if not found or (id is not None and id not in found):
            raise UsageError(f"{self.location}: no snapshot {'yet' if id is None else id}")
        epoch = found[max(found) if id is None else id]
        if epoch.writer_id:
            raise Unsupported(
                "contents transformed by a writer of its own",
                source=self._location(ROOT),
                expected="an empty writer id",
                actual=repr(epoch.writer_id[:40]),
            )
        refuse_twins((entry.file_name for entry in epoch.segments), "segments of one file", self._location(ROOT))
        dropped = tuple(sorted({name for entry in epoch.segments for name in entry.dropped_fields}))
        threads = self.folder.storage.readers(self.location)
        data_files = tuple(run_bounded(lambda one: self._data_file(one, epoch, dropped), epoch.segments, threads))
        vectors = tuple(self._vectors(epoch.segments, data_files))
        return ScorchSnapshot(self, _info(epoch), data_files, vectors, transaction=root.transaction)

    def referenced(self) -> frozenset[str]:
        """Return the locations of all files that an epoch needs.

        Segments are those that ``root.bolt`` names; every other file of the index counts as referenced.
        """
        found = {self._location(entry.file_name) for epoch in self._root().epochs for entry in epoch.segments}
        others = (file.location for file in self.stored_files() if not file.location.endswith(SEGMENT_SUFFIX))
        return frozenset(found.union(others))

    def _root(self) -> Root:
        return read_root(self._location(ROOT), self.folder.storage)

    def _location(self, name: str) -> str:
        return self.folder.join(self._store + name)

    def _data_file(self, entry: SegmentEntry, epoch: Epoch, dropped: tuple[str, ...]) -> DataFile:
        location = self._location(entry.file_name)
        rows, size = None, None
        problem: DvcodecError | OSError | None = None
        try:
            with self.folder.storage.open(location) as source:
                size = source.size
                footer = decode_footer(source)
                if footer.version != epoch.version:
                    raise NotCanonical("zap version", source=location, expected=epoch.version, actual=footer.version)
            rows = footer.num_docs
        except (FileNotFoundError, DecodeError) as error:
            problem = error
        return DataFile(entry.file_name, location, rows, size, record=SegmentRecord(entry.id, rows, dropped, problem))

    def _vectors(self, entries: Iterable[SegmentEntry], data_files: Iterable[DataFile]) -> Iterator[DeletionVector]:
        for entry, data_file in zip(entries, data_files, strict=True):
            if entry.deleted is not None:
                yield DeletionVector(
                    "scorch",
                    data_file.path,
                    self._store + ROOT,
                    self._location(ROOT),
                    entry.deleted.offset,
                    len(entry.deleted.data),
                    record=data_file.record,
                )


def _info(epoch: Epoch) -> SnapshotInfo:
    return SnapshotInfo(epoch.id, epoch.timestamp_ms)

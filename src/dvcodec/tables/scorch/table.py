"""Scorch indexes and their epochs: bitmaps of deleted documents, and the stored documents, one row each.

``root.bolt`` has the snapshots, their segments, and where deleted documents are stored. Source: bleve
``index/scorch/persister.go`` (``prepareBoltSnapshot``, ``loadSnapshot``), ``util/keys.go``. Buckets::

    s                snapshots, and t: training data of vector indexes, not read
      <epoch>        one snapshot
        m            type "zap" | version (u32 BE, and a zero byte) | timeStamp (RFC 3339) | fileWriterID
        i            internal data of the index, not read
        <segment>    p: name of the file | d: deleted documents, a 32-bit portable roaring bitmap
                     stats: not read | fields: JSON, fields that were dropped since the segment was written

Epochs and segment numbers are encoded as keys that sort numerically: v up to 109 as one byte, 136 + v; others as the
byte 245 + n and n bytes, big-endian, as few as possible.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import DecodeError, DvcodecError, LimitExceeded, NotCanonical, Unsupported, UsageError
from dvcodec.core.extras import pa
from dvcodec.core.json_text import parse_json
from dvcodec.core.ragged import offsets_of
from dvcodec.core.rowset import RowSet
from dvcodec.formats import ContainerKind, VectorRef
from dvcodec.io import Storage, open_source
from dvcodec.io.storage import run_bounded
from dvcodec.io.target import hide_values
from dvcodec.ops.convert import measure
from dvcodec.ops.read import read_vector
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import (
    WHOLE,
    DataFile,
    DeletedRows,
    DeletionVector,
    Part,
    PhysicalRows,
    Record,
    RowReader,
    SnapshotInfo,
    TableKind,
    refuse_twins,
)
from dvcodec.tables.rows.bounds import RowGroupFilter
from dvcodec.tables.rows.columns import chosen, select
from dvcodec.tables.scorch.bolt import Bucket, Tree, Value, read_bolt, read_metas, tree_of
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.table import Snapshot, Table, checks_snapshot
from dvcodec.zap import Edges, Segment, verify_segment
from dvcodec.zap.footer import VERSIONS, decode_footer

# ---------------------------------------------------------------------- root.bolt

SNAPSHOTS, TRAINER, META_DATA, INTERNAL = b"s", b"t", b"m", b"i"
_SMALL, _ZERO, _LONG = 109, 136, 245
_READINGS = 5
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))")
_FILE_NAME = re.compile(r"[^/\\\x00]+")
Kind = TypeVar("Kind", Bucket, Value)


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment of a snapshot.

    Attributes:
        id: its number.
        file_name: bare name of its file.
        deleted: the bitmap of deleted documents as stored, or None.
        dropped_fields: fields whose stored values are no longer valid.
        bucket: all of it.
    """

    id: int
    file_name: str
    deleted: Value | None
    dropped_fields: frozenset[str]
    bucket: Tree = field(repr=False, compare=False)

    def deleted_rows(self) -> RowSet:
        """Read the deleted documents.

        Raises:
            DecodeError: the bitmap is corrupt.
        """
        if self.deleted is None:
            return RowSet()
        try:
            with open_source(self.deleted.data, name=self.deleted.source) as source:
                return read_vector(source, VectorRef(ContainerKind.ROARING32, 0, source.size)).load()
        except DecodeError as error:
            error.offset = self.deleted.offset + (error.offset or 0)
            raise


@dataclass(frozen=True, slots=True)
class Epoch:
    """A snapshot.

    Attributes:
        id: its epoch.
        timestamp_ms: when it was written, milliseconds since 1970 UTC; None in older indexes.
        version: version of its zap segments.
        writer_id: names the program that transformed the contents; empty if none did.
        segments: ascending by number; documents are numbered in this order.
    """

    id: int
    timestamp_ms: int | None
    version: int
    writer_id: bytes
    segments: tuple[SegmentEntry, ...]


@dataclass(frozen=True, slots=True)
class Root:
    """The snapshots in ``root.bolt``.

    Attributes:
        transaction: number of the last transaction; while it is the same, so are the bytes at any offset.
        epochs: ascending.
        contents: the whole tree.
    """

    transaction: int
    epochs: tuple[Epoch, ...]
    contents: Bucket = field(repr=False, compare=False)


def read_root(location: str, storage: Storage, *, before: bool = False) -> Root:
    """Read ``root.bolt``; repeat if a writer ended a transaction meanwhile.

    With `before`, what it contained before the last transaction; see `read_bolt`.

    Raises:
        DecodeError: it is corrupt.
        OSError: it cannot be read.
    """
    for _ in range(_READINGS):
        last = read_transaction(location, storage)
        try:
            with storage.open(location) as source:
                _, root = read_bolt(source, before=before, limits=storage.limits)
        except DecodeError:
            if read_transaction(location, storage) == last:
                raise
            continue
        if read_transaction(location, storage) == last:
            return Root(last, _epochs(root), root)
    raise NotCanonical(
        "transactions",
        source=location,
        expected="none while the file is read",
        actual=f"one in each of {_READINGS} readings",
    )


def read_transaction(location: str, storage: Storage) -> int:
    """Return the number of the last transaction.

    A local file is opened again, because an open one may have buffered old bytes. Objects are never partially written,
    and a `Storage` never mixes two versions of one.
    """
    with storage.open(location) as source:
        return read_metas(source)[0].transaction


def encode_key(value: int) -> bytes:
    """Encode an epoch or the number of a segment as a key.

    >>> encode_key(0).hex(), encode_key(110).hex(), encode_key(256).hex()
    ('88', 'f66e', 'f70100')
    """
    if value <= _SMALL:
        return bytes([_ZERO + value])
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([_LONG + len(data)]) + data


def _decode_key(key: bytes, bucket: Bucket, what: str) -> int:
    value = key[0] - _ZERO if key[0] <= _LONG else int.from_bytes(key[1:], "big")
    if value < 0 or len(key) > 9 or encode_key(value) != key:
        raise _error(what, bucket, "an ordered integer", key[:16].hex(" "))
    return value


def _epochs(root: Bucket) -> tuple[Epoch, ...]:
    snapshots = _find(root, SNAPSHOTS, Bucket, "snapshots")
    if snapshots is None:
        return ()
    return tuple(_epoch(key, snapshots) for key in snapshots.entries if key != TRAINER)


def _epoch(key: bytes, snapshots: Bucket) -> Epoch:
    bucket = _get(snapshots, key, Bucket, "snapshot")
    number = _decode_key(key, bucket, "epoch of a snapshot")
    meta = _get(bucket, META_DATA, Bucket, f"meta data of snapshot {number}")
    kind = _get(meta, b"type", Value, "type of the segments")
    if bytes(kind.data) != b"zap":
        raise _error("type of the segments", kind, "zap", repr(bytes(kind.data[:32])), Unsupported)
    stored = _get(meta, b"version", Value, "version of the segments")
    version = int.from_bytes(stored.data[:4], "big")
    if len(stored.data) < 4 or version not in VERSIONS:
        raise _error("version of the segments", stored, "11 to 17", stored.data[:8].hex(" "), Unsupported)
    writer = _find(meta, b"fileWriterID", Value, "writer id")
    segments = [_segment(key, bucket, number) for key in bucket.entries if key not in (META_DATA, INTERNAL)]
    return Epoch(
        number,
        _milliseconds(_find(meta, b"timeStamp", Value, "time")),
        version,
        b"" if writer is None else bytes(writer.data),
        tuple(segments),
    )


def _segment(key: bytes, snapshot: Bucket, epoch: int) -> SegmentEntry:
    bucket = _get(snapshot, key, Bucket, f"segment of snapshot {epoch}")
    number = _decode_key(key, bucket, "number of a segment")
    name = _get(bucket, b"p", Value, f"file name of segment {number}")
    text = _text(name, "file name of a segment")
    if _FILE_NAME.fullmatch(text) is None or text in (".", ".."):
        raise _error("file name of a segment", name, "a bare name", repr(text))
    return SegmentEntry(
        number,
        text,
        _find(bucket, b"d", Value, "deleted documents"),
        _dropped(_find(bucket, b"fields", Value, "dropped fields")),
        tree_of(bucket),
    )


def _dropped(value: Value | None) -> frozenset[str]:
    """Return the fields that a mapping change dropped: ``{name: {"Deleted": .., "Store": ..}}``, either true."""
    if value is None:
        return frozenset()
    found = parse_json(_text(value, "dropped fields"), value.source, "dropped fields", offset=value.offset)
    if found is None:
        return frozenset()
    if not isinstance(found, dict) or not all(isinstance(info, dict) for info in found.values()):
        raise _error("dropped fields", value, "an object of objects", "JSON of another form")
    return frozenset(name for name, info in found.items() if info.get("Deleted") is True or info.get("Store") is True)


def _milliseconds(value: Value | None) -> int | None:
    """Read an RFC 3339 time, truncated to milliseconds."""
    if value is None:
        return None
    text = _text(value, "time of a snapshot")
    match = _TIME.fullmatch(text)
    try:
        moment = datetime.fromisoformat(match[1]).replace(tzinfo=timezone.utc) if match else None
    except ValueError:
        moment = None
    if match is None or moment is None:
        raise _error("time of a snapshot", value, "an RFC 3339 time", repr(text[:64]))
    seconds = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(seconds=1)
    if match[3]:
        ahead = 3600 * int(match[4]) + 60 * int(match[5])
        seconds -= ahead if match[3] == "+" else -ahead
    return seconds * 1000 + int((match[2] or "").ljust(3, "0")[:3])


def _text(value: Value, what: str) -> str:
    try:
        return bytes(value.data).decode()
    except UnicodeDecodeError as error:
        raise _error(what, value, "UTF-8", str(error)) from None


def _get(bucket: Bucket, key: bytes, kind: type[Kind], what: str) -> Kind:
    found = _find(bucket, key, kind, what)
    if found is None:
        raise _error(what, bucket, f"key {key!r}", "none")
    return found


def _find(bucket: Bucket, key: bytes, kind: type[Kind], what: str) -> Kind | None:
    found = bucket.entries.get(key)
    if found is not None and not isinstance(found, kind):
        raise _error(what, found, f"a {kind.__name__.lower()}", f"a {type(found).__name__.lower()}")
    return found


def _error(
    what: str, place: Value | Bucket, expected: str, actual: str, kind: type[DecodeError] = NotCanonical
) -> DecodeError:
    return kind(what, source=place.source, offset=place.offset, expected=expected, actual=actual)


# ---------------------------------------------------------------------- the model

ID, PARENT, STORED = "_id", "_parent", "_stored"


def schema() -> pa.Schema:
    """Return the columns of stored documents, which are the same for every index.

    ``_id`` binary; ``_parent`` int64, the document of the same segment that it is nested in, null for others;
    ``_stored`` list of (field, type, value, array_positions), in stored order, see `dvcodec.zap.columns.SCHEMAS`.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    value = pa.struct(
        [
            pa.field("field", pa.string(), nullable=False),
            pa.field("type", pa.string(), nullable=False),
            pa.field("value", pa.binary(), nullable=False),
            pa.field("array_positions", pa.list_(pa.uint64()), nullable=False),
        ]
    )
    return pa.schema(
        [
            pa.field(ID, pa.binary(), nullable=False),
            pa.field(PARENT, pa.int64()),
            pa.field(STORED, pa.list_(pa.field("item", value, nullable=False)), nullable=False),
        ]
    )


_ALL_VALUES = 1 << 62
"""Values in a batch of `Segment.to_arrow`: batches then end where documents do, and are bounded by bytes."""

_MOST_NAMES = 2**31 - 1
"""Bytes that a column of text may have."""


def read_rows(
    data_file: DataFile,
    storage: Storage,
    dropped: Collection[str],
    columns: Sequence[str] | None,
    *,
    batch_rows: int,
    part: Part = WHOLE,
    wanted: RowGroupFilter | None = None,  # noqa: ARG001  (it has no row groups)
) -> Iterator[PhysicalRows]:
    """Yield the documents of a segment in order, a bounded part of the file at a time.

    Args:
        data_file: the segment.
        storage: opens it.
        dropped: fields whose values are omitted.
        columns: of `schema`, in this order; None = all.
        batch_rows: maximum documents in a batch.
        part: of the segment; all of it is in the first.
        wanted: see `Snapshot.rows`.

    Raises:
        UsageError: no such column.
        DecodeError: the segment is corrupt.
        OSError: it cannot be read.
    """
    whole = schema()
    names = chosen(whole.names, columns, data_file.location)
    if part.number:
        return
    start = 0
    location = data_file.location
    with (
        hide_values(location, storage.home),
        Segment.open(location, limits=storage.limits, storage_options=storage) as segment,
    ):
        hidden = np.array([info.id for info in segment.fields if info.name in dropped], np.int64)
        lengths = np.array([len(info.name.encode()) for info in segment.fields], np.int64)
        for values in segment.to_arrow("stored", batch_rows=_ALL_VALUES):
            _check_names(lengths, values, location)
            batch = _batch(values, start, hidden, segment.edges, whole).select(names)
            for at in range(0, batch.num_rows, batch_rows):
                yield PhysicalRows(start + at, batch.slice(at, batch_rows))
            start += batch.num_rows
    if start != data_file.physical_rows:
        raise NotCanonical(
            "documents of the segment", source=data_file.location, expected=data_file.physical_rows, actual=start
        )


def _check_names(lengths: NDArray[np.int64], values: pa.RecordBatch, location: str) -> None:
    """Check the names of fields, which the segment stores once: a row repeats the name for each value."""
    size = int(lengths[values["field"].indices.to_numpy()].sum())
    if size > _MOST_NAMES:
        expected = f"at most {_MOST_NAMES} bytes for the values of a batch"
        raise LimitExceeded("names of fields", source=location, expected=expected, actual=size)


def _batch(
    values: pa.RecordBatch, first: int, hidden: NDArray[np.int64], edges: Edges, whole: pa.Schema
) -> pa.RecordBatch:
    """Group the values of whole documents, one row each; the first value of a document is its id."""
    owner = values["doc"].to_numpy() - first
    heads = np.flatnonzero(np.diff(owner, prepend=-1))
    kept = ~np.isin(values["field"].indices.to_numpy(), hidden)
    kept[heads] = False
    count = len(heads)
    offsets = offsets_of(np.bincount(owner[kept], minlength=count)).astype(np.int32)
    rest = values.filter(pa.array(kept))
    item = whole.field(STORED).type.value_field
    columns = [rest["field"].dictionary_decode(), rest["type"], rest["value"], rest["array_positions"]]
    stored = pa.ListArray.from_arrays(
        pa.array(offsets), pa.StructArray.from_arrays(columns, fields=list(item.type)), type=whole.field(STORED).type
    )
    parents = np.full(count, -1, np.int64)
    inside = slice(*np.searchsorted(edges.children, (first, first + count)))
    parents[edges.children[inside] - first] = edges.parents[inside]
    return pa.RecordBatch.from_arrays(
        [values["value"].take(pa.array(heads)), pa.array(parents, mask=parents < 0), stored], schema=whole
    )


@dataclass(frozen=True, slots=True)
class SegmentRecord(Record):
    """What is recorded of a segment, and of its deleted documents.

    Attributes:
        segment: its number.
        num_docs: documents by its footer, deleted ones included; None if that cannot be read.
        dropped_fields: of the whole index: fields whose stored values are no longer valid.
        problem: why its footer cannot be read, or that it is not the one that the epoch names; None if all is well.
    """

    segment: int
    num_docs: int | None
    dropped_fields: tuple[str, ...]
    problem: DvcodecError | OSError | None


@dataclass(frozen=True, repr=False, kw_only=True)
class ScorchSnapshot(Snapshot):
    """An epoch of a scorch index; see `Snapshot`.

    Attributes:
        transaction: of ``root.bolt``, in which the epoch was read.
    """

    transaction: int = field(repr=False, compare=False)

    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        """Read a bitmap by its byte range.

        Raises:
            NotCanonical: also if ``root.bolt`` was written since the snapshot was read.
            DecodeError: the bitmap is corrupt.
            OSError: ``root.bolt`` cannot be read.
        """
        record = self._record(vector, SegmentRecord)
        try:
            with self.table.folder.storage.open(vector.location) as source:
                ref = VectorRef(ContainerKind.ROARING32, vector.offset or 0, vector.size or 0)
                stored = read_vector(source, ref, limits=self.table.folder.storage.limits)
        finally:
            self._refuse_later(vector.location)
        with hide_values(vector.location, self.table.folder.storage.home):
            rows = stored.load()
            stats = measure(stored, row_count=record.num_docs)
        return (DeletedRows(str(vector.data_file), rows, stats),)

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Finding]:
        """Check ``root.bolt`` as a whole, and the segments of vectors.

        Checks, for each record, ``range``: the key ``d`` of its segment is at this very range.

        Raises:
            DecodeError: ``root.bolt`` is corrupt.
        """
        ranges = {
            entry.id: (entry.deleted.offset, len(entry.deleted.data))
            for epoch in read_root(location, self.table.folder.storage).epochs
            for entry in epoch.segments
            if epoch.id == self.info.id and entry.deleted is not None
        }
        for vector in vectors:
            record = self._record(vector, SegmentRecord)
            found, expected = ranges.get(record.segment), (vector.offset, vector.size)
            if found != expected:
                yield Finding.of_vector("range", vector, "offset and size of the bitmap", expected, found or "none")

    def damaged_files(self) -> Mapping[str, DvcodecError | OSError]:
        """Return the segments that are missing, or whose footers are corrupt or of another version."""
        records = ((file.path, SegmentRecord.of(file).problem) for file in self.data_files)
        return {path: problem for path, problem in records if problem is not None}

    def check_contents(self, data_file: DataFile) -> Iterator[Finding]:
        """Verify a segment (``segment``); see `verify_segment`."""
        storage = self.table.folder.storage
        for check in verify_segment(data_file.location, limits=storage.limits, storage_options=storage).findings:
            yield Finding.failed(
                "segment",
                f"{check.name} of {check.subject}: {check.message}",
                check.expected,
                check.actual,
                data_file=data_file.path,
                path=data_file.location,
                offset=check.offset,
            )

    def blind_spots(self, *, deep: bool = False) -> Iterator[tuple[str, str]]:
        """Return ``segment-contents`` unless segments are verified."""
        if self.data_files and not deep:
            count = len(self.data_files)
            segments = "the segment" if count == 1 else f"{count:,} segments"
            yield "segment-contents", f"only the footer of {segments} was read; a deep audit verifies all bytes"

    def stored_rows(self, data_file: DataFile) -> int | None:
        """Return the number of documents of a segment, which the model takes from its footer."""
        return data_file.physical_rows

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of stored documents, which are the same for every index; see `schema`.

        Raises:
            UsageError: no such column.
        """
        return select(schema(), columns, self.table.location)

    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
        """Return what reads the stored documents of a segment; see `Snapshot.rows`.

        Values of dropped fields are omitted. Only a bounded part of the file is in memory at a time.

        Raises:
            DecodeError: the segment is corrupt, or was replaced.
        """
        dropped = self._record(data_file, SegmentRecord).dropped_fields
        return RowReader(partial(read_rows, data_file, self.table.folder.storage, dropped, columns))

    def _refuse_later(self, location: str) -> None:
        """Raise `NotCanonical` if the bytes of vectors may have changed."""
        now = read_transaction(location, self.table.folder.storage)
        if now != self.transaction:
            raise NotCanonical(
                "transaction",
                source=location,
                expected=f"{self.transaction}, in which the snapshot was read",
                actual=f"{now}: the index was written since",
            )


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

"""``root.bolt`` of a scorch index: snapshots, their segments, and where deleted documents are stored.

Source: bleve ``index/scorch/persister.go`` (``prepareBoltSnapshot``, ``loadSnapshot``), ``util/keys.go``. Buckets::

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

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TypeVar

from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported
from dvcodec.core.json_text import parse_json
from dvcodec.core.rowset import RowSet
from dvcodec.formats import ContainerKind, VectorRef
from dvcodec.io import Storage, open_source
from dvcodec.ops.read import read_vector
from dvcodec.tables.scorch.bolt import Bucket, Tree, Value, read_bolt, read_metas, tree_of
from dvcodec.zap.footer import VERSIONS

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

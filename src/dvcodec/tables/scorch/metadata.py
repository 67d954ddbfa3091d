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

``root.bolt`` is a bbolt file: buckets of keys and values in a B+ tree of pages.

Source: bbolt ``internal/common/page.go``, ``meta.go``, ``bucket.go``, ``inode.go``. All numbers have the byte order of
the machine that wrote the file; little-endian is read. Pages have one size, stored in the meta pages; a page may extend
over the following pages::

    page     u64 its own number | u16 kind | u16 count | u32 further pages | content
    meta     u32 magic ED0CDAED | u32 version 2 | u32 page size | u32 flags | bucket header (root)
             u64 free list's page | u64 pages | u64 transaction | u64 FNV-1a of all in front       pages 0 and 1
    branch   count * (u32 pos | u32 key size | u64 page)                 | keys
    leaf     count * (u32 flags | u32 pos | u32 key size | u32 value size) | keys and values, adjacent
    bucket   u64 root page | u64 sequence                                value of a leaf element with flag 1
             and where root page is 0 a leaf page, in the value itself   (inline bucket, without buckets in it)

`pos` counts from the element itself. A transaction writes new pages only, and then the older meta page: so the valid
meta page of the higher transaction leads to a whole tree. While a writer is at work, only pages that are no longer in
this tree change, until the next transaction ends: readers compare `transaction` before and after.

The whole tree is read at once. Checked: the checksum, every page's number and kind, that no page is in the tree twice,
that keys ascend, within a page and from page to page, and that elements are adjacent and fill their page. Keys and
values have no checksum, so a changed byte in one is not found. The list of free pages is not read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TypeAlias, TypeVar

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, ChecksumMismatch, DecodeError, NotCanonical, Truncated, Unsupported
from dvcodec.core.json_text import parse_json
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.io import Source, Storage, open_source, read_window, read_within
from dvcodec.zap.footer import VERSIONS

MAGIC = 0xED0CDAED
VERSION = 2
BRANCH, LEAF, META = 1, 2, 4
IS_BUCKET = 1
PAGE_SIZES = tuple(1024 << power for power in range(15))
"""Page sizes that bbolt tries to find the second meta page if the first is damaged."""
_PAGE = struct.Struct("<QHHI")
_META = struct.Struct("<IIIIQQQQQ")
_CHECKSUM = struct.Struct("<Q")
_ELEMENT = 16
_BRANCH = struct.Struct("<IIQ")
_LEAF = struct.Struct("<IIII")
_BUCKET = struct.Struct("<QQ")
_MAX_DEPTH = 64
"""Maximum depth of pages, through branches and buckets: no disk could hold a tree of this height."""
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


@dataclass(frozen=True, slots=True)
class Value:
    """A value.

    Attributes:
        data: its bytes.
        offset: byte offset in the file.
        source: the file, for errors.
    """

    data: memoryview
    offset: int
    source: str | None


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket.

    Attributes:
        entries: values and buckets by key, ascending.
        offset: byte offset of its header in the file.
        source: the file, for errors.
    """

    entries: Mapping[bytes, Value | Bucket]
    offset: int
    source: str | None


@dataclass(frozen=True, slots=True)
class Meta:
    """A meta page.

    Attributes:
        page_size: bytes.
        root: page of the root bucket.
        pages: page numbers are below this.
        transaction: number of the transaction that wrote it.
        offset: byte offset of the root bucket's header in the file.
    """

    page_size: int
    root: int
    pages: int
    transaction: int
    offset: int


Element: TypeAlias = "tuple[bytes, Value | Bucket, int]"
"""Key, value, and the element's byte offset in the file."""


def read_meta(source: Source) -> Meta:
    """Read the meta pages and return that of the last transaction.

    Raises:
        BadMagic: neither page is a meta page.
        ChecksumMismatch: neither is intact.
        Unsupported: another version, or written on a big-endian machine.
        DecodeError: otherwise corrupt.
    """
    found: list[Meta] = []
    errors: list[DecodeError] = []
    size = _PAGE.size + _META.size + _CHECKSUM.size
    first: Meta | None = None
    try:
        first = _meta(read_window(source, 0, min(size, source.size)))
        found.append(first)
    except (BadMagic, ChecksumMismatch, NotCanonical) as error:
        errors.append(error)
    for offset in PAGE_SIZES if first is None else (first.page_size,):
        if offset + size > source.size:
            continue
        try:
            second = _meta(read_window(source, offset, size))
        except (BadMagic, ChecksumMismatch, NotCanonical, Unsupported) as error:
            errors.append(error)
            continue
        if second.page_size == offset:
            found.append(second)
    if not found:
        raise errors[0]
    return max(found, key=lambda meta: meta.transaction)


def read_bolt(source: Source, *, limits: Limits = DEFAULT_LIMITS) -> tuple[Meta, Bucket]:
    """Read a file: the meta page of the last transaction, and the root bucket with its contents.

    Args:
        source: the file.
        limits: bounds on what the bytes may claim; the whole file counts as a manifest.

    Raises:
        DecodeError: it is corrupt; see the module.
        OSError: it cannot be read.
    """
    cursor = read_within(source, "max_metadata_bytes", limits)
    with open_source(cursor.view, name=source.name) as copy:
        meta = read_meta(copy)
    tree = _Tree(cursor, meta)
    return meta, Bucket(tree.bucket(meta.root, 0), meta.offset, source.name)


def _meta(cursor: Cursor) -> Meta:
    number, kind, *_ = _PAGE.unpack(cursor.take(_PAGE.size, "page header"))
    at = cursor.pos
    view = cursor.take(_META.size, "meta page")
    magic, version, page_size, _, root, _, _, pages, transaction = _META.unpack(view)
    checksum = _CHECKSUM.unpack(cursor.take(_CHECKSUM.size, "checksum of the meta page"))[0]
    if magic != MAGIC:
        if magic == int.from_bytes(MAGIC.to_bytes(4, "little"), "big"):
            raise cursor.error(Unsupported, "byte order", at=at, expected="little-endian", actual="big-endian")
        raise cursor.error(BadMagic, "magic of the meta page", at=at, expected=f"{MAGIC:08x}", actual=f"{magic:08x}")
    computed = _fnv(view)
    if checksum != computed:
        raise cursor.error(
            ChecksumMismatch,
            "FNV-1a of the meta page",
            at=at + _META.size,
            expected=f"{checksum:016x} (stored)",
            actual=f"{computed:016x} (computed)",
        )
    if version != VERSION:
        raise cursor.error(Unsupported, "version", at=at + 4, expected=VERSION, actual=version)
    if page_size not in PAGE_SIZES:
        raise cursor.error(
            NotCanonical,
            "page size",
            at=at + 8,
            expected=f"a power of two, {PAGE_SIZES[0]} to {PAGE_SIZES[-1]}",
            actual=page_size,
        )
    if kind != META or number > 1:
        raise cursor.error(
            NotCanonical, "meta page", at=0, expected="page 0 or 1, kind 4", actual=f"page {number}, kind {kind}"
        )
    return Meta(page_size, root, pages, transaction, cursor.base + at + 16)


def _fnv(view: memoryview) -> int:
    """Return the 64-bit FNV-1a hash of a few bytes."""
    value = _FNV_OFFSET
    for byte in view:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return value


class _Tree:
    """Walks the pages of a file, each once."""

    def __init__(self, cursor: Cursor, meta: Meta) -> None:
        self.cursor = cursor
        self.size = meta.page_size
        self.pages = min(meta.pages, cursor.end // meta.page_size)
        self.seen = bytearray(self.pages)

    def bucket(self, root: int, depth: int) -> dict[bytes, Value | Bucket]:
        """Return the contents of the bucket whose tree begins at a page. It is nested in `depth` pages."""
        return self._ascending(self._walk(root, b"", None, depth, is_root=True))

    def _ascending(self, elements: Iterable[Element]) -> dict[bytes, Value | Bucket]:
        """Collect the elements of a bucket, whose keys have to ascend."""
        found: dict[bytes, Value | Bucket] = {}
        last = b""
        for key, value, at in elements:
            if key <= last:
                raise self._error("key", at, f"above {_shown(last)}", _shown(key))
            last = key
            found[key] = value
        return found

    def _walk(
        self, number: int, low: bytes, high: bytes | None, depth: int, *, is_root: bool = False
    ) -> Iterator[Element]:
        """Yield the elements below a page; keys are in low <= key < high."""
        kind, count, start, stop = self._page(number)
        if depth >= _MAX_DEPTH:
            raise self._error("height of the tree", start, f"at most {_MAX_DEPTH} pages", "more")
        if not count and not (is_root and kind == LEAF):
            raise self._error("elements of a page", start, "one or more", 0)
        if kind == BRANCH:
            keys, children = self._branch(start, count, stop)
            for i, child in enumerate(children):
                below = keys[i + 1] if i + 1 < count else high
                yield from self._walk(child, keys[i], below, depth + 1)
            return
        for key, value, at in self._leaf(start, count, stop, depth):
            if key < low or (high is not None and key >= high):
                expected = f"from {_shown(low)} on" + ("" if high is None else f", below {_shown(high)}")
                raise self._error("key in a leaf", at, expected, _shown(key))
            yield key, value, at

    def _page(self, number: int) -> tuple[int, int, int, int]:
        """Enter a page; return its kind, count of elements, the start of its elements, and its end."""
        if not 2 <= number < self.pages:
            raise Truncated("page", source=self.cursor.source, expected=f"number 2 to {self.pages - 1}", actual=number)
        offset = number * self.size
        own, kind, count, further = _PAGE.unpack_from(self.cursor.view, offset)
        if own != number:
            raise self._error("number of the page", offset, number, own)
        if kind not in (BRANCH, LEAF):
            raise self._error("kind of the page", offset + 8, f"{BRANCH} (branch) or {LEAF} (leaf)", kind)
        if further >= self.pages - number:
            raise self._error("further pages", offset + 12, f"below {self.pages - number}", further)
        if any(self.seen[number : number + further + 1]):
            raise self._error("page", offset, "once in the tree", f"page {number} again")
        self.seen[number : number + further + 1] = b"\1" * (further + 1)
        return kind, count, offset + _PAGE.size, offset + (further + 1) * self.size

    def _branch(self, start: int, count: int, stop: int) -> tuple[list[bytes], list[int]]:
        keys, children = [], []
        end = self._table_end(start, count, stop)
        for at in range(start, start + count * _ELEMENT, _ELEMENT):
            position, key_size, child = _BRANCH.unpack_from(self.cursor.view, at)
            end = self._next(at, position, key_size, 0, end, stop)
            keys.append(bytes(self.cursor.view[end - key_size : end]))
            children.append(child)
            if len(keys) > 1 and keys[-1] <= keys[-2]:
                raise self._error("key of a branch", at, f"above {_shown(keys[-2])}", _shown(keys[-1]))
        return keys, children

    def _leaf(self, start: int, count: int, stop: int, depth: int | None) -> Iterator[Element]:
        """Yield the elements of a leaf; `depth` is None in an inline bucket, which contains no buckets."""
        end = self._table_end(start, count, stop)
        for at in range(start, start + count * _ELEMENT, _ELEMENT):
            flags, position, key_size, value_size = _LEAF.unpack_from(self.cursor.view, at)
            end = self._next(at, position, key_size, value_size, end, stop)
            value_at = end - value_size
            key = bytes(self.cursor.view[value_at - key_size : value_at])
            if flags > IS_BUCKET:
                raise self._error("flags of an element", at, f"0 or {IS_BUCKET}", flags)
            if not flags:
                yield key, Value(self.cursor.view[value_at:end], value_at, self.cursor.source), at
            elif depth is None:
                raise self._error("element of an inline bucket", at, "a value", "a bucket")
            else:
                yield key, self._nested(value_at, end, depth + 1), at

    def _nested(self, start: int, stop: int, depth: int) -> Bucket:
        """Read the bucket that a value holds: its header, and its page if it is inline."""
        if stop - start < _BUCKET.size:
            raise self._error("header of a bucket", start, f"{_BUCKET.size} bytes", stop - start)
        root, _ = _BUCKET.unpack_from(self.cursor.view, start)
        if root:
            if stop - start > _BUCKET.size:
                raise self._error("header of a bucket", start, f"{_BUCKET.size} bytes", stop - start)
            return Bucket(self.bucket(root, depth), start, self.cursor.source)
        at = start + _BUCKET.size
        if stop - at < _PAGE.size:
            raise self._error("inline bucket", at, f"a page header of {_PAGE.size} bytes", f"{stop - at} bytes")
        number, kind, count, further = _PAGE.unpack_from(self.cursor.view, at)
        if (number, kind, further) != (0, LEAF, 0):
            actual = f"page {number}, kind {kind}, {further} further pages"
            raise self._error("inline bucket", at, f"page 0, kind {LEAF}, no further pages", actual)
        entries = self._ascending(self._leaf(at + _PAGE.size, count, stop, None))
        return Bucket(entries, start, self.cursor.source)

    def _table_end(self, start: int, count: int, stop: int) -> int:
        end = start + count * _ELEMENT
        if end > stop:
            raise self._error("elements of a page", start, f"at most {(stop - start) // _ELEMENT}", count)
        return end

    def _next(self, at: int, position: int, key_size: int, value_size: int, end: int, stop: int) -> int:
        """Check that an element's bytes begin where those of the last one ended; return where they end."""
        if at + position != end:
            raise self._error("place of an element", at, f"byte {end}", f"byte {at + position}")
        if not key_size:
            raise self._error("size of a key", at, "one byte or more", 0)
        if key_size + value_size > stop - end:
            raise self._error("size of an element", at, f"at most {stop - end} bytes", key_size + value_size)
        return end + key_size + value_size

    def _error(self, what: str, offset: int, expected: object, actual: object) -> NotCanonical:
        return NotCanonical(what, source=self.cursor.source, offset=offset, expected=expected, actual=actual)


def _shown(key: bytes) -> str:
    return key[:32].hex(" ") + (" ..." if len(key) > 32 else "")


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
    """

    id: int
    file_name: str
    deleted: Value | None
    dropped_fields: frozenset[str]


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
        transaction: bbolt's transaction number; while it is the same, so are the bytes at any offset.
        epochs: ascending.
    """

    transaction: int
    epochs: tuple[Epoch, ...]


def read_root(location: str, storage: Storage) -> Root:
    """Read ``root.bolt``; repeat if a writer ended a transaction meanwhile.

    Raises:
        DecodeError: it is corrupt.
        OSError: it cannot be read.
    """
    for _ in range(_READINGS):
        before = read_transaction(location, storage)
        try:
            with storage.open(location) as source:
                meta, root = read_bolt(source, limits=storage.limits)
        except DecodeError:
            if read_transaction(location, storage) == before:
                raise
            continue
        if read_transaction(location, storage) == meta.transaction:
            return Root(meta.transaction, _epochs(root))
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
        return read_meta(source).transaction


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

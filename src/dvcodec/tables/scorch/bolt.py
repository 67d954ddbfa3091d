"""bbolt files: buckets of keys and values in a B+ tree of pages. Read, and written as bbolt itself does.

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

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import (
    BadMagic,
    ChecksumMismatch,
    DecodeError,
    NotCanonical,
    Truncated,
    Unsupported,
    UsageError,
)
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.io import Source, open_source, read_window, read_within

MAGIC, _BIG_ENDIAN = 0xED0CDAED, 0xEDDA0CED
VERSION = 2
BRANCH, LEAF, META, FREE_LIST = 1, 2, 4, 16
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


def read_metas(source: Source) -> list[Meta]:
    """Read the meta pages and return those that are intact, that of the last transaction first.

    The other one leads to the tree before the last transaction, which is whole until the next one.

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
    return sorted(found, key=lambda meta: -meta.transaction)


def read_bolt(source: Source, *, before: bool = False, limits: Limits = DEFAULT_LIMITS) -> tuple[Meta, Bucket]:
    """Read a file: the meta page of the last transaction, and the root bucket with its contents.

    Args:
        source: the file.
        before: read the tree before the last transaction instead, if its meta page is intact.
        limits: bounds on what the bytes may claim; the whole file counts as a manifest.

    Raises:
        DecodeError: it is corrupt; see the module.
        OSError: it cannot be read.
    """
    cursor = read_within(source, "max_metadata_bytes", limits)
    with open_source(cursor.view, name=source.name) as copy:
        meta = read_metas(copy)[-1 if before else 0]
    tree = _Tree(cursor, meta)
    return meta, Bucket(tree.bucket(meta.root, 0), meta.offset, source.name)


def _meta(cursor: Cursor) -> Meta:
    number, kind, *_ = _PAGE.unpack(cursor.take(_PAGE.size, "page header"))
    at = cursor.pos
    view = cursor.take(_META.size, "meta page")
    magic, version, page_size, _, root, _, _, pages, transaction = _META.unpack(view)
    checksum = _CHECKSUM.unpack(cursor.take(_CHECKSUM.size, "checksum of the meta page"))[0]
    computed = _fnv(view)
    sums = f"{checksum:016x} (stored)", f"{computed:016x} (computed)"
    sizes = f"a power of two, {PAGE_SIZES[0]} to {PAGE_SIZES[-1]}"
    place_of_page = f"page {number}, kind {kind}"
    for holds, error, what, place, expected, actual in (
        (magic != _BIG_ENDIAN, Unsupported, "byte order", at, "little-endian", "big-endian"),
        (magic == MAGIC, BadMagic, "magic of the meta page", at, f"{MAGIC:08x}", f"{magic:08x}"),
        (checksum == computed, ChecksumMismatch, "FNV-1a of the meta page", at + _META.size, *sums),
        (version == VERSION, Unsupported, "version", at + 4, VERSION, version),
        (page_size in PAGE_SIZES, NotCanonical, "page size", at + 8, sizes, page_size),
        (kind == META and number <= 1, NotCanonical, "meta page", 0, "page 0 or 1, kind 4", place_of_page),
    ):
        if not holds:
            raise cursor.error(error, what, at=place, expected=expected, actual=actual)
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


# ---------------------------------------------------------------------- writing

Tree: TypeAlias = Mapping[bytes, Any]
"""Contents of a bucket to be written, by key: bytes for a value, such a mapping for a bucket."""
_MOST_ELEMENTS = 0xFFFF
_INLINE_SHARE = 4
_NEW_PAGE_SIZE = 4096


def tree_of(bucket: Bucket) -> dict[bytes, Any]:
    """Return the contents of a bucket, to be written again."""
    return {key: tree_of(entry) if isinstance(entry, Bucket) else entry.data for key, entry in bucket.entries.items()}


def encode_file(tree: Tree) -> bytes:
    """Encode a new file.

    Raises:
        UsageError: a bucket has more than 65,535 entries.
    """
    pages = _Pages(2, _NEW_PAGE_SIZE)
    pages.write(tree)
    return b"".join(pages.meta(number).ljust(_NEW_PAGE_SIZE, b"\0") for number in (0, 1)) + pages.data


def write_transaction(file: BinaryIO, meta: Meta, tree: Tree) -> None:
    """Replace the contents of a file by a transaction, as bbolt does: new pages at the end, then the older meta page.

    A process that is killed in between leaves the old contents. The file keeps its identity, so that a process that
    waits for its lock sees the new contents.

    Args:
        file: open for reading and writing, locked; `meta` is that of its last transaction.
        meta: see `read_metas`.
        tree: the new contents.

    Raises:
        UsageError: a bucket has more than 65,535 entries.
        OSError: it cannot be written.
    """
    pages = _Pages(meta.pages, meta.page_size)
    pages.write(tree)
    transaction = meta.transaction + 1
    for offset, data in (
        (meta.pages * meta.page_size, pages.data),
        (transaction % 2 * meta.page_size, pages.meta(transaction)),
    ):
        file.seek(offset)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


class _Pages:
    """Pages of a new tree, from a page number on; all pages between the meta pages and this one become free.

    A bucket is one leaf page, with as many further pages as its elements need. bbolt splits it when it changes it.
    """

    def __init__(self, first: int, page_size: int) -> None:
        self.data = bytearray()
        self._first = first
        self._size = page_size

    def write(self, tree: Tree) -> None:
        """Write the root bucket and all in it, and the list of free pages."""
        self._root = self._add(LEAF, len(tree), self._leaf(tree))
        free = range(2, self._first)
        counted = [len(free), *free] if len(free) >= _MOST_ELEMENTS else free
        self._free = self._add(FREE_LIST, min(len(free), _MOST_ELEMENTS), struct.pack(f"<{len(counted)}Q", *counted))

    def meta(self, transaction: int) -> bytes:
        """Return the meta page that leads to the tree."""
        page = _PAGE.pack(transaction % 2, META, 0, 0)
        body = _META.pack(MAGIC, VERSION, self._size, 0, self._root, 0, self._free, self._next, transaction)
        return page + body + _CHECKSUM.pack(_fnv(memoryview(body)))

    @property
    def _next(self) -> int:
        return self._first + len(self.data) // self._size

    def _add(self, kind: int, count: int, content: bytes) -> int:
        number = self._next
        self.data += _PAGE.pack(number, kind, count, (_PAGE.size + len(content) - 1) // self._size) + content
        self.data += bytes(-len(self.data) % self._size)
        return number

    def _leaf(self, tree: Tree) -> bytes:
        """Return the elements of a bucket, after the pages of the buckets in it have been written."""
        if len(tree) > _MOST_ELEMENTS:
            raise UsageError(f"a bucket of a bbolt file may have {_MOST_ELEMENTS} entries here, not {len(tree)}")
        table, content = bytearray(), bytearray()
        for i, key in enumerate(sorted(tree)):
            entry = tree[key]
            flags, value = (IS_BUCKET, self._nested(entry)) if isinstance(entry, Mapping) else (0, entry)
            table += _LEAF.pack(flags, (len(tree) - i) * _ELEMENT + len(content), len(key), len(value))
            content += key
            content += value
        return bytes(table + content)

    def _nested(self, tree: Tree) -> bytes:
        """Return the value of a bucket: small ones are inline, as in bbolt."""
        content = self._leaf(tree)
        has_buckets = any(isinstance(entry, Mapping) for entry in tree.values())
        if has_buckets or _PAGE.size + len(content) > self._size // _INLINE_SHARE:
            return _BUCKET.pack(self._add(LEAF, len(tree), content), 0)
        return _BUCKET.pack(0, 0) + _PAGE.pack(0, LEAF, len(tree), 0) + content

"""Detects the container format of a file by its bytes, never by name or label, and reads its vectors.

Real Puffin files, Delta ``.bin`` files, bare blobs and Paimon index files all occur under the label "puffin".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

import numpy as np

from dvcodec import mumbling
from dvcodec.core import batch, roaring, vector
from dvcodec.core.bitmap import COOKIE_NO_RUNS, COOKIE_RUNS
from dvcodec.core.cursor import BytesLike, Cursor, as_view
from dvcodec.core.errors import BadMagic, DecodeError, Truncated, Unsupported
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import as_count
from dvcodec.core.vector import FRAME_OVERHEAD, MAGIC_BYTES, UNCOUNTED, Magic, Vector
from dvcodec.iceberg import blob_cardinality, check_blob, vector_blobs
from dvcodec.io import Source, SourceTarget, StorageOptions, open_source, read_up_to, read_window
from dvcodec.io.frames import VERSION, read_frame, read_frames
from dvcodec.io.source import by_windows, coalesce
from dvcodec.lance.deletions import ARROW_MAGIC, read_deletion_file
from dvcodec.lance.deletions import COLUMN as DELETIONS_COLUMN
from dvcodec.puffin import MAGIC as PUFFIN_MAGIC
from dvcodec.puffin import REFERENCED_DATA_FILE, BlobMetadata, Footer, decode_footer
from dvcodec.zap.footer import ID, SegmentData, decode_fields
from dvcodec.zap.footer import decode_footer as decode_zap_footer


class ContainerKind(str, Enum):
    """The container format of a file."""

    PUFFIN = "puffin"
    """``PFA1``, blobs, a footer."""
    DELTA = "delta"
    """A version byte and frames; Paimon's 64-bit index files are the same bytes."""
    PAIMON = "paimon"
    """A version byte and frames, at least one of them 32-bit."""
    BLOB = "blob"
    """A single frame (DuckDB, DuckLake)."""
    ROARING64 = "roaring64"
    """A bare 64-bit portable bitmap (Hudi)."""
    ROARING32 = "roaring32"
    """A bare 32-bit portable bitmap (Lance ``.bin``)."""
    MUMBLING = "mumbling"
    """A Mumbling bitmap, as manifests of Iceberg v4 embed it."""
    LANCE_ARROW = "lance-arrow"
    """A Lance deletion file of the Arrow kind (Lance ``.arrow``, extra ``arrow``)."""
    ZAP = "zap"
    """A search segment of bleve, without deletion vectors: see `dvcodec.zap`."""


_ARROW_SCHEMA = 1024
"""Bytes at the start of a Lance deletion file that include its schema."""


@dataclass(frozen=True, slots=True)
class VectorRef:
    """One vector of a container, not yet read.

    Attributes:
        kind: the container's kind.
        offset: first byte of the frame (or of the bare bitmap) in the file.
        size: bytes.
        cardinality: from the container's metadata, None if unknown.
        data_file: the data file whose rows these are, None if unknown.
        blob: its entry in a Puffin footer, else None.
    """

    kind: ContainerKind
    offset: int
    size: int
    cardinality: int | None = None
    data_file: str | None = None
    blob: BlobMetadata | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """A detected container and its vectors.

    Attributes:
        kind: the container format.
        source: name of the file.
        size: bytes of the file.
        vectors: in file order.
        footer: the Puffin footer, None for other kinds.
    """

    kind: ContainerKind
    source: str
    size: int
    vectors: tuple[VectorRef, ...]
    footer: Footer | None = None


def sniff(
    source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS, storage_options: StorageOptions = None
) -> Container:
    """Detect the container and locate its vectors. CRCs are not checked.

    Args:
        source: bytes, path, URL, open file or `Source`.
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the container is damaged.
        Unsupported: not a known container.
        OSError: it cannot be read.

    >>> from dvcodec import RowSet, iceberg
    >>> sniff(iceberg.encode(RowSet([1, 2]))).kind.value
    'blob'
    """
    with open_source(source, storage_options=storage_options) as opened:
        return sniff_source(opened, limits=limits)


def sniff_source(source: Source, *, limits: Limits = DEFAULT_LIMITS) -> Container:
    """`sniff` for a source that is already open.

    Raises:
        DecodeError, OSError: see `sniff`.
    """
    head = bytes(source.read(0, min(source.size, 16)))
    footer = None
    vectors: tuple[VectorRef, ...] = ()
    if head[:4] == PUFFIN_MAGIC or _ends_with_magic(source):
        kind = ContainerKind.PUFFIN
        footer = decode_footer(source, limits=limits)
        vectors = tuple(
            VectorRef(
                kind,
                blob.offset,
                blob.length,
                _stated_cardinality(blob),
                blob.properties.get(REFERENCED_DATA_FILE),
                blob,
            )
            for blob in vector_blobs(footer, source.name)
        )
    elif Magic.find(head[4:8]) is None and Magic.find(head[5:9]) is None and _is_segment(source):
        kind = ContainerKind.ZAP  # before the formats detected by a few bytes only: a segment may begin with any bytes
    elif _may_be_mumbling(source, head) and _is_mumbling(source, limits):
        kind = ContainerKind.MUMBLING  # its cardinality may look like the length field of a damaged Delta file
        vectors = (VectorRef(kind, 0, source.size),)
    elif Magic.find(head[4:8]) is not None or _is_frame(head, 0, source.size):
        kind = ContainerKind.BLOB
        vectors = (VectorRef(kind, 0, source.size),)
    elif Magic.find(head[5:9]) is not None or (
        head[:1] == bytes([VERSION])
        and (source.size == 1 or (any(head[4:8]) and _is_frame(head, 1, source.size, exact=False)))
    ):
        frames = [(cursor.base, cursor.end, bytes(cursor.view[4:8])) for cursor in read_frames(source, limits=limits)]
        has_32_bit = any(magic == Magic.PAIMON32.value for *_, magic in frames)
        kind = ContainerKind.PAIMON if has_32_bit else ContainerKind.DELTA
        vectors = tuple(VectorRef(kind, offset, size) for offset, size, _ in frames)
    else:
        kind = ContainerKind.LANCE_ARROW if _is_lance_arrow(source, head) else _weakest(source, head, limits)
        if kind is not ContainerKind.ZAP:
            vectors = (VectorRef(kind, 0, source.size),)
    return Container(kind, source.name, source.size, vectors, footer)


def _is_frame(head: bytes, start: int, size: int, *, exact: bool = True) -> bool:
    """Whether there is a plausible length field at `start`: detects frames with a damaged magic."""
    claimed = int.from_bytes(head[start : start + 4], "big") + UNCOUNTED
    return claimed > FRAME_OVERHEAD + 4 and (claimed == size - start if exact else claimed <= size - start)


def _stated_cardinality(blob: BlobMetadata) -> int | None:
    """Return the cardinality property; an invalid one is reported when the vector is read."""
    try:
        return blob_cardinality(blob)
    except DecodeError:
        return None


def _ends_with_magic(source: Source) -> bool:
    size = len(PUFFIN_MAGIC)
    return source.size >= 4 * size and bytes(source.read(source.size - size, size)) == PUFFIN_MAGIC


def _is_lance_arrow(source: Source, head: bytes) -> bool:
    """Whether this is an Arrow file whose schema names the column of deletion files."""
    if head[: len(ARROW_MAGIC)] != ARROW_MAGIC:
        return False
    return DELETIONS_COLUMN.encode() in bytes(source.read(0, min(source.size, _ARROW_SCHEMA)))


def _is_segment(source: Source) -> bool:
    """Whether this ends with a zap footer, and its fields can be read."""
    try:
        footer = decode_zap_footer(source)
        fields = decode_fields(SegmentData(source, source.size - footer.size), footer)
    except DecodeError:
        return False
    return bool(fields) and fields[0].name == ID


def refuse_segment(container: Container) -> Container:
    """Return the container unless it is a search segment.

    Raises:
        Unsupported: it is a search segment.
    """
    if container.kind is ContainerKind.ZAP:
        raise Unsupported(
            "a search segment has no deletion vectors: see dvcodec inspect, or dvcodec zap",
            source=container.source,
        )
    return container


def _weakest(source: Source, head: bytes, limits: Limits) -> ContainerKind:
    """Detect formats without a magic: a bare bitmap, a corrupt Mumbling one, or a segment with a valid footer only.

    Raises:
        Unsupported: neither.
        NotCanonical: a segment with a corrupt footer.
    """
    kind = _bare_bitmap(source, head, limits)
    if kind is not None:
        return kind
    try:
        decode_zap_footer(source)
    except (BadMagic, Truncated):
        if _may_be_mumbling(source, head):
            return ContainerKind.MUMBLING
        raise Unsupported(
            "container",
            source=source.name,
            offset=0,
            expected="a Puffin file, a Delta, Paimon or Lance vector file, a vector blob, a roaring or Mumbling "
            "bitmap, or a zap segment",
            actual=head[:12].hex(" ") or "no bytes",
        ) from None
    return ContainerKind.ZAP


def _bare_bitmap(source: Source, head: bytes, limits: Limits) -> ContainerKind | None:
    """Detect a bare bitmap by its first bytes: a 32-bit cookie, or a count of keys, a key and such a cookie.

    A count may look like a cookie: that of 12,346 keys is an empty 32-bit bitmap with more bytes after it, and that of
    12,347 + n * 65,536 keys announces n + 1 containers.
    """
    if len(head) < 8:
        return None
    narrow = _is_cookie(head[:4])
    wide = not any(head[4:8]) and (_is_cookie(head[12:16]) if any(head[:4]) else source.size == 8)
    if wide and not (narrow and _is_bitmap(source, limits)):
        return ContainerKind.ROARING64
    return ContainerKind.ROARING32 if narrow else None


def _may_be_mumbling(source: Source, head: bytes) -> bool:
    """Whether this may be the header of a Mumbling bitmap with rows, or is the bitmap without any."""
    if head == mumbling.EMPTY:
        return True
    cardinality, containers = int.from_bytes(head[1:4], "little"), int.from_bytes(head[4:6], "little")
    may = head[:1] == bytes([mumbling.VERSION]) and source.size <= mumbling.MAX_BYTES
    return may and containers <= mumbling.MAX_CONTAINERS and 0 < cardinality <= mumbling.MAX_POSITIONS


def _is_mumbling(source: Source, limits: Limits) -> bool:
    try:
        mumbling.decode(read_window(source).view, limits=limits)
    except DecodeError:
        return False
    return True


def _is_cookie(raw: bytes) -> bool:
    """Whether a 32-bit bitmap may begin with these bytes."""
    cookie = int.from_bytes(raw, "little")
    return cookie == COOKIE_NO_RUNS or cookie & 0xFFFF == COOKIE_RUNS


def _is_bitmap(source: Source, limits: Limits) -> bool:
    """Whether the file is a 32-bit bitmap, to its last byte."""
    if source.size > limits.max_vector_bytes:
        return False
    cursor = read_window(source)
    try:
        roaring.walk(cursor)
        cursor.expect_end("the bitmap")
    except DecodeError:
        return False
    return True


ALLOWED = {
    ContainerKind.PUFFIN: (Magic.PORTABLE64,),
    ContainerKind.DELTA: (Magic.PORTABLE64, Magic.NATIVE64),
    ContainerKind.PAIMON: (Magic.PAIMON32, Magic.PORTABLE64),
    ContainerKind.BLOB: tuple(Magic),
}
"""The layouts that framed vectors may have in each container."""
_LARGE = 1 << 15
"""Vectors of more than this many bytes on average are read one by one: bulk reads save only a fixed cost each."""


def ahead(source: Source, refs: Sequence[VectorRef]) -> Source:
    """Return a source that reads these vectors, in order, with few requests; see `by_windows`."""
    return by_windows(source, [ref.offset for ref in refs], [ref.size for ref in refs])


def read_vector(
    source: Source, ref: VectorRef, *, limits: Limits = DEFAULT_LIMITS, verify_checksum: bool = True
) -> Vector:
    """Read and walk one vector of a container, and check it against the container's metadata.

    Raises:
        DecodeError: the vector is corrupt, or has a layout that its container does not allow.
        MissingExtra: a Lance deletion file of the Arrow kind, without pyarrow.
        OSError: the file cannot be read.
    """
    if ref.blob is not None:
        check_blob(ref.blob, source.name)
    if ref.kind is ContainerKind.LANCE_ARROW:
        rows = read_deletion_file(source, limits=limits)
        return _walk_bare(
            Cursor(roaring.serialize(rows.bitmaps[0]) if rows else roaring.EMPTY_BITMAP), ref.kind, limits
        )
    cursor = read_frame(source, ref.offset, ref.size, limits)
    if ref.kind is ContainerKind.MUMBLING:
        rows = mumbling.decode(cursor.view, limits=limits, source=cursor.source, base=cursor.base)
        return _walk_bare(Cursor(b"".join(rows.serialized().get(0, [roaring.EMPTY_BITMAP]))), ref.kind, limits)
    if ref.kind in (ContainerKind.ROARING32, ContainerKind.ROARING64):
        return _walk_bare(cursor, ref.kind, limits)
    return vector.read(cursor, ALLOWED[ref.kind], ref.cardinality, limits, verify_checksum=verify_checksum)


@dataclass(frozen=True, slots=True)
class CheckedFrame:
    """A framed vector, fully checked, but not against metadata.

    Attributes:
        data: the whole frame.
        cardinality: rows.
        max: highest position, None without rows.
    """

    data: memoryview
    cardinality: int
    max: int | None

    @property
    def magic(self) -> Magic | None:
        """The layout."""
        return Magic.find(bytes(self.data[4:8]))


def survey_vectors(
    source: Source, refs: Sequence[VectorRef], *, limits: Limits = DEFAULT_LIMITS
) -> Iterator[tuple[VectorRef, CheckedFrame | None]]:
    """Check the vectors of one container in bulk: a file may have ten thousand.

    Yields each vector with its frame, in order. The frame is None if the caller must use `read_vector`: for corrupt
    frames (it raises the error), large ones, and those without others nearby.

    Raises:
        OSError: the file cannot be read.
    """
    kind = refs[0].kind if refs else None
    inside = all(ref.offset >= 0 and 0 < ref.size <= source.size - ref.offset for ref in refs)
    if kind not in ALLOWED or not inside or any(one.offset > other.offset for one, other in pairwise(refs)):
        yield from ((ref, None) for ref in refs)
        return
    offsets = np.array([ref.offset for ref in refs], np.int64)
    sizes = np.array([ref.size for ref in refs], np.int64)
    for first, last, start, stop in coalesce(offsets, sizes):
        near = refs[first:last]
        if len(near) == 1 or stop - start > _LARGE * len(near):
            yield from ((ref, None) for ref in near)
            continue
        try:
            data = as_view(source.read(start, stop - start))
        except DecodeError:  # the file is shorter than it was
            yield from ((ref, None) for ref in near)
            continue
        found = batch.survey(data, offsets[first:last] - start, sizes[first:last], allowed=ALLOWED[kind], limits=limits)
        numbers = zip(near, found.cardinality.tolist(), found.max.tolist(), strict=True)
        for i, (ref, cardinality, highest) in enumerate(numbers):
            pos = ref.offset - start
            checked = CheckedFrame(data[pos : pos + ref.size], cardinality, highest if cardinality else None)
            yield ref, None if i in found.errors else checked


def _walk_bare(cursor: Cursor, kind: ContainerKind, limits: Limits) -> Vector:
    limits.check("max_vector_bytes", cursor.remaining, cursor)
    magic = Magic.PORTABLE64 if kind is ContainerKind.ROARING64 else Magic.PAIMON32
    return Vector(magic, vector.walk(magic, cursor, limits, max_key=roaring.MAX_KEY))


def decode(
    buf: BytesLike,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    source: str | None = None,
    base: int = 0,
) -> RowSet:
    """Decode one vector of any format: framed (Iceberg, Delta, Paimon), or without a frame or magic.

    Args:
        buf: exactly the vector. Without a frame: magic and bitmap (Delta's inline vectors), or a 64-bit or 32-bit
            roaring bitmap (Hudi, Lance) or a Mumbling bitmap (Iceberg v4), which have no checksum.
        cardinality: rows according to the metadata; None skips the check.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC.
        source: name of the file, for errors.
        base: byte offset of the vector in that file, for errors.

    Returns:
        The deleted rows, 0-based physical positions. Not checked: positions against the data file's row count.

    Raises:
        DecodeError: the vector is corrupt: `Truncated`, `ChecksumMismatch`, `BadMagic`, `NotCanonical`,
            `CardinalityMismatch` or `LimitExceeded`.
        Unsupported: the bytes are a file of vectors: `read_rows` reads those.
        UsageError: `buf` is not a contiguous buffer, or another argument has a wrong type or is negative.

    >>> from dvcodec import delta
    >>> decode(delta.encode(RowSet([1, 3, 5]), layout="native"), cardinality=3)
    RowSet([1, 3, 5])
    """
    vector.check_count(cardinality)
    cursor = Cursor(buf, source=source, base=base)
    if Magic.find(bytes(cursor.view[:MAGIC_BYTES])) is not None:
        return vector.read_payload(cursor, cardinality=cardinality, limits=limits).load()
    kind = ContainerKind.BLOB
    if Magic.find(bytes(cursor.view[MAGIC_BYTES : 2 * MAGIC_BYTES])) is None:
        with suppress(DecodeError):  # what is none of these fails as a frame
            kind = sniff(cursor.view, limits=limits).kind
    if kind is ContainerKind.BLOB:
        return vector.read(cursor, cardinality=cardinality, limits=limits, verify_checksum=verify_checksum).load()
    if kind is ContainerKind.MUMBLING:
        return mumbling.decode(buf, cardinality=cardinality, limits=limits, source=source, base=base)
    if kind not in (ContainerKind.ROARING32, ContainerKind.ROARING64):
        actual = f"a file of vectors ({kind.value}): see read_rows"
        raise Unsupported("vector", source=source, offset=base, expected="the bytes of one vector", actual=actual)
    found = _walk_bare(cursor, kind, limits)
    vector.check_cardinality(cursor, 0, found.view, cardinality)
    return found.load()


def decode_at(
    source: SourceTarget,
    offset: int = 0,
    size: int | None = None,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    storage_options: StorageOptions = None,
) -> RowSet:
    """Decode the framed vector at a byte offset, in any file.

    Args:
        source: bytes, path, URL or open file.
        offset: where the frame's length field is (Iceberg's `content_offset`, Delta's and Paimon's `offset`).
        size: bytes, in either convention: the whole frame (Iceberg, Paimon 64-bit), or only magic and bitmap, 8 less
            (Delta, Paimon 32-bit). None uses the frame's length field.
        cardinality: rows according to the metadata.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: no valid vector at this offset.
        UsageError: an argument of a wrong type, or a negative one.
        OSError: the file cannot be read.
    """
    check_limits(limits)
    vector.check_count(cardinality)
    offset, size = as_count(offset, "offset"), None if size is None else as_count(size, "size")
    with open_source(source, storage_options=storage_options) as opened:
        # One read gets the frame in either size convention.
        ahead = 4 if size is None else min(size, limits.max_vector_bytes) + UNCOUNTED
        window = read_up_to(opened, offset, ahead)
        claimed = vector.peek_size(window)
        if size is None or size + UNCOUNTED == claimed:
            size = min(claimed, max(opened.size - offset, 0)) if claimed > len(window.view) else claimed
        if size > len(window.view):
            window = read_frame(opened, offset, size, limits)
        cursor = Cursor(window.view[:size], source=window.source, base=offset)
        return vector.read(cursor, cardinality=cardinality, limits=limits, verify_checksum=verify_checksum).load()

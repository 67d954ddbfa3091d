"""The formats of dvcodec itself; detects which a file is of, by its bytes, never by name or label; reads its vectors.

Real Puffin files, Delta ``.bin`` files, bare blobs and Paimon index files all occur under the label "puffin".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from dvcodec import dialects, iceberg, mumbling
from dvcodec.core import batch, roaring, vector
from dvcodec.core.cursor import BytesLike, Cursor, as_view
from dvcodec.core.errors import BadMagic, DecodeError, Truncated, Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.report import Check
from dvcodec.core.roaring import COOKIE_NO_RUNS, COOKIE_RUNS
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import as_count
from dvcodec.core.vector import FRAME_OVERHEAD, MAGIC_BYTES, UNCOUNTED, Magic, Vector
from dvcodec.formats import (
    HEAD_BYTES,
    Container,
    ContainerKind,
    Decode,
    Format,
    Sniff,
    VectorRef,
    added,
    added_format,
    bare_vector,
)
from dvcodec.iceberg import blob_cardinality, check_blob, lint, vector_blobs
from dvcodec.io import Source, SourceTarget, StorageOptions, open_source, read_up_to, read_window
from dvcodec.io.frames import VERSION, read_frame, read_frames
from dvcodec.io.source import by_windows, coalesce
from dvcodec.lance.deletions import ARROW_MAGIC, read_deletion_file
from dvcodec.lance.deletions import COLUMN as DELETIONS_COLUMN
from dvcodec.puffin import MAGIC as PUFFIN_MAGIC
from dvcodec.puffin import REFERENCED_DATA_FILE, BlobMetadata, decode_footer
from dvcodec.zap.footer import ID, SegmentData, decode_fields
from dvcodec.zap.footer import decode_footer as decode_zap_footer

_MAX_GAP_KEYS = 1 << 16
_ARROW_SCHEMA = 1024
"""Bytes at the start of a Lance deletion file that include its schema."""


# ------------------------------------------------------------------ framed vectors


def _decode_frame(buf: BytesLike, *, limits: Limits, source: str | None, base: int) -> RowSet:
    """Decode a frame; see `Format.decode`."""
    return vector.load(Cursor(buf, source=source, base=base), limits=limits)


@dataclass(frozen=True, kw_only=True)
class Framed(Format):
    """A format of framed vectors.

    Attributes:
        layouts: those that its vectors may have.
    """

    layouts: tuple[Magic, ...]
    decode: Decode = _decode_frame

    def read(self, source: Source, ref: VectorRef, limits: Limits, *, verify_checksum: bool = True) -> Vector:
        """Read one vector, and check it against the container's metadata."""
        if ref.blob is not None:
            check_blob(ref.blob, source.name)
        cursor = read_frame(source, ref.offset, ref.size, limits)
        return vector.read(cursor, self.layouts, ref.cardinality, limits, verify_checksum=verify_checksum)


class _Puffin(Framed):
    def open(self, source: Source, limits: Limits) -> Container:
        footer = decode_footer(source, limits=limits)
        vectors = tuple(
            VectorRef(
                self.kind,
                blob.offset,
                blob.length,
                _stated_cardinality(blob),
                blob.properties.get(REFERENCED_DATA_FILE),
                blob,
            )
            for blob in vector_blobs(footer, source.name)
        )
        return Container(self.kind, source.name, source.size, vectors, footer)


class _VectorFile(Framed):
    """A version byte and frames: Paimon's if one of them is of 32 bits, else Delta's."""

    def open(self, source: Source, limits: Limits) -> Container:
        frames = [(cursor.base, cursor.end, bytes(cursor.view[4:8])) for cursor in read_frames(source, limits=limits)]
        has_32_bit = any(magic == Magic.PAIMON32.value for *_, magic in frames)
        kind = ContainerKind.PAIMON if has_32_bit else ContainerKind.DELTA
        vectors = tuple(VectorRef(kind, offset, size) for offset, size, _ in frames)
        return Container(kind, source.name, source.size, vectors)


def _encode_blob(rows: RowSet) -> bytes:
    """Encode a frame with Java's bytes, unless these have an empty bitmap for each of very many keys."""
    return iceberg.encode(rows, gap_keys=(rows.max or 0) >> 32 < _MAX_GAP_KEYS)


def _stated_cardinality(blob: BlobMetadata) -> int | None:
    """Return the cardinality property; an invalid one is reported when the vector is read."""
    try:
        return blob_cardinality(blob)
    except DecodeError:
        return None


def _is_puffin(source: Source, head: bytes, _limits: Limits) -> bool:
    size = len(PUFFIN_MAGIC)
    if head[:size] == PUFFIN_MAGIC:
        return True
    return source.size >= 4 * size and bytes(source.read(source.size - size, size)) == PUFFIN_MAGIC


def _check_footer(_source: Source, container: Container, _limits: Limits) -> Iterable[Check]:
    return () if container.footer is None else lint(container.footer)


def _has_magic(_source: Source, head: bytes, _limits: Limits, at: int) -> bool:
    return Magic.find(head[at : at + 4]) is not None


def _is_vector_file(source: Source, head: bytes, limits: Limits) -> bool:
    return _has_magic(source, head, limits, at=5) or (source.size == 1 and head == bytes([VERSION]))


def _may_be_frame(source: Source, head: bytes, _limits: Limits) -> bool:
    return 0 < _claims(head, 0) == source.size


def _may_be_vector_file(source: Source, head: bytes, _limits: Limits) -> bool:
    return head[:1] == bytes([VERSION]) and any(head[4:8]) and 0 < _claims(head, 1) < source.size


def _claims(head: bytes, start: int) -> int:
    """Return the size of a frame by its length field, which may be all that is not damaged; 0 if that is too small."""
    claimed = int.from_bytes(head[start : start + 4], "big") + UNCOUNTED
    return claimed if claimed > FRAME_OVERHEAD + 4 else 0


# ------------------------------------------------------------------ bare bitmaps


@dataclass(frozen=True, kw_only=True)
class _Bare(Format):
    layout: Magic

    def read(self, source: Source, ref: VectorRef, limits: Limits, *, verify_checksum: bool = True) -> Vector:
        del verify_checksum
        return bare_vector(self.layout, read_frame(source, ref.offset, ref.size, limits), limits)


def _decode_bare(buf: BytesLike, *, layout: Magic, limits: Limits, source: str | None, base: int) -> RowSet:
    return bare_vector(layout, Cursor(buf, source=source, base=base), limits).load()


def _encode_bare(rows: RowSet, *, layout: Magic) -> bytes:
    return vector.encode_payload(rows, layout, gap_keys=False)


def _is_cookie(raw: bytes) -> bool:
    """Whether a 32-bit bitmap may begin with these bytes."""
    cookie = int.from_bytes(raw, "little")
    return cookie == COOKIE_NO_RUNS or cookie & 0xFFFF == COOKIE_RUNS


def _is_narrow(_source: Source, head: bytes, _limits: Limits) -> bool:
    """Whether this begins like a 32-bit bitmap: with its cookie."""
    return len(head) >= 8 and _is_cookie(head[:4])


def _is_wide(source: Source, head: bytes, limits: Limits) -> bool:
    """Whether this begins like a 64-bit bitmap: with a count of keys, a key and the cookie of a 32-bit one.

    A count may look like a cookie: that of 12,346 keys is an empty 32-bit bitmap with more bytes after it, and that of
    12,347 + n * 65,536 keys announces n + 1 containers.
    """
    if len(head) < 8 or any(head[4:8]) or not (_is_cookie(head[12:16]) if any(head[:4]) else source.size == 8):
        return False
    return not (_is_narrow(source, head, limits) and _is_bitmap(source, limits))


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


# ------------------------------------------------------------------ Mumbling, Lance, zap


def _may_be_mumbling(source: Source, head: bytes, _limits: Limits) -> bool:
    """Whether this may be the header of a Mumbling bitmap with rows, or is the bitmap without any."""
    if head == mumbling.EMPTY:
        return True
    cardinality, containers = int.from_bytes(head[1:4], "little"), int.from_bytes(head[4:6], "little")
    may = head[:1] == bytes([mumbling.VERSION]) and source.size <= mumbling.MAX_BYTES
    return may and containers <= mumbling.MAX_CONTAINERS and 0 < cardinality <= mumbling.MAX_POSITIONS


def _is_mumbling(source: Source, head: bytes, limits: Limits) -> bool:
    if not _may_be_mumbling(source, head, limits):
        return False
    try:
        mumbling.decode(read_window(source).view, limits=limits)
    except DecodeError:
        return False
    return True


def _is_lance_arrow(source: Source, head: bytes, _limits: Limits) -> bool:
    """Whether this is an Arrow file whose schema names the column of deletion files."""
    if head[: len(ARROW_MAGIC)] != ARROW_MAGIC:
        return False
    return DELETIONS_COLUMN.encode() in bytes(source.read(0, min(source.size, _ARROW_SCHEMA)))


def _decode_lance_arrow(buf: BytesLike, *, limits: Limits, source: str | None, base: int) -> RowSet:
    del base
    with open_source(buf, name=source) as opened:
        return read_deletion_file(opened, limits=limits)


def _whole(source: Source, _limits: Limits) -> Iterable[VectorRef]:
    """Locate the only vector of a file that is more than the bytes of a vector."""
    return (VectorRef(ContainerKind.LANCE_ARROW, 0, source.size),)


def _is_segment(source: Source, head: bytes, limits: Limits) -> bool:
    """Whether this ends with a zap footer, and its fields can be read; vectors may end with anything."""
    if _has_magic(source, head, limits, at=4) or _has_magic(source, head, limits, at=5):
        return False
    try:
        footer = decode_zap_footer(source)
        fields = decode_fields(SegmentData(source, source.size - footer.size), footer)
    except DecodeError:
        return False
    return bool(fields) and fields[0].name == ID


def _may_be_segment(source: Source, _head: bytes, _limits: Limits) -> bool:
    """Whether this ends with a valid zap footer.

    Raises:
        NotCanonical: a segment with a corrupt footer.
    """
    try:
        decode_zap_footer(source)
    except (BadMagic, Truncated):
        return False
    return True


def _refuse_segment(buf: BytesLike, *, limits: Limits, source: str | None, base: int) -> RowSet:
    del buf, limits, base
    raise no_vectors(source)


def _nowhere(_source: Source, _limits: Limits) -> Iterable[VectorRef]:
    return ()


def no_vectors(source: str | None) -> Unsupported:
    """Return the error for a search segment."""
    return Unsupported("a search segment has no deletion vectors: see dvcodec inspect, or dvcodec zap", source=source)


# ------------------------------------------------------------------ all of them

_ALL = (
    _Puffin(
        name="puffin",
        title="Puffin file",
        layouts=(Magic.PORTABLE64,),
        sniff=_is_puffin,
        checks=_check_footer,
    ),
    # Before the formats that are detected by a few bytes alone: a segment may begin with any bytes.
    Format(
        name="zap",
        title="search segment",
        decode=_refuse_segment,
        sniff=_is_segment,
        locate=_nowhere,
    ),
    # Its cardinality may look like the length field of a damaged Delta file.
    Format(
        name="mumbling",
        title="Mumbling bitmap, as in manifests of Iceberg v4",
        decode=mumbling.decode,
        encode=mumbling.encode,
        sniff=_is_mumbling,
        highest=mumbling.MAX_POSITIONS - 1,
    ),
    Framed(
        name="blob",
        title="bare deletion vector",
        layouts=tuple(Magic),
        encode=_encode_blob,
        sniff=partial(_has_magic, at=4),
        checksum=True,
    ),
    _VectorFile(
        name="delta",
        title="Delta or Paimon 64-bit vector file",
        layouts=(Magic.PORTABLE64, Magic.NATIVE64),
        sniff=_is_vector_file,
    ),
    # Not detected: the frames of a vector file tell.
    Framed(
        name="paimon",
        title="Paimon vector file",
        layouts=(Magic.PAIMON32, Magic.PORTABLE64),
    ),
    Format(
        name="lance-arrow",
        title="Lance deletion file (Arrow)",
        decode=_decode_lance_arrow,
        sniff=_is_lance_arrow,
        locate=_whole,
    ),
    _Bare(
        name="roaring64",
        title="bare 64-bit roaring bitmap",
        layout=Magic.PORTABLE64,
        decode=partial(_decode_bare, layout=Magic.PORTABLE64),
        encode=partial(_encode_bare, layout=Magic.PORTABLE64),
        sniff=_is_wide,
    ),
    _Bare(
        name="roaring32",
        title="bare 32-bit roaring bitmap, as in a Lance deletion file",
        layout=Magic.PAIMON32,
        decode=partial(_decode_bare, layout=Magic.PAIMON32),
        encode=partial(_encode_bare, layout=Magic.PAIMON32),
        sniff=_is_narrow,
        highest=2**31 - 1,
    ),
)
BUILT_IN: Mapping[str, Format] = {one.name: one for one in _ALL}
"""The formats that are detected, by name."""
_SUSPECTS: Mapping[str, Sniff] = {
    "blob": _may_be_frame,
    "delta": _may_be_vector_file,
    "zap": _may_be_segment,
    "mumbling": _may_be_mumbling,
}
"""What detects damaged files, by the bytes that are left: asked in this order, after everything else."""
_DIALECTS: Mapping[str, Format] = {
    name: Format(
        name=name,
        title=f"bitmap of the dialect {name}",
        decode=partial(dialects.decode, dialect=name),
        encode=partial(dialects.encode, dialect=name),
        highest=wrapper.highest,
    )
    for name, wrapper in dialects.WRAPPERS.items()
}


def encodings() -> tuple[str, ...]:
    """Return the names of all formats that encode one vector, those of other packages last."""
    return tuple(one.name for one in (*_ALL, *_DIALECTS.values(), *added().values()) if one.encode is not None)


def format_of(name: str) -> Format:
    """Return a format that is known to be there.

    Raises:
        UsageError: it is that of another package, which is not installed here.
    """
    found = format_named(name)
    if found is None:
        raise UsageError(f"format {name} is not installed here")
    return found


def format_named(name: str) -> Format | None:
    """Return a format of dvcodec or of another package; None if there is none of this name.

    Raises:
        UsageError: that of another package cannot be loaded.
    """
    return BUILT_IN.get(name) or _DIALECTS.get(name) or added_format(name)


def detect(source: Source, limits: Limits) -> Format:
    """Return the format of a file by its bytes.

    Raises:
        DecodeError: it is damaged.
        Unsupported: it is not known.
        OSError: it cannot be read.
    """
    head = bytes(source.read(0, min(source.size, HEAD_BYTES)))
    for one in _ALL:
        if one.sniff is not None and one.sniff(source, head, limits):
            return one
    for other in added().values():
        if other.detects(source, head, limits):
            return other
    for name, may_be in _SUSPECTS.items():
        if may_be(source, head, limits):
            return BUILT_IN[name]
    raise Unsupported(
        "container",
        source=source.name,
        offset=0,
        expected="a Puffin file, a Delta, Paimon or Lance vector file, a vector blob, a roaring or Mumbling bitmap, "
        + "".join(f"a {name} file, " for name in added())
        + "or a zap segment",
        actual=(head[:12].hex(" ") or "no bytes") + _look(head),
    )


_LOOKS = {
    b"PAR1": "a Parquet file: for a table's deletes, see dvcodec audit TABLE",
    b"ORC": "an ORC file: for a table's deletes, see dvcodec audit TABLE",
    b"Obj\x01": "an Avro file",
    b"ARROW1": "an Arrow file, not of deleted rows",
    b"\x00\x05\x16\x07": "what macOS keeps beside a file, in one named ._NAME",
    b"PK\x03\x04": "a zip file",
    b"\x1f\x8b": "a gzip file",
    b"{": "JSON",
}
"""How files of other kinds begin, and what they are."""


def _look(head: bytes) -> str:
    return next((f" ({what})" for begin, what in _LOOKS.items() if head.startswith(begin)), "")


# ------------------------------------------------------------------ files and their vectors


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
    return detect(source, limits).open(source, limits)


def refuse_segment(container: Container) -> Container:
    """Return the container unless it is a search segment.

    Raises:
        Unsupported: it is a search segment.
    """
    if container.kind is ContainerKind.ZAP:
        raise no_vectors(container.source)
    return container


ALLOWED: Mapping[ContainerKind, tuple[Magic, ...]] = {
    one.kind: one.layouts for one in BUILT_IN.values() if isinstance(one, Framed)
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
    return format_of(ref.kind.value).read(source, ref, limits, verify_checksum=verify_checksum)


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
    allowed = ALLOWED.get(refs[0].kind) if refs else None
    inside = all(ref.offset >= 0 and 0 < ref.size <= source.size - ref.offset for ref in refs)
    if allowed is None or not inside or any(one.offset > other.offset for one, other in pairwise(refs)):
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
        found = batch.survey(data, offsets[first:last] - start, sizes[first:last], allowed=allowed, limits=limits)
        numbers = zip(near, found.cardinality.tolist(), found.max.tolist(), strict=True)
        for i, (ref, cardinality, highest) in enumerate(numbers):
            pos = ref.offset - start
            checked = CheckedFrame(data[pos : pos + ref.size], cardinality, highest if cardinality else None)
            yield ref, None if i in found.errors else checked


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
        return vector.load(cursor, cardinality=cardinality, limits=limits, verify_checksum=verify_checksum)
    one = format_of(kind.value)
    if isinstance(one, Framed) or one.locate is not None:
        actual = f"a file of vectors ({kind.value}): see read_rows"
        raise Unsupported("vector", source=source, offset=base, expected="the bytes of one vector", actual=actual)
    rows = one.load(cursor.view, limits=limits, source=source, base=base)
    vector.check_cardinality(cursor, 0, rows, cardinality)
    return rows


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
        return vector.load(cursor, cardinality=cardinality, limits=limits, verify_checksum=verify_checksum)

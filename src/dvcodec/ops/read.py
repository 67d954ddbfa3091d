"""Detects the container format of a file by its bytes, never by name or label, and reads its vectors.

Real Puffin files, Delta ``.bin`` files, bare blobs and Paimon index files all occur under the label "puffin".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dvcodec.core import batch, vector
from dvcodec.core.cursor import BytesLike, Cursor, as_view
from dvcodec.core.errors import DecodeError, Unsupported
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import as_count
from dvcodec.core.vector import MAGIC_BYTES, UNCOUNTED, Magic, Vector
from dvcodec.formats import Container, ContainerKind, VectorRef
from dvcodec.io import Source, SourceTarget, StorageOptions, open_source, read_up_to
from dvcodec.io.frames import read_frame
from dvcodec.io.source import by_windows, coalesce
from dvcodec.ops.built_in import BUILT_IN, Framed, detect, format_of, no_vectors


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

"""Delta's vectors on disk: frames in a file; `inline` has those in the log itself.

Specification: Delta's PROTOCOL.md, "Deletion Vector Format" and "Deletion Vector File Storage Format"; Java class
``RoaringBitmapArray``. A file is a version byte and frames back to back; only the log knows which is whose::

    u8 1 | frame | frame | ...
    frame   = u32 BE size | magic | bitmaps | u32 BE CRC-32       size = sizeInBytes = magic and bitmaps
    magic   = D1 D3 39 64: 64-bit portable roaring (portable), D0 D3 39 64: i32 count, (i32 length, bitmap) ... (native)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from dvcodec.core import frame, vector
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import BadMagic, NotCanonical, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.location import DvLocation
from dvcodec.core.rowset import RowSet
from dvcodec.delta.descriptor import EMPTY, Descriptor
from dvcodec.delta.inline import decode_inline
from dvcodec.delta.layout import MAGICS, magic_of
from dvcodec.io import SinkTarget, Source, SourceTarget, open_sink, open_source, read_window, target_name

__all__ = [
    "VERSION",
    "decode",
    "encode",
    "load",
    "read_deletion_vectors",
    "read_frames",
    "write_deletion_vectors",
    "write_stored_vectors",
]

VERSION = 1
"""The byte a vector file begins with."""
MAX_FILE_BYTES = 2**31 - 1
"""Offsets are signed 32-bit values."""


def decode(
    buf: BytesLike,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    source: str | None = None,
    base: int = 0,
) -> RowSet:
    """Decode one frame of a vector file, portable or native.

    Args:
        buf: exactly the frame: ``sizeInBytes + 8`` bytes from the descriptor's offset.
        cardinality: the descriptor's; None leaves it unchecked.
        limits: what the bytes may ask for.
        verify_checksum: False skips the CRC.
        source: name of the file, for errors.
        base: offset of the frame in that file, for errors.

    Returns:
        The deleted rows, 0-based physical positions. Not checked: positions against the file's row count.

    Raises:
        DecodeError: the bytes are no sound vector.
    """
    return vector.read(
        Cursor(buf, source=source, base=base),
        allowed=MAGICS,
        exact=True,
        cardinality=cardinality,
        limits=limits,
        verify_checksum=verify_checksum,
    ).load()


def encode(rows: RowSet, *, layout: str = "portable", run_optimize: bool = True, gap_keys: bool = True) -> bytes:
    """Encode one frame.

    The defaults give the bytes of Delta Spark for a fresh vector. Its *merged* vectors are not run-optimised again, so
    they may hold other containers.

    Args:
        rows: the deleted rows.
        layout: ``portable``, the one written to files, or ``native``.
        run_optimize: False writes no run containers (delta-kernel-rs).
        gap_keys: False leaves out empty bitmaps below the highest key (delta-kernel-rs); native needs them.

    Raises:
        UsageError: a position or a size that the format cannot hold, or an unknown layout.
    """
    magic = magic_of(layout)
    return frame.build(magic, vector.encode_payload(rows, magic, run_optimize=run_optimize, gap_keys=gap_keys))


def load(
    descriptor: Descriptor,
    table_root: str | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
) -> RowSet:
    """Read the vector that a descriptor points at, by its byte range, and hold it against the descriptor.

    Args:
        descriptor: from the log.
        table_root: the table's folder (path or URL); not needed for inline vectors and absolute paths.
        limits: what the bytes may ask for.
        verify_checksum: False skips the CRC.

    Raises:
        DecodeError: see `decode`; also where the frame's size or cardinality is not the descriptor's.
        OSError: the file cannot be opened.
    """
    if descriptor.is_inline:
        if descriptor == EMPTY:
            return RowSet()
        return decode_inline(
            descriptor.path_or_inline_dv, descriptor.size_in_bytes, cardinality=descriptor.cardinality, limits=limits
        )
    with open_source(descriptor.path(table_root)) as source:
        cursor = frame_at(source, descriptor)
        return decode(
            cursor.view,
            cardinality=descriptor.cardinality,
            limits=limits,
            verify_checksum=verify_checksum,
            source=source.name,
            base=cursor.base,
        )


def frame_at(source: Source, descriptor: Descriptor) -> Cursor:
    """Read the byte range of a descriptor's frame.

    An absent offset means 0 to the protocol and to Java, 1 to delta-kernel-rs. Byte 0 of a vector file is its version
    and cannot begin a frame, so: 1 if it is the version, else 0.
    """
    offset = descriptor.offset
    if offset is None:
        offset = 1 if bytes(source.read(0, 1)) == bytes([VERSION]) else 0
    return read_window(source, offset, descriptor.frame_size)


def read_frames(source: Source, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[Cursor]:
    """Yield a cursor on each frame of a vector file (version byte, frames back to back), read in large pieces.

    Raises:
        BadMagic: the file does not begin with the version.
        Truncated: it ends inside a frame.
        LimitExceeded: more frames than `Limits.max_blobs`.
    """
    head = read_window(source, 0, min(source.size, 1))
    version = head.u8("version byte")
    if version != VERSION:
        raise head.error(BadMagic, "version byte", at=0, expected=VERSION, actual=version)
    piece, offset, count = head, 1, 0
    while offset < source.size:
        piece = _piece(source, piece, offset, 4)
        size = frame.peek_size(piece)
        if size > source.size - offset:
            raise piece.error(
                Truncated,
                "length field",
                expected=f"at most {max(source.size - offset - 8, 0)} (bytes left for magic and vector)",
                actual=size - 8,
            )
        if size < frame.FRAME_OVERHEAD + 4:
            raise piece.error(NotCanonical, "length field", expected="at least 8 (magic and a count)", actual=size - 8)
        count += 1
        limits.check("max_blobs", count, piece)
        limits.check("max_vector_bytes", size, piece)
        piece = _piece(source, piece, offset, size)
        yield Cursor(piece.take(size, "frame"), source=source.name, base=offset)
        offset += size


def _piece(source: Source, piece: Cursor, offset: int, size: int) -> Cursor:
    """Return a cursor at `offset` with `size` bytes after it: the piece at hand, or the next one read."""
    if offset + size > piece.base + piece.end or offset < piece.base:
        left = source.size - offset
        piece = read_window(source, offset, min(left, max(size, 1 << 20)))
    piece.pos = offset - piece.base
    return piece


def read_deletion_vectors(
    source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS, verify_checksum: bool = True
) -> dict[int, RowSet]:
    """Read all vectors of a vector file: offset of the frame -> deleted rows (the log knows the data files).

    Raises:
        DecodeError: the file or a vector is not sound.
    """
    with open_source(source) as opened:
        return {
            cursor.base: vector.read(
                cursor, allowed=MAGICS, exact=True, limits=limits, verify_checksum=verify_checksum
            ).load()
            for cursor in read_frames(opened, limits=limits)
        }


def write_deletion_vectors(
    sink: SinkTarget,
    vectors: Mapping[str, RowSet],
    *,
    run_optimize: bool = True,
    gap_keys: bool = True,
) -> list[DvLocation]:
    """Write one vector file with a frame for each data file, in the order of the mapping.

    Args:
        sink: path, URL or writable file; `new_file` gives a Delta name.
        vectors: data file -> deleted rows.
        run_optimize: see `encode`.
        gap_keys: see `encode`.

    Returns:
        Where each vector is; `Descriptor.from_location` makes a log entry of it. No vectors: no file.

    Raises:
        UsageError: a row set that does not fit, or a file of more than 2**31 - 1 bytes (nothing is written then).
    """
    return write_stored_vectors(
        sink,
        (
            ((path, rows.cardinality), encode(rows, run_optimize=run_optimize, gap_keys=gap_keys))
            for path, rows in vectors.items()
        ),
    )


def write_stored_vectors(
    sink: SinkTarget, vectors: Iterable[tuple[tuple[str | None, int], BytesLike]]
) -> list[DvLocation]:
    """Write frames as they are, ((data file, cardinality), frame): conversion without re-encoding."""
    items = iter(vectors)
    first = next(items, None)
    if first is None:
        return []
    written = []
    with open_sink(sink) as out:
        out.write(bytes([VERSION]))
        for (path, cardinality), data in itertools.chain([first], items):
            offset = out.write(data)
            if out.position > MAX_FILE_BYTES:
                raise UsageError(f"{out.name}: more than {MAX_FILE_BYTES} bytes; write several files")
            written.append((path, cardinality, offset, out.position - offset))
        total = out.position
    return [
        DvLocation("delta", target_name(sink), offset, size, cardinality, path, total)
        for path, cardinality, offset, size in written
    ]

"""Delta's vectors on disk: frames in a file; `inline` has those in the log itself.

Specification: Delta's PROTOCOL.md, "Deletion Vector Format" and "Deletion Vector File Storage Format"; Java class
``RoaringBitmapArray``. A file is a version byte and frames back to back; only the log knows which is whose::

    u8 1 | frame | frame | ...
    frame   = u32 BE size | magic | bitmaps | u32 BE CRC-32       size = sizeInBytes = magic and bitmaps
    magic   = D1 D3 39 64: 64-bit portable roaring (portable), D0 D3 39 64: i32 count, (i32 length, bitmap) ... (native)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from dvcodec.core import frame, vector
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.frame import StoredFrame
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.location import DvLocation
from dvcodec.core.rowset import RowSet
from dvcodec.delta.descriptor import ABSOLUTE, EMPTY, Descriptor
from dvcodec.delta.inline import decode_inline
from dvcodec.delta.layout import MAGICS, magic_of
from dvcodec.io import (
    SinkTarget,
    Source,
    SourceTarget,
    StorageOptions,
    open_sink,
    open_source,
    read_window,
    target_name,
)
from dvcodec.io.allowed_locations import check_reach, protocols
from dvcodec.io.frames import VERSION, load_frames, read_frames, write_frames

__all__ = [
    "decode",
    "encode",
    "load",
    "read_deletion_vectors",
    "read_frames",
    "write_deletion_vectors",
    "write_stored_vectors",
]


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
        base: byte offset of the frame in that file, for errors.

    Returns:
        The deleted rows, 0-based physical positions. Not checked: positions against the file's row count.

    Raises:
        DecodeError: the bytes are no sound vector.
        UsageError: `buf` is no contiguous buffer.
    """
    return vector.read_whole(buf, MAGICS, cardinality, limits, verify_checksum, source, base).load()


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
    return frame.build(magic, *vector.encode_pieces(rows, magic, run_optimize=run_optimize, gap_keys=gap_keys))


def load(
    descriptor: Descriptor,
    table_root: str | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    allow: Iterable[str] = (),
    storage_options: StorageOptions = None,
) -> RowSet:
    """Read the vector that a descriptor points at, by its byte range, and hold it against the descriptor.

    Args:
        descriptor: from the log.
        table_root: the table's folder (path or URL); not needed for inline vectors and absolute paths.
        limits: what the bytes may ask for.
        verify_checksum: False skips the CRC.
        allow: protocols that an absolute path may have besides those of `table_root` and of object stores: ``http``;
            ``file`` where `table_root` is remote.
        storage_options: for URLs: how the store is reached, as deltalake and polars spell it.

    Raises:
        DecodeError: see `decode`; also where the frame's size or cardinality is not the descriptor's.
        Unsupported: the path is one that a log may not name.
        UsageError: a relative path and no `table_root`, or `allow` names no protocols.
        OSError: the file cannot be opened or read.
    """
    if descriptor.is_inline:
        if descriptor == EMPTY:
            return RowSet()
        return decode_inline(
            descriptor.path_or_inline_dv, descriptor.size_in_bytes, cardinality=descriptor.cardinality, limits=limits
        )
    path = descriptor.path(table_root)
    if descriptor.storage_type == ABSOLUTE:
        check_reach(path, table_root, protocols(allow))
    with open_source(path, storage_options=storage_options) as source:
        cursor = frame_at(source, descriptor, limits)
        return decode(
            cursor.view,
            cardinality=descriptor.cardinality,
            limits=limits,
            verify_checksum=verify_checksum,
            source=source.name,
            base=cursor.base,
        )


def frame_at(source: Source, descriptor: Descriptor, limits: Limits = DEFAULT_LIMITS) -> Cursor:
    """Read the byte range of a descriptor's frame.

    An absent offset means 0 to the protocol and to Java, 1 to delta-kernel-rs. Byte 0 of a vector file is its version
    and cannot begin a frame, so: 1 if it is the version, else 0.

    Raises:
        LimitExceeded: the descriptor asks for more than `Limits.max_vector_bytes`.
        Truncated: the range does not lie in the file.
        OSError: the file cannot be read.
    """
    offset = descriptor.offset
    if offset is None:
        offset = 1 if bytes(source.read(0, 1)) == bytes([VERSION]) else 0
    if descriptor.frame_size > limits.max_vector_bytes:  # only then is the file's size of interest, or asked for
        size = min(descriptor.frame_size, max(source.size - offset, 0))
        limits.check("max_vector_bytes", size, Cursor(b"", source=source.name, base=offset))
    return read_window(source, offset, descriptor.frame_size)


def read_deletion_vectors(
    source: SourceTarget,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    storage_options: StorageOptions = None,
) -> dict[int, RowSet]:
    """Read all vectors of a vector file: offset of the frame -> deleted rows (the log knows the data files).

    Args:
        source: bytes, path, URL, open file or `Source`.
        limits: what the bytes may ask for.
        verify_checksum: False skips the CRCs.
        storage_options: for URLs: how the store is reached, as deltalake and polars spell it.

    Raises:
        DecodeError: the file or a vector is not sound.
        OSError: the file cannot be opened or read.
    """
    with open_source(source, storage_options=storage_options) as opened:
        return load_frames(opened, allowed=MAGICS, limits=limits, verify_checksum=verify_checksum)


def write_deletion_vectors(
    sink: SinkTarget,
    vectors: Mapping[str, RowSet],
    *,
    run_optimize: bool = True,
    gap_keys: bool = True,
    storage_options: StorageOptions = None,
) -> list[DvLocation]:
    """Write one vector file with a frame for each data file, in the order of the mapping.

    Args:
        sink: path, URL or writable file; `new_file` gives a Delta name.
        vectors: data file -> deleted rows.
        run_optimize: see `encode`.
        gap_keys: see `encode`.
        storage_options: for URLs: how the store is reached, as deltalake and polars spell it.

    Returns:
        Where each vector is; `Descriptor.from_location` makes a log entry of it. No vectors: no file.

    Raises:
        UsageError: a row set that does not fit, or a file of more than 2**31 - 1 bytes (nothing is written then).
        OSError: the file cannot be written (an old one stays then).
    """
    return write_stored_vectors(
        sink,
        (
            StoredFrame(path, rows.cardinality, encode(rows, run_optimize=run_optimize, gap_keys=gap_keys))
            for path, rows in vectors.items()
        ),
        storage_options=storage_options,
    )


def write_stored_vectors(
    sink: SinkTarget, vectors: Iterable[StoredFrame], *, storage_options: StorageOptions = None
) -> list[DvLocation]:
    """Write frames as they are: conversion without re-encoding. What is in them is not looked at.

    Args:
        sink: path, URL or writable file; `new_file` gives a Delta name.
        vectors: the frames. None of them: no file.
        storage_options: for URLs: how the store is reached, as deltalake and polars spell it.

    Raises:
        UsageError: a file of more than 2**31 - 1 bytes (nothing is written then).
        OSError: the file cannot be written (an old one stays then).
    """
    items = iter(vectors)
    first = next(items, None)
    if first is None:
        return []
    with open_sink(sink, storage_options=storage_options) as out:
        written = write_frames(out, itertools.chain([first], items))
        total = out.position
    return [
        DvLocation("delta", target_name(sink), offset, size, cardinality, path, total)
        for path, cardinality, offset, size in written
    ]

"""Delta's vectors: in files of their own, and inline in the log, in either of two layouts.

Specification: Delta's PROTOCOL.md, "Deletion Vector Format" and "Deletion Vector File Storage Format"; Java class
``RoaringBitmapArray``. A file is a version byte and adjacent frames; the log has their data files::

    u8 1 | frame | frame | ...
    frame   = u32 BE size | magic | bitmaps | u32 BE CRC-32       size = sizeInBytes = magic and bitmaps
    magic   = D1 D3 39 64: 64-bit portable roaring (portable), D0 D3 39 64: i32 count, (i32 length, bitmap) ... (native)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain

from dvcodec.core import vector
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.usage import check_choice, check_type
from dvcodec.core.vector import DvLocation, Magic, StoredFrame, Vector, checked_frames
from dvcodec.delta import z85
from dvcodec.delta.descriptor import ABSOLUTE, EMPTY, INLINE, Descriptor
from dvcodec.io import SinkTarget, Source, SourceTarget, StorageOptions, frames, open_source
from dvcodec.io.allowed_locations import check_reach, hide_values, protocols
from dvcodec.io.frames import VERSION, Range, encoded, load_ranges, read_frame, write_frames

MAGICS = (Magic.PORTABLE64, Magic.NATIVE64)
_LAYOUTS = {"portable": Magic.PORTABLE64, "native": Magic.NATIVE64}


def magic_of(layout: str) -> Magic:
    """Return the magic of a layout by its name, ``portable`` or ``native``.

    Raises:
        UsageError: another name.
    """
    check_choice(layout, _LAYOUTS, "layout")
    return _LAYOUTS[layout]


INLINE_ADVICE = 2**16 - 1
"""Maximum characters for readers that store inline vectors in Java's modified UTF-8."""


def decode_inline(
    text: str,
    size_in_bytes: int | None = None,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    source: str | None = None,
) -> RowSet:
    """Decode an inline vector; inline vectors have no checksum.

    Args:
        text: `pathOrInlineDv`, with either Z85 padding.
        size_in_bytes: `sizeInBytes`; without it, the zero bytes of Java's padding are an error.
        cardinality: from the descriptor; None skips the check.
        limits: bounds on what the bytes may claim.
        source: name of the log, for errors.

    Raises:
        DecodeError: the text is not Z85, or the vector is corrupt.
        UsageError: `size_in_bytes` is negative, or an argument has a wrong type.
    """
    return read_inline(text, size_in_bytes, cardinality=cardinality, limits=limits, source=source).load()


def read_inline(
    text: str,
    size_in_bytes: int | None = None,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    source: str | None = None,
) -> Vector:
    """Decode the text and walk the vector: `decode_inline` without expanding the rows.

    Raises:
        DecodeError: the text is not Z85, or the bytes are not a vector. Not checked: array order and bitset population
            (`Vector.check`).
        UsageError: `size_in_bytes` is negative, or an argument has a wrong type.
    """
    vector.check_count(cardinality)
    name = source or "<inline>"
    data = z85.decode(text, size_in_bytes, source=name)
    cursor = Cursor(data, source=name)
    return vector.read_payload(cursor, allowed=MAGICS, cardinality=cardinality, limits=limits)


def encode_inline(rows: RowSet, *, layout: str = "portable", run_optimize: bool = True) -> Descriptor:
    """Encode a vector into its descriptor, with Java's padding (Rust reads it too).

    Not checked: readers that store the text in Java's modified UTF-8 fail above `INLINE_ADVICE` characters.

    Args:
        rows: the deleted rows; the descriptor of an empty set is `EMPTY`.
        layout: ``portable`` or ``native``.
        run_optimize: False writes no run containers.

    Raises:
        UsageError: not a `RowSet`, a position or a size that does not fit the format, or an unknown layout.

    >>> d = encode_inline(RowSet([3, 4, 7, 11, 18, 29]))
    >>> d.size_in_bytes, d.cardinality, d.path_or_inline_dv
    (44, 6, '^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L')
    """
    check_rows(rows)
    magic = magic_of(layout)
    if not rows:
        return EMPTY
    data = magic.value + vector.encode_payload(rows, magic, run_optimize=run_optimize)
    return Descriptor(INLINE, z85.encode(data), len(data), rows.cardinality)


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
        cardinality: the descriptor's `cardinality`; None skips the check.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC.
        source: name of the file, for errors.
        base: byte offset of the frame in that file, for errors.

    Returns:
        The deleted rows, 0-based physical positions. Not checked: positions against the data file's row count.

    Raises:
        DecodeError: the frame is corrupt: `Truncated`, `ChecksumMismatch`, `BadMagic`, `NotCanonical`,
            `CardinalityMismatch` or `LimitExceeded`.
        UsageError: `buf` is not a contiguous buffer, or another argument has a wrong type or is negative.

    >>> decode(encode(RowSet([1, 3, 5]), layout="native"), cardinality=3)
    RowSet([1, 3, 5])
    """
    vector.check_count(cardinality)
    cursor = Cursor(buf, source=source, base=base)
    return vector.read(cursor, MAGICS, cardinality, limits, verify_checksum=verify_checksum).load()


def encode(rows: RowSet, *, layout: str = "portable", run_optimize: bool = True, gap_keys: bool = True) -> bytes:
    """Encode one frame.

    The defaults give the bytes of Delta Spark for a fresh vector. Delta Spark does not run-optimise *merged* vectors,
    so they may have other containers.

    Args:
        rows: the deleted rows.
        layout: ``portable``, the one written to files, or ``native``.
        run_optimize: False writes no run containers (delta-kernel-rs).
        gap_keys: False omits the empty bitmaps below the highest key (delta-kernel-rs); native always has them.

    Raises:
        UsageError: not a `RowSet`, a position or a size that does not fit the format, or an unknown layout.
    """
    magic = magic_of(layout)
    return vector.build(magic, *vector.encode_pieces(rows, magic, run_optimize=run_optimize, gap_keys=gap_keys))


def load(
    location: DvLocation | Descriptor,
    folder: str | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    allow: Iterable[str] = (),
    storage_options: StorageOptions = None,
) -> RowSet:
    """Read one vector by its byte range and check it against its location.

    Args:
        location: a descriptor from the log, or what `write_deletion_vectors` returned.
        folder: the table's folder (path or URL), for descriptors with a relative path.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC.
        allow: protocols allowed in an absolute path, besides those of `folder` and of object stores: ``http``;
            ``file`` where `folder` is remote.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the vector is corrupt, or its size or cardinality differs from the descriptor's. For a file outside
            `folder` the error shows no values found in it.
        Unsupported: an absolute path that `allow` does not cover.
        UsageError: not a location, a relative path without `folder`, or `allow` is not a collection of protocols.
        OSError: the file cannot be opened or read.
    """
    _check_location(location)
    check_type(folder, (str, type(None)), "folder", "a str")
    if isinstance(location, DvLocation):
        path = location.path
    elif location == EMPTY:
        return RowSet()
    elif location.is_inline:
        return decode_inline(
            location.path_or_inline_dv, location.size_in_bytes, cardinality=location.cardinality, limits=limits
        )
    else:
        path = location.path(folder)
        if location.storage_type == ABSOLUTE:
            check_reach(path, folder, protocols(allow))
    with hide_values(path, folder), open_source(path, storage_options=storage_options) as source:
        return read_vector(source, location, limits, verify_checksum=verify_checksum).load()


def _check_location(location: object) -> None:
    check_type(location, (DvLocation, Descriptor), "location", "a DvLocation or a Descriptor")


def _range(source: Source, location: DvLocation | Descriptor) -> Range:
    """Return the range of a frame.

    An absent offset means 0 in the protocol and in Java, 1 in delta-kernel-rs. Here: 1 if byte 0 is the version of
    a vector file (which cannot begin a frame), else 0.
    """
    offset = location.offset
    if offset is None:
        offset = 1 if bytes(source.read(0, 1)) == bytes([VERSION]) else 0
    return offset, location.size if isinstance(location, DvLocation) else location.frame_size, location.cardinality


def read_vector(
    source: Source, location: DvLocation | Descriptor, limits: Limits = DEFAULT_LIMITS, *, verify_checksum: bool = True
) -> Vector:
    """`load` from an open file, without expanding the rows.

    Raises:
        DecodeError: see `load`. Not checked: array order and bitset population (`Vector.check`).
        OSError: the file cannot be read.
    """
    offset, size, cardinality = _range(source, location)
    cursor = read_frame(source, offset, size, limits)
    return vector.read(cursor, MAGICS, cardinality, limits, verify_checksum=verify_checksum)


def read_deletion_vectors(
    source: SourceTarget,
    locations: Iterable[DvLocation] | Mapping[str, Descriptor],
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    storage_options: StorageOptions = None,
) -> dict[str, RowSet]:
    """Read vectors of one vector file by their byte ranges: data file -> deleted rows.

    The file does not name data files; use `load_frames` without the log.

    Args:
        source: bytes, path, URL, open file or `Source`.
        locations: data file -> descriptor, from the log; or what `write_deletion_vectors` returned. Paths in them are
            ignored: all are read from `source`.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: a vector is corrupt, or its size or cardinality differs from the descriptor's.
        UsageError: not locations, an inline vector, a location without a data file, or two locations of one data file.
        OSError: the file cannot be opened or read.
    """
    check_type(locations, Iterable, "locations", "an iterable of DvLocation or a mapping of data files to Descriptor")
    named: Iterable[tuple[str | None, DvLocation | Descriptor]] = (
        locations.items()
        if isinstance(locations, Mapping)
        else ((getattr(one, "data_file", None), one) for one in locations)
    )
    ranges: dict[str, Range] = {}
    with open_source(source, storage_options=storage_options) as opened:
        for data_file, location in named:
            _check_location(location)
            if isinstance(location, Descriptor) and location.is_inline:
                raise UsageError(f"{data_file}: the vector is inline, not in {opened.name}")
            if data_file is None or data_file in ranges:
                problem = "no data file" if data_file is None else f"a second vector for the data file {data_file!r}"
                raise UsageError(f"{opened.name}, vector at byte {location.offset}: {problem}")
            ranges[data_file] = _range(opened, location)
        found = load_ranges(
            opened, list(ranges.values()), allowed=MAGICS, limits=limits, verify_checksum=verify_checksum
        )
    return dict(zip(ranges, found, strict=True))


def load_frames(
    source: SourceTarget,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    storage_options: StorageOptions = None,
) -> dict[int, RowSet]:
    """Read all vectors of a vector file: offset of the frame -> deleted rows.

    Args:
        source: bytes, path, URL, open file or `Source`.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the file or a vector is corrupt.
        OSError: the file cannot be opened or read.
    """
    with open_source(source, storage_options=storage_options) as opened:
        return frames.load_frames(opened, allowed=MAGICS, limits=limits, verify_checksum=verify_checksum)


def write_deletion_vectors(
    target: SinkTarget,
    vectors: Mapping[str, RowSet],
    *,
    run_optimize: bool = True,
    gap_keys: bool = True,
    storage_options: StorageOptions = None,
) -> list[DvLocation]:
    """Write one vector file with a frame for each data file, in the order of the mapping.

    Args:
        target: path, URL or writable file; `new_file` gives a Delta name.
        vectors: data file -> deleted rows.
        run_optimize: see `encode`.
        gap_keys: see `encode`.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The location of each vector; `Descriptor.from_location` converts it to a log entry. No vectors: no file.

    Raises:
        UsageError: not row sets by data file, a row set that does not fit, or a file of more than 2**31 - 1 bytes
            (nothing is written then).
        OSError: the file cannot be written (an existing file is kept).
    """
    stored = encoded(vectors, partial(encode, run_optimize=run_optimize, gap_keys=gap_keys))
    return write_stored_vectors(target, stored, storage_options=storage_options)


def write_stored_vectors(
    target: SinkTarget, vectors: Iterable[StoredFrame], *, storage_options: StorageOptions = None
) -> list[DvLocation]:
    """Write frames unchanged: conversion without re-encoding. Their contents are not checked.

    Args:
        target: path, URL or writable file; `new_file` gives a Delta name.
        vectors: the frames. No frames: no file.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        UsageError: not frames, or a file of more than 2**31 - 1 bytes (nothing is written then).
        OSError: the file cannot be written (an existing file is kept).
    """
    items = checked_frames(vectors)
    first = next(items, None)
    if first is None:
        return []
    return write_frames(target, chain([first], items), lambda _: "delta", storage_options=storage_options)

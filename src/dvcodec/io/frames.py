"""Files of frames: a version byte and frames back to back, as in Delta's vector files and Paimon's index files.

::

    u8 1 | frame | frame | ...          (see `core.vector`)

These files have no count, footer or names: Delta's log and Paimon's index manifest have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from dvcodec.core import batch, vector
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, DecodeError, NotCanonical, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.ragged import Index
from dvcodec.core.rowset import RowSet, check_vectors
from dvcodec.core.usage import check_integer
from dvcodec.core.vector import DvLocation, Magic, StoredFrame
from dvcodec.io.opening import open_sink, open_source
from dvcodec.io.sink import SinkTarget, target_name
from dvcodec.io.source import Source, SourceTarget, coalesce, read_window
from dvcodec.io.storage import StorageOptions
from dvcodec.io.target import check_data_file

VERSION = 1
"""The first byte of the file."""
MAX_FILE_BYTES = 2**31 - 1
"""Offsets are signed 32-bit values."""
_MOST = 1 << 62
_PIECE = 1 << 20
_REMOTE_PIECE = 1 << 24

Range: TypeAlias = "tuple[int, int, int | None]"
"""Offset and size of a frame in bytes, and its rows according to the metadata; None = unknown."""


def check_version(source: Source) -> Cursor:
    """Check the version byte; return a cursor after it.

    Raises:
        Truncated: the file is empty.
        BadMagic: another version.
        OSError: the file cannot be read.
    """
    head = read_window(source, 0, min(source.size, 1))
    version = head.u8("version byte")
    if version != VERSION:
        raise head.error(BadMagic, "version byte", at=0, expected=VERSION, actual=version)
    return head


def read_frames(
    source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS, storage_options: StorageOptions = None
) -> Iterator[Cursor]:
    """Yield a cursor over each frame of a file, read in large pieces. The vectors in the frames are not checked.

    Args:
        source: bytes, path, URL, open file or `Source`.
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        BadMagic: the file does not begin with version 1.
        Truncated: it is empty, or ends inside a frame.
        NotCanonical: a frame is too short to hold a vector.
        LimitExceeded: more frames than `Limits.max_records`, or a frame beyond `Limits.max_vector_bytes`.
        OSError: the file cannot be read.
    """
    with open_source(source, storage_options=storage_options) as opened:
        for piece, starts, sizes in _pieces(opened, limits):
            for start, size in zip(starts, sizes, strict=True):
                yield Cursor(piece.view[start : start + size], source=opened.name, base=piece.base + start)


def read_frame(source: Source, offset: int, size: int, limits: Limits) -> Cursor:
    """Read the byte range of one frame.

    Raises:
        LimitExceeded: the frame is larger than `Limits.max_vector_bytes`.
        Truncated: the range reaches beyond the end of the file.
        UsageError: `offset` or `size` is not an integer, or `limits` not `Limits`.
        OSError: the file cannot be read.
    """
    check_limits(limits)
    check_integer(offset, "offset")
    check_integer(size, "size")
    if size > limits.max_vector_bytes:  # only here: the size of a remote file costs a request
        here = Cursor(b"", source=source.name, base=offset)
        limits.check("max_vector_bytes", min(size, max(source.size - offset, 0)), here)
    return read_window(source, offset, size)


def load_ranges(
    source: Source,
    ranges: Sequence[Range],
    *,
    allowed: tuple[Magic, ...],
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
) -> list[RowSet]:
    """Read the vectors at byte ranges of a file, in any order; a range that comes again is read once.

    Neighbours are read and decoded together, which saves about 50 microseconds for each vector.

    Raises:
        DecodeError: a vector is corrupt (see `core.vector.read`), or `read_frame` refuses its range.
        UsageError: see `read_frame`.
        OSError: the file cannot be read.
    """
    check_limits(limits)
    found: dict[Range, RowSet] = {}
    many = []
    for one in dict.fromkeys(ranges):
        offset, size, rows = one
        whole = type(offset) is type(size) is type(0 if rows is None else rows) is int
        if whole and 0 <= offset < _MOST and 0 <= size <= limits.max_vector_bytes and 0 <= (rows or 0) < _MOST:
            many.append(one)
        else:
            cursor = read_frame(source, offset, size, limits)
            found[one] = vector.load(cursor, allowed, rows, limits, verify_checksum=verify_checksum)
    offsets, sizes = (np.array([one[i] for one in many], np.int64) for i in range(2))
    stated = np.array([-1 if rows is None else rows for _, _, rows in many], np.int64)
    rows_of = load_at(source, offsets, sizes, stated, allowed=allowed, limits=limits, verify_checksum=verify_checksum)
    found.update(zip(many, rows_of, strict=True))
    return [found[one] for one in ranges]


def load_at(
    source: Source,
    offsets: Index,
    sizes: Index,
    cardinalities: Index,
    *,
    allowed: tuple[Magic, ...],
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
) -> list[RowSet]:
    """Read the vectors at byte ranges of a file, in any order; neighbours are read and decoded together.

    Args:
        source: the file.
        offsets: int64[n], first byte of each frame.
        sizes: int64[n], bytes of each frame, within `limits`.
        cardinalities: int64[n], rows according to the metadata; negative: unknown.
        allowed: magics that the format allows.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.

    Raises:
        DecodeError: a vector is corrupt (see `core.vector.read`), or a range is outside the file.
        OSError: the file cannot be read.
    """
    order = np.argsort(offsets, kind="stable")
    offsets, sizes, stated = offsets[order], sizes[order], cardinalities[order]
    load = partial(batch.load, allowed=allowed, limits=limits, verify_checksum=verify_checksum)
    found: list[RowSet] = []
    for first, last, start, stop in coalesce(offsets, sizes):
        within = slice(first, last)
        try:
            window = read_window(source, start, stop - start)
        except Truncated:  # of one of them, which says so
            for i in range(first, last):
                window = read_window(source, int(offsets[i]), int(sizes[i]))
                found += load(window, np.zeros(1, np.int64), sizes[i : i + 1], cardinalities=stated[i : i + 1])
        else:
            found += load(window, offsets[within] - start, sizes[within], cardinalities=stated[within])
    placed = dict(zip(order.tolist(), found, strict=True))
    return [placed[i] for i in range(len(found))]


def few_at(
    source: Source,
    offsets: Index,
    sizes: Index,
    cardinalities: Index,
    *,
    allowed: tuple[Magic, ...],
    limits: Limits = DEFAULT_LIMITS,
    most_rows: int,
) -> batch.Few:
    """Read the vectors of few rows among those at byte ranges of a file; see `batch.few`. No vector is an error.

    Args:
        source: the file.
        offsets: int64[n], first byte of each frame, ascending.
        sizes: int64[n], bytes of each frame.
        cardinalities: int64[n], rows according to the metadata; negative: unknown.
        allowed: magics that the format allows.
        limits: bounds on what the bytes may claim.
        most_rows: see `batch.few`.

    Raises:
        LimitExceeded: there is too little memory for them.
        OSError: the file cannot be read.
    """
    found = []
    for first, last, start, stop in coalesce(offsets, sizes):
        within = slice(first, last)
        starts, lengths = offsets[within] - start, sizes[within]
        try:
            window = read_window(source, start, stop - start)
        except Truncated:
            there = starts + lengths <= source.size - start
            starts, lengths = np.where(there, starts, 0), np.where(there, lengths, 0)
            window = read_window(source, start, int((starts + lengths).max())) if there.any() else Cursor(b"")
        stated = cardinalities[within]
        found.append(
            batch.few(
                window, starts, lengths, allowed=allowed, cardinalities=stated, limits=limits, most_rows=most_rows
            )
        )
    return found[0] if len(found) == 1 else batch.Few.join(found)


def load_frames(
    source: Source,
    *,
    allowed: tuple[Magic, ...],
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
) -> dict[int, RowSet]:
    """Read the vectors in all frames of a file: offset of the frame -> deleted rows.

    Raises:
        DecodeError: the first error in the file (see `read_frames`) or in a vector (see `core.vector.read`).
        OSError: the file cannot be read.
    """
    found: dict[int, RowSet] = {}
    for piece, starts, sizes in _pieces(source, limits):
        rows = batch.load(
            piece,
            np.array(starts, np.int64),
            np.array(sizes, np.int64),
            allowed=allowed,
            limits=limits,
            verify_checksum=verify_checksum,
        )
        found.update(zip((piece.base + start for start in starts), rows, strict=True))
    return found


def _pieces(source: Source, limits: Limits) -> Iterator[tuple[Cursor, list[int], list[int]]]:
    """Yield pieces of a file with the starts and sizes of their frames; each piece has at least one whole frame.

    An error in a frame is raised after all frames before it are yielded.
    """
    check_limits(limits)
    check_version(source)
    size_of_piece = _REMOTE_PIECE if getattr(source, "remote", False) else _PIECE
    offset, count, error = 1, 0, None
    while offset < source.size:
        piece = read_window(source, offset, min(source.size - offset, size_of_piece))
        starts: list[int] = []
        sizes: list[int] = []
        while piece.remaining and not (starts and piece.remaining < vector.LENGTH_BYTES):
            try:
                size = _frame_size(piece, source.size - offset - piece.pos, count + len(starts) + 1, limits)
            except DecodeError as err:
                error = err
                break
            if size > piece.remaining:
                if starts:
                    break
                piece = read_window(source, offset, size)
            starts.append(piece.pos)
            sizes.append(size)
            piece.pos += size
        if starts:
            yield piece, starts, sizes
        if error is not None:
            raise error
        offset += piece.pos
        count += len(starts)


def _frame_size(piece: Cursor, left: int, count: int, limits: Limits) -> int:
    """Return the size of the next frame, the `count`-th of the file; `left` bytes remain in the file."""
    size = vector.peek_size(piece)
    if size > left:
        raise piece.error(
            Truncated,
            "length field",
            expected=f"at most {max(left - 8, 0)} (bytes left for magic and bitmap)",
            actual=size - 8,
        )
    if size < vector.FRAME_OVERHEAD + 4:
        raise piece.error(NotCanonical, "length field", expected="at least 8 (magic and a count)", actual=size - 8)
    limits.check("max_records", count, piece)
    limits.check("max_vector_bytes", size, piece)
    return size


def encoded(vectors: Mapping[str, RowSet], encode: Callable[[RowSet], bytes]) -> Iterator[StoredFrame]:
    """Return the frames of vectors by data file, each encoded when it is asked for.

    Raises:
        UsageError: not row sets by data file, or one that does not fit.
    """
    check_vectors(vectors)

    def frames() -> Iterator[StoredFrame]:
        for path, rows in vectors.items():
            try:
                yield StoredFrame(path, rows.cardinality, encode(rows))
            except UsageError as err:
                raise UsageError(f"{path}: {err}") from None

    return frames()


def write_frames(
    target: SinkTarget,
    stored_frames: Iterable[StoredFrame],
    format_of: Callable[[StoredFrame], str],
    *,
    until: int = MAX_FILE_BYTES,
    storage_options: StorageOptions = None,
) -> list[DvLocation]:
    """Write a file: the version byte and frames, until it has more than `until` bytes.

    Args:
        target: path, URL or writable file.
        stored_frames: the frames; their contents are not checked.
        format_of: returns `DvLocation.format` of a frame.
        until: bytes.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The location of each frame, in file order.

    Raises:
        UsageError: the file would be larger than 2**31 - 1 bytes, or a data file has a name that is not UTF-8 (nothing
            is written then).
        OSError: the file cannot be written (an existing file is kept).
    """
    written = []
    with open_sink(target, storage_options=storage_options) as out:
        out.write(bytes([VERSION]))
        for stored in stored_frames:
            check_data_file(stored.data_file)
            kind = format_of(stored)
            offset = out.write(stored.data)
            if out.position > MAX_FILE_BYTES:
                raise UsageError(f"{out.name}: larger than {MAX_FILE_BYTES} bytes; write several files")
            written.append((kind, offset, out.position - offset, stored.cardinality, stored.data_file))
            if out.position > until:
                break
        total = out.position
    path = target_name(target)
    return [DvLocation(kind, path, offset, size, rows, name, total) for kind, offset, size, rows, name in written]

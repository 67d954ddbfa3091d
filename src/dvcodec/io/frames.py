"""Files of frames: a version byte and frames back to back, as in Delta's vector files and Paimon's index files.

::

    u8 1 | frame | frame | ...          (see `core.frame`)

These files have no count, footer or names: Delta's log and Paimon's index manifest have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from dvcodec.core import batch, frame
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, DecodeError, NotCanonical, Truncated, UsageError
from dvcodec.core.frame import Magic, StoredFrame
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_integer
from dvcodec.io.file_key import check_data_file
from dvcodec.io.opening import open_source
from dvcodec.io.sink import Sink
from dvcodec.io.source import Source, SourceTarget, read_window
from dvcodec.io.storage import StorageOptions

__all__ = ["MAX_FILE_BYTES", "VERSION", "check_version", "load_frames", "read_frame", "read_frames", "write_frames"]

VERSION = 1
"""The first byte of the file."""
MAX_FILE_BYTES = 2**31 - 1
"""Offsets are signed 32-bit values."""
_PIECE = 1 << 20
_REMOTE_PIECE = 1 << 24


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
        LimitExceeded: more frames than `Limits.max_blobs`, or a frame beyond `Limits.max_vector_bytes`.
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
        while piece.remaining and not (starts and piece.remaining < frame.LENGTH_BYTES):
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
    size = frame.peek_size(piece)
    if size > left:
        raise piece.error(
            Truncated,
            "length field",
            expected=f"at most {max(left - 8, 0)} (bytes left for magic and bitmap)",
            actual=size - 8,
        )
    if size < frame.FRAME_OVERHEAD + 4:
        raise piece.error(NotCanonical, "length field", expected="at least 8 (magic and a count)", actual=size - 8)
    limits.check("max_blobs", count, piece)
    limits.check("max_vector_bytes", size, piece)
    return size


def write_frames(
    out: Sink, frames: Iterable[StoredFrame], *, until: int = MAX_FILE_BYTES
) -> list[tuple[str | None, int, int, int]]:
    """Write the version byte and frames, until the file has more than `until` bytes.

    Returns:
        For each frame: data file, cardinality (rows), offset of its length field (bytes), size (bytes).

    Raises:
        UsageError: the file would be larger than 2**31 - 1 bytes, or a data file has a name that is not UTF-8.
        OSError: the file cannot be written.
    """
    out.write(bytes([VERSION]))
    written = []
    for stored in frames:
        check_data_file(stored.data_file)
        offset = out.write(stored.data)
        if out.position > MAX_FILE_BYTES:
            raise UsageError(f"{out.name}: larger than {MAX_FILE_BYTES} bytes; write several files")
        written.append((stored.data_file, stored.cardinality, offset, out.position - offset))
        if out.position > until:
            break
    return written

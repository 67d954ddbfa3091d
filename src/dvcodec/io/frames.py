"""Files of frames: a version byte, and frames back to back. Delta's vector files and Paimon's index files are such.

::

    u8 1 | frame | frame | ...          (see `core.frame`)

Neither has a count, a footer or names: those are in Delta's log and in Paimon's index manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dvcodec.core import frame
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, NotCanonical, Truncated, UsageError
from dvcodec.core.frame import StoredFrame
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.io.sink import Sink
from dvcodec.io.source import Source, read_window

__all__ = ["MAX_FILE_BYTES", "VERSION", "check_version", "read_frames", "write_frames"]

VERSION = 1
"""The byte such a file begins with."""
MAX_FILE_BYTES = 2**31 - 1
"""Offsets are signed 32-bit values."""
_PIECE = 1 << 20


def check_version(source: Source) -> Cursor:
    """Check the version byte, and return a cursor behind it.

    Raises:
        Truncated: the file is empty.
        BadMagic: another version.
    """
    head = read_window(source, 0, min(source.size, 1))
    version = head.u8("version byte")
    if version != VERSION:
        raise head.error(BadMagic, "version byte", at=0, expected=VERSION, actual=version)
    return head


def read_frames(source: Source, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[Cursor]:
    """Yield a cursor on each frame of a file, read in large pieces. What is in the frames is not looked at.

    Raises:
        BadMagic: the file does not begin with the version.
        Truncated: it ends inside a frame.
        LimitExceeded: more frames than `Limits.max_blobs`, or a frame beyond `Limits.max_vector_bytes`.
    """
    piece, offset, count = check_version(source), 1, 0
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
        piece = read_window(source, offset, min(left, max(size, _PIECE)))
    piece.pos = offset - piece.base
    return piece


def write_frames(
    out: Sink, frames: Iterable[StoredFrame], *, until: int = MAX_FILE_BYTES
) -> list[tuple[str | None, int, int, int]]:
    """Write the version byte and frames, the last one being the first to pass `until` bytes of file.

    Returns:
        For each frame: data file, cardinality, offset of its length field, bytes.

    Raises:
        UsageError: the file would have more than 2**31 - 1 bytes.
    """
    out.write(bytes([VERSION]))
    written = []
    for stored in frames:
        offset = out.write(stored.data)
        if out.position > MAX_FILE_BYTES:
            raise UsageError(f"{out.name}: more than {MAX_FILE_BYTES} bytes; write several files")
        written.append((stored.data_file, stored.cardinality, offset, out.position - offset))
        if out.position > until:
            break
    return written

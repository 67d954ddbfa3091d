"""The frame that Iceberg, Delta and Paimon share, byte for byte.

::

    offset  bytes  order  content
    0       4      BE     L = 4 + length of the bitmap (without itself and the CRC)
    4       4      raw    magic: the layout of the vector
    8       L - 4  -      bitmap
    4 + L   4      BE     CRC-32 of magic and bitmap

Sources: Iceberg's Puffin specification, blob type deletion-vector-v1; Delta's PROTOCOL.md, "Deletion Vector File
Storage Format"; Paimon's ``BitmapDeletionVector`` and ``Bitmap64DeletionVector``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from dvcodec.core.checksum import check_crc, crc32
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import BadMagic, NotCanonical, Truncated, UsageError
from dvcodec.core.usage import as_count, check_type

LENGTH_BYTES = 4
MAGIC_BYTES = 4
CRC_BYTES = 4
FRAME_OVERHEAD = LENGTH_BYTES + MAGIC_BYTES + CRC_BYTES
"""Bytes of a frame around its vector."""
UNCOUNTED = FRAME_OVERHEAD - MAGIC_BYTES
"""Bytes of a frame that Delta's `sizeInBytes` and Paimon's 32-bit `length` leave out: length field and CRC."""
MAX_FRAME = 2**31 - 1
"""Largest frame in bytes: sizes are signed 32-bit values in all three formats."""

_U32BE = struct.Struct(">I")


class Magic(Enum):
    """The four bytes that identify the layout of the vector in a frame."""

    PORTABLE64 = b"\xd1\xd3\x39\x64"
    """64-bit portable roaring: Iceberg, Delta, Paimon 64-bit (1681511377, little-endian)."""
    NATIVE64 = b"\xd0\xd3\x39\x64"
    """Delta's native bitmap array (1681511376, little-endian)."""
    PAIMON32 = b"\x5e\x43\xf2\xd0"
    """32-bit portable roaring: Paimon 32-bit (1581511376, big-endian)."""

    @classmethod
    def find(cls, raw: bytes) -> Magic | None:
        """Return the magic with these bytes, or None."""
        return _MAGICS.get(bytes(raw))


_MAGICS: Mapping[bytes, Magic] = {magic.value: magic for magic in Magic}


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One frame: length, CRC and magic are checked, the vector is not yet read."""

    magic: Magic
    vector: Cursor
    """The vector's bytes, without length, magic and CRC."""
    data: memoryview
    """The whole frame."""
    crc: int
    """The stored CRC-32."""


class StoredFrame(NamedTuple):
    """A whole frame, with the metadata that it does not contain."""

    data_file: str | None
    """The data file whose rows these are, None if unknown."""
    cardinality: int
    """Number of deleted rows."""
    data: BytesLike
    """The whole frame."""


def checked_frames(vectors: Iterable[StoredFrame]) -> Iterator[StoredFrame]:
    """Yield frames, each after its types are checked; their bytes are not.

    Raises:
        UsageError: not an iterable of `StoredFrame`, a data file that is not a str, a cardinality that is not a count.
    """
    check_type(vectors, Iterable, "vectors", "an iterable of StoredFrame")
    return map(_checked_frame, vectors)


def _checked_frame(stored: StoredFrame) -> StoredFrame:
    check_type(stored, StoredFrame, "an item of vectors", "a StoredFrame")
    check_type(stored.data_file, (str, type(None)), "StoredFrame.data_file", "a str or None")
    as_count(stored.cardinality, "StoredFrame.cardinality")
    return stored


def peek_size(cursor: Cursor) -> int:
    """Return the size in bytes that the frame at the cursor claims, unchecked. The cursor does not move.

    Raises:
        Truncated: less than 4 bytes are left.
    """
    start = cursor.pos
    length = cursor.u32be("length field")
    cursor.pos = start
    return length + LENGTH_BYTES + CRC_BYTES


def read(cursor: Cursor, *, allowed: tuple[Magic, ...] = tuple(Magic), verify_checksum: bool = True) -> Frame:
    """Read the frame that fills the rest of the window. Length, CRC and magic are checked, in this order.

    Args:
        cursor: at the length field.
        allowed: the magics that the format allows.
        verify_checksum: False skips the CRC (to inspect a damaged vector).

    Raises:
        Truncated: the window ends before the frame does.
        NotCanonical: the stored length is too small, or not that of the window.
        ChecksumMismatch: the CRC differs; expected (stored) and actual (computed) are given in hex.
        BadMagic: not one of `allowed`.
    """
    start = cursor.pos
    length = cursor.u32be("length field")
    if length < MAGIC_BYTES:
        raise cursor.error(
            NotCanonical, "length field", at=start, expected=f"at least {MAGIC_BYTES} bytes", actual=length
        )
    room = cursor.remaining - CRC_BYTES
    if length > room:
        expected = f"at most {max(room, 0)} (bytes left for magic and bitmap)"
        raise cursor.error(Truncated, "length field", at=start, expected=expected, actual=length)
    if length != room:
        expected = f"{room} (bytes of magic and bitmap)"
        raise cursor.error(NotCanonical, "length field", at=start, expected=expected, actual=length)
    body = cursor.take(length, "magic and bitmap")
    crc_pos = cursor.pos
    stored = cursor.u32be("CRC-32")
    if verify_checksum:
        check_crc(cursor, crc_pos, "magic and bitmap", stored, body)
    magic = check_magic(cursor, start + LENGTH_BYTES, bytes(body[:MAGIC_BYTES]), allowed)
    base = cursor.base + start + LENGTH_BYTES + MAGIC_BYTES
    vector = Cursor(body[MAGIC_BYTES:], source=cursor.source, base=base)
    return Frame(magic, vector, cursor.view[start : cursor.pos], stored)


def check_magic(cursor: Cursor, offset: int, raw: bytes, allowed: tuple[Magic, ...]) -> Magic:
    """Return the magic with the bytes `raw`, found at `offset` of the cursor's window.

    Raises:
        BadMagic: not one of `allowed`.
    """
    magic = Magic.find(raw)
    if magic is None or magic not in allowed:
        names = " or ".join(known.value.hex(" ") for known in allowed)
        raise cursor.error(BadMagic, "magic", at=offset, expected=names, actual=raw.hex(" ") or "no bytes")
    return magic


def build(magic: Magic, *vector: bytes | memoryview) -> bytes:
    """Frame a vector, which may come in pieces.

    Raises:
        UsageError: the frame would be larger than 2**31 - 1 bytes.
    """
    size = sum(map(len, vector)) + FRAME_OVERHEAD
    if size > MAX_FRAME:
        raise UsageError(f"the framed vector would have {size} bytes, more than the {MAX_FRAME} that fit")
    crc = crc32(magic.value)
    for piece in vector:
        crc = crc32(piece, crc)
    return b"".join([_U32BE.pack(size - LENGTH_BYTES - CRC_BYTES), magic.value, *vector, _U32BE.pack(crc)])

"""tantivy's alive bitsets, the ``.del`` files of its segments: which documents are not deleted.

``u32 documents | u64 words | JSON | u32 bytes of the JSON | u32 1337``: bit i & 63 of word i >> 6 is set if document i
is alive, bits after the last document are not. The JSON has the version of tantivy and of its format, and the CRC-32 of
all bytes before it. Integers are little-endian. Source: tantivy, ``alive_bitset.rs`` and ``footer.rs``.
"""

from __future__ import annotations

import json
import struct
from typing import NamedTuple

import numpy as np

from dvcodec.core.cursor import BytesLike, Cursor, check_crc, crc32
from dvcodec.core.errors import BadMagic, NotCanonical, Unsupported, UsageError
from dvcodec.core.json_text import parse_json
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.usage import as_count

__all__ = ["AliveBitset", "decode", "encode"]

MAGIC = 1337
FORMATS = range(4, 8)
"""Versions of tantivy's format that 0.27 reads."""
_VERSION = {"major": 0, "minor": 27, "patch": 0, "index_format_version": 7}
_TAIL_BYTES = 8
_LONGEST_FOOTER = 50_000
_AT_ONCE = 1 << 19
"""Bytes of words that are expanded at a time."""


class AliveBitset(NamedTuple):
    """What a file says of its segment."""

    deleted: RowSet
    """The documents that are deleted."""
    documents: int
    """All documents, deleted ones included."""


def decode(buf: BytesLike, *, limits: Limits = DEFAULT_LIMITS, source: str | None = None, base: int = 0) -> AliveBitset:
    """Decode one file.

    Args:
        buf: exactly the file.
        limits: bounds on what the bytes may claim.
        source: name of the file, for errors.
        base: byte offset of `buf` in it, for errors.

    Raises:
        DecodeError: the file is corrupt, or of a version of the format that is not known.
        UsageError: an argument of a wrong type.
    """
    check_limits(limits)
    cursor = Cursor(buf, source=source, base=base)
    limits.check("max_vector_bytes", cursor.remaining, cursor)
    _check_footer(cursor)
    documents = cursor.u32le("documents")
    words = np.frombuffer(cursor.take(8 * -(-documents // 64), "words"), np.uint8)
    cursor.expect_end("the words")
    found = []
    for at in range(0, len(words), _AT_ONCE):
        part = np.unpackbits(~words[at : at + _AT_ONCE], bitorder="little")
        if at + _AT_ONCE >= len(words):
            part, spare = np.split(part, [documents - 8 * at])
            if not spare.all():
                raise cursor.error(NotCanonical, "bits after the last document", at=cursor.end - 8, expected="zeros")
        found.append(RowSet.from_mask(part.view(np.bool_), 8 * at))
        limits.check("max_cardinality", sum(map(len, found)), cursor, 0)
    return AliveBitset(RowSet().union(*found), documents)


def _check_footer(cursor: Cursor) -> None:
    """Check what follows the words, and leave the cursor with the bytes before it."""
    tail = cursor.end - _TAIL_BYTES
    cursor.seek(tail, "end of the footer")
    size, magic = cursor.u32le("bytes of the footer"), cursor.u32le("magic")
    if magic != MAGIC:
        raise cursor.error(BadMagic, "magic", at=tail + 4, expected=MAGIC, actual=magic)
    body = tail - size
    if size > _LONGEST_FOOTER or body < 0:
        expected = f"at most {min(_LONGEST_FOOTER, tail)}"
        raise cursor.error(NotCanonical, "bytes of the footer", at=tail, expected=expected, actual=size)
    footer = parse_json(bytes(cursor.view[body:tail]), cursor.source, "footer", offset=cursor.base + body)
    match footer:
        case {"version": {"index_format_version": int(version)}, "crc": int(crc)} if 0 <= crc < 1 << 32:
            pass
        case _:
            raise cursor.error(
                NotCanonical, "footer", at=body, expected="a version and a CRC-32", actual=str(footer)[:80]
            )
    if version not in FORMATS:
        raise cursor.error(Unsupported, "version of tantivy's format", at=body, expected="4 to 7", actual=version)
    check_crc(cursor, body, "the words", crc, cursor.view[:body])
    cursor.seek(0, "documents")
    cursor.end = body


def encode(deleted: RowSet, documents: int) -> bytes:
    """Encode one file, as tantivy 0.27.0 writes it.

    Args:
        deleted: the documents that are deleted.
        documents: all documents of the segment, deleted ones included.

    Raises:
        UsageError: not a `RowSet`, a document that is not of the segment, or a segment of 2**32 documents or more.
    """
    check_rows(deleted, "deleted")
    documents = as_count(documents, "documents")
    if documents >> 32:
        raise UsageError(f"a segment has at most {2**32 - 1} documents, not {documents}")
    if deleted and (deleted.max or 0) >= documents:
        raise UsageError(f"document {deleted.max} is not in a segment of {documents} documents")
    words = np.zeros(8 * -(-documents // 64), np.uint8)
    packed = deleted.packed_mask(0, documents, keep=True)
    if documents & 7:
        packed[-1] &= (1 << (documents & 7)) - 1
    words[: len(packed)] = packed
    body = struct.pack("<I", documents) + words.tobytes()
    footer = json.dumps({"version": _VERSION, "crc": crc32(body)}, separators=(",", ":")).encode()
    return body + footer + struct.pack("<II", len(footer), MAGIC)

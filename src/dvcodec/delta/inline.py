"""Delta's inline vectors: magic and bitmaps in Z85, in the log, without length and CRC.

Specification: Delta's PROTOCOL.md, "Deletion Vector Descriptor Schema", storage type ``i``.
"""

from __future__ import annotations

from dvcodec.core import vector
from dvcodec.core.cursor import Cursor
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import Vector
from dvcodec.core.vector_arguments import check_rows
from dvcodec.delta import z85
from dvcodec.delta.descriptor import EMPTY, INLINE, Descriptor
from dvcodec.delta.layout import MAGICS, magic_of

__all__ = ["INLINE_ADVICE", "decode_inline", "encode_inline", "read_inline"]

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

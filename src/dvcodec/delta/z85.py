"""Z85, as Delta stores UUIDs and inline vectors: 4 bytes as 5 characters, most significant first.

Specification: ZeroMQ RFC 32, which asks for lengths divisible by 4. For other lengths two paddings are in use:

* Delta Spark and the Java kernel pad with zero bytes; the data ends at the descriptor's size. Used for writing.
* The Rust crate z85 (delta-kernel-rs) writes a tail of n bytes as ``4 - n`` times ``#`` and n + 1 characters.

No valid group begins with ``#`` (it would be above 2**32 - 1), so a reader can distinguish them. Java's reader does
not: it decodes Rust's ``##093`` (03 00) to 08 6e.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import NotCanonical, Truncated
from dvcodec.core.usage import as_count, check_type

ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = np.frombuffer(ALPHABET, np.uint8)
_NOT_A_DIGIT = 255
_VALUES = np.full(256, _NOT_A_DIGIT, np.uint8)
_VALUES[_DIGITS] = np.arange(len(ALPHABET))
_POWERS = 85 ** np.arange(4, -1, -1, dtype=np.int64)
_PAD = 84
"""The value of ``#``, Rust's padding."""


def encode(data: bytes) -> str:
    """Encode bytes; a tail of 1 to 3 bytes is padded with zero bytes (Java's way)."""
    padded = data + bytes(-len(data) % 4)
    groups = np.frombuffer(padded, ">u4").astype(np.int64)
    return bytes(_DIGITS[(groups[:, None] // _POWERS) % 85].tobytes()).decode()


def decode(text: str, size: int | None = None, *, source: str | None = None) -> bytes:
    """Decode either padding.

    Args:
        text: the characters.
        size: bytes of the data (a descriptor's `sizeInBytes`); None keeps Java's padding.
        source: name of the log, for errors.

    Raises:
        NotCanonical: a length not divisible by 5, a character outside the alphabet, a group above 2**32 - 1,
            padding that is not zero, or more data than `size`.
        Truncated: less data than `size`.
        UsageError: `text` is not a str, or `size` is not an integer, or negative.
    """
    check_type(text, str, "text", "a str")
    size = None if size is None else as_count(size, "size_in_bytes")
    raw = text.encode("utf-8", "surrogatepass")
    cursor = Cursor(raw, source=source)
    if len(raw) % 5:
        raise cursor.error(NotCanonical, "length of Z85 text", expected="a multiple of 5", actual=len(raw))
    digits = _VALUES[np.frombuffer(raw, np.uint8)]
    if (i := first_true(digits == _NOT_A_DIGIT)) is not None:
        raise cursor.error(
            NotCanonical, "Z85 character", at=i, expected="one of the alphabet", actual=repr(chr(raw[i]))
        )
    groups = digits.reshape(-1, 5).astype(np.int64)
    tail = _rust_tail(groups[-1]) if len(groups) else 0
    values = groups @ _POWERS
    if tail:
        values[-1] = int(groups[-1, 4 - tail :] @ _POWERS[4 - tail :])
    if (i := first_true(values >= 1 << 32)) is not None:
        raise cursor.error(
            NotCanonical, "Z85 group", at=5 * i, expected="a value below 2**32", actual=repr(text[5 * i : 5 * i + 5])
        )
    data = values.astype(">u4").tobytes()
    if tail:
        if int(values[-1]) >> 8 * tail:
            raise cursor.error(
                NotCanonical, "Z85 tail", at=len(raw) - 5, expected=f"{tail} bytes", actual=repr(text[-5:])
            )
        data = data[:-4] + data[-tail:]
    return data if size is None else _cut(cursor, data, size, tail)


def _rust_tail(group: NDArray[np.int64]) -> int:
    """Return the number of data bytes in the last group if it has Rust's padding, else 0."""
    pads = int(np.argmax(group != _PAD)) if (group != _PAD).any() else len(group)
    return 4 - pads if 1 <= pads <= 3 else 0


def _cut(cursor: Cursor, data: bytes, size: int, tail: int) -> bytes:
    if len(data) < size:
        raise cursor.error(Truncated, "Z85 text", at=0, expected=f"{size} bytes", actual=len(data))
    excess = data[size:]
    if tail and excess:
        raise cursor.error(NotCanonical, "Z85 text", at=0, expected=f"{size} bytes", actual=len(data))
    if len(excess) > 3 or any(excess):
        raise cursor.error(
            NotCanonical, "Z85 padding", at=0, expected="at most 3 zero bytes", actual=excess[:8].hex(" ")
        )
    return data[:size]

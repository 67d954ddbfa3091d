"""Snappy's block format, which zap uses for stored values and doc values: many small blocks at once.

Specification: google/snappy, ``format_description.txt``::

    uv size of the content | elements: literals, and copies of earlier content

A copy of up to 64 bytes takes 2 or 3, so a block expands at most 64 / 3 times. A larger stated size is an error, before
anything is allocated.
"""

from __future__ import annotations

import cramjam
import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import NotCanonical, Truncated
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import Index

EMPTY = b"\0"
"""The empty block."""
EXPANSION = 22
"""Upper bound of the expansion of a block."""
LIMIT = "max_blob_bytes"
_COPY, _COPY_BYTES = 64, 3
"""Content and size (bytes) of the densest element."""
_MAX_CONTENT = 2**32 - 1


def content_sizes(cursor: Cursor, starts: Index, stops: Index, what: str, *, limits: Limits = DEFAULT_LIMITS) -> Index:
    """Read the content sizes of blocks, and check that they are possible.

    Args:
        cursor: the window.
        starts: int64[n], position of each block.
        stops: int64[n], end of each; inside the window.
        what: names the blocks in errors.
        limits: `Limits.max_blob_bytes` bounds the total content.

    Raises:
        Truncated: a block is empty, or ends in its size.
        NotCanonical: a size is not a varint, or is impossible for the bytes of the block.
        LimitExceeded: more content than `limits` allow.
    """
    if (i := first_true(starts >= stops)) is not None:
        raise cursor.error(Truncated, what, at=starts[i], expected="a snappy block", actual="no bytes")
    stated = f"content size of {what}"
    values, behind = varints.read_at(cursor, starts, stated)
    if (i := first_true(behind > stops)) is not None:
        actual = f"{stops[i] - starts[i]} bytes"
        raise cursor.error(Truncated, stated, at=starts[i], expected="a varint", actual=actual)
    room = np.minimum((stops - behind) * _COPY // _COPY_BYTES, _MAX_CONTENT)
    if (i := first_true(values > room.astype(np.uint64))) is not None:
        expected = f"at most {room[i]} in {stops[i] - starts[i]} bytes"
        raise cursor.error(NotCanonical, stated, at=starts[i], expected=expected, actual=values[i])
    sizes = values.astype(np.int64)
    if (i := first_true((sizes == 0) & (behind != stops))) is not None:
        raise cursor.error(
            NotCanonical, what, at=behind[i], expected="no bytes after an empty block", actual=int((stops - behind)[i])
        )
    if len(sizes):
        limits.check(LIMIT, int(sizes.sum()), cursor, int(starts[0]))
    return sizes


def decompress_into(
    cursor: Cursor, starts: Index, stops: Index, out: NDArray[np.uint8], places: Index, sizes: Index, what: str
) -> None:
    """Decompress blocks into an array.

    Args:
        cursor: the window.
        starts: int64[n], position of each block.
        stops: int64[n], end of each.
        out: the array.
        places: int64[n], position of each content in `out`.
        sizes: int64[n], of `content_sizes`.
        what: names the blocks in errors.

    Raises:
        NotCanonical: a block is corrupt, or has another size than stated.
    """
    source, target, decompress = cursor.view, out.data, cramjam.snappy.decompress_raw_into
    some = sizes > 0
    blocks = (column[some].tolist() for column in (starts, stops, places, places + sizes))
    for start, stop, low, high in zip(*blocks, strict=True):
        try:
            decompress(source[start:stop], target[low:high])
        except cramjam.DecompressionError as err:
            raise cursor.error(
                NotCanonical, what, at=start, expected=f"a snappy block of {high - low} bytes", actual=str(err)
            ) from None


def compress(data: NDArray[np.uint8], starts: Index, stops: Index) -> list[bytes]:
    """Compress pieces of an array into one block each."""
    view, pack = np.ascontiguousarray(data).data, cramjam.snappy.compress_raw
    pieces = zip(starts.tolist(), stops.tolist(), strict=True)
    return [bytes(pack(view[start:stop])) if stop > start else EMPTY for start, stop in pieces]

"""deltalake (Rust inside) beside dvcodec: a file of one vector, as a table's log points to it."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator

import numpy as np

from dvcodec import DecodeError, RowSet, delta
from fuzz import mend
from fuzz.peers.bitmaps import BITMAP_KINDS, TRAILING
from fuzz.peers.comparison import Comparison, Kind
from fuzz.peers.serve import Refused, Server
from fuzz.seeds import row_sets
from fuzz.target import LIMITS, Target

MOST = 1 << 22
"""Rows: deltalake makes a mask up to the last one that is deleted."""

_server = Server(sys.executable, "fuzz.peers.serve_deltalake")
atexit.register(_server.close)


def _ours(data: bytes) -> RowSet:
    rows = delta.decode(data, limits=LIMITS)
    if (rows.max or 0) >= MOST:
        raise DecodeError("too far to be compared")
    return rows


def _theirs(data: bytes) -> RowSet:
    if _farthest(data) >= MOST:
        raise Refused("not asked: it makes a mask up to the last row")
    return RowSet(np.frombuffer(_server.ask(b"\1" + data), "<u4"))


def _farthest(data: bytes) -> int:
    """The last row of a vector that is valid but for its checksum and its length, 0 of others."""
    try:
        return delta.decode(mend.frame(data)).max or 0
    except DecodeError:
        return 0


deltalake_frame = Comparison(
    "deltalake",
    (
        Kind("unchecked CRC", "a damaged vector deletes wrong rows", r"^ChecksumMismatch"),
        Kind(
            "length of the frame",
            "the frame, the descriptor and the file have to agree on it",
            r"^(Truncated|NotCanonical): (length field|magic|short read)",
        ),
        Kind(
            "key of a bitmap",
            "positions end where Java's do; deltalake refuses a higher key only if its bitmap has a row",
            r"^NotCanonical: bitmap key$",
        ),
        Kind(
            "order of the bitmap keys",
            "a key comes once: of two bitmaps with the same key, deltalake drops the rows of the first",
            r"^NotCanonical: bitmap keys not strictly ascending",
        ),
        TRAILING,
        *BITMAP_KINDS,
    ),
)


def _run(data: bytes) -> None:
    deltalake_frame.compare(data, _ours, _theirs)


def _frames() -> Iterator[bytes]:
    for rows in row_sets():
        if rows and (rows.max or 0) < MOST:
            yield from (delta.encode(rows, layout=layout) for layout in ("portable", "native"))


TARGETS = (
    Target(
        "deltalake-frame",
        "a vector file, read by deltalake through the log",
        _run,
        _frames,
        mend.frame,
        needs_space=True,
        kinds=deltalake_frame.kinds,
        keeps_size=True,
    ),
)

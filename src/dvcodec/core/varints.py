"""Many unsigned LEB128 varints at once: the bulk counterpart of `Cursor.uvarint`.

A varint has 7 bits a byte, least significant first; the last byte is below 0x80. At most 10 bytes and 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import jit
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import NotCanonical, Truncated
from dvcodec.core.ragged import Index, Values, gather, offsets_of, spread

MAX_BYTES = 10
_THRESHOLDS = np.array([1 << 7 * k for k in range(1, MAX_BYTES)], np.uint64)
_TOP_BYTE = 1
"""Largest tenth byte: bit 63."""
_FAR = 4
"""Copy the runs out of the window first if they span this many times their maximum size."""


def bytes_of(cursor: Cursor) -> NDArray[np.uint8]:
    """Return the window of a cursor as an array, without a copy."""
    return np.frombuffer(cursor.view, np.uint8)


def read_at(cursor: Cursor, positions: NDArray[Any], what: str) -> tuple[Values, Index]:
    """Read one varint at each of many positions of a window.

    Returns:
        uint64[n] values, and int64[n] positions after them.

    Raises:
        Truncated: a varint begins outside the window, or is cut off by its end.
        NotCanonical: a varint of more than 10 bytes or 64 bits.
    """
    data, end = bytes_of(cursor), cursor.end
    starts = np.asarray(positions, np.int64)
    if (i := first_true((starts < 0) | (starts >= end))) is not None:
        raise _truncated(cursor, starts[i], what)
    if jit.worth(0):
        values, stops = np.empty(len(starts), np.uint64), np.empty(len(starts), np.int64)
        if _read_at.run(jit.frozen(data), jit.frozen(starts), values, stops) == len(starts):
            return values, stops
    first = data[starts]
    values = (first & 0x7F).astype(np.uint64)
    stops = starts + 1
    open_ = np.flatnonzero(first >= 0x80)
    for k in range(1, MAX_BYTES + 1):
        if not len(open_):
            return values, stops
        index = stops[open_]
        if k == MAX_BYTES:
            raise _too_long(cursor, int(starts[open_[0]]), what)
        if (i := first_true(index >= end)) is not None:
            raise _truncated(cursor, starts[open_[i]], what)
        byte = data[index]
        if k == MAX_BYTES - 1:
            _check_top(cursor, starts[open_], byte, what)
        values[open_] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * k)
        stops[open_] += 1
        open_ = open_[byte >= 0x80]
    return values, stops


def read_runs(cursor: Cursor, starts: NDArray[Any], counts: NDArray[Any], what: str) -> tuple[Values, Index]:
    """Read `counts[i]` consecutive varints at `starts[i]`, for every i.

    Takes time proportional to the window from the first start to the last end or, if the runs are far apart, to the
    runs.

    Returns:
        uint64[sum of counts] values, and int64[n] positions after each run.

    Raises:
        Truncated, NotCanonical: as in `read_at`.
    """
    starts, counts = np.asarray(starts, np.int64), np.asarray(counts, np.int64)
    if not len(starts):
        return np.zeros(0, np.uint64), starts
    low = int(starts.min())
    high = min(int((starts + MAX_BYTES * counts).max()), cursor.end)
    if low < 0 or int(starts.max()) > cursor.end:
        raise _truncated(cursor, low if low < 0 else int(starts.max()), what)
    data = bytes_of(cursor)
    room = np.minimum(MAX_BYTES * counts, cursor.end - starts)
    # Positions of all last bytes; for each run, the index of its first one, and of the first one beyond its room.
    if _FAR * int(room.sum()) < high - low:
        bounds = offsets_of(room)
        inside = np.flatnonzero(gather(data, starts, room) < 0x80)
        first, beyond = np.searchsorted(inside, bounds[:-1]), np.searchsorted(inside, bounds[1:])
        ends = inside + np.repeat(starts - bounds[:-1], beyond - first)
    else:
        ends = np.flatnonzero(data[low:high] < 0x80)
        ends += low
        first, beyond = np.searchsorted(ends, starts), np.full(len(starts), len(ends))
    fits = starts + MAX_BYTES * counts <= cursor.end
    if (i := first_true(first + counts > beyond)) is not None:
        raise (_too_long if fits[i] else _truncated)(cursor, starts[i], what)
    index = spread(first, counts)
    stops = starts.copy()
    some = counts > 0
    stops[some] = ends[first[some] + counts[some] - 1] + 1
    begins = ends[index - 1] + 1 if len(ends) else index
    begins[(np.cumsum(counts) - counts)[some]] = starts[some]
    return _values(cursor, data, begins, ends[index], what), stops


def decode(cursor: Cursor, what: str) -> tuple[Values, Index]:
    """Read the whole window as varints.

    Returns:
        uint64[n] values, and int64[n] positions of their last bytes.

    Raises:
        Truncated: the last varint is incomplete.
        NotCanonical: as in `read_at`.
    """
    data = bytes_of(cursor)
    is_last = data < 0x80
    if jit.worth(0):
        count = np.count_nonzero(is_last)
        values, ends = np.empty(count, np.uint64), np.empty(count, np.int64)
        if _decode.run(jit.frozen(data), values, ends) == len(data):
            return values, ends
    ends = np.flatnonzero(is_last)
    if len(data) and not is_last[-1]:
        raise _truncated(cursor, int(ends[-1]) + 1 if len(ends) else 0, what)
    # Most varints are one byte, which is the value; only longer ones need more work.
    values = data[is_last].astype(np.uint64)
    others = np.flatnonzero(~is_last)
    if len(others):
        index = others - np.arange(len(others))
        first = np.flatnonzero(np.diff(index, prepend=-1))
        wide = index[first]
        values[wide] = _values(cursor, data, others[first], ends[wide], what)
    return values, ends


@jit.Kernel
def _read_at(data: NDArray[np.uint8], starts: Index, values: Values, stops: Index) -> int:
    """Read a varint of at most 9 bytes at each of these places, all inside; return how many were read."""
    for i in range(len(starts)):
        value, shift, at = np.uint64(0), np.uint64(0), starts[i]
        while at < len(data) and data[at] >= 0x80 and shift < np.uint64(56):
            value |= np.uint64(data[at] & 0x7F) << shift
            shift += np.uint64(7)
            at += 1
        if at == len(data) or data[at] >= 0x80:
            return i
        values[i], stops[i] = value | np.uint64(data[at]) << shift, at + 1
    return len(starts)


@jit.Kernel
def _decode(data: NDArray[np.uint8], values: Values, ends: Index) -> int:
    """Read bytes as varints of at most 9 bytes, one for each byte below 128; return how many bytes were read."""
    place, value, shift = np.int64(0), np.uint64(0), np.uint64(0)
    for i in range(len(data)):
        value |= np.uint64(data[i] & 0x7F) << shift
        if data[i] < 0x80:
            values[place], ends[place] = value, i
            place += 1
            value, shift = np.uint64(0), np.uint64(0)
        else:
            shift += np.uint64(7)
            if shift > np.uint64(56):
                return i
    return len(data) if shift == np.uint64(0) else -1


def _values(cursor: Cursor, data: NDArray[np.uint8], begins: Index, ends: Index, what: str) -> Values:
    values = (data[begins] & 0x7F).astype(np.uint64)
    extra = ends - begins
    open_ = np.flatnonzero(extra > 0)
    for k in range(1, MAX_BYTES):
        if not len(open_):
            return values
        byte = data[begins[open_] + k]
        if k == MAX_BYTES - 1:
            starts = begins[open_]
            if (i := first_true(extra[open_] > k)) is not None:
                raise _too_long(cursor, starts[i], what)
            _check_top(cursor, starts, byte, what)
        values[open_] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * k)
        open_ = open_[extra[open_] > k]
    return values


def _check_top(cursor: Cursor, starts: Index, byte: NDArray[np.uint8], what: str) -> None:
    if (i := first_true((byte & 0x7F) > _TOP_BYTE)) is not None:
        raise cursor.error(NotCanonical, what, at=starts[i], expected="a varint below 2**64")


def _truncated(cursor: Cursor, pos: int, what: str) -> Truncated:
    return cursor.error(Truncated, what, at=pos, expected="a varint", actual=f"{max(cursor.end - pos, 0)} bytes left")


def _too_long(cursor: Cursor, pos: int, what: str) -> NotCanonical:
    return cursor.error(NotCanonical, what, at=pos, expected=f"a varint of at most {MAX_BYTES} bytes")


def sizes(values: NDArray[Any]) -> Index:
    """Return the encoded size of each value: int64[n]. Values are unsigned, of at most 64 bits (not checked)."""
    values = np.asarray(values, np.uint64)
    found = np.ones(len(values), np.int64)
    wide = np.flatnonzero(values >= 0x80)
    found[wide] += np.searchsorted(_THRESHOLDS, values[wide], side="right")
    return found


def encode(values: NDArray[Any]) -> tuple[NDArray[np.uint8], Index]:
    """Encode unsigned values of at most 64 bits (not checked).

    Returns:
        uint8, the varints one after the other; and int64[n], the size of each.
    """
    values = np.asarray(values, np.uint64)
    wide = np.flatnonzero(values >= 0x80)
    lengths = sizes(values)
    if not len(wide):
        return values.astype(np.uint8), lengths
    stops = np.cumsum(lengths)
    begins = stops - lengths
    out = np.empty(int(stops[-1]), np.uint8)
    if jit.worth(0) and _encode.run(jit.frozen(values), out) is not None:
        return out, lengths
    out[begins] = values.astype(np.uint8)
    open_, rest = begins[wide], values[wide]
    while len(open_):
        more = rest >= 0x80
        out[open_] = (rest & np.uint64(0x7F)).astype(np.uint8) | (more.view(np.uint8) << 7)
        open_, rest = open_[more] + 1, rest[more] >> np.uint64(7)
    return out, lengths


@jit.Kernel
def _encode(values: Values, out: NDArray[np.uint8]) -> int:
    """Write values as varints into exactly their bytes; return how many there are."""
    at = 0
    for i in range(len(values)):
        rest = values[i]
        while rest >= np.uint64(0x80):
            out[at] = rest & np.uint64(0x7F) | np.uint64(0x80)
            at += 1
            rest >>= np.uint64(7)
        out[at] = rest
        at += 1
    return at


def uvarints(*values: int) -> bytes:
    """Encode a few non-negative values (not checked)."""
    out = bytearray()
    for value in values:
        rest = value
        while rest >= 0x80:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)

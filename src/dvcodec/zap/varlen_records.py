"""Find records of variable length, where each record's length locates the next, without a loop per record.

One pass computes for every position the successor of a record that *could* begin there. Then the chains of all spans
are followed in parallel from their first positions; if that takes too many steps, strides of 2, 4, 8, .. records are
computed first, one pass each::

    place      0  1  2  3  4  5  6  7  8        head 2, the second value counts those that follow
    values     7  1  9  7  0  7  2  9  9
    next       3  .  .  5  .  9  .  .  .        0 -> 3 -> 5 -> end: records at 0, 3 and 5

Regular spans, in which all records have the length of the first, take one pass.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import Truncated
from dvcodec.core.ragged import Index, Values, gather, offsets_of, spread
from dvcodec.zap.data import Pieces

_HOP = 1000
"""Positions that one pass processes in the time of a single step."""
_SIZE_BYTES = 5
"""Bytes of the largest size that `tagged` follows."""


def counted(values: Values, starts: Index, stops: Index, head: int) -> tuple[Index, Index, int]:
    """Find records of `head` values, the last of which counts the record's further values.

    Args:
        values: uint64[n].
        starts: int64[k], index of the first value of each span.
        stops: int64[k], end of each. Spans ascend and do not overlap; they may be empty.
        head: values of a record without further ones, at least 1.

    Returns:
        int64[m] index of the first value of every record, ascending; int64[m] its span; and the first span that records
        do not fill exactly, or -1. The records are incomplete unless it is -1.
    """
    begins, owner, odd = _regular(values, starts, stops, head)
    if not len(odd):
        return begins, owner, -1
    place = spread(starts[odd], stops[odd] - starts[odd])
    ends = offsets_of(stops[odd] - starts[odd])
    stop = np.repeat(ends[1:], np.diff(ends))
    room = stop - np.arange(len(place), dtype=np.int64) - head
    more = values[np.minimum(place + (head - 1), len(values) - 1)]
    inside = (room >= 0) & (more <= np.maximum(room, 0).astype(np.uint64))
    step = np.zeros(len(place), np.int64)
    step[inside] = more[inside].astype(np.int64) + head
    found, bad = follow(step, ends)
    others = np.concatenate([begins, place[found]])
    order = np.argsort(others, kind="stable")
    owners = np.concatenate([owner, odd[np.searchsorted(ends, found, side="right") - 1]])
    return others[order], owners[order], int(odd[bad]) if bad >= 0 else -1


def _regular(values: Values, starts: Index, stops: Index, head: int) -> tuple[Index, Index, Index]:
    """Find the records of regular spans, and the other spans."""
    sizes = stops - starts
    filled = sizes >= head
    first = np.zeros(len(starts), np.uint64)
    first[filled] = values[starts[filled] + (head - 1)]
    fits = filled & (first <= np.maximum(sizes - head, 0).astype(np.uint64))
    stride = np.where(fits, first, 0).astype(np.int64) + head
    counts = np.where(fits & (sizes % stride == 0), sizes // stride, 0)
    owner = np.repeat(np.arange(len(starts)), counts)
    ranks = np.arange(len(owner), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = starts[owner] + ranks * stride[owner]
    differs = values[begins + (head - 1)] != first[owner]
    regular = (counts > 0) | (sizes == 0)
    if differs.any():
        regular[owner[differs]] = False
        keep = regular[owner]
        begins, owner = begins[keep], owner[keep]
    return begins, owner, np.flatnonzero(~regular)


def sized(values: Values, byte_ends: Index, starts: Index, stops: Index) -> tuple[Index, Index, int]:
    """Find entries of one varint, the size in bytes, and varints of this total size.

    Args:
        values: uint64[n], of varints stored back to back in each span.
        byte_ends: int64[n], position of each varint's last byte (only differences matter).
        starts: int64[k], index of the first varint of each span.
        stops: int64[k], end of each. Spans ascend and do not overlap; they may be empty.

    Returns:
        int64[m] index of the first varint of every entry, ascending; int64[m] its span; and the first span that entries
        do not fill exactly, or -1: an entry extends beyond it or ends inside a varint. The entries are incomplete
        unless it is -1.
    """
    counts = stops - starts
    ends = offsets_of(counts)
    place = spread(starts, counts)
    edges = byte_ends[place]
    if not len(place):
        return place, place, -1
    last = np.append(edges, 0)[ends[1:] - 1]  # arbitrary for empty spans
    size = values[place]
    inside = np.flatnonzero(size <= (np.repeat(last, counts) - edges).astype(np.uint64))
    target = edges[inside] + size[inside].astype(np.int64)
    # The last varint of the entry; in an empty entry its size.
    ending = np.full(int(edges[-1] - edges[0]) + 1, -1, np.int64)
    ending[edges - edges[0]] = np.arange(len(place))
    local = ending[target - edges[0]]
    hit = local >= 0
    step = np.zeros(len(place), np.int64)
    step[inside[hit]] = local[hit] + 1 - inside[hit]
    found, bad = follow(step, ends)
    return place[found], np.searchsorted(ends, found, side="right") - 1, bad


def follow(step: Index, ends: Index) -> tuple[Index, int]:
    """Follow chains through positions 0, 1, .., from the first position of each span.

    Args:
        step: int64[n], distance to the next position; 0 where the chain breaks. No step leaves its span.
        ends: int64[k + 1], bounds of the spans.

    Returns:
        The visited positions, ascending, and the first span whose chain breaks, or -1.
    """
    size = len(step)
    done = size
    jump = np.arange(size + 1, dtype=np.int64)
    jump[:size] += step
    last = np.zeros(size + 1, np.bool_)
    last[ends[1:]] = True
    jump[:size][last[jump[:size]] | (step == 0)] = done
    lengths = np.diff(ends)
    front = ends[:-1][lengths > 0]
    # Strides of 2**k records cost k passes over all positions, and divide the number of single steps by 2**k.
    longest = int(lengths.max()) if len(lengths) else 0
    strides = [jump]
    while _HOP * longest >> len(strides) > size:
        strides.append(strides[-1][strides[-1]])
    reached = np.zeros(size + 1, np.bool_)
    fronts = []
    while len(front):
        fronts.append(front)
        front = strides[-1][front]
        front = front[front < done]
    front = np.concatenate(fronts) if fronts else front
    reached[front] = True
    for stride in reversed(strides[:-1]):
        front = np.concatenate([front, stride[front]])
        front = front[front < done]
        reached[front] = True
    found = np.flatnonzero(reached[:size])
    stuck = found[step[found] == 0]
    bad = int(np.searchsorted(ends, stuck[0], side="right")) - 1 if len(stuck) else -1
    return found, bad


def spans(cursor: Cursor, starts: Index, stops: Index, what: str) -> tuple[Values, Index, Index]:
    """Read all varints in many byte spans; other bytes are not read.

    Args:
        cursor: the window.
        starts: int64[k], position of the first byte of each span.
        stops: int64[k], end of each; inside the window.
        what: names the spans in errors.

    Returns:
        uint64[n] all values; int64[k + 1] bounds of the spans in them; and int64[n] end of each value in the window.

    Raises:
        Truncated: a span ends inside a varint.
        NotCanonical: a varint has more than 10 bytes or 64 bits.
    """
    lengths = stops - starts
    data = gather(varints.bytes_of(cursor), starts, lengths)
    bounds = offsets_of(lengths)
    shift = starts - bounds[:-1]
    ends = np.flatnonzero(data < 0x80)
    firsts = np.searchsorted(ends, bounds)
    some = np.flatnonzero(lengths > 0)
    cut = some[data[bounds[some + 1] - 1] >= 0x80]
    if len(cut):
        i = int(cut[0])
        at = int(ends[firsts[i + 1] - 1]) + 1 if firsts[i + 1] > firsts[i] else int(bounds[i])
        raise cursor.error(
            Truncated, what, at=at + int(shift[i]), expected="a varint", actual=f"{int(bounds[i + 1]) - at} bytes left"
        )
    values, _ = varints.decode(Pieces(data, starts + cursor.base, lengths, cursor.source or ""), what)
    return values, firsts, ends + 1 + np.repeat(shift, np.diff(firsts))


def tagged(data: NDArray[np.uint8], count: int) -> tuple[Index, Index]:
    """Find the first records of `data`: two varints, the second being the size of the bytes that follow.

    Args:
        data: uint8, starts with a record; any bytes may follow the last one.
        count: number of records.

    Returns:
        int64[m] position of each record's bytes, and int64[m] their size. m is `count`, or less if `data` ends before
        or a record has more than 2**35 bytes. The first varint of a record is not read.
    """
    # Positions are possible ends of a record's first varint: every byte below 0x80.
    ends = np.flatnonzero(data < 0x80)
    places = ends[:-1]
    if not len(places) or not count:
        return places[:0], places[:0]
    begins, widths = places + 1, ends[1:] - places
    sizes = np.zeros(len(places), np.int64)
    for k in range(_SIZE_BYTES):
        more = np.flatnonzero(widths > k)
        sizes[more] |= (data[begins[more] + k] & 0x7F).astype(np.int64) << 7 * k
    begins = ends[1:] + 1
    valid = (widths <= _SIZE_BYTES) & (sizes <= len(data) - begins)
    step = np.zeros(len(places), np.int64)
    follows = np.searchsorted(ends, (begins + sizes)[valid])
    inside = np.flatnonzero(valid)
    step[inside] = np.minimum(follows, len(places)) - inside
    found, _ = follow(step, np.array([0, len(places)]))
    found = found[valid[found]][:count]
    return begins[found], sizes[found]

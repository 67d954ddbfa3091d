"""Encodes many row sets as framed vectors, with the bytes of Java's writers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import frame, vector
from dvcodec.core.bitmap import ARRAY_MAX, BITSET_BYTES, ContainerKind, payload_sizes
from dvcodec.core.build import COOKIE_NO_RUNS, COOKIE_RUNS, OFFSETS_FROM, from_sorted
from dvcodec.core.checksum import crc32
from dvcodec.core.errors import UsageError
from dvcodec.core.frame import Magic
from dvcodec.core.limits import enough_memory
from dvcodec.core.ragged import ByteStrings, Index, merge_pieces, offsets_of, put, put_words, spread
from dvcodec.core.roaring64 import MIN_BUCKET
from dvcodec.core.rowset import RowSet

_LARGE = 1 << 14
"""For row sets of more than this many positions, a call to pyroaring is faster."""
_HEAD = 20
"""Bytes of a frame before the bitmap: length, magic, count of bitmaps, key 0."""
_BITSETS_AT_ONCE = 256


@enough_memory("the vectors", None)
def encode(positions: NDArray[np.int64], counts: NDArray[np.int64]) -> ByteStrings:
    """Encode many row sets, each as the frame that Iceberg, Delta and Paimon 64-bit share.

    The bytes are those of `dvcodec.iceberg.encode`.

    Args:
        positions: int64, the positions of all row sets one after the other, strictly ascending in each (not checked).
        counts: int64[n], number of positions of each.

    Raises:
        UsageError: a position above 0x7ffffffe80000000, or positions so high that the empty bitmaps below them fill
            more than 2**31 - 1 bytes in total.
        LimitExceeded: the vectors need more memory than the process has.
    """
    bounds = offsets_of(counts)
    filled = np.flatnonzero(counts)
    last = np.zeros(len(counts), np.int64)
    last[filled] = positions[bounds[1:][filled] - 1]
    alone = (counts == 0) | (counts > _LARGE) | (last >> 32 > 0)
    if not alone.any():
        return _encode_small(positions, counts)
    vector.check_highest(int(last.max()), Magic.PORTABLE64)
    gaps = MIN_BUCKET * int((last >> 32).sum())
    if gaps > frame.MAX_FRAME:  # a file of a kilobyte may ask for 2 GB a row
        raise UsageError(
            f"positions up to {int(last.max())}: the empty bitmaps below them would have {gaps} bytes, more than the "
            f"{frame.MAX_FRAME} that fit"
        )
    small = np.flatnonzero(~alone)
    parts = ByteStrings.from_list([])
    if len(small):
        parts = _encode_small(positions[np.repeat(~alone, counts)], counts[small])
    others = {i: _encode_one(positions[bounds[i] : bounds[i + 1]]) for i in np.flatnonzero(alone).tolist()}
    lengths = np.zeros(len(counts), np.int64)
    lengths[small] = parts.lengths
    for i, data in others.items():
        lengths[i] = len(data)
    frames = ((i, np.frombuffer(data, np.uint8)) for i, data in others.items())
    return ByteStrings(offsets_of(lengths), merge_pieces(lengths, parts.data, frames))


def _encode_one(positions: Index) -> bytes:
    if len(positions) and not int(positions[-1]) >> 32:  # the positions ascend: no need to check and sort them
        rows = RowSet.from_bitmaps({0: from_sorted(positions.astype(np.uint32))})
    else:
        rows = RowSet(positions)
    return frame.build(Magic.PORTABLE64, *vector.encode_pieces(rows, Magic.PORTABLE64))


def _encode_small(positions: Index, counts: Index) -> ByteStrings:
    """Encode non-empty row sets of positions below 2**32, all containers at once.

    Container kinds are those of Java: arrays up to 4,096 values, else bitsets; runs where they are strictly smaller.
    """
    n = len(counts)
    low = positions.astype(np.uint32)
    of_set = np.repeat(np.arange(n, dtype=np.int64), counts)
    block = of_set << 16 | positions >> 16
    new = np.empty(len(low), np.bool_)
    new[:1] = True
    np.not_equal(block[1:], block[:-1], out=new[1:])
    heads = np.flatnonzero(new)  # the first value of each container
    cards = np.diff(heads, append=len(low))
    new[1:] |= low[1:] != low[:-1] + np.uint32(1)
    run_heads = np.flatnonzero(new)  # the first value of each run: runs end at container borders
    runs = np.diff(np.searchsorted(run_heads, heads), append=len(run_heads)) if len(run_heads) else cards
    plain = payload_sizes(cards)
    kinds = np.where(2 + 4 * runs < plain, ContainerKind.RUN, cards > ARRAY_MAX).astype(np.uint8)
    payload = np.where(kinds == ContainerKind.RUN, 2 + 4 * runs, plain)

    owner = block[heads] >> 16
    containers = np.bincount(owner, minlength=n)
    first = offsets_of(containers)[:-1]
    with_runs = np.bincount(owner, weights=kinds == ContainerKind.RUN, minlength=n) > 0
    flags = np.where(with_runs, 4 + (containers + 7) // 8, 8)
    tabled = ~with_runs | (containers >= OFFSETS_FROM)
    header = flags + 4 * containers * (1 + tabled)
    before = np.cumsum(payload) - payload
    place = header[owner] + before - before[first[owner]]
    ends = place + payload
    sizes = _HEAD + ends[first + containers - 1] + 4
    bounds = offsets_of(sizes)
    begin = bounds[:-1]
    out = np.zeros(int(bounds[-1]), np.uint8)

    nth = np.arange(len(owner)) - first[owner]
    bitmap = begin + _HEAD
    put(out, begin, (sizes - 8).astype(">u4").view("<u4"), 4)
    put(out, begin + 4, int.from_bytes(Magic.PORTABLE64.value, "little"), 4)
    out[begin + 8] = 1  # one bitmap, of key 0
    put(out, bitmap, np.where(with_runs, COOKIE_RUNS | (containers - 1) << 16, COOKIE_NO_RUNS), 4)
    put(out, bitmap[~with_runs] + 4, containers[~with_runs], 4)
    run_containers = np.flatnonzero(kinds == ContainerKind.RUN)
    flag_pos = bitmap[owner[run_containers]] + 4 + (nth[run_containers] >> 3)
    np.bitwise_or.at(out, flag_pos, np.left_shift(1, nth[run_containers] & 7).astype(np.uint8))
    descriptors = (bitmap + flags)[owner] + 4 * nth
    put(out, descriptors, block[heads] & 0xFFFF | (cards - 1) << 16, 4)
    in_table = np.flatnonzero(tabled[owner])
    put(out, descriptors[in_table] + 4 * containers[owner[in_table]], place[in_table], 4)
    _put_payloads(out, bitmap[owner] + place, low, heads, cards, kinds, run_heads, runs)

    view = out.data
    crcs = [crc32(view[a + 4 : b - 4]) for a, b in zip(begin.tolist(), bounds[1:].tolist(), strict=True)]
    put(out, bounds[1:] - 4, np.array(crcs, ">u4").view("<u4"), 4)
    return ByteStrings(bounds, out)


def _put_payloads(
    out: NDArray[np.uint8],
    starts: Index,
    low: NDArray[np.uint32],
    heads: Index,
    cards: Index,
    kinds: NDArray[np.uint8],
    run_heads: Index,
    runs: Index,
) -> None:
    """Write the payloads of all containers, at the offsets `starts` of `out`."""
    arrays = np.flatnonzero(kinds == ContainerKind.ARRAY)
    values = low if len(arrays) == len(kinds) else low[spread(heads[arrays], cards[arrays])]
    put_words(out, starts[arrays], cards[arrays], values.astype("<u2"))
    chosen = np.flatnonzero(kinds == ContainerKind.RUN)
    if len(chosen):
        put(out, starts[chosen], runs[chosen], 2)
        which = spread(offsets_of(runs)[:-1][chosen], runs[chosen])
        stops = np.append(run_heads[1:], len(low))
        pairs = np.stack([low[run_heads[which]] & 0xFFFF, stops[which] - run_heads[which] - 1], axis=1)
        put_words(out, starts[chosen] + 2, 2 * runs[chosen], pairs.ravel().astype("<u2"))
    bitsets = np.flatnonzero(kinds == ContainerKind.BITSET)
    for some in np.split(bitsets, range(_BITSETS_AT_ONCE, len(bitsets), _BITSETS_AT_ONCE)):
        bits = np.zeros((len(some), 1 << 16), np.bool_)
        which = spread(heads[some], cards[some])
        bits[np.repeat(np.arange(len(some)), cards[some]), low[which] & 0xFFFF] = True
        packed = np.packbits(bits, axis=1, bitorder="little")
        out[spread(starts[some], np.full(len(some), BITSET_BYTES))] = packed.ravel()

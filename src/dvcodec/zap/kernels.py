"""Loops over the bytes of segments that run compiled if numba is installed; see `dvcodec.core.jit`.

Each does what some functions of the modules beside it do in NumPy passes, to whose documentation it belongs. It returns
a negative number (`ODD`) for anything that is not as all writers write it, corrupt or only unusual: then its caller
takes the NumPy passes, which support it or raise the error.
"""

from __future__ import annotations

import numpy as np

from dvcodec.core.jit import Kernel
from dvcodec.core.ragged import Bytes, Index, Values

ODD = -1
"""What a kernel returns instead of a size or a place if it does not support the bytes."""
FULL = -2
"""What a kernel returns when the next key does not fit."""
_MOST = 9
"""Bytes of a varint that kernels read: one of ten bytes is odd."""


@Kernel
def varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Read a varint of at most 63 bits at `at`, before `end`: its value, or `ODD`, and the position after it."""
    value, shift = np.int64(0), np.int64(0)
    while at < end and shift < 7 * _MOST:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return np.int64(ODD), at


@Kernel
def little(data: Bytes, at: int, size: int) -> np.uint64:
    """Read a number of at most 8 bytes, the lowest first."""
    value: np.uint64 = np.uint64(0)
    for k in range(size):
        value |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return value


# -------------------------------------------------------------------------- dictionaries

_HEADER, _WIDEST = 16, 8


@Kernel
def state(data: Bytes, addr: int) -> tuple[bool, int, int, int, int, int, int]:
    """Read the layout of the state at `addr`, as `States.frame` does, in a buffer of the states.

    Returns:
        Whether it is final, number of transitions (or `ODD`), address of the first input byte (or of the head, if that
        encodes it), size of a delta (or -1: the target is the state just below), size of an output, end of the deltas,
        lowest address.
    """
    odd = (False, ODD, np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    head = np.int64(data[addr])
    low = head & 0x3F
    at = addr if low else addr - 1
    if head & 0x80 and head & 0x40:
        return False, np.int64(1), np.int64(at), np.int64(-1), np.int64(0), np.int64(at), np.int64(at)
    if head & 0x80:
        final, count, top, first = False, np.int64(1), at - 1, at
    else:
        final, count = head & 0x40 != 0, low or np.int64(data[at])
        if low == 0 and count == 1:
            count = np.int64(256)
        top, first = at - 1 - count, at - 2
    pack = np.int64(data[at - 1])
    size, output_size = pack >> 4, pack & 15
    bottom = top - count * size - (count + (1 if final else 0)) * output_size
    if size > _WIDEST or output_size > _WIDEST or bottom < _HEADER or (count == 0 and not final):
        return odd
    return final, np.int64(count), np.int64(first), size, output_size, np.int64(top), np.int64(bottom)


@Kernel
def follow(
    data: Bytes, nth: int, count: int, delta_size: int, output_size: int, high: int, low: int
) -> tuple[int, np.uint64]:
    """Read a transition of a state with this layout, as `state` returns it: its target, or `ODD`; and its output."""
    delta, output = np.uint64(1), np.uint64(0)
    if delta_size >= 0:
        delta = little(data, high - (nth + 1) * delta_size, delta_size)
        output = little(data, high - count * delta_size - (nth + 1) * output_size, output_size)
    if delta == np.uint64(0):
        return np.int64(0), output
    target = np.int64(ODD)
    if delta <= np.uint64(low):
        target = low - np.int64(delta)
        if 0 < target < _HEADER:
            target = np.int64(ODD)
    return target, output


@Kernel
def walk_keys(
    data: Bytes,
    common: Bytes,
    places: Index,
    frames: Index,
    values: Values,
    path: Bytes,
    most: int,
    key_bytes: Bytes,
    offsets: Index,
    key_values: Values,
) -> int:
    """Write the next keys of a dictionary, in order, as `vellum.blocks` yields them.

    Args:
        data: uint8, the dictionary from its header to its footer.
        common: uint8[64], `vellum.COMMON`.
        places: int64[2], the number of frames, changed; and the number of keys that are written.
        frames: int64[d, 3], for each state on the path: its address, the next transition, bytes of its key.
        values: uint64[d], the value so far of each.
        path: uint8[d], the bytes of the last key.
        most: keys that there may be yet, at most.
        key_bytes: uint8, for the bytes of the keys.
        offsets: int64, for the bounds of the keys; the first is 0.
        key_values: uint64, for their values.

    Returns:
        0 at the end; `FULL` if there is no room for the next key; `ODD` for a corrupt state, more keys, or a key that
        is longer than `path`: then the frames are those before this state, and `places` has the keys before.
    """
    end = len(data) - 16
    used, keys, size = places[0], np.int64(0), np.int64(0)
    room, slots, deep = len(key_bytes), len(key_values), len(path)
    while used > 0:
        top = used - 1
        addr, nth, length = frames[top, 0], frames[top, 1], frames[top, 2]
        value = values[top]
        is_final, count, first, delta_size, output_size, high, low = (
            True, np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        )  # fmt: skip
        if addr:
            is_final, count, first, delta_size, output_size, high, low = state(data, addr)
            if count < 0:
                break
        if nth == 0:
            is_listed = data[addr] < 0x80 and addr != 0
            ascending = True
            for i in range(1, count if is_listed else 0):
                ascending &= data[first - i] > data[first - i + 1]
            if not ascending or (is_final and keys >= most):
                break
            if is_final:
                if keys >= slots or size + length > room:
                    places[0], places[1] = used, keys
                    return FULL
                final_output = little(data, low, output_size) if addr else np.uint64(0)
                for i in range(length):
                    key_bytes[size + i] = path[i]
                size += length
                key_values[keys] = value + final_output
                keys += 1
                offsets[keys] = size
        if nth == count:
            used -= 1
            continue
        if length >= deep:
            break
        byte = data[first - nth]
        if first == addr:
            byte = common[np.int64(byte) & 0x3F]
        target, output = follow(data, nth, count, delta_size, output_size, high, low)
        if target < 0 or target >= end:
            break
        # The last transition takes the place of its state, so that a chain of states needs no room.
        frames[top, 1] = nth + 1
        if nth + 1 == count:
            used -= 1
        path[length] = byte
        frames[used, 0], frames[used, 1], frames[used, 2] = target, 0, length + 1
        values[used] = value + output
        used += 1
    else:
        places[0], places[1] = used, keys
        return 0
    places[0], places[1] = used, keys
    return ODD


# -------------------------------------------------------------------------- postings


@Kernel
def read_bitmap(data: Bytes, at: int, stop: int, docs: Index, place: int, limit: int) -> bool:
    """Read a bitmap without runs that fills its bytes and has the documents ``docs[place:limit]``."""
    if at < 0 or stop > len(data) or stop - at < 8 or little(data, at, 4) != np.uint64(12346):
        return False
    count = np.int64(little(data, at + 4, 4))
    body = at + 8 + 8 * count
    if count > 1 << 16 or body > stop:
        return False
    start, high = at, np.int64(-1)
    for i in range(count):
        key = np.int64(little(data, start + 8 + 4 * i, 2)) << 16
        card = np.int64(little(data, start + 10 + 4 * i, 2)) + 1
        table = np.int64(little(data, start + 8 + 4 * count + 4 * i, 4))
        size = 2 * card if card <= 4096 else np.int64(8192)
        if key <= high or table != body - start or card > limit - place or size > stop - body:
            return False
        high = key
        if card <= 4096:
            before = np.int64(-1)
            for k in range(card):
                low = np.int64(data[body + 2 * k]) | np.int64(data[body + 2 * k + 1]) << 8
                if low <= before:
                    return False
                docs[place + k] = key | low
                before = low
        else:
            found = np.int64(0)
            for k in range(8192):
                byte = np.int64(data[body + k])
                for bit in range(8):
                    if byte >> bit & 1:
                        if found == card:
                            return False
                        docs[place + found] = key | 8 * k + bit
                        found += 1
            if found != card:
                return False
        place += card
        body += size
    return body == stop and place == limit


@Kernel
def chunk_data(data: Bytes, at: int, num_chunks: int) -> tuple[int, int]:
    """Read the number of chunks of a block at `at`; return where their ends and where the chunks begin, or `ODD`."""
    if at < 0:
        return ODD, ODD
    count, at = varint(data, at, len(data))
    table = at
    if count != num_chunks:
        return ODD, ODD
    for _ in range(count):
        end, at = varint(data, at, len(data))
        if end < 0:
            return ODD, ODD
    return table, at


@Kernel
def read_lists(
    data: Bytes,
    bitmap_at: Index,
    bitmap_size: Index,
    freq_at: Index,
    counts: Index,
    chunk_docs: Index,
    num_docs: int,
    has_norms: bool,
    docs: Index,
    freqs: Values,
    norms: Values,
) -> int:
    """Read postings lists as `postings.decode_postings` does, without their locations.

    Args:
        data: uint8, a window with the lists.
        bitmap_at: int64[n], place of each bitmap in it.
        bitmap_size: int64[n], its bytes.
        freq_at: int64[n], place of each freq/norm block.
        counts: int64[n], postings of each list.
        chunk_docs: int64[n], documents per chunk.
        num_docs: documents of the segment.
        has_norms: whether frequencies of 0 have a norm too.
        docs: int64, for the documents of all lists.
        freqs: uint64, for the frequencies, with the location bit.
        norms: uint64, for the norms.

    Returns:
        0, or `ODD`.
    """
    entry, total = np.int64(0), np.int64(0)
    for i in range(len(counts)):
        limit = entry + counts[i]
        stop = bitmap_at[i] + bitmap_size[i]
        if limit > len(docs) or not read_bitmap(data, bitmap_at[i], stop, docs, entry, limit):
            return ODD
        if limit == entry or docs[limit - 1] >= num_docs:
            return ODD
        num_chunks = (num_docs - 1) // chunk_docs[i] + 1
        table, start = chunk_data(data, freq_at[i], num_chunks)
        if table < 0:
            return ODD
        at, stop = start, start
        for chunk in range(num_chunks):
            end, table = varint(data, table, len(data))
            if end < stop - start or end > len(data) - start:
                return ODD
            stop = start + end
            beyond = (chunk + 1) * chunk_docs[i]
            while entry < limit and docs[entry] < beyond:
                freq, at = varint(data, at, stop)
                if freq < 0:
                    return ODD
                norm = np.int64(0)
                if has_norms or freq >= 2:
                    norm, at = varint(data, at, stop)
                    if norm < 0:
                        return ODD
                freqs[entry], norms[entry] = np.uint64(freq), np.uint64(norm)
                entry += 1
            if at != stop:
                return ODD
        total += stop - start
        if entry != limit or total > len(data):  # more than there are: they overlap
            return ODD
    return 0


@Kernel
def read_locations(
    data: Bytes,
    location_at: Index,
    counts: Index,
    chunk_docs: Index,
    num_docs: int,
    num_fields: int,
    docs: Index,
    freqs: Values,
    location_counts: Index,
    fields: Index,
    heads: Values,
    array_counts: Index,
    arrays: Values,
) -> tuple[int, int]:
    """Read the locations of postings as `postings.decode_locations` does.

    Args:
        data: uint8, a window with the location blocks.
        location_at: int64[n], place of each block in it; negative without one.
        counts: int64[n], postings of each list.
        chunk_docs: int64[n], documents per chunk.
        num_docs: documents of the segment.
        num_fields: fields of the segment.
        docs: int64, documents of all lists.
        freqs: uint64, frequencies, with the location bit.
        location_counts: int64, for the locations of each posting; 0 before.
        fields: int64[m], for the field of each location.
        heads: uint64[3, m], for position, start and end of each.
        array_counts: int64[m], for the number of array positions of each.
        arrays: uint64, for the array positions.

    Returns:
        Number of locations, and of array positions; or `ODD`, also if there are more than fit.
    """
    entry, place, used, total = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for i in range(len(counts)):
        limit = entry + counts[i]
        if location_at[i] < 0:
            entry = limit
            continue
        num_chunks = (num_docs - 1) // chunk_docs[i] + 1
        table, start = chunk_data(data, location_at[i], num_chunks)
        if table < 0:
            return ODD, ODD
        at, stop = start, start
        for chunk in range(num_chunks):
            chunk_end, table = varint(data, table, len(data))
            if chunk_end < stop - start or chunk_end > len(data) - start:
                return ODD, ODD
            stop = start + chunk_end
            beyond = (chunk + 1) * chunk_docs[i]
            while entry < limit and docs[entry] < beyond:
                if freqs[entry] & np.uint64(1):
                    size, at = varint(data, at, stop)
                    if size < 0 or size > stop - at:
                        return ODD, ODD
                    last = at + size
                    while at < last:
                        field, at = varint(data, at, last)
                        position, at = varint(data, at, last)
                        first, at = varint(data, at, last)
                        end, at = varint(data, at, last)
                        count, at = varint(data, at, last)
                        if min(position, first, end) < 0 or not 0 <= field < num_fields or not 0 <= count <= last - at:
                            return ODD, ODD
                        if place == len(fields) or count > len(arrays) - used:
                            return ODD, ODD
                        fields[place], array_counts[place] = field, count
                        heads[0, place], heads[1, place] = np.uint64(position), np.uint64(first)
                        heads[2, place] = np.uint64(end)
                        place += 1
                        location_counts[entry] += 1
                        for _ in range(count):
                            number, at = varint(data, at, last)
                            if number < 0:
                                return ODD, ODD
                            arrays[used] = np.uint64(number)
                            used += 1
                entry += 1
            if at != stop:
                return ODD, ODD
        total += stop - start
        if total > len(data):  # more than there are: they overlap
            return ODD, ODD
    return place, used

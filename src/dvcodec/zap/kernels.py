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


@Kernel
def width(value: np.uint64) -> int:
    """Return the number of bytes of a number; 0 has none."""
    size = 0
    while size < _WIDEST and value >> np.uint64(8 * size) != np.uint64(0):
        size += 1
    return size


@Kernel
def put(out: Bytes, at: int, value: np.uint64, size: int) -> int:
    """Write a number of `size` bytes, the lowest first; return the position after it."""
    for k in range(size):
        out[at + k] = value >> np.uint64(8 * k) & np.uint64(0xFF)
    return at + size


@Kernel
def is_state(
    out: Bytes,
    addr: int,
    common: Bytes,
    is_final: bool,
    output: np.uint64,
    inputs: Bytes,
    outputs: Values,
    targets: Index,
) -> bool:
    """Whether the state at `addr` is this one."""
    final, count, first, delta_size, output_size, high, low = state(out, addr)
    if final != is_final or count != len(inputs):
        return False
    if final and little(out, low, output_size) != output:
        return False
    for i in range(count):
        byte = out[first - i]
        if first == addr:
            byte = common[np.int64(byte) & 0x3F]
        target, value = follow(out, i, count, delta_size, output_size, high, low)
        if byte != inputs[i] or value != outputs[i] or target != targets[i]:
            return False
    return True


@Kernel
def put_state(
    out: Bytes,
    start: int,
    codes: Bytes,
    is_final: bool,
    output: np.uint64,
    inputs: Bytes,
    outputs: Values,
    targets: Index,
) -> int:
    """Write a state as `vellum.encode_many` and its neighbours do; return the position after it, or `FULL`."""
    count = len(inputs)
    if len(out) - start < 2 * _WIDEST + 4 + (2 * _WIDEST + 1) * count:
        return FULL
    delta_size, output_size = np.int64(1 if count else 0), width(output)
    for i in range(count):
        delta_size = max(delta_size, width(np.uint64(start - targets[i] if targets[i] else 0)))
        output_size = max(output_size, width(outputs[i]))
    at = start
    is_one = count == 1 and not is_final
    if is_one and output_size == 0 and targets[0] == start - 1:
        head = np.int64(0xC0)
    else:
        if is_final:
            at = put(out, at, output, output_size)
        for i in range(count - 1, -1, -1):
            at = put(out, at, outputs[i], output_size)
        for i in range(count - 1, -1, -1):
            at = put(out, at, np.uint64(start - targets[i] if targets[i] else 0), delta_size)
        if not is_one:
            for i in range(count - 1, -1, -1):
                out[at] = inputs[i]
                at += 1
        out[at] = delta_size << 4 | output_size
        at += 1
        head = np.int64(0x80)
    if is_one:
        code = np.int64(codes[np.int64(inputs[0])])
        if code == 0:
            out[at] = inputs[0]
            at += 1
        out[at] = head | code
        return at + 1
    flag = 0x40 if is_final else 0
    if 0 < count <= 0x3F:
        out[at] = flag | count
        return at + 1
    out[at], out[at + 1] = 1 if count == 256 else count, flag
    return at + 2


_BASIS, _PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)
"""FNV-1a over 64-bit values."""


@Kernel
def find_or_put(
    out: Bytes,
    size: int,
    registry: Index,
    common: Bytes,
    codes: Bytes,
    is_final: bool,
    output: np.uint64,
    inputs: Bytes,
    outputs: Values,
    targets: Index,
) -> tuple[int, int]:
    """Return the address of a state that the registry has, or else of a new one; and the end of all, or `FULL`."""
    code = (_BASIS ^ np.uint64(1 if is_final else 0)) * _PRIME
    code = (code ^ output) * _PRIME
    for i in range(len(inputs)):
        code = (code ^ np.uint64(inputs[i])) * _PRIME
        code = (code ^ outputs[i]) * _PRIME
        code = (code ^ np.uint64(targets[i])) * _PRIME
    bucket = np.int64(code % np.uint64(registry.shape[1]))
    newer, older = registry[0, bucket], registry[1, bucket]
    if newer and is_state(out, newer, common, is_final, output, inputs, outputs, targets):
        return newer, np.int64(size)
    addr = older
    if not older or not is_state(out, older, common, is_final, output, inputs, outputs, targets):
        size = put_state(out, size, codes, is_final, output, inputs, outputs, targets)
        if size < 0:
            return np.int64(ODD), np.int64(FULL)
        addr = np.int64(size - 1)
    registry[0, bucket], registry[1, bucket] = addr, newer
    return addr, np.int64(size)


@Kernel
def write_keys(
    data: Bytes,
    offsets: Index,
    values: Values,
    common: Bytes,
    codes: Bytes,
    registry: Index,
    forks: Index,
    owns: Values,
    inputs: Bytes,
    lows: Values,
    targets: Index,
    out: Bytes,
) -> tuple[int, int]:
    """Write the states of a dictionary as `vellum.build` does.

    Args:
        data: uint8, all keys, joined.
        offsets: int64[n + 1], their bounds.
        values: uint64[n], one per key.
        common: uint8[64], `vellum.COMMON`.
        codes: uint8[256], the code of each byte in it, or 0.
        registry: int64[2, buckets], for the addresses of states that may be shared; 0 before.
        forks: int64[d, 3], for the unfinished states on the path: depth, whether a key ends there, first transition.
        owns: uint64[d], for the value of the key that ends there.
        inputs: uint8[t], for the input bytes of their finished transitions.
        lows: uint64[t], for the smallest values below.
        targets: int64[t], for the states there.
        out: uint8, for the states, behind a header.

    Returns:
        Position after the last state, and address of the root; or `FULL`; or `ODD` for keys that do not ascend.
    """
    size, count, top = np.int64(_HEADER), np.int64(0), np.int64(0)
    outputs = np.zeros(256, np.uint64)
    none = np.uint64(0)
    forks[0, 0], forks[0, 1], forks[0, 2] = 0, 0, 0
    for i in range(len(values)):
        begin, following = offsets[i], offsets[i + 1]
        end, shared = following - begin, np.int64(0)
        if i + 1 < len(values):
            after = offsets[i + 2] - following
            while shared < min(end, after) and data[begin + shared] == data[following + shared]:
                shared += 1
            if shared == after or (shared < end and data[begin + shared] > data[following + shared]):
                return np.int64(ODD), np.int64(ODD)
        if not end or end == shared:
            # This key is a prefix of the next one.
            if end:
                top += 1
                forks[top, 0], forks[top, 2] = end, count
            forks[top, 1], owns[top] = 1, values[i]
            continue
        addr, low = np.int64(0), values[i]
        while True:
            stop = max(forks[top, 0], shared)
            for at in range(begin + end - 1, begin + stop, -1):
                targets[count] = addr
                outputs[0] = none
                addr, size = find_or_put(
                    out, size, registry, common, codes,
                    False, none, data[at : at + 1], outputs[:1], targets[count : count + 1],
                )  # fmt: skip
                if size < 0:
                    return size, addr
            if stop > forks[top, 0]:
                top += 1
                forks[top, 0], forks[top, 1], forks[top, 2] = stop, 0, count
            inputs[count], lows[count], targets[count] = data[begin + stop], low, addr
            count += 1
            if stop == shared:
                break
            end, first = forks[top, 0], forks[top, 2]
            is_final = forks[top, 1] != 0
            low = owns[top] if is_final else lows[first]
            for k in range(first, count):
                low = min(low, lows[k])
            for k in range(first, count):
                outputs[k - first] = lows[k] - low
            addr, size = find_or_put(
                out, size, registry, common, codes, is_final, owns[top] - low if is_final else none,
                inputs[first:count], outputs[: count - first], targets[first:count],
            )  # fmt: skip
            if size < 0:
                return size, addr
            count = first
            top -= 1
    # The sum of outputs to the root is 0. No other state has keys as long, so none is equal.
    is_final = forks[0, 1] != 0
    if is_final and count == 0 and owns[0] == none:
        return size, np.int64(0)
    output = owns[0] if is_final else none
    size = put_state(out, size, codes, is_final, output, inputs[:count], lows[:count], targets[:count])
    return size, size - 1


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

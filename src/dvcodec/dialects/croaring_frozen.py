"""CRoaring's ``roaring_bitmap_frozen_serialize``: the parts of its bitmaps in memory, as a file that can be mapped.

``bitsets | runs | arrays | n x u16 key | n x u16 count | n x u8 type | u32 n << 15 | 13766``: first the payloads of all
bitsets, then the runs of all run containers (u16 start, u16 length - 1), then the values of all arrays. A count is the
number of runs, or the number of values less 1; types are 1 for a bitset, 2 for an array, 3 for runs. Machines that are
little-endian write this; CRoaring wants its first byte at an address that 32 divides. The form of 64 bits differs from
release to release, so it is not supported.
Source: CRoaring, ``roaring.c``.
"""

from __future__ import annotations

import struct

import numpy as np

from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import BadMagic, NotCanonical, Truncated
from dvcodec.core.limits import Limits
from dvcodec.core.ragged import copy_pieces, gather, offsets_of, put, sums, u16
from dvcodec.core.roaring import BITSET_BYTES, ContainerKind
from dvcodec.core.rowset import RowSet
from dvcodec.dialects.base import Stored, Wrapper, views_of

_COOKIE = 13766
_COOKIE_BITS = 15
_TYPES = np.array([2, 1, 3], np.uint8)
"""CRoaring's type of each `ContainerKind`."""
_ZONES = (ContainerKind.BITSET, ContainerKind.RUN, ContainerKind.ARRAY)
"""The order of payloads."""


def _read(cursor: Cursor, limits: Limits) -> RowSet:
    data = np.frombuffer(cursor.take(cursor.remaining, "bitmap"), np.uint8)
    tail = len(data) - 4
    if tail < 0:
        raise cursor.error(Truncated, "header", at=0, expected="4 bytes", actual=f"{len(data)} left")
    count, cookie = divmod(int.from_bytes(data[tail:].tobytes(), "little"), 1 << _COOKIE_BITS)
    if cookie != _COOKIE:
        raise cursor.error(BadMagic, "cookie", at=tail, expected=_COOKIE, actual=cookie)
    types, counts, keys = tail - count, tail - 3 * count, tail - 5 * count
    if keys < 0:
        raise cursor.error(Truncated, "containers", at=tail, expected=f"{5 * count} bytes", actual=f"{tail} left")
    wrong = first_true((data[types:tail] == 0) | (data[types:tail] > len(_TYPES)))
    if wrong is not None:
        at = types + wrong
        raise cursor.error(BadMagic, "type of a container", at=at, expected="1, 2 or 3", actual=int(data[at]))
    kinds = np.argsort(_TYPES)[data[types:tail] - 1]
    held = u16(data, counts + 2 * np.arange(count))
    is_run = kinds == ContainerKind.RUN
    wrong = first_true(is_run & (held == 0))
    if wrong is not None:
        raise cursor.error(NotCanonical, "runs of a container", at=counts + 2 * wrong, expected="1 or more", actual=0)
    stored = np.where(is_run, 4 * held, np.where(kinds == ContainerKind.BITSET, BITSET_BYTES, 2 * held + 2))
    if int(stored.sum()) != keys:
        raise cursor.error(NotCanonical, "bytes of the containers", at=0, expected=int(stored.sum()), actual=keys)
    if not count:
        return RowSet()
    starts = np.empty(count, np.int64)
    order = np.argsort(np.argsort(_ZONES)[kinds], kind="stable")
    starts[order] = offsets_of(stored[order])[:-1]
    runs = gather(data, starts[is_run], stored[is_run]).tobytes()
    cards = held + 1
    cards[is_run] = sums(np.frombuffer(runs, "<u2")[1::2].astype(np.int64) + 1, held[is_run])
    sizes = stored + 2 * is_run
    places = offsets_of(sizes)
    payload = np.empty(int(places[-1]), np.uint8)
    put(payload, places[:-1][is_run], held[is_run], 2)
    copy_pieces(payload, places[:-1] + 2 * is_run, data, starts, stored)
    return Stored(u16(data, keys + 2 * np.arange(count)), cards, kinds, sizes, payload).load(cursor, limits)


def _write(rows: RowSet) -> bytes:
    for _, view in views_of(rows):
        is_run = view.kinds == ContainerKind.RUN
        zones = []
        for kind in _ZONES:
            chosen = view.kinds == kind
            skipped = 2 if kind == ContainerKind.RUN else 0
            data = np.frombuffer(view.data, np.uint8)
            zones.append(gather(data, view.starts[chosen] + skipped, view.sizes[chosen] - skipped).tobytes())
        counts = np.where(is_run, (view.sizes - 2) >> 2, view.cards - 1).astype("<u2")
        described = view.keys.astype("<u2").tobytes() + counts.tobytes() + _TYPES[view.kinds].tobytes()
        return b"".join(zones) + described + struct.pack("<I", len(view.keys) << _COOKIE_BITS | _COOKIE)
    return struct.pack("<I", _COOKIE)


FROZEN = Wrapper(_read, _write, highest=2**32 - 1)
"""The frozen form of 32 bits."""

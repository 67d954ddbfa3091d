"""Synonym lists: the synonyms of each term of a thesaurus, and for each synonym the documents that define it.

Source: zapx ``section_synonym_index.go``, ``thesaurus.go``, and roaring's format of 64-bit bitmaps::

    list       uv bytes | roaring64 of the members, each synonym id << 32 | document
    roaring64  u64 synonyms | of each, ascending: u32 synonym id | roaring bitmap of its documents
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import bitmaps, varints
from dvcodec.core.bitmap import ARRAY_MAX, BITSET_BYTES
from dvcodec.core.build import COOKIE_NO_RUNS
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import NotCanonical, Truncated
from dvcodec.core.limits import Limits
from dvcodec.core.ragged import ByteStrings, Index, offsets_of, spread, u32
from dvcodec.core.roaring import walk
from dvcodec.zap import varlen_records
from dvcodec.zap.chunks import interleave
from dvcodec.zap.data import SegmentData

__all__ = ["decode_synonym_lists", "encode_synonym_lists"]

_COUNT = 8
"""Bytes before the bitmaps of a roaring64."""
_KEY = 4
_MIN_BITMAP = 8
_MEMBER_BYTES = 16
"""Bytes of a decoded member."""


def decode_synonym_lists(
    data: SegmentData,
    num_docs: int,
    addresses: NDArray[np.uint64],
    limits: Limits,
    charge: Callable[[int], object],
) -> tuple[Index, Index, Index]:
    """Read the lists of many terms.

    Args:
        data: the segment.
        num_docs: documents of the segment.
        addresses: uint64[t], of each list, in any order.
        limits: `Limits.max_blob_bytes` bounds the members, 16 bytes each.
        charge: called with the number of members, before they are read.

    Returns:
        int64[t] number of members of each term; int64[n] synonym and int64[n] document of each member, by term and
        ascending in each.

    Raises:
        Truncated: an address or a length extends beyond the footer.
        NotCanonical: lists that overlap or have another size than stated, synonyms that do not ascend or have no
            document, or a document that the segment does not have.
        DecodeError: as `roaring.walk` and `BitmapView.load`.
        LimitExceeded: see `limits`.
    """
    if (i := first_true(addresses >= data.end)) is not None:
        raise data.error("address of a synonym list", data.end, expected="an address in front", actual=addresses[i])
    places = addresses.astype(np.int64)
    heads = data.around(places, varints.MAX_BYTES, "synonym list")
    raw_sizes, behind = varints.read_at(heads, places - heads.base, "bytes of a synonym list")
    starts = behind + heads.base
    if (i := first_true(raw_sizes > (data.end - starts).astype(np.uint64))) is not None:
        raise data.outside("synonym list", starts[i], raw_sizes[i])
    sizes = raw_sizes.astype(np.int64)
    # Lists that share bytes would amplify a small file.
    order = np.argsort(places, kind="stable")
    if (i := first_true(places[order][1:] < (starts + sizes)[order][:-1])) is not None:
        raise data.error(
            "synonym list",
            places[order][i + 1],
            expected=f"at or behind byte {int((starts + sizes)[order][i])}, where another one ends",
        )
    window = data.around(places, starts - places + sizes, "synonym list")
    owner, keys, begins, lengths = _find_bitmaps(window, starts - window.base, sizes)
    cards = bitmaps.cardinalities(window, begins, lengths)
    if (i := first_true(cards == 0)) is not None:
        raise window.error(NotCanonical, "documents of a synonym", at=begins[i], expected="one at least")
    if (i := first_true(cards > num_docs)) is not None:
        raise window.error(
            NotCanonical, "documents of a synonym", at=begins[i], expected=f"at most {num_docs}", actual=cards[i]
        )
    members = int(cards.sum())
    limits.check("max_blob_bytes", _MEMBER_BYTES * members, window, 0)
    charge(members)
    docs, cards = bitmaps.expand(window, begins, lengths)
    if (i := first_true(docs >= num_docs)) is not None:
        bitmap = int(np.searchsorted(np.cumsum(cards), i, side="right"))
        raise window.error(
            NotCanonical, "document of a synonym", at=begins[bitmap], expected=f"below {num_docs}", actual=docs[i]
        )
    bounds = np.searchsorted(owner, np.arange(len(places) + 1))
    counts = np.diff(offsets_of(cards)[bounds])
    return counts, np.repeat(keys, cards), docs.astype(np.int64)


def _find_bitmaps(window: Cursor, starts: Index, sizes: Index) -> tuple[Index, Index, Index, Index]:
    """Find the bitmaps of many roaring64.

    Returns:
        int64[m] each, by roaring64: its index, the high half of the members, position of the bitmap, and its size.
    """
    data = varints.bytes_of(window)
    if (i := first_true(sizes < _COUNT)) is not None:
        raise window.error(Truncated, "synonym list", at=starts[i], expected="8 bytes", actual=sizes[i])
    counts = u32(data, starts)
    most = (sizes - _COUNT) // (_KEY + _MIN_BITMAP)
    if (i := first_true((counts > most) | (u32(data, starts + 4) != 0))) is not None:
        raise window.error(
            NotCanonical,
            "number of synonyms of a term",
            at=starts[i],
            expected=f"at most {most[i]} in {sizes[i]} bytes",
            actual=int(counts[i]) | int(u32(data, starts[i : i + 1] + 4)[0]) << 32,
        )
    ends = starts + sizes
    owner = np.repeat(np.arange(len(starts)), counts)
    firsts = offsets_of(counts)[:-1]
    begins, lengths = np.zeros(len(owner), np.int64), np.zeros(len(owner), np.int64)
    order = np.argsort(starts, kind="stable")
    found, found_sizes, found_owner = _find_plain(data, starts[order], ends[order])
    found_counts = np.bincount(found_owner, minlength=len(starts))
    plain = found_counts == counts[order]
    keep = plain[found_owner]
    ranks = np.arange(len(found), dtype=np.int64) - offsets_of(found_counts)[found_owner]
    place = (firsts[order][found_owner] + ranks)[keep]
    begins[place], lengths[place] = found[keep], found_sizes[keep]
    for i in order[~plain | ((counts[order] == 0) & (sizes[order] > _COUNT))].tolist():
        one = Cursor(window.view[: ends[i]], source=window.source, base=window.base)
        one.pos = int(starts[i]) + _COUNT
        for k in range(int(firsts[i]), int(firsts[i] + counts[i])):
            one.u32le("synonym of a term")
            begins[k] = one.pos
            walk(one)
            lengths[k] = one.pos - begins[k]
        one.expect_end("a synonym list")
    keys = u32(data, begins - _KEY)
    if (i := first_true((owner[1:] == owner[:-1]) & (keys[1:] <= keys[:-1]))) is not None:
        raise window.error(
            NotCanonical,
            "synonym of a term",
            at=begins[i + 1] - _KEY,
            expected=f"an id above {keys[i]}",
            actual=keys[i + 1],
        )
    return owner, keys, begins, lengths


def _find_plain(data: NDArray[np.uint8], starts: Index, ends: Index) -> tuple[Index, Index, Index]:
    """Find the bitmaps of the roaring64 that have no runs and valid offset tables.

    Args:
        data: the window.
        starts: int64[n], position of each roaring64, ascending.
        ends: int64[n], end of each; they do not overlap.

    Returns:
        int64[m] each: position of a bitmap, its size, and its roaring64. The bitmaps of a roaring64 fill it exactly, or
        are omitted; they are not checked further.
    """
    # Positions of cookies. The key of the next bitmap follows the last container.
    cookie = COOKIE_NO_RUNS.to_bytes(4, "little")
    room = max(len(data) - 16, 0)
    places = np.flatnonzero(data[:room] == cookie[0])
    for k in range(1, 4):
        places = places[data[places + k] == cookie[k]]
    low = np.searchsorted(places, starts + _COUNT + _KEY)
    high = np.maximum(np.searchsorted(places, ends), low)
    bounds = offsets_of(high - low)
    places = places[spread(low, high - low)]
    owner = np.repeat(np.arange(len(starts)), high - low)
    left = ends[owner] - places
    counts = u32(data, places + 4)
    fits = np.flatnonzero((counts > 0) & (8 + 8 * counts <= left))
    last = places[fits] + 4 + 4 * counts[fits]  # the last descriptor; the last offset follows as many bytes
    cards = (u32(data, last) >> 16) + 1
    sizes = np.zeros(len(places), np.int64)
    sizes[fits] = u32(data, last + 4 * counts[fits]) + np.where(cards <= ARRAY_MAX, 2 * cards, BITSET_BYTES)
    follows = np.searchsorted(places, places + sizes + _KEY)
    behind = places[np.minimum(follows, len(places) - 1)] if len(places) else places
    step = np.where((sizes < left) & (behind == places + sizes + _KEY), follows - np.arange(len(places)), 0)
    step = np.where(sizes == left, bounds[owner + 1] - np.arange(len(places)), step)
    some = high > low
    step[bounds[:-1][some]] *= places[bounds[:-1][some]] == (starts + _COUNT + _KEY)[some]
    step[sizes == 0] = 0
    found, _ = varlen_records.follow(step, bounds)
    broken = np.zeros(len(starts), np.bool_)
    broken[owner[found[step[found] == 0]]] = True
    found = found[~broken[owner[found]]]
    return places[found], sizes[found], owner[found]


def encode_synonym_lists(counts: Index, members: Index, docs: Index) -> ByteStrings:
    """Encode the list of each term.

    Args:
        counts: int64[t], number of members of each term.
        members: int64[n], synonym of each member, ascending in each term; below 2**32.
        docs: int64[n], document of each member, ascending in each synonym; below 2**32.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    heads = np.flatnonzero(np.diff(owner, prepend=-1) | np.diff(members, prepend=-1))
    sets = bitmaps.serialize(docs, np.diff(heads, append=len(members)))
    keys = members[heads].astype("<u4").view(np.uint8)
    joined = interleave([ByteStrings(_KEY * np.arange(len(heads) + 1), keys), sets])
    bounds = np.searchsorted(owner[heads], np.arange(len(counts) + 1))
    buckets = ByteStrings(joined.offsets[bounds], joined.data)
    numbers = np.diff(bounds).astype("<u8").view(np.uint8)
    sizes, size_bytes = varints.encode(buckets.lengths + _COUNT)
    return interleave(
        [
            ByteStrings(offsets_of(size_bytes), sizes),
            ByteStrings(_COUNT * np.arange(len(counts) + 1), numbers),
            buckets,
        ]
    )

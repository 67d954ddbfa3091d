"""Synonyms, versions 16 and 17: thesauri, each under the name of a field.

Source: zapx ``section_synonym_index.go``, ``thesaurus.go``. What one thesaurus is written as, in this order::

    lists    of each term, ascending: uv bytes | roaring64 of its members, each synonym id << 32 | document
    terms    uv bytes | vellum: term -> address of its list                the thesaurus is known by this address
    names    v16: uv n |          n * (uv synonym id | uv bytes | synonym)           nothing at all if n = 0
             v17: uv n | uv bytes | the same
    section  uv NOT | uv NOT | uv address of the terms

A member says that a document defines the synonym for the term. zapx v17.0.0 to v17.0.8 wrote 0 for the bytes of the
names, though they follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import bitmaps, varints
from dvcodec.core.bitmap import ARRAY_MAX, BITSET_BYTES
from dvcodec.core.build import COOKIE_NO_RUNS
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings, offsets_of, spread
from dvcodec.core.roaring import walk
from dvcodec.core.varints import uvarints
from dvcodec.zap import chains
from dvcodec.zap.chunks import interleave
from dvcodec.zap.data import SegmentData
from dvcodec.zap.fields import FieldInfo
from dvcodec.zap.footer import NOT, Footer
from dvcodec.zap.vellum import Fst, build

__all__ = ["Thesaurus", "decode_thesaurus", "encode_thesaurus"]

SYNONYMS_FROM = 16
_NAMED_SIZE_FROM = 17
"""First version that says how many bytes the names have."""
_MAX_ID = 2**32 - 1
_ROOM = 3 * varints.MAX_BYTES
_COUNT = 8
"""Bytes in front of a roaring64's bitmaps."""
_KEY = 4
_MIN_BITMAP = 8
_NAME_BYTES = 64
"""Bytes that a synonym is thought to have, as long as nobody knows."""
_PIECE = 1 << 20
_MEMBER_BYTES = 16
"""Bytes that a member takes when read."""

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Thesaurus:
    """Terms, the synonyms of each, and the documents that say so.

    Attributes:
        terms: t terms, ascending.
        counts: int64[t], members of each term.
        synonym_ids: int64[n], synonym of each member, one term behind the other; ascending in each.
        docs: int64[n], document of each member; ascending in each synonym of a term.
        ids: int64[s], what each synonym is called; ascending.
        synonyms: the s synonyms.
    """

    terms: ByteStrings
    counts: Index
    synonym_ids: Index
    docs: Index
    ids: Index
    synonyms: ByteStrings

    def __len__(self) -> int:
        return len(self.terms)


def decode_thesaurus(
    data: SegmentData, footer: Footer, info: FieldInfo, *, limits: Limits = DEFAULT_LIMITS
) -> Thesaurus:
    """Read a thesaurus.

    Args:
        data: the segment.
        footer: its footer.
        info: the field that bears its name.
        limits: `Limits.max_keys` bounds the terms, `Limits.max_blob_bytes` the bytes of the members, 16 of each.

    Raises:
        UsageError: the field has no synonyms.
        Truncated: an address or a length leaves the bytes in front of the footer.
        NotCanonical: lists that overlap or do not have the bytes they announce, a document that the segment does not
            have, a synonym without a name, two of one id, or names that do not have the bytes they announce.
        DecodeError: what `Fst.open` and `roaring.walk` raise.
        LimitExceeded: see `limits`.
    """
    if info.synonyms is None:
        raise UsageError(f"field {info.name!r} has no synonyms")
    section = data.at(info.synonyms, _ROOM, "synonym section")
    for _ in range(2):
        at, place = section.pos, section.uvarint("start of a synonym section")
        if place != NOT:
            raise section.error(
                NotCanonical, "start of a synonym section", at=at, expected="no doc values", actual=place
            )
    address = section.uvarint("address of a thesaurus")
    head = data.at(address, varints.MAX_BYTES, "thesaurus")
    size = head.uvarint("bytes of the terms")
    at = address + head.pos
    block = Fst.open(data.window(at, at + size, "terms of a thesaurus"), limits).to_block()
    if not len(block.keys) and footer.version < _NAMED_SIZE_FROM:
        ids, synonyms = np.zeros(0, np.int64), ByteStrings.from_list([])
    else:
        ids, synonyms = _read_names(data, footer, at + size)
    counts, synonym_ids, docs = _read_lists(data, footer, block.values, limits)
    if len(synonym_ids):
        place_of = np.minimum(np.searchsorted(ids, synonym_ids), max(len(ids) - 1, 0))
        unknown = np.flatnonzero(ids[place_of] != synonym_ids) if len(ids) else np.zeros(1, np.int64)
        if len(unknown):
            raise data.error(
                "synonym of a term", address, expected="the id of a name", actual=int(synonym_ids[unknown[0]])
            )
    return Thesaurus(block.keys, counts, synonym_ids, docs, ids, synonyms)


def _read_lists(
    data: SegmentData, footer: Footer, addresses: NDArray[np.uint64], limits: Limits
) -> tuple[Index, Index, Index]:
    """Read the members of every term: how many there are, their synonyms and their documents."""
    wrong = np.flatnonzero(addresses >= data.end)
    if len(wrong):
        raise data.error(
            "address of a synonym list", data.end, expected="an address in front", actual=int(addresses[wrong[0]])
        )
    places = addresses.astype(np.int64)
    heads = data.around(places, varints.MAX_BYTES, "synonym list")
    raw_sizes, behind = varints.read_at(heads, places - heads.base, "bytes of a synonym list")
    starts = behind + heads.base
    wrong = np.flatnonzero(raw_sizes > (data.end - starts).astype(np.uint64))
    if len(wrong):
        i = int(wrong[0])
        raise data.outside("synonym list", int(starts[i]), int(raw_sizes[i]))
    sizes = raw_sizes.astype(np.int64)
    # Lists that share bytes would make much of little.
    order = np.argsort(places, kind="stable")
    shared = np.flatnonzero(places[order][1:] < (starts + sizes)[order][:-1])
    if len(shared):
        raise data.error(
            "synonym list",
            int(places[order][shared[0] + 1]),
            expected=f"at or behind byte {int((starts + sizes)[order][shared[0]])}, where another one ends",
        )
    window = data.around(places, starts - places + sizes, "synonym list")
    owner, keys, begins, lengths = _find_bitmaps(window, starts - window.base, sizes)
    cards = bitmaps.cardinalities(window, begins, lengths)
    empty = np.flatnonzero(cards == 0)
    if len(empty):
        raise window.error(NotCanonical, "documents of a synonym", at=int(begins[empty[0]]), expected="one at least")
    limits.check("max_blob_bytes", _MEMBER_BYTES * int(cards.sum()), window, 0)
    docs, cards = bitmaps.expand(window, begins, lengths)
    wrong = np.flatnonzero(docs >= footer.num_docs)
    if len(wrong):
        i = int(np.searchsorted(np.cumsum(cards), wrong[0], side="right"))
        raise window.error(
            NotCanonical,
            "document of a synonym",
            at=int(begins[i]),
            expected=f"below {footer.num_docs}",
            actual=int(docs[wrong[0]]),
        )
    bounds = np.searchsorted(owner, np.arange(len(places) + 1))
    counts = np.diff(offsets_of(cards)[bounds])
    return counts, np.repeat(keys, cards), docs.astype(np.int64)


def _find_bitmaps(window: Cursor, starts: Index, sizes: Index) -> tuple[Index, Index, Index, Index]:
    """Find the bitmaps of many roaring64.

    Returns:
        int64[m] each: which of the roaring64, the high half of the members, where the bitmap begins, and its bytes;
        one roaring64 behind the other.
    """
    data = varints.bytes_of(window)
    short = np.flatnonzero(sizes < _COUNT)
    if len(short):
        i = int(short[0])
        raise window.error(Truncated, "synonym list", at=int(starts[i]), expected="8 bytes", actual=int(sizes[i]))
    counts = _u32(data, starts)
    most = (sizes - _COUNT) // (_KEY + _MIN_BITMAP)
    wrong = np.flatnonzero((counts > most) | (_u32(data, starts + 4) != 0))
    if len(wrong):
        i = int(wrong[0])
        raise window.error(
            NotCanonical,
            "number of synonyms of a term",
            at=int(starts[i]),
            expected=f"at most {int(most[i])} in {int(sizes[i])} bytes",
            actual=int(counts[i]) | int(_u32(data, starts[i : i + 1] + 4)[0]) << 32,
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
    keys = _u32(data, begins - _KEY)
    wrong = np.flatnonzero((owner[1:] == owner[:-1]) & (keys[1:] <= keys[:-1])) + 1
    if len(wrong):
        i = int(wrong[0])
        raise window.error(
            NotCanonical,
            "synonym of a term",
            at=int(begins[i]) - _KEY,
            expected=f"an id above {int(keys[i - 1])}",
            actual=int(keys[i]),
        )
    return owner, keys, begins, lengths


def _find_plain(data: NDArray[np.uint8], starts: Index, ends: Index) -> tuple[Index, Index, Index]:
    """Find the bitmaps of those roaring64 in which none has runs, and offset tables are right.

    Args:
        data: the window.
        starts: int64[n], position of each roaring64, ascending.
        ends: int64[n], position behind each; none overlaps the next.

    Returns:
        int64[m] each: where a bitmap begins, its bytes, and its roaring64. They fill it exactly, or there are none of
        it. Nothing more is sure about them.
    """
    # A place is a cookie; the key of the next bitmap stands where this one's last container ends.
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
    counts = _u32(data, places + 4)
    fits = np.flatnonzero((counts > 0) & (8 + 8 * counts <= left))
    last = places[fits] + 4 + 4 * counts[fits]  # the last descriptor; the last offset stands behind as many again
    cards = (_u32(data, last) >> 16) + 1
    sizes = np.zeros(len(places), np.int64)
    sizes[fits] = _u32(data, last + 4 * counts[fits]) + np.where(cards <= ARRAY_MAX, 2 * cards, BITSET_BYTES)
    follows = np.searchsorted(places, places + sizes + _KEY)
    behind = places[np.minimum(follows, len(places) - 1)] if len(places) else places
    step = np.where((sizes < left) & (behind == places + sizes + _KEY), follows - np.arange(len(places)), 0)
    step = np.where(sizes == left, bounds[owner + 1] - np.arange(len(places)), step)
    some = high > low
    step[bounds[:-1][some]] *= places[bounds[:-1][some]] == (starts + _COUNT + _KEY)[some]
    step[sizes == 0] = 0
    found, _ = chains.follow(step, bounds)
    broken = np.zeros(len(starts), np.bool_)
    broken[owner[found[step[found] == 0]]] = True
    found = found[~broken[owner[found]]]
    return places[found], sizes[found], owner[found]


def _u32(data: NDArray[np.uint8], at: Index) -> Index:
    found = np.zeros(len(at), np.int64)
    for k in range(4):
        found |= data[at + k].astype(np.int64) << 8 * k
    return found


def _read_names(data: SegmentData, footer: Footer, at: int) -> tuple[Index, ByteStrings]:
    """Read the synonyms and their ids, ascending by id."""
    head = data.at(at, _ROOM, "synonyms")
    count = head.uvarint("number of synonyms")
    size = head.uvarint("bytes of the synonyms") if footer.version >= _NAMED_SIZE_FROM else 0
    start = at + head.pos
    room = size or data.end - start
    if size > data.end - start or count > room // 2:
        raise Truncated(
            "synonyms",
            source=data.source.name,
            offset=start,
            expected=f"{count} synonyms in {size or 'some'} bytes",
            actual=f"{data.end - start} bytes left",
        )
    if not count:
        if size:
            raise data.error("bytes of the synonyms", at, expected=0, actual=size)
        return np.zeros(0, np.int64), ByteStrings.from_list([])
    ids, synonyms, end = _walk_names(data, start, start + room, count)
    if size and end != start + size:
        raise data.error("bytes of the synonyms", start, expected=end - start, actual=size)
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    wrong = np.flatnonzero(ids[1:] == ids[:-1])
    if len(wrong):
        raise data.error("ids of the synonyms", start, expected="every one once", actual=f"{int(ids[wrong[0]])} twice")
    if len(ids) and int(ids[-1]) > _MAX_ID:
        raise data.error("id of a synonym", start, expected=f"at most {_MAX_ID}", actual=int(ids[-1]))
    return ids.astype(np.int64), synonyms.take(order)


def _walk_names(data: SegmentData, start: int, stop: int, count: int) -> tuple[NDArray[np.uint64], ByteStrings, int]:
    """Read `count` synonyms from `start` on, piece by piece; return their ids, them, and where they end."""
    ids: list[NDArray[np.uint64]] = []
    synonyms: list[ByteStrings] = []
    at, left = start, count
    while left:
        window = data.window(at, min(at + left * _NAME_BYTES + _ROOM, at + _PIECE, stop), "synonyms")
        raw = varints.bytes_of(window)
        begins, lengths = chains.tagged(raw, left)
        if not len(begins):  # one that is longer than the piece
            number, size = window.uvarint("id of a synonym"), window.uvarint("bytes of a synonym")
            at += window.pos
            if size > stop - at:
                raise window.error(Truncated, "synonym", expected=f"{size} bytes", actual=f"{stop - at} left")
            raw = varints.bytes_of(data.window(at, at + size, "synonym"))
            ids.append(np.array([number], np.uint64))
            synonyms.append(ByteStrings(np.array([0, size]), raw))
            at, left = at + size, left - 1
            continue
        ends = begins + lengths
        numbers, _ = varints.read_at(window, np.append(0, ends[:-1]), "id of a synonym")
        ids.append(numbers)
        synonyms.append(ByteStrings.cut(raw, begins, lengths))
        at, left = at + int(ends[-1]), left - len(ends)
    return np.concatenate(ids), ByteStrings.concat(synonyms), at


def encode_thesaurus(version: int, thesaurus: Thesaurus, base: int) -> tuple[bytes, int]:
    """Encode a thesaurus.

    Args:
        version: of the segment, 16 or 17.
        thesaurus: what it holds; see there for the order.
        base: address that the bytes will have.

    Returns:
        The bytes, and the address of its section.

    Raises:
        UsageError: a version without synonyms, terms, ids or members that do not ascend or do not fit, or a member
            whose synonym has no name.
    """
    if version < SYNONYMS_FROM:
        raise UsageError(f"zap version {version} has no synonyms")
    _check(thesaurus)
    lists = _encode_lists(thesaurus)
    addresses = base + lists.offsets[:-1]
    terms = build(thesaurus.terms, addresses.astype(np.uint64))
    address = base + len(lists.data)
    names = _encode_names(version, thesaurus.ids, thesaurus.synonyms)
    parts = lists.data.tobytes() + uvarints(len(terms)) + terms + names
    return parts + uvarints(NOT, NOT, address), base + len(parts)


def _check(thesaurus: Thesaurus) -> None:
    ids, members, docs = thesaurus.ids, thesaurus.synonym_ids, thesaurus.docs
    if len(thesaurus.counts) != len(thesaurus.terms) or len(ids) != len(thesaurus.synonyms):
        raise UsageError("a thesaurus needs a count for every term and an id for every synonym")
    if int(thesaurus.counts.sum()) != len(members) or len(members) != len(docs):
        raise UsageError("a thesaurus needs as many members as the counts of its terms say")
    if len(ids) and (int(ids[0]) < 0 or int(ids[-1]) > _MAX_ID or bool((ids[1:] <= ids[:-1]).any())):
        raise UsageError(f"ids of synonyms have to ascend, from 0 to {_MAX_ID}")
    if not np.isin(members, ids).all():
        raise UsageError("a member of a thesaurus has a synonym without a name")
    if len(docs) and (int(docs.min()) < 0 or int(docs.max()) > _MAX_ID):
        raise UsageError(f"documents of synonyms have to lie between 0 and {_MAX_ID}")
    owner = np.repeat(np.arange(len(thesaurus.counts)), thesaurus.counts)
    same = (owner[1:] == owner[:-1]) & (members[1:] <= members[:-1])
    if (same & ((members[1:] < members[:-1]) | (docs[1:] <= docs[:-1]))).any():
        raise UsageError("members of a term have to ascend, by synonym and document")


def _encode_lists(thesaurus: Thesaurus) -> ByteStrings:
    counts, members = thesaurus.counts, thesaurus.synonym_ids
    owner = np.repeat(np.arange(len(counts)), counts)
    heads = np.flatnonzero(np.diff(owner, prepend=-1) | np.diff(members, prepend=-1))
    sets = bitmaps.serialize(thesaurus.docs, np.diff(heads, append=len(members)))
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


def _encode_names(version: int, ids: Index, synonyms: ByteStrings) -> bytes:
    numbers, sizes = varints.encode(np.stack([ids, synonyms.lengths], axis=1).ravel())
    entries = interleave([ByteStrings(offsets_of(sizes)[::2], numbers), synonyms]).data.tobytes()
    if version >= _NAMED_SIZE_FROM:
        return uvarints(len(ids), len(entries)) + entries
    return uvarints(len(ids)) + entries if len(ids) else b""

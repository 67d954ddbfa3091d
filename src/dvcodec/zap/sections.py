"""Sections of versions 16 and 17: synonyms and vectors.

Synonyms are thesauri, each of which has the name of a field. Source: zapx ``section_synonym_index.go``,
``thesaurus.go``, and roaring's format of 64-bit bitmaps. The parts of a thesaurus, in this order::

    lists      of each term, ascending: uv bytes | roaring64 of the members, each synonym id << 32 | document
    roaring64  u64 synonyms | of each, ascending: u32 synonym id | roaring bitmap of its documents
    terms      uv bytes | vellum: term -> address of its list                the address of the thesaurus
    names      v16: uv n |          n * (uv synonym id | uv bytes | synonym)           nothing if n = 0
               v17: uv n | uv bytes | the same
    section    uv NOT | uv NOT | uv address of the terms

A member of a list is a synonym of the term, and the document that defines it. zapx v17.0.0 to v17.0.8 wrote 0 for the
bytes of the names.

A section of vectors has the document of each vector, and faiss indexes, which are not decoded. Source: zapx
``section_faiss_vector_index.go``, built with the tag ``vectors``::

    v16  uv NOT | uv NOT | uv optimization | uv n | n * (zz id | uv document)      | uv size | faiss index
    v17  uv NOT | uv NOT | uv optimization | uv n | uv bytes | n * uv document     | uv type | uv size | faiss index
                                                                     [type 1: uv size | faiss binary index]

``zz`` is a zig-zag varint. In version 16 the ids in the faiss index are hashes of the vectors; in version 17 they are
0 to n - 1. zapx v17.0.0 to v17.0.8 wrote 0 for the bytes of the documents.

zapx v16.0.0 to v16.0.5 wrote other layouts with the same version number, which cannot be distinguished. Their faiss
bytes are read as vector ids, which almost certainly raises an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import bitmaps, varints
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import NotCanonical, Truncated
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings, Index, offsets_of, u32
from dvcodec.core.roaring import ARRAY_MAX, BITSET_BYTES, COOKIE_NO_RUNS, walk
from dvcodec.core.varints import uvarints
from dvcodec.zap.chunks import interleave
from dvcodec.zap.footer import NOT, Footer, SegmentData
from dvcodec.zap.vellum import build, decode_dictionary

_COUNT = 8
"""Bytes before the bitmaps of a roaring64."""
_KEY = 4
_MIN_BITMAP = 8
_NO_RUNS = COOKIE_NO_RUNS.to_bytes(4, "little")
_MEMBER_BYTES = 16
"""Bytes of a decoded member."""


def decode_synonym_lists(
    data: SegmentData,
    num_docs: int,
    addresses: NDArray[np.uint64],
    limits: Limits,
    check: Callable[[int], object],
) -> tuple[Index, Index, Index]:
    """Read the lists of many terms.

    Args:
        data: the segment.
        num_docs: documents of the segment.
        addresses: uint64[t], of each list, in any order.
        limits: `Limits.max_blob_bytes` bounds the members, 16 bytes each.
        check: called with the number of members, before they are read.

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
    members = int(cards.sum())
    limits.check("max_blob_bytes", _MEMBER_BYTES * members, window, 0)
    check(members)
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
    for start, end, first, count in zip(*(one.tolist() for one in (starts, ends, firsts, counts)), strict=True):
        one = Cursor(window.view[:end], source=window.source, base=window.base)
        one.pos = start + _COUNT
        for k in range(first, first + count):
            one.u32le("synonym of a term")
            begins[k] = one.pos
            if (size := _plain_size(one.view, one.pos)) is None:
                walk(one)
            else:
                one.pos += size
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


def _plain_size(view: memoryview, at: int) -> int | None:
    """Return the size of a bitmap without runs by its last container: all are checked when it is expanded.

    None for any other bitmap, and if the size is not possible.
    """
    count = int.from_bytes(view[at + 4 : at + 8], "little")
    offsets = at + 8 + 4 * count
    body = offsets + 4 * count
    if view[at : at + 4] != _NO_RUNS or not count or body > len(view):
        return None
    card = int.from_bytes(view[offsets - 2 : offsets], "little") + 1
    last = int.from_bytes(view[body - 4 : body], "little")
    size = last + (2 * card if card <= ARRAY_MAX else BITSET_BYTES)
    return size if body - at <= last and size <= len(view) - at else None


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


_NAMED_SIZE_FROM = 17
"""First version that stores the bytes of the names."""
_MAX_ID = 2**32 - 1
_ROOM = 3 * varints.MAX_BYTES
_NAME_BYTES = 64
"""Estimated bytes of a synonym, to size reads."""
_PIECE = 1 << 20
_SHOWN_BYTES = 40
"""How much of a name an error shows."""


@dataclass(frozen=True, slots=True, eq=False)
class Thesaurus:
    """Terms, their synonyms, and the documents that define them.

    Attributes:
        terms: t terms, ascending.
        counts: int64[t], number of members of each term.
        synonym_ids: int64[n], synonym of each member, by term; ascending in each.
        docs: int64[n], document of each member; ascending in each synonym of a term.
        ids: int64[s], id of each synonym; ascending.
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


def decode_thesaurus(data: SegmentData, footer: Footer, place: int, *, limits: Limits = DEFAULT_LIMITS) -> Thesaurus:
    """Read a thesaurus.

    Args:
        data: the segment.
        footer: its footer.
        place: address of its section.
        limits: `Limits.max_keys` bounds the terms, `Limits.max_blob_bytes` the members, 16 bytes each.

    Raises:
        Truncated: an address or a length extends beyond the footer.
        NotCanonical: a section of another kind, a synonym without a name, a repeated id or name, or names of another
            size than stated.
        DecodeError: as `decode_dictionary`, `Fst.to_block` and `decode_synonym_lists`.
        LimitExceeded: see `limits`.
    """
    section = data.section(place, _ROOM, "synonym section")
    address = section.uvarint("address of a thesaurus")
    terms = decode_dictionary(data, address, limits)
    block = terms.to_block()
    if not len(block.keys) and footer.version < _NAMED_SIZE_FROM:
        ids, synonyms = np.zeros(0, np.int64), ByteStrings.from_list([])
    else:
        ids, synonyms = _read_names(data, footer, terms.states.cursor.base + terms.states.cursor.end)
    rows = len(block.keys) + len(ids)
    data.count_members(place, rows, limits)
    if len(set(names := synonyms.to_list())) < len(names):  # a member of a term would come twice in a merge
        twice = Counter(names).most_common(1)[0][0][:_SHOWN_BYTES]
        raise data.error("names of the synonyms", address, expected="every one once", actual=f"{twice!r} twice")
    counts, synonym_ids, docs = decode_synonym_lists(
        data, footer.num_docs, block.values, limits, lambda count: data.count_members(place, rows + count, limits)
    )
    if (i := first_true(~np.isin(synonym_ids, ids))) is not None:
        raise data.error("synonym of a term", address, expected="the id of a name", actual=synonym_ids[i])
    return Thesaurus(block.keys, counts, synonym_ids, docs, ids, synonyms)


def _read_names(data: SegmentData, footer: Footer, at: int) -> tuple[Index, ByteStrings]:
    """Read the synonyms and their ids, sorted by id."""
    head = data.at(at, _ROOM, "synonyms")
    count = head.uvarint("number of synonyms")
    size = head.uvarint("bytes of the synonyms") if footer.version >= _NAMED_SIZE_FROM else 0
    start = at + head.pos
    room = size or data.end - start
    if size > data.end - start or count > room // 2:
        expected = f"{count} synonyms in {size or 'some'} bytes"
        raise data.error("synonyms", start, Truncated, expected=expected, actual=f"{data.end - start} bytes left")
    if not count:
        if size:
            raise data.error("bytes of the synonyms", at, expected=0, actual=size)
        return np.zeros(0, np.int64), ByteStrings.from_list([])
    window = data.at(start, min(count * _NAME_BYTES, room), "synonyms")
    names: dict[int, bytes] = {}
    for _ in range(count):
        if window.remaining < _ROOM:
            at = window.base + window.pos
            window = data.window(at, min(at + _PIECE, start + room), "synonyms")
        number, length = window.uvarint("id of a synonym"), window.uvarint("bytes of a synonym")
        if length > window.remaining:  # longer than the piece, or corrupt
            at = window.base + window.pos
            if length > start + room - at:
                raise window.error(Truncated, "synonym", expected=f"{length} bytes", actual=f"{start + room - at} left")
            window = data.window(at, min(at + length + _PIECE, start + room), "synonyms")
        if number in names:
            raise data.error("ids of the synonyms", start, expected="every one once", actual=f"{number} twice")
        names[number] = bytes(window.take(length, "synonym"))
    end = window.base + window.pos
    if size and end != start + size:
        raise data.error("bytes of the synonyms", start, expected=end - start, actual=size)
    if (highest := max(names)) > _MAX_ID:
        raise data.error("id of a synonym", start, expected=f"at most {_MAX_ID}", actual=highest)
    ids = sorted(names)
    return np.array(ids, np.int64), ByteStrings.from_list([names[number] for number in ids])


def encode_thesaurus(version: int, thesaurus: Thesaurus, base: int) -> tuple[bytes, int]:
    """Encode a thesaurus.

    Args:
        version: version of the segment, 16 or 17.
        thesaurus: ordered as its attributes require, without a name twice.
        base: address of the first byte.

    Returns:
        The bytes, and the address of its section.
    """
    lists = encode_synonym_lists(thesaurus.counts, thesaurus.synonym_ids, thesaurus.docs)
    addresses = base + lists.offsets[:-1]
    terms = build(thesaurus.terms, addresses.astype(np.uint64))
    address = base + len(lists.data)
    names = _encode_names(version, thesaurus.ids, thesaurus.synonyms)
    parts = lists.data.tobytes() + uvarints(len(terms)) + terms + names
    return parts + uvarints(NOT, NOT, address), base + len(parts)


def _encode_names(version: int, ids: Index, synonyms: ByteStrings) -> bytes:
    numbers, sizes = varints.encode(np.stack([ids, synonyms.lengths], axis=1).ravel())
    entries = interleave([ByteStrings(offsets_of(sizes)[::2], numbers), synonyms]).data.tobytes()
    if version >= _NAMED_SIZE_FROM:
        return uvarints(len(ids), len(entries)) + entries
    return uvarints(len(ids)) + entries if len(ids) else b""


OPTIMIZATIONS = ("recall", "latency", "memory-efficient", "bivf-flat", "bivf-sq8", "ivf,rabitq")
"""Meaning of the number in a section."""
FLOAT, BINARY = range(2)
"""Types of indexes."""
_IMPLICIT_IDS_FROM = 17
_VECTOR_ROOM = 5 * varints.MAX_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class VectorSection:
    """The vectors of one field.

    Attributes:
        optimization: goal of the index, an index of `OPTIMIZATIONS`.
        ids: int64[n], id of each vector in the faiss index; None for 0 to n - 1 (version 17).
        docs: int64[n], document of each vector; repeated for a document with several.
        index_type: 0 for a float index; 1 for a float and a binary index (version 17).
        faiss: the serialized float index.
        binary: the serialized binary index; None without one.
    """

    optimization: int
    ids: NDArray[np.int64] | None
    docs: NDArray[np.int64]
    index_type: int
    faiss: memoryview = field(repr=False)
    binary: memoryview | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.docs)


def decode_vectors(data: SegmentData, footer: Footer, address: int) -> VectorSection:
    """Read the vector section at an address.

    Not checked: the faiss indexes, and whether vector ids are distinct.

    Raises:
        Truncated: a length extends beyond the footer.
        NotCanonical: another layout, a document that the segment does not have, or vectors of another section.
    """
    cursor = data.section(address, _VECTOR_ROOM, "vector section")
    what = "optimization of a vector index"
    at, optimization = cursor.pos, cursor.uvarint(what)
    if optimization >= len(OPTIMIZATIONS):
        raise cursor.error(NotCanonical, what, at=at, expected=f"below {len(OPTIMIZATIONS)}", actual=optimization)
    count = cursor.uvarint("number of vectors")
    listed = footer.version < _IMPLICIT_IDS_FROM  # whether each document follows an id
    size = 0 if listed else cursor.uvarint("bytes of the vectors' documents")
    at, expected = cursor.base + cursor.pos, (2 if listed else 1) * count
    if expected > data.end - at:
        actual = f"{data.end - at} bytes"
        raise data.error("documents of vectors", at, Truncated, expected=f"{expected} varints", actual=actual)
    data.claim("vector sections", address, expected)  # before the numbers are read: each takes a byte
    window = data.window(at, min(at + expected * varints.MAX_BYTES, data.end), "documents of vectors")
    numbers, stops = varints.read_runs(window, np.zeros(1, np.int64), np.array([expected]), "documents of vectors")
    found = int(stops[0])
    if size and size != found:
        raise data.error("bytes of the vectors' documents", at, expected=f"{count} varints, {found} bytes", actual=size)
    docs = numbers[1::2] if listed else numbers
    if (i := first_true(docs >= footer.num_docs)) is not None:
        raise data.error("document of a vector", at, expected=f"below {footer.num_docs}", actual=docs[i])
    cursor, ids, kind = data.at(at + found, _VECTOR_ROOM, "vector section"), None, FLOAT
    if listed:
        halves = (numbers[::2] >> np.uint64(1)).astype(np.int64)
        ids = np.where(numbers[::2] & np.uint64(1), ~halves, halves)
    else:
        at, kind = cursor.pos, cursor.uvarint("type of a vector index")
        if kind not in {FLOAT, BINARY}:
            raise cursor.error(NotCanonical, "type of a vector index", at=at, expected="0 or 1", actual=kind)
    faiss, cursor = _read_index(data, cursor, "faiss index")
    binary = _read_index(data, cursor, "faiss binary index")[0] if kind == BINARY else None
    return VectorSection(optimization, ids, docs.astype(np.int64), kind, faiss, binary)


def _read_index(data: SegmentData, cursor: Cursor, what: str) -> tuple[memoryview, Cursor]:
    """Read the size of an index and the index; return it and a cursor after it."""
    size = cursor.uvarint(f"size of a {what}")
    at = cursor.base + cursor.pos
    index = data.window(at, at + size, what).view
    rest = at + size
    return index, data.window(rest, min(rest + _VECTOR_ROOM, data.end), "vector section")

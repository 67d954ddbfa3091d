"""Synonyms, versions 16 and 17: thesauri, each of which has the name of a field.

Source: zapx ``section_synonym_index.go``, ``thesaurus.go``. The parts of a thesaurus, in this order::

    lists    of each term, ascending: see `dvcodec.zap.synonym_lists`
    terms    uv bytes | vellum: term -> address of its list                the address of the thesaurus
    names    v16: uv n |          n * (uv synonym id | uv bytes | synonym)           nothing if n = 0
             v17: uv n | uv bytes | the same
    section  uv NOT | uv NOT | uv address of the terms

A member of a list is a synonym of the term, and the document that defines it. zapx v17.0.0 to v17.0.8 wrote 0 for the
bytes of the names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.cursor import first_true
from dvcodec.core.errors import Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings, Index, offsets_of
from dvcodec.core.varints import uvarints
from dvcodec.zap import varlen_records
from dvcodec.zap.chunks import interleave
from dvcodec.zap.data import SegmentData
from dvcodec.zap.footer import NOT, Footer
from dvcodec.zap.synonym_lists import decode_synonym_lists, encode_synonym_lists
from dvcodec.zap.vellum import Fst, build

__all__ = ["Thesaurus", "decode_thesaurus", "encode_thesaurus"]

SYNONYMS_FROM = 16
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
        DecodeError: as `Fst.open`, `Fst.to_block` and `decode_synonym_lists`.
        LimitExceeded: see `limits`.
    """
    section = data.section(place, _ROOM, "synonym section")
    address = section.uvarint("address of a thesaurus")
    head = data.at(address, varints.MAX_BYTES, "thesaurus")
    size = head.uvarint("bytes of the terms")
    at = address + head.pos
    terms = Fst.open(data.window(at, at + size, "terms of a thesaurus"), limits)
    data.charge_keys(address, terms.num_keys, limits)
    block = replace(terms, charge=partial(data.charge_keys, address, terms.num_keys, limits)).to_block()
    if not len(block.keys) and footer.version < _NAMED_SIZE_FROM:
        ids, synonyms = np.zeros(0, np.int64), ByteStrings.from_list([])
    else:
        ids, synonyms = _read_names(data, footer, at + size)
    charge = partial(data.charge_thesaurus, place, len(block.keys) + len(ids), limits=limits)
    charge(0)
    if len(set(names := synonyms.to_list())) < len(names):  # a member of a term would come twice in a merge
        twice = Counter(names).most_common(1)[0][0][:_SHOWN_BYTES]
        raise data.error("names of the synonyms", address, expected="every one once", actual=f"{twice!r} twice")
    counts, synonym_ids, docs = decode_synonym_lists(data, footer.num_docs, block.values, limits, charge)
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
    ids, synonyms, end = _walk_names(data, start, start + room, count)
    if size and end != start + size:
        raise data.error("bytes of the synonyms", start, expected=end - start, actual=size)
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    if (i := first_true(ids[1:] == ids[:-1])) is not None:
        raise data.error("ids of the synonyms", start, expected="every one once", actual=f"{ids[i]} twice")
    if len(ids) and int(ids[-1]) > _MAX_ID:
        raise data.error("id of a synonym", start, expected=f"at most {_MAX_ID}", actual=int(ids[-1]))
    return ids.astype(np.int64), synonyms.take(order)


def _walk_names(data: SegmentData, start: int, stop: int, count: int) -> tuple[NDArray[np.uint64], ByteStrings, int]:
    """Read `count` synonyms from `start` on, piece by piece; return their ids, the synonyms, and their end."""
    ids: list[NDArray[np.uint64]] = []
    synonyms: list[ByteStrings] = []
    at, left = start, count
    while left:
        window = data.window(at, min(at + left * _NAME_BYTES + _ROOM, at + _PIECE, stop), "synonyms")
        raw = varints.bytes_of(window)
        begins, lengths = varlen_records.tagged(raw, left)
        if not len(begins):  # a synonym longer than the piece
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
        version: version of the segment, 16 or 17.
        thesaurus: ordered as its attributes require.
        base: address of the first byte.

    Returns:
        The bytes, and the address of its section.

    Raises:
        UsageError: a version without synonyms; terms, ids or members that do not ascend or are out of range; a name
            that several ids have; or a member whose synonym has no name.
    """
    if version < SYNONYMS_FROM:
        raise UsageError(f"zap version {version} has no synonyms")
    _check(thesaurus)
    lists = encode_synonym_lists(thesaurus.counts, thesaurus.synonym_ids, thesaurus.docs)
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
        raise UsageError("a thesaurus needs as many members as the sum of its counts")
    if len(ids) and (int(ids[0]) < 0 or int(ids[-1]) > _MAX_ID or bool((ids[1:] <= ids[:-1]).any())):
        raise UsageError(f"ids of synonyms must ascend, from 0 to {_MAX_ID}")
    if len(set(thesaurus.synonyms.to_list())) < len(ids):
        raise UsageError("synonyms of a thesaurus must be distinct")
    if not np.isin(members, ids).all():
        raise UsageError("a member of a thesaurus has a synonym without a name")
    if len(docs) and (int(docs.min()) < 0 or int(docs.max()) > _MAX_ID):
        raise UsageError(f"documents of synonyms must be between 0 and {_MAX_ID}")
    owner = np.repeat(np.arange(len(thesaurus.counts)), thesaurus.counts)
    same = (owner[1:] == owner[:-1]) & (members[1:] <= members[:-1])
    if (same & ((members[1:] < members[:-1]) | (docs[1:] <= docs[:-1]))).any():
        raise UsageError("members of a term must ascend, by synonym and document")


def _encode_names(version: int, ids: Index, synonyms: ByteStrings) -> bytes:
    numbers, sizes = varints.encode(np.stack([ids, synonyms.lengths], axis=1).ravel())
    entries = interleave([ByteStrings(offsets_of(sizes)[::2], numbers), synonyms]).data.tobytes()
    if version >= _NAMED_SIZE_FROM:
        return uvarints(len(ids), len(entries)) + entries
    return uvarints(len(ids)) + entries if len(ids) else b""

"""Thesauri: real files, a slow writer over another roaring library, and every way to be wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from dvcodec import DecodeError, LimitExceeded, Limits, NotCanonical, Truncated, UsageError
from dvcodec.core.cursor import Cursor
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap import synonyms
from dvcodec.zap.fields import FieldInfo
from dvcodec.zap.synonyms import Thesaurus, decode_thesaurus, encode_thesaurus
from dvcodec.zap.vellum import Fst, build
from zap.pieces import NOT, Sample, footer, plain, sample, segment, survives, take, uv

__all__ = ["sample"]

FRONT = b"\x03" * 9
TOP = 2**64 - 1
Book = dict[bytes, dict[int, list[int]]]
"""Term -> synonym id -> documents."""
Names = dict[int, bytes]


def thesaurus_of(book: Book, names: Names) -> Thesaurus:
    members = [
        (number, doc) for term in sorted(book) for number in sorted(book[term]) for doc in sorted(book[term][number])
    ]
    return Thesaurus(
        ByteStrings.from_list(sorted(book)),
        np.array([sum(map(len, book[term].values())) for term in sorted(book)], np.int64),
        np.array([member[0] for member in members], np.int64),
        np.array([member[1] for member in members], np.int64),
        np.array(sorted(names), np.int64),
        ByteStrings.from_list([names[number] for number in sorted(names)]),
    )


def arrays(docs: list[int]) -> bytes:
    """A bitmap of array containers."""
    blocks = sorted({doc >> 16 for doc in docs})
    head, body = struct.pack("<II", 12346, len(blocks)), b""
    offsets = b""
    for block in blocks:
        values = sorted(doc & 0xFFFF for doc in docs if doc >> 16 == block)
        head += struct.pack("<HH", block, len(values) - 1)
        offsets += struct.pack("<I", 8 + 8 * len(blocks) + len(body))
        body += struct.pack(f"<{len(values)}H", *values)
    return head + offsets + body


def roaring64(lists: dict[int, list[int]], bitmap: Callable[[list[int]], bytes] = arrays) -> bytes:
    return struct.pack("<Q", len(lists)) + b"".join(
        struct.pack("<I", number) + bitmap(lists[number]) for number in sorted(lists)
    )


def lay(
    version: int,
    lists: dict[bytes, bytes],
    names: bytes,
    base: int = len(FRONT),
    addresses: dict[bytes, int] | None = None,
) -> tuple[bytes, int]:
    """Lists, terms, names and section; and where the section is."""
    out, found = b"", {}
    for term in sorted(lists):
        found[term] = base + len(out)
        out += uv(len(lists[term])) + lists[term]
    found |= addresses or {}
    terms = build(sorted(found), np.array([found[term] for term in sorted(found)], np.uint64))
    address = base + len(out)
    out += uv(len(terms)) + terms + names
    return out + uv(NOT, NOT, address), base + len(out)


def names_of(version: int, names: Names, size: int | None = None) -> bytes:
    body = b"".join(uv(number, len(name)) + name for number, name in names.items())
    if version == 16:
        return uv(len(names)) + body if names else b""
    return uv(len(names), len(body) if size is None else size) + body


def write(version: int, book: Book, names: Names) -> tuple[bytes, int]:
    return lay(version, {term: roaring64(book[term]) for term in book}, names_of(version, names))


def decode(raw: bytes, at: int, version: int = 17, num_docs: int = 200_000, limits: Limits | None = None) -> Thesaurus:
    info = FieldInfo(1, "book", synonyms=at)
    return decode_thesaurus(segment(FRONT + raw), footer(version, num_docs), info, limits=limits or Limits())


def test_real_files(sample: Sample) -> None:
    found: dict[str, dict[str, list[list[str | int]]]] = {}
    for field in sample.fields:
        if field.synonyms is None:
            continue
        thesaurus = decode_thesaurus(sample.data, sample.footer, field)
        names = dict(zip(thesaurus.ids.tolist(), thesaurus.synonyms, strict=True))
        members = list(zip(thesaurus.synonym_ids.tolist(), thesaurus.docs.tolist(), strict=True))
        found[field.name] = {}
        for term, count in zip(thesaurus.terms, thesaurus.counts.tolist(), strict=True):
            found[field.name][term.decode()] = [[names[number].decode(), doc] for number, doc in members[:count]]
            members = members[count:]
        assert not members
        check_bytes(sample, field.synonyms, thesaurus)
    assert found == sample.dump.get("thesauri", {})


def check_bytes(sample: Sample, section: int, thesaurus: Thesaurus) -> None:
    """The bytes are those of zapx, but for the names: there they stand in random order."""
    version = sample.footer.version
    address = take(sample.raw, section + 20)[0]
    size, terms = take(sample.raw, address)
    base = min(build_values(sample.raw[terms : terms + size]))
    raw, at = encode_thesaurus(version, thesaurus, base)
    theirs = sample.raw[base : base + len(raw)]
    assert at == section
    names = terms + size - base
    assert raw[:names] == theirs[:names]
    assert raw[at - base :] == theirs[at - base :]
    entries = []
    for data in (raw, theirs):
        count, place = take(data, names)
        if version == 17:
            size, place = take(data, place)
            assert size == at - base - place
        found = []
        for _ in range(count):
            number, place = take(data, place)
            size, place = take(data, place)
            found.append((number, data[place : place + size]))
            place += size
        assert place == at - base
        entries.append(found)
    assert entries[0] == sorted(entries[1])


def build_values(terms: bytes) -> list[int]:
    return [int(value) for value in Fst.open(Cursor(terms)).to_block().values]


@st.composite
def books(draw: st.DrawFn) -> tuple[Book, Names]:
    numbers = draw(st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 300), min_size=1, max_size=8, unique=True))
    docs = st.lists(st.integers(0, 199_999) | st.integers(0, 5), min_size=1, max_size=5, unique=True)
    book = draw(
        st.dictionaries(
            st.binary(max_size=6),
            st.dictionaries(st.sampled_from(numbers), docs, max_size=8),
            max_size=6,
        )
    )
    names = st.one_of(st.binary(max_size=4), st.text(max_size=90).map(str.encode))
    return book, {number: draw(names) for number in numbers if book}


@pytest.mark.parametrize("version", [16, 17])
@pytest.mark.parametrize("piece", [40, 1 << 20])
@given(case=books(), dice=st.randoms())
def test_both_ways(version: int, piece: int, case: tuple[Book, Names], dice: np.random.Generator) -> None:
    book, names = case
    expected = thesaurus_of(book, names)
    raw, at = encode_thesaurus(version, expected, len(FRONT))
    assert (raw, at) == write(version, book, dict(sorted(names.items())))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synonyms, "_PIECE", piece)
        assert plain(decode(raw, at, version)) == plain(expected)
        # The names stand in any order in files by zapx.
        mixed = list(names.items())
        dice.shuffle(mixed)
        assert plain(decode(*write(version, book, dict(mixed)), version)) == plain(expected)


def optimized(docs: list[int]) -> bytes:
    bitmap = BitMap(docs)
    bitmap.run_optimize()
    return bitmap.serialize()


def test_every_kind_of_bitmap() -> None:
    """Arrays, bitsets, runs, a full container, several containers: next to each other in one list."""
    docs = {
        0: list(range(0, 180_000, 2)),
        1: [7],
        2: list(range(65_536)),
        5: list(range(100, 70_000)),
        9: [0, 65_536, 131_072],
        11: list(range(4096)),
        12: list(range(0, 3 * 4097, 3)),
    }
    names = {number: b"name %d" % number for number in docs}
    book = {b"all": docs, b"even": {number: [number, number + 1] for number in docs}, b"one": {9: [3]}, b"two": {}}
    expected = thesaurus_of(book, names)
    for version in (16, 17):
        raw, at = encode_thesaurus(version, expected, len(FRONT))
        assert plain(decode(raw, at, version)) == plain(expected)
    lists = {term: roaring64(found, optimized) for term, found in book.items()}
    assert plain(decode(*lay(17, lists, names_of(17, names)))) == plain(expected)


def test_a_cookie_where_none_is() -> None:
    """Behind a term without synonyms stand a size and a count that look like the start of a bitmap."""
    book: Book = {b"a": {}, b"b": {number: list(range(68)) for number in range(48)}, b"c": {}}
    expected = thesaurus_of(book, dict.fromkeys(range(48), b"s"))
    raw, at = encode_thesaurus(17, expected, len(FRONT))
    assert raw[10:14] == struct.pack("<I", 12346)
    assert plain(decode(raw, at)) == plain(expected)


def test_many_uneven_bitmaps() -> None:
    dice = np.random.default_rng(1)
    book: Book = {
        b"term %d" % term: {
            int(number): sorted(set(dice.integers(0, 200_000, dice.integers(1, 4)).tolist()))
            for number in dice.integers(0, 1000, dice.integers(0, 60))
        }
        for term in range(200)
    }
    names = {number: b"name %d" % number for number in range(1000)}
    expected = thesaurus_of(book, names)
    raw, at = write(17, book, names)
    assert plain(decode(raw, at)) == plain(expected)
    # One with runs among them goes another way.
    book[b"term 7"][5] = list(range(5000))
    lists = {term: roaring64(found, optimized if term == b"term 7" else arrays) for term, found in book.items()}
    assert plain(decode(*lay(17, lists, names_of(17, names)))) == plain(thesaurus_of(book, names))


def test_a_full_container_is_a_run() -> None:
    """Go's roaring makes one of it as soon as the last value is added."""
    raw, _ = encode_thesaurus(17, thesaurus_of({b"t": {0: list(range(65_536))}}, {0: b"s"}), 0)
    size, at = take(raw, 0)
    assert raw[at : at + size] == struct.pack("<QI", 1, 0) + bytes.fromhex("3b30000001 0000ffff 0100 0000ffff")


def test_sizes_of_zero() -> None:
    """zapx v17.0.0 to v17.0.8 wrote 0 for the bytes of the names."""
    book, names = {b"big": {1: [0], 300: [1, 2]}}, {300: b"large", 1: b"huge"}
    lists = {term: roaring64(book[term]) for term in book}
    raw, at = lay(17, lists, names_of(17, names, 0))
    assert plain(decode(raw, at)) == plain(thesaurus_of(book, names))


@pytest.mark.parametrize("version", [16, 17])
def test_nothing(version: int) -> None:
    expected = thesaurus_of({}, {})
    raw, at = encode_thesaurus(version, expected, len(FRONT))
    assert plain(decode(raw, at, version)) == plain(expected)
    with pytest.raises(UsageError, match="no synonyms"):
        decode_thesaurus(segment(FRONT), footer(version, 1), FieldInfo(1, "text"))


ONE = roaring64({1: [0]})
NAMES = names_of(17, {1: b"s"})


def bucket(number: int, body: bytes) -> bytes:
    return struct.pack("<I", number) + body


EMPTY = struct.pack("<II", 12346, 0)
DOC0 = BitMap([0]).serialize()


@pytest.mark.parametrize(
    ("listed", "kind", "what"),
    [
        (b"", Truncated, "synonym list"),
        (bytes(7), Truncated, "synonym list"),
        (ONE + b"\0", NotCanonical, "bytes after the end of a synonym list"),
        (bytes(8) + b"\0", NotCanonical, "bytes after the end of a synonym list"),
        (ONE[:-1], Truncated, "."),
        (struct.pack("<Q", 2) + ONE[8:], NotCanonical, "number of synonyms"),
        (struct.pack("<Q", 2**32 + 1) + ONE[8:], NotCanonical, "number of synonyms"),
        (struct.pack("<Q", TOP) + ONE[8:], NotCanonical, "number of synonyms"),
        (struct.pack("<Q", 2) + bucket(1, DOC0) + bucket(1, DOC0), NotCanonical, "synonym of a term"),
        (struct.pack("<Q", 2) + bucket(1, DOC0) + bucket(0, DOC0), NotCanonical, "synonym of a term"),
        (struct.pack("<Q", 1) + bucket(1, EMPTY), NotCanonical, "documents of a synonym"),
        (roaring64({1: [5000]}), NotCanonical, "document of a synonym"),
        (roaring64({1: [2**32 - 1]}), NotCanonical, "document of a synonym"),
        (roaring64({1: [0], 2: [0]}), NotCanonical, "synonym of a term"),  # without a name
        (roaring64({0: [0]}), NotCanonical, "synonym of a term"),
        (struct.pack("<Q", 1) + bucket(1, b"\x3a\x31" + DOC0[2:]), DecodeError, "roaring cookie"),
        (struct.pack("<Q", 1) + bucket(1, DOC0[:4] + b"\xff\xff\xff\xff" + DOC0[8:]), DecodeError, "."),
        (struct.pack("<Q", 1) + bucket(1, DOC0[:12] + b"\x99" + DOC0[13:]), DecodeError, "offset"),
        (struct.pack("<Q", 2) + bucket(1, DOC0) + bucket(2, DOC0[:-3]), Truncated, "."),
        (struct.pack("<Q", 3) + bucket(1, BitMap([0, 1, 2, 3]).serialize() + bytes(20)), DecodeError, "."),
    ],
)
def test_lists_refused(listed: bytes, kind: type[DecodeError], what: str) -> None:
    for term, others in ((b"b", {}), (b"b", {b"a": ONE}), (b"b", {b"c": ONE, b"a": ONE})):
        raw, at = lay(17, {term: listed, **others}, NAMES)
        with pytest.raises(kind, match=what) as caught:
            decode(raw, at, num_docs=5000)
        assert len(FRONT) <= (caught.value.offset or 0) < len(FRONT + raw)
        assert caught.value.source == "crafted"


@pytest.mark.parametrize(
    ("names", "kind", "what"),
    [
        (uv(1), Truncated, "synonyms"),
        (uv(0, 0), NotCanonical, "synonym of a term"),
        (uv(0, 1, 0), NotCanonical, "bytes of the synonyms"),
        (uv(TOP, 3, 1, 1, 115), Truncated, "synonyms"),
        (uv(2, 3, 1, 1, 115), Truncated, "synonyms"),
        (uv(1, TOP, 1, 1, 115), Truncated, "synonyms"),
        (uv(1, 100, 1, 1, 115), Truncated, "synonyms"),
        (uv(1, 2, 1, 1, 115), Truncated, "synonym"),
        (uv(1, 4, 1, 1, 115, 0), NotCanonical, "bytes of the synonyms"),
        (uv(1, 3, 1, 2, 115), Truncated, "synonym"),
        (uv(1, 12, 1, TOP, 115), Truncated, "synonym"),
        (uv(1, 7, 2**32, 1, 115), NotCanonical, "id of a synonym"),
        (uv(2, 6, 1, 1, 115, 1, 1, 116), NotCanonical, "ids of the synonyms"),
        (uv(1, 3, 2, 1, 115), NotCanonical, "synonym of a term"),
        (uv(1, 14) + b"\x80" * 10 + uv(1, 1, 115) + b"\0", NotCanonical, "id of a synonym"),
    ],
)
def test_names_refused(names: bytes, kind: type[DecodeError], what: str) -> None:
    raw, at = lay(17, {b"t": ONE}, names)
    with pytest.raises(kind, match=what) as caught:
        decode(raw, at, num_docs=5000)
    assert len(FRONT) <= (caught.value.offset or 0) < len(FRONT + raw)


def test_no_room_for_names() -> None:
    """Terms at the very end, in version 17: there has to be a number at least."""
    terms = build([], np.zeros(0, np.uint64))
    raw = uv(NOT, NOT, len(FRONT) + 21) + uv(len(terms)) + terms
    with pytest.raises(Truncated, match="synonyms"):
        decode(raw, len(FRONT))
    assert len(decode(raw, len(FRONT), version=16)) == 0


@pytest.mark.parametrize(
    ("section", "kind", "what"),
    [
        (uv(NOT), Truncated, "start of a synonym section"),
        (uv(NOT, 0, 0), NotCanonical, "start of a synonym section"),
        (uv(5, NOT, 0), NotCanonical, "start of a synonym section"),
        (uv(NOT, NOT), Truncated, "address of a thesaurus"),
        (uv(NOT, NOT, 1000), Truncated, "thesaurus"),
        (uv(NOT, NOT, TOP), Truncated, "thesaurus"),
        (uv(NOT, NOT, 0), DecodeError, "."),
    ],
)
def test_sections_refused(section: bytes, kind: type[DecodeError], what: str) -> None:
    with pytest.raises(kind, match=what):
        decode(bytes(30) + section, len(FRONT) + 30)


def test_terms_refused() -> None:
    for size in (0, 5, 1000, TOP):
        with pytest.raises(DecodeError):
            decode(uv(size) + bytes(40) + uv(NOT, NOT, len(FRONT)), len(FRONT) + len(uv(size)) + 40)


@pytest.mark.parametrize("address", [TOP, 2**63, 10_000])
def test_addresses_refused(address: int) -> None:
    raw, at = lay(17, {b"a": ONE}, NAMES, addresses={b"b": address})
    with pytest.raises(NotCanonical, match="address of a synonym list"):
        decode(raw, at)


@pytest.mark.parametrize("shift", [0, 1, 9])
def test_lists_that_share_bytes(shift: int) -> None:
    raw, at = lay(17, {b"a": ONE, b"b": ONE}, NAMES, addresses={b"c": len(FRONT) + shift})
    with pytest.raises(DecodeError, match="synonym list" if shift != 9 else "."):
        decode(raw, at)


def test_lists_in_any_order() -> None:
    """Nothing says that the lists stand in the order of the terms."""
    book: Book = {b"a": {1: [0]}, b"b": {1: [7, 9]}}
    first, second = (uv(len(data)) + data for data in (roaring64(book[b"b"]), roaring64(book[b"a"])))
    terms = build([b"a", b"b"], np.array([len(FRONT) + len(first), len(FRONT)], np.uint64))
    raw = first + second
    address = len(FRONT) + len(raw)
    raw += uv(len(terms)) + terms + NAMES
    found = decode(raw + uv(NOT, NOT, address), len(FRONT) + len(raw))
    assert plain(found) == plain(thesaurus_of(book, {1: b"s"}))


def test_limits() -> None:
    """Few bytes stand for many members where bitmaps have runs."""
    runs = BitMap(range(60_000))
    runs.run_optimize()
    listed = struct.pack("<Q", 50) + b"".join(bucket(number, runs.serialize()) for number in range(50))
    names = names_of(17, dict.fromkeys(range(50), b"x"))
    raw, at = lay(17, {b"t": listed}, names)
    assert len(decode(raw, at, limits=Limits(max_blob_bytes=50 * 60_000 * 16)).docs) == 50 * 60_000
    with pytest.raises(LimitExceeded, match="max_blob_bytes"):
        decode(raw, at, limits=Limits(max_blob_bytes=50 * 60_000 * 16 - 1))


def test_descriptors_are_not_believed() -> None:
    """Every bitmap of a list claims as many containers as the list has room for; nothing is made of that."""
    claim = struct.pack("<III", 1, 12346, 60_000)
    listed = struct.pack("<Q", 40_000) + claim * 40_000
    raw, at = lay(17, {b"t": listed}, NAMES)
    with pytest.raises(DecodeError):
        decode(raw, at)


BOOK: Book = {
    b"big": {0: [0], 1: [0], 130: [1, 300]},
    b"bigger": {1: [2], 2: [2]},
    b"small": {130: list(range(5))},
    b"": {7: [3]},
}
BOOK_NAMES = {0: b"large", 1: b"huge", 2: "größer".encode(), 7: b"", 130: b"vast"}


@pytest.mark.parametrize("version", [16, 17])
def test_damage(version: int) -> None:
    raw, at = encode_thesaurus(version, thesaurus_of(BOOK, BOOK_NAMES), len(FRONT))
    foot = footer(version, 400)
    info = FieldInfo(1, "book", synonyms=at)

    def again(found: Thesaurus) -> Thesaurus:
        data, place = encode_thesaurus(version, found, len(FRONT))
        return decode(data, place, version)

    survives(lambda bad: decode_thesaurus(segment(bad), foot, info), again, FRONT + raw, len(FRONT), len(FRONT + raw))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: {"counts": t.counts[1:]}, "a count for every term"),
        (lambda t: {"ids": t.ids[1:]}, "an id for every synonym"),
        (lambda t: {"counts": t.counts + 1}, "as many members"),
        (lambda t: {"docs": t.docs[1:]}, "as many members"),
        (lambda t: {"ids": t.ids[::-1]}, "ids of synonyms have to ascend"),
        (lambda t: {"ids": t.ids * 0 + 1}, "ids of synonyms have to ascend"),
        (lambda t: {"ids": t.ids - 1}, "ids of synonyms have to ascend"),
        (lambda t: {"ids": t.ids + 2**32}, "ids of synonyms have to ascend"),
        (lambda t: {"synonym_ids": t.synonym_ids + 3}, "without a name"),
        (lambda t: {"docs": t.docs - 1}, "documents of synonyms"),
        (lambda t: {"docs": t.docs + 2**32}, "documents of synonyms"),
        (lambda t: {"docs": t.docs * 0}, "members of a term have to ascend"),
        (lambda t: {"synonym_ids": t.synonym_ids[::-1]}, "members of a term have to ascend"),
        (lambda t: {"terms": t.terms[::-1]}, "."),
    ],
)
def test_thesauri_that_cannot_be_written(change: Callable[[Thesaurus], dict[str, object]], match: str) -> None:
    good = thesaurus_of(BOOK, BOOK_NAMES)
    parts = {name: getattr(good, name) for name in Thesaurus.__slots__} | change(good)
    with pytest.raises(UsageError, match=match):
        encode_thesaurus(17, Thesaurus(**parts), 0)


@pytest.mark.parametrize("version", [11, 15])
def test_older_versions_have_none(version: int) -> None:
    with pytest.raises(UsageError, match="has no synonyms"):
        encode_thesaurus(version, thesaurus_of(BOOK, BOOK_NAMES), 0)

"""Damaged segments: whatever the bytes are, they end in values or a `DecodeError`, soon and in little memory."""

from __future__ import annotations

import io
import random
import signal
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cramjam
import pytest

import amounts
from battery import run_limited
from cases import each
from dvcodec import DecodeError, UsageError
from dvcodec.core.errors import BadMagic, ChecksumMismatch, LimitExceeded, Truncated
from dvcodec.core.limits import Limits
from dvcodec.zap import Segment, merge_segments, verify_segment
from dvcodec.zap.columns import SCHEMAS
from samples.bitmaps import bitmap, runs, vector64
from samples.zap.segments import NOT, VERSIONS, SegmentBuilder, chunked, docs_of, minimal, sealed, uv

MUTANTS = amounts.of(40, 400)
"""Random damages to each file."""
FLIPS = (1, 1, 1, 2, 4, 8, 32)
"""Bits that are flipped in one file."""
PATIENCE = 600
"""Seconds that nothing here comes near to; a hang ends then."""
FOOTER = dict.fromkeys(VERSIONS, 44) | {16: 52, 17: 40}
FILES = [f"v{version}/tiny" for version in VERSIONS]
FILES += [f"v{version}/nofreqloc" for version in (15, 16, 17)]
FILES += [f"v{version}/syn" for version in (16, 17)]


class Hang(BaseException):
    """Nothing catches it."""


@contextmanager
def patience() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def everything(segment: Segment) -> Iterator[Callable[[], object]]:
    """Every way to read every part of a segment."""
    for table in SCHEMAS:
        yield lambda table=table: list(segment.to_arrow(table))  # type: ignore[misc]
    for info in segment.fields:
        for read in (
            lambda name: [segment.postings(name, term) for term, _ in [*segment.terms(name)][:3]],
            lambda name: list(segment.doc_values(name)),
            segment.thesaurus,
            segment.vectors,
        ):
            yield lambda name=info.name, read=read: read(name)  # type: ignore[misc]
    yield lambda: segment.edges
    for doc in {0, segment.num_docs - 1} & set(range(segment.num_docs)):
        yield lambda doc=doc: segment.stored(doc)  # type: ignore[misc]


def read_all(segment: Segment) -> int:
    """Read every part of a segment; return how many parts are valid."""
    valid = 0
    for read in everything(segment):
        try:
            read()
            valid += 1
        except DecodeError as error:
            assert str(error)
    return valid


def attack(raw: bytes, *, thorough: bool = True) -> int:
    """Verify damaged bytes, and read all of them in every way; return how many parts were valid, -1 for none at all."""
    with patience(), warnings.catch_warnings():
        warnings.simplefilter("error")
        report = verify_segment(raw)
        report.to_dict()
        try:
            with Segment.open(raw, verify_checksum=False) as segment:
                return read_all(segment) if thorough else 0
        except DecodeError as error:
            assert str(error)
            assert not report.ok
            return -1


@pytest.fixture(params=FILES)
def raw(request: pytest.FixtureRequest, vectors: Path) -> bytes:
    return (vectors / "zap" / f"{request.param}.zap").read_bytes()


def version_of(raw: bytes) -> int:
    return int.from_bytes(raw[-8:-4], "big")


def test_every_part_of_a_valid_segment_is_valid(raw: bytes) -> None:
    with Segment.open(raw) as segment:
        assert read_all(segment) == len(list(everything(segment)))
    assert verify_segment(raw).ok


# ------------------------------------------------------------------ truncations


def test_a_truncated_file_is_not_opened(raw: bytes) -> None:
    for size in range(len(raw)):
        with pytest.raises(DecodeError) as caught:
            Segment.open(raw[:size], verify_checksum=False)
        assert size > 11 or type(caught.value) is Truncated
    assert attack(raw[:-1]) == -1


def test_a_file_cut_in_front_of_its_footer_is_not_opened(raw: bytes) -> None:
    size = FOOTER[version_of(raw)]
    body, footer = raw[:-size], raw[-size:]
    with Segment.open(raw) as segment:
        names = [info.name for info in segment.fields]
    for end in range(len(body)):
        data = sealed(body[:end] + footer[:-4])
        with patience():
            try:
                found = Segment.open(data)
            except DecodeError as error:
                assert not isinstance(error, BadMagic), "the footer was read"
                continue
        # Up to version 15 the number of fields follows from the room for their addresses alone.
        lost, rest = divmod(len(body) - end, 8)
        assert (version_of(raw) < 16, rest) == (True, 0)
        assert [info.name for info in found.fields] == names[:-lost]
        attack(data)


def without(raw: bytes, start: int, stop: int, size: int) -> bytes:
    """The file without some bytes; the addresses in its footer move along."""
    footer = bytearray(raw[-size:])
    for at in range(8, size - 12, 8):
        address = int.from_bytes(footer[at : at + 8], "big")
        if stop <= address < 2**64 - 1:
            footer[at : at + 8] = (address - (stop - start)).to_bytes(8, "big")
    return raw[:start] + raw[stop:-size] + footer


def test_bytes_that_are_missing_in_the_middle_are_noticed_or_harmless(raw: bytes) -> None:
    size = FOOTER[version_of(raw)]
    dice = random.Random(1)
    for _ in range(10):
        start = dice.randrange(len(raw) - size - 20)
        attack(without(raw, start, start + dice.choice((1, 1, 2, 8, 20)), size))


# ------------------------------------------------------------------ random damage


def flipped(raw: bytes, dice: random.Random) -> bytes:
    """One bit flipped, sometimes a few; or bytes replaced by those that hurt."""
    out = bytearray(raw)
    for _ in range(dice.choice(FLIPS)):
        at = dice.randrange(len(out))
        out[at] ^= 1 << dice.randrange(8)
    if dice.random() < 0.2:
        at, size = dice.randrange(len(out) - 12), dice.randrange(1, 11)
        out[at : at + size] = dice.choice((b"\xff", b"\x80", b"\x00", b"\x7f")) * size
    return bytes(out)


def test_flipped_bits_end_in_values_or_decode_errors(raw: bytes, request: pytest.FixtureRequest) -> None:
    """Some 10,000 flips in all."""
    dice = random.Random(request.node.name)
    opened = 0
    for i in range(MUTANTS):
        opened += attack(flipped(raw, dice), thorough=i % 8 == 0) >= 0
    assert opened > MUTANTS // 4, "most damage is behind the fields"


def test_what_is_merged_of_damage_is_valid(raw: bytes, request: pytest.FixtureRequest) -> None:
    dice = random.Random(request.node.name)
    for _ in range(10):
        sink = io.BytesIO()
        with patience():
            try:
                segment = Segment.open(flipped(raw, dice), verify_checksum=False)
                merge_segments(sink, [segment, segment], None, version_of(raw))
            except (DecodeError, UsageError):
                continue
            found = {check.name for check in verify_segment(sink.getvalue()).findings}
        assert found <= {"ids"}, "a document may have lost its id"


def test_flipped_bits_break_the_checksum(raw: bytes) -> None:
    dice = random.Random(2)
    for _ in range(100):
        at = dice.randrange(len(raw) - 12)
        bad = raw[:at] + bytes([raw[at] ^ 1 << dice.randrange(8)]) + raw[at + 1 :]
        with pytest.raises(DecodeError) as caught:
            Segment.open(bad)
        assert isinstance(caught.value, ChecksumMismatch) or at > len(raw) - FOOTER[version_of(raw)]


def test_a_damaged_file_takes_little_memory(vectors: Path) -> None:
    printed = run_limited(
        f"""
        import random
        from zap.test_hostile import attack, flipped
        files = [Path({str(vectors / "zap")!r}, f"v{{version}}", "tiny.zap").read_bytes() for version in range(11, 18)]
        dice = random.Random(3)
        for raw in files:
            attack(raw)
        cap()
        for raw in files:
            for _ in range({amounts.of(4, 12)}):
                attack(flipped(raw, dice))
        print("done")
        """,
        megabytes=200,
    )
    assert printed.strip() == "done"


# ------------------------------------------------------------------ much of little


def shared(version: int, build: Callable[[SegmentBuilder], int], *, docs: int = 1, mode: int | None = None) -> bytes:
    """5000 terms with one and the same list."""
    craft = minimal(version, docs)
    craft.chunk_mode = mode
    at = build(craft)
    craft.field("bomb", craft.dictionary({b"%06d" % i: at for i in range(5000)}))
    return craft.finish()


def many_chunks() -> bytes:
    """A chunk for every document, in every list."""

    def build(craft: SegmentBuilder) -> int:
        empty = [b""] * 4999
        return craft.postings([0], chunked([uv(2, 1), *empty]), chunked([b"", *empty]))

    return shared(11, build, docs=5000, mode=1)


def many_locations() -> bytes:
    """All lists have the same locations."""
    entry = uv(0, 1, 1, 1, 0) * 40_000

    def build(craft: SegmentBuilder) -> int:
        return craft.postings([0], chunked([uv(80_001, 1)]), chunked([uv(len(entry)) + entry]))

    return shared(15, build)


def many_containers() -> bytes:
    """All lists have the same 65,536 containers."""
    bitmap = docs_of(key << 16 for key in range(1 << 16))
    return shared(15, lambda craft: craft.postings(bitmap, b"\0"))


def many_documents() -> bytes:
    """All lists have the same 20,000 documents."""
    chunks = [uv(0) * min(1024, 20_000 - start) for start in range(0, 20_000, 1024)]
    one_run = bitmap(runs(0, [(0, 20_000)]))
    return shared(15, lambda craft: craft.postings(one_run, chunked(chunks)), docs=20_000, mode=1025)


def long_names() -> bytes:
    """Field records in each other: every name is all the records behind its own."""
    craft = minimal(15)
    # No dictionary, and a size of 2 MB whose bytes are characters of UTF-8.
    record = uv(0, 1 << 21 | 0x61)
    assert record == b"\0\xe1\x80\x80\x01"
    own = len(craft.records[0])
    craft.records.append(record * 20_000 + b"x" * (1 << 22))
    craft.blocks = [None] * 20_001
    first = len(craft.out) + 20 * len(craft.blocks)
    return craft.finish(addresses=[first, *(first + own + len(record) * i for i in range(20_000))])


def equal_names() -> bytes:
    """So many fields that comparing each with each is felt; the last two are called the same."""
    craft = minimal(17)
    for i in [*range(20_000), 19_999]:
        craft.field(str(i), sections=[])
    return craft.finish()


def transducer(craft: SegmentBuilder, keys: int, levels: int) -> int:
    """A dictionary of 2**levels keys of one value, in 6 bytes a level; `keys` stands in its footer."""
    states = bytearray(struct.pack("<2Q", 1, 0))
    below = 0
    for _ in range(levels):
        delta = len(states) - below if below else 0
        states += bytes([delta, delta]) + b"ba" + bytes([0x10, 2])
        below = len(states) - 1
    blob = bytes(states) + struct.pack("<2Q", keys, below)
    return craft.put(uv(len(blob)) + blob)


def with_dictionary(build: Callable[[SegmentBuilder], int], version: int = 15, docs: int = 1) -> bytes:
    craft = minimal(version, docs)
    craft.field("bomb", build(craft))
    return craft.finish()


def with_list(version: int = 15, **what: Any) -> bytes:
    return with_dictionary(lambda craft: craft.dictionary({b"x": craft.postings([0], **what)}), version)


def with_doc_values(content: bytes, size: int, count: int) -> bytes:
    craft = minimal(15)
    start = craft.put(content + struct.pack(">2Q", size, count))
    craft.field("bomb", block=(start, len(craft.out)))
    return craft.finish()


def with_section(version: int, kind: int, build: Callable[[SegmentBuilder], bytes]) -> bytes:
    craft = minimal(version)
    head = build(craft)
    craft.field("bomb", sections=[(kind, craft.put(uv(NOT, NOT) + head))])
    return craft.finish()


def with_synonyms(version: int, tail: bytes) -> bytes:
    def build(craft: SegmentBuilder) -> bytes:
        members = vector64((0, docs_of([0])))
        at = craft.dictionary({b"x": craft.put(uv(len(members)) + members)})
        craft.put(tail)
        return uv(at)

    return with_section(version, 2, build)


def with_stored(meta: bytes, data: bytes) -> bytes:
    craft = SegmentBuilder(15)
    craft.put(uv(len(meta), len(data)) + meta + data)
    craft.docs, craft.stored = 1, craft.put(bytes(8))
    craft.field("_id", craft.dictionary({b"0": craft.postings([0])}))
    return craft.finish()


HUGE = 1 << 62
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "shared chunks": (many_chunks, "postings"),
    "shared locations": (many_locations, "postings"),
    "shared containers": (many_containers, "postings"),
    "shared documents": (many_documents, "postings"),
    "shared names": (long_names, "fields"),
    "equal names": (equal_names, "fields"),
    "keys by the thousand million": (
        lambda: with_dictionary(lambda craft: transducer(craft, 1 << 40, 40)),
        "dictionary",
    ),
    "more keys than stated": (lambda: with_dictionary(lambda craft: transducer(craft, 1000, 60)), "dictionary"),
    "far fewer keys than stated": (lambda: with_dictionary(lambda craft: transducer(craft, 1 << 28, 3)), "dictionary"),
    "chunks": (lambda: with_list(freqs=uv(HUGE) + uv(1) * 100), "postings"),
    "chunks of locations": (lambda: with_list(freqs=chunked([uv(3, 1)]), places=uv(HUGE)), "postings"),
    "end of a chunk": (lambda: with_list(freqs=uv(1, HUGE)), "postings"),
    "bytes of locations": (
        lambda: with_list(freqs=chunked([uv(3, 1)]), places=chunked([uv(HUGE, 0, 1, 1, 1, 0)])),
        "postings",
    ),
    "array positions": (
        lambda: with_list(freqs=chunked([uv(3, 1)]), places=chunked([uv(14, 0, 1, 1, 1, HUGE)])),
        "postings",
    ),
    "frequency": (
        lambda: with_list(freqs=chunked([uv(NOT, 1)]), places=chunked([uv(5, 0, 1, 1, 1, 0)]), version=11),
        "",
    ),
    "containers": (lambda: with_list(11, size=HUGE), "postings"),
    "chunks of doc values": (lambda: with_doc_values(b"\0\0\2", 1, HUGE), "doc-values"),
    "ends of doc values": (lambda: with_doc_values(b"\0\0\2", HUGE, 1), "doc-values"),
    "documents of doc values": (lambda: with_doc_values(uv(1 << 40, 0, 0, 9), 1, 1), "doc-values"),
    "snappy in doc values": (lambda: with_doc_values(uv(1, 0, 1 << 31, 1 << 31, 12), 1, 1), "doc-values"),
    "snappy in stored values": (lambda: with_stored(uv(1), b"0" + uv(1 << 31) + b"\0"), "stored"),
    "bytes of an id": (lambda: with_stored(uv(HUGE), b"0\0"), "stored"),
    "length of a value": (lambda: with_stored(uv(1, 1, 116, 0, HUGE, 0), b"0\0"), "stored"),
    "array positions of a value": (lambda: with_stored(uv(1, 1, 116, 0, 0, HUGE), b"0\0"), "stored"),
    "vectors of 16": (lambda: with_section(16, 1, lambda _: uv(0, HUGE)), "vectors"),
    "vectors of 17": (lambda: with_section(17, 1, lambda _: uv(0, HUGE, 0)), "vectors"),
    "faiss": (lambda: with_section(17, 1, lambda _: uv(0, 0, 0, 0, HUGE)), "vectors"),
    "names of synonyms of 16": (lambda: with_synonyms(16, uv(HUGE)), "synonyms"),
    "names of synonyms of 17": (lambda: with_synonyms(17, uv(HUGE, 0)), "synonyms"),
    "bytes of a synonym": (lambda: with_synonyms(17, uv(1, 0, 0, HUGE)), "synonyms"),
}


def test_little_does_not_ask_for_much() -> None:
    printed = run_limited(
        """
        from zap.test_hostile import BOMBS, attack, patience, verify_segment
        bombs = {name: make() for name, (make, _) in BOMBS.items()}
        cap()
        for name, raw in bombs.items():
            attack(raw)
            with patience():
                print(name, *({check.name for check in verify_segment(raw).findings} - {"ids"}), sep=";")
        """,
        megabytes=200,
    )
    found = [line.split(";") for line in printed.splitlines()]
    assert found == [[name, finding] if finding else [name] for name, (_, finding) in BOMBS.items()]


@each("version", VERSIONS)
def test_more_documents_than_there_is_room_for_are_refused(version: int) -> None:
    craft = minimal(version)
    room = len(craft.finish()) - FOOTER[version]
    for docs in (room // 8 + 1, 2**32, 2**32 + 1, 2**61, 2**64 - 1):
        with pytest.raises(DecodeError, match=r"stored index|number of documents"):
            Segment.open(craft.finish(docs=docs, stored=0))
    assert attack(craft.finish(docs=room // 8, stored=0)) >= 0


@pytest.mark.parametrize("table", ["stored", "doc_values"])
def test_what_is_decompressed_is_limited(table: str) -> None:
    craft = SegmentBuilder(15)
    content = b"x" * 99_999 + b"\xff"
    block = bytes(cramjam.snappy.compress_raw(content))
    meta = uv(1, 1, 116, 0, 100, 0)
    craft.put(uv(len(meta), len(block) + 1) + meta + b"0" + block)
    craft.docs, craft.stored = 1, craft.put(bytes(8))
    craft.ids()
    chunk = uv(1, 0, len(content)) + block
    start = craft.put(chunk + uv(len(chunk)) + struct.pack(">2Q", len(uv(len(chunk))), 1))
    craft.field("f", block=(start, len(craft.out)))
    raw = craft.finish()
    with Segment.open(raw) as segment:
        assert sum(batch.num_rows for batch in segment.to_arrow(table)) == {"stored": 2, "doc_values": 1}[table]
    with (
        Segment.open(raw, limits=Limits(max_blob_bytes=99_999)) as segment,
        pytest.raises(LimitExceeded, match="max_blob_bytes"),
    ):
        list(segment.to_arrow(table))

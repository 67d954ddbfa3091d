"""zap: each part of a segment by itself, all of it at once, and what a merge makes of it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from dvcodec import DecodeError, zap
from dvcodec.core.cursor import Cursor
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap import segment as _columns  # noqa: F401  (imported when asked for; the fuzzer is to see into it)
from dvcodec.zap.vellum import Fst, build
from fuzz import mend
from fuzz.seeds import files
from fuzz.target import LIMITS, MANY, Target, must

_TABLES = ("terms", "postings", "locations", "stored", "doc_values", "fields")


def _open(data: bytes) -> zap.Segment:
    return zap.Segment.open(data, verify_checksum=False, limits=LIMITS)


def _of_every_field(read: Callable[[zap.Segment, str], None]) -> Callable[[bytes], object]:
    """Read a part of every field; what is wrong with one does not hide the next."""

    def run(data: bytes) -> None:
        segment = _open(data)
        failed: DecodeError | None = None
        for info in segment.fields[:16]:
            try:
                read(segment, info.name)
            except DecodeError as error:
                failed = error
        if failed is not None:
            raise failed

    return run


def _lists(segment: zap.Segment, name: str) -> None:
    last = b""
    for number, (terms, found) in enumerate(islice(segment.lists(name, locations=True), 64)):
        keys = terms.to_list()
        assert keys == sorted(set(keys))
        assert not keys or number == 0 or keys[0] > last
        last = keys[-1] if keys else last
        assert int(found.counts.sum()) == len(found.docs) == len(found.freqs) == len(found.norms)
        assert ((found.docs >= 0) & (found.docs < segment.num_docs)).all()
        if keys and len(found.docs) <= MANY:
            one = must(segment.postings, name, keys[0])
            assert one is not None
            assert np.array_equal(one.docs, found.docs[: int(found.counts[0])])


def _run_stored(data: bytes) -> None:
    segment = _open(data)
    failed: DecodeError | None = None
    for doc in range(min(segment.num_docs, 32)):
        try:
            values = segment.stored(doc)
            assert values[0].field == "_id"
        except DecodeError as error:
            failed = error
    found = 0
    for batch in segment.to_arrow("stored"):
        found += batch.num_rows
    assert failed is None, "one document is refused, all of them are not"
    assert found >= segment.num_docs


def _doc_values(segment: zap.Segment, name: str) -> None:
    docs = []
    for doc, terms in islice(segment.doc_values(name), MANY):
        docs.append(doc)
        assert not any(b"\xff" in term for term in terms)
    assert docs == sorted(set(docs))
    if docs:
        assert must(lambda: list(segment.doc_values(name, docs[-1:])))[0][0] == docs[-1]


def _run_vellum(data: bytes) -> None:
    fst = Fst.open(Cursor(data), LIMITS)
    pairs = list(fst.range())
    keys = [key for key, _ in pairs]
    assert keys == sorted(set(keys))
    assert len(keys) == fst.num_keys
    block = must(fst.to_block)
    assert block.keys.to_list() == keys
    assert block.values.tolist() == [value for _, value in pairs]
    for key, value in pairs[:16]:
        assert fst.get(key) == value
    assert fst.get(b"\xff" * 9) is None or b"\xff" * 9 in keys
    if pairs:
        middle = keys[len(keys) // 2]
        assert [key for key, _ in fst.range(middle)] == keys[len(keys) // 2 :]
        assert [key for key, _ in fst.prefix(middle[:1])] == [key for key in keys if key[:1] == middle[:1]]
    again = must(Fst.open, Cursor(build(ByteStrings.from_list(keys), block.values)))
    assert list(again.range()) == pairs


def _dictionaries() -> Iterator[bytes]:
    for keys in (
        [],
        [b""],
        [b"", b"a"],
        [b"mon", b"thurs", b"tues", b"tye"],
        [b"a" * n for n in range(1, 30)],
        [f"{i:04}".encode() for i in range(300)],
        [bytes([i]) for i in range(256)],
        [b"station", b"commotion", b"elation", b"elastic", b"plastic"],
    ):
        ordered = sorted(keys)
        for step in (0, 1, 1 << 40):
            yield build(ByteStrings.from_list(ordered), np.arange(len(ordered), dtype=np.uint64) * np.uint64(step))


def _run_segment(data: bytes) -> None:
    """What is found valid can be read, all of it."""
    report = zap.verify_segment(data, limits=LIMITS)
    if any(check.name != "crc" for check in report.findings):
        _attempt(data)
        return
    segment = must(_open, data)
    for table in _TABLES:
        must(lambda table=table: sum(batch.num_rows for batch in segment.to_arrow(table)))
    for info in segment.fields:
        must(segment.thesaurus, info.name)
        must(segment.vectors, info.name)


def _attempt(data: bytes) -> None:
    segment = _open(data)
    for table in _TABLES:
        for _ in segment.to_arrow(table):
            pass


def _run_merge(data: bytes) -> None:
    """A valid segment, merged with itself, is a valid one."""
    if not zap.verify_segment(mend.segment(data), limits=LIMITS).ok:
        raise DecodeError("segment")
    segment = must(zap.Segment.open, mend.segment(data), limits=LIMITS)
    options = segment.fields[0].options if segment.fields else None
    if options is not None and not options & zap.FieldOptions.INDEXED:
        raise DecodeError("ids that are not indexed: a merge leaves their terms out, as zapx does")
    out = io.BytesIO()
    zap.merge_segments(out, [segment, segment], None, segment.version)
    again = zap.verify_segment(out.getvalue())
    assert again.ok, again.findings
    assert must(zap.Segment.open, out.getvalue()).num_docs == 2 * segment.num_docs


def segments() -> Iterator[bytes]:
    for version in zap.VERSIONS:
        out = io.BytesIO()
        text = zap.text_field("t", "one two two three")
        documents = [zap.Document(b"a", (text, zap.number_field("n", 3))), zap.Document(b"b", (text,))]
        zap.write_segment(out, documents, version=version)
        yield out.getvalue()
        yield from files(f"zap/zapx-{version}*/*.zap", f"zap/v{version}/*.zap", most=1800, count=6)


def small_segments() -> Iterator[bytes]:
    """Some, for targets that do much with each."""
    return (data for i, data in enumerate(segments()) if len(data) < 1000 and i % 2)


def _part(name: str, about: str, run: Callable[[bytes], object]) -> Target:
    return Target(name, about, run, segments, mend.segment, max_len=4096, keeps_size=True)


TARGETS = (
    Target(
        "zap-segment",
        "a whole segment: verified, then read as Arrow",
        _run_segment,
        small_segments,
        mend.segment,
        keeps_size=True,
    ),
    _part("zap-postings", "dictionaries, postings and locations", _of_every_field(_lists)),
    _part("zap-stored", "stored documents", _run_stored),
    _part("zap-doc-values", "doc values", _of_every_field(_doc_values)),
    Target("vellum", "an FST: enumerated three ways, built again", _run_vellum, _dictionaries, keeps_size=True),
    Target("zap-merge", "a valid segment, merged with itself", _run_merge, small_segments, keeps_size=True),
)

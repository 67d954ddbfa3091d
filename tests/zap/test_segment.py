"""An opened segment: what it gives, where it may come from, and how little of it is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cases import each
from dvcodec import UsageError
from dvcodec.zap import Document, Field, FieldOptions, Segment, Term
from dvcodec.zap.segment import find_stored
from samples.zap.documents import written
from samples.zap.segments import VERSIONS, SegmentBuilder, chunked, norm, uv

BLOCK = 1 << 16
"""What is read at once from far away."""


class Counting:
    """A source that counts what it gives."""

    name = "counted"

    def __init__(self, raw: bytes) -> None:
        self.raw, self.size, self.taken, self.reads = raw, len(raw), 0, 0

    def read(self, offset: int, size: int) -> memoryview:
        assert 0 <= offset <= offset + size <= self.size
        self.taken += size
        self.reads += 1
        return memoryview(self.raw)[offset : offset + size]


# ------------------------------------------------------------------ what it gives


@each("ask", ["field", "terms", "postings", "doc_values", "thesaurus", "vectors"])
def test_unknown_fields(ask: str) -> None:
    with Segment.open(written(17)) as segment, pytest.raises(UsageError, match="has no field 'nowhere': it has _id"):
        list(getattr(segment, ask)(*["nowhere", "x"][: 1 + (ask == "postings")]))


# ------------------------------------------------------------------ a few at a time


@each(
    ("asked", "numbers"),
    [
        ({"prefix": b"a"}, range(10)),
        ({"prefix": b"a", "start": b"a3"}, range(3, 10)),
        ({"prefix": b"a", "stop": b"a3"}, range(3)),
        ({"prefix": b"a7"}, [7]),
        ({"prefix": b"a", "start": b"a2", "stop": b"a5"}, range(2, 5)),
        ({"start": b"a4"}, range(4, 20)),
        ({"stop": b"a4"}, range(4)),
        ({"start": b"a4", "stop": b"b6"}, range(4, 16)),
        ({"start": b"a40", "stop": b"a5"}, []),
        ({"start": b"b", "stop": b"a"}, []),
        ({"prefix": b"c"}, []),
        ({"stop": b""}, []),
    ],
)
def test_a_range_of_the_terms(asked: dict[str, bytes], numbers: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is not in it; few are read at a time."""
    monkeypatch.setattr("dvcodec.zap.segment._FEW_TERMS", 3)
    names = [b"a%d" % i for i in range(10)] + [b"b%d" % i for i in range(10)]
    with Segment.open(written(15, [Document(name) for name in names])) as segment:
        assert list(segment.terms("_id", **asked)) == [(names[i], 1) for i in numbers]


def many(version: int, count: int = 300) -> bytes:
    """Documents with a doc value each; in version 11 each in a chunk of its own."""
    options = FieldOptions.INDEXED | FieldOptions.STORED | FieldOptions.DOC_VALUES
    fields = [Field("f", b"v" * (i % 3), options=options, terms=(Term(b"t%d" % i),)) for i in range(count)]
    found = [Document(b"%d" % i, (field,)) for i, field in enumerate(fields)]
    return written(version, found, chunk_mode=1 if version == 11 else None)


@each("version", VERSIONS)
def test_documents_are_read_together(version: int) -> None:
    with Segment.open(many(version)) as segment:
        single = [segment.stored(doc) for doc in range(segment.num_docs)]
        assert list(find_stored(segment.contents, 0, 300)) == single
        assert list(find_stored(segment.contents, 7, 19)) == single[7:19]
        assert list(find_stored(segment.contents, 7, 7)) == []
        every = list(segment.doc_values("f"))
        assert list(segment.doc_values("f", [280, 7, 3, 7])) == [every[doc] for doc in (3, 7, 280)]


# ------------------------------------------------------------------ where it comes from


def test_segments_in_files(tmp_path: Path) -> None:
    path = tmp_path / "a b.zap"
    path.write_bytes(written(16))
    with path.open("rb") as file:
        for target, name in ((path, str(path)), (path.as_uri(), str(path)), (file, str(path))):
            with Segment.open(target) as segment:
                assert (segment.name, segment.stored(1)[0].value) == (name, b"b")


def test_what_was_read_outlives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.zap"
    path.write_bytes(written(15))
    segment = Segment.open(path)
    found = segment.postings("text", "one")
    values = segment.stored(0)
    (batch,) = segment.to_arrow("stored", ["text"], batch_rows=10)
    segment.close()
    segment.close()
    path.unlink()
    assert found is not None
    assert found.freqs.tolist() == [2]
    assert values[1].value == b"one two one"
    assert batch.column("value").to_pylist() == [b"one two one", b"two"]


# ------------------------------------------------------------------ how little is read


def large(version: int) -> SegmentBuilder:
    """A megabyte between all that is needed to open a segment."""
    craft = SegmentBuilder(version)
    craft.documents(40_000)
    craft.put(bytes(1 << 20))
    places = chunked([uv(5, 0, 1, 2, 3, 0)])
    one = craft.postings([7], chunked([uv(3, norm(version, 9))]), places)
    craft.put(bytes(1 << 20))
    craft.chunk_mode = 1025 if version > 11 else 2**20
    craft.field("_id", craft.dictionary({b"x": one}))
    craft.put(bytes(1 << 20))
    return craft


@pytest.mark.parametrize("version", [11, 15, 16, 17])
def test_little_is_read(version: int) -> None:
    source = Counting(large(version).finish())
    with Segment.open(source, verify_checksum=False) as segment:
        assert source.taken <= 2 * BLOCK, "the footer and the fields"
        source.taken = 0
        assert segment.dictionary("_id") is not None
        assert source.taken <= 2 * BLOCK
        found = segment.postings("_id", "x")
        assert found is not None
        assert found.docs.tolist() == [7]
        assert len(found.locations) == 1
        assert source.taken <= 4 * BLOCK
        source.taken = 0
        assert segment.stored(39_999)[0].value == b"39999"
        assert source.taken <= 3 * BLOCK
        assert source.taken < source.size // 10

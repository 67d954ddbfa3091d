"""An opened segment: what it gives, where it may come from, and how little of it is read."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from cases import each
from dvcodec import UsageError
from dvcodec.io.source import SourceTarget
from dvcodec.zap import Segment, StoredValue
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


@each("version", VERSIONS)
def test_a_segment_in_small(version: int) -> None:
    with Segment.open(written(version)) as segment:
        assert repr(segment) == f"<zap segment <bytes>: version {version}, 3 documents, 3 fields>"
        assert (segment.version, segment.num_docs, segment.footer.version) == (version, 3, version)
        assert [info.name for info in segment.fields] == ["_id", "plain", "text"]
        assert segment.field("text") is segment.fields[2]
        assert list(segment.terms("text")) == [(b"one", 1), (b"two", 2)]
        assert list(segment.terms("plain")) == []
        assert segment.stored(0) == (
            StoredValue("_id", "t", b"a", ()),
            StoredValue("text", "t", b"one two one", (0, 7)),
        )
        assert segment.stored(1)[1:] == (StoredValue("plain", "n", b"x", ()), StoredValue("text", "t", b"two", ()))
        assert segment.stored(2) == (StoredValue("_id", "t", b"c", ()),)
        assert list(segment.doc_values("text")) == [(0, (b"one", b"two")), (1, (b"two",))]
        assert list(segment.doc_values("plain")) == []
        assert len(segment.edges) == 0
        assert segment.edges is segment.edges
        assert segment.thesaurus("text") is None
        assert segment.vectors("text") is None


@each("ask", ["field", "terms", "postings", "doc_values", "thesaurus", "vectors"])
def test_unknown_fields(ask: str) -> None:
    with Segment.open(written(17)) as segment, pytest.raises(UsageError, match="has no field 'nowhere': it has _id"):
        list(getattr(segment, ask)(*["nowhere", "x"][: 1 + (ask == "postings")]))


@each("doc", [-1, 3, 2**40])
def test_unknown_documents(doc: int) -> None:
    with Segment.open(written(17)) as segment, pytest.raises(UsageError, match=f"0 to 2, not {doc}"):
        segment.stored(doc)


# ------------------------------------------------------------------ where it comes from


def check(target: SourceTarget, name: str) -> None:
    with Segment.open(target) as segment:
        assert segment.name == name
        assert list(segment.terms("text")) == [(b"one", 1), (b"two", 2)]
        assert segment.stored(1)[0].value == b"b"


def test_segments_in_files(tmp_path: Path) -> None:
    path = tmp_path / "a b.zap"
    path.write_bytes(written(16))
    check(path, str(path))
    check(str(path), str(path))
    check(path.as_uri(), str(path))
    with path.open("rb") as file:
        check(file, str(path))
    check(io.BytesIO(path.read_bytes()), "<file>")
    check(Counting(path.read_bytes()), "counted")


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

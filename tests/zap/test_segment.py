"""An opened segment: what it gives, where it may come from, and how little of it is read."""

from __future__ import annotations

import io
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from cases import each
from dvcodec import ChecksumMismatch, DecodeError, UsageError
from dvcodec.core.errors import LimitExceeded, Truncated
from dvcodec.core.limits import Limits
from dvcodec.io.source import SourceTarget
from dvcodec.zap import Document, Segment, StoredValue, Synonyms
from samples.zap.documents import written
from samples.zap.parts import Sample
from samples.zap.segments import NOT, VERSIONS, SegmentBuilder, chunked, minimal, norm, uv

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


def test_synonyms_and_edges() -> None:
    found = [
        Document(b"a", children=(Document(b"b"), Document(b"c"))),
        Document(b"d", synonyms=(Synonyms("s", ((b"x", (b"y", b"z")),)),)),
    ]
    with Segment.open(written(17, found)) as segment:
        assert (segment.edges.children.tolist(), segment.edges.parents.tolist()) == ([1, 2], [0, 0])
        thesaurus = segment.thesaurus("s")
        assert thesaurus is not None
        assert (list(thesaurus.terms), list(thesaurus.synonyms), thesaurus.docs.tolist()) == (
            [b"x"],
            [b"y", b"z"],
            [3, 3],
        )


def test_a_field_without_a_dictionary() -> None:
    craft = minimal(15)
    craft.field("bare")
    with Segment.open(craft.finish()) as segment:
        assert segment.dictionary("bare") is None
        assert list(segment.terms("bare")) == []
        assert segment.postings("bare", "x") is None
        assert segment.dictionary("_id") is not None


def test_unknown_fields_and_documents(samples: list[Sample]) -> None:
    for sample in samples:
        with Segment.open(sample.raw) as segment:
            for ask in (
                segment.field,
                segment.dictionary,
                segment.thesaurus,
                segment.vectors,
                lambda name: list(segment.terms(name)),
                lambda name: list(segment.doc_values(name)),
                lambda name: segment.postings(name, b"x"),
                lambda name: list(segment.to_arrow("terms", [name])),
            ):
                with pytest.raises(UsageError, match=r"has no field 'nowhere': it has _id"):
                    ask("nowhere")
            for doc in (-1, segment.num_docs, 2**40):
                with pytest.raises(UsageError, match=f"0 to {segment.num_docs - 1}, not {doc}"):
                    segment.stored(doc)


@each(
    ("ask", "message"),
    [
        (lambda segment: list(segment.terms("text", prefix="x")), "^prefix must be bytes, not str$"),
        (lambda segment: list(segment.terms("text", start=None)), "^start must be bytes, not None$"),
        (lambda segment: list(segment.terms("text", stop="q")), "^stop must be bytes or None, not str$"),
        (lambda segment: segment.postings("text", 5), "^term must be bytes or a str, not int$"),
        (lambda segment: segment.stored(1.5), "^a document number must be an integer, not float$"),
        (lambda segment: segment.stored(None), "^a document number must be an integer, not None$"),
        (lambda segment: segment.stored(10**5000), "0 to 2, not an integer of 16610 bits$"),
        (lambda segment: list(segment.doc_values("text", [1.5])), "^a document number must be an integer, not float$"),
        (lambda segment: list(segment.doc_values("text", "a")), "^a document number must be an integer, not str$"),
        (lambda segment: list(segment.doc_values("text", 5)), "^docs must be an iterable of integers, not int$"),
        (lambda segment: segment.field(["text"]), "^the name of a field must be a str, not list$"),
        (lambda segment: list(segment.to_arrow(["terms"])), "^the table must be a str, not list$"),
        (lambda segment: list(segment.to_arrow("terms", 5)), "^fields must be a sequence of names, not int$"),
        (lambda segment: list(segment.to_arrow("terms", columns=[[]])), "^an item of columns must be a str, not list$"),
        (lambda segment: list(segment.to_arrow("stored", docs=[1])), "^docs must be a range, not list$"),
        (lambda segment: list(segment.to_arrow("terms", batch_rows=1.5)), "^batch_rows must be an integer, not float$"),
    ],
)
def test_arguments_of_a_wrong_type(ask: Callable[[Any], object], message: str) -> None:
    with Segment.open(written(15)) as segment, pytest.raises(UsageError, match=message):
        ask(segment)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint64])
def test_integers_of_numpy_are_integers(kind: type[np.integer[Any]]) -> None:
    with Segment.open(written(15)) as segment:
        assert segment.stored(kind(1)) == segment.stored(1)
        assert list(segment.doc_values("text", np.array([1], kind))) == [(1, (b"two",))]
        for rows, sizes in ((kind(1), [1, 1, 1]), (2**63, [3])):
            found = segment.to_arrow("doc_values", ["text"], batch_rows=rows)
            assert [batch.num_rows for batch in found] == sizes


def test_limits_are_kept() -> None:
    raw = written(15)
    with Segment.open(raw, limits=Limits(max_blob_bytes=2)) as segment, pytest.raises(LimitExceeded):
        segment.stored(0)


# ------------------------------------------------------------------ where it comes from


def check(target: SourceTarget, name: str) -> None:
    with Segment.open(target) as segment:
        assert segment.name == name
        assert list(segment.terms("text")) == [(b"one", 1), (b"two", 2)]
        assert segment.stored(1)[0].value == b"b"


def test_segments_in_memory(tmp_path: Path) -> None:
    raw = written(16)
    for target in (raw, bytearray(raw), memoryview(raw), np.frombuffer(raw, np.uint8)):
        check(target, "<bytes>")
    path = tmp_path / "x.zap"
    path.write_bytes(raw)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        check(mapped, "<bytes>")


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


def test_segments_far_away() -> None:
    files = fsspec.filesystem("memory")
    files.pipe_file("/zap-tests/x.zap", written(16))
    check("memory://zap-tests/x.zap", "memory://zap-tests/x.zap")
    files.rm("/zap-tests", recursive=True)
    with pytest.raises(FileNotFoundError):
        Segment.open("memory://zap-tests/x.zap")


def test_files_that_are_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Segment.open(tmp_path / "x.zap")
    (tmp_path / "y.zap").touch()
    with pytest.raises(Truncated, match=r"y\.zap"):
        Segment.open(tmp_path / "y.zap")
    with pytest.raises(OSError, match="directory"):
        Segment.open(tmp_path)
    with pytest.raises(UsageError):
        Segment.open(5)  # type: ignore[arg-type]


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.zap"
    raw = bytearray(written(15))
    raw[0] ^= 0x80
    path.write_bytes(raw)
    with pytest.raises(ChecksumMismatch) as caught:
        Segment.open(path)
    assert caught.value.source == str(path)
    with Segment.open(path, verify_checksum=False) as segment, pytest.raises(DecodeError) as found:
        segment.stored(0)
    assert found.value.source == str(path)


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


def test_a_file_that_is_not_opened_is_let_go(tmp_path: Path) -> None:
    """Nothing warns of a file that nobody closed."""
    path = tmp_path / "x.zap"
    craft = minimal(15)
    for raw in (craft.finish(addresses=[5]), craft.finish()[:-1] + b"?", b"x"):
        path.write_bytes(raw)
        with pytest.raises(DecodeError):
            Segment.open(path)
        with path.open("rb") as file:
            with pytest.raises(DecodeError):
                Segment.open(file)
            assert not file.closed


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


def test_the_checksum_reads_everything_once() -> None:
    source = Counting(large(15).finish())
    with Segment.open(source):
        assert source.size - 4 <= source.taken <= source.size + 2 * BLOCK


def test_neighbours_are_read_together() -> None:
    craft = minimal(17)
    for i in range(300):
        craft.field(f"f{i}")
    source = Counting(craft.finish())
    with Segment.open(source, verify_checksum=False) as segment:
        assert len(segment.fields) == 301
    assert source.reads <= 3


def test_asking_for_a_part_does_not_read_the_others() -> None:
    """What is damaged elsewhere does not matter."""
    craft = minimal(15)
    craft.field("broken", craft.put(b"\xff" * 20))
    craft.field("valid", craft.dictionary({b"x": craft.postings([1]), b"y": NOT >> 2}))
    with Segment.open(craft.finish()) as segment:
        assert segment.postings("valid", "x") is not None
        for ask in (
            lambda: segment.postings("broken", "x"),
            lambda: segment.postings("valid", "y"),
            lambda: list(segment.terms("valid")),
        ):
            with pytest.raises(DecodeError):
                ask()
        assert len(list(segment.to_arrow("postings", ["_id"]))) == 1

"""What is asked of a segment a few at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.core.cursor import Cursor
from dvcodec.zap import Document, Field, FieldOptions, Segment, Term
from dvcodec.zap.footer import SegmentData
from dvcodec.zap.segment import find_stored
from samples.zap.documents import written
from samples.zap.segments import VERSIONS


@each("version", VERSIONS)
def test_the_postings_of_a_term(version: int) -> None:
    with Segment.open(written(version)) as segment:
        found = segment.postings("text", "one")
        assert found is not None
        assert len(found) == 1
        assert found.rows == RowSet([0])
        assert (found.docs.tolist(), found.freqs.tolist(), found.location_counts.tolist()) == ([0], [2], [2])
        assert found.norms.dtype == np.float32
        assert found.norms.tolist() == [np.float32(1 / np.sqrt(3))]
        assert found.locations.array_positions.tolist() == [4]
        assert found.locations.fields.tolist() == [2, 2]
        bare = segment.postings("text", b"one", locations=False)
        assert bare is not None
        assert (bare.freqs.tolist(), bare.location_counts.tolist(), len(bare.locations)) == ([2], [0], 0)
        both = segment.postings("text", b"two")
        assert both is not None
        assert both.rows == RowSet([0, 1])
        assert segment.postings("text", "on") is None
        assert segment.postings("plain", "x") is None
        with pytest.raises(UsageError, match="cannot be encoded as UTF-8"):
            segment.postings("text", "\ud800")


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
def test_documents_are_read_together(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass of NumPy for each of thousands of small documents would take seconds."""
    with Segment.open(many(version)) as segment:
        single = [segment.stored(doc) for doc in range(segment.num_docs)]
        windows = counted(monkeypatch)
        assert list(find_stored(segment.contents, 0, 300)) == single
        assert len(windows) < 10
        assert list(find_stored(segment.contents, 7, 19)) == single[7:19]
        assert list(find_stored(segment.contents, 7, 7)) == []
        every = list(segment.doc_values("f"))
        assert list(segment.doc_values("f", [280, 7, 3, 7])) == [every[doc] for doc in (3, 7, 280)]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the windows that are read from now on."""
    found: list[int] = []
    window = SegmentData.window

    def noted(self: SegmentData, start: int, stop: int, what: str) -> Cursor:
        found.append(stop - start)
        return window(self, start, stop, what)

    monkeypatch.setattr(SegmentData, "window", noted)
    return found

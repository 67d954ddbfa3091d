"""What is asked of a segment a few at a time."""

from __future__ import annotations

import numpy as np
import pytest

from dvcodec import RowSet, UsageError
from dvcodec.zap import Document, Segment
from samples.zap.documents import written
from samples.zap.segments import VERSIONS, minimal


@pytest.mark.parametrize("version", VERSIONS)
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


def test_many_terms_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dvcodec.zap.lookup._TERMS_AT_ONCE", 3)
    with Segment.open(written(15, [Document(b"%d" % i) for i in range(10)])) as segment:
        assert list(segment.terms("_id")) == [(b"%d" % i, 1) for i in range(10)]


@pytest.mark.parametrize(
    ("prefix", "start", "stop", "expected"),
    [
        (b"b", b"", None, [b"b", b"ba", b"bb", b"bc"]),
        (b"b", b"ba", None, [b"ba", b"bb", b"bc"]),
        (b"b", b"", b"bb", [b"b", b"ba"]),
        (b"b", b"ba", b"bc", [b"ba", b"bb"]),
        (b"b", b"a", b"c", [b"b", b"ba", b"bb", b"bc"]),
        (b"b", b"c", None, []),
        (b"", b"b", b"ba", [b"b"]),
    ],
)
def test_the_terms_of_a_range_with_a_prefix(
    prefix: bytes, start: bytes, stop: bytes | None, expected: list[bytes]
) -> None:
    names = (b"a", b"b", b"ba", b"bb", b"bc", b"c")
    with Segment.open(written(15, [Document(name) for name in names])) as segment:
        assert [term for term, _ in segment.terms("_id", prefix=prefix, start=start, stop=stop)] == expected


def test_one_hits_are_lists_like_others() -> None:
    craft = minimal(15)
    hit = 2 << 62 | 4 << 31 | 1
    craft.field("f", craft.dictionary({b"a": craft.postings([0, 2]), b"b": hit, b"c": hit}))
    with Segment.open(craft.finish()) as segment:
        assert list(segment.terms("f")) == [(b"a", 2), (b"b", 1), (b"c", 1)]
        found = segment.postings("f", "c")
        assert found is not None
        assert (found.docs.tolist(), found.freqs.tolist(), found.norms.tolist()) == ([1], [1], [0.5])

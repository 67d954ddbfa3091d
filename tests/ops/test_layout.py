"""Where the bytes of a segment go."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from battery import outcome
from cases import each
from dvcodec import DecodeError
from dvcodec.ops.layout import Part, Span, layout
from dvcodec.zap import Document, FieldOptions, Segment, Synonyms, merge_segments, text_field, write_segment

VERSIONS = range(11, 18)
OPTIONS = FieldOptions.INDEXED | FieldOptions.STORED | FieldOptions.DOC_VALUES


def written(version: int, count: int = 5) -> bytes:
    out = io.BytesIO()
    documents = [
        Document(
            f"d{i}".encode(),
            (text_field("body", f"some words {i}"), text_field("only", "x", options=OPTIONS)),
            synonyms=(Synonyms("thesaurus", ((b"big", (b"large", b"huge")),)),) if version >= 16 and not i else (),
        )
        for i in range(count)
    ]
    write_segment(out, documents, version)
    return out.getvalue()


def postings_of(segment: Segment, field: str) -> tuple[int, int] | None:
    """Where postings really are: read from every record."""
    starts, stops = [], []
    for block in segment.contents.term_blocks(segment.field(field).dictionary):
        records = segment.contents.records(block.values)
        general = records[~records.one_hit]
        starts += general.freq_at.tolist()
        stops += (general.bitmap_at + general.bitmap_size).tolist()
    return (min(starts), max(stops)) if starts else None


def check(segment: Segment) -> dict[Part, int]:
    spans = layout(segment)
    assert spans[0].start == 0
    assert spans[-1].stop == segment.contents.data.source.size
    assert all(one.stop == other.start for one, other in pairwise(spans))
    assert all(span.size > 0 for span in spans)
    for info in segment.fields:
        of_field = {part: [span for span in spans if (span.part, span.field) == (part, info.name)] for part in Part}
        assert [(span.start, span.stop) for span in of_field[Part.POSTINGS]] == (
            [] if (found := postings_of(segment, info.name)) is None else [found]
        )
        assert [(span.start, span.stop) for span in of_field[Part.DOC_VALUES]] == (
            [] if info.doc_values is None else [info.doc_values]
        )
        assert [span.start for span in of_field[Part.DICTIONARY]] == (
            [] if info.dictionary is None else [info.dictionary]
        )
        assert bool(of_field[Part.SYNONYMS]) == (info.synonyms is not None)
    return {part: sum(span.size for span in spans if span.part is part) for part in Part}


@each("version", VERSIONS)
def test_every_byte_is_of_one_part(version: int, vectors: Path, own_vectors: Path) -> None:
    paths = sorted((vectors / "zap" / f"v{version}").glob("*.zap"))
    paths += sorted(path for folder in own_vectors.glob(f"zap/zapx-{version}.*") for path in folder.glob("*.zap"))
    assert len(paths) > 15
    for path in paths:
        with Segment.open(path) as segment:
            assert check(segment)[Part.OTHER] == 0, path


@each("version", VERSIONS)
def test_merged_segments(version: int) -> None:
    out = io.BytesIO()
    with Segment.open(written(version)) as one, Segment.open(written(version, 1)) as other:
        merge_segments(out, [one, other])
    with Segment.open(out.getvalue()) as segment:
        check(segment)


def spans_of(data: bytes) -> tuple[Span, ...]:
    with Segment.open(data, verify_checksum=False) as segment:
        return layout(segment)


@pytest.mark.parametrize("version", [11, 15, 16, 17])
def test_damage_ends_in_spans_or_a_decode_error(version: int) -> None:
    data = written(version)
    dice = np.random.default_rng(version)
    for at in range(len(data) - 250, len(data)):
        bad = bytearray(data)
        bad[at] = dice.integers(256)
        spans = outcome(spans_of, bytes(bad))
        if not isinstance(spans, DecodeError):
            assert spans[0].start == 0
            assert spans[-1].stop == len(data)
            assert all(one.stop == other.start for one, other in pairwise(spans))

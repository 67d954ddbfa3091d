"""Where the bytes of a segment go."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

from cases import each
from dvcodec.zap import Document, FieldOptions, Segment, Synonyms, text_field, write_segment
from dvcodec.zap.verify import Part, Span, layout

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
def test_written_segments(version: int) -> None:
    with Segment.open(written(version)) as segment:
        sizes = check(segment)
    assert sizes[Part.OTHER] == sizes[Part.VECTORS] == 0
    assert bool(sizes[Part.SYNONYMS]) == (version >= 16)
    assert min(sizes[part] for part in (Part.STORED, Part.POSTINGS, Part.DICTIONARY, Part.DOC_VALUES, Part.FIELDS)) > 0


def test_section_of_shapes_in_front_of_postings(own_vectors: Path) -> None:
    with Segment.open(own_vectors / "zap/zapx-17.2.3/geo.zap") as segment:
        spans = layout(segment)
        (shapes,) = [info for info in segment.fields if info.shapes is not None]
        (found,) = [span for span in spans if span.part is Part.SHAPES]
        assert (found.start, found.field) == (shapes.shapes, shapes.name)
        assert Span(Part.POSTINGS, *(postings_of(segment, "_id") or (0, 0)), "_id") in spans

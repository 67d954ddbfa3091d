"""zap: the segments of bleve's scorch index, versions 11 to 17, read, written, merged and verified.

`footer` and `fields` have the addresses of all parts; `contents` bundles them for readers. The parts, with decoder and
encoder side by side, are `stored`, `nested`, `dictionary` (on `vellum`), `postings` and `locations` (in `chunks`),
`doc_values`, `synonyms` and `vectors`. `segment` opens a segment lazily, `columns` returns Arrow tables. `writer`
builds a segment from `documents`, `merge` from segments. `assemble` writes the parts, `verify` checks them.
"""

from dvcodec.zap.documents import (
    Document,
    Field,
    FieldOptions,
    Location,
    Synonyms,
    Term,
    composite_field,
    keyword_field,
    number_field,
    number_value,
    text_field,
)
from dvcodec.zap.fields import FieldInfo
from dvcodec.zap.footer import DEFAULT_CHUNK_MODE, VERSIONS, Footer
from dvcodec.zap.locations import Locations, norm_values
from dvcodec.zap.merge import merge_segments
from dvcodec.zap.nested import Edges
from dvcodec.zap.postings import Postings
from dvcodec.zap.segment import Segment, StoredValue, TermPostings
from dvcodec.zap.synonyms import Thesaurus
from dvcodec.zap.vectors import VectorSection
from dvcodec.zap.verify import verify_segment
from dvcodec.zap.writer import write_segment

__all__ = [
    "DEFAULT_CHUNK_MODE",
    "VERSIONS",
    "Document",
    "Edges",
    "Field",
    "FieldInfo",
    "FieldOptions",
    "Footer",
    "Location",
    "Locations",
    "Postings",
    "Segment",
    "StoredValue",
    "Synonyms",
    "Term",
    "TermPostings",
    "Thesaurus",
    "VectorSection",
    "composite_field",
    "keyword_field",
    "merge_segments",
    "norm_values",
    "number_field",
    "number_value",
    "text_field",
    "verify_segment",
    "write_segment",
]

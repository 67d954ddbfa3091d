"""zap: the segments of bleve's scorch index, versions 11 to 17, read, written, merged and verified.

`footer` and `fields` have the addresses of all parts. The parts, with decoder and encoder side by side, are `stored`
documents, dictionaries (`vellum`), `postings` (in `chunks`), `doc_values`, `synonyms` and `vectors`. `segment` opens a
segment lazily, and returns Arrow tables. `writer` builds a segment from `documents`, `merge` from segments. `verify`
checks the parts, and says where the bytes go.
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
from dvcodec.zap.footer import DEFAULT_CHUNK_MODE, VERSIONS, FieldInfo, Footer
from dvcodec.zap.merge import merge_segments
from dvcodec.zap.postings import Locations, Postings, norm_values
from dvcodec.zap.sections import Thesaurus, VectorSection
from dvcodec.zap.segment import Segment, StoredValue, TermPostings
from dvcodec.zap.stored import Edges
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

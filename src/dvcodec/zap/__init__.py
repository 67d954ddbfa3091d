"""zap: the segments of bleve's scorch index, versions 11 to 17, read, written, merged and verified.

`footer` and `fields` have the addresses of all parts; `contents` bundles them for readers. The parts, with decoder and
encoder side by side, are `stored` (with `stored_records`), `nested`, `dictionary` (on `vellum`), `postings` (with
`postings_records`), `locations` (in `chunks`), `doc_values` (in `doc_value_chunks`), `synonyms` (with `synonym_lists`)
and `vectors`. `segment` opens a segment lazily, `lookup` reads single terms and documents, `columns` returns Arrow
tables. `writer` builds a segment from `documents` (or `analysis`), `merge` from segments. `assemble` writes the parts,
`verify` checks them.
"""

from dvcodec.zap.analysis import composite_field, keyword_field, number_field, number_value, text_field
from dvcodec.zap.documents import Document, Field, FieldOptions, Location, Synonyms, Term
from dvcodec.zap.fields import FieldInfo
from dvcodec.zap.footer import DEFAULT_CHUNK_MODE, VERSIONS, Footer
from dvcodec.zap.locations import Locations
from dvcodec.zap.lookup import StoredValue, TermPostings
from dvcodec.zap.merge import merge_segments
from dvcodec.zap.nested import Edges
from dvcodec.zap.norms import norm_values
from dvcodec.zap.postings_lists import Postings
from dvcodec.zap.segment import Segment
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

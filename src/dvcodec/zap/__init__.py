"""zap: the segments of bleve's scorch index, versions 11 to 17, read, written, merged and verified.

`footer` and `fields` have the addresses of all parts. The parts, with decoder and encoder side by side, are `stored`
documents, dictionaries (`vellum`), `postings` (in `chunks`), `doc_values`, `synonyms` and `vectors`. `segment` opens a
segment lazily, and returns Arrow tables. `writer` builds a segment from `documents`, `merge` from segments. `verify`
checks the parts, and says where the bytes go. All are imported when first used: files are told apart by `footer` alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "documents": (
        "Document",
        "Field",
        "FieldOptions",
        "Location",
        "Synonyms",
        "Term",
        "composite_field",
        "keyword_field",
        "number_field",
        "number_value",
        "text_field",
    ),
    "footer": ("DEFAULT_CHUNK_MODE", "VERSIONS", "FieldInfo", "Footer"),
    "merge": ("merge_segments",),
    "postings": ("Locations", "Postings", "norm_values"),
    "sections": ("Thesaurus", "VectorSection"),
    "segment": ("Segment", "StoredValue", "TermPostings"),
    "stored": ("Edges",),
    "verify": ("verify_segment",),
    "writer": ("write_segment",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'dvcodec.zap' has no attribute {name!r}")
    value = getattr(import_module(f"dvcodec.zap.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

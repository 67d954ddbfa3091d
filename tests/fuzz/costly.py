"""Files that commands read at great cost, beside those of `limits.test_work`: entries of the search for costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from dvcodec.zap import Document, Field, FieldOptions, Location, Term, write_segment
from limits.test_work import zap_table
from samples.lance import Seg, message, sequence_bytes, write_array
from samples.puffin import lz4_frame
from samples.zap.segments import minimal

__all__ = ["COSTLY"]


def _keys(count: int) -> bytes:
    """A segment whose dictionary has so many keys, all in a few states; its other bytes allow them."""
    made = minimal(15, 1)
    one_hit = 1 << 63  # of document 0
    made.field("t", made.dictionary({i.to_bytes(3, "big"): one_hit for i in range(count)}))
    made.put(bytes(60_000 - len(made.out)))
    return made.finish()


def _full_fields(count: int) -> bytes:
    """A segment of so many fields, each with a term, a location, a stored value and a doc value."""
    terms = (Term(b"x", 1, (Location(1, 0, 1),)),)
    fields = tuple(Field(f"{i:x}", b"v", "t", FieldOptions(15), terms) for i in range(count))
    sink = BytesIO()
    write_segment(sink, [Document(b"a", fields)], 15)
    return sink.getvalue()


_SPAN = 1 << 23
"""Row ids of a fragment: as many as may overlap in thousands of them."""


def _lance(fragments: int, rows: int, segment_of: Callable[[int], Seg]) -> bytes:
    """A manifest of so many fragments, with the row ids of so many rows each."""
    made = [
        message("DataFragment", id=i, physical_rows=rows, row_ids=sequence_bytes([segment_of(i)]))
        for i in range(fragments)
    ]
    body: bytes = message("Manifest", fragments=made, version=1, next_row_id=1 << 40).SerializeToString()
    return len(body).to_bytes(4, "little") + body + bytes(8) + bytes((0, 0, 2, 0)) + b"LANC"


def _ranges(count: int) -> bytes:
    """Fragments whose ranges of row ids overlap."""
    return _lance(count, _SPAN, lambda i: Seg("range", i, i + _SPAN))


def _holes(count: int) -> bytes:
    """The same, with an id that is missing."""
    return _lance(count, _SPAN - 1, lambda i: Seg("holes", i, i + _SPAN, write_array([i + _SPAN // 2])))


def _far_apart(count: int) -> bytes:
    """Fragments of few row ids that have no high half in common."""
    return _lance(count, 4, lambda i: Seg("sorted", array=write_array([(i << 32) + (j << 44) for j in range(4)])))


def _puffin(footer: object, room: int) -> bytes:
    """A file with a compressed footer, and bytes for its blobs."""
    payload = lz4_frame(json.dumps(footer, separators=(",", ":")).encode(), packed=True)
    sizes = len(payload).to_bytes(4, "little") + b"\1\0\0\0"
    return b"PFA1" + bytes(room) + b"PFA1" + payload + sizes + b"PFA1"


_BLOB = {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "length": 12}


def _puffin_vectors(count: int) -> bytes:
    """As many vectors as a file of its size has room for, none of which is one."""
    names = {"referenced-data-file": "a", "cardinality": "1"}
    blobs = [_BLOB | {"offset": 4 + 12 * i, "properties": names} for i in range(count)]
    return _puffin({"blobs": blobs}, 12 * count)


def _puffin_properties(count: int) -> bytes:
    """A blob of so many properties."""
    names = {f"{i:x}": "" for i in range(count)} | {"referenced-data-file": "a", "cardinality": "1"}
    return _puffin({"blobs": [_BLOB | {"offset": 4, "properties": names}]}, 12)


def _whatever(path: Path) -> object:
    """Refuse none: the size of the file is what bounds it."""
    return path


COSTLY: dict[str, tuple[Callable[[int], bytes], Callable[[Path], object]]] = {
    "zap keys": (_keys, zap_table("terms")),
    "zap full fields": (_full_fields, _whatever),
    "lance ranges": (_ranges, _whatever),
    "lance holes": (_holes, _whatever),
    "lance far apart": (_far_apart, _whatever),
    "puffin vectors": (_puffin_vectors, _whatever),
    "puffin properties": (_puffin_properties, _whatever),
}
"""How a file of so many things is made, and what refuses one of too many."""

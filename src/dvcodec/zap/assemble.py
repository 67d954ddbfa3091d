"""Write the parts of a segment in order, for the writer and for merging.

Source: zapx ``new.go`` (``convert``), ``merge.go`` (``mergeToWriter``)::

    stored records | stored index | [v17: edge list]
    v11..v15  of each field: its postings, term by term | dictionary | [doc values]
              doc value table | field records | fields index | footer
    v16, v17  of each field: its postings, term by term | dictionary | [doc values] | text section
              of each thesaurus: its lists | dictionary | synonyms | synonym section
              field records | sections index | footer

From version 16 on some orders are random in Go (sections, a field's list of sections, edges, the synonyms of a
thesaurus); here they are ascending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.checksum import crc32
from dvcodec.core.cursor import BytesLike
from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import ByteStrings, cut_by_weight, offsets_of
from dvcodec.io.sink import Sink
from dvcodec.zap import chunks
from dvcodec.zap.dictionary import encode_dictionary
from dvcodec.zap.doc_values import SKIPS, DocValues, encode_doc_values
from dvcodec.zap.documents import FieldOptions
from dvcodec.zap.fields import (
    MAX_FIELDS,
    SYNONYMS,
    TEXT,
    encode_block,
    encode_field,
    encode_fields_index,
    encode_record,
    encode_text,
)
from dvcodec.zap.footer import DEFAULT_CHUNK_MODE, SECTIONS_FROM, VERSIONS, WRITER_ID_FROM, Footer, encode_footer
from dvcodec.zap.nested import NESTED_FROM, Edges, encode_edges
from dvcodec.zap.postings import LOCATIONS_WITHIN_FREQ, POSTINGS_AT_ONCE, Postings, encode_one_hits, encode_postings
from dvcodec.zap.stored import StoredColumns, encode_stored_index, encode_stored_records
from dvcodec.zap.synonyms import Thesaurus, encode_thesaurus

_MAX_FREQ = 2**63 - 1
"""It is stored shifted left by one bit."""


@dataclass(frozen=True, slots=True, eq=False)
class FieldContent:
    """One field of a segment, without its stored values.

    Attributes:
        name: name of the field.
        options: `FieldOptions`, stored in version 17.
        terms: in byte order, each once.
        postings: one non-empty list per term.
        one_hits: bool[terms], lists to store in the dictionary: one document, frequency 1, no location.
        doc_values: None if the field has no doc value block.
        thesaurus: synonyms, versions 16 and 17.
    """

    name: str
    options: FieldOptions
    terms: ByteStrings
    postings: Postings
    one_hits: NDArray[np.bool_]
    doc_values: DocValues | None = None
    thesaurus: Thesaurus | None = None


def check_version(version: int, chunk_mode: int | None) -> int:
    """Check version and chunk mode; return the chunk mode, by default the one that zapx writes in that version.

    Raises:
        UsageError: a version other than 11 to 17, or a mode that its readers do not support.
    """
    if version not in VERSIONS:
        raise UsageError(f"zap versions are {VERSIONS[0]} to {VERSIONS[-1]}, not {version}")
    mode = DEFAULT_CHUNK_MODE[version] if chunk_mode is None else chunk_mode
    chunks.check_mode(version, mode)
    return mode


@dataclass
class _Out:
    """A sink that keeps the running CRC."""

    sink: Sink
    start: int
    crc: int = 0

    @property
    def position(self) -> int:
        return self.sink.position - self.start

    def write(self, data: BytesLike) -> int:
        """Append; return the address."""
        at = self.position
        self.crc = crc32(data, self.crc)
        self.sink.write(data)
        return at


def write_content(
    sink: Sink,
    version: int,
    chunk_mode: int,
    num_docs: int,
    stored: Iterable[StoredColumns],
    fields: Iterable[FieldContent],
    *,
    edges: Edges | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> None:
    """Write a segment.

    Args:
        sink: target; the segment begins at its position.
        version: 11 to 17.
        chunk_mode: as `check_version` returned it.
        num_docs: documents.
        stored: stored values of all documents in order, in batches.
        fields: the fields by id, ``_id`` first; consumed one at a time.
        edges: nested documents, version 17.
        progress: called with the name of each field when it is written.

    Raises:
        UsageError: more than 65,534 fields; stored values, terms, doc values or synonyms that their encoders reject; or
            contents on which zapx's readers of that version fail.
        OSError: the target cannot be written.
    """
    out = _Out(sink, sink.position)
    footer = Footer(version, num_docs, 0, 0, None, chunk_mode)
    stored_index = 0
    if num_docs:
        stored_index = _write_stored(out, footer, stored, edges or Edges.none())
    elif version >= SECTIONS_FROM:
        out.write(b"\0")  # zapx takes a record at address 0 for a missing field
    written = []
    for content in fields:
        written.append(_write_field(out, footer, content))
        progress(content.name)
    if len(written) > MAX_FIELDS:
        raise UsageError(f"a segment has at most {MAX_FIELDS} fields, not {len(written)}")
    table = None
    if version >= SECTIONS_FROM:
        _write_synonyms(out, footer, written)
        options = version >= WRITER_ID_FROM
        addresses = [
            out.write(encode_field(one.name, one.options if options else None, one.sections)) for one in written
        ]
    else:
        if num_docs:
            table = out.write(b"".join(encode_block(one.block) for one in written))
        addresses = [out.write(encode_record(one.name, one.dictionary)) for one in written]
    index = out.write(encode_fields_index(version, addresses))
    sink.write(encode_footer(Footer(version, num_docs, stored_index, index, table, chunk_mode), out.crc))


def _write_stored(out: _Out, footer: Footer, stored: Iterable[StoredColumns], edges: Edges) -> int:
    """Write stored documents, their index and the edges; return the address of the index."""
    addresses = []
    done = 0
    for columns in stored:
        count = int(columns.docs[-1]) + 1 - done if len(columns) else 0
        records, places = encode_stored_records(columns, count, first=done, base=out.position)
        out.write(records)
        addresses.append(places)
        done += count
    if done != footer.num_docs:
        raise UsageError(f"stored values: expected {footer.num_docs} documents, found {done}")
    index = out.write(encode_stored_index(np.concatenate(addresses)))
    if footer.version >= NESTED_FROM:
        out.write(encode_edges(edges))
    return index


@dataclass
class _Written:
    """Addresses of a written field."""

    name: str
    options: FieldOptions
    thesaurus: Thesaurus | None
    dictionary: int = 0
    block: tuple[int, int] | None = None
    sections: dict[int, int] = field(default_factory=lambda: {TEXT: 0, SYNONYMS: 0})


def _write_field(out: _Out, footer: Footer, content: FieldContent) -> _Written:
    version = footer.version
    written = _Written(content.name, content.options, content.thesaurus)
    if not footer.num_docs:
        return written
    _check(version, content)
    values = np.empty(len(content.terms), np.uint64)
    if content.one_hits.any():
        first = offsets_of(content.postings.counts)[:-1][content.one_hits]
        values[content.one_hits] = encode_one_hits(content.postings.docs[first], content.postings.norms[first])
        general = content.postings.lists(~content.one_hits)
    else:
        general = content.postings
    records = []
    for part in _parts(footer, general):
        data, addresses = encode_postings(footer, part, out.position)
        out.write(data)
        records.append(addresses)
    if records:
        values[~content.one_hits] = np.concatenate(records)
    written.dictionary = out.write(encode_dictionary(content.terms, values))
    if content.doc_values is not None:
        docs, terms = content.doc_values.docs, content.doc_values.values
        block = encode_doc_values(version, footer.num_docs, footer.chunk_mode, content.options, docs, terms)
        start = out.write(block)
        written.block = (start, out.position)
    if version >= SECTIONS_FROM:
        written.sections[TEXT] = out.write(encode_text(written.dictionary, written.block))
    return written


def _check(version: int, content: FieldContent) -> None:
    """Raise `UsageError` for contents on which zapx's readers of that version fail, or which they lose."""
    postings = content.postings
    if (postings.freqs > _MAX_FREQ).any():
        raise UsageError(f"field {content.name!r}: a frequency above {_MAX_FREQ}")
    if version <= LOCATIONS_WITHIN_FREQ and (postings.location_counts.astype(np.uint64) > postings.freqs).any():
        raise UsageError(
            f"field {content.name!r}: more locations than the frequency, on which readers of version {version} panic"
        )
    if version >= WRITER_ID_FROM:
        if content.options & SKIPS not in (FieldOptions(0), SKIPS):
            raise UsageError(
                f"field {content.name!r}: readers of version 17 misread doc values with only one of the options "
                "SKIP_DOC_VALUE_COMPRESSION and SKIP_DOC_VALUE_CHUNKING: set both or neither"
            )
        if content.options & FieldOptions.DOC_VALUES and content.doc_values is None and len(content.terms):
            raise UsageError(f"field {content.name!r} has the option DOC_VALUES but no doc values")
    elif content.thesaurus is not None and version < SECTIONS_FROM:
        raise UsageError(f"field {content.name!r}: version {version} has no synonyms")


def _parts(footer: Footer, postings: Postings) -> Iterator[Postings]:
    """Split lists into parts with a bounded number of postings and chunks."""
    sizes = chunks.chunk_sizes(footer.version, footer.chunk_mode, footer.num_docs, postings.counts)
    weights = postings.counts + (footer.num_docs - 1) // sizes + 1
    return map(postings.lists, cut_by_weight(weights, POSTINGS_AT_ONCE))


def _write_synonyms(out: _Out, footer: Footer, written: list[_Written]) -> None:
    for one in written:
        if one.thesaurus is not None and footer.num_docs:
            data, address = encode_thesaurus(footer.version, one.thesaurus, out.position)
            out.write(data)
            one.sections[SYNONYMS] = address

"""The contents of a segment: its bytes, footer and fields, with bulk reads.

All readers share them: `Segment`, lookups, Arrow tables, merging, verification, layout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings, Index
from dvcodec.core.usage import check_integer, check_type, integer_text
from dvcodec.io.source import Source
from dvcodec.zap.chunks import decode_mode
from dvcodec.zap.doc_values import DocValueBlock, DocValues
from dvcodec.zap.footer import FieldInfo, Footer, SegmentData, decode_fields
from dvcodec.zap.postings import (
    POSTINGS_AT_ONCE,
    Postings,
    Records,
    count_without,
    decode_postings,
    decode_records,
)
from dvcodec.zap.stored import StoredColumns, iter_stored
from dvcodec.zap.vellum import Fst, KeyBlock, decode_dictionary

_NAMES_SHOWN = 12


@dataclass(frozen=True, eq=False)
class Contents:
    """Bytes, footer, fields and limits of a segment.

    Attributes:
        data: the bytes before the footer.
        footer: version, counts and addresses.
        fields: every field, by id.
        limits: bounds on decoding.
    """

    data: SegmentData
    footer: Footer
    fields: tuple[FieldInfo, ...]
    limits: Limits = DEFAULT_LIMITS

    @classmethod
    def read(
        cls, source: Source, footer: Footer, limits: Limits = DEFAULT_LIMITS, *, salvage: bool = False
    ) -> Contents:
        """Read the fields of a segment; for `salvage` see `Segment.open`.

        Raises:
            Unsupported: contents transformed by a custom writer (encrypted), version 17.
            DecodeError: an invalid chunk mode or list of fields; see `decode_fields`.
        """
        data = SegmentData(source, source.size - footer.size, salvage)
        if footer.writer_id:
            raise Unsupported(
                "contents transformed by a custom writer",
                source=source.name,
                offset=data.end,
                expected="an empty writer id",
                actual=repr(footer.writer_id[:40]),
            )
        decode_mode(data, footer)
        return cls(data, footer, decode_fields(data, footer), limits)

    @property
    def name(self) -> str:
        """Name of the file, as used in errors."""
        return self.data.source.name

    @cached_property
    def _by_name(self) -> dict[str, FieldInfo]:
        return {info.name: info for info in self.fields}

    def field(self, name: str) -> FieldInfo:
        """Return a field by name.

        Raises:
            UsageError: the segment has no such field.
        """
        check_type(name, str, "the name of a field", "a str")
        try:
            return self._by_name[name]
        except KeyError:
            known = ", ".join(list(self._by_name)[:_NAMES_SHOWN])
            more = f" and {len(self.fields) - _NAMES_SHOWN} more" if len(self.fields) > _NAMES_SHOWN else ""
            raise UsageError(f"{self.name} has no field {name!r}: it has {known}{more}") from None

    def check_document(self, doc: int) -> int:
        """Return a document number as an int of Python.

        Raises:
            UsageError: the segment has no such document, or not an integer.
        """
        check_integer(doc, "a document number")
        doc = int(doc)
        if not 0 <= doc < self.footer.num_docs:
            raise self.outside(doc)
        return doc

    def outside(self, docs: int | range) -> UsageError:
        """Return the error for documents that the segment does not have."""
        shown = docs if isinstance(docs, range) else integer_text(docs)
        return UsageError(f"document numbers of {self.name} are 0 to {self.footer.num_docs - 1}, not {shown}")

    def dictionary(self, info: FieldInfo) -> Fst | None:
        """Return the dictionary of a field; None if it has none. Raises `DecodeError` as `decode_dictionary`."""
        return None if info.dictionary is None else decode_dictionary(self.data, info.dictionary, self.limits)

    def term_blocks(self, address: int | None) -> Iterator[KeyBlock]:
        """Read the terms of the dictionary at an address, and their values, in blocks; none without an address.

        Raises:
            DecodeError: as `decode_dictionary` for the first block, and as `Fst.blocks` for each one.
        """
        if address is not None:
            yield from decode_dictionary(self.data, address, self.limits).blocks()

    def reader(self, dictionary: int | None) -> ListReader:
        """Return what reads the lists of the dictionary at an address in the order of its terms."""
        return ListReader(self, dictionary or 0)

    def records(self, values: NDArray[np.uint64]) -> Records:
        """Read the postings records of dictionary values; see `decode_records`."""
        return decode_records(self.data, self.footer, values)

    def postings(self, records: Records, *, locations: bool = False) -> Postings:
        """Read the lists of postings records; see `decode_postings`."""
        return decode_postings(self.data, self.footer, len(self.fields), records, locations=locations)

    def count_without(self, records: Records, deleted: NDArray[np.bool_]) -> Index:
        """Count the postings of lists without some documents; see `postings.count_without`."""
        return count_without(self.data, self.footer, records, deleted)

    def lists(
        self, info: FieldInfo, *, locations: bool = False, most: int = POSTINGS_AT_ONCE
    ) -> Iterator[tuple[ByteStrings, Postings]]:
        """Read terms and lists of a field, at most `most` postings at a time or one term; see `Segment.lists`."""
        lists = self.reader(info.dictionary)
        for block in self.term_blocks(info.dictionary):
            records = lists.records(block.values)
            for cut in records.cuts(most):
                yield block.keys[cut], lists.postings(records[cut], locations=locations)

    def stored(self, start: int = 0, stop: int | None = None) -> Iterator[StoredColumns]:
        """Read the stored values of a range of documents; see `iter_stored`."""
        end = self.footer.num_docs if stop is None else stop
        return iter_stored(self.data, self.footer, len(self.fields), start, end, limits=self.limits)

    def doc_values(self, info: FieldInfo) -> Iterator[DocValues]:
        """Read the doc values of a field, chunk by chunk; none without a block. See `DocValueBlock`."""
        if info.doc_values is None:
            return iter(())
        return iter(DocValueBlock.open(self.data, self.footer, info.doc_values, info.options, limits=self.limits))


@dataclass(slots=True, eq=False)
class ListReader:
    """Reads lists of a dictionary in the order of its terms, and claims their bytes: each has bytes of its own.

    If terms shared lists, a small file would have any number of postings.

    Attributes:
        contents: of the segment.
        dictionary: its address.
    """

    contents: Contents
    dictionary: int
    _list_bytes: int = 0
    _location_bytes: int = 0

    def records(self, values: NDArray[np.uint64]) -> Records:
        """Read the postings records of the next terms.

        Raises:
            NotCanonical: the lists of all dictionaries have more bytes than the segment.
            DecodeError: see `decode_records`.
        """
        records = self.contents.records(values)
        self._list_bytes += records.least_bytes
        self.contents.data.claim("postings lists", self.dictionary, self._list_bytes)
        return records

    def postings(self, records: Records, *, locations: bool) -> Postings:
        """Read the lists of the next records.

        Raises:
            NotCanonical: the locations of all dictionaries have more bytes than the segment.
            DecodeError: see `decode_postings`.
        """
        found = self.contents.postings(records, locations=locations)
        self._location_bytes += found.locations.least_bytes
        self.contents.data.claim("locations", self.dictionary, self._location_bytes)
        return found

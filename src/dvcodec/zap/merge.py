"""Merge segments into one of any version, without deleted documents.

Source: zapx ``merge.go``, ``enumerator.go``, from version 16 on ``section_inverted_text_index.go`` and
``section_synonym_index.go``. Merging one segment applies deletions or changes its version. The bytes equal zapx's,
except snappy blocks and the orders that are random in Go (see `assemble`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from operator import and_

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.core.ragged import ByteStrings, Index, offsets_of
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_callable, check_type
from dvcodec.io import StorageOptions
from dvcodec.io.opening import open_sink
from dvcodec.io.sink import SinkTarget
from dvcodec.zap.doc_values import SKIPS, DocValues
from dvcodec.zap.documents import FieldOptions
from dvcodec.zap.footer import ID, SECTIONS_FROM, FieldInfo
from dvcodec.zap.postings import ONE_HIT_DOCS, ONE_HIT_NORMS, POSTINGS_AT_ONCE, Postings, convert_norms
from dvcodec.zap.sections import Thesaurus
from dvcodec.zap.segment import Segment
from dvcodec.zap.stored import NESTED_FROM, Edges, StoredColumns
from dvcodec.zap.writer import FieldContent, TermLists, check_version, write_content

DROPPED = -1
"""New number of a dropped document."""
_LEAST_AT_ONCE = 1 << 12
"""Postings that are read together of each of many segments."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentLists:
    """Terms of a segment and their lists without dropped documents, which may be empty."""

    place: int
    terms: ByteStrings
    postings: Postings

    def cut(self, last: bytes) -> tuple[SegmentLists, SegmentLists]:
        """Return the lists of the terms up to one, and the others."""
        at = bisect_right(self.terms, last)
        head, tail = slice(0, at), slice(at, len(self.terms))
        return (
            SegmentLists(self.place, self.terms[head], self.postings.lists(head)),
            SegmentLists(self.place, self.terms[tail], self.postings.lists(tail)),
        )


def merge_lists(read: list[SegmentLists]) -> TermLists:
    """Merge the lists of each term; terms without remaining documents are dropped."""
    if len(read) == 1:
        terms, postings = read[0].terms, read[0].postings
        last = np.full(len(terms), read[0].place)
        origin = np.full(len(postings), read[0].place)
    else:
        terms, ranks = rank_terms([lists.terms for lists in read])
        last = np.zeros(len(terms), np.int64)
        for lists, rank in zip(read, ranks, strict=True):
            last[rank] = lists.place
        joined = Postings.concat([lists.postings for lists in read])
        term = np.concatenate(
            [np.zeros(0, np.int64)]
            + [np.repeat(rank, lists.postings.counts) for lists, rank in zip(read, ranks, strict=True)]
        )
        origin = np.concatenate([np.zeros(0, np.int64)] + [np.full(len(lists.postings), lists.place) for lists in read])
        # Documents ascend from segment to segment, so a stable sort by term leaves them ascending in each list.
        counts = np.bincount(term, minlength=len(terms))
        if (term[1:] >= term[:-1]).all():  # as of one frequent term, whose postings take the most memory
            postings = replace(joined, counts=counts)
        else:
            order = np.argsort(term, kind="stable")
            postings, origin = joined.take(order, counts), origin[order]
    some = postings.counts > 0
    if not some.all():
        terms, last = terms.take(np.flatnonzero(some)), last[some]
        postings = replace(postings, counts=postings.counts[some])
    return TermLists(terms, postings, _one_hits(postings, origin, last))


def rank_terms(columns: list[ByteStrings]) -> tuple[ByteStrings, list[Index]]:
    """Return the union of columns of distinct strings, in byte order, and the index of each string in it."""
    lists = [column.to_list() for column in columns]
    union = sorted(set().union(*lists))
    places = {term: i for i, term in enumerate(union)}
    return ByteStrings.from_list(union), [
        np.fromiter(map(places.__getitem__, terms), np.int64, len(terms)) for terms in lists
    ]


def _one_hits(postings: Postings, origin: Index, last: Index) -> NDArray[np.bool_]:
    """Find the lists that zapx stores in the dictionary (1-hits).

    zapx keeps the last posting only, so a list of one document qualifies only if the last segment with the term
    contributed it. Norm 0 is excluded: readers take such a 1-hit for an empty list.
    """
    single = np.flatnonzero(postings.counts == 1)
    at = offsets_of(postings.counts)[:-1][single]
    chosen = (postings.freqs[at] == 1) & (postings.location_counts[at] == 0) & (postings.docs[at] < ONE_HIT_DOCS)
    chosen &= (postings.norms[at] > 0) & (postings.norms[at] < ONE_HIT_NORMS) & (origin[at] == last[single])
    found = np.zeros(len(postings.counts), np.bool_)
    found[single[chosen]] = True
    return found


def merge_thesauri(parts: list[tuple[Thesaurus, Index]]) -> Thesaurus | None:
    """Merge thesauri; synonym ids are assigned in order of first use by term, then by segment."""
    terms, ranks = rank_terms([thesaurus.terms for thesaurus, _ in parts])
    names, name_ranks = rank_terms([thesaurus.synonyms for thesaurus, _ in parts])
    columns = []
    for place, ((thesaurus, numbers), rank, name_rank) in enumerate(zip(parts, ranks, name_ranks, strict=True)):
        docs = numbers[thesaurus.docs]
        name = name_rank[np.searchsorted(thesaurus.ids, thesaurus.synonym_ids)]
        members = np.stack([np.repeat(rank, thesaurus.counts), np.full(len(docs), place), name, docs])
        columns.append(members[:, docs != DROPPED])
    term, place, name, docs = np.concatenate(columns, axis=1)
    if not len(docs):
        return None
    order = np.lexsort((place, term))
    _, first = np.unique(name[order], return_index=True)
    seen = name[order][np.sort(first)]
    new_ids = np.empty(len(names), np.int64)
    new_ids[seen] = np.arange(len(seen))
    order = np.lexsort((docs, new_ids[name], term))
    counts = np.bincount(term, minlength=len(terms))
    return Thesaurus(
        terms.take(np.flatnonzero(counts)),
        counts[counts > 0],
        new_ids[name][order],
        docs[order],
        np.arange(len(seen)),
        names.take(seen),
    )


_OPTIONS_FROM = 17
_MAX_DOCS = 1 << 32


def merge_segments(
    target: SinkTarget,
    segments: Sequence[Segment],
    drops: Sequence[RowSet | None] | None = None,
    version: int | None = None,
    *,
    chunk_mode: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
    storage_options: StorageOptions = None,
) -> list[Index]:
    """Merge segments into one, without dropped documents.

    Of the lists of all segments, a bounded part is in memory at a time; the terms of one field are.

    Args:
        target: path, URL or open binary file; a path is written atomically. It may be the path of a segment.
        segments: one or more, in document order.
        drops: documents to drop, for each segment; None, or None for a segment, drops none.
        version: 11 to 17; default: the highest version of the segments.
        chunk_mode: rule for chunk sizes, see `dvcodec.zap.chunks`; default: zapx's.
        progress: called with the name of each field when it is written.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        For each segment int64[num_docs], the new number of each document, -1 for a dropped one.

    Raises:
        UsageError: no segment, a dropped document that does not exist, or contents that the version does not support
            (nested documents before 17, synonyms before 16, more locations than the frequency before 15).
        Unsupported: a segment has vectors (in faiss' format) or a geo shape section.
        DecodeError: a segment is corrupt.
        OSError: the target cannot be written.
    """
    check_type(segments, Sequence, "segments", "a sequence of Segment")
    for segment in segments:
        check_type(segment, Segment, "an item of segments", "a Segment (Segment.open(source) makes one)")
    check_type(drops, (Sequence, type(None)), "drops", "a sequence of RowSet or None")
    for dropped in drops or ():
        check_type(dropped, (RowSet, type(None)), "an item of drops", "a RowSet or None")
    check_callable(progress, "progress")
    if not segments:
        raise UsageError("merging needs at least one segment")
    version = max(segment.version for segment in segments) if version is None else version
    mode = check_version(version, chunk_mode)
    inputs = _number(segments, [None] * len(segments) if drops is None else drops)
    num_docs = sum(one.kept for one in inputs)
    if num_docs > _MAX_DOCS:
        raise UsageError(f"a segment holds at most {_MAX_DOCS} documents, not {num_docs}")
    _check_sections(segments, version)
    others = {info.name for segment in segments for info in segment.fields} - {ID}
    names = [ID, *sorted(others, key=str.encode)]
    merged = _Merge(inputs, version, names)
    with open_sink(target, storage_options=storage_options) as out:
        write_content(
            out,
            version,
            mode,
            num_docs,
            merged.stored(),
            map(merged.field, names),
            edges=merged.edges(),
            progress=progress,
        )
    return [one.numbers for one in inputs]


@dataclass(frozen=True, slots=True, eq=False)
class _Input:
    """A segment, and the new numbers of its documents."""

    segment: Segment
    numbers: Index
    kept: int

    @property
    def whole(self) -> bool:
        return self.kept == self.segment.num_docs


def _number(segments: Sequence[Segment], drops: Sequence[RowSet | None]) -> list[_Input]:
    if len(drops) != len(segments):
        raise UsageError(f"drops: expected one per segment ({len(segments)}), found {len(drops)}")
    inputs = []
    base = 0
    for segment, dropped in zip(segments, drops, strict=True):
        kept = np.ones(segment.num_docs, np.bool_)
        if dropped:
            if dropped.max is not None and dropped.max >= segment.num_docs:
                raise UsageError(f"{segment.name} has {segment.num_docs} documents: cannot drop {dropped.max}")
            kept = ~dropped.mask(0, segment.num_docs)
        running = np.cumsum(kept)
        count = int(running[-1]) if len(running) else 0
        inputs.append(_Input(segment, np.where(kept, base + running - 1, DROPPED), count))
        base += count
    return inputs


def _check_sections(segments: Sequence[Segment], version: int) -> None:
    for segment in segments:
        for info in segment.fields:
            for what, address in (("vectors", info.vectors), ("geo shapes", info.shapes)):
                if address is not None:
                    raise Unsupported(
                        f"{what} cannot be merged: only Go can write their section",
                        source=segment.name,
                        offset=address,
                        expected="no such section",
                        actual=f"one of field {info.name!r}",
                    )
            if info.synonyms is not None and version < SECTIONS_FROM:
                raise UsageError(f"version {version} has no synonyms: {segment.name} has some ({info.name!r})")
        if len(segment.edges) and version < NESTED_FROM:
            raise UsageError(f"version {version} has no nested documents: {segment.name} has some")


class _Merge:
    """Contents of the new segment, computed while it is written."""

    def __init__(self, inputs: list[_Input], version: int, names: list[str]) -> None:
        self.inputs = inputs
        self.version = version
        ids = {name: i for i, name in enumerate(names)}
        # For each segment: old field id -> new one.
        self.field_ids = [np.array([ids[info.name] for info in one.segment.fields], np.int64) for one in inputs]
        self.infos: list[dict[str, FieldInfo]] = [{info.name: info for info in one.segment.fields} for one in inputs]
        self.options = {name: self._options(name) for name in names}
        first = inputs[0].segment.fields
        # zapx copies stored documents unchanged if all segments have the same fields with the same options.
        self.same_fields = all(
            [info.name for info in one.segment.fields] == [info.name for info in first] for one in inputs
        ) and all(info.options in (None, self.options[info.name]) for one in inputs for info in one.segment.fields)

    def _options(self, name: str) -> FieldOptions | None:
        """Options of a field that all its segments share; None if one does not store them (before version 17)."""
        found = [infos[name].options for infos in self.infos if name in infos]
        known = [options for options in found if options is not None]
        return reduce(and_, known) if known and len(known) == len(found) else None

    def _dropped(self, name: str, option: FieldOptions) -> bool:
        """Whether zapx drops the part of the field that `option` enables: it does if one segment lacks the option."""
        options = self.options[name]
        return self.version >= _OPTIONS_FROM and options is not None and not options & option

    # ------------------------------------------------------------------ stored

    def stored(self) -> Iterator[StoredColumns]:
        """Yield the stored values of the kept documents, renumbered."""
        unstored = np.array([self._dropped(name, FieldOptions.STORED) for name in self.options])
        unstored[0] = False
        for one, field_ids in zip(self.inputs, self.field_ids, strict=True):
            if not one.kept:
                continue
            for columns in one.segment.contents.stored():
                docs, fields = one.numbers[columns.docs], field_ids[columns.fields]
                chosen = docs != DROPPED
                if not (self.same_fields and one.whole):
                    chosen &= ~unstored[fields]
                index = np.flatnonzero(chosen)
                docs, fields = docs[index], fields[index]
                if (np.diff(docs * len(unstored) + fields) < 0).any():  # field order differs
                    order = np.lexsort((fields, docs))
                    index, docs, fields = index[order], docs[order], fields[order]
                yield replace(columns.take(index), docs=docs, fields=fields)

    def edges(self) -> Edges:
        """Merge the edges whose two ends were kept."""
        kept = []
        for one in self.inputs:
            edges = one.segment.edges
            ends = np.stack([one.numbers[edges.children], one.numbers[edges.parents]])
            kept.append(ends[:, (ends != DROPPED).all(axis=0)])
        return Edges(*np.concatenate(kept, axis=1))

    # ------------------------------------------------------------------ fields

    def field(self, name: str) -> FieldContent:
        """Merge one field, some terms at a time."""
        seen = _Seen()
        places: list[int] = []  # of segments that have a dictionary
        if not self._dropped(name, FieldOptions.INDEXED):
            infos = [of.get(name) for of in self.infos]
            places = [place for place, info in enumerate(infos) if info is not None and info.dictionary is not None]

        def rest() -> tuple[FieldOptions, Iterator[DocValues] | None]:
            doc_values = None
            if not self._dropped(name, FieldOptions.DOC_VALUES):
                doc_values = self._doc_values(name, places, seen)
            options = self.options[name]
            if options is None:
                has_block = any(name in infos and infos[name].doc_values is not None for infos in self.infos)
                options = _guess_options(seen, has_block)
            if options & SKIPS != SKIPS:  # readers misread one option without the other
                options &= ~SKIPS
            if doc_values is not None:
                options |= FieldOptions.DOC_VALUES
            elif seen.terms or not options & FieldOptions.INDEXED:
                # Without terms the option is harmless, and the next merge keeps the values of other segments.
                options &= ~FieldOptions.DOC_VALUES
            return options, doc_values

        return FieldContent(name, self._lists(name, places, seen), rest, self._thesaurus(name))

    def _lists(self, name: str, places: list[int], seen: _Seen) -> Iterator[TermLists]:
        """Merge the lists of a field: of all segments those up to a term, so that a bounded part is in memory."""
        most = max(POSTINGS_AT_ONCE // max(len(places), 1), _LEAST_AT_ONCE)
        streams = {place: self._read(name, place, most, seen) for place in places}
        waiting: dict[int, SegmentLists] = {}
        while True:
            for place in [place for place in streams if place not in waiting]:
                read = next(streams[place], None)
                if read is None:
                    del streams[place]
                else:
                    waiting[place] = read
            if not waiting:
                return
            last = min(lists.terms[-1] for lists in waiting.values())
            heads = []
            for place in sorted(waiting):
                head, tail = waiting.pop(place).cut(last)
                heads += [head] if len(head.terms) else []
                if len(tail.terms):
                    waiting[place] = tail
            merged = merge_lists(heads)
            heads.clear()  # they may have a frequent term's lists: its only copy is for the writer
            seen.note(merged)
            yield merged
            del merged

    def _read(self, name: str, place: int, most: int, seen: _Seen) -> Iterator[SegmentLists]:
        """Read the lists of a field from a segment."""
        one, info = self.inputs[place], self.infos[place][name]
        for terms, found in one.segment.contents.lists(info, locations=True, most=most):
            seen.with_terms.add(place)
            yield SegmentLists(place, terms, _renumber(found, one, self.field_ids[place], self.version))

    def _doc_values(self, name: str, places: list[int], seen: _Seen) -> Iterator[DocValues] | None:
        """Merge doc values; None if no segment with terms of the field has a block, and no value remains.

        Like zapx, this ignores the block of a segment without terms, even if it has values (geo shapes).
        """
        parts = (part for place in places for part in self._doc_values_of(name, place) if len(part))
        first = next(parts, None)
        any_block = any(self.infos[place][name].doc_values is not None for place in seen.with_terms)
        return None if first is None and not any_block else chain(() if first is None else (first,), parts)

    def _doc_values_of(self, name: str, place: int) -> Iterator[DocValues]:
        one = self.inputs[place]
        for part in one.segment.contents.doc_values(self.infos[place][name]):
            docs = one.numbers[part.docs]
            kept = np.flatnonzero(docs != DROPPED)
            yield part if one.whole and not place else DocValues(docs[kept], part.values.take(kept))

    def _thesaurus(self, name: str) -> Thesaurus | None:
        parts = []
        for place, one in enumerate(self.inputs):
            thesaurus = one.segment.thesaurus(name) if name in self.infos[place] else None
            if thesaurus is not None:
                parts.append((thesaurus, one.numbers))
        return merge_thesauri(parts) if parts else None


def _renumber(postings: Postings, one: _Input, field_ids: Index, version: int) -> Postings:
    """Remove the postings of dropped documents, and renumber the others."""
    docs = one.numbers[postings.docs]
    norms = convert_norms(postings.norms, one.segment.version, version)
    locations = replace(postings.locations, fields=field_ids[postings.locations.fields])
    renumbered = replace(postings, docs=docs, norms=norms, locations=locations)
    if one.whole:
        return renumbered
    kept = np.flatnonzero(docs != DROPPED)
    return renumbered.take(kept, np.bincount(postings.owner[kept], minlength=len(postings.counts)))


@dataclass(slots=True)
class _Seen:
    """What the lists of a field had.

    Attributes:
        with_terms: segments that have terms.
        terms: number of terms, after the merge.
        postings, located, frequent: whether there are postings, with locations, with frequencies.
    """

    with_terms: set[int] = field(default_factory=set)
    terms: int = 0
    postings: bool = False
    located: bool = False
    frequent: bool = False

    def note(self, merged: TermLists) -> None:
        self.terms += len(merged.terms)
        self.postings |= len(merged.postings) > 0
        self.located |= len(merged.postings.locations) > 0
        self.frequent |= bool(merged.postings.freqs.any())


def _guess_options(seen: _Seen, has_block: bool) -> FieldOptions:
    """Infer the options of a field that has none: merges of version 17 drop whatever an option does not enable."""
    options = FieldOptions.INDEXED | FieldOptions.STORED
    if has_block:
        options |= FieldOptions.DOC_VALUES
    if seen.located:
        options |= FieldOptions.TERM_VECTORS
    if seen.postings and not seen.frequent:
        options |= FieldOptions.SKIP_FREQ_NORM
    return options

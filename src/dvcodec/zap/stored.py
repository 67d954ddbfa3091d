"""Stored documents: the original values of fields, with their array positions.

Source: zapx ``new.go`` (``writeStoredFields``), ``write.go``, ``segment.go`` (``visitStoredFields``). The records of
all documents, adjacent from the first byte of the file on; then the stored index::

    record    uv metadata bytes | uv data bytes | metadata | id | snappy block of the values, joined
                                                             ^ data
    metadata  uv id bytes | of each value: uv field | uv type | uv start | uv length | uv n | n * uv array position
    index     u64 BE address of each record

The id is not compressed, and its only metadata is its size: it is field 0, of type ``t``. `start` and `length` are in
the decompressed block. Writers store the values by field, adjacent; values that together are longer than their block
would overlap, and are refused.

Nested documents, version 17: children and their parents.

Source: zapx ``write.go`` (``persistStoredFields``), ``segment.go`` (``loadNestedEdges``). Directly after the stored
index::

    uv edges | edges * (uv child | uv parent)

Every document that is not a root has one edge, to a parent with a lower number; zapx writes them in any order. A merge
that drops all documents writes no list; its stored index has address 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import NotCanonical, Truncated
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, enough_memory
from dvcodec.core.ragged import ByteStrings, Index, gather, offsets_of, spread
from dvcodec.zap import chunks
from dvcodec.zap.chunks import interleave
from dvcodec.zap.footer import Footer, SegmentData

ID_TYPE = ord("t")
"""Type of a document's id."""
HEAD = 5
"""Numbers of a value in the metadata, before its array positions."""
_TYPES = 256


@dataclass(frozen=True, slots=True, eq=False)
class StoredColumns:
    """Stored values in document order; the id is the first value of every document.

    Attributes:
        docs: int64[n], document of each value; ascending, without gaps.
        fields: int64[n], field id of each value, 0 for the document's id.
        types: uint8[n], the letter of the field's type (`dvcodec.zap.documents.Field`); ``t`` for the id.
        values: the n values.
        array_counts: int64[n], number of array positions of each value.
        array_positions: uint64, array positions of all values.
    """

    docs: Index
    fields: Index
    types: NDArray[np.uint8]
    values: ByteStrings
    array_counts: Index
    array_positions: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.docs)

    def take(self, index: Index) -> StoredColumns:
        """Return the values at these indices, in that order."""
        counts = self.array_counts[index]
        positions = gather(self.array_positions, offsets_of(self.array_counts)[:-1][index], counts)
        values = self.values.take(index)
        return StoredColumns(self.docs[index], self.fields[index], self.types[index], values, counts, positions)


def decode_stored_records(window: Cursor, bounds: Index, first: int, num_fields: int, limits: Limits) -> StoredColumns:
    """Read adjacent records.

    Not checked: the order of the fields in a document, and that every byte of a block belongs to a value.

    Args:
        window: the records.
        bounds: int64[n + 1], bounds of the records; strictly ascending.
        first: number of the first document.
        num_fields: number of fields of the segment.
        limits: `Limits.max_blob_bytes` bounds the total decompressed bytes.

    Raises:
        Truncated: a record ends inside its lengths or metadata.
        NotCanonical: lengths that do not add up to the record, incomplete metadata, a field that the segment does not
            have, a type above 255, a value outside its block, values that overlap, or a corrupt block.
        LimitExceeded: see `limits`.
    """
    ends = bounds[1:]
    metas, ids = _read_lengths(window, bounds[:-1], ends)
    what = "metadata of a stored document"
    numbers, firsts, behind = chunks.spans(window, metas, ids, what)
    id_sizes = _read_id_sizes(window, numbers[firsts[:-1]], metas, ends - ids)
    begins, owner, bad = chunks.counted(numbers, firsts[:-1] + 1, firsts[1:], HEAD)
    if bad >= 0:
        expected = f"whole values in {ids[bad] - metas[bad]} bytes"
        raise window.error(NotCanonical, what, at=metas[bad], expected=expected)
    blocks = ids + id_sizes
    sizes = chunks.content_sizes(window, blocks, ends, "stored values", limits=limits)
    room = sizes[owner].astype(np.uint64)

    def check(valid: NDArray[np.bool_], column: int, what: str, expected: str) -> None:
        if (i := first_true(~valid)) is not None:
            i = begins[i] + column
            raise window.error(NotCanonical, what, at=behind[i - 1], expected=expected, actual=numbers[i])

    fields, types, starts, lengths, counts = (numbers[begins + column] for column in range(HEAD))
    check((fields > 0) & (fields < num_fields), 0, "field of a stored value", f"1 to {num_fields - 1}")
    check(types < _TYPES, 1, "type of a stored value", f"below {_TYPES}")
    check(starts <= room, 2, "start of a stored value", "at most the size of the decompressed block")
    check(lengths <= room - starts, 3, "length of a stored value", "an end inside the decompressed block")

    per_doc = np.bincount(owner, minlength=len(ids))
    used = np.diff(offsets_of(lengths.astype(np.int64))[offsets_of(per_doc)])
    if (i := first_true(used > sizes)) is not None:
        expected = f"at most the {sizes[i]} bytes of the decompressed block"
        raise window.error(NotCanonical, "values of a stored document", at=metas[i], expected=expected, actual=used[i])

    place = offsets_of(id_sizes + sizes)
    with enough_memory("the stored values", window.source):
        out = np.empty(int(place[-1]), np.uint8)
    out[spread(place[:-1], id_sizes)] = gather(varints.bytes_of(window), ids, id_sizes)
    chunks.decompress_into(window, blocks, ends, out, place[:-1] + id_sizes, sizes, "stored values")
    heads = offsets_of(per_doc)[:-1]  # where the ids belong among the other values
    value_starts = np.insert((place[:-1] + id_sizes)[owner] + starts.astype(np.int64), heads, place[:-1])
    value_sizes = np.insert(lengths.astype(np.int64), heads, id_sizes)
    return StoredColumns(
        np.repeat(np.arange(first, first + len(ids), dtype=np.int64), per_doc + 1),
        np.insert(fields.astype(np.int64), heads, 0),
        np.insert(types.astype(np.uint8), heads, ID_TYPE),
        ByteStrings.cut(out, value_starts, value_sizes),
        np.insert(counts.astype(np.int64), heads, 0),
        gather(numbers, begins + HEAD, counts.astype(np.int64)),
    )


def _read_lengths(window: Cursor, starts: Index, ends: Index) -> tuple[Index, Index]:
    """Read the two lengths of each record; return the positions of its metadata and its id."""
    meta_sizes, behind = varints.read_at(window, starts, "metadata bytes of a stored document")
    data_sizes, metas = varints.read_at(window, behind, "data bytes of a stored document")
    if (i := first_true(metas > ends)) is not None:
        raise window.error(
            Truncated,
            "stored document",
            at=starts[i],
            expected="two lengths",
            actual=f"{int(ends[i] - starts[i])} bytes",
        )
    room = (ends - metas).astype(np.uint64)
    if (i := first_true((meta_sizes > room) | (data_sizes != room - meta_sizes) | (meta_sizes == 0))) is not None:
        raise window.error(
            NotCanonical,
            "lengths of a stored document",
            at=starts[i],
            expected=f"metadata and data of {room[i]} bytes",
            actual=f"{meta_sizes[i]} and {data_sizes[i]}",
        )
    return metas, metas + meta_sizes.astype(np.int64)


def _read_id_sizes(window: Cursor, sizes: NDArray[np.uint64], metas: Index, room: Index) -> Index:
    """Check the lengths of the ids against those of the data."""
    if (i := first_true(sizes >= room.astype(np.uint64))) is not None:
        raise window.error(
            NotCanonical, "length of an id", at=metas[i], expected=f"below the {room[i]} bytes of data", actual=sizes[i]
        )
    return sizes.astype(np.int64)


def encode_stored_records(
    columns: StoredColumns, num_docs: int, *, first: int = 0, base: int = 0
) -> tuple[bytes, Index]:
    """Encode the records of documents ``first .. first + num_docs - 1``.

    Args:
        columns: their values, in the order to write: by document, each beginning with its id; zapx orders by field.
        num_docs: documents.
        first: number of the first document.
        base: address of its record.

    Returns:
        The records, and their addresses, int64[num_docs].
    """
    docs = columns.docs
    per_doc = np.bincount(docs - first, minlength=num_docs)
    heads = offsets_of(per_doc)[:-1]
    rest = np.ones(len(docs), np.bool_)
    rest[heads] = False
    sizes, offsets = columns.values.lengths, columns.values.offsets
    id_ends = offsets[heads + 1]
    # Metadata: one number for the id, at least five for any other value.
    counts = np.where(rest, columns.array_counts + HEAD, 1)
    place = offsets_of(counts)
    numbers = np.empty(int(place[-1]), np.uint64)
    numbers[place[:-1][heads]] = sizes[heads]
    at = place[:-1][rest]
    starts = (offsets[:-1] - np.repeat(id_ends, per_doc))[rest]
    for k, values in enumerate((columns.fields, columns.types, None, sizes, columns.array_counts)):
        numbers[at + k] = starts if values is None else values[rest]
    numbers[spread(at + HEAD, columns.array_counts[rest])] = columns.array_positions
    encoded, number_sizes = varints.encode(numbers)
    metas = ByteStrings(offsets_of(number_sizes)[place[np.append(heads, len(docs))]], encoded)
    # Data: the id uncompressed, then the other values compressed.
    stops = offsets[heads + per_doc]
    blocks = chunks.compress(columns.values.data, id_ends, stops)
    block_sizes = np.fromiter(map(len, blocks), np.int64, num_docs)
    lengths, length_sizes = varints.encode(np.stack([metas.lengths, sizes[heads] + block_sizes], axis=1).ravel())
    front = interleave(
        [
            ByteStrings(offsets_of(length_sizes)[::2], lengths),
            metas,
            ByteStrings.cut(columns.values.data, offsets[heads], sizes[heads]),
        ]
    )
    records = b"".join(itertools.chain.from_iterable(zip(front.to_list(), blocks, strict=True)))
    return records, base + offsets_of(front.lengths + block_sizes)[:-1]


_BATCH_DOCS = 1 << 16
_BATCH_BYTES = 1 << 24
"""Documents of a batch at most, and their bytes in the file, unless it is one document."""


def iter_stored(
    data: SegmentData,
    footer: Footer,
    num_fields: int,
    start: int,
    stop: int,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[StoredColumns]:
    """Read the stored values of a range of documents, a batch at a time.

    Args:
        data: the segment.
        footer: its footer.
        num_fields: fields of the segment.
        start: first document.
        stop: end, exclusive; the segment has these documents.
        limits: `Limits.max_blob_bytes` bounds the decompressed bytes of each batch, whose size is chosen accordingly.

    Raises:
        NotCanonical: with each batch: records that are not adjacent up to the stored index.
        DecodeError: with each batch: a record that is corrupt; see `decode_stored_records`.
    """
    room = min(_BATCH_BYTES, limits.max_blob_bytes // chunks.EXPANSION)
    while start < stop:
        bounds = _bounds(data, footer, start, min(start + _BATCH_DOCS, stop))
        count = max(int(np.searchsorted(bounds, bounds[0] + room, side="right")) - 1, 1)
        window = data.window(int(bounds[0]), int(bounds[count]), "stored documents")
        yield decode_stored_records(window, bounds[: count + 1] - window.base, start, num_fields, limits)
        start += count


def _bounds(data: SegmentData, footer: Footer, start: int, stop: int) -> Index:
    """Read the bounds of the records of these documents: int64[stop - start + 1]."""
    last = stop == footer.num_docs
    at = footer.stored_index + 8 * start
    index = data.window(at, footer.stored_index + 8 * (stop if last else stop + 1), "stored index")
    addresses = np.frombuffer(index.view, ">u8").astype(np.uint64)
    what = "address of a stored document"
    if (i := first_true(addresses >= np.uint64(footer.stored_index))) is not None:
        raise index.error(NotCanonical, what, at=8 * i, expected=f"below {footer.stored_index}", actual=addresses[i])
    bounds = addresses.astype(np.int64)
    if last:
        bounds = np.append(bounds, footer.stored_index)
    if (i := first_true(bounds[1:] <= bounds[:-1])) is not None:
        raise index.error(NotCanonical, what, at=8 * (i + 1), expected=f"above {bounds[i]}", actual=bounds[i + 1])
    if not start and stop and bounds[0]:
        raise index.error(NotCanonical, "address of the first document", at=0, expected=0, actual=int(bounds[0]))
    return bounds


def encode_stored_index(addresses: NDArray[np.int64]) -> bytes:
    """Encode the stored index, from int64[num_docs] addresses; it directly follows the last record."""
    return addresses.astype(">u8").tobytes()


NESTED_FROM = 17
"""First version with nested documents."""


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """The tree of nested documents.

    Attributes:
        children: int64[n], documents that are not roots, ascending.
        parents: int64[n], the parent of each.
    """

    children: Index
    parents: Index

    def __len__(self) -> int:
        return len(self.children)

    @classmethod
    def none(cls) -> Edges:
        """No nested documents."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))


def decode_edges(data: SegmentData, footer: Footer) -> Edges:
    """Read the edge list; versions before 17 have none.

    Raises:
        Truncated: the list extends beyond the footer.
        NotCanonical: a document that the segment does not have, a parent that is not numbered before its child, a
            document with two parents, or no root.
    """
    if footer.version < NESTED_FROM or not footer.stored_index:
        return Edges.none()
    start = footer.stored_index + 8 * footer.num_docs
    cursor = data.at(start, varints.MAX_BYTES, "number of edges")
    count = cursor.uvarint("number of edges")
    if not count:
        return Edges.none()
    if count >= footer.num_docs:
        raise data.error("number of edges", start, expected=f"below {footer.num_docs} documents", actual=count)
    at = start + cursor.pos
    cursor = data.at(at, 2 * count * varints.MAX_BYTES, "edge list")
    numbers, _ = varints.read_runs(cursor, np.zeros(1, np.int64), np.array([2 * count]), "edge list")
    children, parents = numbers[::2], numbers[1::2]

    def check(wrong: NDArray[np.bool_], what: str, expected: object, actual: NDArray[np.uint64]) -> None:
        if (i := first_true(wrong)) is not None:
            raise data.error(what, at, expected=expected, actual=actual[i])

    check(children >= footer.num_docs, "nested document", f"below {footer.num_docs}", children)
    check(parents >= children, "parent of a nested document", "a document before its child", parents)
    order = np.argsort(children, kind="stable")
    edges = Edges(children[order].astype(np.int64), parents[order].astype(np.int64))
    twice = edges.children[1:] == edges.children[:-1]
    check(twice, "nested document", "one parent of each", children[order])
    return edges


def encode_edges(edges: Edges) -> bytes:
    """Encode the edge list, by child."""
    order = np.argsort(edges.children, kind="stable")
    children, parents = edges.children[order], edges.parents[order]
    numbers, _ = varints.encode(np.stack([children, parents], axis=1).ravel())
    return varints.uvarints(len(edges)) + numbers.tobytes()

"""Conversion between the containers of the formats, differences and unions, statistics.

Iceberg, Delta (portable) and Paimon (64-bit) share one frame: conversion verifies and copies it, without building
bitmaps. Other layouts (Delta native, Paimon 32-bit, bare roaring, Mumbling) are re-encoded.

Statistics come from container headers; positions are not expanded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast, get_args

from dvcodec import delta, iceberg, paimon
from dvcodec.core import vector
from dvcodec.core.cursor import BytesLike
from dvcodec.core.errors import UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.roaring import ContainerMix
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.text import bytes_text, card, counted, share_text
from dvcodec.core.usage import as_count, check_integer, check_type
from dvcodec.core.vector import DvLocation, Magic, StoredFrame, Vector, check_highest
from dvcodec.formats import Container, Format, VectorRef
from dvcodec.iceberg import DEFAULT_CREATED_BY, check_blob
from dvcodec.io import SinkTarget, Source, SourceTarget, StorageOptions, open_sink, open_source, target_name
from dvcodec.io.target import merge_spellings
from dvcodec.ops.read import (
    CheckedFrame,
    ahead,
    encodings,
    format_named,
    format_of,
    read_vector,
    refuse_segment,
    sniff_source,
    survey_vectors,
)

DataFile = TypeVar("DataFile", bound="str | None")


class Diff(NamedTuple):
    """The difference between an old vector and a new one."""

    added: RowSet
    """Deleted rows: in the new vector, not in the old."""
    restored: RowSet
    """Restored rows: in the old vector, not in the new."""


def diff(old: RowSet, new: RowSet) -> Diff:
    """Return the rows that `new` deletes and `old` does not, and the other way round.

    Raises:
        UsageError: not row sets.

    >>> diff(RowSet([1, 2]), RowSet([2, 3]))
    Diff(added=RowSet([3]), restored=RowSet([1]))
    """
    check_rows(old, "old")
    check_rows(new, "new")
    return Diff(new - old, old - new)


def merge(vectors: Iterable[Mapping[DataFile, RowSet]]) -> dict[DataFile, RowSet]:
    """Merge vectors by data file.

    Different spellings of one file (``/x`` and ``file:/x``, ``s3://`` and ``s3a://``, ..) are merged under the first;
    this is logged at INFO (logger ``dvcodec.paths``).

    Args:
        vectors: data file -> deleted rows. Each mapping spells its files in one way: ``a b`` and ``a%20b`` are two
            files where one mapping has both.

    Raises:
        UsageError: not mappings; or one has ``a b`` and another ``a%20b``, which may be the same file percent-encoded.

    >>> merge([{"/a": RowSet([1])}, {"file:/a": RowSet([2]), "/b": RowSet([3])}])
    {'/a': RowSet([1, 2]), '/b': RowSet([3])}
    """
    check_type(vectors, Iterable, "vectors", "an iterable of mappings")
    return merge_inputs(_items(mapping) for mapping in vectors)


def _items(mapping: Mapping[DataFile, RowSet]) -> Iterable[tuple[DataFile, RowSet]]:
    check_type(mapping, Mapping, "an item of vectors", "a mapping of data files to row sets")
    return mapping.items()


def merge_inputs(inputs: Iterable[Iterable[tuple[DataFile, RowSet]]]) -> dict[DataFile, RowSet]:
    """`merge` for inputs that may name a data file more than once; same arguments and errors."""
    pairs = [list(some) for some in inputs]
    kept = merge_spellings(*([path for path, _ in some] for some in pairs))
    by_file: dict[DataFile, list[RowSet]] = {}
    for some in pairs:
        for path, rows in some:
            by_file.setdefault(kept[path], []).append(rows)
    return {path: RowSet().union(*parts) for path, parts in by_file.items()}


def read_rows(
    source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS, storage_options: StorageOptions = None
) -> dict[str | None, RowSet]:
    """Read all vectors of any container: data file (None if unknown) -> deleted rows.

    Several vectors of one data file are merged, also under different spellings.

    Args:
        source: bytes, path, URL, open file or `Source`; any container that `sniff` knows, except search segments.
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the container or a vector is corrupt.
        UsageError: several vectors without data file names: merging them would mix rows of different files
            (`delta.load_frames` returns them by offset).
    """
    with open_source(source, storage_options=storage_options) as opened:
        container = refuse_segment(sniff_source(opened, limits=limits))
        nameless = sum(ref.data_file is None for ref in container.vectors)
        if nameless > 1:
            raise UsageError(f"{opened.name}: {nameless} vectors without data file names")
        windows = ahead(opened, container.vectors)
        return merge_inputs(
            [[(ref.data_file, read_vector(windows, ref, limits=limits).load()) for ref in container.vectors]]
        )


ConvertTarget: TypeAlias = Literal["iceberg", "delta", "paimon32", "paimon64", "blob", "mumbling"]
TARGETS: tuple[str, ...] = get_args(ConvertTarget)
_SHARED = ("iceberg", "delta", "paimon64", "blob")
"""Targets whose frames are those that Iceberg, Delta and Paimon share."""
_FILES = ("iceberg", "delta", "paimon32", "paimon64")
"""Targets that hold any number of vectors; a file of each other one is exactly one vector."""
_MEANT = {
    "puffin": "'iceberg'",
    "paimon": "'paimon32' or 'paimon64'",
    "paimon-32": "'paimon32'",
    "paimon-64": "'paimon64'",
}


def check_target(to: object, refused: str) -> None:
    """Refuse a target that is not known; the error begins with `refused`.

    Raises:
        UsageError: it is not known, or is a format of another package that cannot be loaded.
    """
    if not isinstance(to, str) or (to not in TARGETS and _encoding(to) is None):
        known = dict.fromkeys((*TARGETS, *encodings()))
        raise UsageError(f"{refused} {', '.join(known)}{hint(to)}")


def _encoding(name: str) -> Format | None:
    found = format_named(name)
    return found if found is not None and found.encode is not None else None


def hint(to: object) -> str:
    """Return the right name of a target for one that its container or format also has, for the end of an error."""
    meant = _MEANT.get(to.lower()) if isinstance(to, str) else None
    return "" if meant is None else f"; did you mean {meant}?"


_MAX_GAP_KEYS = 1 << 16


class GapKeys:
    """Decides which vectors of a file have the empty bitmaps that Java writes for gaps, of 12 bytes each.

    Vectors of real data files have one bitmap, and no gap. A few bytes of input must not become gigabytes, so all
    vectors together have at most 2**16 of them.
    """

    def __init__(self) -> None:
        self._left = _MAX_GAP_KEYS

    def fit(self, rows: RowSet) -> bool:
        """Whether the next vector has its own."""
        keys = (rows.max or 0) >> 32
        if keys >= self._left:
            return False
        self._left -= keys
        return True


def convert(
    source: SourceTarget,
    to: str,
    target: SinkTarget,
    *,
    data_files: Sequence[str] | Mapping[int, str] | None = None,
    created_by: str = DEFAULT_CREATED_BY,
    limits: Limits = DEFAULT_LIMITS,
    storage_options: StorageOptions = None,
) -> list[DvLocation]:
    """Convert all vectors of a file.

    Every vector is verified: length, CRC, magic, structure, and cardinality if the source states it.

    Args:
        source: any container that `sniff` knows, except search segments.
        to: ``iceberg`` (a Puffin file), ``delta`` (a vector file), ``paimon32`` or ``paimon64`` (an index file of such
            vectors), or one vector: ``blob`` (a bare frame), ``mumbling`` (positions below 2,097,152), ``roaring64``,
            ``roaring32``, a dialect of roaring (`dialects.DIALECTS`), or a format of another package (`formats`).
        target: path, URL or writable file; written whole or not at all.
        data_files: the data file of each vector, in file order or by offset; required for ``iceberg`` if the
            source does not name them; replaces the names if it does.
        created_by: ``created-by`` of a Puffin file.
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The locations of the written vectors. A source without vectors writes no file (Paimon: a file of one byte).

    Raises:
        DecodeError: a vector is corrupt (nothing is written).
        UsageError: a data file is missing, not exactly one vector for a format of one, or rows that do not fit.
        OSError: a file cannot be read or written.
    """
    check_target(to, f"cannot convert to {to!r}, only to")
    with open_source(source, storage_options=storage_options) as opened:
        container = refuse_segment(sniff_source(opened, limits=limits))
        refs = _named(container, data_files)
        if to == "iceberg":
            nameless = next((ref for ref in refs if ref.data_file is None), None)
            if nameless is not None:
                raise UsageError(f"{opened.name}, vector at byte {nameless.offset}: unknown data file, pass data_files")
        if to not in _FILES and len(refs) != 1:
            raise UsageError(f"{opened.name}: a {to} file is exactly one vector, found {len(refs)}")
        return _write_frames(to, target, _frames(opened, refs, to, limits), created_by, storage_options)


def write(
    to: str,
    target: SinkTarget,
    vectors: Mapping[str, RowSet] | Mapping[str | None, RowSet],
    *,
    created_by: str = DEFAULT_CREATED_BY,
    storage_options: StorageOptions = None,
) -> list[DvLocation]:
    """Write row sets into a new file of the given kind; arguments as in `convert`.

    Vectors have Java's bytes, including gap keys unless they are more than 2**16 in all.

    Raises:
        UsageError: an unknown kind, a data file is missing, not exactly one vector for a format of one, or rows that
            do not fit.
        OSError: the file cannot be written.
    """
    check_target(to, f"cannot write {to!r}, only")
    paths: Sequence[str | None] = list(vectors)
    if to == "iceberg":
        if None in vectors:
            raise UsageError("a Puffin file needs the data file of every vector")
        paths = iceberg.java_blob_order({path: rows.cardinality for path, rows in vectors.items() if path is not None})
    if to not in _FILES and len(vectors) != 1:
        raise UsageError(f"a {to} file is exactly one vector, got {len(vectors)}")
    gaps, given = GapKeys(), cast("Mapping[str | None, RowSet]", vectors)
    frames = (StoredFrame(path, given[path].cardinality, encode_frame(given[path], to, path, gaps)) for path in paths)
    return _write_frames(to, target, frames, created_by, storage_options)


def encode_frame(rows: RowSet, to: str, name: object, gaps: GapKeys) -> bytes:
    """Encode the frame for a target.

    Args:
        rows: the deleted rows.
        to: the target.
        name: of the vector, for errors.
        gaps: of the file.

    Raises:
        UsageError: rows that do not fit; the message names the vector `name`.
    """
    try:
        if to in _SHARED:
            return iceberg.encode(rows, gap_keys=gaps.fit(rows))
        return paimon.encode(rows) if to == "paimon32" else format_of(to).write(rows)
    except UsageError as err:
        raise UsageError(f"vector {name}: {err}" if name else str(err)) from None


def _write_frames(
    to: str,
    target: SinkTarget,
    frames: Iterator[StoredFrame],
    created_by: str,
    storage_options: StorageOptions,
) -> list[DvLocation]:
    if to == "iceberg":
        return iceberg.write_stored_vectors(target, frames, created_by=created_by, storage_options=storage_options)
    if to not in _FILES:
        return [_write_single(to, target, next(frames), storage_options)]
    if to == "delta":
        return delta.write_stored_vectors(target, frames, storage_options=storage_options)
    return paimon.write_stored_vectors(target, frames, storage_options=storage_options)


def _named(container: Container, data_files: Sequence[str] | Mapping[int, str] | None) -> list[VectorRef]:
    refs = list(container.vectors)
    if data_files is None:
        return refs
    check_type(data_files, (Sequence, Mapping), "data_files", "a sequence or a mapping of names")
    if isinstance(data_files, Mapping):
        unknown = set(data_files) - {ref.offset for ref in refs}
        if unknown:
            raise UsageError(f"{container.source} has no vector at byte {min(unknown)}")
        return [replace(ref, data_file=data_files.get(ref.offset, ref.data_file)) for ref in refs]
    if len(data_files) != len(refs):
        raise UsageError(f"{container.source}: {len(refs)} vectors, but {len(data_files)} data files given")
    return [replace(ref, data_file=path) for ref, path in zip(refs, data_files, strict=True)]


def _frames(source: Source, refs: list[VectorRef], to: str, limits: Limits) -> Iterator[StoredFrame]:
    """Yield the frames for the target: shared ones checked and unchanged, others re-encoded one at a time."""
    source = ahead(source, refs)
    gaps = GapKeys()
    for ref, checked in survey_vectors(source, refs, limits=limits):
        if checked is not None and ref.cardinality in (None, checked.cardinality) and _is_shared(checked, to):
            if ref.blob is not None:
                check_blob(ref.blob, source.name)
            yield StoredFrame(ref.data_file, checked.cardinality, checked.data)
            continue
        found = read_vector(source, ref, limits=limits)
        name = ref.data_file or f"at byte {ref.offset}"
        yield StoredFrame(ref.data_file, found.cardinality, frame_for(found, to, name, gaps))


def _is_shared(checked: CheckedFrame, to: str) -> bool:
    """Whether the target has the same frame."""
    if to == "paimon32":
        return checked.magic is Magic.PAIMON32 and (checked.max or 0) < 2**31
    return to in _SHARED and checked.magic is Magic.PORTABLE64


def frame_for(found: Vector, to: str, name: object, gaps: GapKeys) -> BytesLike:
    """Return a vector as a frame for the target: its own bytes, checked, if possible.

    Raises:
        NotCanonical: the vector is corrupt.
        UsageError: rows that do not fit; the message names the vector `name`.
    """
    if to in _SHARED:
        return portable_frame(found, gaps)
    if to == "paimon32" and found.magic is Magic.PAIMON32 and found.frame is not None and (found.view.max or 0) < 2**31:
        found.check()
        return found.frame.data
    return encode_frame(found.load(), to, name, gaps)


def portable_frame(found: Vector, gaps: GapKeys) -> BytesLike:
    """Return a vector as the frame that Iceberg, Delta and Paimon 64-bit share: its own bytes, if possible.

    Raises:
        NotCanonical: the vector is corrupt.
        UsageError: a bare bitmap with positions above 0x7ffffffe80000000.
    """
    if found.magic is Magic.PORTABLE64:
        found.check()
        if found.frame is not None:
            return found.frame.data
        check_highest(found.view.max or 0, found.magic)
        return vector.build(Magic.PORTABLE64, bytes(found.view.data))
    rows = found.load()
    return iceberg.encode(rows, gap_keys=gaps.fit(rows))


def _write_single(to: str, target: SinkTarget, stored: StoredFrame, storage_options: StorageOptions) -> DvLocation:
    with open_sink(target, storage_options=storage_options) as out:
        out.write(stored.data)
        size = out.position
    return DvLocation(
        "iceberg" if to == "blob" else to, target_name(target), 0, size, stored.cardinality, stored.data_file, size
    )


@dataclass(frozen=True, slots=True)
class VectorStats:
    """Statistics of one vector.

    Attributes:
        cardinality: deleted rows.
        min: lowest position, None if the vector is empty.
        max: highest position, None if the vector is empty.
        size: bytes of the vector as stored, including its frame.
        containers: number of array, bitset and run containers.
        bitmaps: number of non-empty 32-bit bitmaps.
        gaps: number of keys with the empty bitmap.
        row_count: physical rows of the data file, None if unknown.
    """

    cardinality: int
    min: int | None
    max: int | None
    size: int
    containers: ContainerMix
    bitmaps: int
    gaps: int
    row_count: int | None = None

    @property
    def deleted_share(self) -> float | None:
        """Deleted rows per row of the data file, 0 to 1; None if its row count is unknown or 0."""
        return self.cardinality / self.row_count if self.row_count else None

    @property
    def density(self) -> float | None:
        """Deleted rows per row from the lowest to the highest position, 0 to 1; None if empty."""
        if self.min is None or self.max is None:
            return None
        return self.cardinality / (self.max - self.min + 1)

    @property
    def bytes_per_row(self) -> float | None:
        """Bytes per deleted row; None if empty."""
        return self.size / self.cardinality if self.cardinality else None

    def _repr_html_(self) -> str:
        """Return the statistics as HTML for notebooks."""
        kinds = ", ".join(f"{count:,} {name}" for name, count in self.containers._asdict().items() if count)
        of_file = () if self.row_count is None else (f"{share_text(self.deleted_share)} of {self.row_count:,} rows",)
        size = bytes_text(self.size)
        stored = size if self.bytes_per_row is None else f"{size}, {self.bytes_per_row:.3g} B a row"
        where = () if self.min is None else (f"in {self.min:,}..{self.max:,}",)
        return card(
            counted(self.cardinality, "deleted row"), (*where, *of_file, stored, f"containers: {kinds or 'none'}")
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {
            "containers": self.containers._asdict(),
            "deleted_share": self.deleted_share,
            "density": self.density,
            "bytes_per_row": self.bytes_per_row,
        }


def describe(
    source: SourceTarget,
    *,
    row_count: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    storage_options: StorageOptions = None,
) -> tuple[VectorStats, ...]:
    """Return statistics of every vector of a container, in the order of `sniff(source).vectors`.

    >>> from dvcodec import RowSet, iceberg
    >>> (found,) = describe(iceberg.encode(RowSet([1, 3, 5])), row_count=12)
    >>> found.cardinality, found.max, found.size, found.deleted_share
    (3, 5, 46, 0.25)

    Args:
        source: bytes, path, URL, open file or `Source`; any container that `sniff` knows, except search segments.
        row_count: physical rows of the data file (of each one, if there are several).
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the container or a vector is corrupt.
        UsageError: an argument of a wrong type, or a negative number.
        MissingExtra: a Lance deletion file of the Arrow kind, without pyarrow.
        OSError: it cannot be opened or read.
    """
    check_limits(limits)
    row_count = None if row_count is None else as_count(row_count, "row_count")
    with open_source(source, storage_options=storage_options) as opened:
        container = refuse_segment(sniff_source(opened, limits=limits))
        windows = ahead(opened, container.vectors)
        return tuple(
            measure(read_vector(windows, ref, limits=limits), row_count=row_count, size=ref.size)
            for ref in container.vectors
        )


def measure(vector: Vector, *, row_count: int | None = None, size: int | None = None) -> VectorStats:
    """Return statistics of a walked vector (see `read.read_vector`).

    Args:
        vector: the vector.
        row_count: physical rows of its data file.
        size: bytes of the vector as stored, if that is neither a frame nor a bare bitmap (Lance ``.arrow``).

    Raises:
        NotCanonical: array order or bitset population is wrong.
    """
    vector.check()
    view = vector.view
    if size is None:
        size = len(vector.frame.data) if vector.frame is not None else len(view.data)
    return VectorStats(view.cardinality, view.min, view.max, size, view.mix, len(view.bitmaps), view.gaps, row_count)


WORTH_REWRITING = 0.3
"""Share of deleted rows, Iceberg's default (``delete-ratio-threshold`` of its data file rewriter)."""


def check_thresholds(min_ratio: float, min_deleted: int) -> None:
    """Check the thresholds that a caller passes.

    Raises:
        UsageError: a share below 0 or above 1, or a negative number of rows.
    """
    check_type(min_ratio, (int, float), "min_ratio", "a number")
    check_integer(min_deleted, "min_deleted")
    if not 0 <= min_ratio <= 1 or min_deleted < 0:
        raise UsageError("min_ratio must be between 0 and 1, min_deleted not negative")

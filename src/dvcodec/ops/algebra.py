"""Differences and unions of vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from dvcodec.core.errors import UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.usage import check_type
from dvcodec.io import SourceTarget, StorageOptions, open_source
from dvcodec.io.file_key import merge_spellings
from dvcodec.ops.read import ahead, read_vector
from dvcodec.ops.sniff import refuse_segment, sniff_source

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

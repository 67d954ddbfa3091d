"""Vectors against vectors: what a commit deleted or restored, and many vectors as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from dvcodec.core.errors import UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet
from dvcodec.io import SourceTarget, StorageOptions, open_source
from dvcodec.ops.read import read_vector
from dvcodec.ops.sniff import refuse_segment, sniff_source

__all__ = ["Diff", "diff", "merge", "read_rows"]

DataFile = TypeVar("DataFile", bound="str | None")


class Diff(NamedTuple):
    """What changed from an old vector to a new one."""

    added: RowSet
    """Rows deleted since: in the new vector, not in the old."""
    restored: RowSet
    """Rows that live again: in the old vector, not in the new."""


def diff(old: RowSet, new: RowSet) -> Diff:
    """Return the rows that `new` deletes and `old` does not, and the other way round.

    >>> diff(RowSet([1, 2]), RowSet([2, 3]))
    Diff(added=RowSet([3]), restored=RowSet([1]))
    """
    return Diff(new - old, old - new)


def merge(vectors: Iterable[Mapping[DataFile, RowSet]]) -> dict[DataFile, RowSet]:
    """Unite vectors by data file.

    >>> merge([{"a": RowSet([1])}, {"a": RowSet([2]), "b": RowSet([3])}])
    {'a': RowSet([1, 2]), 'b': RowSet([3])}
    """
    by_file: dict[DataFile, list[RowSet]] = {}
    for mapping in vectors:
        for path, rows in mapping.items():
            by_file.setdefault(path, []).append(rows)
    return {path: RowSet.union(*parts) for path, parts in by_file.items()}


def read_rows(
    target: SourceTarget, *, limits: Limits = DEFAULT_LIMITS, storage_options: StorageOptions = None
) -> dict[str | None, RowSet]:
    """Read all vectors of any container: data file (None where the container does not say) -> deleted rows.

    Several vectors of one data file are united.

    Args:
        target: bytes, path, URL, open file or `Source`; any container that `sniff` knows, apart from search segments.
        limits: what the bytes may ask for.
        storage_options: for URLs: how the store is reached, as deltalake and polars spell it.

    Raises:
        DecodeError: the container or a vector is not sound.
        UsageError: several vectors whose data files the container does not name: uniting them would mix rows of
            different files (`delta.read_deletion_vectors` gives them by offset).
    """
    with open_source(target, storage_options=storage_options) as source:
        container = refuse_segment(sniff_source(source, limits=limits))
        nameless = sum(ref.data_file is None for ref in container.vectors)
        if nameless > 1:
            raise UsageError(f"{source.name} holds {nameless} vectors and does not say of which data files")
        return merge({ref.data_file: read_vector(source, ref, limits=limits).load()} for ref in container.vectors)

"""Rows of a Parquet data file by physical position, as deletion vectors count them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dvcodec.core.errors import DecodeError, NotCanonical
from dvcodec.core.extras import pa, pq
from dvcodec.io import Storage
from dvcodec.io.parquet import arrow_damage, parquet_file, parquet_metadata

__all__ = ["count_rows", "open_metadata", "open_parquet", "physical_batches"]

_WIDTHS = {"BOOLEAN": 0, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
"""Bytes of a value, by physical type; strings are wider."""


@contextmanager
def open_parquet(location: str, storage: Storage, *, int96_unit: str = "us") -> Iterator[pq.ParquetFile]:
    """Open a Parquet data file by byte ranges.

    Args:
        location: path or URL.
        storage: opens it.
        int96_unit: unit in which timestamps of 96 bits are read; as ``ns``, years beyond 2262 wrap around silently.

    Raises:
        MissingExtra: pyarrow is not installed.
        NotCanonical: it is not a Parquet file, or the part that the block reads is damaged.
        Unsupported: it uses a feature that pyarrow does not support.
        OSError: it cannot be read.
    """
    with _opened(location, storage, parquet_file, coerce_int96_timestamp_unit=int96_unit) as file, file:
        yield file


@contextmanager
def open_metadata(location: str, storage: Storage, *, dictionary: str | None = None) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file of metadata (a checkpoint, position deletes).

    Args:
        location: path or URL.
        storage: opens it.
        dictionary: column to read as a dictionary, if the file has it.

    Raises:
        DecodeError: see `open_parquet`.
        OSError: it cannot be read.
    """
    with _opened(location, storage, parquet_metadata, dictionary=dictionary) as file, file:
        yield file


@contextmanager
def _opened(location: str, storage: Storage, opener: Callable[..., Any], **options: Any) -> Iterator[Any]:
    with storage.open(location) as source:
        try:
            with arrow_damage("Parquet file", "a readable footer"):
                file = opener(source, limits=storage.limits, **options)
            with arrow_damage("Parquet file", "readable values"):
                yield file
        except DecodeError as err:
            err.source = err.source or location
            raise


def count_rows(location: str, storage: Storage) -> int:
    """Return the row count in the footer of a Parquet file; its pages are not read.

    Args:
        location: path or URL.
        storage: opens it.

    Raises:
        DecodeError: it is not a valid Parquet file.
        MissingExtra: pyarrow is not installed.
        OSError: it cannot be read.
    """
    with open_parquet(location, storage) as file:
        return int(file.metadata.num_rows)


def physical_batches(
    file: pq.ParquetFile, columns: Sequence[str] | None, *, batch_rows: int = 1 << 16, skip: Collection[int] = ()
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each batch with the physical position of its first row.

    The position is counted from the row groups' own row counts, group by group, so that it cannot drift.

    Args:
        file: an open file.
        columns: top-level columns to read, in any order; None = all. Without any, batches have rows but no columns: the
            column of the narrowest type is read, because a footer may claim any number of rows.
        batch_rows: maximum rows in a batch; batches end with row groups.
        skip: numbers of row groups that are skipped.

    Raises:
        NotCanonical: a row group does not have the stated number of rows, or cannot be decoded.
    """
    names = None if columns is None else list(columns)
    start = 0
    for group in range(file.metadata.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if group in skip:
            start += rows
            continue
        position = start
        batches = _nothing(file, group, batch_rows) if names == [] else _batches(file, group, names, batch_rows)
        with arrow_damage(f"row group {group}", "readable pages"):
            for batch in batches:
                yield position, batch
                position += batch.num_rows
        if position != start + rows:
            raise NotCanonical(f"row group {group}", expected=f"{rows} rows", actual=f"{position - start} rows")
        start = position
    if start != file.metadata.num_rows:
        stated = f"{file.metadata.num_rows} rows (footer)"
        raise NotCanonical("row groups", expected=stated, actual=f"{start} rows")


def _batches(file: pq.ParquetFile, group: int, names: list[str] | None, batch_rows: int) -> Iterator[Any]:
    return file.iter_batches(batch_rows, row_groups=[group], columns=names)  # type: ignore[no-any-return]


def _nothing(file: pq.ParquetFile, group: int, batch_rows: int) -> Iterator[Any]:
    """Yield batches without columns: those of the column of the narrowest type, without it.

    The schema chooses it. pyarrow ends the process where the footer of a row group lacks the sizes of a column.
    """
    leaves = [file.schema.column(i) for i in range(len(file.schema))]
    if leaves:
        narrowest = min(leaves, key=lambda leaf: (leaf.max_repetition_level, _WIDTHS.get(leaf.physical_type, 16)))
        for batch in _batches(file, group, [narrowest.path], batch_rows):
            yield batch.select([])

"""Rows of a Parquet data file by their physical position: what deletion vectors count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import MissingExtra, NotCanonical
from dvcodec.io import RandomAccess, open_source

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["open_parquet", "physical_batches"]


@contextmanager
def open_parquet(location: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file (path or URL) by byte ranges.

    Raises:
        MissingExtra: pyarrow is not installed.
        NotCanonical: it is no Parquet file.
        OSError: it cannot be read.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415  (extra "tables")
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("pyarrow", "tables") from None
    with open_source(location) as source:
        try:
            file = pq.ParquetFile(pa.PythonFile(RandomAccess(source), mode="r"))
        except pa.ArrowInvalid as err:
            told = str(err).partition("\n")[0]
            raise NotCanonical("Parquet file", source=location, expected="a readable footer", actual=told) from None
        with file:
            yield file


def physical_batches(
    file: pq.ParquetFile, columns: Sequence[str] | None, *, batch_rows: int = 1 << 16
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each batch with the physical position of its first row.

    The position is counted from the row groups' own row counts, group by group, so that it cannot drift.

    Args:
        file: an open file.
        columns: top-level columns to read, in any order; None = all. Without any, batches have rows but no columns.
        batch_rows: at most so many rows in a batch; batches end with row groups.

    Raises:
        NotCanonical: a row group has other rows than it says, or cannot be decoded.
    """
    import pyarrow as pa  # noqa: PLC0415

    names = None if columns is None else list(columns)
    start = 0
    for group in range(file.metadata.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        at = start
        batches = _nothing(rows, batch_rows) if names == [] else _batches(file, group, names, batch_rows)
        try:
            for batch in batches:
                yield at, batch
                at += batch.num_rows
        except pa.ArrowInvalid as err:
            told = str(err).partition("\n")[0]
            raise NotCanonical(f"row group {group}", expected="readable pages", actual=told) from None
        if at != start + rows:
            raise NotCanonical(f"row group {group}", expected=f"{rows} rows", actual=f"{at - start} rows")
        start = at


def _batches(file: pq.ParquetFile, group: int, names: list[str] | None, batch_rows: int) -> Iterator[Any]:
    return file.iter_batches(batch_rows, row_groups=[group], columns=names)  # type: ignore[no-any-return]


def _nothing(rows: int, batch_rows: int) -> Iterator[Any]:
    """Batches without columns, which Parquet readers do not give."""
    import pyarrow as pa  # noqa: PLC0415

    for at in range(0, rows, batch_rows):
        count = min(batch_rows, rows - at)
        yield pa.RecordBatch.from_arrays([pa.nulls(count)], ["none"]).select([])

"""Parquet files opened by pyarrow within bounds, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.extras import pa, pc, pq
from dvcodec.core.limits import Budget, SharedWork
from dvcodec.io.parquet_footer import column_chunks, keep_footer, share_footer
from dvcodec.io.parquet_pages import page_sizes
from dvcodec.io.source import RandomAccess, Source

__all__ = ["arrow_damage", "batch_rows_of", "most_items", "parquet_file", "parquet_metadata"]

_WHOLE = 1 << 20
"""Bytes of a file that is read at once, so that the headers of its pages can be read first."""
_MOST_ITEMS = 1_000_000
"""Items of a list in a footer: pyarrow's own limit."""
_SMALL_BATCH = 1024
_BATCH_BYTES = 1 << 27
"""Bytes that a batch may have if each row repeats the largest values that are stored once."""


def parquet_file(source: Source, data: memoryview | None = None, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file whose footer is within `Limits.max_manifest_bytes`; call it in a block of `arrow_damage`.

    Args:
        source: the file.
        data: its bytes, if they have been read already.
        options: of ``pyarrow.parquet.ParquetFile``.
    """
    ranges = _Opening(source, "max_manifest_bytes")
    opened = pa.PythonFile(ranges, mode="r") if data is None else pa.BufferReader(data)
    file = pq.ParquetFile(opened, thrift_container_size_limit=most_items(source.size), **options)
    if data is not None:
        ranges.parts = [(0, data)]
    if "metadata" not in options:
        keep_footer(file, ranges.again, source.size)
    ranges.limit, ranges.parts = None, None  # only the footer was read so far
    return file


class _Opening(RandomAccess):
    """Keeps what is read to open a file, so that reading the footer again takes no request; until `parts` is None."""

    parts: list[tuple[int, bytes | memoryview]] | None

    def __init__(self, source: Source, limit: str) -> None:
        super().__init__(source, limit)
        self.parts = []

    def read(self, size: int | None = None) -> bytes:
        at = self.tell()
        data = super().read(size)
        if self.parts is not None:
            self.parts.append((at, data))
        return data

    def again(self, offset: int, size: int) -> bytes:
        """Return bytes that were read, or read them."""
        for at, data in self.parts or ():
            if at <= offset and offset + size <= at + len(data):
                return bytes(data[offset - at : offset - at + size])
        return bytes(self._source.read(offset, size))


def most_items(size: int) -> int:
    """Return how many items a list in the footer of a file of `size` bytes may have: at most one for each byte.

    A footer of 60 bytes may claim a million columns, for which pyarrow allocates 680 MB before it reads them.
    """
    return min(max(size, 1), _MOST_ITEMS)


def parquet_metadata(
    source: Source,
    row_work: int,
    *,
    dictionary: str | None = None,
    shared: SharedWork | None = None,
    **options: Any,
) -> tuple[pq.ParquetFile, int, Budget]:
    """Open a Parquet file of metadata within its `Budget`; call it in a block of `arrow_damage`.

    Charged are its rows, and if it has at most 1 MiB, the pages that a reader holds at once (kilobytes unpack to
    gigabytes), rows of pages that the footer does not count, and the values of columns that have several in a row.

    Args:
        source: the file.
        row_work: what the caller makes of a row, as `Budget` counts it.
        dictionary: column to read as a dictionary, if the file has it.
        shared: the base work of all metadata files of the table, if this is one of them.
        options: of ``pyarrow.parquet.ParquetFile``.

    Returns:
        The file, the bytes of what its rows may repeat, for `batch_rows_of`, and what is left of its budget.

    Raises:
        LimitExceeded: the rows or pages of the file exceed its budget.
        DecodeError: the footer is corrupt, or the header of a page.
    """
    data = source.read(0, source.size) if source.size <= _WHOLE else None
    file = parquet_file(source, data, **options)
    budget = Budget(source.size, source.name, shared=shared)
    rows = max(file.metadata.num_rows, 0)
    budget.charge(row_work * rows, "rows")
    if dictionary in {file.schema.column(i).path for i in range(len(file.schema))}:
        opened = file
        file = parquet_file(source, data, metadata=opened.metadata, read_dictionary=[dictionary], **options)
        share_footer(opened, file)
    if data is None:
        return file, 0, budget
    leaves = [file.schema.column(i) for i in range(len(file.schema))]
    repeated = {i for i, leaf in enumerate(leaves) if leaf.max_repetition_level}
    numbers = {i for i, leaf in enumerate(leaves) if not leaf.physical_type.endswith("BYTE_ARRAY")}
    chunks = column_chunks(file, source.name)
    sizes = page_sizes(data, chunks, source.name, budget=budget, repeated=repeated, numbers=numbers)
    budget.charge(sizes.at_once, "pages")
    budget.charge(row_work * max(sizes.rows - rows, 0), "rows")
    budget.charge(Budget.VALUE * sizes.items, "values")
    for leaf, most in sizes.repeating.items():
        if most > budget.most and leaves[leaf].physical_type == "BYTE_ARRAY":
            path = leaves[leaf].path
            encoded = parquet_file(source, data, metadata=file.metadata, read_dictionary=[path], **options)
            with arrow_damage(f"column {path}", "values whose sizes can be read"):
                budget.charge(_expanded(encoded, path), "values")
    return file, sizes.repeatable, budget


def _expanded(file: pq.ParquetFile, path: str) -> int:
    """Return how many bytes the strings of a column are that is read as a dictionary: many may be in one row."""
    total = 0
    for batch in file.iter_batches(_SMALL_BATCH, columns=[path]):
        todo = list(batch.columns)
        while todo:
            array = todo.pop()
            kind = array.type
            if pa.types.is_dictionary(kind):
                sizes = pc.binary_length(array.dictionary)
                total += pc.sum(pc.take(sizes, array.indices).cast(pa.int64())).as_py() or 0
            elif pa.types.is_struct(kind):
                todo += array.flatten()
            elif pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
                todo.append(array.flatten())
            elif pa.types.is_string(kind) or pa.types.is_binary(kind):  # pyarrow does not read all as dictionaries
                total += array.nbytes
    return total


def batch_rows_of(repeatable: int, most: int, work: int = _BATCH_BYTES) -> int:
    """Return how many rows to read at a time, so that values that are stored once do not become gigabytes.

    Args:
        repeatable: from `parquet_metadata`.
        most: upper bound.
        work: `Budget.most` of the file: a small file has small batches.

    >>> batch_rows_of(0, 65536), batch_rows_of(1 << 20, 65536)
    (65536, 128)
    """
    return max(1, min(most, min(work, _BATCH_BYTES) // max(repeatable, 1)))


@contextmanager
def arrow_damage(what: str, expected: str) -> Iterator[None]:
    """Convert pyarrow's errors for corrupt bytes to `DecodeError`; errors of the OS and of stores are not changed.

    Args:
        what: the part of the file that the block reads.
        expected: what it should be.

    Raises:
        NotCanonical: pyarrow cannot decode the bytes.
        Unsupported: pyarrow does not support a feature of the file.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as err:  # column names are decoded lazily
        # pyarrow raises OSError for corrupt bytes too, without an errno and without a store's error as its cause.
        if isinstance(err, OSError) and (err.errno is not None or err.__cause__ is not None):
            raise
        kind = Unsupported if isinstance(err, pa.ArrowNotImplementedError) else NotCanonical
        raise kind(what, expected=expected, actual=str(err).partition("\n")[0]) from None
    except KeyError as err:  # the Arrow schema that a footer may embed has another column than its own
        raise NotCanonical(what, expected=expected, actual=f"no column {err}") from None

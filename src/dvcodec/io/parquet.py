"""Parquet files opened by pyarrow within bounds, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.extras import pa, pq
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.io.parquet_footer import keep_footer, share_footer
from dvcodec.io.source import RandomAccess, Source

__all__ = ["arrow_damage", "most_items", "parquet_file", "parquet_metadata"]

_WHOLE = 1 << 20
"""Bytes of a file of metadata that is read at once."""
_MOST_ITEMS = 1_000_000
"""Items of a list in a footer: pyarrow's own limit."""


def parquet_file(
    source: Source, data: memoryview | None = None, *, limits: Limits = DEFAULT_LIMITS, **options: Any
) -> pq.ParquetFile:
    """Open a Parquet file whose footer is within `Limits.max_metadata_bytes`; call it in a block of `arrow_damage`.

    Args:
        source: the file.
        data: its bytes, if they have been read already.
        limits: bounds on what the bytes may claim.
        options: of ``pyarrow.parquet.ParquetFile``.
    """
    ranges = _Opening(source, "max_metadata_bytes", limits)
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

    def __init__(self, source: Source, limit: str, limits: Limits) -> None:
        super().__init__(source, limit, limits)
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


def parquet_metadata(source: Source, *, dictionary: str | None = None, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file of metadata; call it in a block of `arrow_damage`. A small one is read at once.

    Args:
        source: the file.
        dictionary: column to read as a dictionary, if the file has it.
        options: of `parquet_file`.

    Raises:
        DecodeError: the footer is corrupt.
    """
    data = source.read(0, source.size) if source.size <= _WHOLE else None
    file = parquet_file(source, data, **options)
    if dictionary in {file.schema.column(i).path for i in range(len(file.schema))}:
        opened = file
        file = parquet_file(source, data, metadata=opened.metadata, read_dictionary=[dictionary], **options)
        share_footer(opened, file)
    return file


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

"""Parquet files opened by pyarrow within bounds, its errors, and what footers say of columns.

pyarrow cannot be asked for the statistics of a column: its `RowGroupMetaData.column` and `statistics` end the process
on some damaged footers (statistics of another size, histograms of another length, an encrypted column), and so do its
datasets. Parsing a whole footer in Python takes twenty times as long as pyarrow does. So `column_chunks` finds columns
by their path, as Thrift stores it between the fields before and after it, and reads only these places.

Specification: parquet.thrift, ``ColumnMetaData`` and ``ColumnOrder``; Thrift's compact protocol.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from dvcodec.core.cursor import BytesLike
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.extras import pa, pq
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.varints import uvarints
from dvcodec.io.source import RandomAccess, Source

_WHOLE = 1 << 20
"""Bytes of a file of metadata that is read at once."""
_MOST_ITEMS = 1_000_000
"""Items of a list in a footer: pyarrow's own limit."""
_I32, _I64, _BINARY, _STRUCT = 5, 6, 8, 12
"""Types of fields; 1 and 2 are flags."""
_PATH, _VALUES, _SIZE, _STATISTICS = 3, 5, 7, 12
"""Fields of ``ColumnMetaData``."""
_NULLS, _HIGH, _LOW = 3, 5, 6
"""Fields of ``Statistics``."""
_PATHS = re.compile(rb"\x19[\x18\x28\x38\x48](.)", re.DOTALL)
"""A list of one to four texts, in the field after another, and the length of the first text."""

Path: TypeAlias = "tuple[str, ...]"
T = TypeVar("T")


_footers: WeakKeyDictionary[pq.ParquetFile, bytes] = WeakKeyDictionary()


def parquet_file(
    source: Source, data: memoryview | None = None, *, limits: Limits = DEFAULT_LIMITS, **options: Any
) -> pq.ParquetFile:
    """Open a Parquet file whose footer is within `Limits.max_metadata_bytes`; call it in a block of `arrow_damage`.

    A footer of 60 bytes may claim a million columns, for which pyarrow allocates 680 MB before it reads them: no list
    in it has more items than the file has bytes.

    Args:
        source: the file.
        data: its bytes, if they have been read already.
        limits: bounds on what the bytes may claim.
        options: of ``pyarrow.parquet.ParquetFile``.
    """
    ranges = _Opening(source, limits)
    opened = pa.PythonFile(ranges, mode="r") if data is None else pa.BufferReader(data)
    most = min(max(source.size, 1), _MOST_ITEMS)
    file = pq.ParquetFile(opened, thrift_container_size_limit=most, **options)
    if "metadata" not in options:
        end, *rest = ranges.reads if data is None else [bytes(data)]
        _footers[file] = rest[-1] if rest else footer_of(end)
    ranges.limit = None  # only the footer was read so far
    return file


class _Opening(RandomAccess):
    """Keeps what is read while `limit` is set: the end of the file, and its footer if the end does not hold it."""

    def __init__(self, source: Source, limits: Limits) -> None:
        super().__init__(source, "max_metadata_bytes", limits)
        self.reads: list[bytes] = []

    def read(self, size: int | None = None) -> bytes:
        data = super().read(size)
        if self.limit is not None:
            self.reads.append(data)
        return data


def small_parquet(data: BytesLike, *dictionaries: str) -> pq.ParquetFile:
    """Open a Parquet file in memory, whose size bounds what its footer may claim; see `parquet_file`.

    Args:
        data: its bytes.
        dictionaries: columns to read as dictionaries, whether the file has them or not.
    """
    opened, most = pa.BufferReader(data), max(len(data), 1)
    return pq.ParquetFile(
        opened,
        thrift_container_size_limit=most,
        read_dictionary=list(dictionaries),
        pre_buffer=False,
        page_checksum_verification=True,
    )


def footer_of(data: bytes) -> bytes:
    """Return the footer in the last bytes of a Parquet file, which have all of it."""
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def parquet_metadata(source: Source, *, dictionary: str | None = None, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file of metadata; call it in a block of `arrow_damage`. A small one is read at once.

    Checksums of pages are verified if the file has them, as those have that `write_position_deletes` writes.

    Args:
        source: the file.
        dictionary: column to read as a dictionary, if the file has it.
        options: of `parquet_file`.

    Raises:
        DecodeError: the footer is corrupt.
    """
    data = source.read(0, source.size) if source.size <= _WHOLE else None
    options["page_checksum_verification"] = True
    file = parquet_file(source, data, **options)
    if dictionary in {file.schema.column(i).path for i in range(len(file.schema))}:
        file = parquet_file(source, data, metadata=file.metadata, read_dictionary=[dictionary], **options)
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


class ColumnChunk(NamedTuple):
    """What a footer says of a column in a row group, each None if it does not.

    Attributes:
        values: values in its pages, nulls included.
        size: bytes of its pages.
        low: lower bound of its values as stored, if the footer says that bounds are in the order of the column's type.
        high: upper bound.
        nulls: how many values are null.
    """

    values: int | None
    size: int | None
    low: bytes | None
    high: bytes | None
    nulls: int | None


def column_chunks(file: pq.ParquetFile, paths: Iterable[Path]) -> dict[Path, list[ColumnChunk]]:
    """Return what the footer says of columns in each row group, in order.

    Left out are columns that are unknown: those that are not found once in each row group.

    Args:
        file: a file that `parquet_file` opened, without its ``metadata``.
        paths: one to four names from the top-level column down to each; columns with a name of more than 127 bytes are
            unknown.
    """
    return ColumnChunks(file.schema, paths).find(_footers[file], file.num_row_groups)


class ColumnChunks:
    """Finds what footers of one schema say of columns.

    Args:
        schema: the schema.
        paths: see `column_chunks`.
    """

    def __init__(self, schema: pq.ParquetSchema, paths: Iterable[Path]) -> None:
        leaves = {schema.column(i).path: i for i in range(len(schema))}
        self._leaves = {path: leaves[".".join(path)] for path in paths if ".".join(path) in leaves}
        self._by_first: dict[bytes, list[tuple[bytes, Path]]] = defaultdict(list)
        for path in self._leaves:
            names = [name.encode() for name in path]
            stored = b"".join(uvarints(len(name)) + name for name in names)
            self._by_first[names[0]].append((bytes([0x19, len(names) << 4 | _BINARY]) + stored + b"\x15", path))
        head = bytes([len(leaves) << 4 | _STRUCT]) if len(leaves) < 15 else b"\xfc" + uvarints(len(leaves))
        self._orders = re.compile(rb"[\x19\x29\x39]%b((?:[\x1c\x2c]\0\0){%d})" % (re.escape(head), max(len(leaves), 1)))

    def find(self, footer: bytes, groups: int) -> dict[Path, list[ColumnChunk]]:
        """Return what a footer says of columns in each row group, in order; see `column_chunks`.

        Args:
            footer: its bytes.
            groups: how many row groups it has.
        """
        found = {}
        for path, places in self._places(footer).items():
            if len(places) == groups:
                try:
                    ordered = bool(places) and self._is_ordered(footer, places[-1], self._leaves[path])
                    found[path] = [_chunk(memoryview(footer)[place:], ordered) for place in places]
                except IndexError:  # the footer ends first
                    pass
        return found

    def _places(self, footer: bytes) -> dict[Path, list[int]]:
        """Return where the fields after the path begin, for each column."""
        places: dict[Path, list[int]] = {path: [] for path in self._leaves}
        for match in _PATHS.finditer(footer):
            first = footer[match.end() : match.end() + footer[match.end() - 1]]
            for stored, path in self._by_first.get(first, ()):
                if footer.startswith(stored, match.start()):
                    places[path].append(match.start() + len(stored) - 1)
        return places

    def _is_ordered(self, footer: bytes, start: int, leaf: int) -> bool:
        """Whether the bounds of a column are in the order of its type, by the list of orders behind the row groups.

        An order is a union of structs without fields; the first of them is that order.
        """
        found = self._orders.search(footer, start)
        return found is not None and found[1][3 * leaf] == 0x1C


def _chunk(data: memoryview, ordered: bool) -> ColumnChunk:
    metadata = _fields(data, _PATH)
    statistics = _fields(_get(metadata, _STATISTICS, memoryview) or memoryview(b"\0"))
    low, high = (_get(statistics, end, memoryview) if ordered else None for end in (_LOW, _HIGH))
    return ColumnChunk(
        _get(metadata, _VALUES, int),
        _get(metadata, _SIZE, int),
        None if low is None else bytes(low),
        None if high is None else bytes(high),
        _get(statistics, _NULLS, int),
    )


def _fields(data: memoryview, number: int = 0) -> dict[int, int | memoryview]:
    """Return numbers and texts of a struct, up to the first field of another type; of a struct, all that follows.

    Args:
        data: from a field on.
        number: of the field before it.

    Raises:
        IndexError: the bytes end first.
    """
    found: dict[int, int | memoryview] = {}
    at = 0
    while (head := data[at]) > 15:  # 0 ends a struct, others have their number in full
        number, kind, at = number + (head >> 4), head & 15, at + 1
        if kind in (_I32, _I64):
            value, at = _varint(data, at)
            found[number] = value >> 1 ^ -(value & 1)
        elif kind == _BINARY:
            size, at = _varint(data, at)
            found[number] = data[at : at + size]
            at += size
        elif kind > 2:
            if kind == _STRUCT:
                found[number] = data[at:]
            break
    return found


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
    return value, at


def _get(found: dict[int, int | memoryview], number: int, kind: type[T]) -> T | None:
    value = found.get(number)
    return value if isinstance(value, kind) else None

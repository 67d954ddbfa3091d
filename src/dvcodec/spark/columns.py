"""Schemas of the Spark integration, and Arrow columns as flat NumPy arrays, without a copy where the layouts agree.

A binary column is one buffer of bytes and offsets into it; so are `ByteStrings`. Bulk readers of
vectors take the buffer, and the start and size of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import ByteStrings, offsets_of

MAX_OFFSET = 2**31 - 1
"""Maximum bytes, or list elements, of an Arrow column with 32-bit offsets, the only ones that Spark takes."""


class BinaryColumn(NamedTuple):
    """Byte strings (or UTF-8 strings) of a column, in place."""

    data: NDArray[np.uint8]
    """The shared buffer."""
    starts: NDArray[np.int64]
    """First byte of each in `data`."""
    sizes: NDArray[np.int64]
    """Bytes of each; 0 for a null."""
    valid: NDArray[np.bool_]
    """False for a null."""

    def view(self, i: int) -> memoryview:
        """Return one of them, without copying; a null has no bytes."""
        start = int(self.starts[i])
        return self.data.data[start : start + int(self.sizes[i])]

    def take(self, index: NDArray[np.int64]) -> BinaryColumn:
        """Return some of them, over the same buffer."""
        return BinaryColumn(self.data, self.starts[index], self.sizes[index], self.valid[index])


def binary_column(column: pa.Array) -> BinaryColumn:
    """Return the buffers of an Arrow array of binary or strings (large or not), without a copy; slices are fine.

    Raises:
        UsageError: the column has another type.
    """
    kind = column.type
    large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not (large or pa.types.is_binary(kind) or pa.types.is_string(kind)):
        raise UsageError(f"need a binary column, not one of {kind}")
    count = len(column)
    _, offsets, data = column.buffers()
    if not count or offsets is None:
        none = np.zeros(count, np.int64)
        return BinaryColumn(np.zeros(0, np.uint8), none, none, _valid(column))
    width = 8 if large else 4
    bounds = np.frombuffer(offsets, f"<i{width}", count + 1, column.offset * width).astype(np.int64)
    valid = _valid(column)
    sizes = np.diff(bounds)
    if column.null_count:
        sizes[~valid] = 0
    return BinaryColumn(
        np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8), bounds[:-1], sizes, valid
    )


def _valid(column: pa.Array) -> NDArray[np.bool_]:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def texts_of(column: pa.Array) -> list[str | None]:
    """Return the strings of a column. Spark's hold any bytes: those that are not UTF-8 become surrogates."""
    try:
        found: list[str | None] = column.to_pylist()
    except UnicodeDecodeError:
        stored = column.cast(pa.binary()).to_pylist()
        found = [None if one is None else one.decode(errors="surrogateescape") for one in stored]
    return found


def text_array(texts: Sequence[str | None]) -> pa.Array:
    """Return texts as an Arrow array of strings; lone surrogates, which these cannot have, are escaped."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        escaped = [None if one is None else one.encode(errors="backslashreplace").decode() for one in texts]
        return pa.array(escaped, pa.string())


def is_utf8(text: str | None) -> bool:
    """Whether Arrow's strings can hold a text; False if it has a lone surrogate."""
    return text is None or text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def numbers(column: pa.Array) -> NDArray[np.int64]:
    """Return a column of integers, -1 for a null."""
    return np.asarray(column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def binary_array(strings: ByteStrings, *, valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return byte strings as an Arrow binary array over the same bytes.

    Args:
        strings: the byte strings, which must not be changed afterwards.
        valid: False gives a null; None: no nulls.

    Raises:
        UsageError: more than 2**31 - 1 bytes: cut them into several batches (see `pieces`).
    """
    if len(strings.data) > MAX_OFFSET:
        raise UsageError(f"{len(strings.data)} bytes do not fit one column of a batch, at most {MAX_OFFSET} do")
    nulls = None if valid is None else pa.array(valid).buffers()[1]
    buffers = [nulls, pa.py_buffer(strings.offsets.astype("<i4")), pa.py_buffer(np.ascontiguousarray(strings.data))]
    return pa.Array.from_buffers(pa.binary(), len(strings), buffers)


def list_array(
    values: pa.Array | NDArray[np.int64], counts: NDArray[np.int64], valid: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return runs of values as an Arrow array of lists.

    Args:
        values: values of all lists, concatenated; not copied.
        counts: values in each list.
        valid: False gives a null; None: no nulls.

    Raises:
        UsageError: more than 2**31 - 1 values.
    """
    if len(values) > MAX_OFFSET:
        raise UsageError(f"{len(values)} numbers do not fit one column of a batch, at most {MAX_OFFSET} do")
    items = values if isinstance(values, pa.Array) else pa.array(values)
    mask = None if valid is None else pa.array(~valid)
    return pa.ListArray.from_arrays(pa.array(offsets_of(counts).astype(np.int32)), items, mask=mask)


def maximal_ranges(
    positions: NDArray[np.int64], owner: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the maximal ranges ``[start, stop)`` of positions, int64[n, 2], and the owner of each.

    Args:
        positions: of all owners, concatenated; they ascend in each.
        owner: the owner of each position.
    """
    begins = np.append(True, (np.diff(positions) != 1) | (np.diff(owner) != 0))
    heads = np.flatnonzero(begins[: len(positions)])
    tails = np.append(heads[1:], len(positions))[: len(heads)] - 1
    return np.stack([positions[heads], positions[tails] + 1], axis=1), owner[heads]


def range_array(ranges: NDArray[np.int64]) -> pa.Array:
    """Return ranges, int64[n, 2], as an Arrow array of structs ``start``, ``stop``."""
    columns = [pa.array(np.ascontiguousarray(column)) for column in ranges.T]
    return pa.StructArray.from_arrays(columns, ["start", "stop"])


BINARY, BOOLEAN, INT, LONG, STRING = BinaryType(), BooleanType(), IntegerType(), LongType(), StringType()


def struct(**fields: DataType) -> StructType:
    """Return a struct of nullable fields."""
    return StructType([StructField(name, kind) for name, kind in fields.items()])


VECTORS = struct(data_file=STRING, cardinality=LONG, dv=BINARY)
"""Output of jobs: a data file, the number of its deleted rows, and its vector as one frame."""

MIX = struct(arrays=INT, bitsets=INT, runs=INT)
"""Containers of each kind."""

RANGE = struct(start=LONG, stop=LONG)
"""Rows from ``start`` to before ``stop``."""

STORED_VECTORS = struct(
    **dict.fromkeys(("container", "format", "data_file"), STRING),
    **dict.fromkeys(("offset", "size", "cardinality", "min", "max"), LONG),
    containers=MIX,
    crc_ok=BOOLEAN,
    error=STRING,
    dv=BINARY,
)
"""Rows of the data source ``dvcodec``, one per stored vector.

``container`` is the file, ``format`` how its vectors are wrapped (`dvcodec.ContainerKind`); ``offset`` and ``size``
are the whole frame's, in bytes; ``containers`` counts roaring containers. If a vector or a whole file is corrupt,
``error`` says why, and values that could not be read are null.
"""

FILE_VECTORS = StructType(STORED_VECTORS.fields[:-1])
"""Output of an audit: all columns but the vectors."""


_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
"""pyspark 4.3 needs a time zone for timestamps; earlier versions use UTC."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a Spark schema, moments in UTC."""
    made: pa.Schema = to_arrow_schema(schema, **_IN_UTC)
    return made


def column_named(name: str) -> Column:
    """Return the column of exactly this name, which may have dots."""
    return sf.col("`{}`".format(name.replace("`", "``")))

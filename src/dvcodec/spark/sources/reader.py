"""Reading containers of vectors as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from dvcodec.core.batch import survey
from dvcodec.core.errors import UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings, Index, offsets_of
from dvcodec.formats import ContainerKind
from dvcodec.io import Storage
from dvcodec.io.target import file_key
from dvcodec.ops.read import ALLOWED
from dvcodec.spark.columns import (
    STORED_VECTORS,
    binary_array,
    is_utf8,
    text_array,
)
from dvcodec.spark.compat import datasource
from dvcodec.spark.sources.listing import FilePartition, Want, plan
from dvcodec.spark.sources.options import ReadOptions
from dvcodec.spark.sources.read_windows import Window, windows
from dvcodec.spark.sources.requests import counted, fetched_ahead

BATCH_BYTES = 1 << 24
BATCH_ROWS = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Verified:
    """Verified vectors of several windows; one entry per row.

    Attributes:
        of_window: window of each.
        data: bytes of all frames.
        starts: first byte of each frame in `data`.
        sizes: bytes of each frame in `data`; 0 if it is corrupt.
        cardinality: rows.
        min: lowest position, -1 for none.
        max: highest position, -1 for none.
        mix: int64[n, 3], containers of each kind.
        crc_ok: 1, 0, or -1 for unknown.
        errors: error texts, by index.
    """

    of_window: Index
    data: NDArray[np.uint8]
    starts: Index
    sizes: Index
    cardinality: Index
    min: Index
    max: Index
    mix: Index
    crc_ok: Index
    errors: dict[int, str]

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Whether each has no error."""
        valid = np.ones(len(self.of_window), np.bool_)
        valid[list(self.errors)] = False
        return valid


def pools(windows: Iterable[Window]) -> Iterator[list[Window]]:
    """Group windows into batches of bounded size."""
    pool: list[Window] = []
    weight = rows = 0
    for window in windows:
        if pool and (weight + len(window.data) > BATCH_BYTES or rows + len(window.ranges) > BATCH_ROWS):
            yield pool
            pool, weight, rows = [], 0, 0
        pool.append(window)
        weight += len(window.data)
        rows += len(window.ranges)
    if pool:
        yield pool


def verify_windows(pool: list[Window], *, content: bool, verify: bool, limits: Limits = DEFAULT_LIMITS) -> Verified:
    """Verify the vectors of windows.

    Args:
        pool: windows that were read.
        content: whether they have bytes; without them only ranges are known.
        verify: whether to compare CRCs.
        limits: bounds on what the bytes may claim.
    """
    counts = np.array([len(window.ranges) for window in pool], np.int64)
    of_window = np.repeat(np.arange(len(pool)), counts)
    n = len(of_window)
    none = np.zeros(n, np.int64)
    filled = [window.data for window in pool if len(window.data)]
    data = filled[0] if len(filled) == 1 else np.concatenate(filled) if filled else np.zeros(0, np.uint8)
    places = offsets_of(np.array([len(window.data) for window in pool], np.int64))[:-1]
    starts = np.concatenate([window.starts for window in pool]) + places[of_window]
    sizes = np.concatenate([window.sizes for window in pool])
    result = Verified(
        of_window,
        data,
        starts,
        sizes,
        none,
        none - 1,
        none - 1,
        np.zeros((n, 3), np.int64),
        np.full(n, -1, np.int64),
        {},
    )
    known = _put_outcomes(pool, offsets_of(counts), result)
    if not content:
        return result
    kinds: dict[ContainerKind, list[int]] = {}
    for i, window in enumerate(pool):
        kinds.setdefault(window.ranges.kind, []).append(i)
    stated = np.concatenate([window.ranges.stated for window in pool])
    for kind, members in kinds.items():
        index = np.flatnonzero(~known if len(kinds) == 1 else ~known & np.isin(of_window, members))
        if not len(index):  # of a kind without frames: read one by one
            continue
        found = survey(
            data,
            starts[index],
            sizes[index],
            allowed=ALLOWED[kind],
            cardinalities=stated[index],
            limits=limits,
            verify_checksum=verify,
        )
        for name in ("cardinality", "min", "max", "mix"):
            getattr(result, name)[index] = getattr(found, name)
        if verify:
            result.crc_ok[index] = found.crc_ok
        for i, error in found.errors.items():
            row = int(index[i])
            of = int(of_window[row])
            error.source = pool[of].name
            if error.offset is not None:  # an offset in the joined windows; report that in the file
                error.offset += pool[of].base - int(places[of])
            result.errors[row] = str(error)
    result.sizes[~result.valid] = 0
    return result


def _put_outcomes(pool: list[Window], first: Index, result: Verified) -> NDArray[np.bool_]:
    known = np.zeros(len(result.of_window), np.bool_)
    for w, window in enumerate(pool):
        for i, outcome in window.outcomes.items():
            row = int(first[w]) + i
            known[row] = True
            result.cardinality[row], result.min[row], result.max[row] = outcome.cardinality, outcome.min, outcome.max
            result.mix[row] = outcome.mix
            if outcome.error is not None:
                result.errors[row] = outcome.error
    return known


def batches(
    windows: Iterable[Window], schema: pa.Schema, *, content: bool, verify: bool, limits: Limits = DEFAULT_LIMITS
) -> Iterator[pa.RecordBatch]:
    """Yield windows as batches of a schema.

    Args:
        windows: in the order of the rows.
        schema: the columns, in order.
        content: whether the windows have bytes; without them only ranges are known.
        verify: whether to compare CRCs.
        limits: bounds on what the bytes may claim.
    """
    for pool in pools(windows):
        found = verify_windows(pool, content=content, verify=verify, limits=limits)
        _refuse_names(pool, found)
        yield pa.RecordBatch.from_arrays([_column(field, pool, found) for field in schema], schema=schema)


def _refuse_names(pool: list[Window], found: Verified) -> None:
    """Add an error to vectors whose data file has a name that no column of strings can hold."""
    for i, name in enumerate(name for window in pool for name in window.ranges.data_files):
        if not is_utf8(name):
            found.errors.setdefault(i, f"{name!a:.200}: a data file whose name is not UTF-8")


def _column(field: pa.Field, pool: list[Window], found: Verified) -> pa.Array:
    name, valid = field.name, found.valid
    if name in ("container", "format"):
        texts = [window.ranges.path if name == "container" else window.ranges.format for window in pool]
        return text_array(texts).take(pa.array(found.of_window))
    if name == "data_file":
        return text_array([text for window in pool for text in window.ranges.data_files])
    if name in ("offset", "size"):
        columns = [window.ranges.offsets if name == "offset" else window.ranges.lengths for window in pool]
        values = np.concatenate(columns)
        return pa.array(values, mask=values < 0)
    if name in ("cardinality", "min", "max"):
        values = getattr(found, name)
        return pa.array(values, mask=~valid | (values < 0))
    if name == "containers":
        columns = [pa.array(found.mix[:, k].astype(np.int32)) for k in range(3)]
        return pa.StructArray.from_arrays(columns, fields=list(field.type), mask=pa.array(~valid))
    if name == "crc_ok":
        return pa.array(found.crc_ok > 0, mask=found.crc_ok < 0)
    if name == "error":
        texts = [found.errors.get(i) for i in range(len(valid))] if found.errors else [None] * len(valid)
        return text_array(texts)
    return binary_array(ByteStrings.cut(found.data, found.starts, found.sizes), valid=valid)


def wanted_values(one: datasource.Filter, column: str) -> frozenset[str] | None:
    """Return the values that ``=`` or ``in`` leaves; None for any other filter, or of another column.

    Args:
        one: what Spark hands to `pushFilters` (pyspark 4.1).
        column: a column of strings, not in a struct.
    """
    if getattr(one, "attribute", None) != (column,):
        return None
    if isinstance(one, datasource.EqualTo):
        return frozenset([one.value]) if isinstance(one.value, str) else None
    if isinstance(one, datasource.In):
        return frozenset(value for value in one.value if isinstance(value, str))
    return None


_PLACE = {"container", "format", "data_file", "offset", "size"}
"""Columns that do not need the vectors' bytes."""


def schema_of(options: ReadOptions) -> StructType:
    """Return the schema of a read without a user's schema.

    Raises:
        UsageError: `columns` names an unknown column.
    """
    return StructType([STORED_VECTORS[name] for name in _checked(options.columns or STORED_VECTORS.names)])


def _checked(names: Iterable[str]) -> list[str]:
    chosen = list(names)
    for name in chosen:
        if name not in STORED_VECTORS.names:
            raise UsageError(f"no column {name!r}, expected some of {', '.join(STORED_VECTORS.names)}")
        if chosen.count(name) > 1:
            raise UsageError(f"column {name!r} twice")
    return chosen


def reader_of(options: ReadOptions, schema: StructType) -> VectorReader:
    """Return a reader of these columns.

    Raises:
        UsageError: no path, or unknown columns.
    """
    if not options.paths:
        raise UsageError("nothing to read: load(path), or the option paths")
    names = _checked(schema.names)
    if options.columns is not None and sorted(options.columns) != sorted(names):
        raise UsageError(f"the schema has the columns {', '.join(names)}, the option {', '.join(options.columns)}")
    for field in schema.fields:
        expected, given = STORED_VECTORS[field.name].dataType.simpleString(), field.dataType.simpleString()
        if expected != given:
            raise UsageError(f"column {field.name!r}: expected {expected}, found {given}")
    # pyspark before 4.1 has no pushFilters, and a reader that defines it fails unless push-down is enabled.
    pushes = options.push_filters and hasattr(datasource.DataSourceReader, "pushFilters")
    return (_FilteringReader if pushes else VectorReader)(options, schema)


class VectorReader(datasource.DataSourceReader):
    """Reads the vectors of containers; see `VectorSource`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.names = schema.names
        self.schema: pa.Schema = to_arrow_schema(schema)
        self.data_files: frozenset[str] | None = None
        """Data files of pushed filters, spelled exactly so."""

    def partitions(self) -> list[datasource.InputPartition]:
        """Distribute the files among tasks."""
        with counted("plan", *self.options.paths):
            return list(plan(self.options)) or [FilePartition(())]

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's partition."""
        options = self.options
        content = not _PLACE.issuperset(self.names)
        named = options.data_files
        keys = None if named is None else frozenset(map(file_key, named))
        want = Want(options.kind, options.ignore_others, options.verify_checksum, content, self.data_files, keys)
        splits = partition.splits if isinstance(partition, FilePartition) else ()
        stores = Storage(dict(options.storage_options), options.limits)
        found = chain.from_iterable(windows(part, want, stores) for part in fetched_ahead(splits, stores))
        with counted("read", *(part.path for part in splits[:1])):
            yield from batches(
                found, self.schema, content=content, verify=options.verify_checksum, limits=options.limits
            )


class _FilteringReader(VectorReader):
    """Accepts filters on ``data_file``."""

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterator[datasource.Filter]:  # noqa: N802  (Spark's)
        """Accept ``=`` and ``in`` on ``data_file``; return the other filters."""
        for one in filters:
            wanted = wanted_values(one, "data_file")
            if wanted is None:
                yield one
            else:
                self.data_files = wanted if self.data_files is None else self.data_files & wanted

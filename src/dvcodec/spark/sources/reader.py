"""Reading containers of vectors as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, StructField, StructType

from dvcodec.core.errors import UsageError
from dvcodec.io import Storage
from dvcodec.io.file_key import file_key
from dvcodec.spark.schemas import INT, LONG, RANGE, STORED_VECTORS, struct
from dvcodec.spark.sources.ahead import fetched_ahead
from dvcodec.spark.sources.counts import counted
from dvcodec.spark.sources.filters import wanted_values
from dvcodec.spark.sources.listing import Share, plan
from dvcodec.spark.sources.options import ReadOptions
from dvcodec.spark.sources.read_windows import windows
from dvcodec.spark.sources.rows import batches
from dvcodec.spark.sources.vector_index import Want

__all__ = ["VectorReader", "reader_of", "schema_of"]

_EXPANDED = {
    "none": struct(),
    "positions": struct(part=INT, positions=ArrayType(LONG)),
    "ranges": struct(part=INT, ranges=ArrayType(RANGE)),
}
_PLACE = {"container", "format", "data_file", "offset", "size"}
"""Columns that do not need the vectors' bytes."""


def _offered(options: ReadOptions) -> dict[str, StructField]:
    fields = [*STORED_VECTORS.fields, *_EXPANDED[options.rows].fields]
    return {field.name: field for field in fields}


def schema_of(options: ReadOptions) -> StructType:
    """Return the schema of a read without a user's schema.

    Raises:
        UsageError: `columns` names an unknown column.
    """
    offered = _offered(options)
    default = [name for name in offered if options.rows == "none" or name != "dv"]
    return StructType([offered[name] for name in _checked(options.columns or default, options)])


def _checked(names: Iterable[str], options: ReadOptions) -> list[str]:
    offered, chosen = _offered(options), list(names)
    for name in chosen:
        if name not in offered:
            hint = f"; option rows={name} adds it" if name in ("positions", "ranges") else ""
            raise UsageError(f"no column {name!r}, expected some of {', '.join(offered)}{hint}")
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
    names = _checked(schema.names, options)
    if options.columns is not None and sorted(options.columns) != sorted(names):
        raise UsageError(f"the schema has the columns {', '.join(names)}, the option {', '.join(options.columns)}")
    offered = _offered(options)
    for field in schema.fields:
        expected, given = offered[field.name].dataType.simpleString(), field.dataType.simpleString()
        if expected != given:
            raise UsageError(f"column {field.name!r}: expected {expected}, found {given}")
    # pyspark before 4.1 has no pushFilters, and a reader that defines it fails unless push-down is enabled.
    pushes = options.push_filters and hasattr(DataSourceReader, "pushFilters")
    return (_FilteringReader if pushes else VectorReader)(options, schema)


class VectorReader(DataSourceReader):
    """Reads the vectors of containers; see `VectorSource`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.names = schema.names
        self.schema: pa.Schema = to_arrow_schema(schema)
        self.data_files: frozenset[str] | None = None
        """Data files of pushed filters, spelled exactly so."""

    def partitions(self) -> list[InputPartition]:
        """Distribute the files among tasks."""
        with counted("plan", *self.options.paths):
            return list(plan(self.options)) or [Share(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's share."""
        options = self.options
        content = not _PLACE.issuperset(self.names)
        named = options.data_files
        keys = None if named is None else frozenset(map(file_key, named))
        want = Want(options.kind, options.ignore_others, options.verify_checksum, content, self.data_files, keys)
        units = partition.units if isinstance(partition, Share) else ()
        stores = Storage(dict(options.storage_options))
        found = chain.from_iterable(windows(unit, want, stores) for unit in fetched_ahead(units, stores))
        with counted("read", *(unit.path for unit in units[:1])):
            yield from batches(found, self.schema, content=content, verify=options.verify_checksum, rows=options.rows)


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

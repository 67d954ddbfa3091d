"""Reading containers of vectors as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, IntegerType, LongType, StructField, StructType

from dvcodec.core.errors import UsageError
from dvcodec.io import Storage
from dvcodec.io.file_key import file_key
from dvcodec.io.target import local_path
from dvcodec.spark.schemas import STORED_VECTORS
from dvcodec.spark.sources.ahead import fetch_small, run_ahead
from dvcodec.spark.sources.counts import counted
from dvcodec.spark.sources.listing import Share, Unit, plan
from dvcodec.spark.sources.options import ReadOptions
from dvcodec.spark.sources.read_windows import windows
from dvcodec.spark.sources.rows import batches
from dvcodec.spark.sources.vector_index import Want

__all__ = ["VectorReader", "reader_of", "schema_of"]

_RANGE = StructType([StructField("start", LongType()), StructField("stop", LongType())])
_EXPANDED = {
    "none": [],
    "positions": [StructField("part", IntegerType()), StructField("positions", ArrayType(LongType()))],
    "ranges": [StructField("part", IntegerType()), StructField("ranges", ArrayType(_RANGE))],
}
_PLACE = {"container", "format", "data_file", "offset", "size"}
"""Columns that need no look at the vectors themselves."""


def _offered(options: ReadOptions) -> dict[str, StructField]:
    fields = [*STORED_VECTORS.fields, *_EXPANDED[options.rows]]
    return {field.name: field for field in fields}


def schema_of(options: ReadOptions) -> StructType:
    """Return the schema that a read without one of its own has.

    Raises:
        UsageError: `columns` names what there is not.
    """
    offered = _offered(options)
    default = [name for name in offered if options.rows == "none" or name != "dv"]
    return StructType([offered[name] for name in _checked(options.columns or default, options)])


def _checked(names: Iterable[str], options: ReadOptions) -> list[str]:
    offered, chosen = _offered(options), list(names)
    for name in chosen:
        if name not in offered:
            hint = f"; option rows={name} adds it" if name in ("positions", "ranges") else ""
            raise UsageError(f"no column {name!r}, there are: {', '.join(offered)}{hint}")
        if chosen.count(name) > 1:
            raise UsageError(f"column {name!r} twice")
    return chosen


def reader_of(options: ReadOptions, schema: StructType) -> VectorReader:
    """Return a reader of these columns.

    Raises:
        UsageError: no path, or columns that there are not.
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
            raise UsageError(f"column {field.name!r} is {expected}, not {given}")
    # Before 4.1 there are no filters to push, and a reader that defines the method fails where it is not enabled.
    pushes = options.push_filters and hasattr(DataSourceReader, "pushFilters")
    return (_FilteringReader if pushes else VectorReader)(options, schema)


class VectorReader(DataSourceReader):
    """Reads the vectors of containers; see `VectorSource`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.names = schema.names
        self.schema: pa.Schema = to_arrow_schema(schema)
        self.data_files: frozenset[str] | None = None
        """What the filters of a query name, letter for letter."""

    def partitions(self) -> list[InputPartition]:
        """Share the files out among tasks."""
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
        found = chain.from_iterable(windows(unit, want, stores) for unit in _ahead(units, stores))
        with counted("read", *(unit.path for unit in units[:1])):
            yield from batches(found, self.schema, content=content, verify=options.verify_checksum, rows=options.rows)


def _ahead(units: tuple[Unit, ...], stores: Storage) -> Iterable[Unit]:
    """Fetch remote files ahead."""
    if not units or local_path(units[0].path) is not None:
        return units
    return run_ahead(units, lambda unit: fetch_small(unit.path, unit.size, stores), stores.threads(units[0].path))


class _FilteringReader(VectorReader):
    """One that leaves out the vectors of other data files."""

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterator[datasource.Filter]:  # noqa: N802  (Spark's)
        """Take equality and membership of ``data_file``; give the rest back."""
        for one in filters:
            wanted = _data_files(one)
            if wanted is None:
                yield one
            else:
                self.data_files = wanted if self.data_files is None else self.data_files & wanted


def _data_files(one: datasource.Filter) -> frozenset[str] | None:
    if getattr(one, "attribute", None) != ("data_file",):
        return None
    if isinstance(one, datasource.EqualTo):
        return frozenset([one.value]) if isinstance(one.value, str) else None
    if isinstance(one, datasource.In):
        return frozenset(value for value in one.value if isinstance(value, str))
    return None

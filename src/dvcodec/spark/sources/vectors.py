"""The data source ``dvcodec``: files found and distributed among tasks, and containers of vectors read as rows.

The driver does not open small files. They are packed in order into partitions of bounded size; each adds an open cost,
that of a request if it is remote. A larger Puffin file is split by byte ranges: each task finds its vectors in the
footer. Other containers are read by one task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from dvcodec.core.batch import Survey, survey
from dvcodec.core.errors import UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings, Index, offsets_of
from dvcodec.core.vector import Magic
from dvcodec.formats import ContainerKind
from dvcodec.io import Storage
from dvcodec.io.target import join, split
from dvcodec.ops.read import ALLOWED
from dvcodec.puffin import MAGIC as PUFFIN_MAGIC
from dvcodec.spark.columns import (
    STORED_VECTORS,
    binary_array,
    is_utf8,
    text_array,
)
from dvcodec.spark.compat import datasource
from dvcodec.spark.sources.files import (
    FileEntry,
    FilePartition,
    FileSplit,
    FoundFiles,
    counted,
    evenly,
    fetched_ahead,
    find_all,
    packed,
)
from dvcodec.spark.sources.options import ReadOptions, WriteOptions
from dvcodec.spark.sources.windows import Window, windows
from dvcodec.spark.sources.writer import committed_in, writer_of

_AT_ONCE = 16
"""Large files opened at once: each remote one is a round trip."""
BATCH_BYTES = 1 << 24
BATCH_ROWS = 1 << 15


def plan(options: ReadOptions) -> list[FilePartition]:
    """Find the files and distribute them. The same files give the same partitions in the same order.

    Raises:
        UsageError: a path that does not exist.
        OSError: a folder or file that cannot be read.
        DecodeError: a manifest that is corrupt.
    """
    stores = Storage(dict(options.storage_options), options.limits)
    splits = list(_splits(options, stores))
    large = [part for part in splits if part.size > options.partition_bytes]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        cut = dict(zip(large, pool.map(lambda part: _cut(part, options.partition_bytes, stores), large), strict=True))
    pieces = [piece for part in splits for piece in cut.get(part, [part])]
    return packed(pieces, options.partition_bytes, options.open_cost)


def _splits(options: ReadOptions, stores: Storage) -> Iterator[FileSplit]:
    seen: set[str] = set()
    committed: dict[str, dict[str, str] | None] = {}
    for found in find_all(options.paths, stores):
        for part in _found(found, committed if options.committed else None, stores):
            if part.path not in seen:
                seen.add(part.path)
                yield part


def _found(
    found: FoundFiles, committed: dict[str, dict[str, str] | None] | None, stores: Storage
) -> Iterator[FileSplit]:
    """Skip files that no manifest of their folder names; add files that manifests name but that are missing."""
    if committed is None:
        yield from map(FileSplit.of, found.files)
        return
    for folder, hidden in found.folders.items():
        committed[folder] = committed_in(folder, hidden, stores)
    there: set[tuple[str, str]] = set()
    for entry in found.files:
        folder, name = split(entry.path)
        if folder not in committed:
            # Web servers do not list their files.
            names = () if folder.lower().startswith(("http://", "https://")) else None
            committed[folder] = committed_in(folder, names, stores)
        there.add((folder, name))
        containers = committed[folder]
        if not entry.listed or containers is None or name in containers:
            yield FileSplit.of(entry, (containers or {}).get(name))
    for folder in found.folders:
        for name, manifest in sorted((committed[folder] or {}).items()):
            if (folder, name) not in there:
                path, size = join(folder, name), -1
                with suppress(FileNotFoundError):  # the commit may have been after the listing
                    size = stores.stat(path).size
                yield FileSplit.of(FileEntry(path, size, listed=True), manifest)


def _cut(part: FileSplit, size: int, stores: Storage) -> list[FileSplit]:
    """Split a large Puffin file."""
    with stores.open(part.path, size=part.size) as source:
        return evenly(part, size) if source.read(0, min(source.size, len(PUFFIN_MAGIC))) == PUFFIN_MAGIC else [part]


@dataclass(frozen=True, slots=True, eq=False)
class Verified:
    """The vectors of several windows; one entry per row.

    Attributes:
        of_window: window of each.
        data: bytes of all frames.
        starts: first byte of each frame in `data`.
        sizes: bytes of each frame in `data`.
        found: results of the verification.
        crc_ok: whether the CRC is right, null if unknown.
        errors: error texts, by index.
    """

    of_window: Index
    data: NDArray[np.uint8]
    starts: Index
    sizes: Index
    found: Survey
    crc_ok: pa.Array
    errors: dict[int, str]

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Whether each has no error."""
        valid = np.ones(len(self.of_window), np.bool_)
        valid[list(self.errors)] = False
        return valid


def pools(windows: Iterable[Window]) -> Iterator[list[Window]]:
    """Group windows into batches of bounded size; those that were read are of one kind of container."""
    pool: list[Window] = []
    kinds: set[ContainerKind] = set()
    weight = rows = 0
    for window in windows:
        kind = {window.ranges.kind} if window.error is None else set()
        full = weight + len(window.data) > BATCH_BYTES or rows + len(window.ranges) > BATCH_ROWS
        if pool and (full or len(kinds | kind) > 1):
            yield pool
            pool, kinds, weight, rows = [], set(), 0, 0
        pool.append(window)
        kinds |= kind
        weight += len(window.data)
        rows += len(window.ranges)
    if pool:
        yield pool


def verify_windows(pool: list[Window], *, content: bool, verify: bool, limits: Limits = DEFAULT_LIMITS) -> Verified:
    """Verify the vectors of windows.

    Args:
        pool: one of `pools`.
        content: whether they have bytes; without them only ranges are known.
        verify: whether to compare CRCs.
        limits: bounds on what the bytes may claim.
    """
    counts = np.array([len(window.ranges) for window in pool], np.int64)
    of_window = np.repeat(np.arange(len(pool)), counts)
    n, bounds = len(of_window), offsets_of(counts).tolist()
    filled = [window.data for window in pool if len(window.data)]
    data = filled[0] if len(filled) == 1 else np.concatenate(filled) if filled else np.zeros(0, np.uint8)
    places = offsets_of(np.array([len(window.data) for window in pool], np.int64))[:-1]
    starts = np.concatenate([window.starts for window in pool]) + places[of_window]
    sizes = np.concatenate([window.sizes for window in pool])
    errors: dict[int, str] = {}
    for window, rows in zip(pool, pairwise(bounds), strict=True):
        if window.error is not None:
            errors.update(dict.fromkeys(range(*rows), window.error))
    unknown, crc_ok = np.full(n, -1), pa.nulls(n, pa.bool_())
    if not content:
        found = Survey(unknown, unknown, unknown, np.zeros((n, 3), np.int64), np.zeros(n, np.bool_), {})
        return Verified(of_window, data, starts, sizes, found, crc_ok, errors)
    kind = next((window.ranges.kind for window in pool if window.error is None), ContainerKind.BLOB)
    found = survey(
        data,
        starts,
        sizes,
        allowed=ALLOWED.get(kind, (Magic.PORTABLE64,)),
        cardinalities=np.concatenate([window.ranges.stated for window in pool]),
        limits=limits,
        verify_checksum=verify,
    )
    if verify and kind in ALLOWED:  # the frames of others were made here
        unread = np.zeros(n, np.bool_)
        unread[list(errors)] = True
        crc_ok = pa.array(found.crc_ok, mask=unread)
    for row in found.errors.keys() - errors.keys():
        error, of = found.errors[row], int(of_window[row])
        error.source = pool[of].name
        if error.offset is not None:  # an offset in the joined windows; report that in the file
            error.offset += pool[of].base - int(places[of])
        errors[row] = str(error)
    for window, row in zip(pool, bounds[:-1], strict=True):
        if window.mix is not None and row not in errors:
            found.mix[row] = window.mix
    return Verified(of_window, data, starts, sizes, found, crc_ok, errors)


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
        values = getattr(found.found, name)
        return pa.array(values, mask=~valid | (values < 0))
    if name == "containers":
        columns = [pa.array(found.found.mix[:, k].astype(np.int32)) for k in range(3)]
        return pa.StructArray.from_arrays(columns, fields=list(field.type), mask=pa.array(~valid))
    if name == "crc_ok":
        return found.crc_ok
    if name == "error":
        texts = [found.errors.get(i) for i in range(len(valid))] if found.errors else [None] * len(valid)
        return text_array(texts)
    return binary_array(ByteStrings.cut(found.data, found.starts, np.where(valid, found.sizes, 0)), valid=valid)


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

    def partitions(self) -> list[datasource.InputPartition]:
        """Distribute the files among tasks."""
        with counted("plan", *self.options.paths):
            return [*plan(self.options)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Read one task's `FilePartition`."""
        options = self.options
        content = not _PLACE.issuperset(self.names)
        stores = Storage(dict(options.storage_options), options.limits)
        found = chain.from_iterable(
            windows(part, options, stores, content=content) for part in fetched_ahead(partition.splits, stores)
        )
        with counted("read", *(part.path for part in partition.splits[:1])):
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
                known = self.options.pushed
                self.options = replace(self.options, pushed=wanted if known is None else known & wanted)


class VectorSource(datasource.DataSource):
    """Deletion vectors in files of any container.

    **Reading** returns one row per vector (`columns.STORED_VECTORS`), from containers that `dvcodec.sniff` detects::

        spark.read.format("dvcodec").load("s3://lake/t/data")
        spark.read.format("dvcodec").load(["/t/a.puffin", "/t/dv/*.bin"])
        spark.read.format("dvcodec").schema("data_file string, cardinality long").load(path)

    A path is a file, a folder with its subfolders, or a pattern (``*``, ``?``, ``[...]``, ``**``); several are given as
    a list, or as a JSON array in the option ``paths``. Names in a folder that begin with ``_`` or ``.`` are skipped. A
    file that several paths match is read once. URLs other than ``file:`` need obstore or fsspec (extra ``remote``) on
    driver and workers; credentials are those of the options ``storage.<key>``, or those of driver and workers
    (environment variables, AWS's files). Hadoop's are not used.

    Every vector is checked: CRC, structure, order, population, and the cardinality that metadata states. A corrupt
    vector is a row with ``error``, and the job continues. ``crc_ok`` is null if there is no CRC, or it was not
    checked. A file that is not a container is a row with ``error`` too. Only an I/O error fails a task.

    Columns that neither the schema nor the option ``columns`` names are not computed; if only ``container``,
    ``format``, ``data_file``, ``offset`` and ``size`` are named, the vectors are neither read nor checked.

    If a folder has manifests of writes (see below), only containers that they name are read from it, and they supply
    the ``data_file`` of vectors in Delta and Paimon files.

    Options of a read, besides the path:
        ``format``: the only kind of container to accept: ``puffin``, ``delta``, ``paimon``, ``blob``, ``roaring32``,
            ``roaring64`` or ``lance-arrow``. Another file is a row with ``error``.
        ``columns``: names, separated by commas.
        ``ignore-others``: ``true`` skips files of a folder or pattern that are not containers (of that kind).
        ``verify-checksum``: ``false`` skips the CRCs.
        ``committed``: ``false`` also reads containers that no manifest names.
        ``partition-bytes``, ``open-cost-bytes``: bytes of one task (32m), and bytes added for each file (64k, in object
            stores 1m, as each is a request). Larger Puffin files are split between their vectors.
        ``limits``: bounds on what the bytes may claim, as in ``max_metadata_bytes=2000000000,max_records=50000000``;
            see `dvcodec.Limits`.
        ``storage.<key>``: how to reach stores, for reads and writes: ``storage.aws_region``,
            ``storage.endpoint``, ``storage.max_concurrency``, ..; see `dvcodec.io.store.options`.
        ``data-files``: a name, or a JSON array of names: only vectors of these data files are read, in any spelling
            (in plain text).
        ``push-filters``: ``true`` lets ``data_file = ..`` and ``data_file in (..)`` of a query do the same for names
            spelled exactly so (pyspark 4.1; ``spark.sql.python.filterPushdown.enabled`` must be set, or the read
            fails). For one query only: Spark (4.3) keeps the pushed filters, so a second use of the same DataFrame,
            later or in a union, lacks the other rows.

    **Writing** takes ``data_file string, dv binary``, and optionally ``cardinality long``, which is checked; other
    columns are ignored::

        vectors.write.format("dvcodec").mode("append").option("target", "iceberg").save("s3://lake/t/deletes")

    Every vector is verified. Frames of the shared layout are copied, others re-encoded. Tasks write containers with
    fresh names into the folder; the commit lists those of successful tasks in ``_manifest-<job>.parquet``, in
    one atomic write. Readers do not see a container that no manifest names. A write that fails leaves the empty file
    ``_writing-<job>``, which says so; killed or repeated tasks may leave containers. The manifest has one row per
    vector, the fields of `dvcodec.DvLocation`: see `read_manifest`.

    Options of a write:
        ``target``: ``iceberg`` (default; Puffin files), ``delta``, ``paimon32`` or ``paimon64``.
        ``target-bytes``, ``max-vectors``: limits of a container: 64m, for Paimon 2m; 65536 vectors for Puffin.
        ``storage.<key>``: as for reads.

    Mode ``overwrite`` is not supported: it would remove containers that readers may be reading, and cannot replace
    several manifests atomically. Write into a new folder, or append.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "dvcodec"

    def schema(self) -> StructType:
        """Return the schema of a read without a user's schema."""
        return schema_of(ReadOptions.parse(self.options))

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        """Return a reader of these columns."""
        return reader_of(ReadOptions.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceWriter:
        """Return a writer, and begin the write."""
        return writer_of(WriteOptions.parse(self.options), schema, overwrite=overwrite)

"""Writing containers of vectors: all containers of a job, or none.

Tasks write whole files with fresh names, and return where each vector is. The commit writes that into the job's
manifest, one Parquet file, ``_manifest-<job>.parquet``, in the folder of the containers that it names. In a folder that
has been written to, readers see only containers that a manifest names: ``_writing-<job>``, an empty file, says so
before there is a manifest.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StringType, StructType

from dvcodec import delta, iceberg, paimon
from dvcodec.core.errors import DecodeError, NotCanonical, UsageError
from dvcodec.core.json_text import parse_json
from dvcodec.core.ragged import Index, cut_by_weight
from dvcodec.core.vector import StoredFrame
from dvcodec.io import SinkFile, Source, Storage, StorageOptions, open_sink, storage_of
from dvcodec.io.parquet import parquet_metadata
from dvcodec.io.store import StoreError
from dvcodec.io.target import file_keys, join, split
from dvcodec.spark.columns import numbers
from dvcodec.spark.compat import datasource
from dvcodec.spark.sources.files import counted, make_folder, names_in
from dvcodec.spark.sources.options import WriteOptions
from dvcodec.spark.vectors import MAGICS, NamedVectors, Target, has_magic, reencode, refuse_far

SCHEMA = pa.schema(
    [
        pa.field("format", pa.string()),
        pa.field("path", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("size", pa.int64()),
        pa.field("cardinality", pa.int64()),
        pa.field("data_file", pa.string()),
        pa.field("file_size", pa.int64()),
    ]
)
"""Fields of `DvLocation`."""

WRITING = "_writing-"
"""Prefix of the name of the file that a write begins with; the job follows. It stays if the write fails."""
CONTAINERS = b"dvcodec.containers"
"""Key of a manifest's metadata: the bare names of the containers, a JSON array, one for each row group."""
_STORED = ["offset", "cardinality", "data_file"]
_BATCH_ROWS = 1 << 16
_NAME = re.compile(r"_manifest-[0-9a-f]{32}\.parquet")
_DAMAGED = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError, pa.ArrowNotImplementedError, OSError, ValueError)


def manifest_name(job: str) -> str:
    """Return the name of a job's manifest."""
    return f"_manifest-{job}.parquet"


def write_manifest(path: str, containers: Iterable[pa.RecordBatch], names: Sequence[str], stores: Storage) -> None:
    """Write a manifest atomically.

    Args:
        path: path or URL.
        containers: the vectors of each container, `SCHEMA`.
        names: the bare name of each container.
        stores: opens the file.
    """
    schema = SCHEMA.with_metadata({CONTAINERS: json.dumps(list(names)).encode()})
    with (
        open_sink(path, storage_options=stores) as sink,
        pq.ParquetWriter(pa.PythonFile(SinkFile(sink), "w"), schema, compression="zstd") as writer,
    ):
        for batch in containers:
            writer.write_table(pa.Table.from_batches([batch.cast(schema)]), row_group_size=len(batch))


def committed_in(folder: str, names: Collection[str] | None, stores: Storage) -> dict[str, str] | None:
    """Return which containers the manifests of a folder name.

    Args:
        folder: path or URL.
        names: bare names in the folder, at least those that begin with ``_``; None lists the folder.
        stores: opens the manifests.

    Returns:
        Bare name of a container -> the manifest that names it; None if nothing was written into the folder.

    Raises:
        NotCanonical: a manifest is corrupt.
    """
    if names is None:
        names = names_in(folder, stores)
    manifests = _manifests_in(folder, names)
    if not manifests and not any(name.startswith(WRITING) for name in names):
        return None
    containers: dict[str, str] = {}
    for path in manifests:
        with _opened(path, stores) as file:
            containers.update(dict.fromkeys(_containers(path, parquet_metadata(file)), path))
    return containers


def _manifests_in(folder: str, names: Collection[str]) -> list[str]:
    return [join(folder, name) for name in sorted(filter(_NAME.fullmatch, names))]


def _containers(path: str, parquet: pq.ParquetFile) -> list[str]:
    """Return the container of each row group."""
    listed = (parquet.schema_arrow.metadata or {}).get(CONTAINERS)
    names = None if listed is None else parse_json(listed, path, "list of containers")
    groups = parquet.num_row_groups
    if not isinstance(names, list) or len(names) != groups or not all(isinstance(name, str) for name in names):
        expected = f"the names of {groups} containers, one for each row group"
        raise NotCanonical("list of containers", source=path, expected=expected, actual=f"{names!r:.100}")
    return names


def read_manifest(path: str, *, storage_options: StorageOptions = None) -> pa.Table:
    """Read a manifest, or all manifests of a folder.

    Args:
        path: of one manifest, or of the folder that was written to.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        One row per vector, with the fields of `dvcodec.DvLocation` as columns. ``spark.createDataFrame`` takes it
        (Spark's own readers skip files whose names begin with ``_``).

    Raises:
        UsageError: no manifest.
        NotCanonical: a manifest is corrupt.
    """
    stores = storage_of(storage_options)
    manifests = [path] if _NAME.fullmatch(split(path)[1]) else _manifests_in(path, names_in(path, stores))
    if not manifests:
        raise UsageError(f"{path}: no manifest")
    tables = []
    for manifest in manifests:
        with _opened(manifest, stores) as file:
            tables.append(_read(file, SCHEMA.names).cast(SCHEMA))
    return pa.concat_tables(tables)


def stored_in(manifest: str, container: str, stores: Storage) -> pa.Table:
    """Return a manifest's rows of one container: columns ``offset``, ``cardinality``, ``data_file``.

    Args:
        manifest: path or URL.
        container: its bare name.
        stores: opens the manifest.

    Raises:
        NotCanonical: the manifest is corrupt.
    """
    with _opened(manifest, stores) as file:
        return _read(file, _STORED, (manifest, container))


def _read(file: Source, columns: list[str], of: tuple[str, str] | None = None) -> pa.Table:
    """Read the row groups of one container of a manifest, or all."""
    parquet = parquet_metadata(file)
    groups = list(range(parquet.num_row_groups))
    if of is not None:
        groups = [group for group, name in enumerate(_containers(of[0], parquet)) if name == of[1]]
    schema = pa.schema([field for field in parquet.schema_arrow if field.name in columns])
    batches = list(parquet.iter_batches(_BATCH_ROWS, row_groups=groups, columns=columns))
    return pa.Table.from_batches(batches, batches[0].schema if batches else schema)


@contextmanager
def _opened(path: str, stores: Storage) -> Iterator[Source]:
    """Open a manifest; errors in its bytes name it."""
    with stores.open(path) as source:
        try:
            yield source
        except (StoreError, DecodeError):
            raise
        except _DAMAGED as err:
            raise NotCanonical("manifest", source=path, expected="a manifest of a write", actual=str(err)) from None


_EXPANDED = 1 << 20
"""Positions that are expanded at once."""


def stored_frames(batch: pa.RecordBatch, target: Target) -> Iterator[StoredFrame]:
    """Verify the vectors of a batch and yield them in the layout of a container.

    Args:
        batch: with the columns ``data_file`` and ``dv``; ``cardinality`` is checked if present and not null.
        target: kind of container. Frames of its layout are passed on unchanged, others re-encoded.

    Raises:
        UsageError: a null, or rows that the layout cannot hold.
        DecodeError: a corrupt vector. Both errors name the data file.
    """
    errors = batch.column("error") if "error" in batch.schema.names else None
    vectors = NamedVectors.of(batch.column("data_file"), batch.column("dv"), errors, _promised(batch))
    magic = MAGICS[target]
    refuse_far(vectors, magic)
    fits, cardinality = has_magic(vectors, magic), vectors.found.cardinality
    for piece in cut_by_weight(np.where(fits, 0, cardinality), _EXPANDED):
        encoded = reencode(vectors, np.flatnonzero(~fits[piece]) + piece.start, magic)
        for i in range(piece.start, piece.stop):
            yield StoredFrame(vectors.files[i], int(cardinality[i]), encoded.get(i) or vectors.column.view(i))


def _promised(batch: pa.RecordBatch) -> Index | None:
    if "cardinality" not in batch.schema.names:
        return None
    column = batch.column("cardinality")
    if not pa.types.is_integer(column.type):
        raise UsageError(f"column cardinality: expected integers, found {column.type}")
    return numbers(column)


_FOOTER_BYTES = 1 << 23
"""Bytes of a Puffin footer at which a container is full: half of `Limits.max_metadata_bytes`."""
_BLOB_BYTES = 200
"""Approximate bytes of a blob in a footer without the name of the data file."""
_PACKED = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)


@dataclass(frozen=True)
class Written(datasource.WriterCommitMessage):
    """The containers that one task wrote.

    Attributes:
        partition: number of the task's partition.
        containers: bare names.
        locations: the vectors of each container, `manifest.SCHEMA`, as a compressed Arrow stream.
    """

    partition: int
    containers: tuple[str, ...]
    locations: tuple[bytes, ...]


def writer_of(options: WriteOptions, schema: StructType, *, overwrite: bool) -> VectorWriter:
    """Return a writer; checks the columns, and writes the file that hides containers until the commit.

    Raises:
        UsageError: missing columns, or mode ``overwrite``.
        OSError: the folder cannot be written.
    """
    if overwrite:
        raise UsageError("mode overwrite is not supported: append, or write into a new folder")
    kinds = {field.name: type(field.dataType) for field in schema.fields}
    for name, kind in (("data_file", StringType), ("dv", BinaryType)):
        if kinds.get(name) is not kind:
            raise UsageError(f"a write needs the columns data_file string, dv binary; {name} is not one of them")
    writer = VectorWriter(options, uuid.uuid4().hex)
    make_folder(options.path)
    with open_sink(writer.marker, storage_options=writer.stores()):
        pass
    return writer


@dataclass(frozen=True)
class VectorWriter(datasource.DataSourceArrowWriter):
    """Writes vectors into containers; see `VectorSource`."""

    options: WriteOptions
    job: str

    def stores(self) -> Storage:
        """Return new storage, without cached listings."""
        return Storage(dict(self.options.storage_options))

    @property
    def manifest(self) -> str:
        """The manifest of this job."""
        return join(self.options.path, manifest_name(self.job))

    @property
    def marker(self) -> str:
        """Path of the empty file by which readers know that a write has not been committed."""
        return join(self.options.path, WRITING + self.job)

    def container_name(self, task: str, number: int) -> str:
        """Return a unique name for a task's container, in its format's form."""
        if self.options.target == "iceberg":
            return f"{self.job}-{task}-{number}.puffin"
        if self.options.target == "delta":
            return f"deletion_vector_{uuid.uuid4()}.bin"
        return f"index-{uuid.uuid5(uuid.UUID(self.job), task)}-{number}"

    # ------------------------------------------------------------------ tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's vectors, each container whole; if it fails, it removes what it wrote.

        Raises:
            UsageError: a null, or rows that the target cannot hold.
            DecodeError: a vector is corrupt.
            OSError: a container cannot be written.
        """
        context = TaskContext.get()
        partition, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
        task = f"{partition:05d}-{attempt}"
        names: list[str] = []
        locations: list[bytes] = []
        frames = chain.from_iterable(stored_frames(batch, self.options.target) for batch in iterator)
        with counted("write", self.options.path):
            stores = self.stores()
            try:
                for first in frames:
                    names.append(self.container_name(task, len(names)))
                    locations.append(self._write_container(names[-1], chain([first], frames), stores))
            except BaseException:
                self._remove(names, stores)
                raise
        return Written(partition, tuple(names), tuple(locations))

    def _write_container(self, name: str, frames: Iterable[StoredFrame], stores: Storage) -> bytes:
        writers = {"iceberg": iceberg.write_stored_vectors, "delta": delta.write_stored_vectors}
        write = writers.get(self.options.target, paimon.write_stored_vectors)
        written = write(join(self.options.path, name), self._until_full(frames), storage_options=stores)
        if self.options.target not in writers:
            written = [replace(one, format=self.options.target) for one in written]
        columns = {field: [getattr(one, field) for one in written] for field in SCHEMA.names}
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, SCHEMA, options=_PACKED) as stream:
            stream.write_batch(pa.record_batch(columns, schema=SCHEMA))
        return bytes(out.getvalue())

    def _until_full(self, frames: Iterable[StoredFrame]) -> Iterator[StoredFrame]:
        """Yield the frames of one container."""
        size = footer = 0
        for count, stored in enumerate(frames, 1):
            yield stored
            size += len(stored.data)
            footer += 2 * len(stored.data_file or "") + _BLOB_BYTES
            full = self.options.target == "iceberg" and footer >= _FOOTER_BYTES
            if full or size >= self.options.target_bytes or count >= self.options.max_vectors:
                break

    # ------------------------------------------------------------------ driver

    def commit(self, messages: list[datasource.WriterCommitMessage | None]) -> None:
        """Write the manifest of the containers that these tasks wrote.

        Raises:
            UsageError: two vectors for one data file, in any containers.
        """
        written = sorted((one for one in messages if isinstance(one, Written)), key=lambda one: one.partition)
        names = [name for one in written for name in one.containers]
        locations = [one for task in written for one in task.locations]
        with counted("commit", self.options.path):
            _refuse_doubles([name for one in locations for name in _unpacked(one)["data_file"].to_pylist()])
            stores = self.stores()
            write_manifest(self.manifest, map(_unpacked, locations), names, stores)
            with suppress(OSError):
                stores.remove(self.marker)

    @contextmanager
    def committing(self) -> Iterator[list[datasource.WriterCommitMessage | None]]:
        """Commit what a block adds to the list, or remove it if the block fails."""
        written: list[datasource.WriterCommitMessage | None] = []
        try:
            yield written
            self.commit(written)
        except BaseException:
            self.abort(written)
            raise

    def abort(self, messages: list[datasource.WriterCommitMessage | None]) -> None:
        """Remove the manifest and the containers of tasks that succeeded; cancelled tasks may still write others."""
        stores = self.stores()
        try:
            stores.remove(self.manifest)
        except FileNotFoundError:
            pass
        except OSError:  # it may name the containers
            return
        self._remove([name for one in messages if isinstance(one, Written) for name in one.containers], stores)

    def _remove(self, names: Sequence[str], stores: Storage) -> None:
        for name in names:
            with suppress(OSError):  # no manifest names it
                stores.remove(join(self.options.path, name))


def _unpacked(locations: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(locations) as stream:
        return stream.read_next_batch()


def _refuse_doubles(data_files: list[str]) -> None:
    """Refuse two vectors for one data file, in whatever spelling."""
    keys = file_keys(data_files)
    if len(set(keys)) == len(keys):
        return
    known: dict[str, str] = {}
    for file, key in zip(data_files, keys, strict=True):
        if key in known:
            other = "" if known[key] == file else f", also spelled {known[key]!r}"
            raise UsageError(f"two vectors for the data file {file!r}{other}: merge them first")
        known[key] = file

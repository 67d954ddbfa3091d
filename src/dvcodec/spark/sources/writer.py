"""Writing containers of vectors: all containers of a job, or none.

::

    <path>/.dvcodec-<job>/              created by the driver before the tasks, removed by commit and abort
        <container>, <container>.part   whole files, written by tasks; .part is the container's part of the manifest
        commit.json                     the containers of a commit in progress, for abort, vacuum and readers
    <path>/<container>                  moved there by the commit
    <path>/_manifest-<job>.parquet      the commit point
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import chain

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from dvcodec import delta, iceberg, paimon
from dvcodec.core.errors import DvcodecError, UsageError
from dvcodec.core.frame import StoredFrame
from dvcodec.core.location import DvLocation
from dvcodec.io import Storage, open_sink
from dvcodec.io.file_key import file_key
from dvcodec.io.paths import join
from dvcodec.io.sink import sync_folder
from dvcodec.io.target import local_path
from dvcodec.spark.sources import storage
from dvcodec.spark.sources.counts import counted
from dvcodec.spark.sources.frames import stored_frames
from dvcodec.spark.sources.manifest import JOURNAL, STAGING, journal_of, manifest_name
from dvcodec.spark.sources.options import WriteOptions
from dvcodec.spark.sources.parts import data_files_in, entries, merge_parts, part_of

__all__ = ["VectorWriter", "Written", "writer_of"]

_PART = ".part"
_FOOTER_BYTES = 1 << 23
"""Bytes of a Puffin footer at which a container is full: half of `Limits.max_footer_bytes`."""
_BLOB_BYTES = 200
"""Approximate bytes of a blob in a footer without the name of the data file."""
_AT_ONCE = 16
_DIGEST = 8


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The containers that one task wrote.

    Attributes:
        partition: number of the task's partition.
        containers: bare names, in the order of their rows.
        vectors: number of vectors in all containers.
        digests: 8 bytes for each vector, a hash of its data file.
    """

    partition: int
    containers: tuple[str, ...]
    vectors: int
    digests: bytes


def writer_of(options: WriteOptions, schema: StructType, *, overwrite: bool) -> VectorWriter:
    """Return a writer; checks the columns and creates the staging folder.

    Raises:
        UsageError: missing columns, mode ``overwrite``, or a folder that Delta descriptors cannot reference.
        OSError: the folder cannot be created.
    """
    if overwrite:
        raise UsageError("mode overwrite is not supported: append, or write into a new folder")
    kinds = {field.name: type(field.dataType) for field in schema.fields}
    for name, kind in (("data_file", StringType), ("dv", BinaryType)):
        if kinds.get(name) is not kind:
            raise UsageError(f"a write needs the columns data_file string, dv binary; {name} is not one of them")
    writer = VectorWriter(options, uuid.uuid4().hex)
    if options.target == "delta":
        some = DvLocation("delta", join(options.path, writer.container_name("0", 0)), 1, 20, 0)
        entries([some], options.table_root)
    storage.make_folder(writer.staging)
    return writer


@dataclass(frozen=True)
class VectorWriter(DataSourceArrowWriter):
    """Writes vectors into containers; see `VectorSource`."""

    options: WriteOptions
    job: str

    def stores(self) -> Storage:
        """Return new storage, without cached listings."""
        return Storage(dict(self.options.storage_options))

    @property
    def staging(self) -> str:
        """The folder that tasks write to."""
        return join(self.options.path, STAGING + self.job)

    @property
    def manifest(self) -> str:
        """The manifest that the commit writes."""
        return join(self.options.path, manifest_name(self.job, self.options.manifest))

    def container_name(self, task: str, number: int) -> str:
        """Return a unique name for a task's container, in its format's form."""
        if self.options.target == "puffin":
            return f"{self.job}-{task}-{number}.puffin"
        if self.options.target == "delta":
            return f"deletion_vector_{uuid.uuid4()}.bin"
        return f"index-{uuid.uuid5(uuid.UUID(self.job), task)}-{number}"

    # ------------------------------------------------------------------ tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's vectors, each container whole; the folder must be there.

        Raises:
            UsageError: a null, or rows that the target cannot hold.
            DecodeError: a vector is corrupt.
            OSError: a container cannot be written.
        """
        context = TaskContext.get()
        partition, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
        task = f"{partition:05d}-{attempt}"
        names: list[str] = []
        digests: list[bytes] = []
        frames = chain.from_iterable(stored_frames(batch, self.options.target) for batch in iterator)
        with counted("write", self.options.path):
            stores = self.stores()
            for first in frames:
                name = self.container_name(task, len(names))
                written = self._write_container(name, self._until_full(chain([first], frames)), stores)
                keys = (file_key(one.data_file or "") for one in written)
                digests += [blake2b(key.encode(), digest_size=_DIGEST).digest() for key in keys]
                names.append(name)
        return Written(partition, tuple(names), len(digests), b"".join(digests))

    def _write_container(self, name: str, frames: Iterable[StoredFrame], stores: Storage) -> list[DvLocation]:
        path, final = join(self.staging, name), join(self.options.path, name)
        writers = {"puffin": iceberg.write_stored_vectors, "delta": delta.write_stored_vectors}
        write = writers.get(self.options.target, paimon.write_stored_vectors)
        written = write(path, frames, storage_options=stores)
        kind = written[0].format if self.options.target in ("puffin", "delta") else self.options.target
        part = part_of(
            [replace(one, format=kind, path=final) for one in written], self.options.table_root, self.options.manifest
        )
        with open_sink(path + _PART, storage_options=stores) as out:
            out.write(part)
        return written

    def _until_full(self, frames: Iterable[StoredFrame]) -> Iterator[StoredFrame]:
        """Yield the frames of one container."""
        seen: set[str | None] = set()
        size = footer = 0
        for stored in frames:
            name = stored.data_file
            key = name and file_key(name)
            if key in seen:
                raise UsageError(f"two vectors for the data file {name!r} in one container: merge them first")
            seen.add(key)
            yield stored
            size += len(stored.data)
            footer += 2 * len(name or "") + _BLOB_BYTES
            full = self.options.target == "puffin" and footer >= _FOOTER_BYTES
            if full or size >= self.options.target_bytes or len(seen) >= self.options.max_vectors:
                break

    # ------------------------------------------------------------------ driver

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Move the containers of these tasks to the folder, write the manifest, and remove the staging folder.

        Raises:
            UsageError: two vectors for one data file, in any containers. Then nothing is moved.
        """
        written = sorted((one for one in messages if isinstance(one, Written)), key=lambda one: one.partition)
        names = [name for one in written for name in one.containers]
        digests = np.frombuffer(b"".join(one.digests for one in written), "<u8")
        with counted("commit", self.options.path):
            stores = self.stores()
            if len(np.unique(digests)) < len(digests):
                self._refuse_doubles(names, stores)
            with open_sink(join(self.staging, JOURNAL), storage_options=stores) as journal:
                journal.write(json.dumps(names).encode())
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                places = ([join(folder, name) for name in names] for folder in (self.staging, self.options.path))
                for _ in pool.map(partial(storage.move, stores=stores), *places):
                    pass
            folder = local_path(self.options.path)
            if folder is not None:
                sync_folder(folder)
            parts = (join(self.staging, name + _PART) for name in names)
            merge_parts(parts, self.manifest, names, stores)
            with suppress(OSError, DvcodecError):  # committed: vacuum removes the rest
                storage.remove_folder(self.staging, stores)

    def _refuse_doubles(self, names: Iterable[str], stores: Storage) -> None:
        """Refuse a data file that occurs twice; equal hashes may be a collision."""
        known: dict[str, str] = {}
        for file in chain.from_iterable(
            data_files_in(join(self.staging, name + _PART), self.options.manifest, stores) for name in names
        ):
            key = file_key(file or "")
            if key in known:
                other = "" if known[key] == file else f", also spelled {known[key]!r}"
                raise UsageError(f"two vectors for the data file {file!r}{other}: merge them first")
            known[key] = file

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove all files of this job, the manifest first."""
        names = {name for one in messages if isinstance(one, Written) for name in one.containers}
        stores = self.stores()
        storage.remove_file(self.manifest, stores)
        for name in sorted(names | set(journal_of(self.staging, stores))):
            storage.remove_file(join(self.options.path, name), stores)
        storage.remove_folder(self.staging, stores)

"""Manifests: which containers a write has committed, and where each vector is.

A manifest is one Parquet file, ``_manifest-<job>.parquet``, in the folder of the containers that it names: a row per
vector, a row group per container. Writing it commits the write. In a folder that has been written to, readers see only
containers that a manifest names: ``_writing-<job>``, an empty file, says so before there is a manifest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec.core.errors import DecodeError, NotCanonical, UsageError
from dvcodec.core.json_text import parse_json
from dvcodec.io import SinkFile, Source, Storage, StorageOptions, open_sink, storage_of
from dvcodec.io.parquet import parquet_metadata
from dvcodec.io.store import StoreError
from dvcodec.io.target import join, split
from dvcodec.spark.sources import storage

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
        names = storage.names(folder, stores)
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
    manifests = [path] if _NAME.fullmatch(split(path)[1]) else _manifests_in(path, storage.names(path, stores))
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

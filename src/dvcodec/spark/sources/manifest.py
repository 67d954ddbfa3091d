"""Manifests: the vectors that one write committed, one per row, with the metadata that the table's commit needs.

A manifest is one file, ``_manifest-<job>.parquet`` or ``.jsonl``, in the folder of the containers that it names.
Writing it commits the write; its rows are assembled from parts that the tasks leave with their containers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq

from dvcodec.core.errors import DecodeError, NotCanonical, UsageError
from dvcodec.core.json_text import check_structure, parse_json
from dvcodec.core.limits import Budget
from dvcodec.io import Source, Storage, StorageOptions, storage_of
from dvcodec.io.parquet import batch_rows_of, parquet_file, parquet_metadata
from dvcodec.io.parquet_columns import column_chunks
from dvcodec.io.paths import join, split
from dvcodec.io.store import StoreError
from dvcodec.spark.sources import storage

__all__ = [
    "JOURNAL",
    "SCHEMA",
    "STAGING",
    "Committed",
    "committed_in",
    "content_of",
    "job_of",
    "journal_of",
    "manifest_name",
    "read_manifest",
    "stored_in",
]

SCHEMA = pa.schema(
    [
        pa.field("format", pa.string()),
        pa.field("path", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("size", pa.int64()),
        pa.field("cardinality", pa.int64()),
        pa.field("data_file", pa.string()),
        pa.field("file_size", pa.int64()),
        pa.field("entry", pa.string()),
    ]
)
"""Fields of `DvLocation`, and ``entry``: the vector's metadata for a commit of the table, as JSON."""

STAGING = ".dvcodec-"
"""Prefix of the name of a staging folder; the job follows."""
JOURNAL = "commit.json"
"""File of a staging folder that lists the containers of a commit, from its start until the folder is removed."""
CONTAINERS = b"dvcodec.containers"
"""Key of a Parquet manifest's metadata: the names of the containers, a JSON array."""
_STORED = ["path", "offset", "cardinality", "data_file"]
_BATCH_ROWS = 1 << 16
_LINE_BRACKETS = 1000
_NAME = re.compile(r"_manifest-([0-9a-f]{32})\.(parquet|jsonl)")
_DAMAGED = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError, pa.ArrowNotImplementedError, OSError, ValueError)


def manifest_name(job: str, form: str) -> str:
    """Return the name of a job's manifest."""
    return f"_manifest-{job}.{form}"


def job_of(name: str) -> str | None:
    """Return the job whose manifest has this name, None if it is not a manifest."""
    match = _NAME.fullmatch(name)
    return match[1] if match else None


@dataclass(frozen=True, slots=True)
class Committed:
    """The committed containers of a folder.

    Attributes:
        has_manifest: whether there is any manifest.
        containers: bare name of a container -> the manifest that names it.
        pending: bare names of containers of a commit without a manifest yet.
    """

    has_manifest: bool
    containers: dict[str, str]
    pending: frozenset[str]

    def shows(self, name: str) -> bool:
        """Whether readers see a file: a manifest names it; or there is none, and no commit is about to."""
        return name in self.containers if self.has_manifest else name not in self.pending


def committed_in(folder: str, names: Collection[str] | None, stores: Storage) -> Committed:
    """Read which containers the manifests of a folder name.

    Args:
        folder: path or URL.
        names: bare names in the folder, at least those that begin with ``_`` or ``.``; None lists the folder.
        stores: opens the manifests.

    Raises:
        NotCanonical: a manifest is corrupt.
    """
    if names is None:
        names = storage.names(folder, stores)
    manifests = sorted(name for name in names if _NAME.fullmatch(name))
    containers: dict[str, str] = {}
    for name in manifests:
        path = join(folder, name)
        containers.update(dict.fromkeys(_containers(path, stores), path))
    pending = (journal_of(join(folder, name), stores) for name in names if name.startswith(STAGING))
    return Committed(bool(manifests), containers, frozenset(chain.from_iterable(pending)))


def journal_of(staging: str, stores: Storage) -> list[str]:
    """Return the containers of a commit in progress; [] if none has begun."""
    path = join(staging, JOURNAL)
    if not storage.is_file(path, stores):
        return []
    try:
        return [str(name) for name in parse_json(content_of(path, stores), path, "journal")]
    except FileNotFoundError:  # the commit ended meanwhile
        return []


def _containers(path: str, stores: Storage) -> list[str]:
    with _opened(path, stores) as file:
        if not path.endswith(".jsonl"):
            listed = (parquet_file(file).schema_arrow.metadata or {}).get(CONTAINERS)
            if listed is not None:
                return [str(name) for name in parse_json(listed, path, "list of containers")]
        paths = _table(path, file, ["path"])["path"].unique().to_pylist()
    return [split(path)[1] for path in paths]


def content_of(path: str, stores: Storage) -> bytes:
    """Return the bytes of a file."""
    with stores.open(path) as source:
        return bytes(source.read(0, source.size))


def read_manifest(path: str, *, storage_options: StorageOptions = None) -> pa.Table:
    """Read a manifest, or all manifests of a folder.

    Args:
        path: of one manifest, or of the folder that was written to.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        One row per vector, with the columns of `SCHEMA`: the fields of `dvcodec.DvLocation`, and ``entry``.
        ``spark.createDataFrame`` takes it (Spark's own readers skip files whose names begin with ``_``).

    Raises:
        UsageError: no manifest.
        NotCanonical: a manifest is corrupt.
    """
    stores = storage_of(storage_options)
    if _NAME.fullmatch(split(path)[1]):
        manifests = [path]
    else:
        manifests = [join(path, name) for name in sorted(filter(_NAME.fullmatch, storage.names(path, stores)))]
    if not manifests:
        raise UsageError(f"{path}: no manifest")
    tables = []
    for manifest in manifests:
        with _opened(manifest, stores) as file:
            tables.append(_table(manifest, file, SCHEMA.names).cast(SCHEMA))
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
    known = _unindexed.get(stores)
    if known is None or known.manifest != manifest:
        with _opened(manifest, stores) as file:
            if not manifest.endswith(".jsonl"):
                parquet, dictionaries, budget = parquet_metadata(file, Budget.ROW)
                owners = _containers_of_groups(parquet)
                if None not in owners:
                    groups = [i for i, owner in enumerate(owners) if owner == container]
                    table = _read(parquet, dictionaries, budget, _STORED, groups)
                    return _Unindexed.of(manifest, table).rows_of(container)
            known = _unindexed[stores] = _Unindexed.of(manifest, _table(manifest, file, _STORED))
    return known.rows_of(container)


def _containers_of_groups(parquet: pq.ParquetFile) -> list[str | None]:
    """Return the container of each row group, as writers write them; None for a group that may be of several."""
    owners: list[str | None] = [None] * parquet.num_row_groups
    for number, found in enumerate(column_chunks(parquet, [("path",)]).get(("path",), ())):
        if found.low is not None and found.low == found.high:
            owners[number] = split(found.low.decode("utf-8", "replace"))[1]
    return owners


@dataclass(frozen=True, slots=True)
class _Unindexed:
    """A manifest without an index, read once for all containers of a task."""

    manifest: str
    table: pa.Table
    paths: dict[str, list[str]]

    @classmethod
    def of(cls, manifest: str, table: pa.Table) -> _Unindexed:
        paths: dict[str, list[str]] = {}
        for path in table["path"].unique().to_pylist():
            paths.setdefault(split(path)[1], []).append(path)
        return cls(manifest, table, paths)

    def rows_of(self, container: str) -> pa.Table:
        paths = pa.array(self.paths.get(container, []), pa.string())
        return self.table.filter(pc.is_in(self.table["path"], paths)).drop_columns(["path"])


_unindexed: WeakKeyDictionary[Storage, _Unindexed] = WeakKeyDictionary()


def _read(
    file: pq.ParquetFile, dictionaries: int, budget: Budget, columns: list[str], groups: Sequence[int]
) -> pa.Table:
    """Read row groups; a dictionary stores a value once, and each row that has it is charged for it."""
    batches = []
    rows = batch_rows_of(dictionaries, _BATCH_ROWS, budget.most)
    for batch in file.iter_batches(rows, row_groups=groups, columns=columns):
        budget.charge(batch.nbytes, "values")
        batches.append(batch)
    schema = pa.schema([field for field in file.schema_arrow if field.name in columns])
    return pa.Table.from_batches(batches, batches[0].schema if batches else schema)


def _table(path: str, file: Source, columns: list[str]) -> pa.Table:
    if not path.endswith(".jsonl"):
        parquet, dictionaries, budget = parquet_metadata(file, Budget.ROW)
        return _read(parquet, dictionaries, budget, columns, range(parquet.num_row_groups))
    wanted = pa.schema([SCHEMA.field(name) for name in columns])
    data = bytes(file.read(0, file.size))
    if not data:
        return wanted.empty_table()
    check_structure(data, path, "manifest")
    _check_lines(data, path)
    options = pa.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    return pa.json.read_json(pa.py_buffer(data), parse_options=options)


def _check_lines(data: bytes, path: str) -> None:
    """Refuse lines that are not objects, or may be deep: pyarrow's parser of JSON recurses until the process ends.

    No object goes on in the next line: after ``}``, ``{`` is an error.
    """
    text = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(text == ord("\n"))
    starts, stops = np.append(0, breaks + 1), np.append(breaks, len(text))
    starts, stops = starts[starts < stops], stops[starts < stops]
    brackets = np.add.reduceat((text == ord("[")) | (text == ord("{")), starts, dtype=np.int64)
    bad = np.flatnonzero((text[starts] != ord("{")) | (text[stops - 1] != ord("}")) | (brackets > _LINE_BRACKETS))
    if len(bad):
        expected = f"a JSON object with at most {_LINE_BRACKETS} brackets in each line"
        raise NotCanonical(
            "manifest", source=path, offset=int(starts[bad[0]]), expected=expected, actual="something else"
        )


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

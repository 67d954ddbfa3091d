"""Manifests: what one write committed, one row a vector, with the value that the table's own commit needs.

A manifest is one file, ``_manifest-<job>.parquet`` or ``.jsonl``, beside the containers that it names. Writing it is
what commits a write; its rows are put together from parts that the tasks leave beside their containers.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from dvcodec.core.cursor import as_view
from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.core.location import DvLocation
from dvcodec.delta import Descriptor
from dvcodec.delta.descriptor import SIZE_DIFFERENCE
from dvcodec.iceberg import manifest_entry
from dvcodec.io import Sink, Source, open_sink, open_source
from dvcodec.paimon import DeletionVectorMeta
from dvcodec.spark.sources import storage

__all__ = [
    "SCHEMA",
    "Committed",
    "committed_in",
    "entries",
    "manifest_name",
    "merge_parts",
    "part_of",
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
"""Fields of `DvLocation`, and ``entry``: JSON of what the table format's own commit says of the vector."""

CONTAINERS = b"dvcodec.containers"
"""Key of a Parquet manifest's metadata: the names of the containers, a JSON array."""
_NAME = re.compile(r"_manifest-([0-9a-f]{32})\.(parquet|jsonl)")
_DAMAGED = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError, pa.ArrowNotImplementedError, OSError, ValueError)


def manifest_name(job: str, form: str) -> str:
    """Return the name of a job's manifest."""
    return f"_manifest-{job}.{form}"


def job_of(name: str) -> str | None:
    """Return the job whose manifest has this name, None if it is no manifest."""
    match = _NAME.fullmatch(name)
    return match[1] if match else None


# ---------------------------------------------------------------------- writing


def entries(locations: Sequence[DvLocation], table_root: str) -> list[str]:
    """Return the ``entry`` of vectors of one container.

    That is, as JSON: the values of Iceberg's ``data_file`` struct (`iceberg.manifest_entry`), Delta's descriptor
    (`delta.Descriptor.to_json`), or what Paimon's index manifest says (the fields of `paimon.DeletionVectorMeta`).

    Raises:
        UsageError: a Delta container that can be named neither relative to `table_root` nor absolutely.
    """
    if not locations:
        return []
    kind = locations[0].format
    if kind == "iceberg":
        return [_json(manifest_entry(location)) for location in locations]
    if kind == "delta":
        same = Descriptor.from_location(locations[0], table_root)  # finding the name costs more than all else
        return [
            replace(
                same,
                size_in_bytes=location.size - SIZE_DIFFERENCE,
                cardinality=location.cardinality,
                offset=location.offset,
            ).to_json()
            for location in locations
        ]
    metas = map(DeletionVectorMeta.from_location, locations)
    return [
        _json(
            {"data_file": meta.data_file, "offset": meta.offset, "length": meta.length, "cardinality": meta.cardinality}
        )
        for meta in metas
    ]


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def part_of(locations: Sequence[DvLocation], table_root: str, form: str) -> bytes:
    """Return a container's part of the manifest: what `merge_parts` takes."""
    columns = {name: [getattr(location, name) for location in locations] for name in SCHEMA.names[:-1]}
    columns["entry"] = entries(locations, table_root)
    if form == "jsonl":
        rows = zip(*(columns[name] for name in SCHEMA.names), strict=True)
        return "".join(_json(dict(zip(SCHEMA.names, row, strict=True))) + "\n" for row in rows).encode()
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, SCHEMA) as writer:
        writer.write_table(pa.table(columns, SCHEMA))
    return bytes(out.getvalue())


def merge_parts(parts: Iterable[str], path: str, containers: Sequence[str]) -> None:
    """Write a manifest whole or not at all, part by part.

    Args:
        parts: files that hold what `part_of` made, in the order of their rows.
        path: of the manifest; its ending says which form it has.
        containers: names of the containers, for who looks for them and not for vectors.
    """
    with open_sink(path) as sink:
        if path.endswith(".jsonl"):
            for part in parts:
                sink.write(_content(part))
            return
        schema = SCHEMA.with_metadata({CONTAINERS: json.dumps(list(containers)).encode()})
        with pq.ParquetWriter(pa.PythonFile(_SinkFile(sink), "w"), schema, compression="zstd") as writer:
            for part in parts:
                with pa.ipc.open_file(pa.py_buffer(_content(part))) as batches:
                    writer.write_table(batches.read_all().replace_schema_metadata(schema.metadata))


def _content(path: str) -> bytes:
    with open_source(path) as source:
        return bytes(source.read(0, source.size))


class _SinkFile(io.RawIOBase):
    """A sink as pyarrow wants it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def writable(self) -> bool:
        """Whether it can be written: yes."""
        return True

    def tell(self) -> int:
        """Return how many bytes there are."""
        return self._sink.position

    def write(self, data: Any) -> int:
        """Append bytes."""
        view = as_view(data)
        self._sink.write(view)
        return len(view)


# ---------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class Committed:
    """What the manifests of a folder name.

    Attributes:
        containers: bare name of a container -> the manifest that names it.
    """

    containers: dict[str, str]


def committed_in(folder: str, names: Iterable[str] | None = None) -> Committed | None:
    """Read which containers the manifests of a folder name; None if there is no manifest.

    Args:
        folder: path or URL.
        names: bare names of files there, among which the manifests are; None lists the folder.

    Raises:
        NotCanonical: a manifest is not sound.
    """
    manifests = sorted(name for name in (storage.names(folder) if names is None else names) if _NAME.fullmatch(name))
    if not manifests:
        return None
    containers: dict[str, str] = {}
    for name in manifests:
        path = storage.join(folder, name)
        containers.update(dict.fromkeys(_containers(path), path))
    return Committed(containers)


def _containers(path: str) -> list[str]:
    with _opened(path) as file:
        if not path.endswith(".jsonl"):
            listed = (pq.ParquetFile(file).schema_arrow.metadata or {}).get(CONTAINERS)
            if listed is not None:
                return [str(name) for name in json.loads(listed)]
        paths = _table(path, file, ["path"])["path"].unique().to_pylist()
    return [storage.split(path)[1] for path in paths]


def read_manifest(path: str) -> pa.Table:
    """Read a manifest, or all of a folder.

    Args:
        path: of one manifest, or of the folder that was written to.

    Returns:
        One row a vector, with the columns of `SCHEMA`. ``DvLocation(*row[:7])`` makes a location of a row's values.

    Raises:
        UsageError: no manifest there.
        NotCanonical: a manifest is not sound.
    """
    if _NAME.fullmatch(storage.split(path)[1]):
        manifests = [path]
    else:
        manifests = [storage.join(path, name) for name in sorted(filter(_NAME.fullmatch, storage.names(path)))]
    if not manifests:
        raise UsageError(f"{path}: no manifest there")
    tables = []
    for manifest in manifests:
        with _opened(manifest) as file:
            tables.append(_table(manifest, file, SCHEMA.names).cast(SCHEMA))
    return pa.concat_tables(tables)


def stored_in(manifest: str, container: str) -> dict[int, tuple[int, str]]:
    """Return what a manifest says of a container's vectors: offset -> cardinality and data file.

    Raises:
        NotCanonical: the manifest is not sound.
    """
    columns = ["path", "offset", "cardinality", "data_file"]
    found: dict[int, tuple[int, str]] = {}
    with _opened(manifest) as file:
        for table in _pieces(manifest, file, columns, container):
            rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
            found |= {
                offset: (cardinality, data_file)
                for path, offset, cardinality, data_file in rows
                if storage.split(path)[1] == container
            }
    return found


def _pieces(manifest: str, file: io.RawIOBase, columns: list[str], container: str) -> Iterator[pa.Table]:
    """Yield the parts of a manifest that may name a container: of Parquet, the row groups whose statistics say so."""
    if manifest.endswith(".jsonl"):
        yield _table(manifest, file, columns)
        return
    parquet = pq.ParquetFile(file)
    place = parquet.schema_arrow.get_field_index("path")
    for group in range(parquet.num_row_groups):
        bounds = parquet.metadata.row_group(group).column(place).statistics
        one = bounds is not None and bounds.has_min_max and bounds.min == bounds.max
        if not one or storage.split(bounds.min)[1] == container:
            yield parquet.read_row_group(group, columns=columns)


def _table(path: str, file: io.RawIOBase, columns: list[str]) -> pa.Table:
    if not path.endswith(".jsonl"):
        return pq.ParquetFile(file).read(columns=columns)
    wanted = pa.schema([SCHEMA.field(name) for name in columns])
    data = file.read()
    if not data:
        return wanted.empty_table()
    options = pa.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    return pa.json.read_json(pa.py_buffer(data), parse_options=options)


@contextmanager
def _opened(path: str) -> Iterator[io.RawIOBase]:
    """Open a manifest; what is wrong with its bytes names it."""
    with open_source(path) as source:
        try:
            yield _SourceFile(source)
        except _DAMAGED as err:
            raise NotCanonical("manifest", source=path, expected="one that a write left", actual=str(err)) from None


class _SourceFile(io.RawIOBase):
    """A source as pyarrow wants it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def seekable(self) -> bool:
        """Whether it has places: yes."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        return self._at

    def tell(self) -> int:
        """Return the place."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read as much as there is and fits."""
        size = max(min(len(buffer), self._source.size - self._at), 0)
        memoryview(buffer).cast("B")[:size] = self._source.read(self._at, size)
        self._at += size
        return size

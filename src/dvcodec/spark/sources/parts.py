"""Writing of manifests: tasks write one part per container, the driver merges them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec.core.frame import UNCOUNTED
from dvcodec.core.json_text import parse_json
from dvcodec.core.location import DvLocation
from dvcodec.delta import Descriptor
from dvcodec.iceberg import manifest_entry
from dvcodec.io import SinkFile, Storage, open_sink
from dvcodec.io.parallel import run_bounded
from dvcodec.io.target import is_local
from dvcodec.paimon import DeletionVectorMeta
from dvcodec.spark.sources.manifest import CONTAINERS, SCHEMA, content_of

__all__ = ["data_files_in", "entries", "merge_parts", "part_of"]

_AT_ONCE = 4
"""Remote parts read at once: each may have some 20 MB."""


def entries(locations: Sequence[DvLocation], table_root: str) -> list[str]:
    """Return the ``entry`` of vectors of one container.

    As JSON: the values of Iceberg's ``data_file`` struct (`iceberg.manifest_entry`), Delta's descriptor
    (`delta.Descriptor.to_json`), or the fields of `paimon.DeletionVectorMeta` for Paimon's index manifest.

    Raises:
        UsageError: a Delta container that a descriptor can reference neither relative to `table_root` nor absolutely.
    """
    if not locations:
        return []
    kind = locations[0].format
    if kind == "iceberg":
        return [_json(manifest_entry(location)) for location in locations]
    if kind == "delta":
        same = Descriptor.from_location(locations[0], table_root)  # deriving the name is the expensive part
        return [
            replace(
                same,
                size_in_bytes=location.size - UNCOUNTED,
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
    """Return a container's part of the manifest, for `merge_parts`.

    Raises:
        UsageError: see `entries`.
    """
    columns = {name: [getattr(location, name) for location in locations] for name in SCHEMA.names[:-1]}
    columns["entry"] = entries(locations, table_root)
    if form == "jsonl":
        rows = zip(*(columns[name] for name in SCHEMA.names), strict=True)
        return "".join(_json(dict(zip(SCHEMA.names, row, strict=True))) + "\n" for row in rows).encode()
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, SCHEMA) as writer:
        writer.write_table(pa.table(columns, SCHEMA))
    return bytes(out.getvalue())


def data_files_in(part: str, form: str, stores: Storage) -> list[str]:
    """Return the data files of a container, as its part of the manifest (see `part_of`) names them."""
    content = content_of(part, stores)
    if form == "jsonl":
        return [parse_json(line, part, "part of the manifest")["data_file"] for line in content.splitlines()]
    with pa.ipc.open_file(pa.py_buffer(content)) as batches:
        names: list[str] = batches.read_all()["data_file"].to_pylist()
    return names


def merge_parts(parts: Iterable[str], path: str, containers: Sequence[str], stores: Storage) -> None:
    """Write a manifest atomically, part by part.

    Args:
        parts: files written by `part_of`, in the order of their rows.
        path: path of the manifest; its ending decides the form.
        containers: names of the containers, stored apart from the rows.
        stores: opens the files.
    """
    threads = 1 if is_local(path) else _AT_ONCE
    contents = run_bounded(lambda part: content_of(part, stores), parts, threads)
    with open_sink(path, storage_options=stores) as sink:
        if path.endswith(".jsonl"):
            for content in contents:
                sink.write(content)
            return
        schema = SCHEMA.with_metadata({CONTAINERS: json.dumps(list(containers)).encode()})
        with pq.ParquetWriter(pa.PythonFile(SinkFile(sink), "w"), schema, compression="zstd") as writer:
            for content in contents:
                with pa.ipc.open_file(pa.py_buffer(content)) as batches:
                    writer.write_table(batches.read_all().replace_schema_metadata(schema.metadata))

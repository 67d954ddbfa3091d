"""Iceberg: vectors, their Puffin files, manifests, metadata, tables."""

from __future__ import annotations

import gzip
import struct

from dvcodec import iceberg
from dvcodec.io import Storage
from dvcodec.tables.iceberg.avro_fields import open_avro
from dvcodec.tables.iceberg.metadata import read_metadata
from limits.cases.avro import AVRO_SCHEMAS, AVRO_VALUES, EXTRAS, FLAT, avro_blocks, avro_bombs, avro_file
from limits.cases.puffin import PUFFIN_FOOTERS, PUFFINS
from limits.cases.vectors import frames
from limits.making import SMALL, bounded, by_path, cases, drained, large, large_file, limit, saved, tables
from samples.bombs import BOMB, JSONS, MEGA, gzipped

frames("iceberg.decode", iceberg.decode)
cases(
    "iceberg.read_deletion_vectors",
    iceberg.read_deletion_vectors,
    **{what: make for what, make in PUFFINS.items() if "nothing" not in what},
)
bounded(
    "iceberg.read_deletion_vectors",
    limit("max_footer_bytes"),
    lambda data: iceberg.read_deletion_vectors(data, limits=SMALL),
    **PUFFIN_FOOTERS,
)


def metadata(path: str) -> object:
    return read_metadata(path, Storage())


def iceberg_records(path: str) -> int:
    with open_avro(path, Storage()) as (file, _):
        return drained(file.records())


read_iceberg = by_path("m.avro", iceberg_records)
cases("iceberg manifest", read_iceberg, **avro_blocks(FLAT), **AVRO_VALUES, **AVRO_SCHEMAS)
bounded("iceberg manifest", limit("max_manifest_bytes"), read_iceberg, **avro_bombs(FLAT))
cases("iceberg manifest, a field more", read_iceberg, **{
    what: (lambda kind=kind: avro_file(
        {**FLAT, "fields": [*FLAT["fields"], {"name": "x", "type": kind}]}, 1, b"\2" * 100_000
    ))
    for what, kind in EXTRAS.items()
})  # fmt: skip
cases("iceberg metadata", lambda data: metadata(saved(data, "v1.metadata.json")), **JSONS)
cases("iceberg metadata, gzip", lambda data: metadata(saved(data, "v1.metadata.json.gz")), **{
    what: (lambda make=make: gzip.compress(make())) for what, make in JSONS.items()
})  # fmt: skip
bounded(
    "iceberg metadata",
    limit("max_manifest_bytes"),
    by_path("v1.metadata.json.gz", metadata),
    gzip_bomb_of_blanks=lambda: gzipped(BOMB, b" "),
    gzip_bomb_of_brackets=lambda: gzipped(BOMB, b"["),
    blanks=lambda: b" " * (33 * MEGA),
)
bounded(
    "iceberg metadata",
    "LimitExceeded: .*values in the metadata: expected at most",
    lambda data: metadata(saved(data, "v1.metadata.json.gz")),
    bomb_of_lists=lambda: gzip.compress(b"{" + b'"a":[],' * (20 * MEGA // 7), 1),
)
tables("iceberg", lambda data: {"metadata/v1.metadata.json": data}, JSONS)
large_file(
    "iceberg manifest",
    limit("max_manifest_bytes"),
    iceberg_records,
    lambda: large(avro_file(FLAT, 1, b"\0"), "m"),
)
large_file("iceberg metadata", limit("max_manifest_bytes"), metadata, lambda: large(b"{", "v1.metadata.json"))
large_file(
    "puffin footer",
    limit("max_footer_bytes"),
    iceberg.read_deletion_vectors,
    lambda: large(b"PFA1", "1.puffin", tail=struct.pack("<iI", 290 * MEGA, 0) + b"PFA1"),
)

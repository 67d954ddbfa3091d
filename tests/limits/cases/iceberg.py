"""Iceberg: vectors, their Puffin files, manifests, metadata, tables."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable

from dvcodec import DvLocation, iceberg
from dvcodec.io import Storage
from dvcodec.tables.iceberg.deletes import read_deletes
from dvcodec.tables.iceberg.entries import DELETES, Manifest, read_list, read_manifest
from dvcodec.tables.iceberg.metadata import read_metadata
from limits.cases.avro import FLAT, avro_file
from limits.cases.parquet import LARGE_FOOTER
from limits.cases.puffin import OVERLAPPING, large_puffin
from limits.cases.vectors import frames, large_blob
from limits.making import by_path, case, cases, error, large, large_file, limit, saved
from samples.bombs import BOMB, JSONS, MEGA, gzipped


def metadata(path: str) -> object:
    return read_metadata(path, Storage())


def manifest(path: str) -> object:
    listed = Manifest(path, path, 0, DELETES, 1, 1, encrypted=False)
    return read_manifest(listed, (), str, storage=Storage())


def large_avro() -> str:
    return large(avro_file(FLAT, 1, b"\0"), "m.avro")


def large_parquet() -> str:
    return large(b"PAR1", "d.parquet", tail=LARGE_FOOTER)


def position_deletes(kind: str) -> Callable[[str], object]:
    return lambda path: read_deletes(path, kind, 1, Storage())


CASES = [
    *frames("iceberg.decode", iceberg.decode),
    case("iceberg.read_deletion_vectors", iceberg.read_deletion_vectors, *OVERLAPPING),
    *cases("iceberg metadata", lambda data: metadata(saved(data, "v1.metadata.json")), JSONS),
    *cases(
        "iceberg metadata",
        by_path("v1.metadata.json.gz", metadata),
        {
            "gzip bomb of blanks": lambda: gzipped(BOMB, b" "),
            "gzip bomb of brackets": lambda: gzipped(BOMB, b"["),
        },
        limit("max_metadata_bytes"),
    ),
    case(
        "iceberg metadata",
        lambda data: metadata(saved(data, "v1.metadata.json.gz")),
        "bomb of lists",
        lambda: gzip.compress(b"{" + b'"a":[],' * (20 * MEGA // 7), 1),
        error("NotCanonical: .*expected JSON"),
    ),
    large_file(
        "iceberg.load",
        lambda path: iceberg.load(DvLocation("iceberg", path, 0, BOMB, 1), path),
        large_blob,
        limit("max_vector_bytes"),
    ),
    large_file(
        "iceberg.read_deletion_vectors",
        iceberg.read_deletion_vectors,
        lambda: large_puffin(properties={"cardinality": "1", "referenced-data-file": "a"}),
        limit("max_vector_bytes"),
    ),
    *(
        large_file(name, read, make, limit("max_metadata_bytes"))
        for name, read, make in (
            ("iceberg metadata", metadata, lambda: large(b"{", "v1.metadata.json")),
            ("iceberg manifest of a table", manifest, large_avro),
            ("iceberg manifest list", lambda path: read_list(path, str, Storage()), large_avro),
            ("position deletes, Parquet", position_deletes("parquet"), large_parquet),
            ("iceberg.read_position_deletes", iceberg.read_position_deletes, large_parquet),
            ("position deletes, Avro", position_deletes("avro"), large_avro),
            ("position deletes, ORC", position_deletes("orc"), lambda: large(b"ORC", "d.orc")),
            (
                "puffin footer",
                iceberg.read_deletion_vectors,
                lambda: large(b"PFA1", "1.puffin", tail=struct.pack("<iI", 290 * MEGA, 0) + b"PFA1"),
            ),
        )
    ),
]

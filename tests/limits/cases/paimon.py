"""Paimon: vectors of 32 and 64 bits, index files, index manifests, manifests, metadata, tables."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dvcodec import paimon
from dvcodec.tables.folder import Folder
from dvcodec.tables.json_fields import JsonFields, parse_json
from dvcodec.tables.paimon.manifests import read_manifest, read_manifest_list
from dvcodec.tables.paimon.metadata import read_snapshot
from limits.cases.avro import EXTRAS, avro_blocks, avro_bombs, avro_file, schema_of
from limits.cases.vectors import LARGE_FRAME, frames
from limits.making import SMALL, VECTORS_OF, bounded, by_path, cases, large, large_file, limit, tables
from samples import bitmaps
from samples.bombs import JSONS, MEGA

# ------------------------------------------------------------------------------------------------------------ vectors

frames("paimon.decode", paimon.decode)
cases(
    "paimon.decode of 32 bits",
    paimon.decode,
    count=lambda: bitmaps.frame(bitmaps.PAIMON, struct.pack("<II", 12346, 2**32 - 1)),
    containers=lambda: bitmaps.frame(bitmaps.PAIMON, struct.pack("<HH", 12347, 65535) + b"\xff" * 9000),
)
cases(
    "paimon index file",
    paimon.load_frames,
    length=lambda: b"\1" + struct.pack(">I", 2**31 - 1) + bytes(100),
    frames_of_nothing=lambda: b"\1" + bytes(8) * 100_000,
)
cases("paimon hash index", paimon.decode_hash_index, odd_bytes=lambda: bytes(4 * MEGA + 1))
large_file("paimon index file", limit("max_vector_bytes"), paimon.load_frames, lambda: large(LARGE_FRAME, "index-1"))
large_file(
    "paimon.load",
    limit("max_vector_bytes"),
    lambda path: paimon.load(paimon.DeletionVectorMeta("a", 1, 290 * MEGA + 8, 1), path),
    lambda: large(LARGE_FRAME, "index-1"),
)

# ---------------------------------------------------------------------------------------------------- index manifests

KNOWN = schema_of(VECTORS_OF / "paimon/java-1.3.1/index-manifest-0")
cases("paimon.read_index_manifest", paimon.read_index_manifest, **avro_blocks(KNOWN))
bounded(
    "paimon.read_index_manifest",
    limit("max_manifest_bytes"),
    lambda data: paimon.read_index_manifest(data, limits=SMALL),
    **avro_bombs(KNOWN),
)
large_file(
    "paimon.read_index_manifest",
    limit("max_manifest_bytes"),
    paimon.read_index_manifest,
    lambda: large(avro_file(KNOWN, 1, b"\0"), "m"),
)


def with_field(kind: Any) -> bytes:
    """A valid index manifest, but for an unknown field, and its contents."""
    return avro_file({**KNOWN, "fields": [{"name": "extra", "type": kind}, *KNOWN["fields"]]}, 1, b"\2" * 100_000)


cases("paimon.read_index_manifest, a field more", paimon.read_index_manifest, **{
    what: (lambda kind=kind: with_field(kind)) for what, kind in EXTRAS.items()
})  # fmt: skip

# ------------------------------------------------------------------------------------------ manifests, metadata, tables


def within(read: Callable[[Folder, str], object], name: str) -> Callable[[str], object]:
    """A reader of a file in a folder of a table."""
    return lambda path: read(Folder(str(Path(path).parent.parent)), name)


MANIFESTS = VECTORS_OF / "tables/paimon/java-1.4.2/merged32/table/manifest"
for _name, _pattern, _read in (
    ("paimon manifest", "manifest-[0-9a-f]*", read_manifest),
    ("paimon manifest list", "manifest-list-*", read_manifest_list),
):
    _schema = schema_of(min(MANIFESTS.glob(_pattern)))
    _decode = by_path("manifest/m", within(_read, "m"))
    cases(_name, _decode, **avro_blocks(_schema))
    bounded(_name, limit("max_manifest_bytes"), _decode, **avro_bombs(_schema))
large_file(
    "paimon manifest",
    limit("max_manifest_bytes"),
    within(read_manifest, "m"),
    lambda: large(avro_file(KNOWN, 1, b"\0"), "manifest/m"),
)
large_file(
    "paimon snapshot",
    limit("max_manifest_bytes"),
    within(read_snapshot, "snapshot/snapshot-1"),
    lambda: large(b"{", "snapshot/snapshot-1"),
)
cases("paimon metadata", lambda data: JsonFields.of(parse_json(data, "s", "metadata"), "s").text("location"), **JSONS)
tables("paimon", lambda data: {"snapshot/snapshot-1": data, "schema/schema-0": data}, JSONS)

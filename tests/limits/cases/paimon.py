"""Paimon: vectors of 32 and 64 bits, index files, index manifests, manifests, metadata, tables."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dvcodec import paimon
from dvcodec.cli.inspect import check_entry
from dvcodec.core.report import Status
from dvcodec.tables.folder import Folder
from dvcodec.tables.paimon.manifests import read_manifest, read_manifest_list
from dvcodec.tables.paimon.metadata import read_schema, read_snapshot
from limits.cases.avro import avro_file, schema_of
from limits.cases.vectors import LARGE_FRAME
from limits.making import VECTORS_OF, case, error, large, large_file, limit, refuse
from samples import bitmaps
from samples.bombs import BOMB, MEGA

ONE = paimon.DeletionVectorMeta("a", 1, 290 * MEGA + 8, 1)
KNOWN = schema_of(VECTORS_OF / "paimon/java-1.3.1/index-manifest-0")


# ------------------------------------------------------------------------------------------ manifests, metadata, tables


def within(read: Callable[[Folder, str], object], name: str) -> Callable[[str], object]:
    """A reader of a file in a folder of a table."""
    return lambda path: read(Folder(str(Path(path).parent.parent)), name)


def hash_index(path: str) -> None:
    """As ``dvcodec verify`` reads it."""
    entry = paimon.IndexManifestEntry(paimon.HASH, Path(path).name, BOMB, BOMB // 4, external_path=path)
    refuse(all(check.status is Status.PASS for check in check_entry(entry, str(Path(path).parent))))


CASES = [
    case(
        "paimon.decode of 32 bits",
        paimon.decode,
        "count",
        lambda: bitmaps.frame(bitmaps.PAIMON, struct.pack("<II", 12346, 2**32 - 1)),
    ),
    *(
        large_file(name, read, lambda: large(LARGE_FRAME, "index-1"), limit("max_vector_bytes"))
        for name, read in (
            ("paimon index file", paimon.load_frames),
            ("paimon.load", lambda path: paimon.load(ONE, path)),
            ("paimon.read_deletion_vectors", lambda path: paimon.read_deletion_vectors(path, [ONE])),
        )
    ),
    large_file("paimon hash index", hash_index, lambda: large(b"", "index-1"), error("NotCanonical: finding")),
    *(
        large_file(name, read, partial(large, head, place), limit("max_metadata_bytes"))
        for name, read, head, place in (
            ("paimon.read_index_manifest", paimon.read_index_manifest, avro_file(KNOWN, 1, b"\0"), "m"),
            ("paimon manifest", within(read_manifest, "m"), avro_file(KNOWN, 1, b"\0"), "manifest/m"),
            ("paimon manifest list", within(read_manifest_list, "m"), avro_file(KNOWN, 1, b"\0"), "manifest/m"),
            ("paimon schema", within(lambda folder, _: read_schema(folder, 0), ""), b"{", "schema/schema-0"),
            ("paimon snapshot", within(read_snapshot, "snapshot/snapshot-1"), b"{", "snapshot/snapshot-1"),
        )
    ),
]

"""Deletion vectors of version 3, read by the byte range that a manifest records."""

from __future__ import annotations

from dvcodec.core import vector as vector_
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.frame import Magic
from dvcodec.io import Storage
from dvcodec.io.frames import read_frame
from dvcodec.ops.stats import measure
from dvcodec.tables import rules
from dvcodec.tables.iceberg.manifests import ManifestEntry
from dvcodec.tables.iceberg.plan import Plan
from dvcodec.tables.model import DeletedRows, DeletionVector

__all__ = ["read_vector", "refuse_encrypted"]


def read_vector(vector: DeletionVector, plan: Plan, storage: Storage) -> DeletedRows:
    """Read a deletion vector by its byte range, in any file.

    Raises:
        NotCanonical: the manifest lacks its byte range or its data file.
        Refused: its data sequence number is below that of its data file.
        DecodeError: it is corrupt, or its cardinality differs from the recorded one.
        OSError: its file cannot be read.
    """
    if vector.data_file is None or vector.offset is None or vector.size is None:
        place = ("referenced_data_file", vector.data_file), ("content_offset", vector.offset)
        missing = next((name for name, value in place if value is None), "content_size_in_bytes")
        raise NotCanonical(
            "manifest entry of a vector", source=vector.path, expected="range and data file", actual=f"no {missing}"
        )
    file = plan.data.get(vector.data_file)
    rules.refuse(rules.older(vector, file))
    with storage.open(vector.location, size=vector.file_size) as source:
        found = vector_.read(
            read_frame(source, vector.offset, vector.size, storage.limits),
            allowed=(Magic.PORTABLE64,),
            cardinality=vector.cardinality,
            limits=storage.limits,
        )
        row_count = None if file is None else file.physical_rows
        return DeletedRows(vector.data_file, found.load(), measure(found, row_count=row_count))


def refuse_encrypted(entry: ManifestEntry, path: str) -> None:
    """Check that a file is not encrypted.

    Raises:
        Unsupported: it is.
    """
    if entry.key_metadata is not None:
        raise Unsupported("file", source=path, expected="no encryption", actual="key_metadata")

"""Deletion vectors of version 3, read by the byte range that a manifest records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dvcodec.core import vector as vector_
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.frame import Magic
from dvcodec.io import Storage, read_window
from dvcodec.ops.stats import measure
from dvcodec.tables import rules
from dvcodec.tables.iceberg.plan import Plan
from dvcodec.tables.model import DataFile, DeletedRows, DeletionVector

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
        missing = [
            name
            for name in ("referenced_data_file", "content_offset", "content_size_in_bytes")
            if name not in vector.record
        ]
        raise NotCanonical(
            "manifest entry of a vector", source=vector.path, expected="range and data file", actual=f"no {missing[0]}"
        )
    data = plan.data.get(vector.data_file)
    file = data.file if data is not None and isinstance(data.file, DataFile) else None
    rules.refuse(rules.older(vector, file))
    with storage.open(vector.location, size=vector.file_size) as source:
        found = vector_.read(
            read_window(source, vector.offset, vector.size),
            allowed=(Magic.PORTABLE64,),
            exact=True,
            cardinality=vector.cardinality,
        )
    row_count = None if file is None else file.physical_rows
    return DeletedRows(vector.data_file, found.load(), measure(found, row_count=row_count))


def refuse_encrypted(record: Mapping[str, Any], path: str) -> None:
    """Check that a file takes no key.

    Raises:
        Unsupported: it is.
    """
    if "key_metadata" in record:
        raise Unsupported("file", source=path, expected="no encryption", actual="key_metadata")

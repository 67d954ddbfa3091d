"""Manifest entries of vectors, and the blob order of Java's writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dvcodec.core.errors import UsageError
from dvcodec.core.usage import check_integer, check_type
from dvcodec.core.vector import DvLocation

_JAVA_TABLE = 16
"""Initial buckets of a HashMap."""
_JAVA_CROWDED = 8
"""A small table doubles if a bucket has at least this many entries."""
_JAVA_MIN_TREE_TABLE = 64
_INVERSE_31 = pow(31, -1, 2**32)


def manifest_entry(location: DvLocation) -> dict[str, Any]:
    """Return a vector's ``data_file`` struct for a v3 delete manifest (without partition and sequence numbers).

    Sizes and offsets are in bytes; nothing is checked against the file.

    Raises:
        UsageError: not a `DvLocation`, or its data file is unknown.
    """
    check_type(location, DvLocation, "location", "a DvLocation")
    if location.data_file is None:
        raise UsageError(f"{location.path} at byte {location.offset}: unknown data file, which a manifest entry needs")
    return {
        "content": 1,
        "file_path": location.path,
        "file_format": "PUFFIN",
        "record_count": location.cardinality,
        "file_size_in_bytes": location.file_size,
        "referenced_data_file": location.data_file,
        "content_offset": location.offset,
        "content_size_in_bytes": location.size,
    }


def location_of(entry: Mapping[str, Any]) -> DvLocation:
    """Return the location in a v3 delete manifest's ``data_file`` struct: the inverse of `manifest_entry`.

    Raises:
        UsageError: a member is missing or has the wrong type.
    """
    members = {"file_path": str, "content_offset": int, "content_size_in_bytes": int, "record_count": int}
    for name, kind in members.items():
        if not isinstance(entry.get(name), kind):
            raise UsageError(f"manifest entry: {name} must be of type {kind.__name__}, found {entry.get(name)!r:.60}")
    path, offset, size, cardinality = (entry[name] for name in members)
    file_size = entry.get("file_size_in_bytes")
    return DvLocation("iceberg", path, offset, size, cardinality, entry.get("referenced_data_file"), file_size)


def java_blob_order(deletes: Mapping[str, int]) -> list[str]:
    """Order data files as Iceberg Java's ``BaseDVFileWriter`` writes their vectors: as its ``HashMap`` iterates.

    The map is filled by ``computeIfAbsent``, once for every deleted row. New entries go to the head of their bucket; a
    call that finds the table more than three quarters full doubles it first, even if the key exists.

    Args:
        deletes: data file -> number of deleted rows, in the order of their first delete, with all deletes of a file
            before those of the next.

    Not modelled: buckets of 8 or more entries in tables of 64 or more, which Java turns into trees.

    Raises:
        UsageError: not a mapping of str to int.
    """
    check_type(deletes, Mapping, "deletes", "a mapping of data files to numbers of rows")
    for path, rows in deletes.items():
        check_type(path, str, "a data file", "a str")
        check_integer(rows, "the rows of a data file")
    size = _JAVA_TABLE
    table: dict[int, list[str]] = {}
    hashes = {path: _java_hash(path) for path in deletes}
    for count, (path, rows) in enumerate(deletes.items(), 1):
        if count - 1 > size * 3 // 4:
            size, table = 2 * size, _doubled(table, size, hashes)
        bucket = table.setdefault(hashes[path] & (size - 1), [])
        bucket.insert(0, path)
        if len(bucket) >= _JAVA_CROWDED and size < _JAVA_MIN_TREE_TABLE:
            size, table = 2 * size, _doubled(table, size, hashes)
        if rows > 1 and count > size * 3 // 4:
            size, table = 2 * size, _doubled(table, size, hashes)
    return [path for bucket in sorted(table) for path in table[bucket]]


def _doubled(table: dict[int, list[str]], size: int, hashes: dict[str, int]) -> dict[int, list[str]]:
    """Split every bucket in two; entries keep their order."""
    doubled: dict[int, list[str]] = {}
    for bucket in table.values():
        for path in bucket:
            doubled.setdefault(hashes[path] & (2 * size - 1), []).append(path)
    return doubled


def _java_hash(text: str) -> int:
    """``String.hashCode`` over UTF-16 code units, spread as HashMap does."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2").astype(np.uint32)
    weights = np.cumprod(np.full(len(units), 31, np.uint32), dtype=np.uint32)[::-1] * np.uint32(_INVERSE_31)
    value = int((units * weights).sum(dtype=np.uint32))
    return value ^ value >> 16

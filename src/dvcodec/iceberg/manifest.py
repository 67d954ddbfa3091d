"""What a commit needs besides the bytes: manifest values, and the order in which Java writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dvcodec.core.errors import UsageError
from dvcodec.core.location import DvLocation

__all__ = ["java_blob_order", "manifest_entry"]

_INVERSE_31 = pow(31, -1, 2**32)


def manifest_entry(location: DvLocation) -> dict[str, Any]:
    """Return what a v3 delete manifest's ``data_file`` struct says of a vector (partition and sequence aside).

    Raises:
        UsageError: the data file is unknown, without which Iceberg cannot refer to the vector.
    """
    if location.data_file is None:
        raise UsageError(f"{location.path} at byte {location.offset}: an Iceberg vector needs its data file")
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


def java_blob_order(paths: Iterable[str]) -> list[str]:
    """Order paths as a ``java.util.HashMap`` iterates them that was filled in the given order by ``computeIfAbsent``.

    ``BaseDVFileWriter`` keeps its vectors in such a map. A bucket takes its newest entry at the head; the table
    doubles *before* an insert once it holds more than three quarters of its size, and keeps the order inside buckets.
    Not modelled: buckets of 9 and more, which Java turns into trees.
    """
    hashes = {path: _java_hash(path) for path in paths}
    size, table = 16, {}  # type: int, dict[int, list[str]]
    for count, path in enumerate(hashes):
        if count > size * 3 // 4:
            size *= 2
            entries = [entry for bucket in sorted(table) for entry in table[bucket]]
            table = {}
            for entry in entries:
                table.setdefault(hashes[entry] & (size - 1), []).append(entry)
        table.setdefault(hashes[path] & (size - 1), []).insert(0, path)
    return [entry for bucket in sorted(table) for entry in table[bucket]]


def _java_hash(text: str) -> int:
    """``String.hashCode`` over UTF-16 code units, spread as HashMap does."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2").astype(np.uint32)
    weights = np.cumprod(np.full(len(units), 31, np.uint32), dtype=np.uint32)[::-1] * np.uint32(_INVERSE_31)
    value = int((units * weights).sum(dtype=np.uint32))
    return value ^ value >> 16

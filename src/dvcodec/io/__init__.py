"""Reading by byte ranges, writing whole files.

A source can be read by (offset, size): bytes, a path, an open file, a URL (extra ``remote``). A sink
is a path, a writable file or a URL; a write appears as a whole or not at all. `Storage` caches listings and small files
for one reader of many files; `dvcodec.io.store` has the stores themselves.
"""

from dvcodec.io.opening import open_sink, open_source, remove
from dvcodec.io.sink import Sink, SinkFile, SinkTarget, is_partial, target_name
from dvcodec.io.source import (
    RandomAccess,
    ReadAhead,
    Source,
    SourceTarget,
    read_up_to,
    read_window,
    read_within,
)
from dvcodec.io.storage import Listed, ListedFiles, Storage, StorageOptions, storage_of
from dvcodec.io.target import is_url

__all__ = [
    "Listed",
    "ListedFiles",
    "RandomAccess",
    "ReadAhead",
    "Sink",
    "SinkFile",
    "SinkTarget",
    "Source",
    "SourceTarget",
    "Storage",
    "StorageOptions",
    "is_partial",
    "is_url",
    "open_sink",
    "open_source",
    "read_up_to",
    "read_window",
    "read_within",
    "remove",
    "storage_of",
    "target_name",
]

"""Where bytes come from and where they go: byte ranges in, whole files out.

A source is anything that can be read by (offset, size): bytes, a path, an open file, a URL (fsspec, extra
``remote``). A sink is a path, a writable file or a URL; what is written appears as a whole or not at all.
"""

from dvcodec.io.sink import Sink, SinkFile, SinkTarget, is_partial, open_sink, remove, target_name
from dvcodec.io.source import RandomAccess, Source, SourceTarget, hold_source, list_names, open_source, read_window
from dvcodec.io.target import is_url

__all__ = [
    "RandomAccess",
    "Sink",
    "SinkFile",
    "SinkTarget",
    "Source",
    "SourceTarget",
    "hold_source",
    "is_partial",
    "is_url",
    "list_names",
    "open_sink",
    "open_source",
    "read_window",
    "remove",
    "target_name",
]

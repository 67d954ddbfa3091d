"""Deletion vectors of Iceberg, Delta Lake, Paimon and Lance, and bleve's segments: read, write, verify, convert, apply.

Vectors are decoded to `RowSet`, an immutable set of 0-based physical row positions, and encoded from it, by one module
per format (`iceberg`, `mumbling`, `delta`, `paimon`, `lance`, and the container `puffin`). `decode`, `sniff`, `verify`,
`convert`, `diff`, `merge` and `describe` work with all of them; `arrow` applies row sets to rows; `zap` reads and
writes search segments.

>>> import dvcodec
>>> blob = dvcodec.iceberg.encode(dvcodec.RowSet([1, 3, 5, 7, 9]))
>>> dvcodec.decode(blob)
RowSet([1, 3, 5, 7, 9])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dvcodec._version import __version__

if TYPE_CHECKING:
    from dvcodec import arrow, delta, dialects, formats, iceberg, lance, mumbling, paimon, puffin, zap
    from dvcodec import io as io
    from dvcodec import report as report
    from dvcodec import spark as spark
    from dvcodec import tables as tables
    from dvcodec import testing as testing
    from dvcodec.core.errors import (
        BadMagic,
        CardinalityMismatch,
        ChecksumMismatch,
        CommitConflict,
        CommitUnknown,
        DecodeError,
        DvcodecError,
        LimitExceeded,
        MissingExtra,
        NotCanonical,
        Truncated,
        Unsupported,
        UsageError,
    )
    from dvcodec.core.limits import Limits
    from dvcodec.core.report import Check, Report, Status
    from dvcodec.core.roaring import ContainerMix
    from dvcodec.core.rowset import RowSet
    from dvcodec.core.vector import DvLocation, Magic, StoredFrame
    from dvcodec.formats import Container, ContainerKind, Format, VectorRef
    from dvcodec.io import SinkTarget, SourceTarget, StorageOptions
    from dvcodec.io.store.errors import StoreError
    from dvcodec.ops.convert import ConvertTarget, Diff, VectorStats, convert, describe, diff, merge, read_rows
    from dvcodec.ops.read import decode, decode_at, sniff
    from dvcodec.ops.verify import Change, Correction, correct, verify

__all__ = [
    "BadMagic",
    "CardinalityMismatch",
    "Change",
    "Check",
    "ChecksumMismatch",
    "CommitConflict",
    "CommitUnknown",
    "Container",
    "ContainerKind",
    "ContainerMix",
    "ConvertTarget",
    "Correction",
    "DecodeError",
    "Diff",
    "DvLocation",
    "DvcodecError",
    "Format",
    "LimitExceeded",
    "Limits",
    "Magic",
    "MissingExtra",
    "NotCanonical",
    "Report",
    "RowSet",
    "SinkTarget",
    "SourceTarget",
    "Status",
    "StorageOptions",
    "StoreError",
    "StoredFrame",
    "Truncated",
    "Unsupported",
    "UsageError",
    "VectorRef",
    "VectorStats",
    "__version__",
    "arrow",
    "convert",
    "correct",
    "decode",
    "decode_at",
    "delta",
    "describe",
    "dialects",
    "diff",
    "formats",
    "iceberg",
    "lance",
    "merge",
    "mumbling",
    "paimon",
    "puffin",
    "read_rows",
    "sniff",
    "verify",
    "zap",
]

# Names are imported on first use: printing the help of the command line, or using one format, does not load NumPy and
# all the other formats. `from dvcodec import *` excludes `io`, which would shadow Python's, and modules with extras.
_MODULES = (
    *("arrow", "delta", "dialects", "formats", "iceberg", "io", "lance", "mumbling"),
    *("paimon", "puffin", "report", "spark", "tables", "testing", "zap"),
)
_HOMES = {
    "core.errors": (
        "BadMagic",
        "CardinalityMismatch",
        "ChecksumMismatch",
        "CommitConflict",
        "CommitUnknown",
        "DecodeError",
        "DvcodecError",
        "LimitExceeded",
        "MissingExtra",
        "NotCanonical",
        "Truncated",
        "Unsupported",
        "UsageError",
    ),
    "core.vector": ("DvLocation", "Magic", "StoredFrame"),
    "core.limits": ("Limits",),
    "core.report": ("Check", "Report", "Status"),
    "core.roaring": ("ContainerMix",),
    "core.rowset": ("RowSet",),
    "io.store.errors": ("StoreError",),
    "ops.convert": ("ConvertTarget", "Diff", "VectorStats", "convert", "describe", "diff", "merge", "read_rows"),
    "io": ("SinkTarget", "SourceTarget", "StorageOptions"),
    "ops.verify": ("Change", "Correction", "correct", "verify"),
    "formats": ("Container", "ContainerKind", "Format", "VectorRef"),
    "ops.read": ("decode", "decode_at", "sniff"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"dvcodec.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'dvcodec' has no attribute {name!r}")
    value = getattr(import_module(f"dvcodec.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})

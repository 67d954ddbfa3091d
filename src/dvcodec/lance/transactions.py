"""Reads the operation that created a version of a dataset from its transaction.

Specification: Lance's ``transaction.proto``, message ``Transaction``. It is stored in a separate file, or in the
manifest file after its size (u32 LE); newer writers do both.
"""

from __future__ import annotations

from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.usage import as_count
from dvcodec.io import SourceTarget, StorageOptions, open_source, read_window, read_within
from dvcodec.lance import wire

__all__ = ["read_operation"]

_OPERATIONS = (
    "Append", "Delete", "Overwrite", "CreateIndex", "Rewrite", "Merge", "Restore", "ReserveFragments", "Update",
    "Project", "UpdateConfig", "DataReplacement", "UpdateMemWalState", "Clone", "UpdateBases", "DataOverlay",
    "AppendFragmentReuseTransitions",
)  # fmt: skip
"""Messages of the operations, by field number from 100."""
_FIRST = 100


def read_operation(
    source: SourceTarget,
    offset: int | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    storage_options: StorageOptions = None,
) -> str | None:
    """Return the name of a transaction's operation as ``transaction.proto`` has it, such as ``Delete``.

    Args:
        source: a transaction file, or a manifest.
        offset: for a manifest, `Manifest.transaction_offset`.
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        The name, or None for an unknown operation.

    Raises:
        DecodeError: the transaction is corrupt.
        UsageError: not a source, or `offset` is not an offset.
    """
    with open_source(source, storage_options=storage_options) as opened:
        start, size = 0, opened.size
        if offset is not None:
            offset = as_count(offset, "offset")
            start, size = offset + 4, read_window(opened, offset, 4).u32le("size of the transaction")
        cursor = read_within(opened, "max_manifest_bytes", limits, offset=start, size=size)
        found = None
        for entry in wire.fields(cursor):
            if 0 <= entry.number - _FIRST < len(_OPERATIONS):
                entry.window(cursor, "operation")
                found = _OPERATIONS[entry.number - _FIRST]
        return found

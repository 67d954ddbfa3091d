"""The columns of stored documents."""

from __future__ import annotations

from dvcodec.core.extras import pa

__all__ = ["ID", "PARENT", "STORED", "schema"]

ID, PARENT, STORED = "_id", "_parent", "_stored"


def schema() -> pa.Schema:
    """Return the columns of stored documents, which are the same for every index.

    ``_id`` binary; ``_parent`` int64, the document of the same segment that it is nested in, null for others;
    ``_stored`` list of (field, type, value, array_positions), in stored order, see `zap.SCHEMAS`.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    value = pa.struct(
        [
            pa.field("field", pa.string(), nullable=False),
            pa.field("type", pa.string(), nullable=False),
            pa.field("value", pa.binary(), nullable=False),
            pa.field("array_positions", pa.list_(pa.uint64()), nullable=False),
        ]
    )
    return pa.schema(
        [
            pa.field(ID, pa.binary(), nullable=False),
            pa.field(PARENT, pa.int64()),
            pa.field(STORED, pa.list_(pa.field("item", value, nullable=False)), nullable=False),
        ]
    )

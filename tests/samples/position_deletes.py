"""Files of position deletes: five rows of two data files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from dvcodec.core import avro


def position_deletes(kind: str, **options: Any) -> bytes:
    """A file in ``avro``, ``orc`` or ``parquet``; the options are those of the writer of ORC or Parquet."""
    paths, positions = ["s3://b/a.parquet"] * 3 + ["b"] * 2, [1, 2, 70_000, 0, 2**40]
    if kind == "avro":
        fields = [
            {"name": "file_path", "type": "string", "field-id": 2147483546},
            {"name": "pos", "type": "long", "field-id": 2147483545},
        ]
        rows = zip(paths, positions, strict=True)
        schema = {"type": "record", "name": "deletes", "fields": fields}
        return avro.encode(schema, [{"file_path": path, "pos": pos} for path, pos in rows], codec="null")
    columns = [pa.field("file_path", pa.string(), nullable=False), pa.field("pos", pa.int64(), nullable=False)]
    table, out = pa.table([paths, positions], schema=pa.schema(columns)), pa.BufferOutputStream()
    (pq if kind == "parquet" else orc).write_table(table, out, **options)
    return bytes(out.getvalue())

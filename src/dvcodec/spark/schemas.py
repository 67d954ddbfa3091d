"""Schemas of the Spark integration, as Spark types and as Arrow types."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

__all__ = [
    "BINARY",
    "BOOLEAN",
    "FILE_VECTORS",
    "INT",
    "LONG",
    "MIX",
    "RANGE",
    "STORED_VECTORS",
    "STRING",
    "VECTORS",
    "arrow_schema",
    "struct",
]

BINARY, BOOLEAN, INT, LONG, STRING = BinaryType(), BooleanType(), IntegerType(), LongType(), StringType()


def struct(**fields: DataType) -> StructType:
    """Return a struct of nullable fields."""
    return StructType([StructField(name, kind) for name, kind in fields.items()])


VECTORS = struct(data_file=STRING, cardinality=LONG, dv=BINARY)
"""Output of jobs: a data file, the number of its deleted rows, and its vector as one frame."""

MIX = struct(arrays=INT, bitsets=INT, runs=INT)
"""Containers of each kind."""

RANGE = struct(start=LONG, stop=LONG)
"""Rows from ``start`` to before ``stop``."""

STORED_VECTORS = struct(
    **dict.fromkeys(("container", "format", "data_file"), STRING),
    **dict.fromkeys(("offset", "size", "cardinality", "min", "max"), LONG),
    containers=MIX,
    crc_ok=BOOLEAN,
    error=STRING,
    dv=BINARY,
)
"""Rows of the data source ``dvcodec``, one per stored vector.

``container`` is the file, ``format`` how its vectors are wrapped (`dvcodec.ContainerKind`); ``offset`` and ``size``
are the whole frame's, in bytes; ``containers`` counts roaring containers. If a vector or a whole file is corrupt,
``error`` says why, and values that could not be read are null.
"""

FILE_VECTORS = StructType(STORED_VECTORS.fields[:-1])
"""Output of an audit: all columns but the vectors."""


_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
"""pyspark 4.3 needs a time zone for timestamps; earlier versions use UTC."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a Spark schema, moments in UTC."""
    made: pa.Schema = to_arrow_schema(schema, **_IN_UTC)
    return made

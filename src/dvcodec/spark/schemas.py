"""Schemas of the Spark integration, as Spark types and as Arrow types."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

__all__ = ["FILE_VECTORS", "STORED_VECTORS", "VECTORS", "arrow_schema"]

_MIX = StructType([StructField(name, IntegerType()) for name in ("arrays", "bitsets", "runs")])

VECTORS = StructType(
    [StructField("data_file", StringType()), StructField("cardinality", LongType()), StructField("dv", BinaryType())]
)
"""Output of jobs: a data file, the number of its deleted rows, and its vector as one frame."""

STORED_VECTORS = StructType(
    [
        StructField("container", StringType()),
        StructField("format", StringType()),
        StructField("data_file", StringType()),
        StructField("offset", LongType()),
        StructField("size", LongType()),
        StructField("cardinality", LongType()),
        StructField("min", LongType()),
        StructField("max", LongType()),
        StructField("containers", _MIX),
        StructField("crc_ok", BooleanType()),
        StructField("error", StringType()),
        StructField("dv", BinaryType()),
    ]
)
"""Rows of the data source ``dvcodec``, one per stored vector.

``container`` is the file, ``format`` how its vectors are wrapped (`dvcodec.ContainerKind`); ``offset`` and ``size``
are the whole frame's, in bytes; ``containers`` counts roaring containers. Where a vector or a whole file is corrupt,
``error`` says why, and values that could not be read are null.
"""

FILE_VECTORS = StructType(STORED_VECTORS.fields[:-1])
"""Output of an audit: all columns but the vectors."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a Spark schema of the kinds used here."""
    return pa.schema([pa.field(field.name, _arrow_type(field.dataType)) for field in schema.fields])


def _arrow_type(kind: object) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([pa.field(field.name, _arrow_type(field.dataType)) for field in kind.fields])
    simple: dict[type[object], pa.DataType] = {
        BinaryType: pa.binary(),
        BooleanType: pa.bool_(),
        IntegerType: pa.int32(),
        LongType: pa.int64(),
        StringType: pa.string(),
    }
    return simple[type(kind)]

"""What pyspark 3.5 does in another way than 4.0 and later: everything else here is written once for all of them.

Data sources in Python came with Spark 4.0. Their readers run without Spark's interface too, see `dvcodec.spark.tasks`,
so that only ``spark.read.format("dvcodec")`` and its kin need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeGuard

import pyarrow as pa
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from dvcodec.core.errors import UsageError

HAS_SOURCES = find_spec("pyspark.sql.datasource") is not None
"""Whether Spark takes data sources in Python."""
arrow_udf: Any = getattr(functions, "arrow_udf", None)
"""The decorator of Arrow UDFs, from pyspark 4.1 on; None before."""
_TAKES_ARROW = hasattr(DataFrame, "toArrow")
_METADATA = "_metadata"

if HAS_SOURCES:
    from pyspark.sql import datasource as datasource  # noqa: PLC0414  (for others)
else:
    datasource = ModuleType("datasource")
    for _name in ("DataSourceReader", "DataSourceArrowWriter", "InputPartition", "WriterCommitMessage"):
        setattr(datasource, _name, type(_name, (), {}))

    class _DataSource:
        def __init__(self, options: dict[str, str]) -> None:
            self.options = options

    setattr(datasource, "DataSource", _DataSource)  # noqa: B010  (mypy knows no such member of a module)


def is_frame(rows: object) -> TypeGuard[DataFrame]:
    """Whether something is a DataFrame of Spark: in 3.5, those of Connect have a class of their own."""
    return hasattr(rows, "mapInArrow")


def to_arrow(df: DataFrame) -> pa.Table:
    """Return all rows as an Arrow table: ``df.toArrow()``."""
    frame: Any = df
    if _TAKES_ARROW:
        return frame.toArrow()
    schema = to_arrow_schema(df.schema)
    if hasattr(frame, "_jdf"):
        batches = frame._collect_as_arrow()  # noqa: SLF001  (as toPandas does)
        return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()
    client = frame._session.client  # noqa: SLF001
    return client.to_table(frame._plan.to_proto(client))[0].cast(schema)  # noqa: SLF001


def frame_of(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Return an Arrow table as a DataFrame: ``spark.createDataFrame(table, schema)``."""
    if _TAKES_ARROW:
        return spark.createDataFrame(table, schema)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    return spark.range(0, 1, 1, 1).mapInArrow(_Stored(bytes(out.getvalue())), schema)


@dataclass(frozen=True)
class _Stored:
    """Yields a table, whatever the batches."""

    stream: bytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            with pa.ipc.open_stream(self.stream) as stream:
                yield from stream


def metadata_of(df: DataFrame) -> Column:
    """Return the column of metadata that Spark adds to rows of files: ``df.metadataColumn("_metadata")``.

    Raises:
        UsageError: over Spark Connect 3.5, rows with a column of that name.
    """
    frame: Any = df
    if hasattr(frame, "metadataColumn"):
        found: Column = frame.metadataColumn(_METADATA)
        return found
    if hasattr(frame, "_jdf"):
        from pyspark.sql import Column as ClassicColumn  # noqa: PLC0415  (of this version)

        return ClassicColumn(frame._jdf.metadataColumn(_METADATA))  # noqa: SLF001
    if _METADATA in df.columns:
        raise UsageError(f"over Spark Connect 3.5, a column {_METADATA} hides that of Spark: rename it")
    return functions.col(_METADATA)


def keep(df: DataFrame) -> DataFrame:
    """Compute a DataFrame now and keep its rows in the executors: ``df.localCheckpoint()``.

    Raises:
        UsageError: a session of Spark Connect 3.5.
    """
    try:
        return df.localCheckpoint()
    except PySparkNotImplementedError:
        raise UsageError("eager=True needs Spark 4.0 over Spark Connect: leave it out, or write the vectors") from None


def condition_of(err: Any) -> str:
    """Return the name of an error of Spark: ``err.getCondition()``, which Connect 3.5 has only in the text."""
    named = err.getCondition() if hasattr(err, "getCondition") else err.getErrorClass()
    said = re.search(r"\[([A-Z]\w+(?:\.\w+)*)\]", str(err))
    return str(named or (said and said[1]))


def reason(err: Exception) -> str:
    """Return what Spark says, in one line."""
    text = str(err).strip()
    said = re.search(r"\[[A-Z]\w+(?:\.\w+)*\] [^\n]+", text)
    return (said[0] if said else text.partition("\n")[0])[:300]

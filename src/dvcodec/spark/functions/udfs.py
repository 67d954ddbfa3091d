"""Wrap Arrow functions as UDFs of the current session.

A UDF object belongs to the session that it was first used in, classic or Spark Connect, so one is made for every
column. Before 4.1 pyspark has no ``arrow_udf``: pandas UDFs wrap the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import ArrayType, DataType, StructType

from dvcodec.core.errors import UsageError
from dvcodec.core.usage import check_type
from dvcodec.core.vector import Magic
from dvcodec.ops.read import encodings, format_named
from dvcodec.spark.columns import BINARY, BOOLEAN, LONG, MIX, RANGE, STRING, struct
from dvcodec.spark.compat import arrow_udf
from dvcodec.spark.functions import kernels
from dvcodec.spark.vectors import MAGICS

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, SparkSession

_MAX_EXACT = 1 << 53
"""Floats hold all smaller integers exactly."""


@dataclass(frozen=True, slots=True)
class _Function:
    """An Arrow function, and how Spark calls it.

    Attributes:
        kernel: the function; Spark infers its kind from the type hints.
        returns: Spark type of its result.
        takes: Arrow types of its arguments.
        shape: one array for one array, an iterator of arrays, or a value for all rows of a group.
    """

    kernel: Callable[..., Any]
    returns: DataType
    takes: tuple[pa.DataType, ...] = (pa.binary(),)
    shape: Literal["scalar", "iterator", "aggregate"] = "scalar"


def _encoder(magic: Magic) -> Callable[[pa.Array], pa.Array]:
    def dv_encode(positions: pa.Array) -> pa.Array:
        return kernels.dv_encode(positions, magic)

    return dv_encode


def _with_format(kernel: Callable[[pa.Array, str], pa.Array], name: str) -> Callable[[pa.Array], pa.Array]:
    def with_format(values: pa.Array) -> pa.Array:
        return kernel(values, name)

    return with_format


_DECODED = struct(layout=STRING, cardinality=LONG, min=LONG, max=LONG, containers=MIX)
_VERIFIED = struct(ok=BOOLEAN, crc_ok=BOOLEAN, cardinality=LONG, error=STRING)
_TWO = (pa.binary(), pa.binary())

_FUNCTIONS = {
    "dv_contains": _Function(kernels.dv_contains, BOOLEAN, (pa.binary(), pa.int64())),
    "dv_cardinality": _Function(kernels.dv_cardinality, LONG),
    "dv_decode": _Function(kernels.dv_decode, _DECODED),
    "dv_verify": _Function(kernels.dv_verify, _VERIFIED),
    "dv_positions": _Function(kernels.dv_positions, ArrayType(LONG), shape="iterator"),
    "dv_ranges": _Function(kernels.dv_ranges, ArrayType(RANGE), shape="iterator"),
    "dv_union": _Function(kernels.dv_union, BINARY, shape="aggregate"),
    "dv_diff": _Function(kernels.dv_diff, struct(added=BINARY, restored=BINARY), _TWO),
    **{
        f"dv_encode {name}": _Function(_encoder(magic), BINARY, (pa.list_(pa.int64()),))
        for name, magic in MAGICS.items()
    },
}


def build_bitmap(ids: Column | str, format_name: str) -> Column:
    """Aggregate ids to a bitmap of a format.

    Raises:
        UsageError: an unknown format.
    """
    check_format(format_name)
    given = column_of(ids, "bitmap_build")
    # A list is faster than an aggregate UDF: Spark calls that once for each group.
    listed = F.collect_list(given.cast("bigint"))
    function = _Function(_with_format(kernels.bitmap_build, format_name), BINARY, (pa.list_(pa.int64()),))
    return cast("Column", _udf(function)(listed).alias(_shown("bitmap_build", [given])))


def call_with_format(name: Literal["dv_export", "dv_import"], column: Column | str, format_name: str) -> Column:
    """Apply a function that takes the name of a format of one vector.

    Raises:
        UsageError: an unknown format.
    """
    check_format(format_name)
    kernel = {"dv_export": kernels.dv_export, "dv_import": kernels.dv_import}[name]
    return _call(_Function(_with_format(kernel, format_name), BINARY), name, column)


def check_format(name: object) -> None:
    """Check the name of a format of one vector that can be written.

    Raises:
        UsageError: an unknown format.
    """
    check_type(name, str, "format", "a str")
    found = format_named(str(name))
    if found is None or found.encode is None:
        raise UsageError(f"format must be one of {', '.join(encodings())}, not {name!r:.60}")


def call(name: str, *columns: Column | str) -> Column:
    """Apply a function to columns; return the resulting column, which is named as Spark names calls."""
    return _call(_FUNCTIONS[name], name, *columns)


def _call(function: _Function, name: str, *columns: Column | str) -> Column:
    given = [column_of(column, name.partition(" ")[0]) for column in columns]
    shown = _shown(name, given)
    typed = [_binary(c) if kind == pa.binary() else c for c, kind in zip(given, function.takes, strict=True)]
    udf = _udf(function)
    if arrow_udf is not None:
        return cast("Column", udf(*typed).alias(shown))
    # Through pandas, a column of longs with a null becomes floats, and a null struct becomes a struct of nulls.
    numbers = [pa.types.is_integer(kind) for kind in function.takes]
    if not any(numbers) and not isinstance(function.returns, StructType):
        return cast("Column", udf(*typed).alias(shown))
    whole = [F.coalesce(c, F.lit(-1)) if number else c for c, number in zip(typed, numbers, strict=True)]
    known = reduce(and_, [column.isNotNull() for column in given])
    return F.when(known, udf(*whole)).alias(shown)


def _shown(name: str, columns: list[Column]) -> str:
    """Return the name of a column that is a call, as Spark names it."""
    return f"{name.partition(' ')[0]}({', '.join(map(_name_of, columns))})"


def _name_of(column: Column) -> str:
    """Return the name that a column was given, else its expression, in which AS may stand in parentheses."""
    text = str(column)[len("Column<") + 1 : -2]
    name = text.rpartition(" AS ")[2].strip("`")
    return name if name.count("(") == name.count(")") else text


def column_of(value: Any, function: str) -> Column:
    """Return a column that is given as one or by its name.

    Raises:
        UsageError: it is a value.
    """
    if isinstance(value, str):
        return F.col(value)
    if not hasattr(value, "cast"):
        raise UsageError(
            f"{function} takes columns and their names, not {type(value).__name__}: for a constant, F.lit(..); "
            "in SQL, what dvcodec.spark.register registers; in a Python function, dvcodec.decode(dv)"
        )
    return cast("Column", value)


def _binary(column: Column) -> Column:
    """Have Spark's analyzer refuse a column that is not binary, as `bitmap_count` does; the optimizer removes that."""
    return F.when(F.lit(False) & F.bitmap_count(column).isNull(), F.lit(None)).otherwise(column)


def register_functions(spark: SparkSession) -> None:
    """Make the functions callable from SQL, under their names; `dv_encode` is that of the shared layout."""
    for name, function in _FUNCTIONS.items():
        words = name.split(" ")
        if words[1:] in ([], ["iceberg"]):
            spark.udf.register(words[0], _udf(function))


def _udf(function: _Function) -> Any:
    if arrow_udf is not None:
        return arrow_udf(function.kernel, function.returns)
    return cast("Any", pandas_udf)(_over_pandas(function), function.returns)


def _over_pandas(function: _Function) -> Callable[..., Any]:
    """Return a function of pandas objects, named and annotated as ``pandas_udf`` wants it."""
    import pandas as pd  # noqa: PLC0415  (only here)

    kernel, takes = function.kernel, function.takes

    def scalar(*columns: pd.Series) -> Any:
        arrays = [_to_arrow(column, kind) for column, kind in zip(columns, takes, strict=True)]
        return _to_pandas(kernel(*arrays))

    def iterator(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        return map(_to_pandas, kernel(_to_arrow(column, takes[0]) for column in batches))

    def aggregate(column: pd.Series) -> Any:
        return kernel(_to_arrow(column, takes[0]))

    made: Any = {"scalar": scalar, "iterator": iterator, "aggregate": aggregate}[function.shape]
    several = Iterator[pd.Series]  # type: ignore[type-arg,unused-ignore]
    result = pd.DataFrame if isinstance(function.returns, StructType) else pd.Series
    made.__annotations__ = {
        "scalar": {"columns": pd.Series, "return": result},
        "iterator": {"batches": several, "return": several},
        "aggregate": {"column": pd.Series, "return": bytes},
    }[function.shape]
    made.__name__ = kernel.__name__
    return cast("Callable[..., Any]", made)


def _to_arrow(column: pd.Series, kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind) and column.dtype.kind == "f" and (column.abs() > _MAX_EXACT).any():
        raise UsageError("positions above 2**53 beside nulls need pyspark 4.1, or the functions of dvcodec in Python")
    if (
        pa.types.is_binary(kind)
        and (first := column.first_valid_index()) is not None
        and isinstance(column[first], str)
    ):
        raise UsageError(kernels.NO_TEXT)
    return pa.array(column, kind, from_pandas=True)


def _to_pandas(found: pa.Array) -> Any:
    """Return what pyspark converts back to the same array: lists as objects, structs as columns, all else unchanged."""
    import pandas as pd  # noqa: PLC0415

    if pa.types.is_struct(found.type):
        fields = zip([field.name for field in found.type], found.flatten(), strict=True)
        return pd.DataFrame({name: _flat_to_pandas(column) for name, column in fields})
    return _flat_to_pandas(found)


def _flat_to_pandas(found: pa.Array) -> Any:
    import pandas as pd  # noqa: PLC0415

    nested = pa.types.is_list(found.type) or pa.types.is_struct(found.type)
    return found.to_pandas() if nested else found.to_pandas(types_mapper=pd.ArrowDtype)

"""Functions on deletion vectors for ``select``, ``where`` and ``agg``: columns in, columns out.

::

    from dvcodec.spark.functions import dv_cardinality, dv_contains

    deletes.select("data_file", dv_cardinality("dv"))
    rows.join(broadcast(deletes), "data_file").where(~dv_contains("dv", "row_index"))

A vector is a binary column that holds one whole frame (length, magic, bitmap, CRC), in any layout: as Iceberg, Delta
and Paimon store it. Arguments are columns or their names. A null gives a null. A corrupt vector fails the job
with an error; `dv_verify` reports it instead.

`dvcodec.spark.register` makes them callable from SQL under the same names, except those that take a format (there,
`dv_encode` writes that of Iceberg). They are Arrow UDFs (before pyspark 4.1, pandas UDFs around the same functions),
over classic sessions and Spark Connect; dvcodec must be installed where Python workers run. For whole tables, deleting
rows is faster with `jobs.apply`, and building vectors with `jobs.build_vectors` and `jobs.merge`: there vectors and
positions do not pass through a UDF row by row.
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
from dvcodec.spark.paths import match_key_column
from dvcodec.spark.vectors import MAGICS

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, SparkSession

__all__ = [
    "bitmap_build",
    "dv_cardinality",
    "dv_contains",
    "dv_decode",
    "dv_diff",
    "dv_encode",
    "dv_export",
    "dv_import",
    "dv_positions",
    "dv_ranges",
    "dv_union",
    "dv_verify",
    "file_key",
]


def dv_contains(dv: Column | str, pos: Column | str) -> Column:
    """Return whether a row is deleted: boolean.

    A vector shared by several rows of a batch is read once.

    Args:
        dv: the vector.
        pos: 0-based physical position of the row in its data file (``_metadata.row_index``); not negative.

    Example::

        rows.where(~dv_contains("dv", "_metadata.row_index"))
    """
    return _call("dv_contains", dv, _column_of(pos, "dv_contains").cast("bigint"))


def dv_cardinality(dv: Column | str) -> Column:
    """Count the deleted rows: long.

    Example::

        deletes.agg(F.sum(dv_cardinality("dv")))
    """
    return _call("dv_cardinality", dv)


def dv_positions(dv: Column | str) -> Column:
    """Return the deleted rows, ascending: array<long>.

    A vector of more than 2**27 rows fails the job, because it does not fit in a row of Spark: use `dv_ranges`, or
    `jobs.explode`, which splits large vectors.

    Example::

        deletes.select("data_file", F.explode(dv_positions("dv")).alias("pos"))
    """
    return _call("dv_positions", dv)


def dv_ranges(dv: Column | str) -> Column:
    """Return the maximal ranges of deleted rows: array<struct<start: long, stop: long>>.

    They ascend, and ``stop`` is exclusive. Runs are never expanded, however long.

    Example::

        deletes.select("data_file", F.inline(dv_ranges("dv")))
    """
    return _call("dv_ranges", dv)


def dv_union(dv: Column | str) -> Column:
    """Return the union of the vectors of a group: binary, in the layout that Iceberg, Delta and Paimon 64-bit share.

    An aggregate function; nulls are ignored, a group of nulls gives null. All vectors of a group are in memory at
    once, and Spark aggregates nothing before the shuffle: for many vectors per data file use `jobs.merge`.

    Example::

        deletes.groupBy("data_file").agg(dv_union("dv").alias("dv"))
    """
    return _call("dv_union", dv)


def dv_diff(old: Column | str, new: Column | str) -> Column:
    """Compare two vectors: struct<added: binary, restored: binary>.

    ``added`` has the rows that only the new vector deletes, ``restored`` those that only the old one deletes. Both
    are in the layout that Iceberg, Delta and Paimon 64-bit share, and may be empty. If one of the two
    is missing, as after an outer join, substitute an empty vector: ``F.coalesce("old", dv_encode(F.array()))``.

    Example::

        both.select("data_file", dv_cardinality(dv_diff("old", "new")["added"]))
    """
    return _call("dv_diff", old, new)


def dv_encode(
    positions: Column | str,
    format: Literal["iceberg", "delta", "paimon64", "paimon32"] = "iceberg",  # noqa: A002
) -> Column:
    """Encode row positions as a vector: binary, the bytes of the format's Java writer.

    Args:
        positions: array of integers, 0-based physical positions, in any order; duplicates are fine. A null or negative
            position in it fails the job, as does one above 2**31 - 1 in ``paimon32``.
        format: the first three give the same bytes.

    Raises:
        UsageError: an unknown format.

    Example::

        positions.groupBy("file_path").agg(dv_encode(F.collect_list("pos"), "delta").alias("dv"))
    """
    if format not in MAGICS:
        raise UsageError(f"formats of dv_encode are {', '.join(MAGICS)}, not {format!r}")
    return _call(f"dv_encode {format}", _column_of(positions, "dv_encode").cast("array<bigint>"))


def dv_export(dv: Column | str, format: str) -> Column:  # noqa: A002
    """Encode the rows of a vector for another system: binary.

    Args:
        dv: the vector.
        format: ``mumbling``, ``blob``, ``roaring64``, ``roaring32``, a dialect of roaring (see `dvcodec.dialects`), or
            a format of another package, which must be installed where Python workers run. Rows that it cannot hold
            fail the job.

    Raises:
        UsageError: an unknown format.

    Example::

        deletes.select("data_file", dv_export("dv", "mumbling").alias("bitmap"))
    """
    return _call_with_format(kernels.dv_export, dv, format)


def bitmap_build(ids: Column | str, format: str) -> Column:  # noqa: A002
    """Build one bitmap of a group's ids for another system: binary.

    An aggregate function; nulls are ignored, and a group of nulls gives the empty bitmap. The ids of a group become one
    list, which has to fit in a row of Spark: larger groups are built by `jobs.build_vectors`.

    Args:
        ids: integers, in any order; duplicates are fine. A negative one fails the job.
        format: as in `dv_export`. An id that it cannot hold fails the job.

    Raises:
        UsageError: an unknown format.

    Example::

        ids.groupBy("segment").agg(bitmap_build("id", "clickhouse64").alias("state"))
    """
    _check_format(format)
    given = _column_of(ids, "bitmap_build")
    # A list is faster than an aggregate UDF: Spark calls that once for each group.
    function = _Function(_with(kernels.bitmap_build, format), BINARY, (pa.list_(pa.int64()),))
    listed = F.collect_list(given.cast("bigint"))
    return cast("Column", _udf(function)(listed).alias(_shown("bitmap_build", [given])))


def dv_import(data: Column | str, format: str) -> Column:  # noqa: A002
    """Return the values of a bitmap of another system as a vector, in the layout that Iceberg and Delta share: binary.

    Args:
        data: the bitmap, binary.
        format: as in `dv_export`. A corrupt bitmap fails the job.

    Raises:
        UsageError: an unknown format.

    Example::

        rows.select(dv_import(F.unbase64("bitmap"), "doris").alias("dv"))
    """
    return _call_with_format(kernels.dv_import, data, format)


def dv_decode(dv: Column | str) -> Column:
    """Describe a vector without expanding it.

    Returns:
        struct<layout: string, cardinality: long, min: long, max: long, containers: struct<arrays, bitsets, runs: int>>.
        ``layout`` is portable64 (Iceberg, Delta, Paimon 64-bit), native64 (Delta) or paimon32; ``min`` and ``max`` are
        the first and last deleted row, null if there is none; ``containers`` counts roaring containers.

    Example::

        deletes.select("data_file", dv_decode("dv").alias("it")).select("data_file", "it.*")
    """
    return _call("dv_decode", dv)


def dv_verify(dv: Column | str) -> Column:
    """Verify a vector in full; never fails the job.

    Returns:
        struct<ok: boolean, crc_ok: boolean, cardinality: long, error: string>. ``error`` says what is wrong, and at
        which byte of the vector; it is null if ``ok``. ``cardinality`` is set if the rows can be counted, even if the
        CRC is wrong.

    Example::

        deletes.select("data_file", dv_verify("dv").alias("it")).where("not it.ok")
    """
    return _call("dv_verify", dv)


def file_key(path: Column | str, *, uri: bool = False) -> Column:
    """Return a key that all spellings of one file share, for joins on paths: string.

    ``/x``, ``file:/x`` and ``file:///x`` have one key; so do ``s3``, ``s3a`` and ``s3n``; ``abfs``, ``abfss`` and
    ``az``; ``wasb`` and ``wasbs``; ``gs`` and ``gcs``. Repeated and trailing slashes are ignored.
    These are Spark's own expressions: nothing goes to Python. A key is for comparison, not for opening.

    Args:
        path: data files or containers, as tables, logs and other engines name them.
        uri: True decodes percent-encoding first: for Spark's ``_metadata.file_path``. Tables' own paths are plain text,
            in which ``a%20b`` is another file than ``a b``.

    Example::

        vectors.join(log, file_key(vectors["container"]) == file_key(log["path"]))
    """
    return match_key_column(_column_of(path, "file_key"), uri=uri)


# ---------------------------------------------------------------------- UDFs of the current session
# A UDF object belongs to the session that it was first used in, classic or Spark Connect, so one is made for every
# column. Before 4.1 pyspark has no ``arrow_udf``: pandas UDFs wrap the same functions.

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


def _with(kernel: Callable[[pa.Array, Any], pa.Array], argument: str | Magic) -> Callable[[pa.Array], pa.Array]:
    def with_argument(values: pa.Array) -> pa.Array:
        return kernel(values, argument)

    with_argument.__name__ = kernel.__name__
    return with_argument


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
        f"dv_encode {name}": _Function(_with(kernels.dv_encode, magic), BINARY, (pa.list_(pa.int64()),))
        for name, magic in MAGICS.items()
    },
}


def _call_with_format(kernel: Callable[[pa.Array, str], pa.Array], column: Column | str, name: str) -> Column:
    """Apply a function that takes the name of a format of one vector.

    Raises:
        UsageError: an unknown format.
    """
    _check_format(name)
    return _call(kernel.__name__, column, function=_Function(_with(kernel, name), BINARY))


def _check_format(name: object) -> None:
    """Check the name of a format of one vector that can be written.

    Raises:
        UsageError: an unknown format.
    """
    check_type(name, str, "format", "a str")
    found = format_named(str(name))
    if found is None or found.encode is None:
        raise UsageError(f"format must be one of {', '.join(encodings())}, not {name!r:.60}")


def _call(name: str, *columns: Column | str, function: _Function | None = None) -> Column:
    """Apply a function to columns; return the resulting column, which is named as Spark names calls."""
    function = function or _FUNCTIONS[name]
    given = [_column_of(column, name.partition(" ")[0]) for column in columns]
    shown = _shown(name, given)
    typed = [_binary(c) if kind == pa.binary() else c for c, kind in zip(given, function.takes, strict=True)]
    udf = _udf(function)
    # Through pandas, a column of longs with a null becomes floats, and a null struct becomes a struct of nulls.
    numbers = [pa.types.is_integer(kind) for kind in function.takes]
    if arrow_udf is not None or not (any(numbers) or isinstance(function.returns, StructType)):
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


def _column_of(value: Any, function: str) -> Column:
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

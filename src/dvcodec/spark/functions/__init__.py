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

from typing import TYPE_CHECKING, Literal

from dvcodec.core.errors import UsageError
from dvcodec.spark.functions.udfs import build_bitmap, call, call_with_format, column_of
from dvcodec.spark.paths import match_key_column
from dvcodec.spark.vectors import MAGICS

if TYPE_CHECKING:
    from pyspark.sql import Column

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
    return call("dv_contains", dv, column_of(pos, "dv_contains").cast("bigint"))


def dv_cardinality(dv: Column | str) -> Column:
    """Count the deleted rows: long.

    Example::

        deletes.agg(F.sum(dv_cardinality("dv")))
    """
    return call("dv_cardinality", dv)


def dv_positions(dv: Column | str) -> Column:
    """Return the deleted rows, ascending: array<long>.

    A vector of more than 2**27 rows fails the job, because it does not fit in a row of Spark: use `dv_ranges`, or
    `jobs.explode`, which splits large vectors.

    Example::

        deletes.select("data_file", F.explode(dv_positions("dv")).alias("pos"))
    """
    return call("dv_positions", dv)


def dv_ranges(dv: Column | str) -> Column:
    """Return the maximal ranges of deleted rows: array<struct<start: long, stop: long>>.

    They ascend, and ``stop`` is exclusive. Runs are never expanded, however long.

    Example::

        deletes.select("data_file", F.inline(dv_ranges("dv")))
    """
    return call("dv_ranges", dv)


def dv_union(dv: Column | str) -> Column:
    """Return the union of the vectors of a group: binary, in the layout that Iceberg, Delta and Paimon 64-bit share.

    An aggregate function; nulls are ignored, a group of nulls gives null. All vectors of a group are in memory at
    once, and Spark aggregates nothing before the shuffle: for many vectors per data file use `jobs.merge`.

    Example::

        deletes.groupBy("data_file").agg(dv_union("dv").alias("dv"))
    """
    return call("dv_union", dv)


def dv_diff(old: Column | str, new: Column | str) -> Column:
    """Compare two vectors: struct<added: binary, restored: binary>.

    ``added`` has the rows that only the new vector deletes, ``restored`` those that only the old one deletes. Both
    are in the layout that Iceberg, Delta and Paimon 64-bit share, and may be empty. If one of the two
    is missing, as after an outer join, substitute an empty vector: ``F.coalesce("old", dv_encode(F.array()))``.

    Example::

        both.select("data_file", dv_cardinality(dv_diff("old", "new")["added"]))
    """
    return call("dv_diff", old, new)


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
    return call(f"dv_encode {format}", column_of(positions, "dv_encode").cast("array<bigint>"))


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
    return call_with_format("dv_export", dv, format)


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
    return build_bitmap(ids, format)


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
    return call_with_format("dv_import", data, format)


def dv_decode(dv: Column | str) -> Column:
    """Describe a vector without expanding it.

    Returns:
        struct<layout: string, cardinality: long, min: long, max: long, containers: struct<arrays, bitsets, runs: int>>.
        ``layout`` is portable64 (Iceberg, Delta, Paimon 64-bit), native64 (Delta) or paimon32; ``min`` and ``max`` are
        the first and last deleted row, null if there is none; ``containers`` counts roaring containers.

    Example::

        deletes.select("data_file", dv_decode("dv").alias("it")).select("data_file", "it.*")
    """
    return call("dv_decode", dv)


def dv_verify(dv: Column | str) -> Column:
    """Verify a vector in full; never fails the job.

    Returns:
        struct<ok: boolean, crc_ok: boolean, cardinality: long, error: string>. ``error`` says what is wrong, and at
        which byte of the vector; it is null if ``ok``. ``cardinality`` is set if the rows can be counted, even if the
        CRC is wrong.

    Example::

        deletes.select("data_file", dv_verify("dv").alias("it")).where("not it.ok")
    """
    return call("dv_verify", dv)


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
    return match_key_column(column_of(path, "file_key"), uri=uri)

"""Verify every vector of a lake, separate corrupt vectors from others, and find data files worth rewriting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from dvcodec.core.errors import UsageError
from dvcodec.io import Storage
from dvcodec.ops.convert import WORTH_REWRITING, check_thresholds
from dvcodec.spark.columns import FILE_VECTORS, arrow_schema, column_named, is_utf8, texts_of
from dvcodec.spark.compat import is_frame
from dvcodec.spark.functions.kernels import Vectors
from dvcodec.spark.jobs.stored import as_vectors, read_columns
from dvcodec.spark.sources.files import counted
from dvcodec.spark.sources.options import PathsInput
from dvcodec.spark.sources.vectors import batches, containers_of, located_windows
from dvcodec.spark.tasks import settled
from dvcodec.spark.vectors import vector_columns

_SCHEMA = arrow_schema(FILE_VECTORS)


def audit(
    source: DataFrame | PathsInput,
    *,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Verify every vector: CRC, structure, order, population, and the cardinality that metadata states.

    Args:
        source: paths of containers (files, folders or patterns; see the data source ``dvcodec``); or places:
            a DataFrame with ``container string`` (path or URL; also called ``path``), ``offset``, ``size``, and
            perhaps ``cardinality``, ``data_file`` and ``format``. A size is the whole frame's, or 8 less as in
            Delta's log; null leaves it to the frame. Adjacent ranges in a container are read together.
        spark: the session that reads paths; by default the active one.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        `FILE_VECTORS`, one row per vector. Corrupt vectors and missing containers have ``error`` and never fail
        the job. For places, ``format`` is the given one.

    Raises:
        UsageError: places without their columns, or invalid storage options.
    """
    if not is_frame(source):
        return read_columns(source, FILE_VECTORS, spark, storage_options)
    return (
        _places(source)
        .repartitionByRange("container", "offset")
        .sortWithinPartitions("container", "offset")
        .mapInArrow(settled(partial(_check, storage_options=storage_options)), FILE_VECTORS)
    )


def _places(source: DataFrame) -> DataFrame:
    names = source.columns
    container = "container" if "container" in names else "path"
    missing = [name for name in (container, "offset", "size") if name not in names]
    if missing:
        raise UsageError(f"places of vectors need container, offset and size: no {' and no '.join(missing)}")

    def column(name: str, kind: str) -> Column:
        return (sf.col(name) if name in names else sf.lit(None)).cast(kind).alias(name)

    return source.select(
        sf.col(container).alias("container"),
        *(column(name, "long") for name in ("offset", "size", "cardinality")),
        *(column(name, "string") for name in ("data_file", "format")),
    )


def _check(
    places: Iterator[pa.RecordBatch], storage_options: Mapping[str, object] | None = None
) -> Iterator[pa.RecordBatch]:
    stores = Storage(storage_options)
    for batch in places:
        if not batch.num_rows:
            continue
        if batch.column("container").null_count or batch.column("offset").null_count:
            raise UsageError("a vector's place has no container or no offset")
        with counted("audit", str(texts_of(batch.column("container").slice(0, 1))[0])):
            found = located_windows(containers_of(batch), stores)
            yield from batches(found, _SCHEMA, content=True, verify=True)


def quarantine(dvs: DataFrame | PathsInput) -> tuple[DataFrame, DataFrame]:
    """Split vectors into valid and corrupt ones; every row is in exactly one of the two.

    Other jobs fail on a corrupt vector, because their result would lack its rows. After this job they succeed, and the
    corrupt vectors can be written elsewhere for inspection.

    Args:
        dvs: vectors (``data_file``, ``dv``). All other columns are kept. With a column ``cardinality``, a vector
            must have that many rows, unless it is null. With a column ``error``, as the data source has, a row with
            an error is corrupt, whatever its ``dv``.

    Returns:
        The valid ones, with the columns of `dvs`; and the corrupt ones, with ``error``. Each is computed separately:
        persist `dvs` if reading it twice costs more than keeping it.

    Raises:
        UsageError: `dvs` without those columns.
    """
    dvs = as_vectors(dvs)
    vector_columns(dvs)
    marked = dvs if "error" in dvs.columns else dvs.withColumn("error", sf.lit(None).cast("string"))
    checked = marked.mapInArrow(
        settled(_marked), StructType([StructField(f.name, f.dataType) for f in marked.schema.fields])
    )
    valid = checked.where(sf.col("error").isNull())
    return (valid if "error" in dvs.columns else valid.drop("error")), checked.where(sf.col("error").isNotNull())


def _marked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Set ``error`` of corrupt rows where it is null."""
    for table in batches:
        names = table.schema.names
        texts = table.column("error").to_pylist()
        counted = table.column("cardinality") if "cardinality" in names else None
        for row, text in _faults(table.column("data_file"), table.column("dv"), counted):
            if texts[row] is None:
                texts[row] = text
        at = names.index("error")
        yield table.set_column(at, table.schema.field(at), pa.array(texts, table.schema.field(at).type))


def _faults(files: pa.Array, frames: pa.Array, counted: pa.Array | None) -> Iterator[tuple[int, str]]:
    """Yield errors by row; the first of a row counts."""
    yield from ((row, "data_file is null") for row in np.flatnonzero(files.is_null()).tolist())
    yield from ((row, "data_file is not UTF-8") for row in _not_utf8(files))
    yield from ((row, "dv is null") for row in np.flatnonzero(frames.is_null()).tolist())
    vectors = Vectors.of(frames, strict=False)
    for i, error in sorted(vectors.found.errors.items()):
        yield int(vectors.rows[i]), str(vectors.local(i, error))
    if counted is None:
        return
    held = vectors.spread(vectors.found.cardinality)
    for row in np.flatnonzero(_differ(counted, held)).tolist():
        yield row, f"cardinality: expected {counted[row].as_py()}, found {held[row].as_py()}"


def _not_utf8(files: pa.Array) -> list[int]:
    try:
        files.validate(full=True)
    except pa.ArrowInvalid:
        return [row for row, name in enumerate(texts_of(files)) if not is_utf8(name)]
    return []


def _differ(counted: pa.Array, held: pa.Array) -> pa.Array:
    """Return which stated cardinalities are wrong. One that is not an integer is wrong, too; null is not."""
    try:
        stated = counted.cast(pa.int64())
    except pa.ArrowInvalid:  # a fraction, a text, a number beyond 64 bits
        pairs = zip(counted, held.to_pylist(), strict=True)
        return pa.array([one.is_valid and found is not None and _whole(one) != found for one, found in pairs])
    return pc.fill_null(pc.not_equal(stated, held), False)


def _whole(value: pa.Scalar) -> int | None:
    """Return an integer as it is, None for anything else."""
    try:
        number: int = value.cast(pa.int64()).as_py()
    except pa.ArrowInvalid:
        return None
    return number


def compaction_candidates(
    stats: DataFrame,
    *,
    rows: str = "rows",
    deleted: str = "cardinality",
    size: str | None = None,
    min_ratio: float = WORTH_REWRITING,
    min_deleted: int = 1,
) -> DataFrame:
    """Return the data files with many deleted rows, highest gain first.

    A data file qualifies if its share of deleted rows is at least `min_ratio` and their number at least `min_deleted`;
    or if it has no live row: such a file need not be rewritten, only dropped.

    Args:
        stats: one row per data file, such as a table's data files left-joined with `audit` or `build_vectors`. Other
            columns are kept.
        rows: column: physical rows of the data file (Iceberg's ``record_count``, Delta's ``numRecords``).
        deleted: column: rows that its vector deletes; null if it has none.
        size: column: bytes of the data file. The gain then is in bytes.
        min_ratio: 0 to 1.
        min_deleted: rows. Raise it to skip small files that cost more to rewrite than they gain.

    Returns:
        `stats` with ``live_rows``, ``deleted_ratio`` (0 to 1), ``fully_deleted``, and ``gain``: the rows, or about the
        bytes, that a rewrite removes.

    Raises:
        UsageError: no such column, `stats` has one of the new ones, or numbers out of range. While it runs: a row
            count is null or negative, or more rows are deleted than the file has.
    """
    missing = [name for name in (rows, deleted, *([size] if size else [])) if name not in stats.columns]
    if missing:
        raise UsageError(f"no column {' and no column '.join(missing)} among {', '.join(stats.columns)}")
    taken = {"live_rows", "deleted_ratio", "fully_deleted", "gain"} & set(stats.columns)
    if taken:
        raise UsageError(f"the data files already have a column {min(taken)}")
    check_thresholds(min_ratio, min_deleted)
    total, gone = column_named(rows).cast("long"), sf.coalesce(column_named(deleted).cast("long"), sf.lit(0))
    wrong = total.isNull() | (total < 0) | (gone < 0) | (gone > total)
    message = sf.concat(
        sf.lit("a data file of "),
        sf.coalesce(total.cast("string"), sf.lit("null")),
        sf.lit(" rows cannot have "),
        gone.cast("string"),
        sf.lit(" deleted ones"),
    )
    live = sf.when(wrong, sf.raise_error(message).cast("long")).otherwise(total - gone)
    ratio = sf.when(total > 0, gone / total).otherwise(sf.lit(0.0))
    gain = gone if size is None else sf.round(column_named(size) * ratio).cast("long")
    numbers = stats.withColumns(
        {"live_rows": live, "deleted_ratio": ratio, "fully_deleted": (total > 0) & (gone == total), "gain": gain}
    )
    worth = (sf.col("deleted_ratio") >= min_ratio) & (gone >= min_deleted)
    # live_rows is part of the condition so that every data file is checked, not only candidates.
    chosen = numbers.where((sf.col("live_rows") >= 0) & (worth | sf.col("fully_deleted")))
    return chosen.orderBy(sf.desc_nulls_last("gain"), sf.desc("deleted_ratio"))

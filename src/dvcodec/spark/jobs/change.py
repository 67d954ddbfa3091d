"""Compare and merge vectors, and convert them between layouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from dvcodec.core.cursor import first_true
from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import ByteStrings, cut_by_weight
from dvcodec.iceberg import FILE_PATH, POS
from dvcodec.io.target import log_merged_spellings, undecidable
from dvcodec.ops.convert import hint
from dvcodec.spark.accumulate import VectorUnion, input_bit
from dvcodec.spark.columns import BINARY, LONG, STRING, VECTORS, arrow_schema, binary_array, struct
from dvcodec.spark.jobs.build import Strategy, build_vectors, by_data_file
from dvcodec.spark.jobs.stored import as_vectors
from dvcodec.spark.paths import decoded_key_column, match_key_column, twin_column
from dvcodec.spark.sources.options import PathsInput
from dvcodec.spark.tasks import settled
from dvcodec.spark.vectors import (
    EMPTY,
    MAGICS,
    NamedVectors,
    Target,
    differences,
    has_magic,
    reencode,
    refuse_far,
    vector_columns,
)

_CHANGES = struct(data_file=STRING, added=BINARY, restored=BINARY, added_rows=LONG, restored_rows=LONG)
_SCHEMA = arrow_schema(_CHANGES)
_BATCH_BYTES = 16 << 20
_WRAPS = {"iceberg": "puffin", "delta": "delta", "paimon64": "delta", "paimon32": "paimon"}
"""Container kind of such frames (`dvcodec.ContainerKind`)."""


def diff(old: DataFrame | PathsInput, new: DataFrame | PathsInput) -> DataFrame:
    """Return what changed between two states of a table, one row per data file that differs.

    Frames with the same bytes are equal and are not read. A data file without a vector has no deleted row.
    Spellings of one data file (``/x`` and ``file:/x``, ``s3://`` and ``s3a://``, ..) are one; a difference
    in spelling alone is ignored.

    Args:
        old: vectors (``data_file``, ``dv``), one row per data file. All its files are spelled in one way: ``a b`` and
            ``a%20b`` are two files there.
        new: likewise.

    Returns:
        ``data_file``, as `old` spells it, if `old` has it; ``added`` and ``restored``, the vectors (possibly empty)
        of rows that are deleted only in `new` and only in `old`; ``added_rows`` and ``restored_rows``, their numbers.
        Vectors that differ in bytes but not in rows are omitted.

    Raises:
        UsageError: a frame without those columns. While it runs: a vector that is null, a repeated data
            file (`merge` merges its vectors), or ``a b`` on one side and ``a%20b`` on the other, which may be the same
            file percent-encoded.
        DecodeError: while it runs: a vector that is compared is corrupt.
    """
    sides = [_side(as_vectors(dvs), name) for dvs, name in ((old, "old"), (new, "new"))]
    # A side spells all its names in one way: two names may be the same file only if each is the only one of its side.
    old_key, new_key, old_plain, new_plain = map(sf.col, ("old_key", "new_key", "old_plain", "new_plain"))
    encoded = (old_key == new_plain) | (new_key == old_plain) | (old_plain == new_plain)
    single = (sf.col("old_names") == 1) & (sf.col("new_names") == 1)
    same = (old_key == new_key) | (single & encoded)
    both = sides[0].join(sides[1], (sf.col("old_twin") == sf.col("new_twin")) & same, "full_outer")
    suspect = old_key != new_key
    for name in ("old", "new"):
        there = sf.col(f"{name}_count").isNotNull()
        file, dv, count = (sf.col(f"{name}_{what}") for what in ("file", "dv", "count"))
        suspect = sf.coalesce(suspect, sf.lit(False)) | (there & (file.isNull() | dv.isNull() | (count > 1)))
    chosen = both.where(suspect | ~sf.col("old_dv").eqNullSafe(sf.col("new_dv")))
    file = sf.coalesce("old_file", "new_file").alias("data_file")
    wanted = [f"{side}_{what}" for side in ("old", "new") for what in ("dv", "error", "count", "file", "key")]
    return chosen.select(file, *wanted).mapInArrow(settled(_changes), _CHANGES)


def _side(dvs: DataFrame, name: str) -> DataFrame:
    """Select the columns of one side, with the key of its data file and how often that occurs."""
    named = vector_columns(dvs).withColumnRenamed("data_file", "file")
    keyed = named.withColumn("key", match_key_column(sf.col("file")))
    keyed = keyed.withColumns({"plain": decoded_key_column(sf.col("key")), "twin": twin_column(sf.col("key"))})
    keys = sf.collect_list("key").over(Window.partitionBy("twin"))
    counted = keyed.withColumn("keys", keys).withColumns(
        {
            "count": sf.size(sf.filter("keys", lambda key: key == sf.col("key"))),
            "names": sf.size(sf.array_distinct("keys")),
        }
    )
    chosen = ("file", "key", "plain", "twin", "dv", "error", "count", "names")
    return counted.select(*(sf.col(column).alias(f"{name}_{column}") for column in chosen))


def _changes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in batches:
        files = table.column("data_file")
        _check_names(table)
        old, new = (_frames(table, name) for name in ("old", "new"))
        for rows, counts, frames in differences(old, new):
            if not len(rows):
                continue
            columns = [files.take(pa.array(rows)), *map(binary_array, frames), *map(pa.array, counts)]
            yield pa.record_batch(columns, schema=_SCHEMA)


def _check_names(table: pa.RecordBatch) -> None:
    """Refuse names that may be one data file or two; log data files spelled in two ways."""
    files, keys = ([table.column(f"{side}_{what}") for side in ("old", "new")] for what in ("file", "key"))
    other = pc.fill_null(pc.not_equal(*keys), False)
    if pc.any(other).as_py():
        row = other.index(True).as_py()
        old, new = (column[row].as_py() for column in files)
        raise undecidable(old, new) if "%" in keys[0][row].as_py() else undecidable(new, old)
    spelled = table.filter(pc.fill_null(pc.not_equal(*files), False))
    log_merged_spellings(
        list(zip(spelled.column("new_file").to_pylist(), spelled.column("old_file").to_pylist(), strict=True))
    )


def _frames(table: pa.RecordBatch, name: str) -> NamedVectors:
    """Verify the vectors of one side; a data file that is absent has the empty vector."""
    files, frames = table.column("data_file"), table.column(f"{name}_dv")
    counts = table.column(f"{name}_count").to_numpy(zero_copy_only=False)
    if (i := first_true(counts > 1)) is not None:
        file, count = files[i].as_py(), int(counts[i])
        raise UsageError(f"data file {file!r} has {count} {name} vectors: merge them first")
    absent = table.column(f"{name}_count").is_null()
    frames = pc.if_else(absent, pa.scalar(EMPTY, pa.binary()), frames)
    return NamedVectors.of(files, frames, table.column(f"{name}_error"))


# ---------------------------------------------------------------------- converting


def convert(dvs: DataFrame | PathsInput, to: Target) -> DataFrame:
    """Return the same vectors in the layout of a format.

    ``iceberg``, ``delta`` and ``paimon64`` share one frame: it is verified and copied; other layouts
    are re-encoded, in the bytes of Java's writers.

    Args:
        dvs: vectors (``data_file``, ``dv``). All other columns are kept, except ``size`` (bytes of the frame)
            and ``format`` (the container that holds such frames), which are updated. ``container`` and ``offset`` keep
            the place that the vector was read from.
        to: the format.

    Raises:
        UsageError: an unknown format, or `dvs` without those columns. While it runs: a vector that is null, or a
            position above 2**31 - 1 for ``paimon32``.
        DecodeError: while it runs: a vector is corrupt.
    """
    if to not in MAGICS:
        raise UsageError(f"cannot convert to {to!r}, only to {', '.join(MAGICS)}{hint(to)}")
    dvs = as_vectors(dvs)
    vector_columns(dvs)
    return dvs.mapInArrow(settled(_Convert(to)), dvs.schema)


@dataclass(frozen=True, slots=True)
class _Convert:
    """Replaces vectors by those of a format, and updates the columns that describe them."""

    to: Target

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in batches:
            names = table.schema.names
            errors = table.column("error") if "error" in names else None
            vectors = NamedVectors.of(table.column("data_file"), table.column("dv"), errors)
            magic = MAGICS[self.to]
            refuse_far(vectors, magic)
            known = has_magic(vectors, magic)
            for part in cut_by_weight(vectors.column.sizes + 64, _BATCH_BYTES):
                rows = table.slice(part.start, part.stop - part.start)
                frames, sizes = rows.column("dv"), vectors.column.sizes[part]
                others = reencode(vectors, np.flatnonzero(~known[part]) + part.start, magic)
                if others:
                    index = range(part.start, part.stop)
                    strings = ByteStrings.from_list([others.get(i) or bytes(vectors.column.view(i)) for i in index])
                    frames, sizes = binary_array(strings), strings.lengths
                new: dict[str, Any] = {"dv": frames}
                if "size" in names:
                    new["size"] = pa.array(sizes).cast(rows.schema.field("size").type)
                if "format" in names:
                    new["format"] = pa.array([_WRAPS[self.to]] * len(rows), pa.string())
                yield pa.record_batch([new.get(name, rows.column(name)) for name in names], names)


_INPUTS = "__dvcodec_inputs"


def merge(
    dvs: DataFrame | PathsInput,
    *more: DataFrame | PathsInput,
    file_col: str = FILE_PATH,
    pos_col: str = POS,
    strategy: Strategy = "auto",
    partitions: int | None = None,
) -> DataFrame:
    """Merge vectors to one per data file, which deletes every row that any of its vectors deletes.

    Every vector is verified. The only vector of a data file keeps its bytes, whatever its layout; several
    become the frame that Iceberg, Delta and Paimon 64-bit share. Spellings of one data file (``/x`` and
    ``file:/x``, ``s3://`` and ``s3a://``, ..) are merged under that of the first DataFrame that has it; if it has
    several, under the one that sorts first. Each task logs how many at INFO (logger ``dvcodec.paths``).

    Args:
        dvs: vectors (``data_file``, ``dv``); a data file may be repeated. Each DataFrame spells its files in one
            way: ``a b`` and ``a%20b`` are two files where one DataFrame has both.
        more: further vectors; or rows of (data file, position), without a column ``dv``.
        file_col: of rows of positions: the data file.
        pos_col: of rows of positions: the position.
        strategy: for rows of positions; see `build_vectors`.
        partitions: tasks after the shuffle; see `build_vectors`.

    Returns:
        `VECTORS`: ``data_file``, ``cardinality``, ``dv``; one row per data file.

    Raises:
        UsageError: vectors without those columns. While it runs: a null data file or vector; or one
            DataFrame has ``a b`` and another ``a%20b``, which may be the same file percent-encoded.
        DecodeError: while it runs: a vector is corrupt.
    """
    parts = [vector_columns(as_vectors(dvs)).drop("error")]
    for part in map(as_vectors, more):
        rows = (
            part
            if "dv" in part.columns
            else build_vectors(part, file_col, pos_col, strategy=strategy, partitions=partitions)
        )
        parts.append(vector_columns(rows).drop("error"))
    together = parts[0].withColumn(_INPUTS, sf.lit(input_bit(0)).cast("long"))
    for i, part in enumerate(parts[1:], 1):
        together = together.unionByName(part.withColumn(_INPUTS, sf.lit(input_bit(i)).cast("long")))
    return by_data_file(together, partitions, twins=True).mapInArrow(settled(_merge), VECTORS)


def _merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    union = VectorUnion()
    for batch in batches:
        union.add(batch.column(0), batch.column(1), inputs=batch.column(2))
    yield from union.flush()

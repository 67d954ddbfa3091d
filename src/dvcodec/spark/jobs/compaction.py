"""Find data files worth rewriting, from counts only: no vector is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from dvcodec.core.errors import UsageError
from dvcodec.ops.stats import WORTH_REWRITING, check_thresholds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["compaction_candidates"]


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
    total, gone = sf.col(_quoted(rows)).cast("long"), sf.coalesce(sf.col(_quoted(deleted)).cast("long"), sf.lit(0))
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
    gain = gone if size is None else sf.round(sf.col(_quoted(size)) * ratio).cast("long")
    numbers = stats.withColumns(
        {"live_rows": live, "deleted_ratio": ratio, "fully_deleted": (total > 0) & (gone == total), "gain": gain}
    )
    worth = (sf.col("deleted_ratio") >= min_ratio) & (gone >= min_deleted)
    # live_rows is part of the condition so that every data file is checked, not only candidates.
    chosen = numbers.where((sf.col("live_rows") >= 0) & (worth | sf.col("fully_deleted")))
    return chosen.orderBy(sf.desc_nulls_last("gain"), sf.desc("deleted_ratio"))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

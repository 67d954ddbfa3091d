"""Which file and position each row of a caller's DataFrame comes from.

Spark shows ``_metadata`` through most operators, and adds it below them when it is asked for. Below ``distinct`` that
changes which rows are equal; beside a join it belongs to one of the sides. So a plan may have only operators that are
known to make each row from one row of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from dvcodec.core.errors import UsageError
from dvcodec.spark.compat import metadata_of

_EACH = re.compile(
    r"~?(Project|Filter|Generate|Sample|Sort|Repartition|RepartitionByExpression|RebalancePartitions|SubqueryAlias"
    r"|ResolvedHint|PipeOperator|CollectMetrics|EventTimeWatermark|Join Left(Semi|Anti))\b"
)
"""Operators that treat each row by itself: deleting rows before or after them is the same. Spark marks streams by ~."""
_CHOOSE = re.compile(r"(Window|GlobalLimit|LocalLimit|Offset)\b")
"""Operators whose rows are rows of files, but depend on what other rows there are."""
_READ = re.compile(r"~?(Relation|StreamingRelation)\b")
_NAME = re.compile(r"~?(Join \w+|\w+)")
_SHOWN = 25
"""Fields of an operator in text, as Spark prints it by default: with fewer, it logs a warning."""
_ROOT = "__dvcodec_rows"
_FIELDS = ("file_path", "row_index")


def origin(df: DataFrame, file: str, job: str, *, choosing: bool = False) -> tuple[Column, Column]:
    """Return columns of `df`: the file that a row comes from, and its position in it.

    Args:
        df: the caller's rows.
        file: ``file_path`` or ``file_name``, percent-encoded as in ``_metadata``.
        job: what needs the rows.
        choosing: True accepts limits and windows, which see rows that vectors delete.

    Raises:
        UsageError: the plan has an operator that is not known to keep rows, or Spark has no such columns.
    """
    _check(df, job, choosing)
    try:
        metadata = metadata_of(df)
        columns = metadata.getField(file), metadata.getField("row_index")
        df.select(*columns).schema  # noqa: B018  (over Connect nothing is resolved before)
    except AnalysisException as err:
        raise UsageError(
            f"{job} needs rows of Parquet files, but Spark shows no _metadata.row_index: read files with "
            "spark.read.parquet, and give semi joins an expression (on=df.a == keys.b) instead of names"
        ) from err
    return columns


def origin_or_column(df: DataFrame, job: str) -> tuple[Column, Column]:
    """Return `origin` with any choice of rows, or what a column ``_metadata`` of `df` has, which rows carry with them.

    Raises:
        UsageError: see `origin`.
    """
    if "_metadata" in df.columns:
        kind = df.schema["_metadata"].dataType
        if isinstance(kind, StructType) and set(_FIELDS) <= set(kind.names):
            return sf.col("_metadata.file_path"), sf.col("_metadata.row_index")
    return origin(df, "file_path", job, choosing=True)


def _check(df: DataFrame, job: str, choosing: bool) -> None:
    why = "Spark does not print the whole plan (spark.sql.maxPlanStringLength)"
    for operator in _operators(df):
        if _READ.match(operator):
            return
        if not (_EACH.match(operator) or (choosing and _CHOOSE.match(operator))):
            name = _NAME.match(operator)
            why = f"these come out of {name[1] if name else operator}"
            break
    instead = "call it before that, on spark.read.parquet(..)"
    if choosing:
        instead += ", select the column _metadata before that, or choose the rows by a left semi join"
    raise UsageError(f"{job} needs rows as spark.read.parquet returns them, but {why}: {instead}")


def _operators(df: DataFrame) -> Iterator[str]:
    """Yield the operators of the analyzed plan from the last to the first; of a join, only those on the left."""
    frame: Any = df
    if hasattr(frame, "_jdf"):
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001  (no other way to the plan)
        yield plan.simpleString(_SHOWN)
        while not plan.children().isEmpty():
            plan = plan.children().head()
            yield plan.simpleString(_SHOWN)
        return
    # Connect has only the text of the plan, where an operator's children are indented by one step and its subqueries
    # by two. A literal may have line breaks and look like a child, so there must be just as many as are expected.
    text = frame.alias(_ROOT)._explain_string(extended=True)  # noqa: SLF001  (`explain` only prints)
    analyzed = text.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    lines = analyzed.partition(f"SubqueryAlias {_ROOT}\n")[2].split("\n")
    margin, operator = "", ""
    while True:
        left, last = ([line for line in lines if line.startswith(margin + branch)] for branch in (":- ", "+- "))
        if (len(left), len(last)) != (int(operator.startswith("Join")), 1):
            return
        operator = (left or last)[0][len(margin) + 3 :]
        yield operator
        margin += ":  " if left else "   "

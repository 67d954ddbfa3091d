"""Live rows as other libraries take them: a lazy frame of Polars, a view of DuckDB, a pandas DataFrame.

Each evaluates its own conditions. Polars evaluates all of them on the rows that come; what pyarrow understands alike is
passed on, so that other data files and row groups are not read. DuckDB passes what it pushes down to pyarrow's datasets
as their expressions, and leaves out what pyarrow understands otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import lru_cache, reduce
from operator import and_, eq, ge, gt, le, lt, or_
from typing import Any

from dvcodec.core.errors import MissingExtra, UsageError
from dvcodec.core.extras import ds, pa, pc, require_extra, types
from dvcodec.core.usage import check_type
from dvcodec.tables.snapshots.live import live_reader
from dvcodec.tables.table import Snapshot

_EXTRA = "frames"
_FIRST_POLARS = (1, 29)
"""Earlier ones return all rows of a batch where the first few are asked for."""


def to_pandas(reader: pa.RecordBatchReader) -> Any:
    """Return a DataFrame; see `Snapshot.to_pandas`."""
    require_extra("pandas", _EXTRA)
    return reader.read_pandas()


def to_polars(snapshot: Snapshot) -> Any:
    """Return a LazyFrame; see `Snapshot.to_polars`."""
    polars, package = require_extra("polars", _EXTRA), "polars {}.{} or later".format(*_FIRST_POLARS)
    if tuple(map(int, polars.__version__.split(".")[:2])) < _FIRST_POLARS:
        raise MissingExtra(package, _EXTRA)
    plugins = require_extra("polars.io.plugins", _EXTRA)
    schema = snapshot.schema()

    def source(columns: list[str] | None, predicate: Any, rows: int | None, _batch_rows: int | None) -> Iterator[Any]:
        yield from _frames(polars, snapshot, schema, columns, predicate, rows)

    return plugins.register_io_source(source, schema=polars.from_arrow(schema.empty_table()).schema)


def _frames(
    polars: Any, snapshot: Snapshot, schema: pa.Schema, columns: list[str] | None, predicate: Any, rows: int | None
) -> Iterator[Any]:
    """Yield live rows as frames.

    Args:
        polars: the library.
        snapshot: that is read.
        schema: its columns.
        columns: names to return; None = all.
        predicate: of the rows to return; None = all.
        rows: the first rows of the snapshot, of which alone the predicate is asked; None = all.
    """
    read, where = columns, None
    if predicate is not None:
        read = None if columns is None else list(dict.fromkeys([*columns, *predicate.meta.root_names()]))
        where = implied(predicate, schema) if rows is None else None
    try:
        reader = live_reader(snapshot, read, where)
    except UsageError:  # pyarrow compares such a column otherwise, or not at all
        reader = live_reader(snapshot, read)
    for batch in reader:
        frame = polars.from_arrow(batch if rows is None else batch.slice(0, rows))
        rows = None if rows is None else rows - len(frame)
        frame = frame if predicate is None else frame.filter(predicate)
        if len(frame):
            yield frame if columns is None else frame.select(columns)
        if rows == 0:
            return


def implied(predicate: Any, schema: pa.Schema) -> pc.Expression | None:
    """Return an expression of pyarrow that is true of every row for which one of Polars is; None if nothing is known.

    Of comparisons with values, only those of integers, text and days: both libraries compare these alike.
    """
    try:
        return _implied(json.loads(predicate.meta.serialize(format="json")), schema)
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError, pa.ArrowException):
        return None  # spelled in another way by this version of Polars; or thousands of parts


_COMPARISONS = {"Eq": eq, "Lt": lt, "LtEq": le, "Gt": gt, "GtEq": ge}


def _implied(node: Any, schema: pa.Schema) -> pc.Expression | None:
    (kind, inner), *others = node.items()
    if others:
        return None
    if kind == "BinaryExpr":
        if inner["op"] in ("And", "Or"):
            parts = [_implied(inner[side], schema) for side in ("left", "right")]
            known = [part for part in parts if part is not None]
            if inner["op"] == "Or":
                return reduce(or_, known) if len(known) == len(parts) else None
            return reduce(and_, known) if known else None
        if inner["op"] in _COMPARISONS:
            column, value = inner["left"].get("Column"), _value(inner["right"], schema, inner["left"].get("Column"))
            return None if value is None else _COMPARISONS[inner["op"]](pc.field(column), value)
        return None
    return _implied_by_function(inner, schema) if kind == "Function" else None


def _implied_by_function(call: Any, schema: pa.Schema) -> pc.Expression | None:
    function, (first, *rest) = call["function"].get("Boolean"), call["input"]
    column = first.get("Column")
    if column not in schema.names or function is None:
        return None
    if function == "IsNull":
        return pc.field(column).is_null()
    if function == "IsNotNull":
        return pc.field(column).is_valid()
    if isinstance(function, dict) and "IsBetween" in function:
        low, high = (_value(one, schema, column) for one in rest)
        return None if low is None or high is None else (pc.field(column) >= low) & (pc.field(column) <= high)
    if function == "IsIn" or (isinstance(function, dict) and "IsIn" in function):
        stored = _literal(rest[0])
        values = pa.ipc.open_stream(bytes(stored.get("List", stored.get("Series")))).read_all().column(0)
        kind = schema.field(column).type
        alike = (types.is_integer(kind) and types.is_integer(values.type)) or (
            types.is_string(kind) and (types.is_large_string(values.type) or types.is_string_view(values.type))
        )
        return pc.field(column).isin(values.cast(kind)) if alike else None
    return None


def _value(node: Any, schema: pa.Schema, column: str | None) -> Any:
    """Return a literal that a column is compared with, if both libraries compare it alike."""
    if column is None or column not in schema.names or "Literal" not in node:
        return None
    ((name, value),) = _literal(node).items()
    kind = schema.field(column).type
    if types.is_integer(kind) and type(value) is int and name.lstrip("U").startswith("Int"):
        return pa.scalar(value, kind)
    if types.is_string(kind) and name == "String" and isinstance(value, str):
        return value
    if types.is_date32(kind) and name == "Date" and type(value) is int:
        return date(1970, 1, 1) + timedelta(value)
    return None


def _literal(node: Any) -> Any:
    found = node["Literal"]
    found = found.get("Scalar", found.get("Dyn", found))
    return found.get("value", found)  # until 1.32 with its type


def to_duckdb(snapshot: Snapshot, connection: Any, name: str) -> Any:
    """Register a view and return it as a relation; see `Snapshot.to_duckdb`."""
    if not callable(getattr(connection, "register", None)):
        raise UsageError(f"connection must be one of DuckDB (duckdb.connect()), not {type(connection).__name__}")
    check_type(name, str, "name", "a str")
    connection.register(name, _dataset_class()(snapshot))
    return connection.table(name)


class _Scanner:
    """What DuckDB takes rows from."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def to_reader(self) -> pa.RecordBatchReader:
        return self._reader


@lru_cache(maxsize=1)
def _dataset_class() -> type:
    """Return a class of datasets, of which DuckDB asks columns and rows."""

    class LiveRows(ds.Dataset):  # type: ignore[misc]
        def __init__(self, snapshot: Snapshot) -> None:
            self._snapshot = snapshot
            self._columns = snapshot.schema()

        @property
        def schema(self) -> pa.Schema:
            return self._columns

        def scanner(
            self,
            columns: Sequence[str] | None = None,
            filter: pc.Expression | None = None,  # noqa: A002
            **_: Any,
        ) -> _Scanner:
            return _Scanner(live_reader(self._snapshot, columns, filter))

    return LiveRows

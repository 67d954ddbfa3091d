"""DuckDB (extra ``sql``) as it is used here: one database, a connection for each thread.

Columns are given to it in types that hold the same values, or as whether they are null.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dvcodec.core.errors import MissingExtra
from dvcodec.core.extras import pa, pc, require_extra, types
from dvcodec.tables.rows.columns import extensions, storage_field

_FIRST_VERSION = 2
"""Earlier ones take null for a division by zero, and microseconds for times of nanoseconds with a zone."""
_PACKAGE = f"DuckDB {_FIRST_VERSION}.0 or later"
_FIRST_PYTHON = (3, 11)


@contextmanager
def interrupting() -> Iterator[None]:
    """Raise Ctrl-C during a query as `KeyboardInterrupt`: DuckDB takes the signal, and raises a `RuntimeError`."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None


class Engine:
    """A database of DuckDB's.

    Attributes:
        error: the exceptions that it raises: its own, and another if a message of its own is not text.
        fatal: those after which it answers nothing more.
    """

    def __init__(self, config: Mapping[str, str], path: str = ":memory:") -> None:
        """Open a database that does not see variables of Python.

        Raises:
            MissingExtra: DuckDB 2.0 or later is not installed.
        """
        if sys.version_info[:2] < _FIRST_PYTHON:
            advice = "it needs Python 3.11 or later; pyarrow expressions, and fewer keys at a time, do not need it"
            raise MissingExtra(_PACKAGE, "sql", advice)
        duckdb = require_extra("duckdb", "sql", _PACKAGE)
        if int(duckdb.__version__.partition(".")[0]) < _FIRST_VERSION:
            raise MissingExtra(_PACKAGE, "sql")
        self.error: tuple[type[Exception], ...] = (duckdb.Error, UnicodeDecodeError)
        self.fatal: tuple[type[Exception], ...] = (duckdb.FatalException, duckdb.InternalException)
        self._database = duckdb.connect(path, config={"python_enable_replacements": "false", **config})
        self._local, self._lock = threading.local(), threading.Lock()

    def execute(self, statement: str) -> None:
        """Run a statement; not from several threads."""
        self._database.execute(statement)

    def query(self, text: str, name: str = "", rows: pa.RecordBatch | pa.RecordBatchReader | None = None) -> Any:
        """Return a relation, which is evaluated when its values are fetched.

        Args:
            text: a query.
            name: name of the table with `rows` in the query. In this thread they stay until others take the name.
            rows: see `name`.
        """
        cursor = getattr(self._local, "cursor", None)
        if cursor is None:
            with self._lock:
                cursor = self._local.cursor = self._database.cursor()
        if rows is not None:
            cursor.register(name, rows)
        return cursor.sql(text)

    def close(self) -> None:
        """Close the database."""
        self._database.close()


_KNOWN = frozenset({"arrow.bool8", "arrow.json", "arrow.uuid"})
"""Extension types that DuckDB has too. Others it would compare as they are stored, or decode in this process, where a
damaged variant takes all memory."""
_MAX_DIGITS = 38


class GivenColumns:
    """Columns of a table as DuckDB is given them.

    Attributes:
        opaque: columns that are given as true where they are not null, and the extension type that is in each.
        schema: the columns as DuckDB is given them.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.opaque = {field.name: name for field in schema for name in extensions(field) if name not in _KNOWN}
        self.schema = pa.schema(
            [pa.field(field.name, pa.bool_()) if field.name in self.opaque else _given(field) for field in schema]
        )

    def batch(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as DuckDB is given them.

        Raises:
            pyarrow.ArrowException: a value that its type does not have there.
        """
        pairs = zip(self.schema, columns.columns, strict=True)
        return pa.RecordBatch.from_arrays([self._array(*pair) for pair in pairs], schema=self.schema)

    def _array(self, field: pa.Field, array: Any) -> pa.Array:
        if field.name in self.opaque:
            return pc.if_else(array.is_null(), pa.scalar(None, pa.bool_()), True)
        array = getattr(array, "storage", array)
        return array if array.type == field.type else array.cast(field.type)


def _given(field: pa.Field) -> pa.Field:
    field = storage_field(field)
    return field.with_type(_given_type(field.type))


def _given_type(kind: Any) -> pa.DataType:
    if types.is_float16(kind):
        return pa.float32()
    if types.is_decimal256(kind) and kind.precision <= _MAX_DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_date64(kind):  # DuckDB drops what is not a whole day, and overflows
        return pa.date32()
    if kind == pa.duration("ns"):  # DuckDB cuts it down to microseconds
        return pa.duration("us")
    if types.is_struct(kind):
        return pa.struct([_given(kind.field(i)) for i in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.map_(_given(kind.key_field), _given(kind.item_field))
    if types.is_list(kind):
        return pa.list_(_given(kind.value_field))
    if types.is_large_list(kind):
        return pa.large_list(_given(kind.value_field))
    if types.is_fixed_size_list(kind):
        return pa.list_(_given(kind.value_field), kind.list_size)
    return kind

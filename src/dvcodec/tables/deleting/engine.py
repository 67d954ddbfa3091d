"""DuckDB (extra ``sql``) as it is used here: one database, a connection for each thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dvcodec.core.errors import MissingExtra
from dvcodec.core.extras import pa, require_extra

__all__ = ["Engine", "interrupting"]

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

"""Reads tables by DuckDB's own extensions. Usage: see README.md."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import duckdb

SCANS = {"iceberg": "iceberg_scan('{}')", "delta": "delta_scan('{}')", "lance": "'{}'"}


def extension(name: str) -> str:
    """Path of an extension, as its wheel has it."""
    found = importlib.util.find_spec(f"duckdb_extension_{name}")
    (path,) = Path(found.origin).parent.glob(f"extensions/*/{name}.duckdb_extension")
    return str(path)


def connect(kind: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute("SET autoinstall_known_extensions = false")
    for name in ("avro", "iceberg") if kind == "iceberg" else (kind,):
        connection.execute(f"LOAD '{extension(name)}'")
    return connection


def main(command: str, *arguments: str) -> None:
    if command == "versions":
        print(json.dumps({"duckdb": duckdb.__version__}))
        return
    kind, location, query = command, *arguments
    quoted = location.replace("'", "''")
    for row in connect(kind).execute(query.format(table=SCANS[kind].format(quoted))).fetchall():
        print(json.dumps(row, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])

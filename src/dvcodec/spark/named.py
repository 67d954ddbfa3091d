"""Tables as Spark users name them: ``orders``, ``db.orders``, ``delta.`path```, a DeltaTable of Delta's connector.

The session resolves a name, once: ``DESCRIBE TABLE EXTENDED`` says where the table is and what it is. A table of an
Iceberg catalog that is a service or a database is committed to through pyiceberg's catalog of the same settings, never
in its folder: other writers would not see the commit.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from dvcodec.core.errors import DvcodecError, UsageError
from dvcodec.io.target import is_url
from dvcodec.spark.compat import reason

_PATH = re.compile(r"(?:delta|iceberg|paimon|lance|parquet)\.`(.+)`", re.IGNORECASE)
"""A path as Spark SQL names it."""
_PART = r"(?:[^\s`./\\:]+|`(?:[^`]|``)+`)"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*")
_PARTS = re.compile(_PART)
_FORMATS = ("delta", "iceberg", "paimon", "lance")
_CATALOG = "spark.sql.catalog."
_JDBC = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg2"}
"""Databases of JDBC catalogs, as SQLAlchemy names them."""
_OF_SPARK = ("type", "catalog-impl", "cache-enabled", "default-namespace", "uri", "jdbc.")
"""Settings of a catalog that pyiceberg names in another way, or does not have."""


def check_session(spark: object, job: str) -> None:
    """Check that a job was given the session first.

    Raises:
        UsageError: it was not.
    """
    if not hasattr(spark, "createDataFrame"):
        shown = repr(spark) if isinstance(spark, (str, os.PathLike)) else type(spark).__name__
        raise UsageError(f"{job}: the first argument is the session, not {shown}: {job}(spark, table, ...)")


def resolve(spark: SparkSession, table: Any) -> Any:
    """Return a table as `dvcodec.tables.open_table` takes it: names of the session's catalogs as folders or objects.

    Args:
        spark: the session.
        table: what `jobs.delete` takes.

    Raises:
        UsageError: a view, a table of a format without deletion vectors, one that can only be committed to in another
            way, or a name that is both a table and a folder.
    """
    if hasattr(table, "detail") and hasattr(table, "toDF"):  # of Delta's connector
        return _folder(table.detail().first()["location"])
    if not isinstance(table, str):
        return table
    if (path := _PATH.fullmatch(table)) is not None:
        return path[1].replace("``", "`")
    if is_url(table) or _NAME.fullmatch(table) is None:
        return table
    described = _described(spark, table)
    if Path(table).exists():
        if described is None:
            return table
        raise UsageError(f"{table}: a table of the session, and a folder here: ./{table} is the folder")
    if described is None:
        raise UsageError(f"{table}: neither a table of the session nor a folder")
    return _of_catalog(spark, table, described)


def refresh(spark: SparkSession, table: Any) -> None:
    """Have the session read a table that it names again: catalogs cache metadata.

    Does nothing for folders and objects, and if Spark cannot.
    """
    if isinstance(table, str) and _PATH.fullmatch(table) is None and _NAME.fullmatch(table) and not is_url(table):
        with suppress(PySparkException):
            spark.sql(f"REFRESH TABLE {table}")


def _described(spark: SparkSession, name: str) -> dict[str, str] | None:
    """Return what Spark says of a table; None if there is none."""
    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except ParseException:
        return None
    except AnalysisException as err:
        if "TABLE_OR_VIEW_NOT_FOUND" in str(err) or "SCHEMA_NOT_FOUND" in str(err):
            return None
        raise UsageError(f"{name}: {reason(err)}") from None
    heads = [number for number, row in enumerate(rows) if row["col_name"].startswith("# ")]
    details = rows[heads[-1] :] if heads else []  # columns may have any names
    return {row["col_name"]: row["data_type"] for row in details}


def _of_catalog(spark: SparkSession, name: str, described: dict[str, str]) -> Any:
    if "VIEW" in described.get("Type", ""):
        raise UsageError(f"{name}: a view: name its table")
    location, provider = described.get("Location"), described.get("Provider", "").lower()
    if provider == "paimon" and not location:
        location = _property(spark, name, "path")
    if not location or not provider:
        raise UsageError(f"{name}: Spark does not say where this table is: pass its folder")
    if provider not in _FORMATS:
        raise UsageError(
            f"{name}: a table of {provider}, which has no deletion vectors: for Parquet files, pass the folder "
            f"{location!r} and vectors="
        )
    catalog, *parts = _full_name(spark, name)
    settings = _settings(spark, catalog)
    if provider == "iceberg" and not _in_folders(settings):
        return _through_pyiceberg(name, catalog, parts, settings)
    if provider == "paimon" and settings.get("metastore", "filesystem") != "filesystem":
        raise UsageError(f"{name}: a Paimon table of a {settings['metastore']} metastore: commit through its engine")
    return _folder(location)


def _property(spark: SparkSession, name: str, key: str) -> str | None:
    found = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    return found.get(key)


def _full_name(spark: SparkSession, name: str) -> list[str]:
    parts = [part[1:-1].replace("``", "`") if part[0] == "`" else part for part in _PARTS.findall(name)]
    current = spark.catalog.currentCatalog()
    if len(parts) > 1 and (parts[0] == current or _settings(spark, parts[0])):
        return parts
    return [current, *([spark.catalog.currentDatabase()] if len(parts) == 1 else []), *parts]


def _settings(spark: SparkSession, catalog: str) -> dict[str, str]:
    """Return the settings of a catalog by their names in it, its class under an empty one."""
    start = f"{_CATALOG}{catalog}"
    keys = [row["key"] for row in spark.sql("SET").collect()]  # the values in it are redacted
    chosen = [key for key in keys if key == start or key.startswith(f"{start}.")]
    return {key.removeprefix(start).removeprefix("."): str(spark.conf.get(key)) for key in chosen}


def _in_folders(settings: dict[str, str]) -> bool:
    return settings.get("type") == "hadoop" or settings.get("catalog-impl", "").endswith("HadoopCatalog")


def _through_pyiceberg(name: str, catalog: str, parts: list[str], settings: dict[str, str]) -> Any:
    """Return the table as pyiceberg's catalog of the same settings loads it."""
    options = {key: value for key, value in settings.items() if key and not key.startswith(_OF_SPARK)}
    kind, uri = settings.get("type", "hive"), settings.get("uri", "")
    database = re.fullmatch(r"jdbc:(\w+):(.*)", uri)
    if kind == "jdbc" and database is not None and database[1] in _JDBC:
        path = database[2] if database[2].startswith("//") else f"///{database[2]}"
        options |= {"type": "sql", "uri": f"{_JDBC[database[1]]}:{path}"}
    elif kind in ("rest", "hive", "glue"):
        options |= {"type": kind, "uri": uri} if uri else {"type": kind}
    else:
        kind = settings.get("catalog-impl", kind)
        raise _other_way(name, catalog, parts, f"pyiceberg has no counterpart of the catalog {kind}")
    try:
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415  (extra)

        return load_catalog(catalog, **options).load_table(tuple(parts))
    except (ImportError, OSError, DvcodecError) as err:
        raise _other_way(name, catalog, parts, str(err)) from None
    except Exception as err:  # noqa: BLE001  (of pyiceberg's many catalogs)
        raise _other_way(name, catalog, parts, f"{type(err).__name__}: {err}") from None


def _other_way(name: str, catalog: str, parts: list[str], why: str) -> UsageError:
    line = f"jobs.delete(spark, load_catalog({catalog!r}, ..).load_table({'.'.join(parts)!r}), ..)"
    return UsageError(f"{name}: an Iceberg catalog commits to it, and {why[:200]}: pass what pyiceberg loads: {line}")


def _folder(location: str) -> str:
    """Return a location of Hadoop's, in plain text, as a path or URL."""
    return re.sub(r"^file:/+", "/", location)

"""Deletion vectors and search segments in PySpark: data sources, jobs, and functions for `select`.

`register` makes the formats ``dvcodec`` and ``zap`` known to a session; `jobs` takes DataFrames and gives DataFrames;
`functions` are for users' own pipelines. All of it runs over classic sessions and over Spark Connect (extra ``spark``).

What these share:

- A **vectors** DataFrame has at least ``data_file string, dv binary``, one row a data file.
- A ``dv`` is one whole frame (length field, magic, vector, CRC), in any of the layouts that `dvcodec.decode_at`
  knows; what is made here is the frame that Iceberg, Delta and Paimon 64-bit share.
- Positions are 0-based physical row positions in the data file (``_metadata.row_index``), never the order of rows.
- Data files are named as their table names them; Spark's ``_metadata.file_path`` is another spelling (see `paths`).
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import MissingExtra

if TYPE_CHECKING:
    from dvcodec.spark import functions, jobs
    from dvcodec.spark.sources import register

__all__ = ["functions", "jobs", "register"]

for _package in ("pyspark", "pandas", "pyarrow"):  # Spark's Arrow functions want pandas, though nothing here does
    if find_spec(_package) is None:
        raise MissingExtra(_package, "spark")


def __getattr__(name: str) -> Any:
    if name in ("functions", "jobs"):
        return import_module(f"dvcodec.spark.{name}")
    if name == "register":
        return import_module("dvcodec.spark.sources").register
    raise AttributeError(f"module 'dvcodec.spark' has no attribute {name!r}")

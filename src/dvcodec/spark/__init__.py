"""Deletion vectors and search segments in PySpark: data sources, jobs, and functions for `select`.

`register` registers the formats ``dvcodec`` and ``zap`` with a session; `jobs` map DataFrames to DataFrames;
`functions` are column functions for pipelines. All run on classic sessions and on Spark Connect (extra ``spark``).

Conventions:

- A **vectors** DataFrame has at least ``data_file string, dv binary``, one row per data file. Where jobs take one, they
  also take the path of containers, or several: see `jobs.read_vectors`.
- A ``dv`` is one whole frame (length field, magic, bitmap, CRC), in any layout that `dvcodec.decode_at`
  reads. Jobs and functions write the frame that Iceberg, Delta and Paimon 64-bit share.
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

for _package in ("pyspark", "pandas", "pyarrow"):  # Spark's Arrow functions need pandas
    if find_spec(_package) is None:
        raise MissingExtra(_package, "spark")


def __getattr__(name: str) -> Any:
    if name in ("functions", "jobs"):
        return import_module(f"dvcodec.spark.{name}")
    if name == "register":
        return import_module("dvcodec.spark.sources").register
    raise AttributeError(f"module 'dvcodec.spark' has no attribute {name!r}")

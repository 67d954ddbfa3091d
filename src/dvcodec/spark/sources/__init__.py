"""The data sources: `register` and `read_manifest`."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING
from weakref import WeakSet

from dvcodec.spark.compat import HAS_SOURCES
from dvcodec.spark.functions.udfs import register_functions
from dvcodec.spark.sources.manifest import read_manifest
from dvcodec.spark.sources.pythons import check_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["read_manifest", "register"]

_SOURCES = {"position_deletes": "PositionDeleteSource", "source": "VectorSource", "zap": "SegmentSource"}
_LOG = logging.getLogger("dvcodec.spark")
_registered: WeakSet[SparkSession] = WeakSet()


def register(spark: SparkSession) -> None:
    """Register dvcodec's formats and SQL functions with a session, classic or Connect.

    The formats are ``dvcodec``, ``dvcodec_position_deletes`` and ``zap``. The functions are those of
    `dvcodec.spark.functions` whose names begin with ``dv_``, for SQL text and ``expr``. Spark 3.5 has no
    data sources in Python: there a warning is logged, and only the functions are registered.

    If dvcodec is shipped with the session (``spark.addArtifacts``, ``--py-files``), that may happen before or after.
    Registering twice does nothing (Spark would warn that a source was replaced).

    Raises:
        UsageError: in a classic session without ``PYSPARK_PYTHON``, the ``python3`` that Spark starts is missing, or
            differs from this one.
    """
    if spark in _registered:
        return
    check_python(spark)
    _registered.add(spark)
    register_functions(spark)
    if not HAS_SOURCES:
        _LOG.warning("spark.read.format('dvcodec') needs Spark 4.0: here, use jobs.read_vectors and jobs.write_vectors")
        return
    shipped = import_module("dvcodec.spark.sources.shipped")  # it imports what 3.5 lacks
    for module, name in _SOURCES.items():
        shipped.register_class(spark, getattr(import_module(f"dvcodec.spark.sources.{module}"), name))

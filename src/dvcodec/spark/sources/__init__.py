"""The data sources: `register` and `read_manifest`."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from importlib import import_module
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.sql import SparkSession

from dvcodec.core.errors import UsageError
from dvcodec.spark.compat import HAS_SOURCES
from dvcodec.spark.functions import register_functions
from dvcodec.spark.sources.writer import read_manifest

_NEEDED = ("numpy", "pandas", "pyarrow", "pyroaring", "cramjam")
_OWN = "import sys; sys.path[:] = [p for p in sys.path if p]; "
"""Python puts the current folder first for ``-c``: a file of any name may be there. Only `sys` is built in."""
_ASK = f"{_OWN}import importlib.util as u; print(*sys.version_info[:2], *[n for n in {_NEEDED} if not u.find_spec(n)])"
_SECONDS = 60
_MISSING = re.compile(r'Cannot run program "?[^"]*"?[^\n]*(?:No such file|error=2)')


def check_python(spark: SparkSession) -> None:
    """Check the Python that Spark will start if ``PYSPARK_PYTHON`` is not set.

    Spark then starts ``python3``, on the driver to plan and on the workers to run. The driver's is run here, that of
    a cluster's workers by a job with one task. Sessions of Spark Connect are not checked: there the server decides.

    Raises:
        UsageError: it is missing, has another minor version, or lacks the packages that dvcodec needs.
    """
    context: SparkContext | None = getattr(spark, "_sc", None)
    if context is None or os.environ.get("PYSPARK_PYTHON"):
        return
    name = context.pythonExec
    try:
        done = subprocess.run([name, "-c", _ASK], capture_output=True, text=True, timeout=_SECONDS, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        raise _unfit(name, "the driver", "is missing or cannot be run") from None
    _compare(done.stdout.split(), name, "the driver")
    if (context.master or "local").startswith("local"):
        return
    try:
        found = _ask_worker(context)
    except Exception as err:
        text = str(err)
        if "PYTHON_VERSION_MISMATCH" in text:
            raise _unfit(name, "the workers", "has another minor version") from None
        if _MISSING.search(text):
            raise _unfit(name, "the workers", "is missing") from None
        raise
    _compare(found, name, "the workers")


def _ask_worker(context: SparkContext) -> list[str]:
    needed = _NEEDED

    def ask(_: int) -> list[str]:  # local, so pickled by value: the worker may lack dvcodec
        import sys  # noqa: PLC0415
        from importlib.util import find_spec  # noqa: PLC0415

        return [*map(str, sys.version_info[:2]), *(name for name in needed if find_spec(name) is None)]

    return context.parallelize([0], 1).map(ask).collect()[0]


def _compare(found: list[str], name: str, where: str) -> None:
    own = [str(part) for part in sys.version_info[:2]]
    if found[:2] != own:
        raise _unfit(name, where, f"is Python {'.'.join(found[:2])}")
    if found[2:]:
        raise _unfit(name, where, f"lacks {', '.join(found[2:])}")


def _unfit(name: str, where: str, what: str) -> UsageError:
    version = ".".join(map(str, sys.version_info[:2]))
    return UsageError(
        f"PYSPARK_PYTHON is not set, and the {name} of {where} {what}: set PYSPARK_PYTHON, before the session starts, "
        f"to a Python {version} with {', '.join(_NEEDED)} on driver and workers"
    )


__all__ = ["read_manifest", "register"]

_SOURCES = {"position_deletes": "PositionDeleteSource", "vectors": "VectorSource", "zap": "SegmentSource"}
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

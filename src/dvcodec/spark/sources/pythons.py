"""Check that the Python that Spark starts can run dvcodec."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from dvcodec.core.errors import UsageError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

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

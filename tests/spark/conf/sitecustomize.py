"""Python of the sessions' processes: pyspark's daemons import what their workers will, so that each is forked ready.

To import pyarrow, pandas, pyspark and dvcodec takes more than a second of CPU, and Spark starts a worker for each step
of a Python data source and after each task that fails. pyspark itself imports after the fork, as a library may start
threads that a fork does not take along; those of these libraries start when they are needed.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module

LIBRARIES = ("pandas", "pyarrow.parquet", "pyspark.worker", "dvcodec.spark.jobs", "dvcodec.spark.sources")

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with suppress(ImportError):  # the Python of another Spark
        for name in (*LIBRARIES, *sys.orig_argv[3:4]):
            import_module(name)

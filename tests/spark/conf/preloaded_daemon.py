"""pyspark's daemon of Python workers, with what they import: each is forked ready.

To import pyarrow, pandas, pyspark and dvcodec takes more than a second of CPU, and Spark starts a worker for each step
of a Python data source and after each task that fails. pyspark itself imports after the fork, as a library may start
threads that a fork does not take along; those of these libraries start when they are needed.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

LIBRARIES = ("pandas", "pyarrow.parquet", "pyspark.worker", "dvcodec.spark.jobs", "dvcodec.spark.sources")

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
for name in (*LIBRARIES, *sys.argv[1:2]):
    import_module(name)

if __name__ == "__main__":
    import_module("pyspark.daemon").manager()

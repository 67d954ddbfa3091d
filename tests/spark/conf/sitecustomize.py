"""Python of the sessions' processes: pyspark's daemons import what their workers will, so that each is forked ready.

To import pyarrow, pandas, pyspark and dvcodec takes more than a second of CPU, and Spark starts a worker for each step
of a Python data source and after each task that fails. pyspark itself imports after the fork, as a library may start
threads that a fork does not take along; those of these libraries start when they are needed.

Over Connect, Spark starts the worker of a stream's ``foreachBatch`` as a new process and waits ten seconds for it to
connect. On a busy machine its imports take longer, so it connects before it imports.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from importlib import import_module

LIBRARIES = ("pandas", "pyarrow.parquet", "pyspark.worker", "dvcodec.spark.jobs", "dvcodec.spark.sources")
STREAM_WORKER = "pyspark.sql.connect.streaming.worker.foreach_batch_worker"


def connect_first(port: int, secret: bytes) -> None:
    """Do what pyspark's ``local_connect_and_auth`` does, and let it return the connection."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=15)
    file = connection.makefile("rwb", 65536)
    file.write(len(secret).to_bytes(4, "big") + secret)
    file.flush()
    reply = file.read(int.from_bytes(file.read(4), "big"))
    assert reply == b"ok", reply
    worker_util = import_module("pyspark.worker_util")
    worker_util.local_connect_and_auth = lambda *_: (file, connection)  # type: ignore[attr-defined]


if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with suppress(ImportError):  # the Python of another Spark
        for name in (*LIBRARIES, *sys.orig_argv[3:4]):
            import_module(name)
elif sys.orig_argv[1:3] == ["-m", STREAM_WORKER] and "PYTHON_WORKER_FACTORY_SECRET" in os.environ:
    connect_first(int(os.environ["PYTHON_WORKER_FACTORY_PORT"]), os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode())

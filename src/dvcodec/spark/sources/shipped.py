"""The classes that Spark registers for the data sources: pickled by value, they import dvcodec where they are used.

Spark stores a registered class as bytes, with the names of the packages shipped so far (``addArtifacts``,
``addPyFile``, ``--py-files``). A class pickled by name cannot be loaded if dvcodec is shipped later. So this module is
pickled by value and needs only pyspark; dvcodec is imported on use, from where it is installed or from a shipped
archive. Nothing here may import dvcodec at the top.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

pickling: Any = cloudpickle


def find_package() -> None:
    """Make dvcodec importable from an archive that was shipped to this worker.

    Raises:
        ModuleNotFoundError: it is neither installed nor shipped.
    """
    import os  # noqa: PLC0415  (pickled with the function)
    import sys  # noqa: PLC0415
    import zipfile  # noqa: PLC0415

    if find_spec("dvcodec") is not None:
        return
    # Spark adds the folder of shipped files to sys.path, but not archives that were shipped later.
    for folder in list(sys.path):
        archives = sorted(os.listdir(folder)) if os.path.isdir(folder) else []  # noqa: PTH208, PTH112
        for name in archives:
            path = os.path.join(folder, name)  # noqa: PTH118
            if name.endswith((".zip", ".whl", ".egg")) and zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    if "dvcodec/__init__.py" in archive.namelist():
                        sys.path.insert(1, path)
                        return
    what = "install it on the workers, or ship it: spark.addArtifacts('dvcodec.zip', pyfile=True)"
    raise ModuleNotFoundError(f"Spark's Python workers cannot import dvcodec: {what}", name="dvcodec")


class _Inner:
    """Wraps an object of dvcodec; pickled as bytes."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getstate__(self) -> Any:
        return pickling.dumps(self.inner)

    def __setstate__(self, state: bytes) -> None:
        find_package()
        self.inner = pickling.loads(state)


class _Reader(_Inner, DataSourceReader):
    def partitions(self) -> Any:
        return self.inner.partitions()

    def read(self, partition: Any) -> Any:
        import_module("dvcodec.spark.tasks").settle()
        return self.inner.read(partition)


class _Writer(_Inner, DataSourceArrowWriter):
    def write(self, iterator: Iterator[Any]) -> Any:
        return self.inner.write(iterator)

    def commit(self, messages: list[Any]) -> None:
        self.inner.commit(messages)

    def abort(self, messages: list[Any]) -> None:
        self.inner.abort(messages)


class _Shipped(DataSource):
    """A data source of dvcodec, imported on use."""

    module = ""
    class_name = ""
    spark_name = ""

    @classmethod
    def name(cls) -> str:
        return cls.spark_name

    def inner(self) -> Any:
        find_package()
        return getattr(import_module(self.module), self.class_name)(self.options)

    def schema(self) -> Any:
        return self.inner().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.inner().reader(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer(self.inner().writer(schema, overwrite))


def register_class(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source of dvcodec with a session."""
    members = {"module": source.__module__, "class_name": source.__name__, "spark_name": source.name()}
    module = import_module(__name__)
    pickling.register_pickle_by_value(module)
    try:
        spark.dataSource.register(type(source.__name__, (_Shipped,), members))
    finally:
        pickling.unregister_pickle_by_value(module)

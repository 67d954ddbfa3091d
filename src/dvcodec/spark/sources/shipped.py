"""The data sources as Spark is given them: classes that are pickled whole, and find dvcodec where they arrive.

Spark keeps a registered class as bytes, with the names of the packages that were shipped by then (``addArtifacts``,
``addPyFile``, ``--py-files``). A class that is pickled by its name cannot be loaded where dvcodec is shipped later. So
what is pickled here is this module's code, which needs pyspark alone; dvcodec itself is imported when it is used, from
where it is installed or from a shipped archive, whenever that came. Nothing here may use dvcodec at the top.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["register_class"]

pickling: Any = cloudpickle


def find_package() -> None:
    """Make dvcodec importable if an archive with it has been shipped to this worker.

    Raises:
        ModuleNotFoundError: it is neither installed nor shipped.
    """
    import os  # noqa: PLC0415  (imports come along where they are made in the function)
    import sys  # noqa: PLC0415
    import zipfile  # noqa: PLC0415

    if find_spec("dvcodec") is not None:
        return
    # Spark puts the folder of shipped files on the path, and of their archives those that it knew of in time.
    for folder in list(sys.path):
        archives = sorted(os.listdir(folder)) if os.path.isdir(folder) else []  # noqa: PTH208, PTH112
        for name in archives:
            path = os.path.join(folder, name)  # noqa: PTH118
            if name.endswith((".zip", ".whl", ".egg")) and zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    if "dvcodec/__init__.py" in archive.namelist():
                        sys.path.insert(1, path)
                        return
    what = "install it there, or ship it: spark.addArtifacts('dvcodec.zip', pyfile=True)"
    raise ModuleNotFoundError(f"dvcodec is not installed where Spark's Python workers run: {what}", name="dvcodec")


class _Inner:
    """Something of dvcodec's, in bytes on the way."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getstate__(self) -> bytes:
        state: bytes = pickling.dumps(self.inner)
        return state

    def __setstate__(self, state: bytes) -> None:
        find_package()
        self.inner = pickling.loads(state)


class _Reader(_Inner, DataSourceReader):
    def partitions(self) -> Sequence[Any]:
        found: Sequence[Any] = self.inner.partitions()
        return found

    def read(self, partition: Any) -> Iterator[Any]:
        found: Iterator[Any] = self.inner.read(partition)
        return found


class _FilteringReader(_Reader):  # Spark asks whether a reader defines the method
    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802  (Spark's)
        left: Iterator[Any] = self.inner.pushFilters(filters)
        return left


class _Writer(_Inner, DataSourceArrowWriter):
    def write(self, iterator: Iterator[Any]) -> Any:
        return self.inner.write(iterator)

    def commit(self, messages: list[Any]) -> None:
        self.inner.commit(messages)

    def abort(self, messages: list[Any]) -> None:
        self.inner.abort(messages)


class _Shipped(DataSource):
    """A data source of dvcodec's, which is imported when it is asked for something."""

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
        inner = self.inner().reader(schema)
        own, usual = (getattr(one, "pushFilters", None) for one in (type(inner), DataSourceReader))
        return (_Reader if own is usual else _FilteringReader)(inner)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer(self.inner().writer(schema, overwrite))


def register_class(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source of dvcodec's with a session."""
    members = {"module": source.__module__, "class_name": source.__name__, "spark_name": source.name()}
    module = import_module(__name__)
    pickling.register_pickle_by_value(module)
    try:
        spark.dataSource.register(type(source.__name__, (_Shipped,), members))
    finally:
        pickling.unregister_pickle_by_value(module)

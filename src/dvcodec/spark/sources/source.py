"""The data source ``dvcodec``."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType

from dvcodec.spark.sources.options import ReadOptions, WriteOptions
from dvcodec.spark.sources.reader import reader_of, schema_of
from dvcodec.spark.sources.writer import writer_of

__all__ = ["VectorSource"]


class VectorSource(DataSource):
    """Deletion vectors in files, whatever wraps them.

    **Reading** gives one row a vector (`schemas.STORED_VECTORS`), from every container that `dvcodec.sniff` knows::

        spark.read.format("dvcodec").load("s3://lake/t/data")
        spark.read.format("dvcodec").load(["/t/a.puffin", "/t/dv/*.bin"])
        spark.read.format("dvcodec").schema("data_file string, cardinality long").load(path)

    A path is a file, a folder with its subfolders, or a pattern (``*``, ``?``, ``[...]``, ``**``); several are given as
    a list, or as a JSON array in the option ``paths``. Names found in a folder that begin with ``_`` or ``.`` are left
    alone. A file that two paths mean is read once. Local paths and ``file:`` URLs need nothing, others obstore or
    fsspec (extra ``remote``) on driver and workers; credentials are those of the options ``storage.<key>``, or those
    that are found there (environment variables, AWS's files). Hadoop's are not used.

    Every vector is checked: CRC, structure, order, population, cardinality where metadata states it. What is not
    sound is a row with ``error``, and the job goes on. ``crc_ok`` is null where there is no CRC, or none was checked.
    A file that is not a container is a row with ``error`` too. Only an input or output error fails a task.

    What a schema, or the option ``columns``, does not name is not computed; with ``container``, ``format``,
    ``data_file``, ``offset`` and ``size`` alone the vectors are not even read, and not checked.

    Where a folder has manifests of writes (see below), only containers that they name are read from it, and they
    say what the bytes do not: the ``data_file`` of vectors in Delta and Paimon files.

    Options of a read, besides the path:
        ``format``: the only kind of container wanted: ``puffin``, ``delta``, ``paimon``, ``blob``, ``roaring32``,
            ``roaring64`` or ``lance-arrow``. A file that is something else is a row with ``error``.
        ``rows``: ``positions`` adds ``positions array<long>``, ``ranges`` adds
            ``ranges array<struct<start,stop>>``, for `explode`. A vector of more than 2**20 of them has several rows,
            counted from 0 by ``part``. ``dv`` is there only if it is asked for then.
        ``columns``: names, separated by commas.
        ``ignore-others``: ``true`` skips files of a folder or pattern that are not containers (of that kind).
        ``verify-checksum``: ``false`` skips the CRCs.
        ``committed``: ``false`` reads containers that no manifest names, too.
        ``partition-bytes``, ``open-cost-bytes``: bytes of one task (32m), and what a file counts besides (64k). Larger
            containers are split between their vectors. A file in an object store counts 1m besides: it is a request.
        ``storage.<key>``: how stores are reached, of reads and writes alike: ``storage.aws_region``,
            ``storage.endpoint``, ``storage.max_concurrency``, ..; see `dvcodec.io.store.options`.
        ``data-files``: a name, or a JSON array of names: vectors of these data files alone are read, however they are
            spelled (in plain text).
        ``push-filters``: ``true`` lets ``data_file = ..`` and ``data_file in (..)`` of a query do the same, letter for
            letter (pyspark 4.1; ``spark.sql.python.filterPushdown.enabled`` has to be set, or the read fails). For one
            query only: Spark (4.3) remembers what was pushed, and a second use of the same DataFrame, later or in a
            union, lacks the other rows.

    **Writing** takes ``data_file string, dv binary``, and perhaps ``cardinality long``, which is checked then; other
    columns are left alone::

        vectors.write.format("dvcodec").mode("append").option("target", "puffin").save("s3://lake/t/deletes")

    Every vector is verified. Frames of the shared layout are copied, others re-encoded. Tasks write into a folder
    ``.dvcodec-<job>`` below the path; the commit moves what the tasks that count have written, and writes the manifest
    ``_manifest-<job>``, whole, as its last step: a container that no manifest names is not there for readers. A job
    that fails leaves nothing; one that is killed leaves what `vacuum` removes. The manifest has one row a vector
    (`manifest.SCHEMA`): what `dvcodec.DvLocation` says, and ``entry``, what the table's own commit needs.

    Options of a write:
        ``target``: ``puffin`` (default), ``delta``, ``paimon32`` or ``paimon64``.
        ``target-bytes``, ``max-vectors``: when a container is full: 64m, for Paimon 2m; 65536 vectors for Puffin.
        ``manifest``: ``parquet`` (default) or ``jsonl``.
        ``table-root``: the folder that Delta descriptors are relative to; the path if not given.
        ``storage.<key>``: as for reads.

    Mode ``overwrite`` is refused: readers may be at the containers that it would remove, and several manifests cannot
    be replaced at once. Write into a new folder, or append.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "dvcodec"

    def schema(self) -> StructType:
        """Return what is read where the user gives no schema."""
        return schema_of(ReadOptions.parse(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of these columns."""
        return reader_of(ReadOptions.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer, its staging folder made."""
        return writer_of(WriteOptions.parse(self.options), schema, overwrite=overwrite)

"""The data source ``dvcodec``."""

from __future__ import annotations

from pyspark.sql.types import StructType

from dvcodec.spark.compat import datasource
from dvcodec.spark.sources.options import ReadOptions, WriteOptions
from dvcodec.spark.sources.reader import reader_of, schema_of
from dvcodec.spark.sources.writer import writer_of


class VectorSource(datasource.DataSource):
    """Deletion vectors in files of any container.

    **Reading** returns one row per vector (`columns.STORED_VECTORS`), from containers that `dvcodec.sniff` detects::

        spark.read.format("dvcodec").load("s3://lake/t/data")
        spark.read.format("dvcodec").load(["/t/a.puffin", "/t/dv/*.bin"])
        spark.read.format("dvcodec").schema("data_file string, cardinality long").load(path)

    A path is a file, a folder with its subfolders, or a pattern (``*``, ``?``, ``[...]``, ``**``); several are given as
    a list, or as a JSON array in the option ``paths``. Names in a folder that begin with ``_`` or ``.`` are skipped. A
    file that several paths match is read once. URLs other than ``file:`` need obstore or fsspec (extra ``remote``) on
    driver and workers; credentials are those of the options ``storage.<key>``, or those of driver and workers
    (environment variables, AWS's files). Hadoop's are not used.

    Every vector is checked: CRC, structure, order, population, and the cardinality that metadata states. A corrupt
    vector is a row with ``error``, and the job continues. ``crc_ok`` is null if there is no CRC, or it was not
    checked. A file that is not a container is a row with ``error`` too. Only an I/O error fails a task.

    Columns that neither the schema nor the option ``columns`` names are not computed; if only ``container``,
    ``format``, ``data_file``, ``offset`` and ``size`` are named, the vectors are neither read nor checked.

    If a folder has manifests of writes (see below), only containers that they name are read from it, and they supply
    the ``data_file`` of vectors in Delta and Paimon files.

    Options of a read, besides the path:
        ``format``: the only kind of container to accept: ``puffin``, ``delta``, ``paimon``, ``blob``, ``roaring32``,
            ``roaring64`` or ``lance-arrow``. Another file is a row with ``error``.
        ``columns``: names, separated by commas.
        ``ignore-others``: ``true`` skips files of a folder or pattern that are not containers (of that kind).
        ``verify-checksum``: ``false`` skips the CRCs.
        ``committed``: ``false`` also reads containers that no manifest names.
        ``partition-bytes``, ``open-cost-bytes``: bytes of one task (32m), and bytes added for each file (64k, in object
            stores 1m, as each is a request). Larger containers are split between their vectors.
        ``limits``: bounds on what the bytes may claim, as in ``max_metadata_bytes=2000000000,max_records=50000000``;
            see `dvcodec.Limits`.
        ``storage.<key>``: how to reach stores, for reads and writes: ``storage.aws_region``,
            ``storage.endpoint``, ``storage.max_concurrency``, ..; see `dvcodec.io.store.options`.
        ``data-files``: a name, or a JSON array of names: only vectors of these data files are read, in any spelling
            (in plain text).
        ``push-filters``: ``true`` lets ``data_file = ..`` and ``data_file in (..)`` of a query do the same for names
            spelled exactly so (pyspark 4.1; ``spark.sql.python.filterPushdown.enabled`` must be set, or the read
            fails). For one query only: Spark (4.3) keeps the pushed filters, so a second use of the same DataFrame,
            later or in a union, lacks the other rows.

    **Writing** takes ``data_file string, dv binary``, and optionally ``cardinality long``, which is checked; other
    columns are ignored::

        vectors.write.format("dvcodec").mode("append").option("target", "iceberg").save("s3://lake/t/deletes")

    Every vector is verified. Frames of the shared layout are copied, others re-encoded. Tasks write containers with
    fresh names into the folder; the commit lists those of successful tasks in ``_manifest-<job>.parquet``, in
    one atomic write. Readers do not see a container that no manifest names. A write that fails leaves the empty file
    ``_writing-<job>``, which says so; killed or repeated tasks may leave containers. The manifest has one row per
    vector, the fields of `dvcodec.DvLocation`: see `read_manifest`.

    Options of a write:
        ``target``: ``iceberg`` (default; Puffin files), ``delta``, ``paimon32`` or ``paimon64``.
        ``target-bytes``, ``max-vectors``: limits of a container: 64m, for Paimon 2m; 65536 vectors for Puffin.
        ``storage.<key>``: as for reads.

    Mode ``overwrite`` is not supported: it would remove containers that readers may be reading, and cannot replace
    several manifests atomically. Write into a new folder, or append.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "dvcodec"

    def schema(self) -> StructType:
        """Return the schema of a read without a user's schema."""
        return schema_of(ReadOptions.parse(self.options))

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        """Return a reader of these columns."""
        return reader_of(ReadOptions.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceWriter:
        """Return a writer, and begin the write."""
        return writer_of(WriteOptions.parse(self.options), schema, overwrite=overwrite)

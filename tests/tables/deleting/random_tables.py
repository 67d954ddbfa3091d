"""The same rows as a table of each format, made by its library where there is one, in several files and partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dvcodec.tables import enable, open_table
from samples.paimon_table import PaimonFile, build_paimon
from tables.deleting.random_where import SCHEMA

BY = "part"


def make_delta(folder: Path, rows: Sequence[pa.Table]) -> None:
    """Partitioned; a checkpoint half way."""
    deltalake = pytest.importorskip("deltalake")
    for number, some in enumerate(rows):
        deltalake.write_deltalake(str(folder), some, mode="append", partition_by=[BY])
        if number == len(rows) // 2:
            deltalake.DeltaTable(str(folder)).create_checkpoint()
    enable(open_table(folder))


def read_delta(folder: Path) -> Any:
    import deltalake

    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(folder))).execute("SELECT * FROM t")
    return pa.table(query.read_all())


def make_iceberg(folder: Path, rows: Sequence[pa.Table]) -> None:
    """Of three specs: by one column, by two, and by none; a column is added half way."""
    table = folder_table(folder, rows[0].schema)
    with table.update_spec() as spec:
        spec.add_identity(BY)
    for number, some in enumerate(rows):
        if number == len(rows) // 3:
            with table.update_spec() as spec:
                spec.add_identity("flag")
        if number == 2 * len(rows) // 3:
            with table.update_spec() as spec:
                spec.remove_field("flag")
                spec.remove_field(BY)
        table.append(some)


def make_iceberg_3(folder: Path, rows: Sequence[pa.Table]) -> None:
    make_iceberg(folder, rows)
    enable(open_table(folder))


def folder_table(folder: Path, schema: pa.Schema, *, metrics: str = "truncate(6)") -> Any:
    """Create a table of pyiceberg's without a catalog, in the way of Hadoop's."""
    pytest.importorskip("pyiceberg.table")
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io.pyarrow import PyArrowFileIO, _pyarrow_to_schema_without_ids
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
    from pyiceberg.schema import assign_fresh_schema_ids
    from pyiceberg.serializers import ToOutputFile
    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
    from pyiceberg.table.update import update_table_metadata

    io, versions = PyArrowFileIO(), iter(range(1, 1000))

    def publish(metadata: Any) -> str:
        number = next(versions)
        location = str(folder / "metadata" / f"v{number}.metadata.json")
        ToOutputFile.table_metadata(metadata, io.new_output(location))
        (folder / "metadata" / "version-hint.text").write_text(str(number))
        return location

    class Folder(NoopCatalog):
        def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
            for requirement in requirements:
                requirement.validate(table.metadata)
            metadata = update_table_metadata(table.metadata, updates, metadata_location=table.metadata_location)
            return CommitTableResponse(metadata=metadata, **{"metadata-location": publish(metadata)})

    metadata = new_table_metadata(
        assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(schema)),
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        str(folder),
        {"write.metadata.metrics.default": metrics, "format-version": "2"},
    )
    return Table(("db", "t"), metadata, publish(metadata), io, Folder("folder"))


def read_iceberg(folder: Path) -> Any:
    from pyiceberg.table import StaticTable

    found: Any = open_table(folder)
    return StaticTable.from_metadata(found.metadata.source).scan().to_arrow()


PAIMON_TYPES: dict[pa.DataType, str] = {
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.float64(): "DOUBLE",
    pa.float32(): "FLOAT",
    pa.string(): "STRING",
    pa.binary(): "BYTES",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP(6)",
    pa.timestamp("us", "UTC"): "TIMESTAMP(6) WITH LOCAL TIME ZONE",
}


def paimon_columns(fields: Iterable[pa.Field], numbers: Iterator[int]) -> Iterator[tuple[int, str, Any]]:
    """Columns as Paimon's schemas have them, with field ids."""
    for field in fields:
        number, kind = next(numbers), field.type
        if pa.types.is_struct(kind):
            inner = [{"id": i, "name": name, "type": of} for i, name, of in paimon_columns(kind, numbers)]
            yield number, field.name, {"type": "ROW", "fields": inner}
        else:
            named = f"DECIMAL({kind.precision}, {kind.scale})" if pa.types.is_decimal(kind) else PAIMON_TYPES[kind]
            yield number, field.name, named


def make_paimon(folder: Path, rows: Sequence[pa.Table]) -> None:
    """Partitioned; each insert is a snapshot."""
    states: list[list[PaimonFile]] = [[]]
    for number, some in enumerate(rows):
        files = list(states[-1])
        for value in some.column(BY).unique().to_pylist():
            found = some.filter(pc.field(BY).is_null() if value is None else pc.field(BY) == value)
            # Characters of folders' names that Paimon escapes.
            below = "__DEFAULT_PARTITION__" if value is None else value.replace("%", "%25").replace("/", "%2F")
            name = f"f{number}.parquet"
            files.append(PaimonFile(name, found, partition=(value,), folder=f"{BY}={below}"))
        states.append(files)
    build_paimon(folder, list(paimon_columns(SCHEMA, count())), states[1:], partition_keys=[BY])


def make_lance(folder: Path, rows: Sequence[pa.Table]) -> None:
    """Fragments of 100 rows, and an index of the key."""
    lance = pytest.importorskip("lance.dataset")
    for some in rows:
        lance.write_dataset(some, str(folder), mode="append" if folder.exists() else "create", max_rows_per_file=100)
    lance.LanceDataset(str(folder)).create_scalar_index("key", "BTREE")


def read_lance(folder: Path) -> Any:
    import lance

    return lance.dataset(str(folder)).to_table()


def plain_rows(found: pa.Table) -> list[str]:
    """Rows by key, in a form in which NaN is NaN and zero is not its negative."""
    return [repr(row) for row in found.select(SCHEMA.names).cast(SCHEMA).sort_by("key").to_pylist()]


FORMATS: dict[str, tuple[Callable[[Path, Sequence[pa.Table]], None], Callable[[Path], Any] | None]] = {
    "delta": (make_delta, read_delta),
    "iceberg": (make_iceberg_3, read_iceberg),
    "iceberg 2": (make_iceberg, read_iceberg),
    "lance": (make_lance, read_lance),
    "paimon": (make_paimon, None),
}
"""What makes a table, and what reads it; this environment has no library that reads Paimon."""

"""Commit data files and delete files to Iceberg tables through Iceberg's own Java API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from commit_rows import ids, listed
from common import COLUMNS, Place, local, rows
from iceberg_tables import CATALOG


def create(place: Place, name: str, files: int, stop: int, partition: str | None = None, version: int = 3) -> str:
    """Make a table of so many tasks' rows, or an empty one without tasks; return its folder."""
    place.spark.sql(
        f"CREATE TABLE {_sql(name)} ({COLUMNS}) USING iceberg {f'PARTITIONED BY ({partition})' if partition else ''} "
        f"TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read', "
        "'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true')"
    )
    if files:
        place.spark.sql(f"INSERT INTO {_sql(name)} {rows(0, stop, files)}")
    return local(_load(place, name).location())


def upgrade(place: Place, name: str) -> None:
    """Make it a table of format version 3."""
    place.spark.sql(f"ALTER TABLE {_sql(name)} SET TBLPROPERTIES ('format-version' = '3')")


def delete(place: Place, name: str, where: str) -> None:
    """Let Iceberg delete rows."""
    place.spark.sql(f"DELETE FROM {_sql(name)} WHERE {where}")


def sql(place: Place, name: str, statement: str) -> list[list[Any]]:
    """Run a statement about ``{table}``, in the catalog ``{catalog}``, and return its rows."""
    place.spark.sql(f"REFRESH TABLE {_sql(name)}")
    found = place.spark.sql(statement.format(table=_sql(name), catalog=CATALOG))
    return [list(row) for row in found.collect()]


def attach(place: Place, uri: str, name: str = "rest") -> None:
    """Make a REST catalog known by a name, which the session keeps for it."""
    catalog = f"spark.sql.catalog.{name}"
    place.spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    options = {
        "type": "rest",
        "uri": uri,
        "cache-enabled": "false",
        "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
    }
    for key, value in options.items():
        place.spark.conf.set(f"{catalog}.{key}", value)


def run(place: Place, statement: str) -> list[list[Any]]:
    """Run a statement and return its rows; ``{rows}`` stands for a query of the rows 0 to 699."""
    return [list(row) for row in place.spark.sql(statement.replace("{rows}", rows(0, 700, 2))).collect()]


def insert(place: Place, name: str, start: int, stop: int) -> None:
    """Add the rows of these ids."""
    place.spark.sql(f"INSERT INTO {_sql(name)} {rows(start, stop, 1)}")


def summaries(place: Place, name: str) -> list[dict[str, str]]:
    """Return the summaries of all snapshots, oldest first."""
    table = _load(place, name)
    table.refresh()
    found = []
    for snapshot in _each(table.snapshots()):
        entries = {entry.getKey(): entry.getValue() for entry in _each(snapshot.summary().entrySet())}
        found.append(entries | {"operation": snapshot.operation()})
    return found


def read(place: Place, name: str) -> list[list[Any]]:
    """Return what Spark reads."""
    place.spark.sql(f"REFRESH TABLE {_sql(name)}")
    return listed(place.spark.sql(f"SELECT * FROM {_sql(name)}"))


def scan(place: Place, root: str) -> list[int]:
    """Return the ids that Spark reads of a table that no catalog knows, by its folder."""
    return ids(place.spark.read.format("iceberg").load(root))


def scan_name(place: Place, name: str) -> list[int]:
    """Return the ids that Spark reads of a table of any columns, by its name."""
    place.spark.sql(f"REFRESH TABLE {_sql(name)}")
    return ids(place.spark.sql(f"SELECT * FROM {_sql(name)}"))


def place_of(place: Place, name: str) -> str:
    """Return the folder of a table, which need not be there: a table that is written there is one of the catalog."""
    return f"{place.folder_of('iceberg')}/db/{name}"


def append(place: Place, name: str, data_files: list[dict[str, Any]]) -> None:
    """Add Parquet files that are there, as Iceberg's add_files does: ``path``, ``size``, ``rows``, ``partition``."""
    table, iceberg = _load(place, name), place.jvm.org.apache.iceberg
    mapping = iceberg.mapping.NameMappingParser.toJson(iceberg.mapping.MappingUtil.create(table.schema()))
    table.updateProperties().set("schema.name-mapping.default", mapping).commit()
    commit = table.newAppend()
    for file in data_files:
        builder = iceberg.DataFiles.builder(table.spec()).withFormat("parquet").withPath(file["path"])
        builder = builder.withFileSizeInBytes(file["size"]).withRecordCount(file["rows"])
        if file["partition"]:
            builder = builder.withPartitionValues(list(file["partition"].values()))
        commit.appendFile(builder.build())
    commit.commit()


def change(place: Place, name: str, entries: list[dict[str, Any]]) -> list[str]:
    """Give data files the vectors of manifest entries, in place of all deletes that they have; return those files."""
    table, iceberg = _load(place, name), place.jvm.org.apache.iceberg
    tasks = {task.file().location(): task for task in _each(table.newScan().planFiles())}
    commit, replaced = table.newRowDelta().validateFromSnapshot(table.currentSnapshot().snapshotId()), {}
    for entry in entries:
        task = tasks[entry["referenced_data_file"]]
        builder = (
            iceberg.FileMetadata.deleteFileBuilder(task.spec())
            .ofPositionDeletes()
            .withFormat(iceberg.FileFormat.fromString(entry["file_format"]))
            .withPath(entry["file_path"])
            .withFileSizeInBytes(entry["file_size_in_bytes"])
            .withRecordCount(entry["record_count"])
            .withReferencedDataFile(entry["referenced_data_file"])
        )
        if "content_offset" in entry:
            builder = builder.withContentOffset(entry["content_offset"])
            builder = builder.withContentSizeInBytes(entry["content_size_in_bytes"])
        commit.addDeletes(builder.withPartition(task.file().partition()).build())
        for old in task.deletes():
            if (key := (old.location(), old.contentOffset())) not in replaced:
                commit.removeDeletes(old)
                replaced[key] = old.location()
    commit.commit()
    return list(replaced.values())


def equality(place: Place, name: str, path: str, size: int, count: int, ids: list[int]) -> None:
    """Add a file of equality deletes, for all data files that are there."""
    table, iceberg = _load(place, name), place.jvm.org.apache.iceberg
    fields = place.spark.sparkContext._gateway.new_array(place.jvm.int, len(ids))  # noqa: SLF001
    for i, number in enumerate(ids):
        fields[i] = number
    builder = iceberg.FileMetadata.deleteFileBuilder(iceberg.PartitionSpec.unpartitioned()).ofEqualityDeletes(fields)
    builder = builder.withFormat("parquet").withPath(path).withFileSizeInBytes(size).withRecordCount(count)
    table.newRowDelta().addDeletes(builder.build()).commit()


def _sql(name: str) -> str:
    return f"{CATALOG}.db.{name}"


def _load(place: Place, name: str) -> Any:
    spark = place.spark._jsparkSession  # noqa: SLF001
    return place.jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark, _sql(name))


def _each(iterable: Any) -> Iterator[Any]:
    """Iterate what Java calls iterable."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


COMMANDS = {
    "create": create,
    "upgrade": upgrade,
    "delete": delete,
    "insert": insert,
    "attach": attach,
    "run": run,
    "sql": sql,
    "summaries": summaries,
    "read": read,
    "scan": scan,
    "scan-name": scan_name,
    "place": place_of,
    "append": append,
    "change": change,
    "equality": equality,
}

"""Deletes that dvcodec committed to Iceberg tables: Spark reads them and writes on, and so does dvcodec after it."""

from __future__ import annotations

from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec.core.errors import CommitConflict
from dvcodec.tables import audit, enable, open_table, upgrade_deletes
from dvcodec.tables.iceberg.catalogs import from_catalog
from dvcodec.tables.iceberg.commit import committer
from dvcodec.tables.iceberg.snapshot import IcebergSnapshot
from interop.driver import JAVA, need
from interop.engines import Engines
from interop.test_commits import STOP, Predicate, first, left, positions, second
from interop.test_iceberg_rest import Server
from samples.rows import ids
from tables.iceberg.deleting import delete

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("spark")]

OURS = ("engine-name", "engine-version", "iceberg-version", "spark.app.id", "app-id", "app-name")
"""Parts of a summary that say who committed."""


def delete_where(root: str, gone: Predicate) -> None:
    """Delete rows by dvcodec, and check the table."""
    table = open_table(root)
    rows = {file.path: positions(file.location, gone) for file in table.snapshot().data_files}
    delete(committer(table), {path: some for path, some in rows.items() if some})
    check(root)


def check(root: str) -> None:
    """Hold the table against our own audit: nothing wrong, and no file that nothing references."""
    table = open_table(root)
    found = audit(table)
    assert found.ok, found.findings
    assert not {file.location for file in table.stored_files() if not hidden(file.location)} - table.referenced()


def hidden(location: str) -> bool:
    """Whether it is a file of checksums, as Hadoop writes them."""
    return location.rpartition("/")[2].startswith(".")


def lineage(engines: Engines, name: str) -> dict[int, tuple[int, int]]:
    statement = "SELECT id, _row_id, _last_updated_sequence_number FROM {table}"
    return {row[0]: (row[1], row[2]) for row in engines.ask("iceberg-sql", name=name, statement=statement)}


def pyiceberg_ids(root: str) -> list[int]:
    static = pytest.importorskip("pyiceberg.table").StaticTable
    found = static.from_metadata(open_table(root).metadata.source).scan().to_arrow()  # type: ignore[attr-defined]
    return sorted(found["id"].to_pylist())


def test_spark_goes_on_after_us(engines: Engines) -> None:
    """Upon vectors of Spark, and the same rows and counts as Spark's own DELETE on a twin."""
    roots = {}
    for name in ("mine", "twin"):
        roots[name] = engines.ask("iceberg-create", name=name, files=2, stop=STOP, partition="part")
        engines.ask("iceberg-delete", name=name, where="id % 11 = 3")
    root = roots["mine"]
    before = lineage(engines, "mine")
    delete_where(root, lambda number: 100 < number < 300)
    engines.ask("iceberg-delete", name="twin", where="id > 100 AND id < 300")
    assert engines.read("iceberg", name="mine") == engines.read("iceberg", name="twin") == left(second)
    assert pyiceberg_ids(root) == left(second)
    mine, twin = (engines.ask("iceberg-summaries", name=name)[-1] for name in ("mine", "twin"))
    differing = {key for key in mine.keys() | twin.keys() if mine.get(key) != twin.get(key)}
    assert differing <= {*OURS, "manifests-created", "manifests-kept", "manifests-replaced"}, (mine, twin)
    now = lineage(engines, "mine")
    assert now == {number: before[number] for number in now}

    engines.ask("iceberg-delete", name="mine", where="id < 20")
    check(root)
    engines.ask("iceberg-insert", name="mine", start=STOP, stop=STOP + 100)
    check(root)
    delete_where(root, lambda number: number % 7 == 2)  # all rows of a partition, and so whole files
    gone = [second, lambda number: number < 20, lambda number: number % 7 == 2]
    more = [number for number in range(STOP, STOP + 100) if number % 7 != 2]
    assert engines.read("iceberg", name="mine") == [*left(*gone), *more]
    assert pyiceberg_ids(root) == [*left(*gone), *more]

    source = "(SELECT id FROM {table} WHERE id % 13 = 5)"
    merge = f"MERGE INTO {{table}} t USING {source} s ON t.id = s.id WHEN MATCHED THEN DELETE"
    engines.ask("iceberg-sql", name="mine", statement=merge)
    gone.append(lambda number: number % 13 == 5)
    more = [number for number in more if number % 13 != 5]
    assert engines.read("iceberg", name="mine") == [*left(*gone), *more]
    check(root)
    delete_where(root, lambda number: number % 17 == 6)
    gone.append(lambda number: number % 17 == 6)
    more = [number for number in more if number % 17 != 6]
    assert engines.read("iceberg", name="mine") == [*left(*gone), *more]

    for number, procedure in enumerate(
        (
            "rewrite_manifests(table => 'db.mine')",
            "rewrite_position_delete_files(table => 'db.mine')",
            "rewrite_data_files(table => 'db.mine', options => map('rewrite-all', 'true'))",
        ),
        401,
    ):
        engines.ask("iceberg-sql", name="mine", statement=f"CALL {{catalog}}.system.{procedure}")
        check(root)
        assert engines.read("iceberg", name="mine") == [*left(*gone), *more]
        delete_where(root, partial(eq, number))
        gone.append(partial(eq, number))
    assert engines.read("iceberg", name="mine") == [*left(*gone), *more]
    snapshots = [info.id for info in open_table(root).snapshots()]
    travel = f"SELECT id FROM {{table}} VERSION AS OF {snapshots[1]} ORDER BY id"
    assert [row[0] for row in engines.ask("iceberg-sql", name="mine", statement=travel)] == left(first)
    late = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
    expire = f"CALL {{catalog}}.system.expire_snapshots(table => 'db.mine', {late})"
    engines.ask("iceberg-sql", name="mine", statement=expire)
    assert len(open_table(root).snapshots()) == 1
    assert engines.read("iceberg", name="mine") == [*left(*gone), *more]
    check(root)


def test_several_specs_and_columns(engines: Engines) -> None:
    """Partition fields and columns that came later; deletes of both specs in one commit."""
    root = engines.ask("iceberg-create", name="specs", files=1, stop=STOP, partition="part")
    for statement in (
        "ALTER TABLE {table} ADD PARTITION FIELD bucket(3, id)",
        "ALTER TABLE {table} ADD PARTITION FIELD month(day)",
        "ALTER TABLE {table} DROP PARTITION FIELD part",
    ):
        engines.ask("iceberg-sql", name="specs", statement=statement)
    engines.ask("iceberg-insert", name="specs", start=STOP, stop=STOP + 50)
    delete_where(root, lambda number: number % 5 == 1)
    kept = [number for number in range(STOP + 50) if number % 5 != 1]
    assert engines.read("iceberg", name="specs") == kept
    engines.ask("iceberg-delete", name="specs", where="id % 5 = 2")
    check(root)
    delete_where(root, lambda number: number % 5 == 3)
    kept = [number for number in kept if number % 5 not in (2, 3)]
    assert engines.read("iceberg", name="specs") == kept
    assert pyiceberg_ids(root) == kept
    engines.ask("iceberg-sql", name="specs", statement="UPDATE {table} SET name = 'updated' WHERE id % 7 = 4")
    check(root)
    delete_where(root, lambda number: number % 11 == 6)
    kept = [number for number in kept if number % 11 != 6]
    updated = "SELECT id FROM {table} WHERE name = 'updated' ORDER BY id"
    found = [row[0] for row in engines.ask("iceberg-sql", name="specs", statement=updated)]
    assert found == [number for number in kept if number % 7 == 4]
    every = engines.ask("iceberg-sql", name="specs", statement="SELECT id FROM {table} ORDER BY id")
    assert [row[0] for row in every] == pyiceberg_ids(root) == kept


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_a_table_of_version_2(engines: Engines, granularity: str) -> None:
    """Position deletes as Spark's own DELETE leaves them on a twin; Spark and pyiceberg read them and write on."""
    roots = {}
    mine, twin = (f"{name}_{granularity}" for name in ("mine", "twin"))
    for name in (mine, twin):
        roots[name] = engines.ask("iceberg-create", name=name, files=2, stop=STOP, partition="part", version=2)
        statement = f"ALTER TABLE {{table}} SET TBLPROPERTIES ('write.delete.granularity' = '{granularity}')"
        engines.ask("iceberg-sql", name=name, statement=statement)
    root = roots[mine]
    delete_where(root, first)
    engines.ask("iceberg-delete", name=twin, where="id % 11 = 3")
    assert engines.read("iceberg", name=mine) == engines.read("iceberg", name=twin) == left(first)
    ours, theirs = (engines.ask("iceberg-summaries", name=name)[-1] for name in (mine, twin))
    other = (*OURS, "added-files-size", "total-files-size", "manifests-created", "manifests-kept", "manifests-replaced")
    assert {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)} <= {*other}, (ours, theirs)
    ours, theirs = (sorted(map(repr, delete_files(engines, name, roots[name]))) for name in (mine, twin))
    assert ours == theirs

    engines.ask("iceberg-delete", name=mine, where="id > 100 AND id < 300")
    check(root)
    engines.ask("iceberg-insert", name=mine, start=STOP, stop=STOP + 100)
    delete_where(root, lambda number: number % 7 == 2)  # all rows of a partition, and so whole files
    source = "(SELECT id FROM {table} WHERE id % 13 = 5)"
    merge = f"MERGE INTO {{table}} t USING {source} s ON t.id = s.id WHEN MATCHED THEN DELETE"
    engines.ask("iceberg-sql", name=mine, statement=merge)
    gone = [second, lambda number: number % 7 == 2, lambda number: number % 13 == 5]
    more = [number for number in range(STOP, STOP + 100) if number % 7 != 2 and number % 13 != 5]
    for number, procedure in enumerate(
        (
            f"rewrite_manifests(table => 'db.{mine}')",
            f"rewrite_position_delete_files(table => 'db.{mine}', options => map('rewrite-all', 'true'))",
            f"rewrite_data_files(table => 'db.{mine}', options => map('rewrite-all', 'true'))",
        ),
        401,
    ):
        assert engines.read("iceberg", name=mine) == pyiceberg_ids(root) == [*left(*gone), *more]
        engines.ask("iceberg-sql", name=mine, statement=f"CALL {{catalog}}.system.{procedure}")
        check(root)
        delete_where(root, partial(eq, number))
        gone.append(partial(eq, number))
    assert engines.read("iceberg", name=mine) == pyiceberg_ids(root) == [*left(*gone), *more]
    snapshots = [info.id for info in open_table(root).snapshots()]
    travel = f"SELECT id FROM {{table}} VERSION AS OF {snapshots[1]} ORDER BY id"
    assert [row[0] for row in engines.ask("iceberg-sql", name=mine, statement=travel)] == left(first)


def delete_files(engines: Engines, name: str, root: str) -> list[list[Any]]:
    """What the metadata says of files of position deletes, but for names and sizes of files.

    Java leaves out `referenced_data_file` in version 2, in which it is optional.
    """
    columns = (
        "content, file_format, spec_id, partition, record_count, size(column_sizes) > 0, value_counts, "
        "null_value_counts, nan_value_counts, map_keys(lower_bounds), hex(lower_bounds[2147483545]), "
        "hex(upper_bounds[2147483545]), lower_bounds[2147483546] = upper_bounds[2147483546], split_offsets, "
        "equality_ids, sort_order_id"
    )
    return engines.ask("iceberg-sql", name=name, statement=f"SELECT {columns} FROM {{table}}.delete_files")  # type: ignore[no-any-return]


def test_equality_deletes_become_vectors(engines: Engines) -> None:
    """Of a table of version 2, which is upgraded here: Spark reads the same rows before and after, and goes on."""
    root = engines.ask("iceberg-create", name="equal", files=2, stop=STOP, version=2)
    engines.ask("iceberg-delete", name="equal", where="id % 11 = 3")
    for field, name, values in ((1, "id", [5, 6, 7, 9999]), (2, "part", ["100%"])):
        column = pa.array(values)
        schema = pa.schema([pa.field(name, column.type, metadata={"PARQUET:field_id": str(field)})])
        path = Path(root, "data", f"equality-{name}.parquet")
        pq.write_table(pa.table([column], schema=schema), path)
        file = {"path": str(path), "size": path.stat().st_size, "count": len(values), "ids": [field]}
        engines.ask("iceberg-equality", name="equal", **file)
    engines.ask("iceberg-insert", name="equal", start=STOP, stop=STOP + 50)
    before = engines.read("iceberg", name="equal")
    assert 5 not in before
    assert STOP + 2 in before
    assert ids(root) == before
    assert enable(open_table(root)).changes
    assert engines.read("iceberg", name="equal") == before
    done = upgrade_deletes(open_table(root))
    assert done.equality_deletes == 2
    assert engines.read("iceberg", name="equal") == pyiceberg_ids(root) == ids(root) == before
    statement = "SELECT content, count(*) FROM {table}.delete_files GROUP BY content"
    ((content, _),) = engines.ask("iceberg-sql", name="equal", statement=statement)
    assert content == 1
    engines.ask("iceberg-delete", name="equal", where="id < 20")
    delete_where(root, lambda number: number == 500)
    left_over = [number for number in before if number >= 20 and number != 500]
    assert engines.read("iceberg", name="equal") == pyiceberg_ids(root) == left_over


def test_spark_and_we_through_one_rest_catalog(engines: Engines, tmp_path: Path) -> None:
    rest = pytest.importorskip("pyiceberg.catalog.rest")
    need((JAVA / "target" / "classpath.txt").is_file(), "the program of interop/java")
    server = Server(tmp_path)
    try:
        engines.ask("iceberg-attach", uri=server.uri)
        catalog = rest.RestCatalog("rest", uri=server.uri)
        catalog.create_namespace("db")
        engines.ask(
            "iceberg-run",
            statement="CREATE TABLE rest.db.t (id BIGINT, part STRING, name STRING, price DOUBLE, day DATE) "
            "USING iceberg PARTITIONED BY (part) "
            "TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')",
        )
        engines.ask("iceberg-run", statement="INSERT INTO rest.db.t {rows}")
        engines.ask("iceberg-run", statement="DELETE FROM rest.db.t WHERE id % 11 = 3")
        writer = committer(from_catalog(catalog, "db.t"))

        def delete_ours(gone: Predicate, base: IcebergSnapshot) -> None:
            rows = {file.path: positions(file.location, gone) for file in base.data_files}
            delete(writer, {path: some for path, some in rows.items() if some}, base=base)

        def read() -> list[int]:
            found = engines.ask("iceberg-run", statement="SELECT id FROM rest.db.t ORDER BY id")
            return [row[0] for row in found]

        delete_ours(second, writer.current())
        assert read() == left(second)
        base = writer.current()
        engines.ask("iceberg-run", statement="DELETE FROM rest.db.t WHERE id < 20")
        with pytest.raises(CommitConflict):
            delete_ours(partial(eq, 500), base)
        delete_ours(partial(eq, 500), writer.current())
        assert read() == left(second, lambda number: number < 20, partial(eq, 500))
        assert audit(from_catalog(catalog, "db.t")).ok
    finally:
        server.close()

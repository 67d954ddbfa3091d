"""Calls the public functions and commands where packages are missing: ``python tests/without.py A,B FOLDER``.

Prints JSON: what each ended in, ``""`` if it did what it is for. The folder is one of `prepare`, and is written to.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent / "vectors" / "tables"
TABLES = ("iceberg", "delta", "checkpoint", "paimon", "lance", "scorch")


def prepare(folder: Path) -> None:
    """Write tables of each format, and files of keys and positions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dvcodec import RowSet, tables
    from samples.delta_table import build_delta, delta_of_files
    from samples.iceberg_table import VECTOR, Commit, build_iceberg
    from samples.paimon_table import PaimonFile, build_paimon

    build_iceberg(folder / "iceberg", VECTOR)
    for name in ("version 2", "older"):
        build_iceberg(folder / name, Commit(data={"a": 20}, deletes=[{"a": RowSet([1, 2])}]), version=2)
    tables.enable(tables.open_table(folder / "older"))
    build_delta(folder / "delta")
    delta_of_files(folder / "same files", folder / "iceberg", "a")
    rows = pa.table({"id": pa.array(range(20), pa.int64())})
    files = [[PaimonFile("a.parquet", rows, RowSet([1])), PaimonFile("b.orc", rows, RowSet([2]))]]
    build_paimon(folder / "paimon", [(0, "id", "BIGINT")], files)
    shutil.copytree(VECTORS / "delta" / "spark-4.4.0" / "checkpointed" / "table", folder / "checkpoint")
    shutil.copytree(VECTORS / "lance" / "pylance-14.0.2" / "life-stable", folder / "lance")
    shutil.copytree(VECTORS / "scorch" / "bleve-2.6.1" / "small-v17", folder / "scorch")
    pq.write_table(pa.table({"id": [3, 4], "key": [3, 4]}), folder / "keys.parquet")
    pq.write_table(pa.table({"file_path": ["a", "a"], "pos": [1, 2]}), folder / "positions.parquet")


Door = tuple[str, Callable[[], Any]]


def functions(folder: Path) -> Iterator[Door]:
    """What needs no table."""
    from dvcodec import RowSet, arrow, iceberg, zap
    from test_misuse import New, of_bytes, of_files

    (folder / "files").mkdir()
    for name, (function, given) in (of_bytes() | of_files(folder / "files")).items():
        values = {key: str(folder / name) if isinstance(value, New) else value for key, value in given.items()}
        yield name, partial(function, **values)
    rows = RowSet([1, 2])
    yield "RowSet.to_arrow", rows.to_arrow
    yield "RowSet.arrow_mask", partial(rows.arrow_mask, 0, 3)
    yield "arrow.row_mask", partial(arrow.row_mask, rows, start=0, length=3)
    segment = zap.Segment.open(folder / "files" / "zap")
    yield "zap.Segment.to_arrow", partial(segment.to_arrow, "terms")
    yield "iceberg.read_position_deletes", partial(iceberg.read_position_deletes, folder / "positions.parquet")
    yield "iceberg.write_position_deletes", partial(iceberg.write_position_deletes, folder / "deletes", {"a": rows})


def of_table(folder: Path, kind: str) -> dict[str, Callable[[], Any]]:
    from dvcodec import RowSet, report, tables

    def opened() -> Any:
        return tables.open_table(folder / kind)

    def snapshot() -> Any:
        return opened().snapshot()

    def new(door: str) -> str:
        return str(folder / f"{kind}-{door}")

    reading: dict[str, Callable[[], Any]] = {
        "open_table": opened,
        "Table.snapshot": snapshot,
        "Snapshot.data_files": lambda: snapshot().data_files,
        "Snapshot.read": lambda: [snapshot().read(vector) for vector in snapshot().vectors],
        "Snapshot.schema": lambda: snapshot().schema(),
        "Snapshot.rows": lambda: [[*snapshot().rows(file)] for file in snapshot().data_files],
        "audit": lambda: tables.audit(opened()),
        "scan": lambda: tables.totals(tables.scan(opened())),
        "history": lambda: tables.history(opened()),
        "live_batches": lambda: tables.live_batches(opened()),
        "export_live": lambda: tables.export_live(opened(), new("live")),
        "Table.to_reader": lambda: opened().to_reader().read_all(),
        "Table.to_polars": lambda: opened().to_polars(),
        "Table.to_pandas": lambda: opened().to_pandas(),
        "deleted_rows": lambda: tables.deleted_rows(opened(), snapshot().data_files[0].path),
        "repair_plan": lambda: tables.repair_plan(tables.audit(opened()), opened()),
        "report.write": lambda: report.write(new("report"), tables.audit(opened())),
    }
    if kind in ("checkpoint", "scorch"):
        return reading
    key = "key" if kind == "lance" else "id"
    deleting: dict[str, Callable[[], Any]] = {
        "enable": lambda: tables.enable(opened()),
        "delete by keys": lambda: tables.delete(opened(), keys=folder / "keys.parquet", on=[key]),
        "delete by SQL": lambda: tables.delete(opened(), f"{key} = 6"),
        "delete by positions": lambda: tables.delete(opened(), positions={snapshot().data_files[0].path: RowSet([5])}),
    }
    if kind == "lance":
        return reading | deleting
    target: Any = "delta" if kind == "iceberg" else "iceberg"
    converting: dict[str, Callable[[], Any]] = {
        "convert_table": lambda: tables.convert_table(opened(), target, new("converted")),
        "commit_repair": lambda: tables.commit_repair(tables.repair_plan(tables.audit(opened()), opened()), opened()),
    }
    if kind == "iceberg":
        converting["copy_deletes"] = lambda: tables.copy_deletes(opened(), tables.open_table(folder / "same files"))
        converting["compact_deletes"] = lambda: tables.compact_deletes(tables.open_table(folder / "version 2"))
        converting["upgrade_deletes"] = lambda: tables.upgrade_deletes(tables.open_table(folder / "older"))
    return reading | deleting | converting


def command(*arguments: object) -> Callable[[], None]:
    def called() -> None:
        from cli_runner import run

        done = run(*map(str, arguments))
        if done.code > 1:
            raise SystemExit(done.err)

    return called


def commands(folder: Path) -> Iterator[Door]:
    table = folder / "delta"
    called: dict[str, tuple[object, ...]] = {
        "inspect": ("inspect", folder / "files" / "puffin"),
        "demo": ("demo", "--folder", folder / "demo"),
        "zap terms": ("zap", "terms", folder / "files" / "zap", "f"),
        "inspect of a manifest": ("inspect", *(folder / "paimon" / "manifest").glob("index-manifest-*")),
        "audit": ("audit", table),
        "repair": ("repair", table),
        "report": ("report", table, "-o", folder / "report.html"),
        "export-live": ("export-live", table, "-o", folder / "live.parquet"),
        "delete": ("delete", table, "--where", "id = 5", "--dry-run"),
        "compact-deletes": ("compact-deletes", folder / "version 2", "--dry-run"),
    }
    yield from ((f"dvcodec {name}", command(*arguments)) for name, arguments in called.items())


def remote(packages: Collection[str]) -> Iterator[Door]:
    """What would reach for a network or start Spark, if the package were there."""
    from dvcodec.io import open_sink, open_source
    from dvcodec.tables import open_table

    if {"obstore", "boto3"} & {*packages}:
        options = {"profile": "p1"} if "boto3" in packages else None
        yield "s3: read", lambda: open_source("s3://b/k", storage_options=options).__enter__()
        yield "s3: write", lambda: open_sink("s3://b/k", storage_options=options).__enter__()
        yield "s3: open_table", lambda: open_table("s3://b/k", storage_options=options)
    if "fsspec" in packages:
        yield "hdfs: read", lambda: open_source("hdfs://b/k").__enter__()
        yield "hdfs: write", lambda: open_sink("hdfs://b/k").__enter__()
        yield "hdfs: open_table", lambda: open_table("hdfs://b/k")
    if "pyiceberg" in packages:
        yield "catalog: open_table", lambda: open_table("db.t", catalog="c")
    if {"pyspark", "pandas", "pyarrow"} & {*packages}:
        yield "spark.jobs", lambda: import_module("dvcodec.spark").jobs
        yield "spark.functions", lambda: import_module("dvcodec.spark.functions")
        yield "dvcodec spark-demo", command("spark-demo")


def ended(function: Callable[[], Any]) -> str:
    """Call a function and use up what it returns."""
    try:
        found = function()
        if isinstance(found, AbstractContextManager):
            with found:
                return ""
        if isinstance(found, Iterator):
            list(found)
    except BaseException as error:  # noqa: BLE001  (which is what is looked for)
        return f"{type(error).__name__}: {error}"
    return ""


class Blocked:
    """A finder that does not see some packages."""

    def __init__(self, finder: Any, packages: Collection[str]) -> None:
        self._finder = finder
        self._packages = packages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in self._packages else self._finder.find_spec(name, path, target)


def main(packages: list[str], folder: Path) -> None:
    sys.meta_path[:] = [Blocked(finder, packages) for finder in sys.meta_path]
    for package in packages:  # for the processes that decode ORC and Lance, which are given `sys.path`
        (folder / f"{package}.py").write_text(f"raise ModuleNotFoundError({package!r}, name={package!r})\n")
    sys.path.insert(0, str(folder))
    (folder / "aws").write_text("[p1]\nsso_session = x\n")
    os.environ.update(dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), str(folder / "aws")))
    doors = [*functions(folder), *commands(folder), *remote(packages)]
    for kind in TABLES:
        doors += [(f"{kind}: {name}", function) for name, function in of_table(folder, kind).items()]
    print(json.dumps({name: ended(function) for name, function in doors}), file=sys.__stdout__)


if __name__ == "__main__":
    main(sys.argv[1].split(","), Path(sys.argv[2]))

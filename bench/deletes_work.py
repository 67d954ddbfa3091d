"""The process of one contender of bench/deletes.py.

Reads lines of JSON, ``{"delete": FOLDER}``, and answers each with the seconds it took and the number of rows
deleted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

KEYS = 10_000
CUSTOMERS = 200_000
PREDICATE_CUSTOMERS = (10_000, 2000)
"""The shares of rows that the predicates delete: a twentieth and a hundredth."""
SPARK_CUSTOMERS = (2000, 40_000)
"""The shares of rows that the predicates delete in Spark: a hundredth and a fifth."""
Step: TypeAlias = Callable[[], object]
Prepared: TypeAlias = "tuple[Step, Callable[[], int]]"
"""What is timed, and the number of rows deleted."""


def orders(start: int, stop: int, total: int) -> pa.Table:
    """Synthetic orders in 13 columns; ids are a permutation of ``range(total)``, so they skip no file."""
    import pyarrow as pa
    import pyarrow.compute as pc

    chance, count = np.random.default_rng(start), stop - start
    ids = pa.array(np.random.default_rng(7).permutation(total)[start:stop])
    moments = np.datetime64("2026-01-01", "us") + chance.integers(0, 180 * 86400 * 10**6, count)

    def some(*words: str) -> Any:
        return pa.array(np.array(words)[chance.integers(0, len(words), count)])

    return pa.table(
        {
            "id": ids,
            "customer": chance.integers(0, CUSTOMERS, count),
            "ts": pa.array(moments),
            "day": pa.array(moments.astype("datetime64[D]")),
            "status": some("open", "paid", "sent", "done", "void"),
            "country": some("DE", "FR", "PL", "US", "JP", "BR", "IN"),
            "note": pc.binary_join_element_wise(
                "order", ids.cast(pa.string()), pa.array(chance.integers(0, 10**9, count)).cast(pa.string()), " "
            ),
            "price": pa.array(chance.integers(1, 10**4, count)).cast(pa.decimal128(21, 2)),
            "weight": chance.random(count),
            "discount": chance.random(count, np.float32),
            "items": chance.integers(1, 50, count).astype(np.int32),
            "gift": pa.array(chance.random(count) < 0.1),
            "sku": pa.array(chance.integers(0, 50_000, count)).cast(pa.string()),
        }
    )


def some_keys(total: int) -> Any:
    """Return `KEYS` random ids."""
    return np.random.default_rng(3).permutation(total)[:KEYS].astype(np.int64)


def catalog(folder: Path) -> Any:
    """The pyiceberg catalog in a folder with its table."""
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")


def make_iceberg(folder: Path, parts: list[pa.Table], version: int, files: int = 1) -> None:
    """Create a table with one or more data files for each part. pyiceberg writes version 2, which is upgraded."""
    from dvcodec.tables import enable
    from dvcodec.tables.iceberg.catalogs import from_catalog

    found = catalog(folder)
    found.create_namespace("db")
    properties = {"format-version": "2"}
    if files > 1:
        properties["write.target-file-size-bytes"] = str(parts[0].nbytes // files + 1)
    table = found.create_table("db.t", schema=parts[0].schema, properties=properties)
    for part in parts:
        table.append(part)
    if version == 3:
        enable(from_catalog(found, "db.t"))


def ours(folder: Path, open_: Callable[[], Any] | None = None, **question: Any) -> Prepared:
    from dvcodec.tables import open_table

    found: list[int] = []

    def run() -> None:
        table = open_table(folder) if open_ is None else open_()
        found.append(table.delete(**question).rows)

    return run, lambda: found[-1]


def our_keys(folder: Path, total: int) -> Prepared:
    import pyarrow as pa

    return ours(folder, keys=pa.table({"id": some_keys(total)}), on=["id"])


def our_iceberg(folder: Path, total: int) -> Prepared:
    import pyarrow as pa

    from dvcodec.tables.iceberg.catalogs import from_catalog

    found = catalog(folder)
    return ours(folder, lambda: from_catalog(found, "db.t"), keys=pa.table({"id": some_keys(total)}), on=["id"])


def our_one(folder: Path, total: int) -> Prepared:
    import pyarrow.compute as pc

    from dvcodec.tables.iceberg.catalogs import from_catalog

    found = catalog(folder)
    return ours(folder, lambda: from_catalog(found, "db.t"), where=pc.field("id") == total // 3)


def our_predicate(folder: Path, _: int, customers: int) -> Prepared:
    import pyarrow.compute as pc

    return ours(folder, where=pc.field("customer") < customers)


def our_spark(folder: Path, _: int, customers: int = SPARK_CUSTOMERS[0], read_by: Any = "auto") -> Prepared:
    """In a session that stays open, as the peer's does."""
    from dvcodec.spark import jobs
    from spark_meter import session

    spark, found = session(), []

    def run() -> None:
        found.append(jobs.delete(spark, folder, f"customer < {customers}", read_by=read_by).rows)

    return run, lambda: found[-1]


def deltalake_delete(folder: Path, total: int) -> Prepared:
    import deltalake

    text = f"id IN ({','.join(map(str, some_keys(total).tolist()))})"
    found: list[dict[str, int]] = []
    return (
        lambda: found.append(deltalake.DeltaTable(folder).delete(text)),
        lambda: found[-1]["num_deleted_rows"],
    )


def deltalake_merge(folder: Path, total: int) -> Prepared:
    import deltalake
    import pyarrow as pa

    keys = pa.table({"id": some_keys(total)})
    found: list[dict[str, int]] = []

    def run() -> None:
        merge = deltalake.DeltaTable(folder).merge(keys, "t.id = s.id", source_alias="s", target_alias="t")
        found.append(merge.when_matched_delete().execute())

    return run, lambda: found[-1]["num_target_rows_deleted"]


def pyiceberg_delete(folder: Path, total: int) -> Prepared:
    from pyiceberg import expressions

    is_in: Any = expressions.In  # mypy takes its fields for the arguments
    return pyiceberg(folder, total, is_in("id", set(some_keys(total).tolist())))


def pyiceberg_one(folder: Path, total: int) -> Prepared:
    from pyiceberg import expressions

    equals: Any = expressions.EqualTo
    return pyiceberg(folder, total, equals("id", total // 3))


def pyiceberg(folder: Path, total: int, where: Any) -> Prepared:
    found = catalog(folder)

    def gone() -> int:
        return total - int(found.load_table("db.t").current_snapshot().summary["total-records"])

    return lambda: found.load_table("db.t").delete(where), gone


def pylance_delete(folder: Path, total: int) -> Prepared:
    import lance

    text = f"id IN ({','.join(map(str, some_keys(total).tolist()))})"
    return lambda: lance.dataset(folder).delete(text), lambda: total - lance.dataset(folder).count_rows()


CONTENDERS: dict[str, Callable[[Path, int], Prepared]] = {
    "dvcodec Delta": our_keys,
    "dvcodec Iceberg": our_iceberg,
    "dvcodec Paimon": lambda folder, total: our_keys(folder / "db.db" / "t", total),
    "dvcodec Lance": our_keys,
    "dvcodec one": our_one,
    **{f"dvcodec, {one} customers": partial(our_predicate, customers=one) for one in PREDICATE_CUSTOMERS},
    **{
        f"jobs.delete, {customers} customers, {read_by}": partial(our_spark, customers=customers, read_by=read_by)
        for customers in SPARK_CUSTOMERS
        for read_by in ("auto", "workers")
    },
    "deltalake delete": deltalake_delete,
    "deltalake merge": deltalake_merge,
    "pyiceberg delete": pyiceberg_delete,
    "pyiceberg one": pyiceberg_one,
    "pylance delete": pylance_delete,
}


def main(name: str, total: int) -> None:
    for text in sys.stdin:
        run, gone = CONTENDERS[name](Path(json.loads(text)["delete"]), total)
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "rows": gone()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)

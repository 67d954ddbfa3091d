"""`dvcodec demo`: delete rows of a Delta and an Iceberg table, their own libraries read them back, repair damage."""

from __future__ import annotations

import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
import typer

from dvcodec import iceberg, tables
from dvcodec.cli.render import Table, density_strip, say
from dvcodec.core.errors import UsageError
from dvcodec.core.extras import pa, pc, require_extra
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import bytes_text, number, share_text
from dvcodec.io import open_sink
from dvcodec.io.target import local_path
from dvcodec.report import write
from dvcodec.tables import enable, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.repair import commit_repair, repair_plan
from dvcodec.tables.snapshots.scanning import scan

FILES, ROWS = 3, 400_000
CUSTOMERS = (7, 77, 512, 900)
Folder = Annotated[str, typer.Option("--folder", help="Where to put the files.")]


def demo(folder: Folder = "demo-out") -> None:
    """Demonstrate on a Delta and an Iceberg table: delete rows, read them back, repair a bit, report."""
    run(local_folder(folder))


def local_folder(folder: str) -> Path:
    """Return the folder of a demonstration.

    Raises:
        UsageError: it is a URL.
    """
    local = local_path(folder)
    if local is None:
        raise UsageError(f"--folder {folder}: expected a local folder, found a URL")
    return local


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print what was done, and how long it took."""
    start = time.perf_counter()
    yield
    say(("*", "green"), f" {what}  ", (f"{time.perf_counter() - start:.2f} s", "dim"))


def expect(holds: bool, what: str) -> None:
    """Check a claim.

    Raises:
        AssertionError: it does not hold.
    """
    if not holds:
        raise AssertionError(f"the demo's claim does not hold: {what}")


def show_vectors(vectors: Mapping[str, RowSet], row_count: int) -> None:
    """Show the deleted rows of data files, of `row_count` rows each."""
    shown = Table("data file", "deleted", "share", "encoded", "where", right=("deleted", "share", "encoded"))
    for path, rows in vectors.items():
        size = bytes_text(len(iceberg.encode(rows)))
        share = share_text(rows.cardinality / row_count)
        shown.add(path, number(rows.cardinality), share, size, density_strip(rows, row_count))
    shown.show()


def new_folder(folder: Path) -> None:
    """Make the folder of a demonstration.

    Raises:
        UsageError: it has files.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"{folder}: it is there already: remove it, or name another by --folder")
    folder.mkdir(parents=True, exist_ok=True)


def run(folder: Path) -> None:
    """Run the demo; every claim it prints is checked against the data.

    Raises:
        UsageError: the folder has files.
        MissingExtra: deltalake, pyiceberg or pyarrow is not installed.
    """
    require_extra("pyarrow.parquet", "arrow")
    deltalake = require_extra("deltalake", "demo")
    require_extra("pyiceberg.catalog.sql", "demo")
    require_extra("pyarrow", "arrow")
    new_folder(folder)
    parts = [_orders(i) for i in range(FILES)]
    place = str(folder / "delta")

    with step(f"deltalake wrote a table of {number(FILES * ROWS)} orders in {FILES} files"):
        for part in parts:
            deltalake.write_deltalake(place, part, mode="append")
        enable(open_table(place))
    table = open_table(place)
    with step(f"dvcodec delete {place} --where 'customer IN {CUSTOMERS}'"):
        where = pc.field("customer").isin(CUSTOMERS)
        done = table.delete(where)
    say(f"    snapshot {done.snapshot}: {number(done.rows)} rows of {done.files} files; no data file was rewritten")
    with step("deleted the last week of the year, and 1,000 orders by their keys"):
        late = pc.field("day") >= 358
        table.delete(late)
        keys = pa.table({"order": np.random.default_rng(9).choice(FILES * ROWS, 1000, replace=False)})
        table.delete(keys=keys, on=["order"])
    _show(table)
    live = pa.concat_tables(parts).filter(~(where | late)).join(keys, "order", join_type="left anti")
    with step("deltalake reads the table: the live rows, and no other"):
        expect(_same_orders(_by_deltalake(place), live), "deltalake's rows are those not deleted")

    with step("pyiceberg wrote the same orders; dvcodec deleted a country, through the catalog"):
        rest = pa.concat_tables(parts).filter(pc.field("country") != "ES")
        expect(_same_orders(_iceberg(folder, parts), rest), "pyiceberg's rows are those not deleted")

    expect(audit(table).ok, "the audit of the table has no findings")
    vector = next(one for one in table.snapshot().vectors if one.offset is not None)
    file = Path(vector.location)
    with step(f"flipped one bit of {file.name}: dvcodec audit {place}"):
        data = bytearray(file.read_bytes())
        data[(vector.offset or 0) + (vector.size or 0) // 2] ^= 0x10
        with open_sink(file) as sink:
            sink.write(data)
        damaged = audit(table)
        expect([one.check for one in damaged.findings] == ["crc"], "the audit finds the checksum that does not match")
    for finding in damaged.findings:
        say("    ", ("ERROR", "bold red"), " ", (finding.check, "bold"), f" {finding.message}")
    with step(f"dvcodec repair {place} --commit"):
        repaired = commit_repair(repair_plan(damaged, table), table)
        table = open_table(place)
        expect(repaired.committed and audit(table).ok, "the repaired table has no errors")
        expect(_same_orders(_by_deltalake(place), live), "deltalake's rows are those not deleted, after the repair")
    for action in repaired.actions:
        say("    ", ("done", "bold green"), f" {action.action}: committed{action.message.removeprefix('commit')}")
    with step("wrote a report of the table"):
        write(folder / "report.html", audit(table))
    print()
    say(f"A picture of the table: {(folder / 'report.html').resolve().as_uri()}")
    say(f"Next: {program()} table {quote(place)}")


def program() -> str:
    """Return what the shell takes for this program: its name, or if it is not found by that, its path."""
    called = Path(sys.argv[0])
    if called.stem != "dvcodec":
        return f"{quote(sys.executable)} -m dvcodec"
    return "dvcodec" if called.name == sys.argv[0] or shutil.which("dvcodec") == sys.argv[0] else quote(sys.argv[0])


def _by_deltalake(place: str) -> Any:
    """Return the orders that deltalake reads."""
    deltalake = require_extra("deltalake", "demo")
    query = deltalake.QueryBuilder().register("orders", deltalake.DeltaTable(place))
    return pa.table(query.execute('SELECT "order" FROM orders').read_all())


def _orders(i: int) -> Any:
    random = np.random.default_rng(i)
    countries = np.array(["DE", "FR", "IT", "ES", "PL", "NL"])
    return pa.table(
        {
            "order": np.arange(i * ROWS, (i + 1) * ROWS),
            "customer": random.integers(0, 1000, ROWS),
            "country": pa.array(countries[random.integers(0, len(countries), ROWS)]),
            "day": np.sort(random.integers(0, 365, ROWS)),
            "amount": random.gamma(2.0, 40.0, ROWS).round(2),
        }
    )


def _iceberg(folder: Path, parts: list[Any]) -> Any:
    """Write an Iceberg table with pyiceberg, delete from it, and return the orders that pyiceberg reads."""
    from pyiceberg.catalog.sql import SqlCatalog

    from dvcodec.tables.iceberg.catalogs import from_catalog

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pyiceberg, about names of settings
        home = folder.resolve()
        catalog = SqlCatalog("demo", uri=f"sqlite:///{home / 'catalog.db'}", warehouse=(home / "iceberg").as_uri())
        catalog.create_namespace("shop")
        made = catalog.create_table("shop.orders", parts[0].schema, properties={"format-version": "2"})
        for part in parts:
            made.append(part)
        enable(from_catalog(catalog, "shop.orders"))  # version 3, which has deletion vectors
        from_catalog(catalog, "shop.orders").delete(pc.field("country") == "ES")
        found = catalog.load_table("shop.orders").scan(selected_fields=("order",)).to_arrow()
        catalog.close()
    return found


def _same_orders(some: Any, others: Any) -> bool:
    first, second = (np.sort(one["order"].to_numpy()) for one in (some, others))
    return np.array_equal(first, second)


def _show(table: tables.Table) -> None:
    files = scan(table, keep_rows=True).files
    show_vectors({Path(one.data_file.path).name[-24:]: one.rows or RowSet() for one in files}, ROWS)

"""Vectors that dvcodec wrote, or said in another format: committed by the engines' libraries, read by the engines.

`make interop-spark` gets the engines; interop/spark/commit_tables.py drives them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dvcodec import RowSet
from dvcodec.tables import open_table
from dvcodec.tables.convert import Conversion, Speller, Target, convert_table, partition_values
from interop.engines import Engines

# A JVM is large: none beside those of the other tests with Spark.
pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("spark")]

STOP = 700
"""Rows of a table: ids from 0 on; see `rows` in interop/spark/common.py."""

Predicate = Callable[[int], bool]


def first(number: int) -> bool:
    return number % 11 == 3


def second(number: int) -> bool:
    return first(number) or 100 < number < 300


def left(*deleted: Predicate) -> list[int]:
    return [number for number in range(STOP) if not any(gone(number) for gone in deleted)]


def positions(location: str, gone: Predicate) -> RowSet:
    ids = pq.read_table(location, columns=["id"], partitioning=None)["id"].to_pylist()
    return RowSet([position for position, number in enumerate(ids) if gone(number)])


# ---------------------------------------------------------------------- vectors of one format, said in another


def converted(root: str, to: Target, folder: Path, **options: Any) -> tuple[Conversion, list[dict[str, Any]]]:
    done = convert_table(open_table(root), to, str(folder), **options)
    return done, [json.loads(line) for line in Path(done.entries).read_text().splitlines()]


def as_iceberg(engines: Engines, root: str, name: str, partition: str | None, **options: Any) -> Conversion:
    """Make an Iceberg table over the data files of another, with the same deletes."""
    done, lines = converted(root, "iceberg", engines.folder / name, **options)
    engines.ask("iceberg-create", name=name, files=0, stop=0, partition=partition)
    files = [
        {"path": file.location, "size": file.size, "rows": file.physical_rows, "partition": partition_values(file)}
        for file in open_table(root).snapshot().data_files
    ]
    engines.ask("iceberg-append", name=name, data_files=files)
    assert engines.read("iceberg", name=name) == left()
    engines.ask("iceberg-change", name=name, entries=[line["manifest_entry"] for line in lines])
    return done


def as_delta(engines: Engines, root: str, folder: str, partition: str | None, **options: Any) -> Conversion:
    """Make a Delta table of the data files of another, beside its metadata, with the same deletes."""
    done, lines = converted(root, "delta", engines.folder / folder, **options)
    table = open_table(root)
    speller = Speller("delta", table.kind, root, done.snapshot)
    adds = [
        {
            "path": speller.data_file(file),
            "partitionValues": partition_values(file),
            "size": file.size,
            "modificationTime": 0,
            "dataChange": True,
        }
        for file in table.snapshot().data_files
    ]
    engines.ask("delta-create", root=root, files=0, stop=0, partition=partition)
    engines.ask("delta-change", root=root, actions=[{"add": add} for add in adds])
    assert engines.read("delta", root=root) == left()
    assert {line["remove"]["path"] for line in lines} <= {add["path"] for add in adds}
    changes = [{kind: line[kind]} for line in lines for kind in ("remove", "add")]
    engines.ask("delta-change", root=root, actions=changes)
    return done


@pytest.fixture(scope="module")
def delta_root(engines: Engines) -> str:
    """A table that Delta deleted from, twice."""
    root: str = engines.ask("delta-create", root=f"{engines.folder}/theirs #1", files=1, stop=STOP, partition="part")
    for where in ("id % 11 = 3", "id > 100 AND id < 300 AND id % 2 = 0"):
        engines.ask("delta-delete", root=root, where=where)
    return root


def of_delta(number: int) -> bool:
    return first(number) or (100 < number < 300 and number % 2 == 0)


@pytest.mark.parametrize("in_place", [True, pytest.param(False, marks=pytest.mark.long)])
def test_iceberg_reads_deltas_vectors(engines: Engines, delta_root: str, in_place: bool) -> None:
    """Also where they are, in files that are no Puffin; and Iceberg's own DELETE goes on from there."""
    name = f"of_delta_{in_place}".lower()
    done = as_iceberg(engines, delta_root, name, "part", reference_in_place=in_place)
    assert {vector.how.value for vector in done.vectors} == {"in-place" if in_place else "copied"}
    assert engines.read("iceberg", name=name) == engines.read("delta", root=delta_root) == left(of_delta)
    engines.ask("iceberg-delete", name=name, where="id < 20")
    assert engines.read("iceberg", name=name) == left(of_delta, lambda number: number < 20)


@pytest.mark.parametrize("in_place", [True, pytest.param(False, marks=pytest.mark.long)])
def test_delta_reads_icebergs_vectors(engines: Engines, in_place: bool) -> None:
    """Also where they are, in Puffin files; and Delta's own DELETE goes on from there."""
    name = f"to_delta_{in_place}".lower()
    root = engines.ask("iceberg-create", name=name, files=1, stop=STOP, partition="part")
    engines.ask("iceberg-delete", name=name, where="id % 11 = 3")
    engines.ask("iceberg-delete", name=name, where="id > 100 AND id < 300")
    done = as_delta(engines, root, name, "part", reference_in_place=in_place)
    assert {vector.how.value for vector in done.vectors} == {"in-place" if in_place else "copied"}
    assert engines.read("delta", root=root) == engines.read("iceberg", name=name) == left(second)
    engines.ask("delta-delete", root=root, where="id < 20")
    assert engines.read("delta", root=root) == left(second, lambda number: number < 20)


def test_iceberg_reads_vectors_in_place_of_position_deletes(engines: Engines) -> None:
    """Version 2 becomes version 3; the delete files are taken out by the commit that puts the vectors in."""
    root = engines.ask("iceberg-create", name="old", files=1, stop=STOP, partition="part", version=2)
    engines.ask("iceberg-delete", name="old", where="id % 11 = 3")
    engines.ask("iceberg-delete", name="old", where="id > 100 AND id < 300")
    before = open_table(root).snapshot()
    assert {vector.format for vector in before.vectors} == {"position-deletes"}
    done, lines = converted(root, "iceberg", engines.folder / "old")
    assert {vector.how.value for vector in done.vectors} == {"encoded"}
    engines.ask("iceberg-upgrade", name="old")
    replaced = engines.ask("iceberg-change", name="old", entries=[line["manifest_entry"] for line in lines])
    assert set(replaced) == {vector.path for vector in before.vectors}
    assert engines.read("iceberg", name="old") == left(second)
    assert {vector.format for vector in open_table(root).snapshot().vectors} == {"iceberg"}


@pytest.mark.parametrize("bits", [32, pytest.param(64, marks=pytest.mark.long)])
def test_paimons_vectors_for_delta_and_in_the_other_width(engines: Engines, bits: int) -> None:
    root = engines.ask("paimon-create", root=f"{engines.folder}/theirs {bits}", stop=STOP, bits=bits)
    for where in ("id % 11 = 3", "id > 100 AND id < 300"):
        engines.ask("paimon-delete", root=root, where=where)
    other: Target = "paimon64" if bits == 32 else "paimon32"
    done, lines = converted(root, other, engines.folder / other)
    for path in done.files:
        shutil.copy(path, f"{root}/index")
    assert engines.ask("paimon-change", root=root, entries=lines)
    assert engines.read("paimon", root=root) == left(second)
    assert {vector.format for vector in open_table(root).snapshot().vectors} == {other}

    done = as_delta(engines, root, f"of_paimon{bits}", None, reference_in_place=True)
    assert {vector.how.value for vector in done.vectors} == {"in-place" if other == "paimon64" else "encoded"}
    assert engines.read("delta", root=root) == left(second)

"""Data sets of the Spark benchmarks; created once and kept in a folder."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec import RowSet, iceberg
from spark_meter import MILLION


@contextmanager
def kept(folder: Path) -> Iterator[Path | None]:
    """Yield a folder to fill, which is renamed when it is complete; None if it already exists."""
    if folder.exists():
        yield None
        return
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    yield partial
    partial.rename(folder)


def _data_file(i: int) -> str:
    """A path like those of Iceberg's writers: 128 characters, with a random part."""
    name = f"{i % 100:05d}-{i:07d}-{uuid.uuid5(uuid.NAMESPACE_URL, str(i))}-00001.parquet"
    return f"s3://company-lake/warehouse/sales.db/orders/data/day=2026-11-{i % 28 + 1:02d}/{name}"


def positions(data: Path, order: str, count: int, files: int) -> str:
    """Parquet of (file_path, pos), 5 million rows per file; return its folder.

    Data files have a million rows. ``random``: all mixed; ``scan``: in file order, 2 % of the rows; ``skewed``: mixed,
    80 % in one data file of 40 million rows.
    """
    folder = data / f"positions-{order}-{count}-{files}"
    with kept(folder) as made:
        if made is None:
            return str(folder)
        chance = np.random.default_rng(0)
        names = pa.array([_data_file(i) for i in range(files)])
        step = 5 * MILLION
        for begin in range(0, count, step):
            size = min(step, count - begin)
            code = chance.integers(0, files, size)
            pos = chance.integers(0, MILLION, size)
            if order == "scan":
                nth = np.arange(begin, begin + size)
                code, pos = nth * files // count, (nth % (count // files)) * 50 + chance.integers(0, 50, size)
            elif order == "skewed":
                code = np.where(chance.random(size) < 0.8, 0, code)
                pos = np.where(code == 0, chance.integers(0, 40 * MILLION, size), pos)
            # Strings, as Spark and Iceberg write them: pyarrow stores a dictionary array with all its values.
            table = pa.table({"file_path": names.take(pa.array(code)), "pos": pos})
            pq.write_table(table, made / f"{begin // step:04d}.parquet", row_group_size=MILLION)
    return str(folder)


def containers(data: Path, vectors: int, rows: int) -> str:
    """Puffin files of 25,000 vectors with a few random rows each; return their folder."""
    folder = data / f"puffin-{vectors}-{rows}"
    with kept(folder) as made:
        if made is None:
            return str(folder)
        chance = np.random.default_rng(0)
        for first in range(0, vectors, 25_000):
            numbers = range(first, min(first + 25_000, vectors))
            sets = {f"s3://b/t/data/{i:07d}.parquet": RowSet(chance.integers(0, MILLION, rows)) for i in numbers}
            iceberg.write_deletion_vectors(made / f"{first:07d}.puffin", sets)
    return str(folder)


def table_of_rows(data: Path, rows: int) -> str:
    """A Parquet table of five columns in files of a million rows; return its folder."""
    folder = data / f"table-{rows}"
    with kept(folder) as made:
        if made is not None:
            chance = np.random.default_rng(0)
            for i in range(rows // MILLION):
                table = pa.table(
                    {
                        "id": np.arange(i * MILLION, (i + 1) * MILLION),
                        "price": chance.random(MILLION),
                        "amount": chance.integers(0, 1000, MILLION).astype(np.int32),
                        "word": pa.array([f"word {k}" for k in range(5000)]).take(
                            pa.array(chance.integers(0, 5000, MILLION))
                        ),
                        "flag": chance.random(MILLION) < 0.5,
                    }
                )
                pq.write_table(table, made / f"{i:04d}.parquet")
    return str(folder)


def flagged(data: Path, rows: int, files: int, columns: int = 1) -> str:
    """A Parquet table with a random boolean ``flag``, true in half of the rows, and columns of doubles."""
    folder = data / f"flagged-{rows}-{files}-{columns}"
    with kept(folder) as made:
        if made is not None:
            chance = np.random.default_rng(0)
            each = rows // files
            for i in range(files):
                numbers = {f"c{k}": chance.random(each) for k in range(1, columns)}
                pq.write_table(pa.table({"flag": chance.random(each) < 0.5} | numbers), made / f"{i:05d}.parquet")
    return str(folder)

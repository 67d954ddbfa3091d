"""pyarrow ends the process on some damaged footers: nothing here asks it what such a footer says of its columns.

Each file is read in a process of its own, which must live, and end in a value or in a `DecodeError`.
"""

from __future__ import annotations

import copy
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dvcodec import NotCanonical
from samples.parquet_footer import CRYPTO, META_DATA, SIZE_STATISTICS, STATISTICS, altered

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

Columns = list[dict[int, tuple[int, Any]]]


def more(columns: Columns) -> None:
    columns.append(copy.deepcopy(columns[0]))


def short_statistics(columns: Columns) -> None:
    statistics = columns[0][META_DATA][1][STATISTICS][1]
    for number in (1, 2, 5, 6):
        if number in statistics:
            statistics[number] = (8, b"\1")


def histograms(columns: Columns) -> None:
    columns[0][META_DATA][1][SIZE_STATISTICS] = 12, {2: (9, (6, [2, 2, 2]))}


def unknown_type(columns: Columns) -> None:
    columns[0][META_DATA][1][1] = (5, 2 * 99)


def encrypted(columns: Columns) -> None:
    columns[0][CRYPTO] = (12, {2: (12, {1: (9, (8, [b"a"]))})})


DAMAGE: dict[str, Callable[[Columns], object]] = {
    "a column more than the schema": more,
    "a column fewer": lambda columns: columns.pop(),
    "no sizes": lambda columns: columns[0].pop(META_DATA),
    "statistics of one byte": short_statistics,
    "histograms of another length": histograms,
    "an unknown type": unknown_type,
    "an encrypted column": encrypted,
}
READ = """
import sys
from dvcodec import DecodeError
from dvcodec.io import Storage
from dvcodec.io.parquet import column_chunks
from dvcodec.tables.rows.data_file import count_rows, open_parquet, physical_batches
path = sys.argv[1]
for columns in ([], ["path"], None):
    try:
        with open_parquet(path, Storage()) as file:
            print(sum(batch.num_rows for _, batch in physical_batches(file, columns)))
    except DecodeError as error:
        print(type(error).__name__)
print(count_rows(path, Storage()))
with open_parquet(path, Storage()) as file:
    print(len(column_chunks(file, [("pos",), ("path",)])))
"""


def a_file() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"pos": [1, 2, 3], "path": ["x", "y", "z"]}), out)
    return out.getvalue()


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process that writes no core; what is called here is imported from where the tests import it."""
    import dvcodec

    source = str(Path(dvcodec.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.parametrize("name", DAMAGE)
def test_no_footer_ends_the_process(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(altered(a_file(), DAMAGE[name]))
    found = run(READ, str(path))
    assert found.returncode == 0, found.stderr[-1000:]
    assert len(found.stdout.split()) == 5


CLAIMS = """
import io, resource, struct, sys
from dvcodec import DecodeError
from dvcodec.iceberg import read_position_deletes
from dvcodec.io import Storage
from dvcodec.io.source import RandomAccess
from dvcodec.tables.rows.data_file import open_metadata, open_parquet
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
def opened(opener, *arguments):
    with opener(sys.argv[1], Storage(), *arguments):
        pass
import pyarrow.parquet
before = peak()
for read, *given in ((opened, open_parquet), (opened, open_metadata), (read_position_deletes, sys.argv[1])):
    try:
        read(*given)
    except DecodeError as error:
        print(type(error).__name__)
print(peak() - before)
"""


def test_no_footer_has_pyarrow_allocate_what_it_claims(tmp_path: Path) -> None:
    """One that says that a row group has a million columns, in 65 bytes: 680 MB if pyarrow is asked without a limit."""
    footer = bytes.fromhex("1502 192c 480161 1500 1502 480162 0000 1606 191c 19fc bf843d".replace(" ", ""))
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    found = run(CLAIMS, str(path))
    *errors, megabytes = found.stdout.split()
    assert errors == ["NotCanonical"] * 3, found.stderr[-1000:]
    assert int(megabytes) < 60


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (pa.array([b"a\xff"]).view(pa.string()), "Invalid UTF8"),
        (pa.DictionaryArray.from_arrays(pa.array([7]), ["a"], safe=False), "out of bounds"),
        (None, "magic bytes"),
    ],
)
def test_a_task_of_spark_names_the_corrupt_file(files: Any, message: str, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from dvcodec.spark.sources.position_deletes import PositionDeleteReader

    path = tmp_path / "positions.parquet"
    if files is None:
        path.write_bytes(a_file()[:-1])
    else:
        pq.write_table(pa.table({"file_path": files, "pos": [1]}), path)
    reader = PositionDeleteReader([str(path)], "file_path", "pos", 1 << 20)
    (partition,) = reader.partitions()
    with pytest.raises(NotCanonical, match=f"{path}: Parquet file: .*{message}"):
        list(reader.read(partition))


@pytest.mark.parametrize("name", ["statistics of one byte", "histograms of another length", "an encrypted column"])
def test_pyarrow_does_end_it(name: str, tmp_path: Path) -> None:
    """What the test above holds off is there; where this fails, pyarrow is fixed, and can be asked for statistics."""
    path = tmp_path / "a.parquet"
    path.write_bytes(altered(a_file(), DAMAGE[name]))
    code = "import sys, pyarrow.parquet as pq; pq.read_metadata(sys.argv[1]).row_group(0).column(0).statistics"
    assert run(code, str(path)).returncode < 0

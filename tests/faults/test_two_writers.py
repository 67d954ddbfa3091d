"""Two processes that write one target at once: readers always see a whole file of one of them, and none is lost.

Of two conversions of a table into one folder, one is there in the end, whole; the other is an error and leaves nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dvcodec.tables.convert import ENTRIES
from samples import delta_log

TIMES = 30
CODE = """
import sys
from dvcodec import RowSet, iceberg, zap
from faults.writers import A, documents

path, number, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rows, found = RowSet(range(number, 400_000, 5 + number)), documents(number, 50 + number)
sys.stdin.readline()
for _ in range(times):
    if path.endswith(".zap"):
        zap.write_segment(path, found)
    else:
        iceberg.write_deletion_vectors(path, {A: rows})
    print("written", flush=True)
"""


def start(path: Path, number: int, times: int = TIMES) -> subprocess.Popen[str]:
    tests = str(Path(__file__).parent.parent)
    code = f"import sys; sys.path.insert(0, {tests!r})\n{CODE}"
    command = [sys.executable, "-c", code, str(path), str(number), str(times)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def go(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def end(process: subprocess.Popen[str], written: int) -> None:
    """Wait for the end, after so many more files."""
    assert process.stdout is not None
    out = process.stdout.read()  # not communicate(), which passes over what a line before it left in the buffer
    assert process.wait(timeout=6000) == 0
    assert out.count("written") == written


@pytest.mark.parametrize("name", ["x.puffin", "x.zap"])
def test_two_at_once(name: str, tmp_path: Path) -> None:
    whole = []
    for number in (1, 2):  # each alone: what a reader may see
        with start(tmp_path / f"{number}{Path(name).suffix}", number, times=1) as process:
            go(process)
            end(process, 1)
        whole.append((tmp_path / f"{number}{Path(name).suffix}").read_bytes())
    assert whole[0] != whole[1]
    folder = tmp_path / "shared"
    folder.mkdir()
    with start(folder / name, 1) as one, start(folder / name, 2) as two:
        go(one, two)
        assert one.stdout is not None
        one.stdout.readline()  # from here on there is a file
        reads = 0
        while one.poll() is None or two.poll() is None:
            assert (folder / name).read_bytes() in whole
            reads += 1
            if reads == 20:  # whoever opened the old file keeps it
                with (folder / name).open("rb") as file:
                    head = file.read(100)
                    assert head in {data[:100] for data in whole}
        end(one, TIMES - 1)
        end(two, TIMES)
    assert reads > 20
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_bytes() in whole


CONVERSION = """
import sys
from dvcodec import UsageError
from dvcodec.tables import open_table
from dvcodec.tables.convert import convert_table

def wait(count, total):
    if count == total:
        print("read", flush=True)
        sys.stdin.readline()

try:
    done = convert_table(open_table(sys.argv[1]), "paimon64", sys.argv[2], progress=wait)
except UsageError as error:
    print("refused", error)
else:
    print("done", *done.files)
"""


def converting(table: Path, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CONVERSION, str(table), str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "old folder"])
def test_two_conversions_into_one_folder(there: bool, tmp_path: Path) -> None:
    root, folder = delta_log.restored_table(tmp_path / "t"), tmp_path / "out"
    if there:
        folder.mkdir()
    with converting(root, folder) as one, converting(root, folder) as two:
        for process in (one, two):  # both have seen a folder without a conversion, and have read everything
            assert process.stdout is not None
            assert process.stdout.readline() == "read\n"
        go(one, two)
        answers = sorted(process.communicate(timeout=600)[0].strip() for process in (one, two))
    done, refused = answers
    assert done.startswith("done ")
    assert refused.startswith(f"refused {folder}: the folder already has a conversion ({ENTRIES})")
    files = done.split()[1:]
    assert sorted(map(str, folder.iterdir())) == sorted([*files, str(folder / ENTRIES)])
    entries = [json.loads(line) for line in (folder / ENTRIES).read_text().splitlines()]
    assert {entry["path"] for entry in entries} == set(files)

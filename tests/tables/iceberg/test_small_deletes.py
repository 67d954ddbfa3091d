"""Small files of position deletes are read together: the same rows and errors as of `read_deletes`, one by one."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec import RowSet
from dvcodec.core.errors import DvcodecError
from dvcodec.core.limits import Limits
from dvcodec.iceberg import FILE_PATH, POS, write_position_deletes
from dvcodec.io import Storage
from dvcodec.tables import audit, open_table, scan
from dvcodec.tables.iceberg import deletes, snapshot
from dvcodec.tables.iceberg.deletes import PositionDeletes, read_deletes, read_small
from samples.iceberg_table import Commit, build_iceberg

ODD = {
    "missing": None,
    "no rows": pa.table({"file_path": pa.array([], pa.string()), "pos": pa.array([], pa.int64())}),
    "negative": pa.table({"file_path": ["a", "b"], "pos": [3, -1]}),
    "too large": pa.table({"file_path": ["a"], "pos": [2**63 - 1]}),
    "null path": pa.table({"file_path": ["a", None], "pos": [3, 4]}),
    "null position": pa.table({"file_path": ["a", "b"], "pos": pa.array([3, None], pa.int64())}),
    "int32": pa.table({"file_path": ["a"], "pos": pa.array([3], pa.int32())}),
    "binary": pa.table({"file_path": [b"a\xff"], "pos": [3]}),
    "large text": pa.table({"file_path": pa.array(["a"], pa.large_string()), "pos": [3]}),
    "no position": pa.table({"file_path": ["a"]}),
    "no path": pa.table({"pos": [3]}),
    "nested path": pa.table({"file_path": [{"a": "b"}], "pos": [3]}),
    "long path": pa.table({"file_path": ["a" * 100_000], "pos": [3]}),
    "other order": pa.table({"pos": [3, 1], "row": ["x", "y"], "file_path": ["b", "a"]}),
}


def alone(location: str, count: int) -> PositionDeletes | DvcodecError | OSError:
    try:
        return read_deletes(location, "parquet", count, Storage())
    except (DvcodecError, OSError) as error:
        return error


def check(files: dict[str, int]) -> int:
    """Compare files that are read together with each alone; return how many were read together."""
    found = read_small(files.items(), Storage())
    for location, one in found.items():
        expected = alone(location, files[location])
        assert isinstance(expected, PositionDeletes), location
        assert one.rows == expected.rows, location
        assert one.count == expected.count == files[location]
    return len(found)


def test_random_files(tmp_path: Path) -> None:
    """Of several data files, in any order, with duplicates, of any encoding."""
    chosen = random.Random(46)
    for _ in range(20):
        files = {}
        for number in range(chosen.randint(1, 30)):
            names = [chosen.choice("abcä") for _ in range(chosen.choice((1, 1, 2, 9)))]
            table = pa.table({"file_path": names, "pos": [chosen.choice((0, 7, 2**31, 2**40)) for _ in names]})
            path = tmp_path / f"{number}.parquet"
            codec = chosen.choice(("zstd", "none", "snappy"))
            pq.write_table(table, path, compression=codec, use_dictionary=chosen.random() < 0.5)
            files[str(path)] = len(names)
        assert check(files) == len(files)


@pytest.mark.parametrize("name", ODD)
def test_odd_files(tmp_path: Path, name: str) -> None:
    """What is not as engines write it is left to `read_deletes`, and so are its errors."""
    good, odd, groups = tmp_path / "good.parquet", tmp_path / "odd.parquet", tmp_path / "groups.parquet"
    write_position_deletes(good, {"a": RowSet([1, 5])})
    rows = ODD[name]
    if rows is not None:
        pq.write_table(rows, odd)
    pq.write_table(pa.table({"file_path": ["a", "b"], "pos": [1, 2]}), groups, row_group_size=1)
    count = 1 if rows is None else rows.num_rows
    expected = {"negative": 0, "too large": 0, "other order": 2, "large text": 2}  # pyarrow reads it as a dictionary
    assert check({str(good): 2, str(odd): count}) == expected.get(name, 1)
    assert check({str(good): 3, str(groups): 2}) == 0  # another count than recorded; two row groups


def test_damaged_bytes(tmp_path: Path) -> None:
    """Each byte of a file changed, and the file cut off: what is read together is what is read alone."""
    path = tmp_path / "good.parquet"
    write_position_deletes(path, {"file:/t/a.parquet": RowSet([1, 5]), "file:/t/b.parquet": RowSet([0])})
    data = path.read_bytes()
    chosen = random.Random(46)
    files = {}
    for at in range(0, len(data), 2):
        changed = bytearray(data)
        changed[at] ^= chosen.randint(1, 255)
        damaged = tmp_path / f"{at}.parquet"
        damaged.write_bytes(data[:at] if at % 16 == 0 else changed)
        files[str(damaged)] = 3
    for location, count in files.items():
        check({location: count})
    assert check(files | {str(path): 3}) < len(files)


def test_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table gives the same deleted rows and findings either way, damage included; its good files are opened once."""
    names = ["a.parquet", "b.parquet"]
    commits = [Commit(deletes=[{names[n % 2]: RowSet([n])}], scope="bounds", operation="delete") for n in range(12)]
    build_iceberg(tmp_path / "t", Commit(data=dict.fromkeys(names, 20)), *commits, version=2)
    damaged, lost, cut, linked, resized, *_ = sorted((tmp_path / "t/data").glob("deletes-*"))
    damaged.write_bytes(damaged.read_bytes()[:-40] + b"\xff" * 32 + damaged.read_bytes()[-8:])
    lost.unlink()
    cut.write_bytes(cut.read_bytes()[:-9])
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    pq.write_table(pq.read_table(resized), resized, compression="none")
    opened = []

    def opening(location: str, *others: Any) -> PositionDeletes:
        opened.append(location)
        return read_deletes(location, *others)

    monkeypatch.setattr(snapshot, "read_deletes", opening)

    def results() -> tuple[Any, ...]:
        done = audit(open_table(tmp_path / "t"))
        scanned = scan(open_table(tmp_path / "t"), keep_rows=True)
        numbers = [
            (one.vectors, one.rows, one.min_deleted, one.stored_bytes, one.density.tolist(), one.errors, one.unreadable)
            for one in scanned.files
        ]
        return [finding.to_dict() for finding in done.findings], scanned.lost, scanned.unopened, numbers

    together = results()
    assert set(opened) == {str(damaged), str(lost), str(cut)}
    sizes = {finding["path"] for finding in together[0] if finding["check"] == "file-size"}
    assert sizes == {str(cut), str(resized)}  # not the link, whose own size is another one
    opened.clear()
    monkeypatch.setattr(snapshot, "read_small", lambda *_: {})
    assert results() == together
    assert len(set(opened)) == 12


def test_codes() -> None:
    """A path that a dictionary has twice has the rows of both; batches share paths, in the order of each."""
    kind = pa.int32()
    codes = [([0, 1, 2, 0], ["a", "b", "a"]), ([0, 0, 1, 0], ["b", "a"])]
    batches = [
        pa.record_batch({FILE_PATH: pa.DictionaryArray.from_arrays(pa.array(chosen, kind), names), POS: [4, 3, 2, 9]})
        for chosen, names in codes
    ]
    expected = [{"a": RowSet([2, 4, 9]), "b": RowSet([3])}, {"b": RowSet([3, 4, 9]), "a": RowSet([2])}]
    for some in ([0], [1], [0, 1], [1, 0]):
        found = list(deletes._split([batches[number] for number in some]))
        assert [list(one.rows.items()) for one in found] == [list(expected[number].items()) for number in some]
        assert [one.count for one in found] == [4] * len(some)


def test_code_beyond_dictionary(tmp_path: Path) -> None:
    """pyarrow returns such codes as they are: they would be those of another file."""
    path, other = tmp_path / "good.parquet", tmp_path / "other.parquet"
    write_position_deletes(other, {"c": RowSet([1])})
    table = pa.table({FILE_PATH: ["a", "b", "b", "a"] * 2, POS: range(8)})
    pq.write_table(table, path, compression="none", column_encoding={POS: "PLAIN"}, use_dictionary=[FILE_PATH])
    data = path.read_bytes()
    packed = bytes([3, 0b01100110])  # one group of eight codes of one bit
    assert data.count(bytes([1, *packed])) == 1
    path.write_bytes(data.replace(bytes([1, *packed]), bytes([1, 16, 7])))  # a run of eight codes: all of them 7
    assert list(read_small({str(path): 8, str(other): 1}.items(), Storage())) == [str(other)]
    assert isinstance(alone(str(path), 8), DvcodecError)


def test_limits(tmp_path: Path) -> None:
    """A file beyond a limit, too large, or of too many rows, is left to `read_deletes`."""
    path = tmp_path / "good.parquet"
    write_position_deletes(path, {"a": RowSet([1, 5])})
    size = path.stat().st_size
    found = [
        list(read_small([(str(path), 2)], Storage(limits=Limits(max_metadata_bytes=most)))) for most in (size, size - 1)
    ]
    assert found == [[str(path)], []]
    write_position_deletes(path, {"a": RowSet(range(4097))})
    assert check({str(path): 4097}) == 0
    write_position_deletes(path, {"a" * 70_000: RowSet([1])})
    assert path.stat().st_size < 1 << 16
    assert check({str(path): 1}) == 0
    with_fifo = tmp_path / "pipe"
    os.mkfifo(with_fifo)
    assert read_small([(str(with_fifo), 1), (str(tmp_path), 1), ("\0", 1)], Storage()) == {}

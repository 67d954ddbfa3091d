"""Tables of every kind, damaged on purpose: each damage is found, named and placed; valid tables have no findings."""

from __future__ import annotations

import json
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

from dvcodec import RowSet
from dvcodec.core.errors import DecodeError
from dvcodec.paimon import read_index_manifest, write_index_manifest
from dvcodec.tables import DeletionVector, Table, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.snapshots.live import live_batches
from dvcodec.tables.snapshots.scanning import scan
from samples import paimon_table
from samples.delta_table import DeltaBuilder, rows_from
from samples.iceberg_table import Commit, build_iceberg
from samples.memory_table import flip

ROWS = 100
A, B, C = "a.parquet", "b.parquet", "c.parquet"
VALID = {A: RowSet([1, 5, 7]), C: RowSet([2, 5, 99])}


class Workshop(ABC):
    """Makes a table of the data files a, b and c, of 100 rows each, and changes what its metadata says of vectors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def make(self, deletes: Mapping[str, RowSet]) -> None:
        """Make the table; all vectors are in one file."""

    @abstractmethod
    def twice(self, rows: RowSet) -> None:
        """Give a a second live vector."""

    @property
    def table(self) -> Table:
        return open_table(str(self.folder))

    def vector(self, name: str) -> DeletionVector:
        return next(one for one in self.table.snapshot().vectors if str(one.data_file).endswith(name))


class Iceberg(Workshop):
    def make(
        self, deletes: Mapping[str, RowSet], *more: Commit, tweak: Callable[[Any], Any] = lambda entry: entry
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        data = dict.fromkeys((A, B, C), ROWS)
        build_iceberg(self.folder, Commit(data), Commit(vectors=deletes), *more, tweak_entry=tweak)

    def twice(self, rows: RowSet) -> None:
        def tweak(entry: Any) -> Any:
            return entry | {"status": 0} if entry["status"] == 2 else entry  # the first vector is not taken away

        self.make(VALID, Commit(vectors={A: rows}), tweak=tweak)


class Delta(Workshop):
    def make(self, deletes: Mapping[str, RowSet]) -> None:
        self.made = DeltaBuilder(self.folder)
        self.made.create()
        adds = [self.made.write_file(name, rows_from(i * ROWS)) for i, name in enumerate((A, B, C))]
        self.made.commit(*({"add": added} for added in adds))
        self.made.delete(deletes)

    def twice(self, rows: RowSet) -> None:
        (descriptor,) = self.made.write_vectors({A: rows}).values()
        self.made.commit({"add": self.made.live[A] | {"deletionVector": descriptor}})


class Paimon(Workshop):
    def make(self, deletes: Mapping[str, RowSet]) -> None:
        columns = [(0, "id", "BIGINT")]
        files = [
            paimon_table.PaimonFile(
                name, pa.table({"id": pa.array(range(i * ROWS, (i + 1) * ROWS), pa.int64())}), deletes.get(name)
            )
            for i, name in enumerate((A, B, C))
        ]
        without = [replace(file, deleted=None) for file in files]
        paimon_table.build_paimon(self.folder, columns, [without, files])

    def twice(self, rows: RowSet) -> None:
        path = self.folder / "manifest/index-manifest-2-0"
        (entry,) = read_index_manifest(path)
        other = Paimon(self.folder.with_name("other"))
        other.make({A: rows})
        (second,) = read_index_manifest(other.folder / "manifest/index-manifest-2-0")
        shutil.copy(other.folder / "index" / second.file_name, self.folder / "index" / "index-second-0")
        write_index_manifest(path, [entry, replace(second, file_name="index-second-0")])


KINDS: dict[str, Callable[[Path], Workshop]] = {"iceberg": Iceberg, "delta": Delta, "paimon": Paimon}


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Workshop:
    made = KINDS[request.param](tmp_path / "table")
    made.make(VALID)
    return made


Named = list[tuple[str, str | None]]


def findings(table: Table) -> Named:
    found = audit(table, threads=2)
    for finding in found.findings:
        assert "\n" not in finding.message
        assert finding.path is not None
        assert finding.snapshot == found.info.id or finding.snapshot is None
        assert finding.actual is None or finding.actual in finding.message
    json.dumps(found.to_dict())
    return [(one.check, one.data_file and Path(one.data_file).name) for one in found.findings]


def refused(table: Table) -> None:
    """Rows of a are not given while it is not known which are deleted."""
    path = next(file.path for file in table.snapshot().data_files if file.path.endswith(A))
    with pytest.raises((DecodeError, OSError)):
        list(live_batches(table, path))


def test_valid(shop: Workshop) -> None:
    assert findings(shop.table) == []
    assert {Path(file.data_file.path).name: file.rows for file in scan(shop.table, keep_rows=True).files} == {
        A: VALID[A],
        B: RowSet(),
        C: VALID[C],
    }
    for info in shop.table.snapshots():
        assert audit(shop.table, info.id).findings == ()


def test_one_flipped_bit(shop: Workshop) -> None:
    vector = shop.vector(A)
    assert vector.offset is not None
    assert vector.size is not None
    flip(vector.location, vector.offset + vector.size - 6)
    assert findings(shop.table) == [("crc", A)]
    (finding,) = audit(shop.table).findings
    assert finding.path == vector.location
    assert finding.offset is not None
    assert vector.offset <= finding.offset < vector.offset + vector.size
    refused(shop.table)


def test_two_live_vectors(shop: Workshop) -> None:
    shop.twice(RowSet([8]))
    assert findings(shop.table) == [("different-vectors", A)]
    (finding,) = audit(shop.table).findings
    assert len({vector.where for vector in finding.vectors}) == 2
    refused(shop.table)


def test_a_position_beyond_the_file(tmp_path: Path) -> None:
    for name, kind in KINDS.items():
        shop = kind(tmp_path / name)
        shop.make(VALID | {A: RowSet([5, ROWS])})
        assert findings(shop.table) == [("rows", A)]
        (finding,) = audit(shop.table).findings
        assert (finding.expected, finding.actual) == (f"below {ROWS} (rows of the data file)", f"{ROWS}")
        refused(shop.table)


def test_a_table_in_a_store(shop: Workshop) -> None:
    """The same by URL: listed, read and reported as a local one."""
    url = f"memory://{uuid.uuid4()}"
    store = fsspec.filesystem("memory")
    store.put(str(shop.folder), url, recursive=True)
    table = open_table(url)
    assert findings(table) == ([("moved", None)] if isinstance(shop, Iceberg) else [])
    assert audit(table).counts.stored_files == sum(path.is_file() for path in shop.folder.rglob("*"))
    data = shop.vector(A)
    below = str(Path(data.location).relative_to(shop.folder))
    store.pipe(f"{url}/{below}x.bin", b"orphan")
    store.rm(f"{url}/{below}")
    found = audit(table).findings
    assert {"missing-file", "orphan-vector-file"} <= {one.check for one in found}
    assert next(one.details["age_seconds"] for one in found if one.check == "orphan-vector-file") < 1000


@pytest.fixture
def lance(own_vectors: Path, tmp_path: Path) -> Path:
    """A dataset by pylance, of which only the metadata and the deletion files are kept."""
    return Path(shutil.copytree(own_vectors / "lance" / "pylance-14.0.2" / "deletions", tmp_path / "lance"))


def test_lance_data_files(own_vectors: Path, tmp_path: Path) -> None:
    """Of a fragment in several files, each is looked for."""
    folder = Path(shutil.copytree(own_vectors / "tables" / "lance" / "pylance-14.0.2" / "life", tmp_path / "life"))
    table = open_table(str(folder))
    file = max(table.snapshot(5).data_files, key=lambda file: len(file.files))
    second = folder / file.files[1]
    second.write_bytes(second.read_bytes() + b"x")
    assert [(one.check, one.data_file) for one in audit(table, 5).findings] == [("data-file-size", file.path)]
    second.unlink()
    (finding,) = audit(table, 5).findings
    assert (finding.check, finding.actual) == ("missing-data-file", f"no such file: {second}")


@pytest.mark.parametrize("suffix", ["arrow", "bin"])
def test_lance_damaged(suffix: str, lance: Path) -> None:
    def named() -> list[str]:
        return [one.check for one in audit(open_table(str(lance)), orphans=False).findings]

    table = open_table(str(lance))
    (vector,) = [one for one in table.snapshot().vectors if one.location.endswith(suffix)]
    path = Path(vector.location)
    valid = path.read_bytes()
    path.write_bytes(valid[:-9])
    assert named()[0] in {"length", "magic", "structure"}
    path.write_bytes(bytes([valid[0] ^ 1]) + valid[1:])
    assert named()[0] in {"length", "magic", "structure"}
    path.unlink()
    assert named() == ["missing-file"]
    path.write_bytes(valid)
    assert named() == []

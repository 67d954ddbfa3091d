"""Data files, vectors and equality deletes that metadata lists more than once are charged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dvcodec.core.errors import LimitExceeded
from dvcodec.core.limits import SharedWork
from dvcodec.tables import open_table
from dvcodec.tables.model import DataFile, DeletionVector
from dvcodec.tables.repeats import charge_listed, charge_repeats, charge_same_deletes, charge_same_files, charge_text
from fuzz import many as tables

DELETES = DeletionVector("position-deletes", None, "d", "d", None, 100, 1)


def vectors_of(count: int, *, offset: int | None = 4, path: str = "v", size: int = 100) -> list[DeletionVector]:
    return [DeletionVector("iceberg", f"{i}", path, path, offset, size, 1) for i in range(count)]


def test_vectors_that_are_recorded_more_than_once_are_charged() -> None:
    charge_repeats(vectors_of(2000), SharedWork())
    with pytest.raises(LimitExceeded, match=r"^vectors of v: work for vectors that are recorded more than once"):
        charge_repeats(vectors_of(2100), SharedWork())
    with pytest.raises(LimitExceeded):
        charge_repeats(vectors_of(20, size=2**21), SharedWork())
    with pytest.raises(LimitExceeded):
        charge_repeats(vectors_of(2100, offset=None), SharedWork())
    charge_repeats(vectors_of(4, size=2**16), SharedWork())  # it may have thousands of bitmaps
    with pytest.raises(LimitExceeded):
        charge_repeats(vectors_of(6, size=2**16), SharedWork())
    shared = SharedWork()
    for _ in range(3):  # the same snapshot again
        charge_repeats(vectors_of(2000), shared)
    with pytest.raises(LimitExceeded):
        charge_repeats(vectors_of(200, path="w"), shared)


@pytest.mark.parametrize(("size", "units"), [(None, 8192), (0, 8192), (128, 8192), (129, 8256), (1128, 72_192)])
def test_work_of_a_repeated_vector(size: int | None, units: int) -> None:
    others = [replace(vector, offset=9, size=1) for vector in vectors_of(3)]
    vectors = [*(replace(vector, size=size) for vector in vectors_of(3)), *others]
    charge_repeats(vectors, SharedWork(2 * units + 2 * 8192))
    with pytest.raises(LimitExceeded, match=f"found {2 * units + 2 * 8192}$"):
        charge_repeats(vectors, SharedWork(2 * units + 2 * 8192 - 1))


def test_vectors_of_their_own_are_not_charged() -> None:
    nothing = SharedWork(0)
    charge_repeats([replace(vector, offset=i) for i, vector in enumerate(vectors_of(10_000))], nothing)
    charge_repeats([one for i in range(10_000) for one in vectors_of(1, offset=None, path=f"{i}")], nothing)
    charge_repeats(vectors_of(10_000, offset=None, path=""), nothing)  # inline


def test_data_files_are_charged_beyond_what_the_metadata_allows() -> None:
    charge_listed("/t", range(10_922), [], SharedWork())
    with pytest.raises(LimitExceeded, match=r"^data files of /t: work for data files in all metadata files"):
        charge_listed("/t", range(10_923), [], SharedWork())
    shared = SharedWork(0)
    shared.note("m", 6_000_000)
    charge_listed("/t", range(1_000_000), [], shared)
    with pytest.raises(LimitExceeded, match=r"found 1536$"):
        charge_listed("/t", range(1_000_001), [], shared)


def test_files_of_position_deletes_are_charged_beyond_what_the_metadata_allows() -> None:
    charge_listed("/t", range(0), [DELETES] * 4_096, SharedWork())
    with pytest.raises(LimitExceeded, match=r"^data files of /t: work for data files and position deletes in all"):
        charge_listed("/t", range(0), [DELETES] * 4_097, SharedWork())
    shared = SharedWork(0)
    shared.note("m", 22_000_000)
    charge_listed("/t", range(1_000_000), [DELETES] * 1_000_000, shared)
    with pytest.raises(LimitExceeded, match=r"found 4096$"):
        charge_listed("/t", range(1_000_000), [DELETES] * 1_000_001, shared)


def test_data_files_in_several_spellings_are_charged() -> None:
    def files(count: int) -> list[DataFile]:
        return [DataFile(f"{i}", f"/t/{'/' * (i // 2)}{'./' * (i % 2)}a", 1) for i in range(count)]

    charge_same_files(files(250), SharedWork())
    with pytest.raises(LimitExceeded, match=r"^data files at /t/a: work for data files in several spellings"):
        charge_same_files(files(260), SharedWork())
    charge_same_files([DataFile(f"{i}", f"/t/{i}", 1) for i in range(1000)], SharedWork(0))
    pairs = [DataFile(f"{i}", f"/t/{'./' * (i % 2)}{i // 2}", 1) for i in range(4)]
    charge_same_files(pairs, SharedWork(2 * 65_536))
    with pytest.raises(LimitExceeded, match=r"found 131072$"):
        charge_same_files(pairs, SharedWork(2 * 65_536 - 1))


def test_equality_deletes_in_several_spellings_are_charged() -> None:
    charge_same_deletes([f"/t/{'/' * i}a" for i in range(60)], SharedWork())
    with pytest.raises(LimitExceeded, match=r"^equality deletes at /t/a: work for equality deletes of one file"):
        charge_same_deletes([f"/t/{'/' * i}a" for i in range(70)], SharedWork())
    charge_same_deletes([f"/t/{i}" for i in range(1000)], SharedWork(0))
    charge_same_deletes(["/t/a", "/t/b", "/t/b", "/t/a", "/t/a"], SharedWork(3 * 2**18))
    with pytest.raises(LimitExceeded, match=r"^equality deletes at /t/a: .* found 786432$"):
        charge_same_deletes(["/t/a", "/t/b", "/t/b", "/t/a", "/t/a"], SharedWork(3 * 2**18 - 1))


@pytest.mark.parametrize("kind", ["delta-vectors", "iceberg-vectors", "paimon-vectors"])
def test_a_table_whose_vectors_are_one_is_refused(kind: str, tmp_path: Path) -> None:
    few, many = (tmp_path / name for name in ("few", "many"))
    tables.TABLES[kind](few, 500, step=0)
    assert len(open_table(few).snapshot().vectors) == 500
    tables.TABLES[kind](many, 2500, step=0)
    assert sum(path.stat().st_size for path in many.rglob("*") if path.is_file()) < 64_000
    with pytest.raises(LimitExceeded, match="vectors that are recorded more than once"):
        open_table(many).snapshot()


def test_long_paths_and_partitions_are_charged_beyond_what_the_metadata_allows() -> None:
    long, other = "a" * 129, "\U0001f600" * 11  # 132 bytes of JSON, 44 in UTF-8
    files = [DataFile(long, "/x", 1, partition=long), DataFile("a" * 128, "/x" * 500, 1), DataFile(other, "/x", 1)]
    vectors = [DeletionVector("delta", long, "", ""), DeletionVector("delta", None, "a" * 130, "/x" * 500)]
    units = 8 * (1 + 1 + 4 + 1 + 2)
    charge_text("/t", files, vectors, SharedWork(units))
    with pytest.raises(LimitExceeded, match=rf"^paths of /t: work for long paths and partitions .* found {units}$"):
        charge_text("/t", files, vectors, SharedWork(units - 1))
    shared = SharedWork(0)
    shared.note("metadata", 1)
    charge_text("/t", files, vectors, shared)
    charge_text("/t", files * 9, [], SharedWork(8 * 9 * 6))
    charge_text("/t", [DataFile("größe" * 4, "/x", 1)] * 1000, [], SharedWork(0))


@pytest.mark.parametrize("text", ["a" * 1023, "\U0001f600" * 255])
def test_a_table_whose_paths_repeat_a_long_text_is_refused(text: str, tmp_path: Path) -> None:
    for count in (20, 5000):
        folder = tmp_path / f"{count}"
        tables.TABLES["paimon"](folder, count)
        path = folder / "schema/schema-0"
        schema = json.loads(path.read_text())
        schema["options"]["data-file.path-directory"] = text
        path.write_text(json.dumps(schema, ensure_ascii=False))
        if count == 20:
            assert len(open_table(folder).snapshot().data_files) == count
        else:
            with pytest.raises(LimitExceeded, match="long paths and partitions"):
                open_table(folder).snapshot()

"""Lance datasets that pylance makes anew: what dvcodec tells of every version equals what pylance returns."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from dvcodec import RowSet
from dvcodec.tables import open_table
from dvcodec.tables.lance import LanceTable
from interop.driver import need

pytestmark = pytest.mark.interop

NAMES = ("life", "life-v1", "life-stable", "life-2.0", "kinds", "kinds-stable")


@pytest.fixture(scope="module", autouse=True)
def _pylance() -> None:
    need(importlib.util.find_spec("lance.fragment") is not None, "pylance")


def check(path: str, *, batch_rows: int = 1 << 16) -> LanceTable:
    """Hold all versions of a dataset against pylance."""
    from interop.lance_tables import truth
    from tables.lance.truth import check_metadata, check_rows

    table = open_table(path)
    assert isinstance(table, LanceTable)
    expected = truth(path)
    check_metadata(table, expected)
    check_rows(table, expected, batch_rows=batch_rows)
    return table


def no_strays(table: LanceTable) -> None:
    assert {file.location for file in table.stored_files()} - table.referenced() == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_version_of_a_dataset(name: str, tmp_path: Path) -> None:
    from interop.lance_tables import LIVES, make

    assert set(LIVES) == set(NAMES)
    make(name, str(tmp_path / "t"))
    no_strays(check(str(tmp_path / "t"), batch_rows=999))


@pytest.mark.parametrize("stable", [False, True])
def test_random_lives(stable: bool, tmp_path: Path) -> None:
    import lance as pylance
    from interop.lance_tables import table, upsert

    path = str(tmp_path / "t")
    rng = np.random.default_rng(6 + stable)
    size = 30_000
    pylance.write_dataset(table(range(size)), path, max_rows_per_file=8000, enable_stable_row_ids=stable)
    for step in range(12):
        keys = rng.choice(size, int(rng.choice([1, 20, 500, 4000])), replace=False).tolist()
        what = rng.integers(5)
        if what == 0:
            upsert(path, [*keys[:300], size + step])
        elif what == 1:
            pylance.dataset(path).update({"value": str(step)}, where=f"key % 97 = {step}")
        elif what == 2 and step > 6:
            pylance.dataset(path).optimize.compact_files(target_rows_per_fragment=12_000, materialize_deletions=True)
        else:
            pylance.dataset(path).delete(f"key IN ({', '.join(map(str, keys))})")
    no_strays(check(path))


def test_a_shallow_clone_and_a_branch(tmp_path: Path) -> None:
    import lance as pylance
    from interop.lance_tables import make, table

    origin, clone = str(tmp_path / "origin"), str(tmp_path / "clone")
    make("life", origin)
    pylance.dataset(origin).shallow_clone(clone, 3)
    pylance.dataset(clone).delete("key = 1")
    pylance.write_dataset(table(range(500, 510)), clone, mode="append")
    pylance.dataset(clone).delete("key = 505")
    for version in (3, 4, 6):
        dataset = pylance.dataset(clone, version=version)
        ours = live_keys(open_table(clone), version)
        assert ours == dataset.to_table(columns=["key"])["key"].to_pylist()
    no_strays(open_table(clone))  # type: ignore[arg-type]

    pylance.dataset(origin).create_branch("my/branch", 4)
    branch = pylance.dataset(origin).checkout_version(("my/branch", None))
    branch.delete("key = 2")
    folder = f"{origin}/tree/my/branch"
    newest = open_table(folder).snapshots()[-1].id
    expected = pylance.dataset(origin).checkout_version(("my/branch", newest))
    assert live_keys(open_table(folder), newest) == expected.to_table(columns=["key"])["key"].to_pylist()
    table_of_origin = open_table(origin)
    no_strays(table_of_origin)  # type: ignore[arg-type]
    (tmp_path / "origin" / "tree" / "my" / "branch" / "_deletions" / "0-9-9.arrow").touch()
    strays = {file.location for file in table_of_origin.stored_files()} - table_of_origin.referenced()
    assert strays == {f"{folder}/_deletions/0-9-9.arrow"}


def live_keys(table: object, version: int) -> list[int]:
    assert isinstance(table, LanceTable)
    snapshot = table.snapshot(version)
    vectors = {vector.data_file: vector for vector in snapshot.vectors}
    keys: list[int] = []
    for file in snapshot.data_files:
        deleted = snapshot.read(vectors[file.path])[0].rows if file.path in vectors else RowSet()
        for rows in snapshot.rows(file, columns=["key"]):
            mask = deleted.arrow_mask(rows.start, rows.start + rows.batch.num_rows, keep=True)
            keys += rows.batch.filter(mask)["key"].to_pylist()
    return keys

"""Limits of decoding on the command line: each can be named, and messages say how to raise it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cli_runner import run
from dvcodec import RowSet, delta, iceberg
from dvcodec.core.limits import LIMITS
from samples.iceberg_table import Commit, build_iceberg
from samples.zap.segments import minimal


def vectors(folder: Path) -> list[str]:
    delta.write_deletion_vectors(folder / "v.bin", {"a": RowSet(range(0, 99, 2)), "b": RowSet([1, 5])})
    return ["stats", str(folder / "v.bin")]


def puffin(folder: Path) -> list[str]:
    iceberg.write_deletion_vectors(folder / "v.puffin", {"a": RowSet([1])})
    return ["inspect", str(folder / "v.puffin")]


def table(folder: Path) -> list[str]:
    build_iceberg(folder / "t", Commit(data={"a": 20}, vectors={"a": RowSet([1])}))
    return ["table", str(folder / "t")]


def segment(folder: Path) -> list[str]:
    """Of 2 kB with 100,000 keys."""
    made = minimal(15, 1)
    made.field("t", made.dictionary({i.to_bytes(3, "big"): 1 << 63 | 1 << 31 for i in range(100_000)}))
    (folder / "a.zap").write_bytes(made.finish())
    return ["verify", str(folder / "a.zap")]


COMMANDS: dict[str, tuple[Callable[[Path], list[str]], int]] = {
    "max_vector_bytes": (vectors, 3),
    "max_cardinality": (vectors, 3),
    "max_metadata_bytes": (puffin, 3),
    "max_records": (vectors, 1),
    "max_record_bytes": (table, 3),
    "max_blob_bytes": (segment, 3),
    "max_keys": (segment, 3),
}


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_is_kept_and_named_with_how_to_raise_it(name: str, tmp_path: Path) -> None:
    make, low = COMMANDS[name]
    command = make(tmp_path)
    assert run(*command).code == 0
    found = run(*command, "--limit", f"{name}={low}")
    assert found.code > 0
    text = " ".join((found.out + found.err).split())
    assert f"Limits.{name}: expected at most {low} (--limit {name}=... raises it), found " in text
    assert run(*command, "--limit", f"{name}={low}", "--limit", f"{name}={1 << 40}").code == 0


@pytest.mark.parametrize("given", ["max_rows=3", "max_keys", "max_keys=", "max_keys=-1", "max_keys=x", "=3"])
def test_limits_that_do_not_exist(given: str, tmp_path: Path) -> None:
    found = run(*puffin(tmp_path), "--limit", given)
    assert found.code == 2
    assert found.complaint.count("\n") == 0
    assert f"--limit {given}: expected NAME=VALUE with a name of {', '.join(LIMITS)}, and a number" in found.complaint


def test_a_number_of_rows_and_a_limit_go_together(tmp_path: Path) -> None:
    _, path = vectors(tmp_path)
    found = run("positions", path, "--limit", "2", "--limit", "max_cardinality=50")
    assert (found.code, len(found.out.split())) == (0, 8)
    found = run("positions", path, "--limit", "2", "--limit", "max_cardinality=49")
    assert "(--limit max_cardinality=... raises it), found 50" in found.out + found.err
    found = run("positions", path, "--limit", "two")
    assert (found.code, "--limit two: expected a number of 0 or more, or NAME=VALUE" in found.complaint) == (2, True)

"""Every fuzz target over its seeds, a few damaged ones, and what fuzzing found: without atheris."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import pytest

from battery import outcome
from dvcodec import DecodeError
from fuzz import registry
from fuzz.peers.comparison import Comparison, Kind
from fuzz.seeds import HERE
from fuzz.target import Target, mutated, overwrite
from interop.driver import GO, need

REGRESSIONS = HERE / "regressions"
TRIES = 3
"""Damaged inputs of each seed."""
MOST = 12
"""Seeds of a target that are tried here: the smallest."""
PEER_OF = {
    "pyroaring": "pyroaring",
    "pyiceberg": "pyiceberg.table.puffin",
}


def parameters() -> list[Any]:
    """All targets; those beside a peer are live runs of another implementation."""
    peers = {one for names in registry.PEERS.values() for one in names}
    return [pytest.param(name, marks=pytest.mark.interop if name in peers else ()) for name in registry.names()]


def load(name: str) -> Target:
    """A target; its peer has to be here."""
    peer = name.split("-", maxsplit=1)[0]
    if peer == "pypaimon":
        need((HERE.parents[1] / "interop/pypaimon/.venv/bin/python").exists(), peer)
    elif peer == "zapx":
        need((GO / "bin" / ".built").exists(), peer)
    elif peer in PEER_OF:
        need(importlib.util.find_spec(PEER_OF[peer]) is not None, peer)
    return registry.load(name)


def damage(data: bytes, size: int) -> bytes:
    """What stands in for the fuzzer's own mutations."""
    return overwrite(data, random.Random(len(data)))[:size]


@pytest.mark.parametrize("name", parameters())
def test_seeds_and_damaged_seeds(name: str) -> None:
    target = load(name)
    seeds = sorted({data for data in target.seeds() if len(data) <= target.max_len}, key=len)[:MOST]
    assert seeds
    valid = [data for data in seeds if not isinstance(outcome(target.run, data), DecodeError)]
    assert valid, "not one seed is accepted"
    for data in seeds:
        for seed in range(TRIES):
            outcome(target.run, mutated(target, data, target.max_len, seed, damage))
    outcome(target.run, b"")


def regressions() -> list[tuple[str, Path]]:
    return [(path.parent.name, path) for path in sorted(REGRESSIONS.glob("*/*"))]


@pytest.mark.parametrize(("name", "path"), regressions(), ids=lambda value: Path(value).name)
def test_what_fuzzing_found(name: str, path: Path) -> None:
    outcome(load(name).run, path.read_bytes())


def test_every_module_lists_its_targets() -> None:
    for package, modules in (("targets", registry.DECODERS), ("peers", registry.PEERS)):
        for module, names in modules.items():
            found = importlib.import_module(f"fuzz.{package}.{module}").TARGETS
            assert tuple(target.name for target in found) == names
    assert len(registry.names()) == len(set(registry.names()))


class TestComparison:
    """An input that the peer accepts and that is refused here needs a kind."""

    @staticmethod
    def refuse(data: bytes) -> bytes:
        raise DecodeError(data.decode())

    def test_an_unknown_kind_is_a_finding(self) -> None:
        found = Comparison("peer", (Kind("long", "because", r"^DecodeError: long"),))
        with pytest.raises(AssertionError, match="no known kind: DecodeError: short"):
            found.compare(b"short", self.refuse, lambda data: data)

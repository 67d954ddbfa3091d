"""The bytes of Go's builder: against its algorithm, step by step, in `craft`."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import amounts
from cases import each
from dvcodec.core.errors import UsageError
from dvcodec.zap.vellum import build
from samples.zap.vellum import TOP, blob, dictionaries, many, naive_build, opened

NONE = np.zeros(0, np.uint64)


def built(items: dict[bytes, int]) -> bytes:
    keys = sorted(items)
    return build(keys, np.array([items[key] for key in keys], np.uint64))


@given(dictionaries)
@example({b"": TOP})
@example({b"": 0, b"\0": TOP, b"\0\0": 0})
@example({b"a": TOP, b"ab": 2**63, b"abc": 1, b"b": 2**63 + 1})
def test_same_bytes_as_the_stack(items: dict[bytes, int]) -> None:
    assert built(items) == naive_build(items)


@given(st.lists(st.lists(st.sampled_from(b"abc"), max_size=12).map(bytes), max_size=300), st.integers(0, 4))
def test_shared_suffixes(keys: list[bytes], top: int) -> None:
    items = {key: len(key) * top % 5 for key in keys}
    assert built(items) == naive_build(items)


@pytest.mark.parametrize("kind", ["random", "words", "numbers"])
def test_more_states_than_the_registry_holds(kind: str) -> None:
    """Entries are forgotten, and which ones decides what is shared."""
    count = amounts.of(15_000, 50_000)
    rng = random.Random(kind)
    if kind == "random":
        keys = {rng.randbytes(12) for _ in range(count)}
    elif kind == "words":
        parts = [rng.randbytes(2) for _ in range(40)]
        keys = {b"".join(rng.choices(parts, k=rng.randint(1, 5))) for _ in range(count)}
    else:
        keys = {b"%d" % i for i in range(count)}
    items = {key: rng.getrandbits(rng.choice([3, 40, 64])) for key in keys}
    data = built(items)
    assert data == naive_build(items)
    assert dict(opened(data).range()) == items


def test_results_that_are_known() -> None:
    assert build([], NONE) == blob(bytes(3), 0, 18)
    assert built({b"": 0}) == blob(b"", 1, 0)
    assert built({b"": 5}) == blob(bytes.fromhex("05010040"), 1, 19)
    states = "001900301141 320000013231 1102 2f0111a7"  # section 14 of the notes: v15/idonly.zap
    assert built({b"k1": 0x2F, b"k10": 0x48, b"k2": 0x61}) == blob(bytes.fromhex(states), 3, 33)
    assert built({b"\0": 0, b"\1": 0}) == blob(many([(0, 0, 0), (1, 0, 0)], sizes=(1, 0)), 2)


@each(
    "keys",
    [
        [b"b", b"a"],
        [b"", b""],
        [b"ab", b"a"],
        [b"\x80", b"\x7f"],
        [b"1", b"2", b"3", b"2", b"4"],
    ],
)
def test_keys_that_do_not_ascend(keys: Sequence[bytes]) -> None:
    i = next(i for i in range(len(keys) - 1) if keys[i] >= keys[i + 1])
    with pytest.raises(UsageError) as caught:
        build(keys, np.zeros(len(keys), np.uint64))
    assert str(caught.value) == f"keys must be strictly ascending, but {keys[i + 1]!r} comes after {keys[i]!r}"

"""All keys at once: the same as one by one, however the work is cut into slices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amounts import examples
from dvcodec.core.errors import CardinalityMismatch, NotCanonical
from dvcodec.zap import vellum
from dvcodec.zap.vellum import Fst
from samples.zap.vellum import TOP, blob, dictionaries, doubling, follow, many, naive_build, opened

ROOMS = [0, 60, 400, 3000, 1 << 22]


def items_of(fst: Fst) -> list[tuple[bytes, int]]:
    """All keys and values by blocks, which are looked at too."""
    found: list[tuple[bytes, int]] = []
    for block in fst.blocks():
        assert len(block) > 0
        assert block.values.dtype == np.uint64
        assert block.keys.offsets[0] == 0
        assert block.keys.offsets[-1] == len(block.keys.data)
        found += zip(block.keys.to_list(), block.values.tolist(), strict=True)
    return found


@pytest.fixture(params=ROOMS)
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Slices of all sizes, and no way around them."""
    monkeypatch.setattr(vellum, "_ROOM", request.param)
    monkeypatch.setattr(vellum, "_FEW", 0)
    return int(request.param)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dictionaries)
def test_blocks_are_the_dictionary(room: int, items: dict[bytes, int]) -> None:
    assert items_of(opened(naive_build(items))) == sorted(items.items())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(20))
@given(st.integers(0, 2**32 - 1))
def test_larger_dictionaries(room: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    letters = np.frombuffer([b"ab", b"abcdefgh", bytes(range(256))][seed % 3], np.uint8)
    sizes = rng.integers(0, 7, 200)
    keys = sorted({rng.choice(letters, size).tobytes() for size in sizes})
    items = dict(zip(keys, rng.integers(0, TOP, len(keys), np.uint64, endpoint=True).tolist(), strict=True))
    assert items_of(opened(naive_build(items))) == list(items.items())


def test_too_many_keys_are_stopped(room: int) -> None:
    for count in (1, 7, 8, 9, 100, 600):
        with pytest.raises(CardinalityMismatch, match=f"number of keys: expected {count}, found more") as caught:
            items_of(opened(doubling(200, count=count)))
        assert caught.value.offset == 1000 + 16 + 8 * 200


def test_errors_below(room: int) -> None:
    wrong = many([(2, 0, 0), (1, 0, 0)])
    data = blob(wrong + follow(97) * 300 + many([(i, 1 + i, 0) for i in range(250)]), 600)
    with pytest.raises(NotCanonical, match="input bytes of a state") as caught:
        items_of(opened(data))
    assert caught.value.offset == 1000 + 15 + len(wrong)

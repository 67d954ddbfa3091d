"""All keys at once: the same as one by one, however the work is cut into slices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amounts import examples
from battery import run_limited
from dvcodec.core.errors import CardinalityMismatch, NotCanonical
from dvcodec.core.limits import Limits
from dvcodec.zap.vellum import Fst, reader
from samples.zap.vellum import TOP, blob, dictionaries, doubling, follow, many, naive_build, one, opened

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
    monkeypatch.setattr(reader, "_ROOM", request.param)
    monkeypatch.setattr(reader, "_FEW", 0)
    return int(request.param)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dictionaries)
def test_blocks_are_the_dictionary(room: int, items: dict[bytes, int]) -> None:
    assert items_of(opened(naive_build(items))) == sorted(items.items())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dictionaries, st.sampled_from([0, 1, 2, 5, 300]))
def test_long_keys_go_one_by_one(room: int, items: dict[bytes, int], deep: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_DEEP", deep)
        assert items_of(opened(naive_build(items))) == sorted(items.items())


def test_a_block_ends_with_the_first_key_that_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_ROOM", 3 * 17)
    fst = opened(naive_build({b"%d" % i: i for i in range(10)}))
    assert [block.keys.to_list() for block in fst.blocks()] == [
        [b"0", b"1", b"2", b"3"],
        [b"4", b"5", b"6", b"7"],
        [b"8", b"9"],
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(20))
@given(st.integers(0, 2**32 - 1))
def test_larger_dictionaries(room: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    letters = np.frombuffer([b"ab", b"abcdefgh", bytes(range(256))][seed % 3], np.uint8)
    sizes = rng.integers(0, 7, 400)
    keys = sorted({rng.choice(letters, size).tobytes() for size in sizes})
    items = dict(zip(keys, rng.integers(0, TOP, len(keys), np.uint64, endpoint=True).tolist(), strict=True))
    assert items_of(opened(naive_build(items))) == list(items.items())


def test_wide_states(room: int) -> None:
    for count in [62, 63, 64, 65, 255, 256]:
        items = {bytes([i, j]): i << 56 | j for i in range(256 - count, 256) for j in (0, i)}
        assert items_of(opened(naive_build(items))) == sorted(items.items())


def test_few_keys_are_cut_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_ROOM", 1000)
    items = {b"%03d" % i + bytes(100): i for i in range(100)}
    blocks = list(opened(naive_build(items)).blocks())
    assert {len(block) for block in blocks[:-1]} == {9}
    assert [key for block in blocks for key in block.keys] == list(items)


def test_too_many_keys_are_stopped(room: int) -> None:
    for count in (1, 7, 8, 9, 100, 600):
        with pytest.raises(CardinalityMismatch, match=f"number of keys: expected {count}, found more") as caught:
            items_of(opened(doubling(200, count=count)))
        assert caught.value.offset == 1000 + 16 + 8 * 200


@pytest.mark.parametrize("count", [1, 2, 99, 255])
def test_too_many_of_few_keys_are_stopped_at_once(count: int) -> None:
    blocks = opened(doubling(200, count=count)).blocks()
    with pytest.raises(CardinalityMismatch, match=f"number of keys: expected {count}, found more"):
        next(blocks)


def test_too_few_keys(room: int) -> None:
    data = doubling(5, count=33)
    with pytest.raises(CardinalityMismatch, match="number of keys: expected 33, found 32"):
        items_of(opened(data))


def test_keys_that_share_everything(room: int) -> None:
    if room < 100:
        return
    found = items_of(opened(doubling(10)))
    assert len(found) == len(set(found)) == 1024
    assert found == sorted(found)
    assert found == list(opened(doubling(10)).range())


def test_a_long_chain_among_short_keys(room: int) -> None:
    items = {b"%04d" % i: i for i in range(300)} | {b"x" * 30_000: 1, b"x" * 299: 2, b"y": 3}
    assert items_of(opened(naive_build(items))) == sorted(items.items())


def test_errors_below(room: int) -> None:
    wrong = many([(2, 0, 0), (1, 0, 0)])
    data = blob(wrong + follow(97) * 300 + many([(i, 1 + i, 0) for i in range(250)]), 600)
    with pytest.raises(NotCanonical, match="input bytes of a state") as caught:
        items_of(opened(data))
    assert caught.value.offset == 1000 + 15 + len(wrong)


def test_memory_does_not_grow_with_the_keys() -> None:
    """Four million keys of 22 bytes, 88 MB, and more keys than a machine can hold, of 208 and 9000 bytes."""
    script = """
        from dvcodec import Limits
        from samples.zap.vellum import blob, doubling, many, one, opened
        comb = one(97, 0) + many([(97, 1, 0)], final=0, sizes=(1, 0)) * 2000
        wide = many([(i, 1, 0) for i in range(256)], sizes=(1, 0))
        huge = blob(comb + wide + wide, 2001 * 65536)
        fst, other = opened(doubling(22)), opened(huge, Limits(max_keys=2**28))
        cap()
        print(sum(len(block) for block in fst.blocks()))
        print(sum(len(block) for block, _ in zip(other.blocks(), range(50))) > 50_000)
    """
    assert run_limited(script, megabytes=60).split() == ["4194304", "True"]


def test_what_is_taken_at_once_is_limited() -> None:
    limits = Limits(max_blob_bytes=10_239)
    with pytest.raises(Exception, match=r"max_blob_bytes: expected at most 10239 .*, found 10240"):
        opened(doubling(10), limits).to_block()
    assert len(opened(doubling(10), Limits(max_blob_bytes=10_240)).to_block()) == 1024


def test_one_state_that_does_not_fit() -> None:
    """A single item is taken further whatever it grows to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_ROOM", 10)
        patch.setattr(reader, "_FEW", 0)
        data = blob(one(97, 0) + many([(i, 1, i) for i in range(256)]), 256)
        assert items_of(opened(data)) == [(bytes([i, 97]), i) for i in range(256)]

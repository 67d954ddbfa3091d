"""vellum: the same bytes of the same keys, and each reads what the other wrote."""

from __future__ import annotations

import json
import random
import re
import sysconfig
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amounts import examples
from dvcodec.core.cursor import Cursor
from dvcodec.zap.vellum import Fst, build
from interop.driver import GoVellum, from_text, to_text

pytestmark = pytest.mark.interop

Pairs = list[tuple[bytes, int]]
TOP = 2**64 - 1


def ours(pairs: Pairs) -> bytes:
    return build([key for key, _ in pairs], np.array([value for _, value in pairs], np.uint64))


def read(data: bytes) -> Pairs:
    """What dvcodec reads, at once and one by one."""
    block = Fst.open(Cursor(data)).to_block()
    found = list(zip(block.keys.to_list(), block.values.tolist(), strict=True))
    assert list(Fst.open(Cursor(data)).range()) == found
    return found


def words() -> list[bytes]:
    """All words of the standard library's sources, in order."""
    folder = Path(sysconfig.get_path("stdlib"))
    found: set[bytes] = set()
    for path in folder.glob("*.py"):
        found.update(re.findall(rb"\w+", path.read_bytes()))
    return sorted(found)


def random_keys(dice: random.Random, count: int) -> list[bytes]:
    return sorted({dice.randbytes(dice.randint(0, 12)) for _ in range(count)})


LARGE = (
    "random keys and values",
    "random keys, no values",
    "random keys, falling values",
    "words and addresses",
    "words and single hits",
    "numbers",
    "forgotten states",
)


@pytest.fixture(scope="module")
def large() -> dict[str, Pairs]:
    dice = random.Random(2)
    known = words()
    keys = random_keys(dice, 50_200)[:50_000]
    numbers = [b"\x20" + i.to_bytes(5, "big") for i in range(0, 2**40, 2**40 // 30_000)]
    return {
        "random keys and values": [(key, dice.getrandbits(dice.choice([1, 8, 31, 62, 64]))) for key in keys],
        "random keys, no values": [(key, 0) for key in keys],
        "random keys, falling values": [(key, TOP - i) for i, key in enumerate(keys)],
        "words and addresses": [(word, 100 + 37 * i) for i, word in enumerate(known)],
        "words and single hits": [(word, 1 << 63 | 7 << 31 | i) for i, word in enumerate(known)],
        "numbers": [(key, i * i) for i, key in enumerate(numbers)],
        # Many states that are equal but for their outputs, so that the registry forgets some.
        "forgotten states": [(b"%04d-%d-tail" % (i, j), i * j % 7) for i in range(6000) for j in range(5)],
    }


@pytest.mark.parametrize("name", LARGE)
def test_many_keys_give_the_same_bytes(vellum: GoVellum, large: dict[str, Pairs], name: str) -> None:
    pairs = large[name]
    assert len(pairs) > 10_000
    data = vellum.write(pairs)
    assert ours(pairs) == data
    assert vellum.read(data) == pairs
    assert read(data) == pairs


class Batch:
    """Many small sets of keys, in one process.

    Args:
        vellum: the program.
        folder: for its files.
    """

    def __init__(self, vellum: GoVellum, folder: Path) -> None:
        self.vellum, self.folder = vellum, folder

    def write(self, sets: Sequence[Pairs]) -> list[bytes]:
        paths = [(self.folder / f"{i}.pairs", self.folder / f"{i}.fst") for i in range(len(sets))]
        for (source, _), pairs in zip(paths, sets, strict=True):
            source.write_text("".join(json.dumps([to_text(key), value]) + "\n" for key, value in pairs))
        self.run([{"op": "vellum", "pairs": str(source), "out": str(result)} for source, result in paths])
        return [result.read_bytes() for _, result in paths]

    def read(self, blobs: Sequence[bytes]) -> Iterator[Pairs]:
        paths = [(self.folder / f"{i}.ours", self.folder / f"{i}.read") for i in range(len(blobs))]
        for (source, _), data in zip(paths, blobs, strict=True):
            source.write_bytes(data)
        self.run([{"op": "vellum-read", "path": str(source), "out": str(result)} for source, result in paths])
        for _, result in paths:
            yield [(from_text(key), value) for key, value in map(json.loads, result.read_bytes().splitlines())]

    def run(self, commands: list[dict[str, Any]]) -> None:
        assert [answer for answer in self.vellum.answers(commands) if "error" in answer] == []


KEYS = st.one_of(
    st.binary(max_size=8),
    st.text("ab", max_size=6).map(str.encode),
    st.text("te/oasr0\x00\x7f\xff", max_size=5).map(lambda text: text.encode("latin-1")),
    st.sampled_from([bytes([byte]) for byte in range(256)]),
    st.sampled_from([bytes([byte]) + b"/tail" for byte in range(256)]),
)
VALUES = st.one_of(
    st.just(0),
    st.integers(0, 3),
    st.integers(0, TOP),
    st.sampled_from([2**bits + more for bits in range(1, 64) for more in (-1, 0, 1)] + [TOP]),
)
SETS = st.lists(st.dictionaries(KEYS, VALUES, max_size=80), min_size=50, max_size=100)


def test_small_sets_of_keys_give_the_same_bytes(vellum: GoVellum, tmp_path: Path) -> None:
    batch = Batch(vellum, tmp_path)

    @settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
    @given(SETS)
    def check(found: list[dict[bytes, int]]) -> None:
        sets = [sorted(one.items()) for one in found]
        theirs = batch.write(sets)
        made = [ours(pairs) for pairs in sets]
        assert [i for i, (a, b) in enumerate(zip(made, theirs, strict=True)) if a != b] == []
        assert list(batch.read(made)) == sets
        assert [read(data) for data in theirs] == sets

    check()


def test_borders_give_the_same_bytes(vellum: GoVellum, tmp_path: Path) -> None:
    """No key, the empty one, and states of every number of transitions."""
    sets: list[Pairs] = [[], [(b"", 0)], [(b"", 5)], [(b"", TOP), (b"a", 0)], [(b"k" * 5000, 1)]]
    sets += [[(bytes([byte]), value) for byte in range(count)] for count in range(1, 257) for value in (0, 300)]
    sets += [[(b"", 7), *((bytes([byte]), byte) for byte in range(count))] for count in (1, 62, 63, 64, 255, 256)]
    # Outputs and distances of every size.
    sets += [[(b"a", 1), (b"b", 2**bits)] for bits in range(64)]
    sets += [list(chain([(b"a" * size + b"b", 3)], [(b"b" * 3, 4)])) for size in (1, 200, 300, 65_000, 66_000)]
    batch = Batch(vellum, tmp_path)
    theirs = batch.write(sets)
    assert [ours(pairs) for pairs in sets] == theirs
    assert list(batch.read(theirs)) == sets
    assert [read(data) for data in theirs] == sets

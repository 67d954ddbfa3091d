"""Loops that numba compiles, held against NumPy: the same values, the same errors, and no index outside an array.

They run as Python here, with arrays that watch each index, and compiled where numba is installed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples, of
from battery import outcome
from dvcodec import DecodeError
from dvcodec.core import jit
from dvcodec.core.cursor import Cursor
from dvcodec.core.ragged import gather
from dvcodec.core.varints import decode, encode, read_at, uvarints
from dvcodec.zap import Segment, kernels, vellum
from dvcodec.zap.columns import SCHEMAS
from dvcodec.zap.footer import Footer, SegmentData
from dvcodec.zap.postings import decode_postings, decode_records, encode_postings
from samples.zap.parts import SAMPLES
from samples.zap.postings import FIELDS, Lists, Posting, Sparse, cases, columns, rows
from samples.zap.vellum import blob, built, dictionaries, doubling, follow, many, one, opened

Found = list[Any]


class Watched(np.ndarray[Any, Any]):
    """An array that takes no index that a compiled loop would read or write outside it."""

    def __getitem__(self, index: Any) -> Any:
        self._watch(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._watch(index)
        super().__setitem__(index, value)

    def _watch(self, index: Any) -> None:
        places = index if isinstance(index, tuple) else (index,)
        assert len(places) == self.ndim
        for place, size in zip(places, self.shape, strict=True):
            if isinstance(place, slice):
                assert 0 <= int(place.start or 0) <= int(place.stop) <= size, f"{index} of shape {self.shape}"
                continue
            assert 0 <= int(place) < size, f"index {index} of an array of shape {self.shape}"


@contextmanager
def running(runs: Callable[..., Any] | None) -> Iterator[Found]:
    """Run kernels so, however little there is to do; yield what those of segments return."""
    found: Found = []

    def run(self: jit.Kernel[Any], *arguments: Any) -> Any:
        assert runs is not None
        result = runs(self, *arguments)
        if any(self is kernel for kernel in vars(kernels).values()):
            found.append(result)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "worth", lambda _: runs is not None)
        patch.setattr(jit.Kernel, "run", run)
        patch.setattr(vellum, "_FEW", -1)
        yield found


def as_python(kernel: jit.Kernel[Any], *arguments: Any) -> Any:
    with np.errstate(over="ignore"):  # the sums of values are modulo 2**64
        return kernel(*(one.view(Watched) if isinstance(one, np.ndarray) else one for one in arguments))


def as_compiled(kernel: jit.Kernel[Any], *arguments: Any) -> Any:
    return kernel.compiled(*arguments)


def with_numba() -> Any:
    pytest.importorskip("numba")
    return as_compiled


WAYS = [lambda: as_python, with_numba]
ways = pytest.mark.parametrize("way", WAYS, ids=["Python", "numba"])


def said(found: Any) -> Any:
    """Return what an outcome is compared by."""
    return (type(found), str(found)) if isinstance(found, DecodeError) else found


def same(read: Callable[[bytes], Any], data: bytes, runs: Callable[..., Any]) -> tuple[Any, Found]:
    """Read with kernels what is read without them; return that, and what the kernels returned."""
    with running(None):
        expected = said(outcome(read, data))
    with running(runs) as found:
        assert said(outcome(read, data)) == expected
    return expected, found


def worsened(data: bytes, seed: int) -> bytes:
    """Bytes with one or two of them changed, mostly by one bit."""
    draw, out = random.Random(seed), bytearray(data)
    for _ in range(draw.choice((1, 1, 2))):
        out[draw.randrange(len(out))] ^= draw.choice((1 << draw.randrange(8), draw.randrange(1, 256)))
    return bytes(out)


# ---------------------------------------------------------------------- dictionaries


def keys(data: bytes) -> Any:
    block = opened(data).to_block()
    return block.keys.to_list(), block.values.tolist()


@ways
@settings(max_examples=examples(50))
@given(dictionaries, st.integers(0, 2**32))
def test_dictionaries(way: Any, items: dict[bytes, int], seed: int) -> None:
    data, runs = built(items), way()
    expected, found = same(keys, data, runs)
    assert expected == (sorted(items), [value for _, value in sorted(items.items())])
    assert found == [0] * bool(items)
    for k in range(4):
        same(keys, worsened(data, seed + k), runs)


def cut(data: bytes) -> bytes:
    """The same states and footer, but for one byte in between."""
    return data[:-17] + data[-16:]


ODD_ONES = {
    "next, at the first address": blob(follow(ord("q")), 1),
    "one, into the header": blob(one(ord("q"), 3), 1),
    "many, below the header": blob(many([(1, 200, 0)], sizes=(1, 8)), 1),
    "sizes above 8": blob(bytes((1, 0x99, 1)), 1),
    "no transition": blob(many(final=1) + many([(1, 1, 0)]) + many(), 1),
    "descending": blob(many([(2, 0, 0), (1, 0, 0)]), 2),
    "fewer keys": doubling(5, count=40),
    "more keys": doubling(5, count=30),
    "256 transitions": blob(many([(k, 0, k) for k in range(256)]), 256),
    "a loop backwards": blob(many([(1, 0, 0)]) + many([(1, 1, 0), (2, 5, 3)], final=2), 2),
}


@ways
def test_odd_dictionaries(way: Any) -> None:
    runs = way()
    for data in ODD_ONES.values():
        same(keys, data, runs)
        same(keys, cut(data), runs)


@ways
@pytest.mark.parametrize(
    ("room", "slots", "deepest"), [(64, 1 << 18, 1 << 16), (1 << 22, 3, 1 << 16), (64, 3, 1 << 16), (64, 7, 5)]
)
def test_dictionaries_of_many_blocks(
    way: Any, room: int, slots: int, deepest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop stops for each block, and in front of a key that is too long for it."""
    for name, value in (("_ROOM", room), ("_SLOTS", slots), ("_DEEPEST", deepest)):
        monkeypatch.setattr(vellum, name, value)
    items = {b"%d" % (k * k): k for k in range(100)} | {b"98longer than the others": 2**63}
    expected, found = same(keys, built(items), way())
    assert expected[0] == sorted(items)
    assert kernels.FULL in found
    assert found[-1] == (kernels.ODD if deepest == 5 else 0)


@ways
@settings(max_examples=examples(50))
@given(dictionaries)
def test_dictionaries_are_written(way: Any, items: dict[bytes, int]) -> None:
    keys, values = sorted(items), np.array([items[key] for key in sorted(items)], np.uint64)
    with running(way()) as found:
        written = vellum.build(keys, values)
    assert len(found) == 1
    assert written == vellum.build(keys, values)


@ways
def test_dictionaries_that_outgrow_their_buffer_are_written(way: Any) -> None:
    """The loop stops where the next state may not fit, and starts again with twice the room."""
    rng = np.random.default_rng(2)
    for high in (1, 2**64 - 1):
        keys = sorted({bytes(key) for key in rng.integers(0, 256, (700, 2), np.uint8)})
        values = rng.integers(0, high, len(keys), np.uint64, endpoint=True)
        with running(way()) as found:
            written = vellum.build(keys, values)
        assert ((kernels.FULL, kernels.ODD) in found) == (high > 1)
        assert written == vellum.build(keys, values)


# ---------------------------------------------------------------------- numbers and pieces


def numbers(data: bytes) -> Any:
    """All varints, and one from each byte on, as it is in the middle of a segment."""
    window = Cursor(data)
    starts = np.arange(len(data))
    return [
        [column.tolist() for column in found] for found in (decode(window, "numbers"), read_at(window, starts, "one"))
    ]


@ways
@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 300)), st.integers(0, 2**32))
def test_numbers(way: Any, values: list[int], seed: int) -> None:
    runs, data = way(), b"".join(map(uvarints, values))
    with running(runs):
        encoded, sizes = encode(np.array(values, np.uint64))
        assert (encoded.tobytes(), sizes.tolist()) == (data, [len(uvarints(value)) for value in values])
    same(numbers, data, runs)
    if data:
        same(numbers, worsened(data, seed), runs)


@ways
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9))), st.sampled_from([np.uint8, np.int64, np.uint64]))
def test_pieces(way: Any, pieces: list[tuple[int, int]], dtype: Any) -> None:
    values = np.arange(60).astype(dtype)
    starts, lengths = (np.array([piece[k] for piece in pieces], np.int64) for k in range(2))
    with running(way()):
        assert gather(values, starts, lengths).tolist() == [k for at, n in pieces for k in range(at, at + n)]
        if any(at + n > 55 for at, n in pieces):
            with pytest.raises(IndexError):
                gather(values[:55], np.append(starts, 0), np.append(lengths, 0))


# ---------------------------------------------------------------------- postings


def lists(raw: bytes, values: np.ndarray[Any, Any], footer: Footer, locations: bool) -> Any:
    data = SegmentData(Sparse(0, raw), len(raw))
    return rows(decode_postings(data, footer, FIELDS, decode_records(data, footer, values), locations=locations))


@ways
@settings(max_examples=examples(50))
@given(cases(), st.integers(0, 2**32), st.booleans())
def test_postings(way: Any, case: tuple[Footer, Lists], seed: int, locations: bool) -> None:
    footer, drawn = case
    raw, values = encode_postings(footer, columns(drawn), 0)
    read, runs = partial(lists, values=values, footer=footer, locations=locations), way()
    expected, _ = same(read, raw.tobytes(), runs)
    assert expected == drawn or not locations
    for k in range(4 if drawn else 0):
        same(read, worsened(raw.tobytes(), seed + k), runs)
        same(read, raw.tobytes()[: seed % (len(raw) + 1)], runs)


def test_the_loops_take_what_writers_write() -> None:
    """Not more than they have to is left to NumPy."""
    drawn = [
        [Posting(doc, 2, 7, ((1, 1, 0, 4, ()), (2, 9, 5, 300, (1,)))) for doc in (0, 5, 70, 2000)],
        [Posting(9, 1, 3)],
    ]
    for version in range(12, 18):
        footer = Footer(version, 3000, 0, 0, None, 1024)
        raw, values = encode_postings(footer, columns(drawn), 0)
        read = partial(lists, values=values, footer=footer, locations=True)
        expected, found = same(read, raw.tobytes(), as_python)
        assert (expected, found) == (drawn, [0, (8, 4)])


# ---------------------------------------------------------------------- whole segments


def tables(data: bytes) -> Any:
    pa = pytest.importorskip("pyarrow")
    with Segment.open(data, verify_checksum=False) as segment:
        return [pa.Table.from_batches(segment.to_arrow(table), SCHEMAS[table]) for table in ("terms", "locations")]


@ways
def test_segments(way: Any, vectors: Path) -> None:
    run, rng = way(), random.Random(1)
    for name in SAMPLES[:: of(3, 1)]:
        data = (vectors / "zap" / f"{name}.zap").read_bytes()
        expected, found = same(tables, data, run)
        assert not isinstance(expected, tuple), name
        assert found.count(0) > len(found) // 2
        for _ in range(of(1, 300)):
            same(tables, worsened(data, rng.randrange(1 << 30)), run)
            at = rng.randrange(len(data) - 100)
            same(tables, data[:at] + data[at + rng.randrange(100) :], run)

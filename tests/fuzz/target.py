"""What a fuzz target is, and what several of them need. Nothing here needs atheris.

The invariant: any bytes whatever end in a value or a `DecodeError`. Where a value comes out, a target holds a law over
it: the value is what the bytes say, and it can be written and read again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from dvcodec import DecodeError, Limits, RowSet
from dvcodec.io import source as sources

T = TypeVar("T")
Mutate = Callable[[bytes, int], bytes]
"""Bytes and how many there may be -> other bytes: what the fuzzer does to them."""

LIMITS = Limits(
    max_vector_bytes=1 << 16,
    max_cardinality=1 << 34,
    max_records=256,
    max_blob_bytes=1 << 18,
    max_metadata_bytes=1 << 18,
    max_keys=1 << 12,
)
"""Small ones: an input is a few kilobytes, and what it asks for beyond these is refused in time."""
MANY = 1 << 12
"""Rows, keys or documents above which a law looks at the ends only."""


@dataclass(frozen=True, slots=True)
class Target:
    """One target.

    Attributes:
        name: what it is called on the command line.
        about: what it drives, in a few words.
        run: takes any bytes; returns, or raises `DecodeError`. Whatever else it raises is a finding.
        seeds: valid inputs, small ones.
        mend: makes lengths and checksums of damaged bytes fit again, so that what is behind them is reached.
        mutate: changes bytes as their structure allows it.
        max_len: bytes of an input.
        keeps_size: whether half of the changes leave everything where it is: what is found by addresses.
        needs_space: whether other libraries run along, whose memory is not ours to bound.
        kinds: of a differential target: differences found so far, by kind.
    """

    name: str
    about: str
    run: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    mend: Callable[[bytes], bytes] | None = None
    mutate: Callable[[bytes, random.Random, Mutate], bytes] | None = None
    max_len: int = 1024
    keeps_size: bool = False
    needs_space: bool = False
    kinds: dict[str, dict[str, Any]] | None = None


def must(decode: Callable[..., T], *args: Any, **options: Any) -> T:
    """Decode what has to be valid."""
    try:
        return decode(*args, **options)
    except DecodeError as error:
        raise AssertionError(f"what was written or accepted before is refused: {error}") from error


def check_rows(rows: RowSet) -> None:
    """Hold what a row set says of itself against what it holds."""
    count = rows.cardinality
    assert 0 <= count <= LIMITS.max_cardinality
    assert bool(rows) == bool(count)
    ranges = rows.ranges()
    assert int((ranges[:, 1] - ranges[:, 0]).sum()) == count
    assert (ranges[1:, 0] > ranges[:-1, 1]).all()
    if not count:
        assert rows.min is None
        assert rows.max is None
        return
    assert (rows.min, rows.max) == (int(ranges[0, 0]), int(ranges[-1, 1]) - 1)
    if count <= MANY:
        values = rows.to_numpy()
        assert len(values) == count
        assert (np.diff(values) > 0).all()
        assert RowSet(values) == rows


@contextmanager
def held(files: Mapping[str, bytes]) -> Iterator[None]:
    """Have paths open as these bytes, without a file system."""

    def source(path: str, data: bytes) -> Any:
        return sources._RangeSource(path, len(data), lambda offset, size: memoryview(data)[offset : offset + size])

    token = sources._HELD.set(MappingProxyType({path: source(path, data) for path, data in files.items()}))
    try:
        yield
    finally:
        sources._HELD.reset(token)


def overwrite(data: bytes, rng: random.Random) -> bytes:
    """Change some bytes in their places: a bit, a value, an address nearby, or a copy of other bytes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not out:
            break
        at = rng.randrange(len(out))
        what = rng.randrange(5)
        if what == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            out[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
        elif what == 2:
            out[at] = (out[at] + rng.choice((-2, -1, 1, 2))) & 0xFF
        elif what == 3:
            width = rng.choice((2, 4, 8))
            start = rng.randrange(len(out))
            piece = out[start : start + width]
            out[at : at + len(piece)] = piece
        else:
            width = rng.choice((2, 4, 8))
            value = rng.choice((0, 1, len(out), len(out) - 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1))
            piece = bytearray((value & (256**width - 1)).to_bytes(width, rng.choice(("little", "big"))))
            out[at : at + len(piece)] = piece
        del out[len(data) :]
    return bytes(out)


def mutated(
    target: Target, data: bytes, max_size: int, seed: int, mutate: Mutate, seeds: Sequence[bytes] = ()
) -> bytes:
    """Change an input the way that suits the target: by its structure, in its places or anyhow; mend half of them.

    Now and then it begins anew from a seed: what was changed five times over is refused early.
    """
    rng = random.Random(seed)
    if seeds and rng.random() < 0.25:
        data = rng.choice(seeds)
    if target.mutate is not None and rng.random() < 0.5:
        data = target.mutate(data, rng, mutate)
    elif target.keeps_size and rng.random() < 0.5:
        data = overwrite(data, rng)
    else:
        data = mutate(data, max_size)
    if target.mend is not None and rng.random() < 0.5:
        data = target.mend(data)
    return data[:max_size]

"""Checks that every decoder has to pass: a new format gets them all in a few lines.

The invariant: any bytes whatever end in a value or a `DecodeError`, never in another exception. A `Format` gives the
battery what it has to know of a decoder, and `CHECKS` are what it does with it (see ``test_battery.py``); the functions
they are made of serve the tests of single formats too.
"""

from __future__ import annotations

import copy
import gc
import mmap
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest

from dvcodec import DecodeError, LimitExceeded, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, LIMITS, Limits

T = TypeVar("T")
Decode = Callable[[bytes], T]
_THREADS = 4
_ROUNDS = 6


def outcome(decode: Decode[T], data: bytes) -> T | DecodeError:
    """Decode; a `DecodeError` is an outcome too. Any other exception breaks the invariant and escapes."""
    try:
        return decode(data)
    except DecodeError as error:
        assert str(error), "an error says what is wrong"
        return error


def check_truncations(
    decode: Decode[T], data: bytes, *, allowed: Callable[[T, int], bool] | None = None, every: int = 1
) -> None:
    """Every proper prefix is refused, unless `allowed` says that the value is right for that length."""
    for size in range(0, len(data), every):
        found = outcome(decode, data[:size])
        if not isinstance(found, DecodeError):
            assert allowed is not None, f"{size} of {len(data)} bytes were accepted"
            assert allowed(found, size), f"{size} of {len(data)} bytes were accepted"


class Flips(NamedTuple):
    """What became of single-bit flips: errors, the same value, another value."""

    refused: int
    harmless: int
    other: int


def flipped(data: bytes, *bits: int) -> bytes:
    """The same bytes but for some bits."""
    damaged = bytearray(data)
    for bit in bits:
        damaged[bit >> 3] ^= 1 << (bit & 7)
    return bytes(damaged)


class Recorder:
    """A source that remembers its reads: (offset, size)."""

    def __init__(self, data: bytes) -> None:
        self.name, self.size = "recorded", len(data)
        self.reads: list[tuple[int, int]] = []
        self._data = memoryview(data)

    def read(self, offset: int, size: int) -> memoryview:
        if not 0 <= offset <= offset + size <= self.size:
            raise Truncated("byte range", source=self.name, offset=offset)
        self.reads.append((offset, size))
        return self._data[offset : offset + size]


def flip_bits(decode: Decode[T], data: bytes, *, every: int = 1) -> Flips:
    """Flip every single bit, each for itself; or one of `every` so many."""
    value = decode(data)
    refused = harmless = 0
    bits = range(0, 8 * len(data), every)
    for bit in bits:
        found = outcome(decode, flipped(data, bit))
        if isinstance(found, DecodeError):
            refused += 1
        else:
            harmless += bool(found == value)
    return Flips(refused, harmless, len(bits) - refused - harmless)


def check_trailing(decode: Decode[T], data: bytes, *, again: bool = True) -> None:
    """Bytes after the end are refused, and (`again`) the same bytes once more."""
    for extra in (b"\x00", b"\xff", bytes(1000), *([data] if again else ())):
        assert isinstance(outcome(decode, data + extra), DecodeError), f"{len(extra)} bytes more were accepted"


def check_buffers(decode: Callable[..., T], data: bytes) -> None:
    """Every kind of buffer gives the same value."""
    value = decode(data)
    assert decode(bytearray(data)) == value
    assert decode(memoryview(data)) == value
    assert decode(np.frombuffer(data, np.uint8)) == value


def name_of(value: object) -> str:
    """A short name of a parameter that is the same in every process: no addresses of objects."""
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(value).split()))[:60]


# ---------------------------------------------------------------------------------------------------- whole formats


@dataclass(frozen=True)
class Without:
    """Said where a format lacks what a check needs: the check does nothing then."""

    because: str

    def __post_init__(self) -> None:
        assert self.because, "a reason is asked for"


@contextmanager
def lowered(limits: Limits) -> Iterator[None]:
    """Lower the default limits themselves, for decoders that take no others."""
    before = {name: getattr(DEFAULT_LIMITS, name) for name in LIMITS}
    for name in before:
        object.__setattr__(DEFAULT_LIMITS, name, getattr(limits, name))
    try:
        yield
    finally:
        for name, value in before.items():
            object.__setattr__(DEFAULT_LIMITS, name, value)


@dataclass(frozen=True)
class Format:
    """What the battery has to know of a decoder.

    Attributes:
        name: for the test's name.
        decode: bytes (and keyword `limits`, if there are any) to a value.
        data: what a released writer, or else ours, made of a value: valid, and small.
        encode: value to bytes, which have to be `data` again; None where a reader has no writer of its own.
        read: value to what can be compared: all that it holds.
        checksum: whether every single-bit flip has to be refused, or give the same value.
        framed: whether every proper prefix, and every byte more, has to be refused; False for formats that have no end.
        limits: name in `Limits` -> too low a value; or why no limit is needed.
        from_end: whether a file is read from its end, so that something before it does no harm.
        lazy: whether the value goes on reading the bytes that it came from (and cannot be pickled).
        buffers: None, or why the decoder takes no buffers: text or a path, and it is wrapped here to take bytes.
        every: for large formats without a checksum: one of so many bits is flipped, one of so many prefixes tried.
    """

    name: str
    decode: Callable[..., Any]
    data: bytes = field(repr=False)
    encode: Callable[[Any], bytes] | None = None
    read: Callable[[Any], Any] = lambda value: value
    checksum: bool = False
    framed: bool = True
    from_end: bool = False
    limits: Mapping[str, int] | Without = field(kw_only=True)
    lazy: bool = False
    buffers: Without | None = None
    every: int = 1

    def __post_init__(self) -> None:
        assert self.limits, f"{self.name}: limits, or why there are none"
        assert not self.checksum or self.every == 1, f"{self.name}: every flip of a format with a checksum is tried"

    def value(self, data: Any) -> Any:
        """All that the value of some bytes holds."""
        return self.read(self.decode(data))


def check_round_trip(item: Format) -> None:
    """The value encodes to the bytes that it came from, and these decode to the value."""
    value = item.decode(item.data)
    if item.encode is None:
        assert item.read(value) == item.value(item.data)
        return
    data = item.encode(value)
    assert data == item.data
    assert item.value(data) == item.read(value)


def check_cuts(item: Format) -> None:
    """No prefix is taken for the whole."""
    check_truncations(item.value, item.data, allowed=None if item.framed else lambda *_: True, every=item.every)


def check_more(item: Format) -> None:
    """Nothing may follow the end, in formats that have one."""
    if item.framed:
        check_trailing(item.value, item.data, again=not item.from_end)
    for extra in (b"\x00", b"\xff", item.data):
        outcome(item.value, item.data + extra)


@contextmanager
def _collected() -> Iterator[None]:
    """Collect what was made meanwhile, and do not look at all the rest."""
    gc.freeze()
    try:
        yield
        gc.collect()
    finally:
        gc.unfreeze()


def check_every_buffer(item: Format) -> None:
    """Every kind of buffer gives the same value; one that is not contiguous is the caller's error."""
    value, data = item.value(item.data), item.data
    if item.buffers is not None:
        return
    for buffer in (
        bytearray(data),
        memoryview(data),
        memoryview(bytearray(data)).toreadonly(),
        memoryview(b"x" + data + b"x")[1:-1],
        array("B", data),
        np.frombuffer(data, np.uint8),
        np.frombuffer(bytearray(data), np.int8),
        np.frombuffer(data + b"x" * len(data), np.uint8)[: len(data)],
    ):
        assert item.value(buffer) == value, type(buffer)
    spread = np.repeat(np.frombuffer(data, np.uint8), 2)
    for buffer in (spread[::2], memoryview(spread.tobytes())[::2], np.frombuffer(data, np.uint8)[::-1]):
        with pytest.raises(UsageError, match="contiguous"):
            item.decode(buffer)
    with mmap.mmap(-1, len(data)) as mapped, _collected():  # what is left in circles looks at it no more
        mapped[:] = data
        assert item.value(mapped) == value


def check_independence(item: Format) -> None:
    """A value keeps nothing of the buffer that it came from: it stays what it is, and the buffer may go."""
    if item.lazy:
        return
    expected = item.value(item.data)
    buffer = bytearray(item.data)
    with _collected():
        value = item.decode(buffer)
        buffer[:] = bytes(len(buffer))
        assert item.read(value) == expected
    buffer.clear()  # a BufferError if anything still looks at it


def check_limits(item: Format) -> None:
    """Each limit is kept, and its error names it."""
    if isinstance(item.limits, Without):
        return
    for name, low in item.limits.items():
        with pytest.raises(LimitExceeded, match=rf"Limits\.{name}"):
            item.read(item.decode(item.data, limits=Limits(**{name: low})))


def check_threads(item: Format) -> None:
    """Several threads that read one value at once, from the first time on, get what one alone gets."""
    expected = item.value(item.data)
    for _ in range(_ROUNDS):
        value = item.decode(item.data)
        found: list[Any] = []
        gate = threading.Barrier(_THREADS)

        def work(value: Any = value, gate: threading.Barrier = gate, found: list[Any] = found) -> None:
            gate.wait()
            found.append(item.read(value))

        threads = [threading.Thread(target=work) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [expected] * _THREADS


def check_pickling(item: Format) -> None:
    """A value crosses processes, and copies, as it is; what reads on from its bytes says that it cannot."""
    value = item.decode(item.data)
    if item.lazy:
        with pytest.raises(TypeError, match=r"pickle|copy"):
            pickle.dumps(value)
        return
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert item.read(pickle.loads(pickle.dumps(value, protocol))) == item.read(value)
    assert item.read(copy.deepcopy(value)) == item.read(copy.copy(value)) == item.read(value)


def check_repr_and_hash(item: Format) -> None:
    """Equal values look alike, on one line without addresses; and have one hash, or say that they have none."""
    one, other = item.decode(item.data), item.decode(bytearray(item.data))
    assert repr(one)
    assert "\n" not in repr(one) or isinstance(one, np.ndarray)
    if item.lazy:
        return
    assert repr(one) == repr(other)
    assert " at 0x" not in repr(one)
    for value in one if isinstance(one, Sequence) else [one]:
        if _has_hash(value):
            assert hash(value) == hash(copy.deepcopy(value)) == hash(pickle.loads(pickle.dumps(value)))
            assert len({value, copy.deepcopy(value)}) == 1


def _has_hash(value: object) -> bool:
    """Whether it is immutable, and so is what it holds."""
    try:
        hash(value)
    except TypeError as error:
        assert str(error).startswith("unhashable type"), error
        return False
    return True


CHECKS: dict[str, Callable[[Format], None]] = {
    "round trip": check_round_trip,
    "cut anywhere": check_cuts,
    "bytes more": check_more,
    "buffers": check_every_buffer,
    "independence": check_independence,
    "limits": check_limits,
    "threads": check_threads,
    "pickling": check_pickling,
    "repr and hash": check_repr_and_hash,
}
"""What each format has to pass; flips of bits are counted, and for themselves."""


def run_limited(script: str, *, megabytes: int) -> str:
    """Run a script in a Python of its own that may take `megabytes` more than its imports did; return its output.

    The address space is capped, so that memory which is asked for but never touched counts as well.
    """
    preamble = f"""
        import resource
        from pathlib import Path
        import numpy as np
        import pyarrow, cramjam
        import dvcodec
        from samples import bitmaps
        from dvcodec import DecodeError, RowSet
        from dvcodec.core import compress, roaring, vector
        from dvcodec.core.cursor import Cursor

        def cap():
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (used + {megabytes << 20}, most))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(preamble) + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

"""What a case is, and the rows of the tables in `limits/cases`: an entry point, one input, and the expected end.

A case is built first, without limits, which gives the call that is then made in little memory: `attack.py` makes it,
`test_limits.py` compares the result with what the case expects.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from battery import lowered
from dvcodec import Limits, NotCanonical
from dvcodec.io import source as sources
from samples.bombs import BOMB, MEGA

Run = Callable[[], object]
Inputs = dict[str, Callable[[], bytes]]
VECTORS_OF = Path(__file__).parent.parent / "vectors"
SMALL = Limits(
    max_vector_bytes=32 * MEGA,
    max_blob_bytes=32 * MEGA,
    max_metadata_bytes=4 * MEGA,
)
"""Well below the cap on memory, so that a limit and not the cap refuses."""
ASKED = 2 * MEGA
"""Bytes that may be asked of a file that is refused by its size: its ends, or a first piece."""
NO_MEMORY = "LimitExceeded: .*: memory: expected enough for"

# ----------------------------------------------------------------------------------------------------- what is expected


@dataclass(frozen=True)
class Expected:
    """What must come of a case: a `DecodeError` whose ``type: text`` begins with a pattern, or a value."""

    pattern: str = f"(?!{NO_MEMORY})"
    outcome: str = "refused"


REFUSED = Expected()
"""By a check of the decoder: any `DecodeError` but the one of memory that is not there."""


def error(pattern: str) -> Expected:
    """By this error and no other."""
    return Expected(pattern)


def limit(name: str, most: int | None = None) -> Expected:
    """By one of `Limits`, by default at its value in `SMALL`: what bombs are refused by, before they are unpacked."""
    value = getattr(SMALL, name) if most is None else most
    return Expected(rf"LimitExceeded: .*Limits\.{name}: expected at most {value}\b")


def no_memory(why: str) -> Expected:
    """The default limits allow it, and the cap on memory does not: an error of the library, and not a crash."""
    assert why
    return Expected(NO_MEMORY)


def accepted(why: str) -> Expected:
    """A value, soon and in little memory."""
    assert why
    return Expected("$", "accepted")


# ------------------------------------------------------------------------------------------------------ rows of a table


@dataclass(frozen=True)
class Case:
    """One input for one entry point: `build` makes the input and returns the call.

    `make` makes the input by itself, where it is bytes.
    """

    name: str
    build: Callable[[], Run]
    expected: Expected = REFUSED
    make: Callable[[], bytes] | None = None


def case(
    entry: str, decode: Callable[[bytes], object], what: str, make: Callable[[], bytes], expected: Expected = REFUSED
) -> Case:
    """An entry point and one input."""

    def build() -> Run:
        data = make()
        return lambda: decode(data)

    return Case(f"{entry}: {what}", build, expected, make)


def cases(
    entry: str, decode: Callable[[bytes], object], inputs: Inputs, expected: Expected = REFUSED
) -> tuple[Case, ...]:
    """An entry point and inputs that must end alike."""
    return tuple(case(entry, decode, what, make, expected) for what, make in inputs.items())


def large_file(entry: str, read: Callable[[str], object], path: Callable[[], str], expected: Expected) -> Case:
    """A reader of a file that is larger than its limit: it must be refused before its bytes are asked for."""

    def build() -> Run:
        place = path()

        def run() -> None:
            with lowered(SMALL), at_most(ASKED):
                read(place)

        return run

    return Case(f"large file: {entry}", build, expected)


@contextmanager
def at_most(most: int) -> Iterator[None]:
    """Count the bytes that are asked of sources; more than so many are an error of another type."""
    asked = 0
    original = sources._RangeSource.read

    def read(self: Any, offset: int, size: int) -> memoryview:
        nonlocal asked
        asked += size
        if asked > most:
            raise AssertionError(f"{asked} bytes were asked for")
        return original(self, offset, size)

    sources._RangeSource.read = read  # type: ignore[method-assign]
    try:
        yield
    finally:
        sources._RangeSource.read = original  # type: ignore[method-assign]


# --------------------------------------------------------------------------------------------------------- entry points


def by_path(name: str, read: Callable[[str], object]) -> Callable[[bytes], object]:
    """A decoder of a file of that name that takes no limits: the default ones are lowered."""

    def decode(data: bytes) -> object:
        path = saved(data, name)
        with lowered(SMALL):
            return read(path)

    return decode


def drained(values: Any) -> int:
    return sum(1 for _ in values)


def refuse(found: object) -> None:
    """A verifier that finds nothing wrong accepts."""
    if not found:
        what = "finding"
        raise NotCanonical(what)


def saved(data: bytes, name: str) -> str:
    """The path of a file of these bytes."""
    path = Path(tempfile.mkdtemp()) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return str(path)


def large(head: bytes, name: str, *, tail: bytes = b"") -> str:
    """The path of a file with a hole in it, larger than the cap."""
    path = saved(head, name)
    os.truncate(path, BOMB)
    with open(path, "ab") as file:  # noqa: PTH123  (what `Path.open` is too)
        file.write(tail)
    return path

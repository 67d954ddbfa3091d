"""The laws that every format has to keep, for the tests of packages that add one.

Each law is a function of a `Case`, which raises an `AssertionError` that says what was broken by which bytes::

    import pytest
    from dvcodec.testing import LAWS, Case
    from varset import FORMAT

    CASE = Case(FORMAT, golden={bytes.fromhex("767301 01 05 f94289a1"): [5]}, corrupt=[b"vs"])

    @pytest.mark.parametrize("law", LAWS)
    def test_law(law):
        LAWS[law](CASE)

Formats of dvcodec itself keep them too.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dvcodec.core.errors import DecodeError, LimitExceeded, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet
from dvcodec.formats import HEAD_BYTES, Format
from dvcodec.io import open_source
from dvcodec.ops.convert import convert
from dvcodec.ops.read import BUILT_IN, format_named, sniff
from dvcodec.ops.verify import verify

__all__ = ["LAWS", "Case"]

_SMALL = 2048
"""Bytes up to which every prefix and every flipped bit of a file is tried."""
_SHOWN = 40


@dataclass(frozen=True)
class Case:
    """A format, and the files that its documentation promises.

    Attributes:
        format: the format.
        golden: valid files, as its documented writer makes them, to their rows (of all their vectors).
        corrupt: files that have to be refused.
    """

    format: Format
    golden: Mapping[bytes, Iterable[int]]
    corrupt: Sequence[bytes] = field(default=())

    def read(self, data: bytes, limits: Limits = DEFAULT_LIMITS) -> RowSet:
        """Return the rows of all vectors of a file.

        Raises:
            DecodeError: the file is corrupt.
        """
        return RowSet().union(*self.vectors(data, limits))

    def vectors(self, data: bytes, limits: Limits = DEFAULT_LIMITS) -> list[RowSet]:
        """Return the rows of each vector of a file, in file order.

        Raises:
            DecodeError: the file is corrupt.
        """
        with open_source(data) as source:
            vectors = self.format.open(source, limits).vectors
            return [self.format.read(source, ref, limits).load() for ref in vectors]

    def samples(self) -> Iterator[tuple[bytes, RowSet]]:
        """Yield valid files with their rows: the golden ones, and the sets of `row_sets` encoded."""
        yield from ((data, RowSet(rows)) for data, rows in self.golden.items())
        if self.format.encode is not None:
            yield from ((self.format.write(rows), rows) for rows in row_sets(self.format.highest))


def row_sets(highest: int) -> list[RowSet]:
    """Return sets of rows that formats get wrong: at the edges of bytes, words and containers, dense, sparse and long.

    Args:
        highest: the highest row that fits.
    """
    edges = [edge + step for bits in (7, 8, 11, 14, 16, 31, 32, 48) for edge in [1 << bits] for step in (-1, 0, 1)]
    chosen = random.Random(20)  # noqa: S311  (the same in every run)
    sparse = sorted(chosen.sample(range(1 << 20), 500))
    sets: tuple[Sequence[int], ...] = (
        [],
        [0],
        [1],
        [highest],
        edges,
        sparse,
        range(5),
        range(3, 300),
        range(65_500, 66_100),
        range(0, 9000, 2),
    )
    fitting = [RowSet([row for row in rows if row <= highest]) for rows in sets]
    return list(dict.fromkeys(fitting))


def _demand(kept: bool, what: str, data: bytes = b"") -> None:
    if not kept:
        raise AssertionError(f"{what}: {data[:_SHOWN].hex(' ')}{' ..' if len(data) > _SHOWN else ''}" if data else what)


def _outcome(case: Case, data: bytes) -> RowSet | None:
    """Return the rows of any bytes, None if they are refused; another exception escapes."""
    try:
        return case.read(data)
    except DecodeError:
        return None


def _is_written(case: Case, data: bytes, rows: RowSet) -> bool:
    """Whether the format writes just these bytes."""
    return case.format.encode is not None and case.format.write(rows) == data


def golden_files(case: Case) -> None:
    """Each golden file has its rows, and is what the format writes; each corrupt one is refused."""
    _demand(bool(case.golden), "there are golden files")
    for data, rows in case.golden.items():
        found = RowSet(rows)
        _demand(case.read(data) == found, "a golden file has its rows", data)
        if case.format.encode is not None:
            _demand(case.format.write(found) == data, "the rows of a golden file are encoded as this file", data)
    for data in case.corrupt:
        _demand(_outcome(case, data) is None, "a corrupt file is refused", data)


def round_trip(case: Case) -> None:
    """Rows are read back as they were written; those that do not fit are a `UsageError`."""
    for data, rows in case.samples():
        _demand(case.read(data) == rows, f"rows up to {rows.max} are read back as they were written", data)
    if case.format.encode is not None and case.format.highest < 2**64 - 1:
        try:
            data = case.format.write(RowSet([case.format.highest + 1]))
        except UsageError:
            return
        _demand(False, "a row above the highest is a UsageError", data)


def truncation(case: Case) -> None:
    """A proper prefix is refused, unless the format writes it for the rows that it is read as."""
    for data, _ in case.samples():
        for size in range(len(data) if len(data) <= _SMALL else 0):
            found = _outcome(case, data[:size])
            kept = found is None or _is_written(case, data[:size], found)
            _demand(kept, f"the first {size} of {len(data)} bytes are refused", data)


def trailing_bytes(case: Case) -> None:
    """Bytes after the end are refused, unless the format writes the whole."""
    for data, _ in case.samples():
        for more in (b"\0", b"\xff", bytes(100), data):
            found = _outcome(case, data + more) if more else None
            kept = found is None or _is_written(case, data + more, found)
            _demand(kept, f"{len(more)} bytes after the end are refused", data)


def flipped_bits(case: Case) -> None:
    """A file with one flipped bit is read or refused, without another exception; refused, if there is a checksum."""
    for data, _ in case.samples():
        for bit in range(8 * len(data) if len(data) <= _SMALL // 8 else 0):
            damaged = bytearray(data)
            damaged[bit >> 3] ^= 1 << (bit & 7)
            found = _outcome(case, bytes(damaged))
            _demand(found is None or not case.format.checksum, f"bit {bit & 7} of byte {bit >> 3}, flipped", data)


def any_bytes(case: Case) -> None:
    """Arbitrary bytes are read or refused, without another exception, also after the first bytes of a valid file."""
    chosen = random.Random(21)  # noqa: S311
    heads = [b"", *(data[:size] for data in case.golden for size in (1, 2, 4, 8, 12))]
    for head in heads:
        for size in (0, 1, 3, 8, 17, 64, 300):
            _outcome(case, head + chosen.randbytes(size))


def limits(case: Case) -> None:
    """A vector of more bytes or rows than `max_vector_bytes` or `max_cardinality` of `Limits` is `LimitExceeded`."""
    for data, _ in case.samples():
        most = max((rows.cardinality for rows in case.vectors(data)), default=0)
        for name, low in (("max_vector_bytes", 0), ("max_cardinality", most - 1)):
            if most:
                try:
                    case.read(data, Limits(**{name: low}))
                except LimitExceeded:
                    continue
                _demand(False, f"Limits.{name} of {low} is kept for a vector of {most} rows", data)


def buffers(case: Case) -> None:
    """Every kind of buffer is read alike, and none is kept."""
    if case.format.locate is not None:
        return
    for data, rows in case.samples():
        buffer = bytearray(data)
        for same in (buffer, memoryview(data), np.frombuffer(data, np.uint8), memoryview(b"x" + data)[1:]):
            _demand(case.format.load(same) == rows, f"a {type(same).__name__} is read", data)
        found = case.format.load(buffer)
        buffer[:] = bytes(len(buffer))
        _demand(found == rows, "rows do not change with the buffer they came from", data)


def detection(case: Case) -> None:
    """The format detects its own files, and none of another format, nor arbitrary bytes."""
    if case.format.sniff is None:
        return
    for data, _ in case.samples():
        _demand(_detects(case.format, data), "its own file is detected", data)
    chosen = random.Random(22)  # noqa: S311
    strangers = [b"", b"\0", bytes(64), *map(chosen.randbytes, (1, 8, 16, 100, 1000))]
    for other in BUILT_IN.values():
        if other.encode is not None and other.name != case.format.name:
            strangers += [other.write(RowSet(rows)) for rows in ([], [7], range(1000), range(0, 9000, 3))]
    for data in strangers:
        _demand(not _detects(case.format, data), "a file of another format is not detected", data or b"\0")


def _detects(one: Format, data: bytes) -> bool:
    with open_source(data) as source:
        return one.detects(source, data[:HEAD_BYTES], DEFAULT_LIMITS)


def the_door(case: Case) -> None:
    """The format is installed: `sniff`, `verify` and `convert` know its files and its name."""
    one = case.format
    _demand(format_named(one.name) is not None, f"an entry point of dvcodec.formats is named {one.name}")
    for data, rows in case.samples():
        if one.sniff is not None:
            container = sniff(data)
            _demand(container.kind.value == one.name, f"sniff says {container.kind.value}", data)
            _demand(verify(data).ok, f"verify finds nothing: {verify(data).findings}", data)
        if one.encode is not None and rows.max != one.highest:
            blob, again = io.BytesIO(), io.BytesIO()
            convert(BUILT_IN["roaring64"].write(rows), one.name, again)
            _demand(case.read(again.getvalue()) == rows, "convert writes it", data)
            if one.sniff is not None:
                convert(data, "roaring64", blob)
                _demand(BUILT_IN["roaring64"].load(blob.getvalue()) == rows, "convert reads it", data)


LAWS: Mapping[str, Callable[[Case], None]] = {
    law.__name__: law
    for law in (
        *(golden_files, round_trip, truncation, trailing_bytes, flipped_bits, any_bytes),
        *(limits, buffers, detection, the_door),
    )
}
"""All laws by name."""

"""Verifies files of every format, with named checks and offsets, and corrects small damage where a checksum allows it.

Checks of every vector, in this order: ``length``, ``crc``, ``magic``, ``structure``, ``cardinality``, ``rows``.
Those of the container come first: ``container``, and for Puffin the rules of `iceberg.lint`. Where possible, a
failed check does not prevent the next ones: after a CRC mismatch the structure is still checked. Search segments have
different checks: see `zap.verify_segment`.

**Correction.** A CRC is linear: the checksum of damaged bytes differs from the stored one by a number, the syndrome,
that depends on which bits are wrong, and not on the others. Going back byte by byte from the end shows, for each byte,
what would have to be wrong in it to explain the syndrome.

What is certain, for the polynomial of these frames (each is computed anew in ``tests/ops/test_correct.py``):

- Two frames that differ in one bit have different syndromes up to 2**32 - 1 bits (512 MiB), so one flipped bit has at
  most one explanation by one bit.
- Up to 91,639 bits (11,454 bytes without the length field), two flipped bits never look like one. Beyond, they may, and
  three may at any length.
- Other damage may have any syndrome. A wrong bit in n bytes explains it with a chance of n / 2**29, 0.2 % for a
  megabyte; a wrong byte, which can be wrong in 255 ways, with one of about n / 2**24, 6 %.

Every answer therefore has to be a vector of valid structure, with the cardinality that is known; if there are two, none
is taken. Arrays with few values confirm every second wrong answer, so more than one bit is only corrected where the
chance is at most 1 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec import zap
from dvcodec.core import vector
from dvcodec.core.cursor import BytesLike, Cursor, as_view, crc32
from dvcodec.core.errors import BadMagic, ChecksumMismatch, DecodeError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.report import Check, Report
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import as_count, check_type
from dvcodec.core.vector import CRC_BYTES, FRAME_OVERHEAD, LENGTH_BYTES, UNCOUNTED, Vector
from dvcodec.formats import Container, ContainerKind, VectorRef
from dvcodec.io import Source, SourceTarget, StorageOptions, open_source
from dvcodec.io.frames import read_frame
from dvcodec.io.target import named_as
from dvcodec.ops.read import ALLOWED, ahead, format_of, read_vector, sniff_source, survey_vectors

Stated: TypeAlias = "list[tuple[str, int | None]]"
"""Stated cardinalities: (source of the number, rows)."""
VECTOR_CHECKS = ("length", "crc", "magic", "structure", "cardinality", "rows")


def verify(
    source: SourceTarget,
    *,
    cardinality: int | None = None,
    row_count: int | None = None,
    data_file: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    storage_options: StorageOptions = None,
) -> Report:
    """Verify a file and all vectors in it.

    Args:
        source: bytes, path, URL or open file.
        cardinality: rows according to the manifest or log (for a file of one vector, or with `data_file`).
        row_count: physical rows of the data file: all positions must be below it.
        data_file: check only the vectors of this data file, in any spelling.
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        A report; damaged bytes are findings, not exceptions.

    Raises:
        UsageError: an argument of a wrong type, or a negative number.
        OSError: the file cannot be read.

    >>> from dvcodec import RowSet, iceberg
    >>> blob = bytearray(iceberg.encode(RowSet([1, 2])))
    >>> blob[-6] ^= 1
    >>> [check.name for check in verify(blob).findings]
    ['crc']
    """
    check_limits(limits)
    for value, name in ((cardinality, "cardinality"), (row_count, "row_count")):
        if value is not None:
            as_count(value, name)
    check_type(data_file, (str, type(None)), "data_file", "a str")
    with open_source(source, storage_options=storage_options) as opened:
        return verify_source(opened, cardinality=cardinality, row_count=row_count, data_file=data_file, limits=limits)


def verify_source(
    source: Source,
    *,
    cardinality: int | None = None,
    row_count: int | None = None,
    data_file: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    base: int = 0,
) -> Report:
    """`verify` for a source that is already open; `base` is its offset in the file, for the places in messages."""
    try:
        container = sniff_source(source, limits=limits)
    except DecodeError as error:
        return Report(source.name, None, (Check.from_error("container", "file", error),))
    checks = [Check.passed("container", "file", 0)]
    checks += format_of(container.kind.value).check(source, container, limits)
    refs = [ref for ref in container.vectors if named_as(ref.data_file, data_file)]
    if data_file is not None and not refs:
        checks.append(Check.failed("data-file", "file", None, "referenced-data-file", data_file, "no such vector"))
    source = ahead(source, refs)
    for ref, checked in survey_vectors(source, refs, limits=limits):
        subject = _subject(container, ref)
        stated = [("the container", ref.cardinality), ("the caller", cardinality)]
        if checked is not None:
            found = {name: Check.passed(name, subject, ref.offset) for name in VECTOR_CHECKS[:4]}
            _verify_content(found, subject, ref.offset, checked.cardinality, checked.max, stated, row_count)
        else:
            found = _verify_vector(source, subject, ref, stated, row_count, limits, base)
        checks += [found.get(name, Check.not_applicable(name, subject, ref.offset)) for name in VECTOR_CHECKS]
    if container.kind is ContainerKind.ZAP:
        report = zap.verify_segment(source, limits=limits)
        asked = {"cardinality": cardinality, "rows": row_count}
        checks += report.checks
        checks += [Check.not_applicable(name, "file") for name, value in asked.items() if value is not None]
        return Report(source.name, report.kind, tuple(checks))
    return Report(source.name, container.kind.value, tuple(checks))


def _subject(container: Container, ref: VectorRef) -> str:
    if ref.data_file is not None:
        return f"vector of {ref.data_file}"
    return "vector" if len(container.vectors) == 1 else f"vector at byte {ref.offset}"


def _verify_vector(
    source: Source,
    subject: str,
    ref: VectorRef,
    stated: Stated,
    row_count: int | None,
    limits: Limits,
    base: int,
) -> dict[str, Check]:
    """Check a single vector step by step; return the applicable checks by name."""
    found: dict[str, Check] = {}

    def explained(check: Check) -> Check:
        correction = _correction(source, ref, stated, row_count, limits)
        if correction is None:
            return check
        explanation = f"{correction.describe(base + ref.offset)} explains it{correction.caution}"
        return replace(check, message=f"{check.message}; {explanation}")

    read, error = _read(source, ref, limits, verify_checksum=True)
    if isinstance(error, ChecksumMismatch):
        found["crc"] = explained(Check.from_error("crc", subject, error))
        if ref.kind not in ALLOWED:
            return found
        read, error = _read(source, ref, limits, verify_checksum=False)
    if error is not None:
        name = _name_of(error)
        check = Check.from_error(name, subject, error)
        found[name] = explained(check) if name == "length" else check
    for name in _steps(ref):
        if name in found and name != "crc":
            break
        found.setdefault(name, Check.passed(name, subject, ref.offset))
    if read is not None:
        _verify_content(found, subject, ref.offset, read.cardinality, read.view.max, stated, row_count)
    return found


def _steps(ref: VectorRef) -> tuple[str, ...]:
    """Return the checks that reading a vector makes, in order."""
    if ref.kind in ALLOWED:
        return VECTOR_CHECKS[:4]
    return ("crc", "structure") if format_of(ref.kind.value).checksum else ("structure",)


def _correction(
    source: Source, ref: VectorRef, stated: Stated, row_count: int | None, limits: Limits
) -> Correction | None:
    """Return what explains the damage, if `correct` finds it, and it agrees with all that is known of the vector."""
    known = {value for _, value in stated if value is not None}
    if ref.kind not in ALLOWED or len(known) > 1:
        return None
    try:
        frame = read_frame(source, ref.offset, ref.size, limits)
        found = correct(frame.view, cardinality=next(iter(known), None), limits=limits)
    except DecodeError:
        return None
    highest = found.rows.max
    return None if row_count is not None and highest is not None and highest >= row_count else found


def _read(
    source: Source, ref: VectorRef, limits: Limits, *, verify_checksum: bool
) -> tuple[Vector | None, DecodeError | None]:
    unstated = replace(ref, cardinality=None, blob=None)  # the metadata has checks of its own
    try:
        read = read_vector(source, unstated, limits=limits, verify_checksum=verify_checksum)
        read.check()
    except DecodeError as error:
        return None, error
    return read, None


def _name_of(error: DecodeError) -> str:
    if error.what in ("length field", "byte range", "short read") or error.what.startswith("Limits.max_vector_bytes"):
        return "length"
    return "magic" if isinstance(error, BadMagic) and error.what == "magic" else "structure"


def _verify_content(
    found: dict[str, Check],
    subject: str,
    offset: int,
    cardinality: int,
    highest: int | None,
    stated: Stated,
    row_count: int | None,
) -> None:
    """Compare a vector's contents with its metadata; add the checks to `found`."""
    known = [(who, value) for who, value in stated if value is not None]
    if known:
        found["cardinality"] = Check.passed("cardinality", subject, offset)
    for who, value in known:
        if value != cardinality:
            what = f"cardinality stated by {who}"
            found["cardinality"] = Check.failed("cardinality", subject, offset, what, value, cardinality)
    if row_count is not None:
        found["rows"] = Check.passed("rows", subject, offset)
        if highest is not None and highest >= row_count:
            expected = f"below {row_count} (rows of the data file)"
            found["rows"] = Check.failed("rows", subject, offset, "highest position", expected, highest)


# ------------------------------------------------------------------ correction

_States: TypeAlias = NDArray[np.uint32]
_BLOCK = 1 << 15
"""Bytes that are gone back over at once."""
_PAIRS = (0x0180, 0x8001)
"""Two adjacent bits in two bytes, the first byte in the low half: bits numbered from either end."""
_BITS, _OTHERS = 8, 249
"""Errors of one bit for each byte of a frame, and of more: 247 in the byte, and two pairs with the next one."""
_MOST_DOUBT = 0.01
_WORTH_SAYING = 0.001


@dataclass(frozen=True, slots=True)
class Change:
    """A byte that was wrong.

    Attributes:
        offset: of the byte in the frame, 0-based.
        before: its value in the damaged frame.
        after: its value in the corrected frame.
    """

    offset: int
    before: int
    after: int

    @property
    def bits(self) -> tuple[int, ...]:
        """The bits that were wrong, 0 for the least significant."""
        return tuple(bit for bit in range(8) if (self.before ^ self.after) >> bit & 1)

    def describe(self, base: int = 0) -> str:
        """Return the change in words; `base` is the offset of the frame in its file."""
        at = f"byte {base + self.offset}"
        if len(self.bits) == 1:
            return f"{at}, bit {self.bits[0]}"
        return f"{at}, {self.before:#04x} instead of {self.after:#04x}"


@dataclass(frozen=True, slots=True)
class Correction:
    """A frame without the damage.

    Attributes:
        data: the frame, valid.
        rows: what it deletes.
        changes: the bytes that were wrong, by offset; none if the frame was valid.
        doubt: the chance that other damage, with a valid structure, is explained like this too, wrongly. It grows with
            the frame, for a bit to 0.2 % at a megabyte.
    """

    data: bytes = field(repr=False)
    rows: RowSet
    changes: tuple[Change, ...]
    doubt: float = 0.0

    def describe(self, base: int = 0) -> str:
        """Return what explains the damage: ``one flipped bit (byte 120, bit 3)``.

        Args:
            base: offset of the frame in its file.
        """
        if not self.changes:
            return "no damage"
        wrong = sum(len(change.bits) for change in self.changes)
        what = "one flipped bit" if wrong == 1 else "two adjacent bits" if len(self.changes) == 2 else "one wrong byte"
        return f"{what} ({'; '.join(change.describe(base) for change in self.changes)})"

    @property
    def caution(self) -> str:
        """What to add to the description if the doubt is above 0.1 %, else nothing."""
        if self.doubt <= _WORTH_SAYING:
            return ""
        return f", but up to 1 in {round(1 / self.doubt)} cases of other damage would look like it"


def correct(
    buf: BytesLike,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    source: str | None = None,
    base: int = 0,
) -> Correction:
    """Correct one flipped bit, two adjacent ones or one wrong byte of a framed vector.

    Its checksum and structure have to leave a single answer; one flipped bit comes before two bits or a byte, which are
    corrected in up to 168 KiB: beyond, too much other damage looks like them. The frame may be that of any format. Its
    length field, which no checksum covers, is compared with the size of `buf`. Bare bitmaps have no checksum, and
    cannot be corrected.

    Args:
        buf: exactly the frame.
        cardinality: rows according to the metadata. It should be given where it is known: it is one more witness.
        limits: bounds on what the bytes may claim.
        source: name of the file, for errors.
        base: byte offset of the frame in that file, for errors.

    Returns:
        The corrected frame and what was wrong. More than one error in the bytes can still look like a single one, see
        `Correction.doubt`: read the rows back from an older snapshot or from another copy, if there is any.

    Raises:
        DecodeError: nothing of this kind explains the damage, or more than one answer does.
        UsageError: `buf` is not a contiguous buffer, or another argument has a wrong type or is negative.

    >>> from dvcodec import RowSet, iceberg
    >>> damaged = bytearray(iceberg.encode(RowSet([1, 3, 5])))
    >>> damaged[-6] ^= 8
    >>> found = correct(damaged)
    >>> found.describe(), found.rows
    ('one flipped bit (byte 40, bit 3)', RowSet([1, 3, 5]))
    """
    vector.check_count(cardinality)
    check_limits(limits)
    view = as_view(buf)
    try:
        rows = vector.load(Cursor(view, source=source, base=base), cardinality=cardinality, limits=limits)
    except DecodeError as found:
        error = found
    else:
        return Correction(bytes(view), rows, ())
    if len(view) < FRAME_OVERHEAD or len(view) > limits.max_vector_bytes:
        raise error
    tried = ""
    for doubt, group in _explanations(bytes(view)):
        tried = "flipped bit or wrong byte" if tried else "flipped bit"
        found_valid = (_answer(view, changes, doubt, cardinality, limits) for changes in group)
        answers = [answer for answer in found_valid if answer is not None]
        if len(answers) == 1:
            return answers[0]
        if answers:
            actual = "; or ".join(answer.describe(base) for answer in answers[:3])
            what = f"{error.what}, explained in {len(answers)} ways"
            raise ChecksumMismatch(what, source=source, offset=error.offset, actual=actual)
    if not isinstance(error, ChecksumMismatch):
        raise error
    what = f"{error.what}; no single {tried} explains it"
    raise ChecksumMismatch(
        what, source=error.source, offset=error.offset, expected=error.expected, actual=error.actual
    ) from None


def _answer(
    view: memoryview, changes: tuple[Change, ...], doubt: float, cardinality: int | None, limits: Limits
) -> Correction | None:
    """Return the frame with these changes, if it is valid."""
    data = bytearray(view)
    for change in changes:
        data[change.offset] = change.after
    try:
        rows = vector.load(Cursor(data), cardinality=cardinality, limits=limits)
    except DecodeError:
        return None
    return Correction(bytes(data), rows, changes, doubt)


def _explanations(data: bytes) -> Iterator[tuple[float, list[tuple[Change, ...]]]]:
    """Yield what may explain the damage, with the doubt in it: by one bit, then by more."""
    length = (len(data) - UNCOUNTED).to_bytes(LENGTH_BYTES, "big")
    wrong = [Change(i, data[i], length[i]) for i in range(LENGTH_BYTES) if data[i] != length[i]]
    body, stored = data[LENGTH_BYTES:-CRC_BYTES], int.from_bytes(data[-CRC_BYTES:], "big")
    syndrome = crc32(body) ^ stored
    if wrong:  # any other damage would be a second one
        found = [] if syndrome else [tuple(wrong)]
    elif not syndrome:  # the structure is invalid under a valid checksum: no damage, but a writer's error
        found = []
    else:
        found = [_changes(data, at, error) for at, error in _errors(syndrome, len(body))]
        at = len(data) - CRC_BYTES
        found += [_changes(data, at, int.from_bytes(syndrome.to_bytes(CRC_BYTES, "big"), "little"))]
    found = [changes for changes in found if len(changes) == 1 or _adjacent(changes)]
    by_chance = 0.0 if wrong else len(data) / 2**32  # no doubt in a length field before bytes whose checksum is right
    yield by_chance * _BITS, [changes for changes in found if sum(len(change.bits) for change in changes) == 1]
    if by_chance * _OTHERS <= _MOST_DOUBT:
        yield by_chance * _OTHERS, [changes for changes in found if sum(len(change.bits) for change in changes) > 1]


def _changes(data: bytes, at: int, error: int) -> tuple[Change, ...]:
    """Return what an error changes in the bytes from `at` on, its low byte in the first."""
    pattern = error.to_bytes(CRC_BYTES, "little")
    return tuple(Change(at + i, data[at + i], data[at + i] ^ bits) for i, bits in enumerate(pattern) if bits)


def _adjacent(changes: tuple[Change, ...]) -> bool:
    """Whether these are two adjacent bits in two bytes."""
    if len(changes) != 2 or changes[1].offset != changes[0].offset + 1:
        return False
    first, second = (change.before ^ change.after for change in changes)
    return first | second << 8 in _PAIRS


# ------------------------------------------------------------------ errors that have a syndrome


def _errors(syndrome: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the offset in the frame and the error of each wrong byte, or pair of adjacent bits, with this syndrome.

    The state k steps back from the syndrome is what a checksum that begins before the k-th last byte would have to
    differ by. If that fits into a byte, an error of this byte explains it.
    """
    block = min(_BLOCK, size)
    step = _one_step_back()
    states = _step_back(np.array([syndrome], np.uint32), step)
    while len(states) < block:  # twice as many each time, as many steps further back
        states = np.concatenate([states, _step_back(states, step)])
        step = _twice(step)
    for first in range(0, size, len(states)):
        for i in np.flatnonzero((states < 256) | np.isin(states, _PAIRS)).tolist():
            if first + i < size:
                yield LENGTH_BYTES + size - 1 - first - i, int(states[i])
        states = _step_back(states, step)


def _step_back(states: _States, step: _States) -> _States:
    """Go back from each state by a step: a linear map, as one table for each byte of the state."""
    found: _States = step[0][states & 0xFF]
    for byte in range(1, 4):
        found = found ^ step[byte][states >> np.uint32(8 * byte) & np.uint32(0xFF)]
    return found


def _twice(step: _States) -> _States:
    """Return the map that takes a step twice."""
    return _step_back(step.reshape(-1), step).reshape(4, 256)


@cache
def _one_step_back() -> _States:
    """Return the map from the state after a zero byte to the state before it: uint32[4, 256].

    After the byte b, a state s is ``table[(s ^ b) & 0xff] ^ s >> 8``, and the high bytes of the table's entries differ.
    """
    table = np.array([crc32(bytes([byte])) for byte in range(256)], np.uint32)
    table ^= table[0]  # without the inversion before and after
    of_high_byte = np.empty(256, np.uint32)
    of_high_byte[table >> np.uint32(24)] = np.arange(256, dtype=np.uint32)
    back = np.empty((4, 256), np.uint32)
    for byte in range(4):
        states = np.arange(256, dtype=np.uint32) << np.uint32(8 * byte)
        index = of_high_byte[states >> np.uint32(24)]
        back[byte] = (states ^ table[index]) << np.uint32(8) | index
    return back

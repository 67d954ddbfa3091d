"""Verifies files of every format, with named checks and offsets.

Checks of every vector, in this order: ``length``, ``crc``, ``magic``, ``structure``, ``cardinality``, ``rows``.
Those of the container come first: ``container``, and for Puffin the rules of `iceberg.lint`. Where possible, a
failed check does not prevent the next ones: after a CRC mismatch the structure is still checked. Search segments have
different checks: see `zap.verify_segment`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from dvcodec import zap
from dvcodec.core.errors import BadMagic, ChecksumMismatch, DecodeError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.report import Check, Report
from dvcodec.core.usage import as_count, check_type
from dvcodec.core.vector import Vector
from dvcodec.formats import Container, ContainerKind, VectorRef
from dvcodec.io import Source, SourceTarget, StorageOptions, open_source
from dvcodec.io.frames import read_frame
from dvcodec.io.target import named_as
from dvcodec.ops.built_in import format_of
from dvcodec.ops.correct import Correction, correct
from dvcodec.ops.read import ALLOWED, ahead, read_vector, sniff_source, survey_vectors

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

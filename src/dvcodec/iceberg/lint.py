"""Rules for the metadata of ``deletion-vector-v1`` blobs, as named checks.

Source: Puffin specification, blob type deletion-vector-v1; Iceberg Java and Go reject files that break the first
four. ``fields`` is not checked: Java writes the id of the row position column, Trino and DuckDB write none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dvcodec.core.errors import NotCanonical
from dvcodec.core.report import Check, check_that
from dvcodec.core.usage import check_type
from dvcodec.iceberg.blobs import BLOB_TYPE, CARDINALITY, DRAFT_BLOB_TYPE, NO_ID, blob_cardinality
from dvcodec.io.file_key import file_key
from dvcodec.puffin.footer import MAGIC, REFERENCED_DATA_FILE, BlobMetadata, Footer

__all__ = ["check_duplicates", "lint", "lint_blob", "subject_of"]

ONE_VECTOR = "one-vector-per-file"


def subject_of(blob: BlobMetadata) -> str:
    """Return the name of a blob in reports: its data file, or its offset."""
    path = blob.properties.get(REFERENCED_DATA_FILE)
    return f"vector of {path}" if path is not None else f"{blob.type} at byte {blob.offset}"


def lint(footer: Footer) -> list[Check]:
    """Check the metadata of all blobs of a Puffin file; the blobs themselves are not read.

    Checks of each vector: ``blob-ids`` (snapshot and sequence number are -1), ``blob-properties``
    (referenced-data-file and cardinality), ``blob-codec`` (none), ``blob-range`` (inside the file; of every
    blob); of the whole file: ``blob-overlap``, ``one-vector-per-file`` (for each data file, in any spelling).

    Raises:
        UsageError: not a `Footer`.
    """
    check_type(footer, Footer, "footer", "a Footer")
    checks = [check for blob in footer.blobs for check in lint_blob(blob, footer)]
    checks += _overlaps(footer)
    checks += check_duplicates(footer.blobs)
    return checks


def lint_blob(blob: BlobMetadata, footer: Footer) -> Iterator[Check]:
    """Check the metadata of one blob of a Puffin file; see `lint`."""
    yield _range(blob, footer)
    if blob.type == DRAFT_BLOB_TYPE:
        yield Check.failed("blob-type", subject_of(blob), blob.offset, "draft name", BLOB_TYPE, blob.type)
    if blob.type == BLOB_TYPE:
        yield from _vector(blob)


def _range(blob: BlobMetadata, footer: Footer) -> Check:
    stop = blob.offset + blob.length
    valid = len(MAGIC) <= blob.offset <= stop <= footer.offset
    expected, actual = f"a range within {len(MAGIC)}..{footer.offset}", f"{blob.offset}..{stop}"
    return check_that(valid, "blob-range", subject_of(blob), blob.offset, "offset and length", expected, actual)


def _vector(blob: BlobMetadata) -> Iterator[Check]:
    subject = subject_of(blob)

    def check(name: str, valid: bool, what: str, expected: object, actual: object) -> Check:
        return check_that(valid, name, subject, blob.offset, what, expected, actual)

    ids = (blob.snapshot_id, blob.sequence_number)
    yield check("blob-ids", ids == (NO_ID, NO_ID), "snapshot-id, sequence-number", "-1, -1", f"{ids[0]}, {ids[1]}")
    missing = [name for name in (REFERENCED_DATA_FILE, CARDINALITY) if name not in blob.properties]
    expected = f"{REFERENCED_DATA_FILE} and {CARDINALITY}"
    yield check("blob-properties", not missing, "properties", expected, f"no {' and no '.join(missing)}")
    try:
        blob_cardinality(blob)
    except NotCanonical as error:
        yield Check.from_error("blob-properties", subject, error)
    codec = blob.compression_codec
    yield check("blob-codec", codec is None, "compression-codec", "none: vectors are not compressed", repr(codec))


def _overlaps(footer: Footer) -> Iterator[Check]:
    ordered = sorted(footer.blobs, key=lambda blob: (blob.offset, blob.length))
    clashes = 0
    reach, owner = 0, None
    for blob in ordered:
        if owner is not None and blob.length > 0 and blob.offset < reach:
            clashes += 1
            what = f"range shared with {subject_of(owner)}"
            yield Check.failed(
                "blob-overlap", subject_of(blob), blob.offset, what, f"an offset of at least {reach}", blob.offset
            )
        if blob.offset + blob.length > reach:
            reach, owner = blob.offset + blob.length, blob
    if not clashes:
        yield Check.passed("blob-overlap", "file")


def check_duplicates(blobs: Iterable[BlobMetadata]) -> Iterator[Check]:
    """Report second vectors of a data file, in any spelling: ``one-vector-per-file``."""
    seen: dict[str, BlobMetadata] = {}
    duplicates = 0
    for blob in blobs:
        path = blob.properties.get(REFERENCED_DATA_FILE)
        if blob.type != BLOB_TYPE or path is None:
            continue
        key = file_key(path)
        if key in seen:
            duplicates += 1
            first = seen[key]
            what = f"second vector, the first is at byte {first.offset}"
            if (other := first.properties[REFERENCED_DATA_FILE]) != path:
                what += f" and spells the same data file {other!r}"
            yield Check.failed(ONE_VECTOR, subject_of(blob), blob.offset, what, 1, "2 or more")
        seen.setdefault(key, blob)
    if not duplicates:
        yield Check.passed(ONE_VECTOR, "file")

"""The footer entries of deletion vectors: the parts that reading needs, and the rules for all of them (`lint`).

Specification: Apache Iceberg, "Puffin file format", blob type deletion-vector-v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dvcodec.core.errors import NotCanonical
from dvcodec.core.report import Check, check_that
from dvcodec.core.usage import check_type
from dvcodec.core.vector import FRAME_OVERHEAD
from dvcodec.io.file_key import file_key
from dvcodec.puffin import MAGIC, REFERENCED_DATA_FILE, BlobMetadata, Footer

BLOB_TYPE = "deletion-vector-v1"
"""Type of a vector's blob in a Puffin footer."""
DRAFT_BLOB_TYPE = "delete-vector-v1"
"""Type in drafts of the specification; not used by any released writer."""
ROW_POSITION_FIELD = 2147483645
"""Field id of the metadata column _pos: Java writes it to `fields`; Trino and DuckDB leave `fields` empty."""
CARDINALITY = "cardinality"
"""Blob property: number of rows, as a decimal string."""
NO_ID = -1
"""snapshot-id and sequence-number of a deletion vector: the manifest has the real ones after the commit."""


def vector_blobs(footer: Footer, source: str | None = None) -> list[BlobMetadata]:
    """Return the deletion vectors among the blobs of a footer.

    Raises:
        NotCanonical: together the vectors are larger than the file, with 12 bytes or more each; many entries for the
            same bytes, or for none, would take very long to read. (A single wrong length is reported when that blob is
            read.)
    """
    blobs = [blob for blob in footer.blobs if blob.type == BLOB_TYPE]
    lengths = sorted(max(blob.length, FRAME_OVERHEAD) for blob in blobs)
    if sum(lengths[:-1]) > footer.offset:
        raise NotCanonical(
            "lengths of all vectors",
            source=source,
            offset=footer.offset,
            expected=f"at most the {footer.offset} bytes before the footer, at least {FRAME_OVERHEAD} for each",
            actual=sum(lengths),
        )
    return blobs


def corrupt(blob: BlobMetadata, source: str | None, what: str, expected: str, actual: str) -> NotCanonical:
    """Return the error for a blob, with its offset."""
    return NotCanonical(what, source=source, offset=blob.offset, expected=expected, actual=actual)


def blob_cardinality(blob: BlobMetadata, source: str | None = None) -> int | None:
    """Return the blob's `cardinality` property (rows), None if it has none.

    Raises:
        NotCanonical: the property is not a decimal number.
    """
    text = blob.properties.get(CARDINALITY)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise corrupt(blob, source, "blob property cardinality", "a decimal number", repr(text[:40]))
    return int(text)


def check_blob(blob: BlobMetadata, source: str | None = None) -> int | None:
    """Check codec and cardinality in the footer entry of a vector; return its `cardinality`.

    Raises:
        NotCanonical: the blob is compressed, or its cardinality is not a number.
    """
    if blob.compression_codec is not None:
        what, expected = "compression-codec of a deletion vector", "none: deletion vectors are not compressed"
        raise corrupt(blob, source, what, expected, repr(blob.compression_codec))
    return blob_cardinality(blob, source)


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

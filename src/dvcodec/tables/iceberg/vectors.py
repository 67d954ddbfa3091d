"""Deletion vectors of version 3, read by the byte range that a manifest records, and Puffin files against manifests.

Readers of vectors never open the footer, so only `check_vectors` finds a manifest entry that references another data
file's vector of equal cardinality. Containers without metadata (Delta's vector files, bare blobs) have nothing to
compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from dvcodec.core import vector as vector_
from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported
from dvcodec.core.report import Status
from dvcodec.core.vector import Magic
from dvcodec.iceberg import BLOB_TYPE, DRAFT_BLOB_TYPE, blob_cardinality, check_duplicates, lint_blob
from dvcodec.io import Source, Storage
from dvcodec.io.frames import read_frame
from dvcodec.io.target import file_key
from dvcodec.ops.convert import measure
from dvcodec.ops.read import sniff_source
from dvcodec.puffin import REFERENCED_DATA_FILE, BlobMetadata, Footer
from dvcodec.tables.folder import PathMatcher
from dvcodec.tables.iceberg.entries import ManifestEntry
from dvcodec.tables.iceberg.plan import ScanPlan
from dvcodec.tables.model import DeletedRows, DeletionVector
from dvcodec.tables.snapshots import rules
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.snapshots.rules import OF_ANOTHER, blob_path


def read_vector(vector: DeletionVector, plan: ScanPlan, storage: Storage) -> DeletedRows:
    """Read a deletion vector by its byte range, in any file.

    Raises:
        NotCanonical: the manifest lacks its byte range or its data file.
        Refused: its data sequence number is below that of its data file.
        DecodeError: it is corrupt, or its cardinality differs from the recorded one.
        OSError: its file cannot be read.
    """
    if vector.data_file is None or vector.offset is None or vector.size is None:
        place = ("referenced_data_file", vector.data_file), ("content_offset", vector.offset)
        missing = next((name for name, value in place if value is None), "content_size_in_bytes")
        raise NotCanonical(
            "manifest entry of a vector", source=vector.path, expected="range and data file", actual=f"no {missing}"
        )
    file = plan.data.get(vector.data_file)
    rules.refuse(rules.older(vector, file))
    with storage.open(vector.location, size=vector.file_size) as source:
        found = vector_.read(
            read_frame(source, vector.offset, vector.size, storage.limits),
            allowed=(Magic.PORTABLE64,),
            cardinality=vector.cardinality,
            limits=storage.limits,
        )
        row_count = None if file is None else file.physical_rows
        return DeletedRows(vector.data_file, found.load(), measure(found, row_count=row_count))


def refuse_encrypted(entry: ManifestEntry, path: str) -> None:
    """Check that a file is not encrypted.

    Raises:
        Unsupported: it is.
    """
    if entry.key_metadata is not None:
        raise Unsupported("file", source=path, expected="no encryption", actual="key_metadata")


def check_vectors(
    location: str, vectors: Sequence[DeletionVector], storage: Storage, matcher: PathMatcher
) -> Iterator[Finding]:
    """Check a file of deletion vectors.

    Checks of each vector in a Puffin file: ``blob-at-range`` (a blob has exactly the recorded range), ``blob-type``,
    ``referenced-data-file`` or ``stale-blob-path``, ``blob-cardinality``, and those of `iceberg.lint` for its blob.
    Findings of `rules.OF_ANOTHER` have the range that the footer has for the vector's data file. ``unused-blob``: a
    corrupt vector that the snapshot does not use; pyiceberg decodes all blobs of a file of which it needs one.
    ``one-vector-per-file`` covers all blobs, even those that no vector of the snapshot uses; two vectors of the
    snapshot for one data file are not reported here.

    Args:
        location: path or URL of the file.
        vectors: all that the metadata records in it.
        storage: opens it.
        matcher: matcher of the snapshot.

    Raises:
        DecodeError: not a container of vectors, or its footer is corrupt.
        OSError: it cannot be read.
    """
    ranged = [vector for vector in vectors if vector.format == "iceberg"]
    if not ranged:
        return
    with storage.open(location) as source:
        footer = sniff_source(source, limits=storage.limits).footer
        if footer is None:
            return
        yield from _unused(source, footer, ranged, storage)
    blobs = {(blob.offset, blob.length): blob for blob in footer.blobs}
    lengths = {blob.offset: blob.length for blob in footer.blobs}
    own = cache(lambda: _by_data_file(footer))
    first: dict[str | None, DeletionVector] = {}
    repeated = set()
    for vector in ranged:
        place = vector.offset or 0, vector.size or 0
        blob = blobs.get(place)
        if first.setdefault(vector.data_file, vector) is not vector:
            repeated.add(place)
        if blob is not None:
            found = _blob(vector, blob, footer, matcher)
        else:
            actual = f"{lengths[place[0]]} bytes there" if place[0] in lengths else "no blob there"
            expected = f"a blob of {vector.size} bytes"
            found = iter([Finding.of_vector("blob-at-range", vector, "range of a blob", expected, actual)])
        for finding in found:
            right = own().get(file_key(vector.data_file or "")) if finding.check in OF_ANOTHER else None
            details = {} if right is None else {"offset": right.offset, "size": right.length}
            yield replace(finding, details=details) if details else finding
    by_offset = {vector.offset: vector for vector in ranged}
    for check in check_duplicates(blob for blob in footer.blobs if (blob.offset, blob.length) not in repeated):
        if check.status is Status.FAIL:
            values = check.message or check.name, check.expected, check.actual
            double = by_offset.get(check.offset)
            if double is not None:
                yield Finding.of_vector(check.name, double, *values)
            else:  # no vector of the snapshot uses this blob
                yield Finding.failed(check.name, *values, path=location, offset=check.offset)


def _unused(source: Source, footer: Footer, vectors: Sequence[DeletionVector], storage: Storage) -> Iterator[Finding]:
    """Find corrupt vectors of a file that the snapshot does not use; what has no range in the file is not one."""
    used = {vector.offset for vector in vectors}
    for blob in footer.blobs:
        if (
            blob.type != BLOB_TYPE
            or blob.compression_codec
            or blob.offset in used
            or blob.offset + blob.length > source.size
        ):
            continue
        try:
            vector_.load(read_frame(source, blob.offset, blob.length, storage.limits), limits=storage.limits)
        except DecodeError as error:
            yield Finding.from_error("unused-blob", error, source.name, tuple(vectors))


def _by_data_file(footer: Footer) -> dict[str, BlobMetadata]:
    """Return the vectors that the footer names, those of data files that have one of its own, by `file_key`."""
    found: dict[str, list[BlobMetadata]] = {}
    blobs_at = Counter(blob.offset for blob in footer.blobs)
    for blob in footer.blobs:
        path = blob.properties.get(REFERENCED_DATA_FILE)
        if blob.type == BLOB_TYPE and path is not None:
            found.setdefault(file_key(path), []).append(blob)
    return {key: blobs[0] for key, blobs in found.items() if len(blobs) == 1 and blobs_at[blobs[0].offset] == 1}


def _blob(vector: DeletionVector, blob: BlobMetadata, footer: Footer, matcher: PathMatcher) -> Iterator[Finding]:
    for check in lint_blob(blob, footer):
        if check.status is Status.FAIL:
            yield Finding.of_vector(check.name, vector, check.message or check.name, check.expected, check.actual)
    if blob.type not in (BLOB_TYPE, DRAFT_BLOB_TYPE):
        yield Finding.of_vector("blob-type", vector, "type", BLOB_TYPE, blob.type)
    path = blob.properties.get(REFERENCED_DATA_FILE)
    if path is not None:
        yield from blob_path(matcher, vector, path)
    try:
        cardinality = blob_cardinality(blob)
    except NotCanonical:  # lint_blob reports it
        return
    if cardinality not in (None, vector.cardinality):
        what = "blob property cardinality"
        yield Finding.of_vector("blob-cardinality", vector, what, vector.cardinality, cardinality)

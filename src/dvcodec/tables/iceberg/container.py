"""Compare Puffin footers with the manifests.

Readers of vectors never open the footer: a manifest that names another file's vector of equal cardinality is only found
by looking there. Containers without names (Delta's vector files, bare blobs) have nothing to look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dvcodec.core.errors import NotCanonical
from dvcodec.core.report import Check
from dvcodec.iceberg.blobs import BLOB_TYPE, blob_cardinality
from dvcodec.iceberg.lint import ONE_VECTOR, check_duplicates, lint
from dvcodec.io import Storage
from dvcodec.io.file_key import file_key
from dvcodec.ops.sniff import sniff_source
from dvcodec.puffin import REFERENCED_DATA_FILE, BlobMetadata
from dvcodec.tables.model import DeletionVector

__all__ = ["check_vectors"]


def check_vectors(location: str, vectors: Sequence[DeletionVector], storage: Storage) -> Iterator[Check]:
    """Check a file of deletion vectors.

    Checks of the file: ``file-size``. Of each vector in a Puffin file: ``blob-at-range`` (there is a blob of exactly
    the recorded bytes), ``blob-type``, ``referenced-data-file``, ``blob-cardinality``; of the blobs of these vectors
    also those of `iceberg.lint`. ``one-vector-per-file`` looks at all blobs, whether metadata names them or not.

    Args:
        location: path or URL of the file.
        vectors: what the metadata records of it.
        storage: opens it.

    Raises:
        DecodeError: it is not a container of vectors, or its footer is corrupt.
        OSError: it cannot be read.
    """
    with storage.open(location) as source:
        yield from _file_size(source.size, vectors)
        ranged = [vector for vector in vectors if vector.format == "iceberg"]
        footer = sniff_source(source).footer if ranged else None
        if footer is None:
            return
    blobs = {(blob.offset, blob.length): blob for blob in footer.blobs}
    found = [(vector, blobs.get((vector.offset, vector.size))) for vector in ranged]  # type: ignore[arg-type]
    named = {id(blob) for _, blob in found}
    alive = replace(footer, blobs=tuple(blob for blob in footer.blobs if id(blob) in named))
    yield from (check for check in lint(alive) if check.name != ONE_VECTOR)
    yield from check_duplicates(footer.blobs)
    starts = {blob.offset: blob for blob in footer.blobs}
    for vector, blob in found:
        subject = f"vector of {vector.data_file}"
        if blob is None:
            near = starts.get(vector.offset)  # type: ignore[arg-type]
            actual = "no blob there" if near is None else f"{near.length} bytes there"
            wanted = f"a blob of {vector.size} bytes"
            yield Check.failed("blob-at-range", subject, vector.offset, "range of a blob", wanted, actual)
            continue
        yield Check.passed("blob-at-range", subject, vector.offset)
        yield from _blob(vector, blob, subject)


def _file_size(size: int, vectors: Sequence[DeletionVector]) -> Iterator[Check]:
    recorded = dict.fromkeys(vector.file_size for vector in vectors if vector.file_size is not None)
    wrong = [stated for stated in recorded if stated != size]
    for stated in wrong:
        yield Check.failed("file-size", "file", None, "file_size_in_bytes", size, stated)
    if recorded and not wrong:
        yield Check.passed("file-size", "file")


def _blob(vector: DeletionVector, blob: BlobMetadata, subject: str) -> Iterator[Check]:
    def check(name: str, passed: bool, what: str, expected: object, actual: object) -> Check:
        if passed:
            return Check.passed(name, subject, blob.offset)
        return Check.failed(name, subject, blob.offset, what, expected, actual)

    yield check("blob-type", blob.type == BLOB_TYPE, "type", BLOB_TYPE, blob.type)
    path = blob.properties.get(REFERENCED_DATA_FILE)
    if path is None or vector.data_file is None:
        yield Check.not_applicable("referenced-data-file", subject, blob.offset)
    else:
        same = file_key(path) == file_key(vector.data_file)
        yield check("referenced-data-file", same, "blob property referenced-data-file", vector.data_file, path)
    try:
        stated = blob_cardinality(blob)
    except NotCanonical:  # the lint has said so
        stated = None
    if stated is None:
        yield Check.not_applicable("blob-cardinality", subject, blob.offset)
    else:
        passed = stated == vector.cardinality
        yield check("blob-cardinality", passed, "blob property cardinality", vector.cardinality, stated)

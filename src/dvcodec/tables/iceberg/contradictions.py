"""Find metadata that makes engines refuse a table or skip its vectors, however valid each vector is.

Specification: Iceberg table spec, "Deletion Vectors" (from format version 3 on) and "Scan Planning" (a delete file
applies to data files of its partition and spec). Engines were run to find their other rules: see "Will every engine see
these deletes" in `docs/tables.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dvcodec.tables.findings import Finding, shortened
from dvcodec.tables.iceberg.manifests import ManifestEntry
from dvcodec.tables.iceberg.metadata import TableMetadata
from dvcodec.tables.iceberg.plan import Plan

__all__ = ["contradictions"]

VECTORS_VERSION = 3
"""The first format version that has Puffin vectors."""


def contradictions(metadata: TableMetadata, plan: Plan, skipped_metadata: tuple[str, ...]) -> Iterator[Finding]:
    """Find metadata that does not fit the vectors of a snapshot.

    Checks:

    - ``iceberg-version``: Puffin vectors in a table of a format version below 3. Iceberg releases without vectors
      refuse the file format; newer ones read them until they rewrite a manifest, because manifests of version 2 do
      not record the byte ranges;
    - ``partition-mismatch``: deletes of one data file that record another partition, or partition spec, than the file.
      Java refuses to plan a scan; polars ignores such vectors, pyiceberg those with another spec;
    - ``metadata-name``: metadata files without a version in their names, which may be newer.

    A vector whose sequence number is below that of its data file (``sequence-number``) is found when it is read.

    Args:
        metadata: metadata of the table.
        plan: plan of the snapshot.
        skipped_metadata: bare names of metadata files that were not read.
    """
    if metadata.format_version < VECTORS_VERSION and any(vector.format == "iceberg" for vector in plan.vectors):
        what = "format-version of a table with Puffin vectors"
        expected, actual = f"{VECTORS_VERSION} or higher", str(metadata.format_version)
        yield Finding.failed("iceberg-version", what, expected, actual, path=metadata.source)
    for vector, data in plan.mismatched_partitions():
        what = "partition of the deletes"
        wanted, own = (ManifestEntry.of(one).partition for one in (data, vector))
        expected, actual = shortened(wanted.label or "none"), shortened(own.label or "none")
        if own.spec_id != wanted.spec_id:
            what = "partition spec of the deletes"
            expected, actual = str(wanted.spec_id), str(own.spec_id)
        expected += " (the data file's)"
        yield Finding.of_vector("partition-mismatch", vector, what, expected, actual)
    if skipped_metadata:
        what = "metadata files without a version in their names, which may be newer and were not read"
        expected, actual = "names like v3.metadata.json or 00003-<uuid>.metadata.json", ", ".join(skipped_metadata)
        yield Finding.failed("metadata-name", what, expected, actual, path=metadata.source)

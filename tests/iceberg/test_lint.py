"""Rules for blob metadata, each broken once."""

from __future__ import annotations

from dataclasses import replace

from cases import each
from dvcodec import Status
from dvcodec.iceberg import lint
from dvcodec.puffin import BlobMetadata, Footer

END = 204
A = BlobMetadata(
    "deletion-vector-v1", (), -1, -1, 4, 100, None, {"referenced-data-file": "a.parquet", "cardinality": "7"}
)
B = replace(A, offset=104, properties={"referenced-data-file": "b.parquet", "cardinality": "0"})
THETA = BlobMetadata("apache-datasketches-theta-v1", (1,), 5, 6, 104, 100, "zstd")


def footer(*blobs: BlobMetadata) -> Footer:
    return Footer(blobs, offset=END)


def findings(found: Footer) -> list[tuple[str, str, int | None]]:
    return [(check.name, check.subject, check.offset) for check in lint(found) if check.status is Status.FAIL]


def test_valid_footer_passes_every_check() -> None:
    checks = lint(footer(A, B))
    assert {check.status for check in checks} == {Status.PASS}
    vector = ["blob-range", "blob-ids", "blob-properties", "blob-codec"]
    assert [check.name for check in checks] == [*vector, *vector, "blob-overlap", "one-vector-per-file"]
    assert {check.subject for check in checks} == {"vector of a.parquet", "vector of b.parquet", "file"}


WITHOUT_PATH = replace(A, properties={"cardinality": "7"})
WITHOUT_CARDINALITY = replace(A, properties={"referenced-data-file": "a.parquet"})
ODD_CARDINALITY = replace(A, properties={"referenced-data-file": "a.parquet", "cardinality": "seven"})


@each(
    ("blobs", "expected"),
    [
        ([replace(A, snapshot_id=1)], [("blob-ids", "vector of a.parquet", 4)]),
        ([replace(A, sequence_number=0)], [("blob-ids", "vector of a.parquet", 4)]),
        ([WITHOUT_PATH], [("blob-properties", "deletion-vector-v1 at byte 4", 4)]),
        ([WITHOUT_CARDINALITY], [("blob-properties", "vector of a.parquet", 4)]),
        ([ODD_CARDINALITY], [("blob-properties", "vector of a.parquet", 4)]),
        ([replace(A, compression_codec="zstd")], [("blob-codec", "vector of a.parquet", 4)]),
        ([replace(A, offset=3)], [("blob-range", "vector of a.parquet", 3)]),
        ([replace(A, offset=-100)], [("blob-range", "vector of a.parquet", -100)]),
        ([replace(A, length=-1)], [("blob-range", "vector of a.parquet", 4)]),
        ([replace(A, length=201)], [("blob-range", "vector of a.parquet", 4)]),
        ([replace(A, offset=2**63 - 1, length=2**63 - 1)], [("blob-range", "vector of a.parquet", 2**63 - 1)]),
        ([replace(A, type="delete-vector-v1")], [("blob-type", "vector of a.parquet", 4)]),
        ([A, replace(B, offset=103)], [("blob-overlap", "vector of b.parquet", 103)]),
        ([replace(B, offset=103), A], [("blob-overlap", "vector of b.parquet", 103)]),
        (
            [A, replace(THETA, offset=50, length=1)],
            [("blob-overlap", "apache-datasketches-theta-v1 at byte 50", 50)],
        ),
        ([A, replace(THETA, offset=50)], [("blob-overlap", "apache-datasketches-theta-v1 at byte 50", 50)]),
        ([A, replace(A, offset=104)], [("one-vector-per-file", "vector of a.parquet", 104)]),
        ([replace(THETA, length=101)], [("blob-range", "apache-datasketches-theta-v1 at byte 104", 104)]),
    ],
)
def test_broken_rule_is_named(blobs: list[BlobMetadata], expected: list[tuple[str, str, int | None]]) -> None:
    assert findings(footer(*blobs)) == expected


@each(
    "blobs",
    [
        [A, replace(THETA, snapshot_id=9, sequence_number=9, compression_codec="lz4")],
        [A, replace(B, offset=104, length=0), THETA],
        [A, replace(THETA, offset=50, length=0)],
        [replace(A, fields=(480,)), replace(B, fields=(2147483645,))],
        [replace(A, offset=104), replace(B, offset=4)],
        [A, replace(THETA, properties={"referenced-data-file": "a.parquet"})],
        [replace(A, offset=4, length=200)],
        [replace(A, offset=204, length=0)],
    ],
)
def test_what_no_rule_forbids_passes(blobs: list[BlobMetadata]) -> None:
    assert findings(footer(*blobs)) == []

"""One file of every container, with what is in it."""

from __future__ import annotations

import io
from dataclasses import dataclass

from dvcodec import ContainerKind, RowSet, delta, iceberg, mumbling, paimon

KEY = 1 << 32


def puffin_file(vectors: dict[str, RowSet]) -> bytes:
    out = io.BytesIO()
    iceberg.write_deletion_vectors(out, vectors, order="given", created_by="me")
    return out.getvalue()


@dataclass(frozen=True)
class Sample:
    """A file, its kind, and its vectors: offset -> (size, rows)."""

    kind: ContainerKind
    data: bytes
    vectors: dict[int, tuple[int, RowSet]]
    data_files: tuple[str, ...] = ()

    @property
    def rows(self) -> list[RowSet]:
        return [rows for _, rows in self.vectors.values()]


def frames(kind: ContainerKind, *parts: tuple[bytes, RowSet]) -> Sample:
    data, vectors = b"\1", {}
    for stored, rows in parts:
        vectors[len(data)] = (len(stored), rows)
        data += stored
    return Sample(kind, data, vectors)


def alone(kind: ContainerKind, data: bytes, rows: RowSet) -> Sample:
    return Sample(kind, data, {0: (len(data), rows)})


A, B, C = RowSet([1, 3, 5]), RowSet(range(100, 1000)), RowSet([5, 2 * KEY + 7])
RUN32 = paimon.encode(B)[8:-4]
ARRAY32 = paimon.encode(A)[8:-4]

_SIZES = [len(iceberg.encode(rows)) for rows in (A, B, C)]
SAMPLES: dict[str, Sample] = {
    "puffin": Sample(
        ContainerKind.PUFFIN,
        puffin_file({"a": A, "b": B, "c": C}),
        {4: (_SIZES[0], A), 4 + _SIZES[0]: (_SIZES[1], B), 4 + _SIZES[0] + _SIZES[1]: (_SIZES[2], C)},
        ("a", "b", "c"),
    ),
    "puffin of one": Sample(ContainerKind.PUFFIN, puffin_file({"a": A}), {4: (_SIZES[0], A)}, ("a",)),
    "delta": frames(ContainerKind.DELTA, *((delta.encode(rows), rows) for rows in (A, B, C))),
    "delta native": frames(ContainerKind.DELTA, *((delta.encode(rows, layout="native"), rows) for rows in (A, C))),
    "delta without vectors": frames(ContainerKind.DELTA),
    "paimon 32": frames(ContainerKind.PAIMON, *((paimon.encode(rows), rows) for rows in (A, B))),
    "paimon 64": frames(ContainerKind.DELTA, *((paimon.encode(rows, layout="bitmap64"), rows) for rows in (A, C))),
    "paimon mixed": frames(ContainerKind.PAIMON, (paimon.encode(A), A), (paimon.encode(C, layout="bitmap64"), C)),
    "blob": alone(ContainerKind.BLOB, iceberg.encode(A), A),
    "blob of runs": alone(ContainerKind.BLOB, iceberg.encode(B), B),
    "empty blob": alone(ContainerKind.BLOB, iceberg.encode(RowSet()), RowSet()),
    "native blob": alone(ContainerKind.BLOB, delta.encode(C, layout="native"), C),
    "paimon blob": alone(ContainerKind.BLOB, paimon.encode(B), B),
    "mumbling": alone(ContainerKind.MUMBLING, mumbling.encode(B), B),
    "roaring 64": alone(ContainerKind.ROARING64, iceberg.encode(C)[8:-4], C),
    "empty roaring 64": alone(ContainerKind.ROARING64, bytes(8), RowSet()),
    "roaring 32": alone(ContainerKind.ROARING32, ARRAY32, A),
    "roaring 32 of runs": alone(ContainerKind.ROARING32, RUN32, B),
}
_BARE = (ContainerKind.ROARING32, ContainerKind.ROARING64, ContainerKind.MUMBLING)
FRAMED = [name for name, sample in SAMPLES.items() if sample.kind not in _BARE and sample.vectors]
BARE = [name for name, sample in SAMPLES.items() if sample.kind in _BARE]

"""What a manifest or a log needs to point at one vector."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DvLocation"]


@dataclass(frozen=True, slots=True)
class DvLocation:
    """Where one deletion vector is, and what it stands for.

    Attributes:
        format: ``iceberg``, ``delta``, ``paimon32`` or ``paimon64``: who is to point at the vector, and how.
        path: the file that holds the vector.
        offset: byte offset of the frame's length field in that file.
        size: bytes of the whole frame: length field, magic, vector, CRC. (Delta logs and Paimon 32-bit metadata
            record 8 less.)
        cardinality: number of deleted rows.
        data_file: the data file whose rows these are; None where the container does not say.
        file_size: bytes of the whole file at `path`, where known.
    """

    format: str
    path: str
    offset: int
    size: int
    cardinality: int
    data_file: str | None = None
    file_size: int | None = None

"""The location of a stored vector, as a manifest or log records it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DvLocation:
    """The location of one deletion vector, and what it deletes.

    Attributes:
        format: ``iceberg``, ``mumbling``, ``delta``, ``paimon32`` or ``paimon64``: the format whose metadata
            references it.
        path: the file that holds the vector.
        offset: byte offset of the frame's length field in that file.
        size: bytes of the whole frame: length field, magic, bitmap, CRC. (Delta logs and Paimon 32-bit metadata
            record 8 less.)
        cardinality: number of deleted rows.
        data_file: the data file whose rows these are; None if unknown.
        file_size: bytes of the whole file at `path`, None if unknown.
    """

    format: str
    path: str
    offset: int
    size: int
    cardinality: int
    data_file: str | None = None
    file_size: int | None = None

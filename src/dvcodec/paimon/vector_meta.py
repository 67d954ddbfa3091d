"""What Paimon's index manifest records of vectors, and of the index files that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dvcodec.core.errors import UsageError
from dvcodec.core.frame import UNCOUNTED, Magic
from dvcodec.core.location import DvLocation
from dvcodec.core.usage import check_integer, check_type

__all__ = ["FORMATS", "DeletionVectorMeta", "IndexFile"]

FORMATS = {Magic.PAIMON32: "paimon32", Magic.PORTABLE64: "paimon64"}
"""`DvLocation.format` of a vector: which length convention its metadata follows."""


@dataclass(frozen=True, slots=True)
class DeletionVectorMeta:
    """One vector in the index manifest (Java class of the same name).

    Attributes:
        data_file: bare name of the data file whose rows these are.
        offset: byte offset of the frame's length field in the index file.
        length: bytes of magic and bitmap for a 32-bit vector; of the whole frame, 8 more, for a 64-bit one.
        cardinality: number of deleted rows, None if the writer omitted it (Paimon 0.9).

    Raises:
        UsageError: a value of a wrong type, or out of range for the manifest's types.
    """

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None

    def __post_init__(self) -> None:
        check_type(self.data_file, str, "data_file", "a str")
        count = 0 if self.cardinality is None else self.cardinality
        numbers = ("offset", self.offset, 2**31), ("length", self.length, 2**31), ("cardinality", count, 2**63)
        for name, value, top in numbers:
            if type(value) is not int:
                check_integer(value, name)
            if not 0 <= value < top:
                raise UsageError(
                    f"deletion vector of {self.data_file!r}: {name} {value} is not between 0 and {top - 1}"
                )

    @classmethod
    def from_location(cls, location: DvLocation) -> DeletionVectorMeta:
        """Return the metadata of a written vector.

        Raises:
            UsageError: not a `DvLocation`, its data file is unknown, or it is not in a Paimon file.
        """
        check_type(location, DvLocation, "location", "a DvLocation")
        if location.data_file is None or location.format not in FORMATS.values():
            raise UsageError(f"{location.path} at byte {location.offset}: not a Paimon vector of a known data file")
        length = location.size - (UNCOUNTED if location.format == FORMATS[Magic.PAIMON32] else 0)
        return cls(location.data_file, location.offset, length, location.cardinality)


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One written index file.

    Attributes:
        path: path or URL.
        file_size: bytes.
        vectors: its vectors, in file order.
    """

    path: str
    file_size: int
    vectors: tuple[DeletionVectorMeta, ...]

    @classmethod
    def of(cls, written: Sequence[DvLocation]) -> IndexFile:
        """Return a file by the locations of all its vectors, in file order.

        Raises:
            UsageError: not a sequence of `DvLocation`, or an empty one.
        """
        check_type(written, Sequence, "written", "a sequence of DvLocation")
        if not written:
            raise UsageError("written must not be empty: an index file is known by its vectors")
        vectors = tuple(map(DeletionVectorMeta.from_location, written))
        last = written[-1]
        return cls(last.path, last.offset + last.size, vectors)

"""The data files and the vectors of a snapshot by column: numbers in arrays, for what is counted or checked of all.

A table has up to millions of both, and an object for each takes far longer to make than to count. Formats whose
metadata is read in columns derive from these classes; those of the others take the columns from the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dvcodec.core.ragged import Flags, Index
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector, OnDemand

UNKNOWN, ODD = -1, -2
"""Of a number that is not recorded, and of one that no file can have: who meets it, looks at the object."""
MOST_NUMBER = 1 << 55
"""Numbers up to this one can be multiplied by a hundred."""


def numbers_of(values: Iterable[int | None]) -> Index:
    """Return recorded numbers as int64; see `UNKNOWN` and `ODD`."""
    return np.array([UNKNOWN if one is None else one if 0 <= one <= MOST_NUMBER else ODD for one in values], np.int64)


def values_of(numbers: Index, look: Callable[[int], int | None]) -> list[int | None]:
    """Return recorded numbers as they are, None for unknown ones.

    Args:
        numbers: see `numbers_of`.
        look: returns the odd one at a place.
    """
    found: list[int | None] = numbers.tolist()
    for place in np.flatnonzero(numbers < 0).tolist():
        found[place] = None if numbers[place] == UNKNOWN else look(place)
    return found


def recorded(values: Index, known: Flags | None = None) -> Index:
    """Return recorded numbers as `numbers_of` does.

    Args:
        values: int64[n].
        known: which of them are recorded; all by default.
    """
    usual = np.where((values < 0) | (values > MOST_NUMBER), ODD, values)
    return usual if known is None else np.where(known, usual, UNKNOWN)


class FileColumns:
    """The data files of a snapshot, in order.

    Args:
        files: the data files.
    """

    def __init__(self, files: Sequence[DataFile]) -> None:
        self.files = files

    @cached_property
    def paths(self) -> Sequence[str]:
        """`DataFile.path` of each."""
        return [file.path for file in self.files]

    @cached_property
    def locations(self) -> Sequence[str]:
        """`DataFile.location` of each."""
        return [file.location for file in self.files]

    @cached_property
    def partitions(self) -> Sequence[str | None]:
        """`DataFile.partition` of each."""
        return [file.partition for file in self.files]

    @cached_property
    def rows(self) -> Index:
        """Physical rows, int64; see `numbers_of`."""
        return numbers_of(file.physical_rows for file in self.files)

    @cached_property
    def sizes(self) -> Index:
        """Bytes, int64; see `numbers_of`."""
        return numbers_of(file.size for file in self.files)

    @cached_property
    def single(self) -> Flags:
        """Whether each is one file, bool."""
        return np.array([not file.files for file in self.files], np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where vectors are recorded.

    Attributes:
        paths: `DeletionVector.path`, each once, in the order of the first vector.
        path_of: int64, index in `paths` of each vector.
        locations: `DeletionVector.location`, each once, in the order of the first vector.
        location_of: int64, index in `locations` of each vector.
    """

    paths: Sequence[str]
    path_of: Index
    locations: Sequence[str]
    location_of: Index


class VectorColumns:
    """The deletion vectors of a snapshot, in order.

    Args:
        vectors: the vectors.
        number_of: data files by path, each with its number.
    """

    def __init__(self, vectors: Sequence[DeletionVector], number_of: Mapping[str, int]) -> None:
        self.vectors = vectors
        self._number_of = number_of

    @cached_property
    def files(self) -> Index:
        """Number of the data file of each vector, int64; `UNKNOWN` if it is not in the snapshot, or not named."""
        known = self._number_of
        paths = (one.data_file for one in self.vectors)
        return np.array([UNKNOWN if path is None else known.get(path, UNKNOWN) for path in paths], np.int64)

    @cached_property
    def bitmaps(self) -> Flags:
        """Whether each is a bitmap, not position deletes: bool."""
        return np.array([one.format != POSITION_DELETES for one in self.vectors], np.bool_)

    @cached_property
    def frames(self) -> Flags:
        """Whether each is a frame that `Snapshot.read` checks by nothing but its recorded cardinality: bool."""
        return self.bitmaps

    @cached_property
    def counts(self) -> Index:
        """Vectors of each data file of the snapshot, int64."""
        return np.bincount(self.files[self.files >= 0], minlength=len(self._number_of))

    @cached_property
    def _by_file(self) -> tuple[Index, Index]:
        order = np.argsort(self.files, kind="stable")
        return order, np.searchsorted(self.files[order], np.arange(len(self._number_of) + 1))

    def of_file(self, number: int) -> Sequence[DeletionVector]:
        """Return the vectors of a data file, in order."""
        order, starts = self._by_file
        return [self.vectors[one] for one in order[starts[number] : starts[number + 1]].tolist()]

    @cached_property
    def have_wide(self) -> bool:
        """Whether there are deletes that name no data file, and may be for any."""
        return any(one.data_file is None for one in self.vectors)

    @cached_property
    def places(self) -> Places:
        """Where each is recorded."""
        paths, path_of = distinct(one.path for one in self.vectors)
        locations, location_of = distinct(one.location for one in self.vectors)
        return Places(paths, path_of, locations, location_of)

    @cached_property
    def offsets(self) -> Index:
        """First byte of each in its file, int64; see `numbers_of`."""
        return numbers_of(one.offset for one in self.vectors)

    @cached_property
    def sizes(self) -> Index:
        """Bytes, int64; see `numbers_of`."""
        return numbers_of(one.size for one in self.vectors)

    @cached_property
    def cardinalities(self) -> Index:
        """Deleted rows as recorded, int64; see `numbers_of`."""
        return numbers_of(one.cardinality for one in self.vectors)

    @cached_property
    def file_sizes(self) -> Index:
        """Bytes of the whole file as recorded, int64; see `numbers_of`."""
        return numbers_of(one.file_size for one in self.vectors)

    @cached_property
    def containers(self) -> Sequence[Index]:
        """The vectors of each file of `Places.locations`, in file order, by number."""
        places, offsets = self.places, np.where(self.offsets == UNKNOWN, 0, self.offsets)
        if (offsets == ODD).any():
            offsets = np.argsort(np.array([one.offset or 0 for one in self.vectors], object), kind="stable").argsort()
        order = np.lexsort((offsets, places.location_of))
        counts = np.bincount(places.location_of, minlength=len(places.locations))
        return np.split(order, np.cumsum(counts)[:-1]) if len(counts) else []


class VectorGroup(OnDemand[DeletionVector]):
    """Some vectors of a snapshot, in order.

    Attributes:
        offsets: int64[n]; see `VectorColumns`.
        sizes: int64[n].
        file_sizes: int64[n].

    Args:
        columns: all vectors.
        numbers: int64[n], which of them.
    """

    def __init__(self, columns: VectorColumns, numbers: Index) -> None:
        super().__init__(len(numbers), lambda number: columns.vectors[int(numbers[number])])
        self.offsets, self.sizes = columns.offsets[numbers], columns.sizes[numbers]
        self.file_sizes = columns.file_sizes[numbers]

    @classmethod
    def of(cls, vectors: Sequence[DeletionVector]) -> VectorGroup:
        """Return vectors as a group."""
        return vectors if isinstance(vectors, cls) else cls(VectorColumns(vectors, {}), np.arange(len(vectors)))


def distinct(values: Iterable[str]) -> tuple[Sequence[str], Index]:
    """Return the different values in the order of their first occurrence, and which of them each is: int64[n]."""
    numbers: dict[str, int] = {}
    found = np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)
    return list(numbers), found

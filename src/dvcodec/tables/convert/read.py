"""Read and verify the planned vectors, and record how each was converted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from dvcodec.core import vector as core_vector
from dvcodec.core.cursor import BytesLike
from dvcodec.core.errors import UsageError
from dvcodec.core.frame import StoredFrame
from dvcodec.core.location import DvLocation
from dvcodec.io import Source
from dvcodec.io.frames import read_frame
from dvcodec.ops.convert import GapKeys, encode_frame, frame_for
from dvcodec.tables import rules
from dvcodec.tables.convert.partition import partition_values
from dvcodec.tables.convert.plan import FRAMED, Planned, rows_of
from dvcodec.tables.convert.record import Speller, absolute
from dvcodec.tables.model import DataFile, DeletionVector
from dvcodec.tables.table import Snapshot

__all__ = ["ConvertedVector", "How", "Reader"]


class How(str, Enum):
    """How a vector was converted."""

    IN_PLACE = "in-place"
    """It stays in its file and is referenced there."""
    COPIED = "copied"
    """Its frame was copied byte for byte."""
    ENCODED = "encoded"
    """Its rows were re-encoded: it was inline, in another layout, or position deletes."""


@dataclass(frozen=True, slots=True)
class ConvertedVector:
    """A vector of the target.

    Attributes:
        data_file: the data file, as the source names it.
        how: how it was converted.
        location: location of the vector; its `data_file` is spelled as in the target.
        sources: one vector, or the position delete files that it replaces.
        record: values for the commit, by the target's own field names.
    """

    data_file: DataFile
    how: How
    location: DvLocation
    sources: tuple[DeletionVector, ...]
    record: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return a line of the file of entries."""
        return {
            "data_file": self.location.data_file,
            "data_file_location": absolute(self.data_file.location),
            "data_file_size": self.data_file.size,
            "physical_rows": self.data_file.physical_rows,
            "partition": self.data_file.partition,
            "partition_values": _partition_values(self.data_file),
            "cardinality": self.location.cardinality,
            "how": self.how.value,
            "path": self.location.path,
            "offset": self.location.offset,
            "size": self.location.size,
            "sources": [
                {"format": source.format, "path": source.path, "offset": source.offset, "size": source.size}
                for source in self.sources
            ],
        } | self.record


class Reader:
    """Reads the planned vectors; those that do not stay in place are yielded as frames, to be written.

    Attributes:
        speller: speller of the target.
        converted: vectors that are done.
        empty: vectors without rows, which are skipped.
    """

    def __init__(self, snapshot: Snapshot, speller: Speller, in_place: bool, advance: Callable[[], None]) -> None:
        self._snapshot, self.speller = snapshot, speller
        self._in_place, self._advance = in_place, advance
        self._handed: list[tuple[Planned, How]] = []
        self.converted: list[ConvertedVector] = []
        self.empty = 0
        self._gaps = GapKeys()

    def frames(self, group: Iterable[Planned]) -> Generator[StoredFrame, None, None]:
        """Read vectors, and yield the frames to be written."""
        for location, items in itertools.groupby(group, key=_container):
            if location is None:
                for item in items:
                    yield from self._encoded(item)
            else:
                with self._snapshot.table.folder.storage.open(location) as source:
                    for item in items:
                        yield from self._stored(item, source)

    def written(self, locations: Sequence[DvLocation]) -> None:
        """Record the locations of the frames that were yielded last."""
        for location in locations:
            item, how = self._handed.pop(0)
            self._convert(item, how, location, len(locations))

    def _stored(self, item: Planned, source: Source) -> Iterator[StoredFrame]:
        (vector,) = item.sources
        offset, size = cast("int", vector.offset), cast("int", vector.size)
        limits = self._snapshot.table.folder.storage.limits
        found = core_vector.read(
            read_frame(source, offset, size, limits), FRAMED[vector.format], vector.cardinality, limits
        )
        rules.refuse(rules.positions(item.data_file, item.sources[0], found.view.max))
        data = frame_for(found, self.speller.layout, item.data_file.path, self._gaps)
        self._advance()
        if self._in_place and found.cardinality and self.speller.may_stay(found.magic, offset):
            place = DvLocation(vector.format, vector.path, offset, size, found.cardinality, None, source.size)
            self._convert(item, How.IN_PLACE, self.speller.in_place(place, vector.location, item.data_file), 1)
        else:
            same = found.frame is not None and data is found.frame.data
            yield from self._hand_on(item, How.COPIED if same else How.ENCODED, found.cardinality, data)

    def _encoded(self, item: Planned) -> Iterator[StoredFrame]:
        rows = rows_of(self._snapshot, item)
        if item.rows is None:
            self._advance()
        data = encode_frame(rows, self.speller.layout, item.data_file.path, self._gaps)
        yield from self._hand_on(item, How.ENCODED, rows.cardinality, data)

    def _hand_on(self, item: Planned, how: How, cardinality: int, data: BytesLike) -> Iterator[StoredFrame]:
        if not cardinality:
            self.empty += 1
            return
        self._handed.append((item, how))
        yield StoredFrame(self.speller.data_file(item.data_file), cardinality, data)

    def _convert(self, item: Planned, how: How, location: DvLocation, in_file: int) -> None:
        record = self.speller.record(location, item.data_file, in_file)
        self.converted.append(ConvertedVector(item.data_file, how, location, item.sources, record))


def _partition_values(data_file: DataFile) -> dict[str, str | None] | None:
    try:
        return partition_values(data_file)
    except UsageError:  # a target that needs them has refused the file
        return None


def _container(item: Planned) -> str | None:
    """Return the file that holds the frame of a vector; None if its rows are read otherwise."""
    vector = item.sources[0]
    framed = item.rows is None and vector.location and vector.offset is not None and vector.size is not None
    return vector.location if framed else None

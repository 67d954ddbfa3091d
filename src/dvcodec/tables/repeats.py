"""Work on vectors and data files that are stored once but recorded many times, which takes a few bytes each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sized
from itertools import chain
from typing import Protocol, TypeVar

from dvcodec.core.limits import SharedWork
from dvcodec.io.file_key import place_keys
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector

__all__ = [
    "BYTES_PER_UNIT",
    "OPENED_WORK",
    "HistoryWork",
    "charge_listed",
    "charge_repeats",
    "charge_same_deletes",
    "charge_same_files",
    "charge_text",
]


class Listing(Protocol):
    """A snapshot."""

    @property
    def data_files(self) -> Sized:
        """Its data files."""

    @property
    def vectors(self) -> Sized:
        """Its vectors."""


S = TypeVar("S", bound=Listing)
_VECTOR_WORK, _SMALL, _BYTE_WORK = 8192, 128, 64
"""Work of a small vector, as `Budget` counts it: an audit takes 0.3 ms for it. And the bytes of such a vector, and the
work of each further byte: a bitmap of 19 bytes takes 50 µs."""
_FEW_CHARACTERS, _TEXT_WORK = 128, 8
"""Characters that are not charged, and the work of each further one: an audit takes 0.4 µs for it."""
_FILE_WORK = 65_536
"""Work of a small data file: a delete takes 5 ms for it."""
_LISTED_WORK = 1536
"""Work of a data file that is listed: beside its record, commands take 40 µs for it."""
_LISTED_DELETES_WORK = 4096
"""Work of a file of position deletes that is listed: audits take 0.15 ms for it, even if it is not there."""
_DELETES_WORK = 1 << 18
"""Work of a small file of equality deletes: reading its keys takes 5 ms."""
BYTES_PER_UNIT = 2
"""Bytes of a vector that was read before for a unit of work: a container of ten bytes takes 0.2 µs."""
OPENED_WORK = 1024
"""Work of a data file or a vector of a snapshot that is opened whole."""


def charge_listed(location: str, files: Sized, vectors: Iterable[DeletionVector], work: SharedWork) -> None:
    """Charge the files of a snapshot, as far as the bytes of the metadata do not allow them.

    Data files of real tables have names, sizes and statistics that do not compress to six bytes each, and files of
    position deletes have the bounds of their rows besides, which do not compress to sixteen.

    Args:
        location: the table's, for errors.
        files: data files of a snapshot.
        vectors: those of the snapshot; only position deletes are charged.
        work: of the table.

    Raises:
        LimitExceeded: there are more than the metadata and the shared work of the table allow.
    """
    deletes = sum(vector.format == POSITION_DELETES for vector in vectors)
    units = len(files) * _LISTED_WORK + deletes * _LISTED_DELETES_WORK
    what = "data files and position deletes" if deletes else "data files"
    work.draw_beyond(f"data files of {location}", units, what)


def charge_same_files(files: Iterable[DataFile], work: SharedWork) -> None:
    """Charge data files that are another one with another spelling; writers have none.

    Args:
        files: those of a snapshot.
        work: of the table.

    Raises:
        LimitExceeded: there are more of them than the shared work of the table allows: about 250.
    """
    keys = place_keys([file.location for file in files])
    repeats = len(keys) - len(set(keys))
    if repeats:
        ((location, _),) = Counter(keys).most_common(1)
        work.draw(f"data files at {location}", repeats * _FILE_WORK, "data files in several spellings")


def charge_repeats(vectors: Iterable[DeletionVector], work: SharedWork) -> None:
    """Charge the vectors that begin where another one begins; writers give each data file a vector of its own.

    Args:
        vectors: those of a snapshot. Inline ones are part of its metadata, and not charged here.
        work: of the table.

    Raises:
        LimitExceeded: there are more of them than the shared work of the table allows: about 2,000 small ones.
    """
    seen: set[tuple[str, int | None]] = set()
    repeats: Counter[str] = Counter()
    for vector in vectors:
        key = vector.location, vector.offset
        if key in seen and vector.path:
            repeats[vector.location] += _VECTOR_WORK + _BYTE_WORK * max((vector.size or 0) - _SMALL, 0)
        seen.add(key)
    for location, units in repeats.items():
        work.draw(f"vectors of {location}", units, "vectors that are recorded more than once")


def charge_same_deletes(locations: Iterable[str], work: SharedWork) -> None:
    """Charge equality deletes whose file is read more than once; writers list each file once.

    Args:
        locations: of the files, as often as they are read.
        work: of the table.

    Raises:
        LimitExceeded: there are more of them than the shared work of the table allows: about 60.
    """
    keys = place_keys(list(locations))
    repeats = len(keys) - len(set(keys))
    if repeats:
        ((location, _),) = Counter(keys).most_common(1)
        work.draw(f"equality deletes at {location}", repeats * _DELETES_WORK, "equality deletes of one file")


def charge_text(location: str, files: Iterable[DataFile], vectors: Iterable[DeletionVector], work: SharedWork) -> None:
    """Charge long paths and partitions, as far as the bytes of the metadata do not allow them.

    An option, a base path or the names of partition columns come in the path or partition of every data file, and
    findings and JSON repeat these a dozen times. Those of real tables, up to 128 characters, are not charged.

    Args:
        location: the table's, for errors.
        files: data files of a snapshot.
        vectors: those of the snapshot.
        work: of the table.

    Raises:
        LimitExceeded: there is more text than the metadata and the shared work of the table allow.
    """
    of_files = chain.from_iterable((file.path, file.partition) for file in files)
    of_vectors = chain.from_iterable((vector.path, vector.data_file) for vector in vectors)
    texts = [text for text in chain(of_files, of_vectors) if text]
    sizes = map(len if all(map(str.isascii, texts)) else _json_size, texts)
    beyond = sum(size - _FEW_CHARACTERS for size in sizes if size > _FEW_CHARACTERS)
    work.draw_beyond(f"paths of {location}", beyond * _TEXT_WORK, "long paths and partitions")


def _json_size(text: str) -> int:
    """Return the bytes of a text as JSON, where all but ASCII takes six or twelve."""
    return len(text) if text.isascii() else 3 * len(text.encode("utf-16-le", "surrogatepass"))


class HistoryWork:
    """The work of one history, which goes through what snapshots list: the same data files and vectors again and again.

    Hundreds of snapshots may list the same tens of thousands of data files by turns, in a table of kilobytes. Together
    they may cost the shared work of the table, and what the bytes of all metadata and of all vectors that were read
    allow. Snapshots of real tables have metadata of their own, or differ little from the one before.

    Args:
        location: the table's, for errors.
        shared: its work.

    Attributes:
        done: work so far.
    """

    def __init__(self, location: str, shared: SharedWork) -> None:
        self._location = location
        self._shared = shared
        self.done = 0

    def note(self, file: str, stored: int) -> None:
        """Note the bytes of a file of vectors that were read; see `SharedWork.note`."""
        self._shared.note(file, stored)

    def opened(self, snapshot: S) -> S:
        """Charge a snapshot that was opened whole, and return it.

        Raises:
            LimitExceeded: see `charge`.
        """
        self.charge(len(snapshot.data_files) + len(snapshot.vectors), OPENED_WORK)
        return snapshot

    def charge(self, count: int, each: int) -> None:
        """Add work, of `each` units (see `Budget`) for each of a number of things.

        Raises:
            LimitExceeded: the history costs more than the table allows.
        """
        self.done += count * each
        what = "data files and vectors that snapshots list again"
        self._shared.draw_beyond(f"history of {self._location}", self.done, what)

"""Segments with the documents that ``root.bolt`` beside them marks as deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from dvcodec.cli.storage import storage
from dvcodec.cli.streams import complain
from dvcodec.cli.targets import Target, expand
from dvcodec.cli.zap.shared import is_segment, open_segment
from dvcodec.core.errors import DecodeError, NotCanonical, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import counted
from dvcodec.io.target import join, split
from dvcodec.ops.read import ContainerKind, VectorRef, read_vector
from dvcodec.tables.scorch.metadata import SegmentEntry, read_root
from dvcodec.zap import Segment

SegmentOrIndex = Annotated[
    str,
    typer.Argument(
        metavar="SEGMENT", help="File, URL, path@offset:size, - for standard input, or the folder of an index."
    ),
]
WithDeleted = Annotated[
    bool, typer.Option("--with-deleted", help="Include documents that root.bolt beside the segment marks as deleted.")
]
_ROOT = "root.bolt"
_OF_INDEX = (_ROOT, "index_meta.json")


@dataclass(frozen=True, slots=True)
class _Index:
    """What ``root.bolt`` records of the segments beside it.

    Attributes:
        location: the file.
        newest: file names of the newest snapshot's segments, in order.
        entries: segments by file name, each as in the newest snapshot that has it.
    """

    location: str
    newest: tuple[str, ...]
    entries: dict[str, SegmentEntry]

    @classmethod
    def read(cls, folder: str) -> _Index | None:
        """Read ``root.bolt`` of a folder; None without one.

        Raises:
            DecodeError: it is corrupt.
            UsageError: it cannot be read.
        """
        location = join(folder, _ROOT)
        without = "name segments and add --with-deleted to read them without it"
        try:
            epochs = read_root(location, storage()).epochs
        except (FileNotFoundError, NotADirectoryError):
            return None
        except DecodeError as err:
            err.what += f" ({without})"
            raise
        except OSError as err:
            raise UsageError(f"{location}: deleted documents are unknown: {err}; {without}") from None
        newest = tuple(entry.file_name for epoch in epochs[-1:] for entry in epoch.segments)
        return cls(location, newest, {entry.file_name: entry for epoch in epochs for entry in epoch.segments})

    def deleted(self, name: str) -> RowSet:
        """Return the deleted documents of a segment."""
        entry = self.entries.get(name)
        if entry is None or entry.deleted is None:
            return RowSet()
        with storage().open(self.location) as source:
            ref = VectorRef(ContainerKind.ROARING32, entry.deleted.offset, len(entry.deleted.data))
            return read_vector(source, ref).load()


def find_segments(names: list[str], *, with_deleted: bool) -> list[tuple[Target, RowSet]]:
    """Return the segments of some names, each with its deleted documents.

    Of a folder, these are all segments; of an index, those of its newest snapshot.

    Raises:
        UsageError: there is none; or a segment of an index is missing.
        DecodeError: ``root.bolt`` is corrupt.
    """
    return _find(expand(names), with_deleted)


def _find(targets: list[Target], with_deleted: bool) -> list[tuple[Target, RowSet]]:
    indexes: dict[str, _Index | None] = {}
    for folder, name in (split(target.path) for target in targets if target.found):
        indexes.setdefault(folder, None)
        if name == _ROOT:
            indexes[folder] = _Index.read(folder)
    missing = {(folder, name) for folder, index in indexes.items() if index is not None for name in index.newest}
    found: list[tuple[Target, RowSet]] = []
    others = older = 0
    for target in targets:
        if target.path == "-" or target.offset is not None:
            found.append((target, RowSet()))
            continue
        folder, name = split(target.path)
        if folder not in indexes and not with_deleted:
            indexes[folder] = _Index.read(folder)
        index = indexes.get(folder)
        current = index is None or name in index.newest
        if target.found and not (is_segment(target) if index is None else current):
            is_older = index is not None and name in index.entries
            older += is_older
            others += not is_older and name not in _OF_INDEX
            continue
        if not current:
            complain(f"{target.path}: the newest snapshot of {_ROOT} does not have this segment")
        missing.discard((folder, name))
        found.append((target, RowSet() if index is None or with_deleted else index.deleted(name)))
    for folder, name in sorted(missing):
        lost = join(folder, name)
        raise UsageError(f"{lost}: no such file, but the newest snapshot has it: dvcodec audit names older ones")
    if not found:
        raise UsageError(f"no search segments in {counted(others, 'file')}")
    if others:
        complain(f"{counted(others, 'other file')} without search segments")
    if older:
        complain(f"{counted(older, 'segment')} of older snapshots left out")
    return found


@dataclass(frozen=True, eq=False)
class LiveSegment:
    """An open segment.

    Attributes:
        segment: the segment.
        deleted: its deleted documents.
    """

    segment: Segment
    deleted: RowSet

    @classmethod
    def of(cls, segment: Segment, deleted: RowSet) -> LiveSegment:
        """Return a segment with its deleted documents.

        Raises:
            NotCanonical: it does not have one of them.
        """
        if (deleted.max or 0) >= max(segment.num_docs, 1):
            raise NotCanonical(
                f"deleted documents of {_ROOT}",
                source=segment.name,
                expected=f"documents below {segment.num_docs}",
                actual=deleted.max,
            )
        return cls(segment, deleted)

    @cached_property
    def mask(self) -> NDArray[np.bool_] | None:
        """Whether each document is deleted; None if none is."""
        return self.deleted.mask(0, self.segment.num_docs) if self.deleted else None


@dataclass(frozen=True, slots=True)
class LiveSegments:
    """What a command on a segment or an index reads.

    Attributes:
        name: file or folder, as the user named it.
        parts: the segments, in order.
        is_index: whether it is a folder; what is shown of it then names the segment.
    """

    name: str
    parts: tuple[LiveSegment, ...]
    is_index: bool

    @property
    def size(self) -> int:
        """Bytes of all segments, without footers."""
        return sum(part.segment.contents.data.end for part in self.parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of `cells`."""
        return ("segment",) if self.is_index else ()

    def cells(self, segment: Segment) -> tuple[str, ...]:
        """Return the cells that name a segment of an index."""
        return (split(segment.name)[1],) if self.is_index else ()

    def naming(self, segment: Segment) -> dict[str, Any]:
        """Return what names a segment of an index in JSON."""
        return {"segment": segment.name} if self.is_index else {}

    def having(self, field: str) -> list[LiveSegment]:
        """Return the segments that have a field.

        Raises:
            UsageError: none does.
        """
        found = [part for part in self.parts if any(info.name == field for info in part.segment.fields)]
        if not found:
            self.parts[0].segment.field(field)
        return found


@contextmanager
def open_live(name: str, *, with_deleted: bool, unchecked: bool = False) -> Iterator[LiveSegments]:
    """Open a segment, or all segments of an index.

    Raises:
        UsageError: a folder or glob that is not one index; see also `find_segments`.
        DecodeError: a segment or ``root.bolt`` is corrupt.
        OSError: one cannot be read.
    """
    targets = expand([name])
    alone = len(targets) == 1 and not targets[0].found
    stores = [folder for folder, file in (split(target.path) for target in targets if target.found) if file == _ROOT]
    found = _find(targets, with_deleted) if alone or len(stores) == 1 else []
    if not alone and (not found or any(split(target.path)[0] != stores[0] for target, _ in found)):
        raise UsageError(f"{name}: expected one file or one index, found {len(targets)} files in a folder or glob")
    with ExitStack() as stack:
        parts = tuple(
            LiveSegment.of(stack.enter_context(open_segment(target, unchecked=unchecked)), deleted)
            for target, deleted in found
        )
        yield LiveSegments(parts[0].segment.name if alone else name, parts, not alone)
        if left_out := sum(len(part.deleted) for part in parts):
            complain(f"{name}: {counted(left_out, 'deleted document')} left out (--with-deleted includes them)")

"""The data files and the vectors of a Paimon snapshot by column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from dvcodec.core.ragged import Flags, Index
from dvcodec.tables.columns import FileColumns, Places, VectorColumns, recorded
from dvcodec.tables.model import DataFile, OnDemand, joined
from dvcodec.tables.paimon.entries import Entries
from dvcodec.tables.paimon.partition import Layout
from dvcodec.tables.paimon.vectors import IndexVectors


def file_columns(entries: Entries, layout: Layout, paths: Sequence[str], locations: Sequence[str]) -> FileColumns:
    """Return data files by column.

    Args:
        entries: of the live files.
        layout: where they are.
        paths: of each.
        locations: of each.
    """
    return _FileColumns(entries, layout, paths, locations)


def vector_columns(parts: Sequence[IndexVectors], files: FileColumns) -> VectorColumns:
    """Return vectors by column.

    Args:
        parts: those of each index file.
        files: the data files.
    """
    return _VectorColumns(parts, files)


class _FileColumns(FileColumns):
    def __init__(self, entries: Entries, layout: Layout, paths: Sequence[str], locations: Sequence[str]) -> None:
        files: OnDemand[DataFile] = OnDemand(len(paths), lambda number: layout.data_file(entries[number]), paths)
        super().__init__(files)
        self._entries, self._layout = entries, layout
        self.paths, self.locations = paths, locations

    @cached_property
    def partitions(self) -> Sequence[str | None]:
        spec, codes = self._layout.spec, self._entries.partition_of.tolist()
        used = set(codes)
        texts = {code: spec.decode(self._entries.partitions[code], source="").text for code in used}
        return [texts[code] for code in codes]

    @cached_property
    def rows(self) -> Index:
        return recorded(self._entries.rows)

    @cached_property
    def sizes(self) -> Index:
        return recorded(self._entries.sizes)

    @cached_property
    def single(self) -> Flags:
        return np.ones(len(self.files), np.bool_)


class _VectorColumns(VectorColumns):
    have_wide = False

    def __init__(self, parts: Sequence[IndexVectors], files: FileColumns) -> None:
        self._parts = [part for part in parts if len(part)]
        names = [path for part in self._parts for path in part.paths]
        super().__init__(joined(self._parts, names), {path: number for number, path in enumerate(files.paths)})
        self._named = names

    @cached_property
    def files(self) -> Index:
        known = self._number_of
        return np.array([-1 if path is None else known.get(path, -1) for path in self._named], np.int64)

    @cached_property
    def bitmaps(self) -> Flags:
        return np.ones(len(self.vectors), np.bool_)

    @cached_property
    def places(self) -> Places:
        counts = [len(part) for part in self._parts]
        paths, path_of = _distinct([part.path for part in self._parts])
        locations, location_of = _distinct([part.location for part in self._parts])
        return Places(paths, path_of.repeat(counts), locations, location_of.repeat(counts))

    @cached_property
    def offsets(self) -> Index:
        return _joined(part.offsets for part in self._parts)

    @cached_property
    def sizes(self) -> Index:
        return _joined(part.sizes for part in self._parts)

    @cached_property
    def cardinalities(self) -> Index:
        return _joined(part.cardinalities for part in self._parts)

    @cached_property
    def file_sizes(self) -> Index:
        return _joined(part.file_sizes for part in self._parts)


def _distinct(values: Sequence[str]) -> tuple[Sequence[str], Index]:
    numbers: dict[str, int] = {}
    found = np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)
    return list(numbers), found


def _joined(parts: Iterable[Index]) -> Index:
    return np.concatenate([np.zeros(0, np.int64), *parts])

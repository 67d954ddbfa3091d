"""The data files and the vectors of an Iceberg snapshot by column: those of its manifests, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np

from dvcodec.core.ragged import Flags, Index
from dvcodec.tables.columns import FileColumns, Places, VectorColumns
from dvcodec.tables.iceberg.plan import ScanPlan

Locate = Callable[[Sequence[str]], Sequence[str]]
"""Returns where recorded paths can be opened."""


def file_columns(plan: ScanPlan, locate: Locate) -> FileColumns:
    """Return the data files of a snapshot by column."""
    return _FileColumns(plan, locate)


def vector_columns(plan: ScanPlan, locate: Locate) -> VectorColumns:
    """Return the vectors of a snapshot by column."""
    return _VectorColumns(plan, locate)


class _FileColumns(FileColumns):
    def __init__(self, plan: ScanPlan, locate: Locate) -> None:
        super().__init__(plan.data_files)
        self._plan, self._locate = plan, locate

    @cached_property
    def paths(self) -> Sequence[str]:
        return list(self._plan.numbers)

    @cached_property
    def locations(self) -> Sequence[str]:
        return self._locate(self.paths)

    @cached_property
    def partitions(self) -> Sequence[str | None]:
        partitions, of_files, _ = self._plan.partitions
        labels = [partition.label for partition in partitions]
        return [labels[code] for code in of_files.tolist()]

    @cached_property
    def rows(self) -> Index:
        return _joined(part.rows for part in self._plan.data_parts)

    @cached_property
    def sizes(self) -> Index:
        return _joined(part.sizes for part in self._plan.data_parts)

    @cached_property
    def single(self) -> Flags:
        return np.ones(len(self.files), np.bool_)


class _VectorColumns(VectorColumns):
    def __init__(self, plan: ScanPlan, locate: Locate) -> None:
        super().__init__(plan.vectors, plan.numbers)
        self._plan, self._locate = plan, locate

    @cached_property
    def files(self) -> Index:
        return self._plan.files_of_vectors

    @cached_property
    def bitmaps(self) -> Flags:
        return self._plan.bitmaps

    @cached_property
    def frames(self) -> Flags:
        plan, known = self._plan, np.flatnonzero(self.files >= 0)
        of_files, of_vectors = plan.sequence_numbers
        found: Flags = self.bitmaps.copy()  # without those that are older than their data file, or have a key
        found[known] &= of_vectors[known] >= of_files[self.files[known]]
        starts = accumulate((len(part) for part in plan.vector_parts), initial=0)
        for first, part in zip(starts, plan.vector_parts, strict=False):
            found[[first + number for number in part.entries.keys]] = False
        return found

    @cached_property
    def have_wide(self) -> bool:
        return None in self._plan.named

    @cached_property
    def places(self) -> Places:
        numbers: dict[str, int] = {}
        own = (part.entries.paths for part in self._plan.vector_parts)
        path_of = np.array([numbers.setdefault(path, len(numbers)) for paths in own for path in paths], np.int64)
        located: dict[str, int] = {}
        of_path = [located.setdefault(one, len(located)) for one in self._locate(list(numbers))]
        return Places(list(numbers), path_of, list(located), np.array(of_path, np.int64)[path_of])

    @cached_property
    def offsets(self) -> Index:
        return _joined(part.offsets for part in self._plan.vector_parts)

    @cached_property
    def sizes(self) -> Index:
        return _joined(part.sizes for part in self._plan.vector_parts)

    @cached_property
    def cardinalities(self) -> Index:
        return _joined(part.cardinalities for part in self._plan.vector_parts)

    @cached_property
    def file_sizes(self) -> Index:
        return _joined(part.file_sizes for part in self._plan.vector_parts)


def _joined(parts: Iterable[Index]) -> Index:
    return np.concatenate([np.zeros(0, np.int64), *parts])

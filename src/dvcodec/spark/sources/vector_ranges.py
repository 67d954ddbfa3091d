"""Byte ranges of the vectors in a container: the columns that listing, reading and verifying share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dvcodec.core.ragged import Index
from dvcodec.ops.sniff import ContainerKind, VectorRef

__all__ = ["VectorRanges"]


@dataclass(frozen=True, slots=True, eq=False)
class VectorRanges:
    """Byte ranges of the vectors in one container, and their metadata.

    Attributes:
        path: path or URL of the container.
        kind: kind of the container; decides which vector layouts are valid.
        format: value of the column ``format``, None for null.
        offsets: int64[n], first byte of each vector; -1 if unknown.
        lengths: int64[n], bytes of each; -1 if unknown.
        stated: int64[n], cardinality in the metadata; -1 if it has none.
        data_files: data file of each.
        refs: as `sniff_source` returns them; None for ranges found otherwise.
    """

    path: str
    kind: ContainerKind
    format: str | None
    offsets: Index
    lengths: Index
    stated: Index
    data_files: list[str | None]
    refs: tuple[VectorRef, ...] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, index: Index) -> VectorRanges:
        """Return the ranges at these indices."""
        where = index.tolist()
        return replace(
            self,
            offsets=self.offsets[index],
            lengths=self.lengths[index],
            stated=self.stated[index],
            data_files=[self.data_files[i] for i in where],
            refs=None if self.refs is None else tuple(self.refs[i] for i in where),
        )

    def ref(self, i: int) -> VectorRef:
        """Return one range as a `VectorRef`."""
        if self.refs is not None:
            return replace(self.refs[i], cardinality=None if self.stated[i] < 0 else int(self.stated[i]))
        return VectorRef(self.kind, int(self.offsets[i]), int(self.lengths[i]))

"""Statistics of a vector from its container headers; positions are not expanded."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dvcodec.core.bitmap import ContainerMix
from dvcodec.core.errors import UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.usage import as_count, check_integer, check_type
from dvcodec.core.vector import Vector
from dvcodec.io import SourceTarget, StorageOptions, open_source
from dvcodec.ops.read import ahead, read_vector
from dvcodec.ops.sniff import refuse_segment, sniff_source


@dataclass(frozen=True, slots=True)
class VectorStats:
    """Statistics of one vector.

    Attributes:
        cardinality: deleted rows.
        min: lowest position, None if the vector is empty.
        max: highest position, None if the vector is empty.
        size: bytes of the vector as stored, including its frame.
        containers: number of array, bitset and run containers.
        bitmaps: number of non-empty 32-bit bitmaps.
        gaps: number of keys with the empty bitmap.
        row_count: physical rows of the data file, None if unknown.
    """

    cardinality: int
    min: int | None
    max: int | None
    size: int
    containers: ContainerMix
    bitmaps: int
    gaps: int
    row_count: int | None = None

    @property
    def deleted_share(self) -> float | None:
        """Deleted rows per row of the data file, 0 to 1; None if its row count is unknown or 0."""
        return self.cardinality / self.row_count if self.row_count else None

    @property
    def density(self) -> float | None:
        """Deleted rows per row from the lowest to the highest position, 0 to 1; None if empty."""
        if self.min is None or self.max is None:
            return None
        return self.cardinality / (self.max - self.min + 1)

    @property
    def bytes_per_row(self) -> float | None:
        """Bytes per deleted row; None if empty."""
        return self.size / self.cardinality if self.cardinality else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {
            "containers": self.containers._asdict(),
            "deleted_share": self.deleted_share,
            "density": self.density,
            "bytes_per_row": self.bytes_per_row,
        }


def describe(
    source: SourceTarget,
    *,
    row_count: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    storage_options: StorageOptions = None,
) -> tuple[VectorStats, ...]:
    """Return statistics of every vector of a container, in the order of `sniff(source).vectors`.

    >>> from dvcodec import RowSet, iceberg
    >>> (found,) = describe(iceberg.encode(RowSet([1, 3, 5])), row_count=12)
    >>> found.cardinality, found.max, found.size, found.deleted_share
    (3, 5, 46, 0.25)

    Args:
        source: bytes, path, URL, open file or `Source`; any container that `sniff` knows, except search segments.
        row_count: physical rows of the data file (of each one, if there are several).
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        DecodeError: the container or a vector is corrupt.
        UsageError: an argument of a wrong type, or a negative number.
        MissingExtra: a Lance deletion file of the Arrow kind, without pyarrow.
        OSError: it cannot be opened or read.
    """
    check_limits(limits)
    row_count = None if row_count is None else as_count(row_count, "row_count")
    with open_source(source, storage_options=storage_options) as opened:
        container = refuse_segment(sniff_source(opened, limits=limits))
        windows = ahead(opened, container.vectors)
        return tuple(
            measure(read_vector(windows, ref, limits=limits), row_count=row_count, size=ref.size)
            for ref in container.vectors
        )


def measure(vector: Vector, *, row_count: int | None = None, size: int | None = None) -> VectorStats:
    """Return statistics of a walked vector (see `read.read_vector`).

    Args:
        vector: the vector.
        row_count: physical rows of its data file.
        size: bytes of the vector as stored, if that is neither a frame nor a bare bitmap (Lance ``.arrow``).

    Raises:
        NotCanonical: array order or bitset population is wrong.
    """
    vector.check()
    view = vector.view
    if size is None:
        size = len(vector.frame.data) if vector.frame is not None else len(view.data)
    return VectorStats(view.cardinality, view.min, view.max, size, view.mix, len(view.bitmaps), view.gaps, row_count)


WORTH_REWRITING = 0.3
"""Share of deleted rows, Iceberg's default (``delete-ratio-threshold`` of its data file rewriter)."""


def check_thresholds(min_ratio: float, min_deleted: int) -> None:
    """Check the thresholds that a caller passes.

    Raises:
        UsageError: a share below 0 or above 1, or a negative number of rows.
    """
    check_type(min_ratio, (int, float), "min_ratio", "a number")
    check_integer(min_deleted, "min_deleted")
    if not 0 <= min_ratio <= 1 or min_deleted < 0:
        raise UsageError("min_ratio must be between 0 and 1, min_deleted not negative")

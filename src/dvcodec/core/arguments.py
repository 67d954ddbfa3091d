"""Validates and converts the positions, ranges, masks and bounds that callers pass."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.usage import as_count, check_type, integer_text


def as_positions(positions: Any) -> NDArray[np.uint64]:
    """Convert positions to a flat uint64 array, in the order given; duplicates are kept.

    Args:
        positions: an iterable of ints, a NumPy array of an integer dtype, or a pyarrow integer array without nulls.

    Raises:
        UsageError: a negative position, one above 2**64 - 1, a null or masked one, or values that are not integers.
    """
    if not isinstance(positions, np.ndarray):
        if isinstance(positions, str):
            raise UsageError("positions must be integers, not str")
        if isinstance(positions, (bytes, bytearray, memoryview)):
            raise UsageError("positions must be integers, not bytes: decode a vector with the module of its format")
        if isinstance(getattr(positions, "null_count", None), int):  # pyarrow
            if positions.null_count:
                raise UsageError(f"positions contain {positions.null_count} nulls")
            kwargs = {} if hasattr(positions, "num_chunks") else {"zero_copy_only": False}
            positions = positions.to_numpy(**kwargs)
        else:
            try:
                check_type(positions, Iterable, "positions", "integers in an iterable or an array")
                return np.frombuffer(array("Q", positions), np.uint64)
            except OverflowError:
                raise UsageError(_out_of_range(positions)) from None
            except TypeError as err:
                raise UsageError(f"positions must be integers: {err}") from None
    if isinstance(positions, np.ma.MaskedArray) and np.ma.is_masked(positions):
        raise UsageError("positions are masked")
    if positions.size == 0:
        return np.zeros(0, np.uint64)
    if positions.dtype.kind not in "iu" or positions.ndim != 1:
        hint = "; for booleans see RowSet.from_mask" if positions.dtype == np.bool_ else ""
        raise UsageError(
            f"positions must be a flat array of integers, got {positions.dtype} of shape {positions.shape}{hint}"
        )
    if positions.dtype.kind == "i" and int(positions.min()) < 0:
        raise UsageError(f"position {int(positions.min())} is negative")
    if positions.dtype == np.int64:  # none is negative, so the bits are the same
        return np.asarray(positions.view(np.uint64))
    return np.asarray(positions.astype(np.uint64, copy=False))


def _out_of_range(positions: Iterable[int]) -> str:
    if not isinstance(positions, Collection):  # an iterator, which is now exhausted
        return "a position is negative or above 2**64 - 1"
    lowest = min(positions)
    if lowest < 0:
        return f"position {integer_text(lowest)} is negative"
    return f"position {integer_text(max(positions))} is above 2**64 - 1"


def as_ranges(ranges: Iterable[tuple[int, int]] | NDArray[Any]) -> NDArray[np.int64]:
    """Convert half-open ranges ``[start, stop)`` to int64[k, 2], ascending by start, without empty ranges.

    Overlaps remain; `build.merge_touching` merges them.

    Raises:
        UsageError: not pairs of integers below 2**63, a negative start, or a stop below its start.
    """
    problem = "ranges must be pairs (start, stop) of integers below 2**63"
    try:
        table = np.asarray(ranges if isinstance(ranges, np.ndarray) else list(ranges))
    except (TypeError, ValueError, NotImplementedError):  # no iterable; pairs and triples mixed; an odd memoryview
        raise UsageError(problem) from None
    if table.size == 0:
        return np.zeros((0, 2), np.int64)
    if table.ndim != 2 or table.shape[1] != 2 or table.dtype.kind not in "iu":
        raise UsageError(problem)
    table = table.astype(np.int64)
    if (table[:, 0] < 0).any() or (table[:, 1] < table[:, 0]).any():
        raise UsageError("every range needs 0 <= start <= stop")
    table = table[table[:, 1] > table[:, 0]]
    return np.asarray(table[np.argsort(table[:, 0], kind="stable")])


def positions_of(mask: NDArray[np.bool_] | Iterable[bool], start: int) -> NDArray[np.uint64]:
    """Return the positions where a mask is True, ascending; `mask[0]` is position `start`.

    Raises:
        UsageError: the mask is not a flat array of booleans, or extends beyond positions 0 to 2**64 - 1.
    """
    check_type(mask, (np.ndarray, Iterable), "mask", "a flat array of booleans")
    start = as_count(start, "start")
    try:
        bools = np.asarray(mask if isinstance(mask, np.ndarray) else list(mask))
    except (TypeError, ValueError, NotImplementedError):  # ragged items; an odd memoryview
        raise UsageError("mask must be a flat array of booleans") from None
    if bools.size and (bools.dtype != np.bool_ or bools.ndim != 1):
        raise UsageError("mask must be a flat array of booleans")
    if not 0 <= start <= 2**64 - max(bools.size, 1):
        raise UsageError(f"a mask of {bools.size} rows from {start} extends beyond positions 0 to 2**64 - 1")
    return np.asarray(np.flatnonzero(bools).astype(np.uint64) + np.uint64(start))


def as_bounds(start: int, stop: int) -> tuple[int, int]:
    """Check a half-open range of positions and convert it to Python ints (NumPy's integers overflow silently).

    Raises:
        UsageError: not integers, or not 0 <= start <= stop.
    """
    try:
        start, stop = index(start), index(stop)
    except TypeError:
        kinds = f"{type(start).__name__} and {type(stop).__name__}"
        raise UsageError(f"start and stop must be integers, not {kinds}") from None
    if not 0 <= start <= stop:
        raise UsageError(
            f"a range of rows needs 0 <= start <= stop, got {integer_text(start)} and {integer_text(stop)}"
        )
    return start, stop

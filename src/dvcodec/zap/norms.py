"""Norms: the length of a field in a document, for scoring.

Source: zapx ``new.go``. Up to version 14 the bits of float32(1 / sqrt(field length)) are stored, as an integer; from 15
on the field length, in tokens.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.ragged import Values

__all__ = ["NORM_IS_LENGTH_FROM", "convert_norms", "norm_values", "norms_from_lengths"]

NORM_IS_LENGTH_FROM = 15
_LENGTH_BITS = np.uint64(0xFFFFFFFF)


def norms_from_lengths(version: int, lengths: Values) -> Values:
    """Return norms as a version stores them, from field lengths in tokens."""
    if version < NORM_IS_LENGTH_FROM:
        return _of_lengths(lengths).view(np.uint32).astype(np.uint64)
    kept: Values = lengths & _LENGTH_BITS
    return kept


def norm_values(version: int, norms: Values) -> NDArray[np.float32]:
    """Return norms as zapx reports them: float32(1 / sqrt(field length)); a length of 0 is infinity.

    Args:
        version: version of the segment, 11 to 17.
        norms: uint64, as stored: below version 15 the bits of the float32, from then on the length in tokens.
    """
    if version < NORM_IS_LENGTH_FROM:
        return norms.astype(np.uint32).view(np.float32)
    return _of_lengths(norms & _LENGTH_BITS)


def _of_lengths(lengths: Values) -> NDArray[np.float32]:
    """Return float32(1 / sqrt(length)), computed in double and rounded."""
    with np.errstate(divide="ignore"):
        return (1.0 / np.sqrt(lengths.astype(np.float64))).astype(np.float32)


def convert_norms(norms: Values, source: int, target: int) -> Values:
    """Convert stored norms between versions.

    Field lengths up to 4 million tokens survive the conversion to float32; above, neighbouring lengths share a norm.
    """
    if (source < NORM_IS_LENGTH_FROM) == (target < NORM_IS_LENGTH_FROM):
        return norms
    if target < NORM_IS_LENGTH_FROM:
        return norm_values(source, norms).view(np.uint32).astype(np.uint64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # any bit pattern is possible
        floats = norm_values(source, norms).astype(np.float64)
        lengths = np.rint(1.0 / (floats * floats))
    return np.where(np.isfinite(lengths) & (lengths < 2**32), lengths, 0).astype(np.uint64)

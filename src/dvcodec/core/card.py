"""The HTML card that notebooks show for a row set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.bitmap import ContainerMix

__all__ = ["card"]

_BINS = 96
_HEIGHT = 24


def card(
    cardinality: int,
    low: int | None,
    high: int | None,
    mix: ContainerMix,
    histogram: Callable[[int, int], NDArray[np.int64]],
) -> str:
    """Return HTML with inline SVG. It contains no text from outside this module, only numbers.

    Args:
        cardinality: number of rows.
        low: first row, None if there is none.
        high: last row.
        mix: containers of each kind.
        histogram: counts rows in equal slices; see `RowSet.histogram`.
    """
    if low is None or high is None:
        return "<div><b>RowSet</b> empty</div>"
    kinds = ", ".join(f"{count:,} {name}" for name, count in mix._asdict().items() if count)
    return (
        f"<div><b>RowSet</b> {cardinality:,} row{'s' * (cardinality != 1)} in {low:,}..{high:,}"
        f"<br><small>containers: {kinds}</small>{_strip(histogram(high + 1, _BINS), high)}</div>"
    )


def _strip(counts: NDArray[np.int64], high: int) -> str:
    """Draw deleted rows per slice from position 0 to the last, as bars; the densest slice has full height."""
    heights = np.ceil(counts * (_HEIGHT / int(counts.max()))).astype(int).tolist()
    bars = "".join(
        f'<rect x="{x}" y="{_HEIGHT - height}" width="1" height="{height}"/>'
        for x, height in enumerate(heights)
        if height
    )
    return (
        f'<svg viewBox="0 0 {_BINS} {_HEIGHT}" width="{4 * _BINS}" height="{_HEIGHT}" preserveAspectRatio="none" '
        f'fill="currentColor" role="img" style="display:block;background:#8882">'
        f"<title>rows per slice of 0..{high:,}</title>{bars}</svg>"
    )

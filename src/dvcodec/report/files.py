"""The data files of a report as columns for its script."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.text import plain
from dvcodec.tables.model import DeletionVector
from dvcodec.tables.snapshots.scanning import Scan

SHADE_EDGES = (np.finfo(np.float32).tiny, 0.01, 0.1, 0.5, 1.0)
"""Shares of a part at which the shades of a density strip begin: any row, 1 %, 10 %, half, all."""


def columns(scan: Scan, folder: str, rewrite: Iterable[str]) -> dict[str, Any]:
    """Return plain values for JSON: a list for each column, with one value for each data file, in the scan's order.

    Paths and errors are shown as text of one line, see `plain`. Deleted rows of which only a lower bound is
    known are None.

    Args:
        scan: what is deleted.
        folder: common to all paths, see `core.text.folder_of`.
        rewrite: paths of the data files worth rewriting.
    """
    files = scan.files
    paths = [file.data_file.path for file in files]
    places: dict[str, int] = {}
    wanted = set(rewrite)
    mixes = [file.containers for file in files]
    return {
        "folder": plain(folder),
        "path": [plain(path[len(folder) :]) for path in paths],
        "partition": [None if file.data_file.partition is None else plain(file.data_file.partition) for file in files],
        "rows": [file.data_file.physical_rows for file in files],
        "size": [file.data_file.size for file in files],
        "deleted": [file.deleted for file in files],
        "stored": [file.stored_bytes for file in files],
        "containers": [
            [mix.arrays for mix in mixes],
            [mix.bitsets for mix in mixes],
            [mix.runs for mix in mixes],
        ],
        "strip": [shades(file.density) for file in files],
        "vectors": [[_vector(vector, places) for vector in file.vectors] for file in files],
        "places": [plain(place) for place in places],
        "errors": {i: [plain(error) for error in file.errors] for i, file in enumerate(files) if file.errors},
        "rewrite": [i for i, file in enumerate(files) if file.data_file.path in wanted],
    }


def shades(density: NDArray[np.float32]) -> str:
    """Return the shade of each part of a file, 0 (nothing deleted) to 5 (all): a digit each; empty if all are 0.

    >>> import numpy as np
    >>> shades(np.array([0, 0.001, 0.01, 0.3, 0.99, 1], np.float32)), shades(np.zeros(64, np.float32))
    ('012345', '')
    """
    steps = np.digitize(density, np.asarray(SHADE_EDGES, np.float32))
    return (steps + ord("0")).astype(np.uint8).tobytes().decode("ascii") if steps.any() else ""


def _vector(vector: DeletionVector, places: dict[str, int]) -> list[int | None]:
    """Return file (index in `places`; an inline vector has the empty name), offset, size and recorded cardinality."""
    place = places.setdefault(vector.path, len(places))
    return [place, vector.offset, vector.size, vector.cardinality]

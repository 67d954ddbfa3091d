from __future__ import annotations

from array import array as typed_array
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from battery import name_of
from cases import each
from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import as_bounds, as_positions

INT_DTYPES = ["i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8"]
ARROW_TYPES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]


def generated(values: Iterable[int]) -> Iterable[int]:
    yield from values


FORMS: dict[str, Callable[[list[int]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": generated,
    "list of NumPy ints": lambda values: [np.int64(value) for value in values],
    "array of ints": lambda values: typed_array("i", values),
    "pandas Series": pd.Series,
    "pandas Index": pd.Index,
    "polars Series": pl.Series,
    "Arrow array": pa.array,
    "Arrow chunked array": lambda values: pa.chunked_array([values[:1], [], values[1:]], type=pa.int64()),
    "strided NumPy array": lambda values: np.repeat(values, 2)[::2],
    **{f"NumPy {dtype}": partial(np.array, dtype=dtype) for dtype in INT_DTYPES},
    **{f"Arrow {kind}": partial(pa.array, type=kind) for kind in ARROW_TYPES},
}


@each(
    ("wrong", "message"),
    [
        ([-1], "position -1 is negative"),
        ([5, -7, -1], "position -7 is negative"),
        (iter([-1]), "a position is negative or above 2\\*\\*64 - 1"),
        ([2**64], f"position {2**64} is above 2\\*\\*64 - 1"),
        (np.array([5, -7]), "position -7 is negative"),
        ([1.0], "positions must be integers"),
        ([1, "2"], "positions must be integers"),
        ("12", "positions must be integers"),
        (5, "positions must be integers"),
        (typed_array("d", [1.0]), "positions must be integers"),
        (pl.Series([1, None]), "positions must be integers"),
        (np.array([1.0]), "flat array of integers, got float64"),
        (np.array([True]), "for booleans see RowSet.from_mask"),
        (np.array([1], "m8[s]"), "flat array of integers"),
        (np.array([[1, 2]]), "flat array of integers"),
        (pa.array([1.5]), "flat array of integers, got float64"),
        (pa.array(["a"]), "flat array of integers, got object"),
        (pa.array([1, None, None]), "positions contain 2 nulls"),
        (bytes(8), "not bytes"),
        (memoryview(bytes(8)), "not bytes"),
        (np.ma.masked_equal([1, 2, 3], 2), "positions are masked"),
    ],
    ids=name_of,
)
def test_invalid_row_positions_are_refused(wrong: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        as_positions(wrong)


def test_numbers_of_any_size_are_refused_in_a_short_line() -> None:
    for position, problem in ((10**5000, "above"), (-(10**5000), "negative")):
        with pytest.raises(UsageError, match=f"^position an integer of 16610 bits is {problem}"):
            as_positions([position])
    with pytest.raises(UsageError, match=r"got an integer of 16610 bits and 1$"):
        as_bounds(10**5000, 1)

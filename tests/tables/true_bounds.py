"""Bounds of columns against the values that the data files hold."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dvcodec.core.errors import Unsupported
from dvcodec.tables import Snapshot
from dvcodec.tables.auditing import BoundsCheck
from dvcodec.tables.rows.bounds import ColumnBounds


def check_bounds(snapshot: Snapshot) -> tuple[int, int]:
    """Check every column of every data file that can be read; return how many have bounds, and how many do not.

    What the footer says of each row group is checked too, and no bounds exclude rows of the footer.
    """
    some, none = 0, 0
    schema = snapshot.schema()
    check_footer = BoundsCheck(snapshot)
    for file in snapshot.data_files:
        groups: list[Any] = []
        try:
            read = list(snapshot.rows(file, wanted=partial(_noted, groups)))
            parts = [part.batch.filter(part.keep) if part.keep else part.batch for part in read]
        except Unsupported:
            continue
        known = snapshot.bounds(file, schema.names)
        rows = pa.Table.from_batches(parts, schema)
        for start, count, of_group in groups if all(part.keep is None for part in read) else ():
            for name, bounds in of_group.items():
                check_column(rows.column(name).slice(start, count), bounds, f"{file.path}, row {start}: {name}")
        for name in schema.names:
            bounds = known.get(name, ColumnBounds())
            check_column(rows.column(name), bounds, f"{file.path}: {name}")
            some += bounds.lower is not None and bounds.upper is not None
            none += bounds == ColumnBounds()
        assert check_footer(file)[0] == []
    return some, none


def _noted(groups: list[Any], *group: Any) -> bool:
    groups.append(group)
    return True


def check_column(values: pa.ChunkedArray, bounds: ColumnBounds, what: str) -> None:
    assert bounds.nulls or not values.null_count, what
    assert bounds.values or values.null_count == len(values), what
    for end, within in ((bounds.lower, pc.greater_equal), (bounds.upper, pc.less_equal)):
        if end is not None:
            assert end.type == values.type, what
            assert pc.all(within(values, end), min_count=0).as_py() is not False, (what, bounds)
    if bounds.constant:
        wanted = pa.repeat(bounds.value(values.type), len(values))
        assert values.combine_chunks() == wanted or values == pa.chunked_array([wanted]), (what, bounds)

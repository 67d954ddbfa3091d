"""Roaring bitmaps in the wrappers of other systems: what a bitmap column, a log block or a cache holds.

`decode` and `encode` take the name of a dialect. Each has a module, which describes its layout;
docs/formats/dialects.md says what each was held against.

- ``clickhouse8``, ``16``, ``32``, ``64`` (`dvcodec.dialects.clickhouse`): ClickHouse's state of ``groupBitmap`` for a
  column of unsigned integers of that many bits.
- ``doris``, ``starrocks`` (`dvcodec.dialects.bitmap_value`): values of their BITMAP columns.
- ``croaring`` (`dvcodec.dialects.croaring`): CRoaring's ``roaring_bitmap_serialize``.
- ``java-legacy`` (`dvcodec.dialects.java_legacy`): Java's ``Roaring64NavigableMap`` in its default mode.
- ``java-art`` (`dvcodec.dialects.java_art`): Java's ``Roaring64Bitmap``.
- ``croaring-frozen`` (`dvcodec.dialects.croaring_frozen`): CRoaring's ``roaring_bitmap_frozen_serialize``.
- ``pyroaring32``, ``pyroaring64`` (`dvcodec.dialects.pyroaring_pickle`): pickles of pyroaring's bitmaps.
- ``delvec`` (`dvcodec.dialects.delvec`): pages of StarRocks' delete vectors.
- ``hudi`` (`dvcodec.dialects.hudi`): record positions in the header of a log block of Hudi.

Two modules have functions of their own, because a file has more than a bitmap: `dvcodec.dialects.tantivy` (alive
bitsets) and `dvcodec.dialects.ducklake` (the vectors of one data file in several snapshots).
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.usage import check_choice
from dvcodec.dialects.base import Wrapper
from dvcodec.dialects.bitmap_value import VALUE
from dvcodec.dialects.clickhouse import group_bitmap
from dvcodec.dialects.croaring import NATIVE
from dvcodec.dialects.croaring_frozen import FROZEN
from dvcodec.dialects.delvec import PAGE
from dvcodec.dialects.hudi import RECORD_POSITIONS
from dvcodec.dialects.java_art import ART
from dvcodec.dialects.java_legacy import NAVIGABLE_MAP
from dvcodec.dialects.pyroaring_pickle import PICKLE32, PICKLE64

__all__ = ["DIALECTS", "Dialect", "decode", "encode"]

Dialect: TypeAlias = Literal[
    "clickhouse8",
    "clickhouse16",
    "clickhouse32",
    "clickhouse64",
    "doris",
    "starrocks",
    "croaring",
    "croaring-frozen",
    "pyroaring32",
    "pyroaring64",
    "java-legacy",
    "java-art",
    "delvec",
    "hudi",
]
"""The name of a dialect."""
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
"""All of them."""
WRAPPERS: dict[Dialect, Wrapper] = {
    "clickhouse8": group_bitmap(1),
    "clickhouse16": group_bitmap(2),
    "clickhouse32": group_bitmap(4),
    "clickhouse64": group_bitmap(8),
    "doris": VALUE,
    "starrocks": VALUE,
    "croaring": NATIVE,
    "croaring-frozen": FROZEN,
    "pyroaring32": PICKLE32,
    "pyroaring64": PICKLE64,
    "java-legacy": NAVIGABLE_MAP,
    "java-art": ART,
    "delvec": PAGE,
    "hudi": RECORD_POSITIONS,
}
"""How each is read and written."""


def _check_dialect(dialect: object) -> None:
    """Refuse what is not one of `DIALECTS`.

    Raises:
        UsageError: it is not.
    """
    if dialect in ("ducklake", "tantivy"):
        raise UsageError(f"{dialect} has functions of its own: see dvcodec.dialects.{dialect}")
    check_choice(dialect, DIALECTS, "dialect")


def decode(
    buf: BytesLike,
    dialect: Dialect,
    *,
    limits: Limits = DEFAULT_LIMITS,
    source: str | None = None,
    base: int = 0,
) -> RowSet:
    """Decode one bitmap.

    Args:
        buf: exactly the bitmap; for ``hudi``, its text as ASCII.
        dialect: one of `DIALECTS`.
        limits: bounds on what the bytes may claim.
        source: name of the file, for errors.
        base: byte offset of the bitmap in that file, for errors.

    Returns:
        The values: unsigned integers of 64 bits.

    Raises:
        DecodeError: the bitmap is corrupt, or has a code that is not known.
        UsageError: another dialect, or an argument of a wrong type.

    >>> decode(bytes.fromhex("00 02 05000000 07000000"), "clickhouse32")
    RowSet([5, 7])
    """
    _check_dialect(dialect)
    check_limits(limits)
    cursor = Cursor(buf, source=source, base=base)
    limits.check("max_vector_bytes", cursor.remaining, cursor)
    wrapper = WRAPPERS[dialect]
    rows = wrapper.read(cursor, limits)
    cursor.expect_end("the bitmap")
    limits.check("max_cardinality", rows.cardinality, cursor, 0)
    if rows and (rows.max or 0) > wrapper.highest:
        raise cursor.error(NotCanonical, "values", at=0, expected=f"at most {wrapper.highest}", actual=rows.max)
    return rows


def encode(rows: RowSet, dialect: Dialect) -> bytes:
    """Encode one bitmap, as the system itself would after adding the values one by one.

    Args:
        rows: the values.
        dialect: one of `DIALECTS`.

    Raises:
        UsageError: not a `RowSet`, another dialect, or a value that does not fit it.

    >>> encode(RowSet([5]), "doris").hex(" ")
    '01 05 00 00 00'
    """
    check_rows(rows)
    _check_dialect(dialect)
    wrapper = WRAPPERS[dialect]
    if rows and (rows.max or 0) > wrapper.highest:
        raise UsageError(f"value {rows.max} does not fit a bitmap of the dialect {dialect} (at most {wrapper.highest})")
    return wrapper.write(rows)

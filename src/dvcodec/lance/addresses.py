"""Lance row addresses, and sets of them as stored by scalar indices.

Specification: Rust class ``RowAddrTreeMap`` of ``lance-core`` (``RowIdTreeMap`` until 2025). An address is
fragment << 32 | physical row offset; in datasets with stable row ids the same structure has ids, and the "fragment" is
their high half. Serialized::

    u32 LE entries | u32 LE fragment | u32 LE size | 32-bit portable roaring, `size` bytes | ...      fragments ascend

Size 0 is the whole fragment. (The 64-bit format of Iceberg and Delta has a u64 count and no sizes.)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dvcodec.core import roaring
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import NotCanonical, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.rowset import RowSet, as_positions, check_rows
from dvcodec.core.usage import as_count, check_integer, check_type

TOMBSTONE_FRAGMENT = 0xFFFFFFFF
"""Fragment of deleted rows."""
TOMBSTONE_ADDRESS = 2**64 - 1
"""Address of a deleted row."""
_MIN_ENTRY = 8
_U32 = 2**32


@dataclass(frozen=True, slots=True)
class RowAddrMap:
    """A set of row addresses.

    Attributes:
        fragments: fragment (0 .. 2**32 - 1), ascending -> physical row offsets in it; None is the whole fragment.

    Raises:
        UsageError: a fragment or an offset beyond 32 bits, a fragment without rows, or a wrong type.
    """

    fragments: Mapping[int, RowSet | None]

    def __post_init__(self) -> None:
        check_type(self.fragments, Mapping, "fragments", "a mapping of fragments to RowSet")
        for fragment, rows in self.fragments.items():
            check_integer(fragment, "a fragment")
            check_type(rows, (RowSet, type(None)), f"the rows of fragment {fragment}", "a RowSet or None")
            if not 0 <= fragment < _U32:
                raise UsageError(f"fragment {fragment} is not between 0 and {_U32 - 1}")
            if rows is not None and not rows:
                raise UsageError(f"fragment {fragment} has no rows: omit it")
            if rows is not None and (rows.max or 0) >= _U32:
                raise UsageError(f"row offset {rows.max} of fragment {fragment} is beyond 32 bits")
        ordered = {int(fragment): self.fragments[fragment] for fragment in sorted(self.fragments)}
        object.__setattr__(self, "fragments", MappingProxyType(ordered))

    def __hash__(self) -> int:
        return hash(tuple(self.fragments.items()))

    def __reduce__(self) -> tuple[object, ...]:  # a MappingProxyType cannot be pickled
        return (type(self), (dict(self.fragments),))

    def __contains__(self, address: int) -> bool:
        rows = self.fragments.get(address >> 32, RowSet())
        return rows is None or (address & (_U32 - 1)) in rows

    @property
    def cardinality(self) -> int | None:
        """Number of addresses; None if the map contains a whole fragment."""
        counts = [None if rows is None else rows.cardinality for rows in self.fragments.values()]
        return None if None in counts else sum(count for count in counts if count is not None)

    def to_row_set(self) -> RowSet:
        """Return the addresses (or stable row ids) as a set of 64-bit values.

        Raises:
            UsageError: the map contains a whole fragment.
        """
        whole = next((fragment for fragment, rows in self.fragments.items() if rows is None), None)
        if whole is not None:
            raise UsageError(f"the map contains fragment {whole} as a whole, with an unknown number of rows")
        return RowSet.from_bitmaps({fragment: rows.bitmaps[0] for fragment, rows in self.fragments.items() if rows})

    @classmethod
    def from_row_set(cls, addresses: RowSet) -> RowAddrMap:
        """Return the map of addresses (or stable row ids).

        Raises:
            UsageError: not a `RowSet`.
        """
        check_rows(addresses, "addresses")
        return cls({key: RowSet.from_bitmaps({0: bitmap}) for key, bitmap in addresses.bitmaps.items()})


def decode_row_addr_map(
    buf: BytesLike, *, limits: Limits = DEFAULT_LIMITS, source: str | None = None, base: int = 0
) -> RowAddrMap:
    """Decode a map.

    Args:
        buf: exactly the map.
        limits: `max_cardinality` applies.
        source: name of the file, for errors.
        base: offset of the map in that file, for errors.

    Raises:
        DecodeError: the map is corrupt.
        UsageError: `buf` is not a contiguous buffer, or another argument has a wrong type.
    """
    check_limits(limits)
    cursor = Cursor(buf, source=source, base=base)
    count = cursor.u32le("fragment count")
    if count > cursor.remaining // _MIN_ENTRY:
        most = f"at most {cursor.remaining // _MIN_ENTRY} in {cursor.remaining} bytes"
        raise cursor.error(Truncated, "fragment count", at=0, expected=most, actual=count)
    found: dict[int, RowSet | None] = {}
    last, total = -1, 0
    for _ in range(count):
        entry = cursor.pos
        fragment, size = cursor.u32le("fragment"), cursor.u32le("bitmap size")
        if fragment <= last:
            raise cursor.error(NotCanonical, "fragment", at=entry, expected=f"above {last}", actual=fragment)
        last = fragment
        if not size:
            found[fragment] = None
            continue
        with cursor.restrict_to(size, f"bitmap of fragment {fragment}"):
            view = roaring.walk(cursor)
        total += view.cardinality
        limits.check("max_cardinality", total, cursor, entry)
        if not view.cardinality:
            what = f"bitmap of fragment {fragment}"
            raise cursor.error(NotCanonical, what, at=entry, expected="rows", actual="none")
        found[fragment] = RowSet.from_bitmaps({0: view.load()})
    cursor.expect_end("the map")
    return RowAddrMap(found)


def encode_row_addr_map(rows: RowAddrMap) -> bytes:
    """Encode a map with Lance's bytes: ascending fragments, no run containers.

    Raises:
        UsageError: not a `RowAddrMap`.
    """
    check_type(rows, RowAddrMap, "rows", "a RowAddrMap (RowAddrMap.from_row_set(addresses) makes one)")
    out = [struct.pack("<I", len(rows.fragments))]
    for fragment, offsets in rows.fragments.items():
        data = b"" if offsets is None else roaring.serialize(offsets.bitmaps[0], run_optimize=False)
        out += [struct.pack("<II", fragment, len(data)), data]
    return b"".join(out)


def row_addresses(fragment: int, offsets: ArrayLike) -> NDArray[np.uint64]:
    """Return the addresses of physical row offsets (below 2**32) in a fragment: uint64[n].

    Args:
        fragment: its id.
        offsets: 0-based physical row offsets in it, in the order of the result.

    Raises:
        UsageError: a fragment or an offset beyond 32 bits.
    """
    values = as_positions(offsets)
    fragment = as_count(fragment, "fragment")
    if not 0 <= fragment < _U32 or (len(values) and int(values.max()) >= _U32):
        raise UsageError("fragments and row offsets must fit 32 bits")
    addresses: NDArray[np.uint64] = values | np.uint64(fragment << 32)
    return addresses


def split_row_addresses(addresses: ArrayLike) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return fragments and physical row offsets: uint32[n] each. Tombstones are treated like other addresses.

    Raises:
        UsageError: not integers from 0 to 2**64 - 1.
    """
    values: NDArray[Any] = as_positions(addresses)
    return (values >> np.uint64(32)).astype(np.uint32), values.astype(np.uint32)

"""Enumerate whole dictionaries, level by level, with NumPy.

A slice of the dictionary is a sequence of items in key order: byte strings, each with its state and its value so far.
`_grow` extends all items by a byte, and repeats this until every item is a complete key (address 0) or they take too
much memory; then they are split into slices, which are processed one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import CardinalityMismatch
from dvcodec.core.ragged import ByteStrings, Index, offsets_of, spread
from dvcodec.zap.vellum.block import KeyBlock
from dvcodec.zap.vellum.states import FOOTER, States
from dvcodec.zap.vellum.walk import Walker

__all__ = ["blocks", "miscounted"]

_ROOM = 1 << 22
"""Bytes of the keys of a slice, plus `_ITEM` for each. Only a slice grown from a single item may exceed it."""
_ITEM = 16
_PIECES = 16
_FEW = 256
"""Up to this many keys are walked one by one, which is faster."""
_DEEP = 256
"""Longer keys are walked one by one: a level costs NumPy as much as a hundred states, and a chain of a million states
has a million levels."""


class _Items(NamedTuple):
    """A slice. All incomplete items have the same length."""

    keys: ByteStrings
    addrs: Index
    values: NDArray[np.uint64]

    def cut(self, pieces: int) -> Iterator[_Items]:
        """Yield parts of equal size, the last one first."""
        step = -(-len(self.addrs) // pieces)
        for start in reversed(range(0, len(self.addrs), step)):
            part = slice(start, start + step)
            yield _Items(self.keys[part], self.addrs[part], self.values[part])


class _Level(NamedTuple):
    """Nodes of the tree of keys at one distance from the items."""

    final: NDArray[np.bool_]
    values: NDArray[np.uint64]
    """Value of the key that ends at each node, if any."""
    counts: Index
    """Number of nodes below each, in the next level."""
    inputs: NDArray[np.uint8]
    """The input byte of each node of the next level."""


def miscounted(states: States, num_keys: int, actual: object) -> CardinalityMismatch:
    """Return the error for a footer that states a wrong number of keys."""
    at = len(states.view) - FOOTER
    return states.cursor.error(CardinalityMismatch, "number of keys", at=at, expected=num_keys, actual=actual)


def blocks(states: States, root: int, num_keys: int) -> Iterator[KeyBlock]:
    """Yield all keys from the state `root` on; see `Fst.blocks`. `num_keys` is 0 only for an empty dictionary.

    Raises:
        NotCanonical: a state is corrupt.
        CardinalityMismatch: there are more or fewer keys; some blocks may have been yielded.
    """
    if not num_keys:
        return
    start = _Items(ByteStrings.from_list([b""]), np.array([root], np.int64), np.zeros(1, np.uint64))
    stack, waiting, found = [start], 1, 0
    walker = Walker(states)
    while stack:
        items = stack.pop()
        waiting -= len(items.addrs)
        # Every item has at least one key, including those in the stack.
        allowed = num_keys - found - waiting
        live = np.flatnonzero(items.addrs)
        if len(live):
            depth = int(items.keys.lengths[live[0]])
            if num_keys <= _FEW or depth >= _DEEP:
                for block in _one_by_one(walker, items, allowed):
                    allowed -= len(block)
                    if allowed < 0:
                        raise miscounted(states, num_keys, "more")
                    found += len(block)
                    yield block
                continue
            grown = _grow(states, items, depth, allowed)
            if grown is None:
                raise miscounted(states, num_keys, "more")
            if grown.addrs.any():
                stack += grown.cut(_PIECES)
                waiting += len(grown.addrs)
                continue
            items = grown
        found += len(items.addrs)
        yield KeyBlock(items.keys, items.values)
    if found != num_keys:
        raise miscounted(states, num_keys, found)


def _one_by_one(walker: Walker, items: _Items, allowed: int) -> Iterator[KeyBlock]:
    """Enumerate the keys of a slice without NumPy. A block with more than `allowed` keys is yielded immediately."""
    keys: list[bytes] = []
    values: list[int] = []
    size = 0
    for path, addr, value in zip(items.keys, items.addrs.tolist(), items.values.tolist(), strict=True):
        for key, total in walker.walk(bytearray(path), addr, value):
            keys.append(key)
            values.append(total)
            size += len(key) + _ITEM
            if size > _ROOM or len(keys) > allowed:
                yield KeyBlock(ByteStrings.from_list(keys), np.array(values, np.uint64))
                allowed -= len(keys)
                keys, values, size = [], [], 0
    if keys:
        yield KeyBlock(ByteStrings.from_list(keys), np.array(values, np.uint64))


def _grow(states: States, items: _Items, depth: int, allowed: int) -> _Items | None:
    """Extend the items level by level; return the result, or None if it has more than `allowed` keys.

    At least one level is processed, unless there are several items and no room: then they are returned unchanged.
    """
    levels: list[_Level] = []
    addrs, values = items.addrs, items.values
    done, room = 0, len(items.keys.data)
    while True:
        live = np.flatnonzero(addrs)
        if not len(live) or depth + len(levels) > _DEEP:
            break
        heads = states.heads(addrs[live])
        below = int(heads.counts.sum())
        ended = len(addrs) - len(live) + int(np.count_nonzero(heads.final))
        if done + ended + below > allowed:
            return None
        length = depth + len(levels) + 1
        if room + (ended + below) * (length + _ITEM) > _ROOM and (levels or len(live) > 1):
            break
        done += ended
        room += ended * (length + _ITEM)
        final, ends = addrs == 0, values.copy()
        final[live] = heads.final
        ends[live] += heads.output
        counts = np.zeros(len(addrs), np.int64)
        counts[live] = heads.counts
        steps = states.transitions(addrs[live], heads)
        levels.append(_Level(final, ends, counts, steps.inputs))
        addrs = steps.targets
        values = np.repeat(values, counts) + steps.outputs
    return _assemble(items, depth, levels, addrs, values) if levels else items


def _assemble(items: _Items, depth: int, levels: list[_Level], addrs: Index, values: NDArray[np.uint64]) -> _Items:
    """Combine the keys that end within `levels` with the items after the last level, in key order.

    Every node covers a range of items of the result: those with its prefix. The sizes of the ranges are computed from
    the last level up, their starts from the first level down; then each level writes one byte of each item.
    """
    sizes = [np.ones(len(addrs), np.int64)]
    before, edges = [], []
    for level in reversed(levels):
        before.append(offsets_of(sizes[-1]))
        edges.append(offsets_of(level.counts))
        sizes.append(np.diff(before[-1][edges[-1]]) + level.final)
    sizes.reverse()
    begins = [offsets_of(sizes[0])[:-1]]
    total = int(sizes[0].sum())
    lengths, out_addrs = np.empty(total, np.int64), np.zeros(total, np.int64)
    out_values = np.empty(total, np.uint64)
    for i, level in enumerate(levels):
        ended = begins[i][level.final]
        lengths[ended] = depth + i if i else items.keys.lengths[level.final]
        out_values[ended] = level.values[level.final]
        starts, firsts = before.pop(), edges.pop()[:-1]
        begins.append(np.repeat(begins[i] + level.final - starts[firsts], level.counts) + starts[:-1])
    lengths[begins[-1]] = depth + len(levels)
    out_values[begins[-1]] = values
    out_addrs[begins[-1]] = addrs
    offsets = offsets_of(lengths)
    data = np.empty(int(offsets[-1]), np.uint8)
    stems = items.keys.take(np.repeat(np.arange(len(items.addrs)), sizes[0]))
    data[spread(offsets[:-1], stems.lengths)] = stems.data
    for i, level in enumerate(levels):
        at = offsets[spread(begins[i + 1], sizes[i + 1])] + (depth + i)
        data[at] = np.repeat(level.inputs, sizes[i + 1])
    return _Items(ByteStrings(offsets, data), out_addrs, out_values)

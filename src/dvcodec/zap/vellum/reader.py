"""The dictionary: one key, a range of keys, or all of them.

All keys are enumerated level by level with NumPy. A slice of the dictionary is a sequence of items in key order: byte
strings, each with its state and its value so far. `_grow` extends all items by a byte, and repeats this until every
item is a complete key (address 0) or they take too much memory; then they are split into slices, which are processed
one after another. `Walker` goes key by key, depth first without recursion.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import CardinalityMismatch, NotCanonical, Truncated, Unsupported
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings, Index, offsets_of, spread
from dvcodec.zap.vellum.states import FOOTER, HEADER, ONE, State, States


@dataclass(frozen=True, slots=True, eq=False)
class KeyBlock:
    """Consecutive keys of a dictionary.

    Attributes:
        keys: strictly ascending.
        values: uint64, one per key.
    """

    keys: ByteStrings
    values: NDArray[np.uint64]

    @classmethod
    def concat(cls, blocks: Sequence[KeyBlock]) -> KeyBlock:
        """Concatenate blocks."""
        values = np.concatenate([np.zeros(0, np.uint64), *(block.values for block in blocks)])
        return cls(ByteStrings.concat([block.keys for block in blocks]), values)

    def __len__(self) -> int:
        return len(self.values)


_LONG, _MOST = 64, 1 << 14
"""Minimum bytes of a cached piece of a chain, and maximum number of pieces (of at most 1024 bytes)."""

_Turn: TypeAlias = tuple[int, State, int, int]
"""An untaken transition: length of the path, the state there, index of its next transition, the value so far."""


class Walker:
    """Yields keys and values, ascending.

    Long chains of states are cached, because many keys may share a long suffix. They are cached in pieces that end at
    fixed borders of the blob, so that paths into the middle of a chain share its further pieces.
    """

    __slots__ = ("_chains", "_states")

    def __init__(self, states: States) -> None:
        self._states = states
        self._chains: dict[int, tuple[bytes, int, int]] = {}

    def seek(self, root: int, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, int]]:
        """Return the keys below `root` from `start` to `stop`, exclusive, without visiting earlier ones.

        Raises:
            NotCanonical: a state is corrupt; also during iteration.
        """
        turns: list[_Turn] = []
        path, addr, value = bytearray(), root, 0
        for key in start:
            state = self._states.parse(addr)
            i = bisect_left(state.inputs, key)
            found = state.inputs[i : i + 1] == bytes((key,))
            if i + found < len(state.inputs):
                turns.append((len(path), state, i + found, value))
            if not found:
                if not turns:
                    return iter(())
                addr, value = _turn(turns, path)
                break
            path.append(key)
            addr, value = state.targets[i], value + state.outputs[i]
        return self.walk(path, addr, value, stop, turns)

    def walk(
        self, path: bytearray, addr: int, value: int, stop: bytes | None = None, turns: list[_Turn] | None = None
    ) -> Iterator[tuple[bytes, int]]:
        """Yield the keys from the state `addr` on, whose prefix is `path`, then those of the `turns`, last one first.

        Only states with untaken transitions are in `turns`, so a chain of states takes no more memory than its key.

        Raises:
            NotCanonical: a state is corrupt.
        """
        turns = [] if turns is None else turns
        while True:
            # All further keys begin with `path` or are greater.
            if stop is not None and path >= stop:
                return
            addr, value = self._follow(path, addr, value)
            state = self._states.parse(addr)
            if state.final:
                if stop is not None and path >= stop:
                    return
                yield bytes(path), value + state.output & _TOP
            if state.inputs:
                turns.append((len(path), state, 0, value))
            if not turns:
                return
            addr, value = _turn(turns, path)

    def _follow(self, path: bytearray, addr: int, value: int) -> tuple[int, int]:
        """Append the input bytes of the chain from `addr` on to the path; return its end and the value."""
        view, chains = self._states.view, self._chains
        while view[addr] >= ONE:
            piece = chains.get(addr)
            if piece is None:
                piece = self._states.chain(addr)
                if len(piece[0]) >= _LONG:
                    if len(chains) >= _MOST:
                        chains.clear()
                    chains[addr] = piece
            path += piece[0]
            addr, value = piece[1], value + piece[2]
        return addr, value


def _turn(turns: list[_Turn], path: bytearray) -> tuple[int, int]:
    """Take the next transition of the last turn; return its target and the value there."""
    size, state, i, value = turns.pop()
    if i + 1 < len(state.inputs):
        turns.append((size, state, i + 1, value))
    del path[size:]
    path.append(state.inputs[i])
    return state.targets[i], value + state.outputs[i]


def count_keys(states: States, root: int, enough: int) -> int:
    """Count the keys from the state `root` on, in one pass over the states.

    Paths are counted from the root downwards. Targets are below their states, so all paths to a state are counted
    before it is visited. Every path ends in a key, so counting stops once a count is above `enough`.

    Args:
        states: states of the blob.
        root: address of a state.
        enough: a count above this one may be inexact.

    Raises:
        NotCanonical: a state is corrupt.
    """
    total = 0
    waiting = bytearray(root + 1)
    paths = {root: 1}
    addr = root
    while addr > 0 and total <= enough:
        here = paths.pop(addr)
        if here > enough:
            return here
        state = states.parse(addr)
        if state.final:
            total += here
        for target in state.targets:
            waiting[target] = 1
            paths[target] = paths.get(target, 0) + here
        addr = waiting.rfind(1, 1, addr)
    return total + paths.get(0, 0)


_VERSION = 1
_TOP = 2**64 - 1
_CHECKED = 1 << 16
"""Bytes of keys that are checked at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Fst:
    """A dictionary; states are read and checked on demand.

    Attributes:
        num_keys: number of keys according to the footer; enumeration checks it.
        root: address of the first state; 0 if the only key is empty and has the value 0.
        states: the states of the blob.
        limits: bounds on decoding.
        check: called with the bytes of the keys that were read so far in an enumeration; it raises if there are too
            many.
    """

    num_keys: int
    root: int
    states: States = field(repr=False)
    limits: Limits = field(default=DEFAULT_LIMITS, repr=False)
    check: Callable[[int], None] | None = field(default=None, repr=False)

    @classmethod
    def open(cls, cursor: Cursor, limits: Limits = DEFAULT_LIMITS, more: int = 0) -> Fst:
        """Read header, footer and root state. The blob is the rest of the cursor's window; `more` keys are allowed.

        If the footer states more keys than the blob has bytes, they are counted immediately.

        Raises:
            Truncated: no room for header and footer.
            Unsupported: a version other than 1.
            NotCanonical: the root is not an address of a state, or its state is corrupt.
            CardinalityMismatch: the number of keys is wrong, as far as it is checked here.
            LimitExceeded: more keys than ``limits.max_keys``.
        """
        size = cursor.remaining
        if size < HEADER + FOOTER:
            raise cursor.error(Truncated, "vellum", expected=f"at least {HEADER + FOOTER} bytes", actual=size)
        base = cursor.base + cursor.pos
        cursor = Cursor(cursor.take(size, "vellum"), source=cursor.source, base=base)
        version = cursor.u64le("vellum version")
        if version != _VERSION:
            raise cursor.error(Unsupported, "vellum version", at=0, expected=_VERSION, actual=version)
        at = size - FOOTER
        cursor.seek(at, "vellum footer")
        num_keys, root = cursor.u64le("number of keys"), cursor.u64le("root address")
        limits.check("max_keys", num_keys - more, cursor, at)
        if root and not HEADER <= root < at:
            wanted = f"0 or an offset from {HEADER} to {at - 1}"
            raise cursor.error(NotCanonical, "root address", at=at + 8, expected=wanted, actual=root)
        states = States(cursor)
        if root and states.frame(root)[:2] == (False, b""):  # a non-final state without transitions: no keys
            if num_keys:
                raise miscounted(states, num_keys, 0)
        elif not num_keys or num_keys > size:
            found = count_keys(states, root, num_keys)
            if found != num_keys:
                raise miscounted(states, num_keys, "more" if found > num_keys else found)
        return cls(num_keys, root, states, limits)

    def get(self, key: bytes) -> int | None:
        """Return the value of `key`, None if the dictionary does not have it.

        Raises:
            NotCanonical: a visited state is corrupt.
        """
        addr, value = self.root, 0
        for byte in key:
            found = self.states.find(addr, byte) if addr else None
            if found is None:
                return None
            addr, value = found[0], value + found[1]
        last = self.states.final(addr)
        return None if last is None else value + last & _TOP

    def range(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, int]]:
        """Yield keys and values, ascending, from `start` to `stop`, exclusive (None: to the end).

        Raises:
            NotCanonical: a state is corrupt.
            CardinalityMismatch: more keys than the footer states, or fewer in a full enumeration.
            LimitExceeded: see `check`.
        """
        if not self.num_keys:
            return
        found = size = checked = 0
        for found, item in enumerate(Walker(self.states).seek(self.root, start, stop), 1):
            if found > self.num_keys:
                raise miscounted(self.states, self.num_keys, "more")
            size += len(item[0])
            if size > checked and self.check:  # not for each key: that would take half as long as reading it
                self.check(size)
                checked = size + _CHECKED
            yield item
        if not start and stop is None and found != self.num_keys:
            raise miscounted(self.states, self.num_keys, found)

    def prefix(self, prefix: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the keys with a prefix, and their values, ascending.

        Raises:
            DecodeError: as `range`.
        """
        # The end: the prefix with its last byte incremented, after dropping trailing 0xff.
        stem = prefix.rstrip(b"\xff")
        return self.range(prefix, stem[:-1] + bytes((stem[-1] + 1,)) if stem else None)

    def blocks(self) -> Iterator[KeyBlock]:
        """Yield all keys and values in blocks, ascending, in bounded memory.

        Raises:
            NotCanonical: a state is corrupt.
            CardinalityMismatch: more or fewer keys than the footer states; some blocks may have been yielded.
            LimitExceeded: see `check`.
        """
        size = 0
        for block in blocks(self.states, self.root, self.num_keys):
            size += len(block.keys.data)
            if self.check:
                self.check(size)
            yield block

    def to_block(self) -> KeyBlock:
        """Return all keys and values in one block.

        Raises:
            NotCanonical, CardinalityMismatch: as `blocks`.
            LimitExceeded: the keys together have more bytes than ``limits.max_blob_bytes``.
        """
        blocks, size = [], 0
        for block in self.blocks():
            size += len(block.keys.data)
            self.limits.check("max_blob_bytes", size, self.states.cursor, 0)
            blocks.append(block)
        return KeyBlock.concat(blocks)


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

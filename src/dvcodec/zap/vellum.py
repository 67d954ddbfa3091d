"""Dictionaries of terms: vellum's finite state transducers, which map byte strings in order to numbers.

A field's dictionary is at the address in its record (zapx ``dict.go``, ``new.go``); for its values see `zap.postings`::

    uv bytes | vellum

Specification: ``github.com/blevesearch/vellum``, version 1 (encoder_v1.go, decoder_v1.go, builder.go, registry.go)::

    u64 1 (the version) | u64 type (0, not checked) | states | u64 number of keys | u64 address of the root

All numbers are little-endian. An address is an offset in the blob, at least 16. The address of a state is that of its
last byte, the head; readers go downwards from there. Address 0 is an implicit state: final, final output 0, no
transitions. In file order, with [] for optional parts::

    10cccccc  one transition   [output: O bytes] | delta: T bytes | pack | [input byte, if c = 0] | head
    11cccccc  the same, "next" [input byte, if c = 0] | head          to the state that ends just below; output 0
    0fnnnnnn  n transitions    [final output: O bytes, if f] | n outputs | n deltas | n input bytes | pack
                               | [n, if it is not 1..63; 1 means 256] | head

    pack   T << 4 | O, the bytes of every delta and of every output (0..8); O = 0: all outputs are 0
    delta  0: the target is the state at address 0; else: address of the state's lowest byte - address of the target
    c      1..63: a common input byte, see `COMMON`
    f      the state is final: a key ends there

Outputs, deltas and input bytes of n transitions are stored in reverse, so that a reader going downwards gets the input
bytes in ascending order. The value of a key is the sum, modulo 2**64, of the outputs of its transitions and the final
output of its last state. Every target is below its state, so there are no loops. But states are shared: a few hundred
bytes can encode an astronomic number of keys.

Reading. Keys are looked up one at a time, by range, or all. All are enumerated level by level with NumPy. A slice of
the dictionary is a sequence of items in key order: byte strings, each with its state and its value so far. `_grow`
extends all items by a byte, and repeats this until every item is a complete key (address 0) or they take too much
memory; then they are split into slices, which are processed one after another. `walk` goes key by key, depth first
without recursion.

Writing. vellum keeps a stack of unfinished nodes, one per byte of the last key, and moves outputs down the stack when
smaller values follow. For ascending keys this has a closed form: the sum of outputs on the path to a node of the key
tree is the smallest value below it, and the output of a transition is the growth of this sum. So outputs are computed
when a node is finished, and nodes between two forks need no stack: each has one transition, with output 0. The rest is
a loop over nodes: a state contains addresses of others, and its own address, or an equal state to share, depends on all
states before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import jit, varints
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import CardinalityMismatch, NotCanonical, Truncated, Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings, Index, offsets_of, spread
from dvcodec.zap import kernels
from dvcodec.zap.footer import SegmentData

__all__ = ["Fst", "KeyBlock", "build"]


HEADER = 16
FOOTER = 16
"""Bytes before and after the states; every state is at `HEADER` or above."""
COMMON = b"\0te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
"""The input bytes of the codes 1..63. Code 0 (a placeholder here): the input byte is stored below the head."""
ONE = 0x80
"""The bit of a head that marks the two forms of one transition."""
_NEXT, _FINAL, _LOW = 0x40, 0x40, 0x3F
_WIDEST = 8
_HERE = -1
"""Instead of the size of a delta: the target is the state just below."""

_CODES = bytes(max(0, COMMON.find(_input, 1)) for _input in range(256))
_BYTE = tuple(bytes((_input,)) for _input in range(256))
_TAIL = tuple(bytes((ONE | code,)) if code else bytes((_input, ONE)) for _input, code in enumerate(_CODES))
NEXT = tuple(_tail[:-1] + _BYTE[_tail[-1] | _NEXT] for _tail in _TAIL)
"""A whole state by its input byte: one transition to the state just below, output 0."""
_COMMON, _CODES_OF = np.frombuffer(COMMON, np.uint8), np.frombuffer(_CODES, np.uint8)
_MASKS = np.array([(1 << 8 * _size) - 1 for _size in range(_WIDEST + 1)], np.uint64)

_Frame: TypeAlias = tuple[bool, bytes, int, int, int, int]
"""Final, input bytes, size of a delta (or `_HERE`), size of an output, end of the deltas, lowest address."""


class State(NamedTuple):
    """A state: whether a key ends there, its final output (0 if not final), and its transitions, ascending."""

    final: bool
    output: int
    inputs: bytes
    targets: Sequence[int]
    outputs: Sequence[int]


_LEAF = State(True, 0, b"", (), ())
"""The state at address 0."""


class Heads(NamedTuple):
    """Many states without their transitions; one entry per state.

    The last six locate the transitions: address of the first input byte (or of the head, if it encodes the byte), end
    of the deltas, lowest address, sizes, and whether the target is the state just below.
    """

    final: NDArray[np.bool_]
    output: NDArray[np.uint64]
    counts: Index
    first: Index
    top: Index
    bottom: Index
    delta_size: Index
    output_size: Index
    here: NDArray[np.bool_]


class Transitions(NamedTuple):
    """The transitions of many states, by state and ascending in each."""

    inputs: NDArray[np.uint8]
    targets: Index
    outputs: NDArray[np.uint64]


class States:
    """The states of one blob. Every state is checked when it is read; a corrupt one raises `NotCanonical`.

    Args:
        cursor: its window is the blob, from its header to its footer.
    """

    __slots__ = ("_bytes", "_words", "cursor", "view")

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.view = cursor.view
        self._bytes = np.frombuffer(cursor.view, np.uint8)
        # The eight bytes from every address on; reads may extend into the footer.
        self._words = np.ndarray((len(cursor.view) - 7,), "<u8", cursor.view, 0, (1,))

    def _fail(self, addr: int, what: str, expected: object, actual: object) -> NotCanonical:
        return self.cursor.error(NotCanonical, f"{what} of a state", at=addr, expected=expected, actual=actual)

    # ---------------------------------------------------------------------- one

    def frame(self, addr: int) -> _Frame:
        """Read the layout of the state at `addr`, and check its extent and its input bytes.

        Raises:
            NotCanonical: it is outside the states, a size is above 8, or its input bytes do not ascend.
        """
        view = self.view
        head = view[addr]
        low = head & _LOW
        at = addr if low else addr - 1
        if head & ONE:
            inputs = _BYTE[COMMON[low] if low else view[at]]
            if head & _NEXT:
                return False, inputs, _HERE, 0, at, at
            final, count, top = False, 1, at - 1
        else:
            final, count = bool(head & _FINAL), low or view[at]
            if not low and count == 1:
                count = 256
            top = at - 1 - count
        pack = view[at - 1]
        size, output_size = pack >> 4, pack & 15
        if size > _WIDEST or output_size > _WIDEST:
            raise self._fail(at - 1, "pack sizes", f"two of at most {_WIDEST}", f"{size} and {output_size}")
        bottom = top - count * size - (count + final) * output_size
        if bottom < HEADER:
            raise self._fail(addr, "lowest address", f"at least {HEADER}", bottom)
        if not head & ONE:
            inputs = bytes(view[top : at - 1])[::-1]
            if bytes(sorted(set(inputs))) != inputs:
                raise self._fail(addr, "input bytes", "strictly ascending ones", inputs.hex())
        return final, inputs, size, output_size, top, bottom

    def _target(self, addr: int, bottom: int, delta: int) -> int:
        """Return the address that a delta encodes."""
        if not delta:
            return 0
        target = bottom - delta
        if target < HEADER and target:
            raise self._fail(addr, "target", f"0 or an address of at least {HEADER}", target)
        return target

    def find(self, addr: int, key: int) -> tuple[int, int] | None:
        """Return target and output of the transition of the state at `addr` (not 0) with the input byte `key`.

        Raises:
            NotCanonical: as `frame`, or that target is outside.
        """
        _, inputs, size, output_size, top, bottom = self.frame(addr)
        i = inputs.find(key)
        if i < 0:
            return None
        view, output = self.view, 0
        at = top - (i + 1) * size
        delta = 1 if size == _HERE else int.from_bytes(view[at : at + size], "little")
        if output_size:
            at = top - len(inputs) * size - (i + 1) * output_size
            output = int.from_bytes(view[at : at + output_size], "little")
        return self._target(addr, bottom, delta), output

    def parse(self, addr: int) -> State:
        """Read the state at `addr`, which is 0 or the address of a byte of the states.

        Raises:
            NotCanonical: it is outside the states, a size is above 8, its input bytes do not ascend, a target is
                outside, or it is a non-final state without transitions.
        """
        if not addr:
            return _LEAF
        final, inputs, size, output_size, top, bottom = self.frame(addr)
        if size == _HERE:
            return State(False, 0, inputs, (self._target(addr, bottom, 1),), (0,))
        count = len(inputs)
        if not count and not final:
            raise self._fail(addr, "number of transitions", "at least 1, or a final state", 0)
        targets = [self._target(addr, bottom, delta) for delta in self._packed(top, count, size)]
        outputs = self._packed(top - count * size, count + final, output_size)
        return State(final, outputs.pop() if final else 0, inputs, targets, outputs)

    def _packed(self, top: int, count: int, size: int) -> list[int]:
        """Read `count` numbers of `size` bytes, downwards from `top`."""
        if not size:
            return [0] * count
        data = bytes(self.view[top - count * size : top])
        return [int.from_bytes(data[i : i + size], "little") for i in range((count - 1) * size, -1, -size)]

    def follow(self, path: bytearray, addr: int, value: int) -> tuple[int, int]:
        """Append the input bytes of the states of the one-transition forms from `addr` on to a path.

        Returns:
            The first other state, and the value so far.

        Raises:
            NotCanonical: as `parse`.
        """
        view = self.view
        while view[addr] & ONE:  # address 0 is in the header, whose bytes do not have that bit
            head = view[addr]
            if head & _NEXT:
                low = head & _LOW
                at = addr if low else addr - 1
                path.append(COMMON[low] if low else view[at])
                addr = at - 1 if at > HEADER else self._target(addr, at, 1)
            else:
                _, _, step, (addr,), (output,) = self.parse(addr)
                path += step
                value += output
        return addr, value

    # ---------------------------------------------------------------------- many

    def heads(self, addrs: Index) -> Heads:
        """Parse many states, none of them at address 0, without their transitions.

        Raises:
            NotCanonical: as `parse`, except errors in the transitions.
        """
        data = self._bytes
        head = data[addrs]
        low = head & np.uint8(_LOW)
        bare = low == 0
        at = addrs - bare
        side, pack = data[at], data[at - 1]
        one, flag = head >= ONE, (head & np.uint8(_NEXT)) != 0
        here, final = one & flag, flag & ~one
        size, output_size = (pack >> 4).astype(np.int64), (pack & 15).astype(np.int64)
        size[here] = output_size[here] = 0
        counts = np.where(bare, side, low).astype(np.int64)
        counts[bare & (side == 1)] = 256
        counts[one] = 1
        top = at - ~here - np.where(one, 0, counts)
        bottom = top - counts * size - (counts + final) * output_size
        i = first_true((size > _WIDEST) | (output_size > _WIDEST) | (bottom < HEADER) | ((counts == 0) & ~final))
        if i is not None:
            self.parse(int(addrs[i]))  # re-parse to raise the precise error
        output = np.zeros(len(addrs), np.uint64)
        chosen = np.flatnonzero(final)
        output[chosen] = self._words[bottom[chosen]] & _MASKS[output_size[chosen]]
        first = np.where(one, np.where(bare, at, addrs), at - 2)
        return Heads(final, output, counts, first, top, bottom, size, output_size, here)

    def transitions(self, addrs: Index, heads: Heads) -> Transitions:
        """Read the transitions of the states with these heads.

        Raises:
            NotCanonical: as `parse`.
        """
        offsets = offsets_of(heads.counts)
        owner = np.repeat(np.arange(len(addrs)), heads.counts)
        rank = np.arange(int(offsets[-1]), dtype=np.int64) - offsets[owner]
        inputs = self._bytes[heads.first[owner] - rank]
        coded = (heads.first == addrs)[owner]
        inputs[coded] = _COMMON[inputs[coded] & np.uint8(_LOW)]
        rank += 1
        size, output_size = heads.delta_size[owner], heads.output_size[owner]
        deltas = self._words[heads.top[owner] - rank * size] & _MASKS[size]
        deltas[heads.here[owner]] = 1
        bottom = heads.bottom[owner]
        targets = np.where(deltas == 0, 0, bottom - deltas.view(np.int64))
        outputs = np.zeros(len(owner), np.uint64)
        chosen = np.flatnonzero(output_size)
        if len(chosen):
            top = (heads.top - heads.counts * heads.delta_size)[owner[chosen]]
            size = output_size[chosen]
            outputs[chosen] = self._words[top - rank[chosen] * size] & _MASKS[size]
        bad = ((targets < HEADER) & (targets != 0)) | (deltas > bottom.astype(np.uint64))
        bad[1:] |= (inputs[1:] <= inputs[:-1]) & (owner[1:] == owner[:-1])
        if (i := first_true(bad)) is not None:
            self.parse(int(addrs[owner[i]]))  # re-parse to raise the precise error
        return Transitions(inputs, targets, outputs)


# -------------------------------------------------------------------------- written


def encode_single(key: int, delta: int, output: int) -> bytes:
    """Encode a non-final state with one transition; for a target just below with output 0 see `NEXT`."""
    size, output_size = _width(delta) or 1, _width(output)
    packed = output.to_bytes(output_size, "little") + delta.to_bytes(size, "little")
    return packed + _BYTE[size << 4 | output_size] + _TAIL[key]


def encode_many(final: bool, output: int, inputs: bytes, deltas: Sequence[int], outputs: Sequence[int]) -> bytes:
    """Encode any other state. The three sequences are ordered by input byte, ascending."""
    count = len(inputs)
    size = (_width(max(deltas)) or 1) if count else 0
    output_size = _width(max((output, *outputs)))
    parts = [output.to_bytes(output_size, "little")] if final else []
    parts += [value.to_bytes(output_size, "little") for value in reversed(outputs)]
    parts += [delta.to_bytes(size, "little") for delta in reversed(deltas)]
    flag = _FINAL if final else 0
    head = _BYTE[flag | count] if 0 < count <= _LOW else bytes((1 if count == 256 else count, flag))
    return b"".join((*parts, inputs[::-1], _BYTE[size << 4 | output_size], head))


def _width(value: int) -> int:
    """Return the number of bytes of a number; 0 has none."""
    return (value.bit_length() + 7) // 8


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


_Turn: TypeAlias = tuple[int, State, int, int]
"""An untaken transition: length of the path, the state there, index of its next transition, the value so far."""


def seek(states: States, root: int, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, int]]:
    """Return the keys below `root` from `start` to `stop`, exclusive, and their values, without visiting earlier ones.

    Raises:
        NotCanonical: a state is corrupt; also during iteration.
    """
    turns: list[_Turn] = []
    path, addr, value = bytearray(), root, 0
    for key in start:
        state = states.parse(addr)
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
    return walk(states, path, addr, value, stop, turns)


def walk(
    states: States,
    path: bytearray,
    addr: int,
    value: int,
    stop: bytes | None = None,
    turns: list[_Turn] | None = None,
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
        addr, value = states.follow(path, addr, value)
        state = states.parse(addr)
        if state.final:
            if stop is not None and path >= stop:
                return
            yield bytes(path), value + state.output & _TOP
        if state.inputs:
            turns.append((len(path), state, 0, value))
        if not turns:
            return
        addr, value = _turn(turns, path)


def _turn(turns: list[_Turn], path: bytearray) -> tuple[int, int]:
    """Take the next transition of the last turn; return its target and the value there."""
    size, state, i, value = turns.pop()
    if i + 1 < len(state.inputs):
        turns.append((size, state, i + 1, value))
    del path[size:]
    path.append(state.inputs[i])
    return state.targets[i], value + state.outputs[i]


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

        Raises:
            Truncated: no room for header and footer.
            Unsupported: a version other than 1.
            NotCanonical: the root is not an address of a state, or its state is corrupt.
            CardinalityMismatch: it has keys and states none, or has none and states some.
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
        # A state that is not final and has no transitions leads to no key, and every other state to some.
        is_empty = root != 0 and states.frame(root)[:2] == (False, b"")
        if is_empty and num_keys:
            raise miscounted(states, num_keys, 0)
        if not is_empty and not num_keys:
            raise miscounted(states, 0, "more")
        return cls(num_keys, root, states, limits)

    def get(self, key: bytes) -> int | None:
        """Return the value of `key`, None if the dictionary does not have it.

        Raises:
            NotCanonical: a visited state is corrupt.
        """
        if not self.num_keys:
            return None
        addr, value = self.root, 0
        for byte in key:
            found = self.states.find(addr, byte) if addr else None
            if found is None:
                return None
            addr, value = found[0], value + found[1]
        last = self.states.parse(addr)
        return value + last.output & _TOP if last.final else None

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
        for found, item in enumerate(seek(self.states, self.root, start, stop), 1):
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
_DEEPEST, _SLOTS = 1 << 16, 1 << 18
"""Bytes of the longest key that the compiled loop supports, and keys of one of its blocks."""
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
    found = 0
    if num_keys > _FEW and jit.worth(len(states.view)):
        for block in _compiled_blocks(states, root, num_keys):
            found += len(block)
            yield block
    if found < num_keys:
        yield from _after(found, _level_by_level(states, root, num_keys))


def _compiled_blocks(states: States, root: int, num_keys: int) -> Iterator[KeyBlock]:
    """Yield all keys by a compiled loop; the first ones, fewer than `num_keys`, if it does not support the others."""
    frames, values = np.zeros((_DEEPEST + 1, 3), np.int64), np.zeros(_DEEPEST + 1, np.uint64)
    frames[0, 0] = root
    places, path = np.array([1, 0]), np.zeros(_DEEPEST, np.uint8)
    data, found = jit.frozen(varints.bytes_of(states.cursor)), 0
    while True:
        slots = min(num_keys - found, _SLOTS)
        keys, offsets, of_keys = np.empty(_ROOM, np.uint8), np.zeros(slots + 1, np.int64), np.empty(slots, np.uint64)
        most = num_keys - found
        ended = kernels.walk_keys.run(data, _COMMON, places, frames, values, path, most, keys, offsets, of_keys)
        count = int(places[1])
        if ended not in (0, kernels.FULL) or (ended == 0 and found + count < num_keys):
            return
        yield KeyBlock(ByteStrings(offsets[: count + 1], keys[: offsets[count]]), of_keys[:count])
        found += count
        if ended == 0:
            return


def _after(found: int, all_blocks: Iterator[KeyBlock]) -> Iterator[KeyBlock]:
    """Yield the blocks without their first keys."""
    for block in all_blocks:
        if len(block) > found:
            yield KeyBlock(block.keys[found:], block.values[found:]) if found else block
        found = max(found - len(block), 0)


def _level_by_level(states: States, root: int, num_keys: int) -> Iterator[KeyBlock]:
    """Yield all keys as `blocks` does, by NumPy, all keys of a slice at once."""
    start = _Items(ByteStrings.from_list([b""]), np.array([root], np.int64), np.zeros(1, np.uint64))
    stack, waiting, found = [start], 1, 0
    while stack:
        items = stack.pop()
        waiting -= len(items.addrs)
        # Every item has at least one key, including those in the stack.
        allowed = num_keys - found - waiting
        live = np.flatnonzero(items.addrs)
        if len(live):
            depth = int(items.keys.lengths[live[0]])
            if num_keys <= _FEW or depth >= _DEEP:
                for block in _one_by_one(states, items, allowed):
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


def _one_by_one(states: States, items: _Items, allowed: int) -> Iterator[KeyBlock]:
    """Enumerate the keys of a slice without NumPy. A block with more than `allowed` keys is yielded immediately."""
    keys: list[bytes] = []
    values: list[int] = []
    size = 0
    for path, addr, value in zip(items.keys, items.addrs.tolist(), items.values.tolist(), strict=True):
        for key, total in walk(states, bytearray(path), addr, value):
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


_HEAD = (1).to_bytes(HEADER, "little")
_BUCKETS = 10000
_BASIS, _PRIME, _MASK = 14695981039346656037, 1099511628211, 2**64 - 1
"""FNV-1a over 64-bit values."""
_START = (_BASIS * _PRIME & _MASK, (_BASIS ^ 1) * _PRIME & _MASK)
"""The hash so far of a node that is not final, and of one that is."""
_SINGLE = tuple(((_START[0] * _PRIME & _MASK) ^ _byte) * _PRIME * _PRIME & _MASK for _byte in range(256))
"""The hash so far, with final output 0, an input byte and output 0."""
_NEXT_SIZES = tuple(map(len, NEXT))

_Fork: TypeAlias = tuple[int, "int | None", list[int], list[int], list[int]]
"""An unfinished node: its depth, the value of the key that ends there (or None), and for its finished transitions the
input bytes, the smallest values below, and the targets."""


def build(keys: ByteStrings | Sequence[bytes], values: NDArray[np.uint64]) -> bytes:
    """Write a dictionary.

    Args:
        keys: strictly ascending; any bytes, possibly empty.
        values: one per key.

    Raises:
        UsageError: keys that do not ascend.
    """
    strings = keys if isinstance(keys, ByteStrings) else ByteStrings.from_list(keys)
    found = _compiled(strings, values)
    if found is None:
        writer, ordered = _Writer(), strings.to_list()
        root = writer.add(ordered, values.tolist(), _common_prefixes(ordered))
        found = bytes(writer.out), root
    states, root = found
    return states + len(strings).to_bytes(8, "little") + root.to_bytes(8, "little")


def _compiled(keys: ByteStrings, values: NDArray[np.uint64]) -> tuple[bytes, int] | None:
    """Write the states of all keys in one compiled loop, as `_Writer` does; None without numba or the right order."""
    if not jit.worth(16 * len(keys.data)):  # a byte takes `_Writer` about as long as readers take for 16
        return None
    offsets, deepest = jit.frozen(keys.offsets), int(keys.lengths.max(initial=0)) + 1
    given = (jit.frozen(keys.data), offsets, jit.frozen(values), _COMMON, _CODES_OF)
    on_path, transitions = min(deepest, len(values)) + 1, min(deepest << 8, len(values)) + 1
    room = 4 * len(keys.data) + 1024
    while True:
        out = np.zeros(room, np.uint8)
        out[: len(_HEAD)] = np.frombuffer(_HEAD, np.uint8)
        found = kernels.write_keys.run(
            *given,
            np.zeros((2, _BUCKETS), np.int64),
            np.zeros((on_path, 3), np.int64),
            np.zeros(on_path, np.uint64),
            np.zeros(transitions, np.uint8),
            np.zeros(transitions, np.uint64),
            np.zeros(transitions, np.int64),
            out,
        )
        if found is None or found[0] == kernels.ODD:
            return None
        if found[0] != kernels.FULL:
            return out[: found[0]].tobytes(), int(found[1])
        room *= 2


def _common_prefixes(keys: list[bytes]) -> list[int]:
    """Return the length of the common prefix of each key and the next one; 0 for the last.

    Raises:
        UsageError: keys that do not ascend strictly.
    """
    sizes = []
    for left, right in pairwise(keys):
        if left >= right:
            raise UsageError(f"keys must be strictly ascending, but {right!r} comes after {left!r}")
        size = min(len(left), len(right))
        differing = int.from_bytes(left[:size], "big") ^ int.from_bytes(right[:size], "big")
        sizes.append(size - (differing.bit_length() + 7) // 8)
    return [*sizes, 0][: len(keys)]


class _Writer:
    """The blob so far, and the registry of nodes that may be shared.

    The registry has `_BUCKETS` buckets of two entries. An entry identifies a node: ``target << 8 | input byte`` for a
    non-final one with a single transition of output 0, else a tuple of all attributes.
    """

    def __init__(self) -> None:
        self.out = bytearray(_HEAD)
        self.last = 1
        self.nodes: tuple[list[Any], list[Any]] = ([None] * _BUCKETS, [None] * _BUCKETS)
        self.addrs = ([0] * _BUCKETS, [0] * _BUCKETS)

    def add(self, keys: list[bytes], values: list[int], common: list[int]) -> int:
        """Write the states of all keys and return the address of the root.

        Args:
            keys: strictly ascending.
            values: one per key.
            common: see `_common_prefixes`.
        """
        out, last, size = self.out, self.last, len(self.out)
        nodes0, nodes1 = self.nodes
        addrs0, addrs1 = self.addrs
        single, prime, mask, buckets, tails, tail_sizes = _SINGLE, _PRIME, _MASK, _BUCKETS, NEXT, _NEXT_SIZES
        # Forks and key ends on the path to the current key; the last one is in local variables.
        stack: list[_Fork] = []
        top: _Fork = (0, None, [], [], [])
        depth, own, inputs, lows, targets = top
        for key, value, shared in zip(keys, values, common, strict=True):
            end = len(key)
            if end == shared or not end:
                # This key is a prefix of the next one.
                if end:
                    stack.append((depth, own, inputs, lows, targets))
                    depth, inputs, lows, targets = end, [], [], []
                own = value
                continue
            addr, low = 0, value
            while True:
                stop = max(depth, shared)
                for byte in key[end - 1 : stop : -1]:
                    node = addr << 8 | byte
                    bucket = ((single[byte] ^ addr) * prime & mask) % buckets
                    if nodes0[bucket] == node:
                        addr = addrs0[bucket]
                    elif nodes1[bucket] == node:
                        nodes0[bucket], nodes1[bucket] = node, nodes0[bucket]
                        addr = addrs1[bucket]
                        addrs0[bucket], addrs1[bucket] = addr, addrs0[bucket]
                    else:
                        if addr == last:
                            out += tails[byte]
                            size += tail_sizes[byte]
                        else:
                            out += encode_single(byte, addr and size - addr, 0)
                            size = len(out)
                        addr = last = size - 1
                        nodes0[bucket], nodes1[bucket] = node, nodes0[bucket]
                        addrs0[bucket], addrs1[bucket] = addr, addrs0[bucket]
                if stop > depth:
                    stack.append((depth, own, inputs, lows, targets))
                    depth, own, inputs, lows, targets = stop, None, [], [], []
                inputs.append(key[stop])
                lows.append(low)
                targets.append(addr)
                if stop == shared:
                    break
                low = min(lows) if own is None else min(own, *lows)
                self.last = last
                addr = self._node(own, low, inputs, lows, targets)
                last, size = self.last, len(out)
                end, (depth, own, inputs, lows, targets) = depth, stack.pop()
        self.last = last
        # The sum of outputs to the root is 0. No other node has keys as long, so none is equal.
        return self._write(own is not None, own or 0, bytes(inputs), lows, targets)

    def _node(self, own: int | None, low: int, inputs: list[int], lows: list[int], targets: list[int]) -> int:
        """Find or write a fork, or a node where a key ends; return its address."""
        outputs = [value - low for value in lows]
        final = own is not None
        output = own - low if own is not None else 0
        code = (_START[final] ^ output) * _PRIME & _MASK
        for byte, value, target in zip(inputs, outputs, targets, strict=True):
            code = (code ^ byte) * _PRIME & _MASK
            code = (code ^ value) * _PRIME & _MASK
            code = (code ^ target) * _PRIME & _MASK
        bucket = code % _BUCKETS
        keys = bytes(inputs)
        node = (final, output, keys, tuple(outputs), tuple(targets))
        (nodes0, nodes1), (addrs0, addrs1) = self.nodes, self.addrs
        if nodes0[bucket] == node:
            return addrs0[bucket]
        addr = addrs1[bucket] if nodes1[bucket] == node else self._write(final, output, keys, outputs, targets)
        nodes0[bucket], nodes1[bucket] = node, nodes0[bucket]
        addrs0[bucket], addrs1[bucket] = addr, addrs0[bucket]
        return addr

    def _write(self, final: bool, output: int, keys: bytes, outputs: list[int], targets: list[int]) -> int:
        """Write a state, unless it is the implicit one at address 0."""
        if final and not keys and not output:
            return 0
        start = len(self.out)
        deltas = [target and start - target for target in targets]
        if final or len(keys) != 1:
            self.out += encode_many(final, output, keys, deltas, outputs)
        elif not outputs[0] and targets[0] == self.last:
            self.out += NEXT[keys[0]]
        else:
            self.out += encode_single(keys[0], deltas[0], outputs[0])
        self.last = len(self.out) - 1
        return self.last


def decode_dictionary(data: SegmentData, address: int, limits: Limits = DEFAULT_LIMITS) -> Fst:
    """Open the dictionary at an address; its keys are counted as they are read.

    Raises:
        Truncated: it extends beyond the footer.
        NotCanonical: all dictionaries together have more bytes than the segment: then they share some.
        DecodeError: as `Fst.open`.
        LimitExceeded: more keys than `SegmentData.count_keys` allows.
    """
    head = data.at(address, varints.MAX_BYTES, "bytes of a dictionary")
    size = head.uvarint("bytes of a dictionary")
    start = address + head.pos
    window = data.window(start, start + size, "dictionary")
    data.claim("dictionaries", address, size)
    fst = Fst.open(window, limits, data.end)
    data.count_keys(address, fst.num_keys, limits)
    return replace(fst, check=partial(data.count_keys, address, fst.num_keys, limits))


def encode_dictionary(terms: ByteStrings, values: NDArray[np.uint64]) -> bytes:
    """Encode a dictionary, from terms in byte order and uint64 values; see `build`."""
    fst = build(terms, values)
    return varints.uvarints(len(fst)) + fst

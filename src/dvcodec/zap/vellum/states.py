"""States of a transducer, read singly or in bulk, and written; see the package docstring for the layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import NotCanonical
from dvcodec.core.ragged import Index, offsets_of

HEADER = 16
FOOTER = 16
"""Bytes before and after the states; every state is at `HEADER` or above."""
COMMON = b"\0te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
"""The input bytes of the codes 1..63. Code 0 (a placeholder here): the input byte is stored below the head."""
ONE = 0x80
"""The bit of a head that marks the two forms of one transition."""
_NEXT, _FINAL, _LOW = 0x40, 0x40, 0x3F
_WIDEST = 8
_STRETCH = 1024
_HERE = -1
"""Instead of the size of a delta: the target is the state just below."""

_CODES = bytes(max(0, COMMON.find(_input, 1)) for _input in range(256))
_BYTE = tuple(bytes((_input,)) for _input in range(256))
_TAIL = tuple(bytes((ONE | code,)) if code else bytes((_input, ONE)) for _input, code in enumerate(_CODES))
NEXT = tuple(_tail[:-1] + _BYTE[_tail[-1] | _NEXT] for _tail in _TAIL)
"""A whole state by its input byte: one transition to the state just below, output 0."""
_COMMON = np.frombuffer(COMMON, np.uint8)
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

    def final(self, addr: int) -> int | None:
        """Return the final output of the state at `addr`, None if it is not final.

        Raises:
            NotCanonical: as `frame`.
        """
        if not addr:
            return 0
        final, _, _, output_size, _, bottom = self.frame(addr)
        return int.from_bytes(self.view[bottom : bottom + output_size], "little") if final else None

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

    def chain(self, addr: int) -> tuple[bytes, int, int]:
        """Follow states of the one-transition forms from `addr` on, within a stretch of 1024 bytes.

        Returns:
            Their input bytes, the next state, and the sum of their outputs.

        Raises:
            NotCanonical: as `parse`.
        """
        view, inputs, value = self.view, bytearray(), 0
        border = addr & -_STRETCH
        while addr >= border and view[addr] & ONE:  # address 0 is in the header, whose bytes do not have that bit
            head = view[addr]
            if head & _NEXT:
                low = head & _LOW
                at = addr if low else addr - 1
                inputs.append(COMMON[low] if low else view[at])
                addr = at - 1 if at > HEADER else self._target(addr, at, 1)
            else:
                _, _, step, (addr,), (output,) = self.parse(addr)
                inputs += step
                value += output
        return bytes(inputs), addr, value

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

"""One state of a transducer: read alone, read by the thousand, and written; the drawing is in the package's text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.core.ragged import offsets_of

__all__ = ["COMMON", "FOOTER", "HEADER", "NEXT", "Heads", "State", "States", "encode_many", "encode_single"]

HEADER = 16
FOOTER = 16
"""Bytes before and behind the states. No state lies below address `HEADER`."""
COMMON = b"\0te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
"""The input bytes of the codes 1..63. Code 0 (here a filler) says that the input byte stands below the head."""

ONE = 0x80
"""The bit of a head that marks the two forms of one transition."""
_NEXT, _FINAL, _LOW = 0x40, 0x40, 0x3F
_WIDEST = 8
_STRETCH = 1024
_HERE = -1
"""In place of the width T: the target is the state just below."""

_CODES = bytearray(256)
for _code in range(1, len(COMMON)):
    _CODES[COMMON[_code]] = _code
_BYTE = tuple(bytes((_byte,)) for _byte in range(256))
_TAIL = tuple(bytes((ONE | _CODES[_byte],)) if _CODES[_byte] else bytes((_byte, ONE)) for _byte in range(256))
NEXT = tuple(_tail[:-1] + bytes((_tail[-1] | _NEXT,)) for _tail in _TAIL)
"""A whole state by its input byte: one transition to the state just below, output 0."""

_COMMON = np.frombuffer(COMMON, np.uint8)
_MASKS = np.array([(1 << 8 * _size) - 1 for _size in range(_WIDEST + 1)], np.uint64)

_Frame: TypeAlias = tuple[bool, bytes, int, int, int, int]
"""Final, input bytes, T (or `_HERE`), O, address behind the deltas, address of the lowest byte."""
Longs: TypeAlias = NDArray[np.int64]


class State(NamedTuple):
    """One state."""

    final: bool
    output: int
    """Final output; 0 where the state is not final."""
    keys: bytes
    """Input bytes of the transitions, ascending."""
    targets: Sequence[int]
    """Address of the state that each transition leads to."""
    outputs: Sequence[int]


_LEAF = State(True, 0, b"", (), ())
"""The state at address 0."""


class Heads(NamedTuple):
    """Many states without their transitions: one entry a state. The last six are places in the blob and widths."""

    final: NDArray[np.bool_]
    output: NDArray[np.uint64]
    counts: Longs
    """Number of transitions."""
    inputs: Longs
    """Address of the first input byte; of the head where its code stands for the byte."""
    deltas: Longs
    """Address behind the deltas."""
    bottom: Longs
    """Address of the lowest byte."""
    delta_size: Longs
    output_size: Longs
    next: NDArray[np.bool_]


class Transitions(NamedTuple):
    """The transitions of many states, in their order and ascending within each."""

    keys: NDArray[np.uint8]
    targets: Longs
    outputs: NDArray[np.uint64]


class States:
    """The states of one blob. Everything is checked when it is read; what is wrong is a `NotCanonical`.

    Args:
        cursor: its window is the blob, from its header to its footer.
    """

    __slots__ = ("_bytes", "_words", "cursor", "view")

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.view = cursor.view
        self._bytes = np.frombuffer(cursor.view, np.uint8)
        # Eight bytes from every address on; the footer is long enough to be read over.
        self._words = np.ndarray((len(cursor.view) - 7,), "<u8", cursor.view, 0, (1,))

    def _fail(self, addr: int, what: str, expected: object, actual: object) -> NotCanonical:
        return self.cursor.error(NotCanonical, f"{what} of a state", at=addr, expected=expected, actual=actual)

    # ---------------------------------------------------------------------- one

    def frame(self, addr: int) -> _Frame:
        """Read what surrounds the transitions of the state at `addr`, and check its extent and its input bytes."""
        view = self.view
        head = view[addr]
        at = addr if head & _LOW else addr - 1
        if head & ONE:
            keys = _BYTE[COMMON[head & _LOW] if head & _LOW else view[at]]
            if head & _NEXT:
                return False, keys, _HERE, 0, at, at
            final, count, top = False, 1, at - 1
        else:
            final, count = bool(head & _FINAL), head & _LOW
            if not count:
                count = view[at]
                count = 256 if count == 1 else count
            top = at - 1 - count
        pack = view[at - 1]
        size, output_size = pack >> 4, pack & 15
        if size > _WIDEST or output_size > _WIDEST:
            raise self._fail(at - 1, "pack sizes", f"two of at most {_WIDEST}", f"{size} and {output_size}")
        bottom = top - count * size - (count + final) * output_size
        if bottom < HEADER:
            raise self._fail(addr, "lowest byte", f"an offset of at least {HEADER}", bottom)
        if not head & ONE:
            keys = bytes(view[top : at - 1])[::-1]
            if bytes(sorted(set(keys))) != keys:
                raise self._fail(addr, "input bytes", "strictly ascending ones", keys.hex())
        return final, keys, size, output_size, top, bottom

    def _target(self, addr: int, bottom: int, delta: int) -> int:
        """Return the address that a delta stands for."""
        if not delta:
            return 0
        target = bottom - delta
        if target < HEADER and target:
            raise self._fail(addr, "target", f"0 or an offset of at least {HEADER}", target)
        return target

    def find(self, addr: int, key: int) -> tuple[int, int] | None:
        """Return target and output of the transition of the state at `addr` (not 0) with the input byte `key`."""
        _, keys, size, output_size, top, bottom = self.frame(addr)
        i = keys.find(key)
        if i < 0:
            return None
        view, output = self.view, 0
        at = top - (i + 1) * size
        delta = 1 if size == _HERE else int.from_bytes(view[at : at + size], "little")
        if output_size:
            at = top - len(keys) * size - (i + 1) * output_size
            output = int.from_bytes(view[at : at + output_size], "little")
        return self._target(addr, bottom, delta), output

    def final(self, addr: int) -> int | None:
        """Return the final output of the state at `addr`, None if it is not final."""
        if not addr:
            return 0
        final, _, _, output_size, _, bottom = self.frame(addr)
        return int.from_bytes(self.view[bottom : bottom + output_size], "little") if final else None

    def parse(self, addr: int) -> State:
        """Read the state at `addr`, which is 0 or at least `HEADER`, and not behind the states.

        Raises:
            NotCanonical: it leaves the room of the states, a size is above 8, its input bytes do not ascend, a
                target is outside, or neither a key ends here nor a way leads on.
        """
        if not addr:
            return _LEAF
        final, keys, size, output_size, top, bottom = self.frame(addr)
        if size == _HERE:
            return State(False, 0, keys, (self._target(addr, bottom, 1),), (0,))
        count = len(keys)
        if not count and not final:
            raise self._fail(addr, "number of transitions", "at least 1, or a final state", 0)
        targets = [self._target(addr, bottom, delta) for delta in self._packed(top, count, size)]
        if not output_size:
            return State(final, 0, keys, targets, [0] * count)
        outputs = self._packed(top - count * size, count + final, output_size)
        return State(final, outputs.pop() if final else 0, keys, targets, outputs)

    def _packed(self, top: int, count: int, size: int) -> list[int]:
        """Read `count` numbers of `size` bytes, the first one below `top`, the next one below that."""
        if not size:
            return [0] * count
        data = bytes(self.view[top - count * size : top])
        return [int.from_bytes(data[i : i + size], "little") for i in range((count - 1) * size, -1, -size)]

    def chain(self, addr: int) -> tuple[bytes, int, int]:
        """Follow states of the one-transition forms from `addr` on, at most to the border of a stretch of 1024 bytes.

        Returns:
            Their input bytes, the state that they lead to, and the sum of their outputs.
        """
        view, keys, value = self.view, bytearray(), 0
        border = addr & -_STRETCH
        while addr >= border:  # address 0 is in the header, and there is no such form
            head = view[addr]
            if head < ONE:
                break
            if head & _NEXT:
                low = head & _LOW
                at = addr if low else addr - 1
                keys.append(COMMON[low] if low else view[at])
                addr = at - 1 if at > HEADER else self._target(addr, at, 1)
            else:
                _, key, (target,), (output,) = self.parse(addr)[1:]
                keys += key
                value += output
                addr = target
        return bytes(keys), addr, value

    # ---------------------------------------------------------------------- many

    def heads(self, addrs: Longs) -> Heads:
        """Do what `parse` does for many states, none of them at address 0, but leave their transitions."""
        data = self._bytes
        head = data[addrs]
        low = head & np.uint8(_LOW)
        at = addrs - (low == 0)
        side = data[at]
        pack = data[at - 1]
        one = head >= ONE
        flag = (head & np.uint8(_NEXT)) != 0
        here, final = one & flag, flag & ~one
        size, output_size = (pack >> 4).astype(np.int64), (pack & 15).astype(np.int64)
        size[here] = output_size[here] = 0
        counts = np.where(low == 0, side, low).astype(np.int64)
        counts[(low == 0) & (side == 1)] = 256
        counts[one] = 1
        top = at - ~here - np.where(one, 0, counts)
        bottom = top - counts * size - (counts + final) * output_size
        bad = (size > _WIDEST) | (output_size > _WIDEST) | (bottom < HEADER) | ((counts == 0) & ~final)
        if bad.any():
            self.parse(int(addrs[np.argmax(bad)]))  # finds the words for it
        output = np.zeros(len(addrs), np.uint64)
        chosen = np.flatnonzero(final)
        output[chosen] = self._words[bottom[chosen]] & _MASKS[output_size[chosen]]
        inputs = np.where(one, np.where(low == 0, at, addrs), at - 2)
        return Heads(final, output, counts, inputs, top, bottom, size, output_size, here)

    def transitions(self, addrs: Longs, heads: Heads) -> Transitions:
        """Read the transitions of the states whose `heads` these are."""
        counts = heads.counts
        offsets = offsets_of(counts)
        total = int(offsets[-1])
        owner = np.repeat(np.arange(len(counts)), counts)
        rank = np.arange(total, dtype=np.int64) - offsets[owner]
        keys = self._bytes[heads.inputs[owner] - rank]
        is_head = (heads.inputs == addrs)[owner]
        keys[is_head] = _COMMON[keys[is_head] & np.uint8(_LOW)]
        rank += 1
        size, output_size = heads.delta_size[owner], heads.output_size[owner]
        deltas = self._words[heads.deltas[owner] - rank * size] & _MASKS[size]
        deltas[heads.next[owner]] = 1
        bottom = heads.bottom[owner]
        targets = np.where(deltas == 0, 0, bottom - deltas.view(np.int64))
        outputs = np.zeros(total, np.uint64)
        chosen = np.flatnonzero(output_size)
        if len(chosen):
            top = (heads.deltas - counts * heads.delta_size)[owner[chosen]]
            width = output_size[chosen]
            outputs[chosen] = self._words[top - rank[chosen] * width] & _MASKS[width]
        bad = ((targets < HEADER) & (targets != 0)) | (deltas > bottom.astype(np.uint64))
        bad[1:] |= (keys[1:] <= keys[:-1]) & (owner[1:] == owner[:-1])
        if bad.any():
            self.parse(int(addrs[owner[np.argmax(bad)]]))  # finds the words for it
        return Transitions(keys, targets, outputs)


# -------------------------------------------------------------------------- written


def encode_single(key: int, delta: int, output: int) -> bytes:
    """Encode a state that has one transition and is not final; one that leads to the state just below is in `NEXT`."""
    size, output_size = _width(delta) or 1, _width(output)
    return b"".join(
        (
            output.to_bytes(output_size, "little"),
            delta.to_bytes(size, "little"),
            _BYTE[size << 4 | output_size],
            _TAIL[key],
        )
    )


def encode_many(final: bool, output: int, keys: bytes, deltas: Sequence[int], outputs: Sequence[int]) -> bytes:
    """Encode any other state. The three sequences are in the order of the input bytes, which ascend."""
    count = len(keys)
    size = (_width(max(deltas)) or 1) if count else 0
    output_size = _width(max(output, *outputs)) if count else _width(output)
    parts = []
    if output_size:
        if final:
            parts.append(output.to_bytes(output_size, "little"))
        parts += [value.to_bytes(output_size, "little") for value in reversed(outputs)]
    parts += [delta.to_bytes(size, "little") for delta in reversed(deltas)]
    parts += (keys[::-1], _BYTE[size << 4 | output_size])
    flag = _FINAL if final else 0
    if 0 < count <= _LOW:
        parts.append(_BYTE[flag | count])
    else:
        parts += (_BYTE[1 if count == 256 else count], _BYTE[flag])
    return b"".join(parts)


def _width(value: int) -> int:
    """Return how many bytes a number needs; 0 needs none."""
    return (value.bit_length() + 7) // 8

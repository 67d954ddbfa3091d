"""Write a dictionary, byte for byte as Go's vellum does.

vellum keeps a stack of unfinished nodes, one per byte of the last key, and moves outputs down the stack when smaller
values follow. For ascending keys this has a closed form: the sum of outputs on the path to a node of the key tree is
the smallest value below it, and the output of a transition is the growth of this sum. So outputs are computed when a
node is finished, and nodes between two forks need no stack: each has one transition, with output 0. NumPy computes the
common prefixes of adjacent keys. The rest is a loop over nodes: a state contains addresses of others, and its own
address, or an equal state to share, depends on all states before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import first_true
from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.vellum.states import NEXT, encode_many, encode_single

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
        values: uint64, one per key.

    Raises:
        UsageError: keys that do not ascend, or another number of values.
    """
    values = np.asarray(values)
    strings = keys if isinstance(keys, ByteStrings) else ByteStrings.from_list(keys)
    if values.dtype != np.uint64 or values.shape != (len(strings),):
        raise UsageError(f"need {len(strings)} values of uint64, got {values.dtype} of shape {values.shape}")
    common = _common_prefixes(strings)
    writer = _Writer()
    root = writer.add(strings.to_list(), values.tolist(), common.tolist())
    return bytes(writer.out + len(strings).to_bytes(8, "little") + root.to_bytes(8, "little"))


def _common_prefixes(keys: ByteStrings) -> NDArray[np.int64]:
    """Return the length of the common prefix of each key and the next one (last key: 0); check the order."""
    common = np.zeros(len(keys), np.int64)
    if len(keys) < 2:
        return common
    lengths = keys.lengths
    shorter = np.minimum(lengths[:-1], lengths[1:])
    data = np.concatenate([keys.data, np.zeros(8, np.uint8)])
    words = np.ndarray((len(data) - 7,), "<u8", data, 0, (1,))
    left, size = np.arange(len(shorter)), 0
    # Eight bytes of all pairs at once, while enough pairs are equal so far; then pair by pair.
    while len(left) > len(shorter) >> 6:
        at = keys.offsets[left] + size
        differ = words[at] ^ words[keys.offsets[left + 1] + size]
        lowest = differ & (~differ + np.uint64(1))
        same = size + np.where(differ == 0, 8, np.bitwise_count(lowest - np.uint64(1)).astype(np.int64) >> 3)
        common[left] = np.minimum(same, shorter[left])
        size += 8
        left = left[(differ == 0) & (size < shorter[left])]
    for i in left.tolist():
        common[i] = size + _common_prefix(keys[i][size:], keys[i + 1][size:])
    ends = common[:-1] == shorter
    # A position after the last byte of a key is never compared.
    left, right = keys.offsets[:-2] + common[:-1], keys.offsets[1:-1] + common[:-1]
    if (i := first_true(np.where(ends, lengths[:-1] >= lengths[1:], data[left] >= data[right]))) is not None:
        raise UsageError(f"keys must be strictly ascending, but {keys[i + 1]!r} comes after {keys[i]!r}")
    return common


def _common_prefix(left: bytes, right: bytes) -> int:
    """Return the length of the common prefix, by bisection."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class _Writer:
    """The blob so far, and the registry of nodes that may be shared.

    The registry has `_BUCKETS` buckets of two entries. An entry identifies a node: ``target << 8 | input byte`` for a
    non-final one with a single transition of output 0, else a tuple of all attributes.
    """

    def __init__(self) -> None:
        self.out = bytearray((1).to_bytes(16, "little"))
        self.last = 1
        self.nodes: tuple[list[Any], list[Any]] = ([None] * _BUCKETS, [None] * _BUCKETS)
        self.addrs = ([0] * _BUCKETS, [0] * _BUCKETS)

    def add(self, keys: list[bytes], values: list[int], common: list[int]) -> int:
        """Write the states of all keys and return the address of the root.

        Args:
            keys: strictly ascending.
            values: one per key.
            common: length of the common prefix of each key and the next one.
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

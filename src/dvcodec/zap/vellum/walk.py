"""Enumerate keys one by one, depth first without recursion; count keys without enumerating them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TypeAlias

from dvcodec.zap.vellum.states import ONE, State, States

__all__ = ["Walker", "count_keys"]

_TOP = 2**64 - 1
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

"""Enumeration key by key: a depth-first walk without recursion, and the exact count of keys without any walk."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TypeAlias

from dvcodec.zap.vellum.states import ONE, State, States

__all__ = ["Walker", "count_keys"]

_TOP = 2**64 - 1
_LONG, _MOST = 64, 1 << 14
"""Bytes from which a piece of a chain is kept, and how many pieces are (of at most 1024 bytes)."""

_Turn: TypeAlias = tuple[int, State, int, int]
"""A place to come back to: bytes of the path, the state there, its next transition, the value so far."""


class Walker:
    """Yields keys and values, ascending.

    It remembers the long chains of states it has met: where keys share a long end, that is read once and copied from
    then on. A chain is kept in pieces that end where a stretch of the blob does, so that the ways into it, wherever
    they meet it, come to the same pieces.
    """

    __slots__ = ("_chains", "_states")

    def __init__(self, states: States) -> None:
        self._states = states
        self._chains: dict[int, tuple[bytes, int, int]] = {}

    def seek(self, root: int, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, int]]:
        """Return the keys from `start` to before `stop` below `root`, without a visit to those before.

        Raises:
            NotCanonical: a state is wrong; also while they are read.
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
        """Yield the keys from the state `addr` on, which `path` leads to, then those of the `turns`, last one first.

        Turns are kept only where a way is left, so a chain of states takes no more room than its key.

        Raises:
            NotCanonical: a state is wrong.
        """
        turns = [] if turns is None else turns
        while True:
            # All that is still to come begins with `path` or is above.
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
        """Put the input bytes of the chain that begins at `addr` on the path; return where it ends and the value."""
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
    """Take the next transition of the last of `turns`; return the state it leads to and the value there."""
    size, state, i, value = turns.pop()
    if i + 1 < len(state.inputs):
        turns.append((size, state, i + 1, value))
    del path[size:]
    path.append(state.inputs[i])
    return state.targets[i], value + state.outputs[i]


def count_keys(states: States, root: int, enough: int) -> int:
    """Count the keys from the state `root` on, in one pass over the states, however many keys they spell.

    Paths are counted from the root downwards: targets are below their states, so when a state's turn comes all the
    ways to it are known. No count grows far beyond `enough`: counting ends there, as every path ends in a key.

    Args:
        states: where they are.
        root: address of a state.
        enough: a count above this one need not be exact.

    Raises:
        NotCanonical: a state is wrong.
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

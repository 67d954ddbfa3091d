"""The dictionary: one key, a range of keys, or all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Truncated, Unsupported
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.zap.vellum import bulk
from dvcodec.zap.vellum.block import KeyBlock
from dvcodec.zap.vellum.states import FOOTER, HEADER, States
from dvcodec.zap.vellum.walk import Walker, count_keys

__all__ = ["Fst"]

_VERSION = 1
_TOP = 2**64 - 1
_CHARGED = 1 << 16
"""Bytes of keys that are charged at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Fst:
    """A dictionary; states are read and checked on demand.

    Attributes:
        num_keys: number of keys according to the footer; enumeration checks it.
        root: address of the first state; 0 if the only key is empty and has the value 0.
        states: the states of the blob.
        limits: bounds on decoding.
        charge: called with the bytes of the keys that were read so far in an enumeration; it raises if there are too
            many.
    """

    num_keys: int
    root: int
    states: States = field(repr=False)
    limits: Limits = field(default=DEFAULT_LIMITS, repr=False)
    charge: Callable[[int], None] | None = field(default=None, repr=False)

    @classmethod
    def open(cls, cursor: Cursor, limits: Limits = DEFAULT_LIMITS) -> Fst:
        """Read header, footer and root state. The blob is the rest of the cursor's window.

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
        limits.check("max_keys", num_keys, cursor, at)
        if root and not HEADER <= root < at:
            wanted = f"0 or an offset from {HEADER} to {at - 1}"
            raise cursor.error(NotCanonical, "root address", at=at + 8, expected=wanted, actual=root)
        states = States(cursor)
        if root and states.frame(root)[:2] == (False, b""):  # a non-final state without transitions: no keys
            if num_keys:
                raise bulk.miscounted(states, num_keys, 0)
        elif not num_keys or num_keys > size:
            found = count_keys(states, root, num_keys)
            if found != num_keys:
                raise bulk.miscounted(states, num_keys, "more" if found > num_keys else found)
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
            LimitExceeded: see `charge`.
        """
        if not self.num_keys:
            return
        found = size = charged = 0
        for found, item in enumerate(Walker(self.states).seek(self.root, start, stop), 1):
            if found > self.num_keys:
                raise bulk.miscounted(self.states, self.num_keys, "more")
            size += len(item[0])
            if size > charged and self.charge:  # not for each key: that would take half as long as reading it
                self.charge(size)
                charged = size + _CHARGED
            yield item
        if not start and stop is None and found != self.num_keys:
            raise bulk.miscounted(self.states, self.num_keys, found)

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
            LimitExceeded: see `charge`.
        """
        size = 0
        for block in bulk.blocks(self.states, self.root, self.num_keys):
            size += len(block.keys.data)
            if self.charge:
                self.charge(size)
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

"""vellum by hand: its builder as Go has it, state by state, and blobs put together from states.

Nothing here uses dvcodec's own writer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import strategies as st

from dvcodec.core.cursor import Cursor
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.zap.vellum import Fst

TOP = 2**64 - 1
CODES = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
VALUES = (0, 1, 255, 256, 2**31, 2**62 - 1, 2**63, 2**63 + 1, TOP - 1, TOP)


def opened(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Fst:
    return Fst.open(Cursor(data, source="x.zap", base=1000), limits)


# ---------------------------------------------------------------------- blobs


def little(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


def many(
    edges: Sequence[tuple[int, int, int]] = (),
    *,
    final: int | None = None,
    sizes: tuple[int, int] = (1, 1),
    count: int | None = None,
) -> bytes:
    """A state of any number of transitions: (input byte, delta, output), ascending. `final`: the final output."""
    size, output_size = sizes
    out = little(final, output_size) if final is not None and output_size else b""
    out += b"".join(little(output, output_size) for _, _, output in reversed(edges))
    out += b"".join(little(delta, size) for _, delta, _ in reversed(edges))
    out += bytes(key for key, _, _ in reversed(edges))
    out += bytes((size << 4 | output_size,))
    n = len(edges) if count is None else count
    flag = 64 if final is not None else 0
    return out + (bytes((flag | n,)) if 0 < n < 64 else bytes((1 if n == 256 else n, flag)))


def one(key: int, delta: int, output: int = 0, *, sizes: tuple[int, int] = (1, 1)) -> bytes:
    size, output_size = sizes
    code = CODES.find(key) + 1
    raw = b"" if code else bytes((key,))
    return (
        little(output, output_size)
        + little(delta, size)
        + bytes((size << 4 | output_size,))
        + raw
        + bytes((128 | code,))
    )


def follow(key: int) -> bytes:
    """The "next" form: to the state just below."""
    code = CODES.find(key) + 1
    return bytes((192 | code,)) if code else bytes((key, 192))


def blob(states: bytes, count: int, root: int | None = None, *, version: int = 1, kind: int = 0) -> bytes:
    """Header, states and footer. The root is the last state unless it is given."""
    at = 15 + len(states) if root is None else root
    return struct.pack("<QQ", version, kind) + states + struct.pack("<QQ", count, at)


def doubling(levels: int, key: bytes = b"ab", count: int | None = None) -> bytes:
    """Each state leads to the one below over several bytes: len(key) ** levels keys."""
    first = many([(byte, 0, i) for i, byte in enumerate(key)])
    rest = many([(byte, 1, i) for i, byte in enumerate(key)])
    return blob(first + rest * (levels - 1), len(key) ** levels if count is None else count)


# ---------------------------------------------------------------------- the builder, as Go has it


class Edge(NamedTuple):
    key: int
    output: int
    target: int


@dataclass
class Node:
    final: bool = False
    output: int = 0
    edges: list[Edge] = field(default_factory=list)
    pending: tuple[int, int] | None = None

    def freeze(self, target: int) -> None:
        if self.pending is not None:
            self.edges.append(Edge(*self.pending, target))
            self.pending = None

    def add(self, output: int) -> None:
        if self.final:
            self.output = (self.output + output) & TOP
        self.edges = [edge._replace(output=(edge.output + output) & TOP) for edge in self.edges]
        if self.pending is not None:
            self.pending = (self.pending[0], (self.pending[1] + output) & TOP)


class NaiveBuilder:
    def __init__(self) -> None:
        self.out = bytearray(struct.pack("<QQ", 1, 0))
        self.stack = [Node()]
        self.registry: dict[int, list[tuple[Node, int]]] = {}
        self.last = 1
        self.count = 0

    def insert(self, key: bytes, value: int) -> None:
        if not key:
            self.stack[0].final, self.stack[0].output, self.count = True, value, 1
            return
        i = 0
        while i < len(key):
            pending = self.stack[i].pending
            if pending is None or pending[0] != key[i]:
                break
            common = min(pending[1], value)
            rest = pending[1] - common
            value -= common
            self.stack[i].pending = (key[i], common)
            i += 1
            if rest:
                self.stack[i].add(rest)
        self.count += 1
        self.freeze(i)
        if i < len(key):
            self.stack[-1].pending = (key[i], value)
            self.stack += [Node(pending=(byte, 0)) for byte in key[i + 1 :]]
            self.stack.append(Node(final=True))

    def freeze(self, depth: int) -> None:
        target = 1
        while len(self.stack) > depth + 1:
            node = self.stack.pop()
            node.freeze(target)
            target = self.compile(node)
        self.stack[-1].freeze(target)

    def compile(self, node: Node) -> int:
        if node.final and not node.edges and not node.output:
            return 0
        code = 14695981039346656037
        for value in (int(node.final), node.output, *(x for e in node.edges for x in e)):
            code = (code ^ value) * 1099511628211 & TOP
        bucket = self.registry.setdefault(code % 10000, [])
        for i, (known, addr) in enumerate(bucket):
            if (known.final, known.output, known.edges) == (node.final, node.output, node.edges):
                bucket.insert(0, bucket.pop(i))
                return addr
        self.encode(node)
        self.last = len(self.out) - 1
        bucket.insert(0, (node, self.last))
        del bucket[2:]
        return self.last

    def encode(self, node: Node) -> None:
        start = len(self.out)
        deltas = [edge.target and start - edge.target for edge in node.edges]
        outputs = [edge.output for edge in node.edges]
        size = max(map(width, deltas), default=0)
        output_size = max(map(width, [node.output, *outputs])) if any([node.output, *outputs]) else 0
        if len(deltas) != 1 or node.final:
            edges = [(edge.key, delta, edge.output) for edge, delta in zip(node.edges, deltas, strict=True)]
            self.out += many(edges, final=node.output if node.final else None, sizes=(size, output_size))
        elif not outputs[0] and node.edges[0].target == self.last:
            self.out += follow(node.edges[0].key)
        else:
            self.out += one(node.edges[0].key, deltas[0], outputs[0], sizes=(size, output_size))

    def close(self) -> bytes:
        self.freeze(0)
        root = self.compile(self.stack.pop())
        return bytes(self.out + struct.pack("<QQ", self.count, root))


def width(value: int) -> int:
    return max(1, -(-value.bit_length() // 8))


def naive_build(items: Mapping[bytes, int] | Iterable[tuple[bytes, int]]) -> bytes:
    builder = NaiveBuilder()
    for key, value in sorted(dict(items).items()):
        builder.insert(key, value)
    return builder.close()


# ---------------------------------------------------------------------- what to build

keys_of = {
    "few bytes": st.lists(st.sampled_from(b"ab"), max_size=8).map(bytes),
    "any bytes": st.binary(max_size=6),
    "words": st.lists(st.sampled_from([b"th", b"e", b"ing", b"\xff", b"\0", b"G"]), max_size=4).map(b"".join),
    "long": st.binary(max_size=3).map(lambda tail: b"x" * 300 + tail),
}
values = st.one_of(st.sampled_from(VALUES), st.integers(0, TOP), st.integers(0, 300))
dictionaries = st.one_of([st.dictionaries(keys, values, max_size=40) for keys in keys_of.values()])

"""pyarrow expressions, taken apart.

pyarrow shows an expression as text, in which names may look like functions. What it pickles is exact: an Arrow file
whose metadata names the calls and columns in order, and whose columns are literals and the options of functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import pa, pc, types
from dvcodec.tables.rows.bounds import Range


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field in it: its path."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A value."""

    value: pa.Scalar[Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A function of other nodes, with its options as Arrow has them."""

    function: str
    arguments: Sequence[Node]
    options: Mapping[str, pa.Scalar[Any]] = field(default_factory=dict)


Node: TypeAlias = "Call | Column | Literal"


def nodes(tree: Node) -> Iterator[Node]:
    """Yield a node and all below it, without recursion: a condition may be an OR of thousands."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Call):
            waiting += reversed(node.arguments)


def parse(expression: pc.Expression) -> Node:
    """Return what an expression is made of.

    Raises:
        UsageError: it has columns by number, or is of a version of pyarrow that pickles otherwise.
    """
    try:
        (pickled,) = expression.__reduce__()[1]
    except pa.ArrowNotImplementedError:
        raise UsageError(f"where {expression!s:.200}: columns must be given by name, not by number") from None
    rows = pa.ipc.open_file(pickled).read_all()
    try:
        (tree,) = _parsed(iter(_metadata(rows.schema)), [column[0] for column in rows.columns])
    except (StopIteration, LookupError, ValueError):
        why = f"it cannot be taken apart as pyarrow {pa.__version__} pickles it: use SQL text"
        raise UsageError(f"where {expression!s:.200}: {why}") from None
    return tree


def _parsed(words: Iterator[tuple[str, str]], values: Sequence[Any]) -> list[Node]:
    """Return the nodes in a sequence of words: those of calls stand before the call's end."""
    found: list[Node] = []
    calls: list[tuple[list[Node], dict[str, Any]]] = []
    for word, text in words:
        if word == "call":
            calls.append((found, {}))
            found = []
        elif word == "end":
            arguments, (found, options) = found, calls.pop()
            found.append(Call(text, arguments, options))
        elif word == "options":
            calls[-1][1].update(values[int(text)].items())
        elif word == "literal":
            found.append(Literal(values[int(text)]))
        elif word == "field_ref":
            found.append(Column((text,)))
        elif word == "nested_field_ref":
            parts = [next(words) for _ in range(int(text))]
            found.append(Column(tuple(name for _, name in parts)))
        else:
            raise ValueError(word)
    return found


class _ArrowSchema(ctypes.Structure):
    """The first members of the struct of Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the metadata of a schema in order, with keys that occur again: pyarrow makes a dictionary of it."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = schema.__arrow_c_schema__()
    place = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata

    def number() -> int:
        nonlocal place
        place += 4
        return ctypes.c_int32.from_address(place - 4).value

    def text() -> str:
        nonlocal place
        size = number()
        place += size
        return ctypes.string_at(place - size, size).decode()

    return [] if place is None else [(text(), text()) for _ in range(number())]


def operands(node: Node) -> list[Node]:
    """Return what a chain of AND, or of OR, combines; as usually built, each has the one before as an argument."""
    found: list[Node] = []
    waiting: list[Node] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Call) and isinstance(node, Call) and one.function == node.function:
            waiting += one.arguments
        else:
            found.append(one)
    return found


def ranges_of(expression: pc.Expression, schema: pa.Schema) -> Mapping[str, Range]:
    """Return ranges of integer columns outside of which an expression is not true.

    Args:
        expression: of the columns of `schema`.
        schema: numbers, text and booleans alone: of some other types, older pyarrows end the process at a literal.

    >>> import pyarrow as pa, pyarrow.compute as pc
    >>> a, b = pc.field("a"), pc.field("b")
    >>> where = (a >= 3) & b.is_valid() & ((a == 9) | (a < 5))
    >>> ranges_of(where, pa.schema([("a", pa.int64()), ("b", pa.string())]))
    {'a': Range(low=3, high=9)}
    """
    if not all(any(getattr(types, is_one)(kind) for is_one in _PICKLED) for kind in schema.types):
        return {}
    try:
        return _ranges(parse(expression))
    except UsageError:  # of a later pyarrow
        return {}


_PICKLED = ("is_integer", "is_boolean", "is_string", "is_float32", "is_float64")


def _ranges(node: Node) -> Mapping[str, Range]:
    if not isinstance(node, Call):
        return {}
    if node.function == "and_kleene":
        found: dict[str, Range] = {}
        for part in operands(node):
            for name, one in _ranges(part).items():
                found[name] = found.get(name, Range()).both(one)
        return found
    if node.function == "or_kleene":
        parts = [_ranges(part) for part in operands(node) if not _is_false(part)] or [{}]
        shared = parts[0].keys() & set[str].intersection(*(set(part) for part in parts))
        return {name: Range.around(part[name] for part in parts) for name in sorted(shared)}
    if node.function not in _ENDS or not isinstance(node.arguments[1], Literal):
        return {}
    column, value = node.arguments[0], node.arguments[1].value
    if not isinstance(column, Column) or len(column.path) > 1 or not types.is_integer(value.type) or not value.is_valid:
        return {}
    has_low, has_high = _ENDS[node.function]
    return {column.path[0]: Range(value.as_py() if has_low else None, value.as_py() if has_high else None)}


def _is_false(node: Node) -> bool:
    return isinstance(node, Literal) and types.is_boolean(node.value.type) and node.value.as_py() is False


_ENDS = {
    "equal": (True, True),
    "less": (False, True),
    "less_equal": (False, True),
    "greater": (True, False),
    "greater_equal": (True, False),
}
"""Comparison of a column with a value -> whether the value is the low end of a range, and whether the high one."""

"""Checks of arguments: their types, and the values of names and numbers."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral
from operator import index

from dvcodec.core.errors import UsageError

_SHOWN_BITS = 256


def check_type(value: object, kinds: type | tuple[type, ...], name: str, wanted: str) -> None:
    """Refuse an argument of a wrong type.

    Args:
        value: the argument.
        kinds: the types that it may have.
        name: name of the parameter.
        wanted: what it must be, with its article: ``a RowSet``.

    Raises:
        UsageError: it has another type.
    """
    if not isinstance(value, kinds):
        raise UsageError(f"{name} must be {wanted}, not {_kind(value)}")


def check_choice(value: object, choices: Collection[object], name: str) -> None:
    """Refuse an argument that is not one of a few values.

    Raises:
        UsageError: it is not one of `choices`.
    """
    if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        *rest, last = map(str, choices)
        raise UsageError(f"{name} must be {', '.join(rest)} or {last}, not {value!r:.60}")


def as_count(value: object, name: str, low: int = 0) -> int:
    """Convert a number of rows or bytes, an offset or an id to a Python int.

    Args:
        value: the argument: an int, or an integer of NumPy.
        name: name of the parameter.
        low: the lowest allowed value.

    Raises:
        UsageError: it is not an integer, or below `low`.
    """
    try:
        number = index(value)  # type: ignore[arg-type]  # what has no __index__ is refused
    except TypeError:
        raise UsageError(f"{name} must be an integer, not {_kind(value)}") from None
    if number < low:
        raise UsageError(f"{name} must be {low} or more, not {integer_text(number)}")
    return number


def integer_text(number: int) -> str:
    """Return an integer as text for an error: Python writes no more than 4,300 digits."""
    bits = number.bit_length()
    return str(number) if bits <= _SHOWN_BITS else f"an integer of {bits} bits"


def check_integer(value: object, name: str) -> None:
    """Refuse an argument that is not an integer; see `as_count` for those that must not be negative either.

    Raises:
        UsageError: it is not an int, nor an integer of NumPy.
    """
    if type(value) is not int:  # each number of a manifest is checked
        check_type(value, (int, Integral), name, "an integer")


def check_callable(value: object, name: str) -> None:
    """Refuse an argument that cannot be called.

    Raises:
        UsageError: it is not callable.
    """
    if not callable(value):
        raise UsageError(f"{name} must be a function, not {_kind(value)}")


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__

"""Checks of arguments: types, choices and counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cases import each
from dvcodec import UsageError
from dvcodec.core.usage import as_count, check_callable, check_choice, check_integer


@each("value", [0, 7, True, 2**70, np.int8(7), np.uint64(2**63)], ids=repr)
def test_counts_become_ints_of_python(value: Any) -> None:
    assert as_count(value, "size") == int(value)
    assert not isinstance(as_count(value, "size"), np.integer)
    check_integer(value, "size")


@each("value", [None, 1.0, "1", b"1", [1], np.float64(1), object()], ids=lambda value: type(value).__name__)
def test_what_is_not_a_count_is_refused(value: Any) -> None:
    kind = "None" if value is None else type(value).__name__
    for check in (as_count, check_integer):
        with pytest.raises(UsageError, match=rf"^size must be an integer, not {kind}$"):
            check(value, "size")


def test_counts_have_a_lowest_value() -> None:
    assert as_count(-1, "id", -1) == -1
    check_integer(-7, "offset")
    with pytest.raises(UsageError, match=r"^size must be 0 or more, not -1$"):
        as_count(-1, "size")
    with pytest.raises(UsageError, match=r"^threads must be 1 or more, not 0$"):
        as_count(0, "threads", 1)


def test_choices() -> None:
    check_choice("b", ("a", "b"), "order")
    check_choice(None, (None, "a"), "order")
    for value, shown in (("zz", "'zz'"), (None, "None"), ([], r"\[\]"), (b"a", "b'a'")):
        with pytest.raises(UsageError, match=rf"^order must be a, b or c, not {shown}$"):
            check_choice(value, ("a", "b", "c"), "order")


def test_what_cannot_be_called_is_refused() -> None:
    check_callable(print, "progress")
    with pytest.raises(UsageError, match=r"^progress must be a function, not int$"):
        check_callable(5, "progress")

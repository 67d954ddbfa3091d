"""What Lance's library raises over damaged files becomes an error of this library, its panics too."""

from __future__ import annotations

import pytest

from dvcodec import NotCanonical
from dvcodec.tables.lance.table import _refusals

PanicException = type("PanicException", (BaseException,), {})


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, KeyError, PanicException])
def test_a_refusal(kind: type[BaseException]) -> None:
    with (
        pytest.raises(NotCanonical, match="f: fragment 1: expected what Lance can read, found "),
        _refusals("f", "fragment 1"),
    ):
        raise kind("column")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError, SystemExit, OSError])
def test_others_stay(kind: type[BaseException]) -> None:
    with pytest.raises(kind), _refusals("f", "fragment 1"):
        raise kind

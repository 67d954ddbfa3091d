"""Work that does not depend on the machine: calls of functions, those of C among them."""

from __future__ import annotations

import sys
from collections.abc import Callable


def calls_of(run: Callable[[], object]) -> int:
    """Return how many functions a call calls."""
    calls = 0

    def count_call(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls

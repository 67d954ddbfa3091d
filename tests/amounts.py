"""How much the longest tests try: what a gate has time for, or all of it (`--long`, `make test-all`)."""

from __future__ import annotations

long = False
"""Set by `conftest`, before any test is imported."""


def of(gate: int, at_length: int) -> int:
    """Return how often something is tried."""
    return at_length if long else gate


def examples(most: int) -> int:
    """Return how many of `most` examples hypothesis tries."""
    return of(min(most, max(20, most // 5)), most)

"""The cache keeps what was used last, and no more than it may."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec.tables.metadata.cache import Cache


def test_nothing_is_kept_of_an_error() -> None:
    cache: Cache[str, int] = Cache(10, lambda value: value)
    with pytest.raises(ValueError, match="invalid literal"):
        cache.get("a", lambda: int("x"))
    assert cache.get("a", lambda: 1) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=40))
def test_it_is_a_bounded_cache_of_what_was_used_last(uses: list[tuple[int, int]]) -> None:
    cache: Cache[int, int] = Cache(10, lambda value: value)
    kept: dict[int, int] = {}
    for key, size in uses:
        made: list[int] = []

        def make(size: int = size, made: list[int] = made) -> int:
            made.append(size)
            return size

        found = cache.get(key, make)
        assert bool(made) == (key not in kept)
        assert found == kept.get(key, size)
        if key in kept or size <= 10:
            kept[key] = kept.pop(key, size)
        while sum(kept.values()) > 10:
            del kept[next(iter(kept))]

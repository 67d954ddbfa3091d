"""A mapping that is looked up, and not walked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn


class Unwalked(Mapping[str, Any]):
    """Fails if anything goes through all its members."""

    def __init__(self, **members: Any) -> None:
        self._members = members

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[str]:
        return self._walked()

    def _walked(self) -> NoReturn:
        raise AssertionError("all columns are walked")

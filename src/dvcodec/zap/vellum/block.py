"""Blocks of keys with their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.ragged import ByteStrings

__all__ = ["KeyBlock"]


@dataclass(frozen=True, slots=True, eq=False)
class KeyBlock:
    """Consecutive keys of a dictionary.

    Attributes:
        keys: strictly ascending.
        values: uint64, one per key.
    """

    keys: ByteStrings
    values: NDArray[np.uint64]

    @classmethod
    def concat(cls, blocks: Sequence[KeyBlock]) -> KeyBlock:
        """Concatenate blocks."""
        values = [block.values for block in blocks]
        return cls(
            ByteStrings.concat([block.keys for block in blocks]),
            np.concatenate(values) if values else np.zeros(0, np.uint64),
        )

    def __len__(self) -> int:
        return len(self.values)

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
        values = np.concatenate([np.zeros(0, np.uint64), *(block.values for block in blocks)])
        return cls(ByteStrings.concat([block.keys for block in blocks]), values)

    def __len__(self) -> int:
        return len(self.values)

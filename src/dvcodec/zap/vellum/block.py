"""Keys with their values, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.ragged import ByteStrings

__all__ = ["KeyBlock"]


@dataclass(frozen=True, slots=True, eq=False)
class KeyBlock:
    """Neighbouring keys of a dictionary.

    Attributes:
        keys: strictly ascending.
        values: uint64, one a key.
    """

    keys: ByteStrings
    values: NDArray[np.uint64]

    @classmethod
    def concat(cls, blocks: Sequence[KeyBlock]) -> KeyBlock:
        """Put blocks one behind the other."""
        values = [block.values for block in blocks]
        return cls(
            ByteStrings.concat([block.keys for block in blocks]),
            np.concatenate(values) if values else np.zeros(0, np.uint64),
        )

    def __len__(self) -> int:
        return len(self.values)

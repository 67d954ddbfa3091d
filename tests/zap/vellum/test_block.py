from __future__ import annotations

import numpy as np

from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.vellum import KeyBlock


def test_blocks_are_put_together() -> None:
    blocks = [
        KeyBlock(ByteStrings.from_list(keys), np.array(values, np.uint64))
        for keys, values in (([b"", b"a"], [1, 2**64 - 1]), ([], []), ([b"bc"], [3]))
    ]
    whole = KeyBlock.concat(blocks)
    assert [len(block) for block in (*blocks, whole)] == [2, 0, 1, 3]
    assert whole.keys.to_list() == [b"", b"a", b"bc"]
    assert whole.values.tolist() == [1, 2**64 - 1, 3]


def test_no_block_is_an_empty_one() -> None:
    none = KeyBlock.concat([])
    assert len(none) == len(none.keys) == 0
    assert none.values.dtype == np.uint64

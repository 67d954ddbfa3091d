"""The dictionary of a field: its terms in byte order, with the values that locate their postings.

Source: zapx ``dict.go``, ``new.go``. At the address in the field's record::

    uv bytes | vellum                      values: see `dvcodec.zap.postings`
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.data import SegmentData
from dvcodec.zap.vellum import Fst, build


def decode_dictionary(data: SegmentData, address: int, limits: Limits = DEFAULT_LIMITS) -> Fst:
    """Open the dictionary at an address; its keys are counted as they are read.

    Raises:
        Truncated: it extends beyond the footer.
        NotCanonical: it overlaps another one: then fields would share keys.
        DecodeError: as `Fst.open`.
        LimitExceeded: more keys than `SegmentData.count_keys` allows.
    """
    head = data.at(address, varints.MAX_BYTES, "bytes of a dictionary")
    size = head.uvarint("bytes of a dictionary")
    start = address + head.pos
    window = data.window(start, start + size, "dictionary")
    data.claim_span("dictionaries", address, start + size)
    fst = Fst.open(window, limits, data.end)
    data.count_keys(address, fst.num_keys, limits)
    return replace(fst, check=partial(data.count_keys, address, fst.num_keys, limits))


def encode_dictionary(terms: ByteStrings, values: NDArray[np.uint64]) -> bytes:
    """Encode a dictionary, from terms in byte order and uint64 values.

    Raises:
        UsageError: terms that do not ascend strictly, or another number of values.
    """
    fst = build(terms, values)
    return varints.uvarints(len(fst)) + fst

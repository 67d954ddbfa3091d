"""Stored documents: the original values of fields.

Source: zapx ``new.go`` (``writeStoredFields``), ``write.go``. The records of all documents
(`dvcodec.zap.stored_records`), adjacent from the first byte of the file on; then the stored index::

    index     u64 BE address of each record
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import first_true
from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import Index
from dvcodec.zap import snappy
from dvcodec.zap.data import SegmentData
from dvcodec.zap.footer import Footer
from dvcodec.zap.stored_records import StoredColumns, decode_stored_records

__all__ = ["decode_stored", "encode_stored_index", "iter_stored"]


_BATCH_DOCS = 1 << 16
_BATCH_BYTES = 1 << 24


def decode_stored(
    data: SegmentData, footer: Footer, num_fields: int, start: int, stop: int, *, limits: Limits = DEFAULT_LIMITS
) -> StoredColumns:
    """Read the stored values of a range of documents.

    Checked as by `decode_stored_records`.

    Args:
        data: the segment.
        footer: its footer.
        num_fields: number of fields of the segment.
        start: first document.
        stop: end, exclusive.
        limits: `Limits.max_blob_bytes` bounds the total decompressed bytes and the total bytes of values. `iter_stored`
            reads any number of documents.

    Raises:
        UsageError: the segment does not have these documents.
        NotCanonical: records that are not adjacent up to the stored index.
        DecodeError: a record that is corrupt; see `decode_stored_records`.
    """
    if not 0 <= start <= stop <= footer.num_docs:
        raise UsageError(f"documents {start} to {stop} of {footer.num_docs}")
    return _read(data, num_fields, start, _bounds(data, footer, start, stop), limits)


def iter_stored(
    data: SegmentData,
    footer: Footer,
    num_fields: int,
    *,
    start: int = 0,
    stop: int | None = None,
    docs_per_batch: int = _BATCH_DOCS,
    batch_bytes: int = _BATCH_BYTES,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[StoredColumns]:
    """Read the stored values of all documents, or of a range of them, a batch at a time.

    Args:
        data: the segment.
        footer: its footer.
        num_fields: fields of the segment.
        start: first document.
        stop: end, exclusive; None for all.
        docs_per_batch: maximum documents per batch.
        batch_bytes: maximum bytes per batch in the file, unless it is one document.
        limits: see `decode_stored`; applies to each batch, whose size is chosen accordingly.

    Raises:
        UsageError: the segment does not have these documents, or a batch size below 1.
        DecodeError: with each batch; see `decode_stored`.
    """
    if docs_per_batch < 1 or batch_bytes < 1:
        raise UsageError("docs_per_batch and batch_bytes must be at least 1")
    stop = footer.num_docs if stop is None else stop
    if not 0 <= start <= stop <= footer.num_docs:
        raise UsageError(f"documents {start} to {stop} of {footer.num_docs}")
    room = min(batch_bytes, limits.max_blob_bytes // snappy.EXPANSION)
    while start < stop:
        bounds = _bounds(data, footer, start, min(start + docs_per_batch, stop))
        count = max(int(np.searchsorted(bounds, bounds[0] + room, side="right")) - 1, 1)
        yield _read(data, num_fields, start, bounds[: count + 1], limits)
        start += count


def _read(data: SegmentData, num_fields: int, first: int, bounds: Index, limits: Limits) -> StoredColumns:
    window = data.window(int(bounds[0]), int(bounds[-1]), "stored documents")
    return decode_stored_records(window, bounds - window.base, first, num_fields, limits)


def _bounds(data: SegmentData, footer: Footer, start: int, stop: int) -> Index:
    """Read the bounds of the records of these documents: int64[stop - start + 1]."""
    last = stop == footer.num_docs
    at = footer.stored_index + 8 * start
    index = data.window(at, footer.stored_index + 8 * (stop if last else stop + 1), "stored index")
    addresses = np.frombuffer(index.view, ">u8").astype(np.uint64)
    what = "address of a stored document"
    if (i := first_true(addresses >= np.uint64(footer.stored_index))) is not None:
        raise index.error(NotCanonical, what, at=8 * i, expected=f"below {footer.stored_index}", actual=addresses[i])
    bounds = addresses.astype(np.int64)
    if last:
        bounds = np.append(bounds, footer.stored_index)
    if (i := first_true(bounds[1:] <= bounds[:-1])) is not None:
        raise index.error(NotCanonical, what, at=8 * (i + 1), expected=f"above {bounds[i]}", actual=bounds[i + 1])
    if not start and stop and bounds[0]:
        raise index.error(NotCanonical, "address of the first document", at=0, expected=0, actual=int(bounds[0]))
    return bounds


def encode_stored_index(addresses: NDArray[np.int64]) -> bytes:
    """Encode the stored index, from int64[num_docs] addresses; it directly follows the last record."""
    return addresses.astype(">u8").tobytes()

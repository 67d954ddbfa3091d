"""Errors of pyarrow's readers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dvcodec.core.errors import NotCanonical, Unsupported

__all__ = ["arrow_damage"]


@contextmanager
def arrow_damage(what: str, expected: str) -> Iterator[None]:
    """Convert pyarrow's errors for corrupt bytes to `DecodeError`; errors of the OS and of stores are not changed.

    Args:
        what: the part of the file that the block reads.
        expected: what it should be.

    Raises:
        NotCanonical: pyarrow cannot decode the bytes.
        Unsupported: pyarrow does not support a feature of the file.
    """
    import pyarrow as pa  # noqa: PLC0415  (callers have it)

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as err:  # column names are decoded lazily
        # pyarrow raises OSError for corrupt bytes too, without an errno and without a store's error as its cause.
        if isinstance(err, OSError) and (err.errno is not None or err.__cause__ is not None):
            raise
        kind = Unsupported if isinstance(err, pa.ArrowNotImplementedError) else NotCanonical
        raise kind(what, expected=expected, actual=str(err).partition("\n")[0]) from None

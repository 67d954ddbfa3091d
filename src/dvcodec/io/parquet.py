"""pyarrow's errors on damaged files as errors of this library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dvcodec.core.errors import NotCanonical, Unsupported

__all__ = ["arrow_damage"]


@contextmanager
def arrow_damage(what: str, expected: str) -> Iterator[None]:
    """Turn what pyarrow raises for damaged bytes into errors of this library; others, of systems and stores, pass.

    Args:
        what: is read in the block.
        expected: of it.

    Raises:
        NotCanonical: pyarrow could not make sense of the bytes.
        Unsupported: it does not know what they ask for.
    """
    import pyarrow as pa  # noqa: PLC0415  (who calls this has it)

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as err:  # names of columns are decoded when looked at
        # Damage is an OSError too, one that no system call and no store has caused.
        if isinstance(err, OSError) and (err.errno is not None or err.__cause__ is not None):
            raise
        kind = Unsupported if isinstance(err, pa.ArrowNotImplementedError) else NotCanonical
        raise kind(what, expected=expected, actual=str(err).partition("\n")[0]) from None

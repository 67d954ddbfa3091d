"""What pyarrow says of damage becomes an error of this library; what a system says stays its own."""

from __future__ import annotations

import errno

import pytest

from dvcodec import DecodeError
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.io.parquet import arrow_damage

pa = pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (pa.ArrowInvalid("bad page\nstack"), NotCanonical),
        (OSError("Couldn't deserialize thrift"), NotCanonical),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), NotCanonical),
        (pa.ArrowNotImplementedError("codec"), Unsupported),
    ],
)
def test_damage(raised: Exception, expected: type[DecodeError]) -> None:
    with (
        pytest.raises(expected, match=r"^a page: expected valid bytes, found ") as caught,
        arrow_damage("a page", "valid bytes"),
    ):
        raise raised
    assert "stack" not in str(caught.value)


def test_other_errors_stay() -> None:
    refused = OSError(errno.EACCES, "Permission denied")
    with pytest.raises(OSError, match="Permission") as caught, arrow_damage("a page", "valid bytes"):
        raise refused
    assert caught.value is refused
    of_a_store = OSError("lost")
    of_a_store.__cause__ = ValueError("of a store")
    with pytest.raises(OSError, match="lost") as caught, arrow_damage("a page", "valid bytes"):
        raise of_a_store
    assert not isinstance(caught.value, DecodeError)

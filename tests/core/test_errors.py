from __future__ import annotations

import copy
import pickle

import dvcodec
from cases import each
from dvcodec.core import errors
from dvcodec.core.errors import (
    BadMagic,
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    DvcodecError,
    LimitExceeded,
    MissingExtra,
    NotCanonical,
    Truncated,
    Unsupported,
    UsageError,
)

LEAVES = (BadMagic, CardinalityMismatch, ChecksumMismatch, LimitExceeded, NotCanonical, Truncated, Unsupported)


def test_errors_are_those_of_python_that_one_would_catch_too() -> None:
    pairs = ((DecodeError, ValueError), (UsageError, ValueError), (Truncated, EOFError), (MissingExtra, ImportError))
    assert all(issubclass(kind, builtin) for kind, builtin in pairs)
    assert issubclass(Unsupported, NotImplementedError)


def test_every_error_is_exported() -> None:
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, DvcodecError)}
    assert kinds <= set(dvcodec.__all__)


@each(
    ("error", "text"),
    [
        (DecodeError("length field"), "length field"),
        (DecodeError("length field", source="a.puffin"), "a.puffin: length field"),
        (DecodeError("length field", offset=0), "at byte 0: length field"),
        (DecodeError("magic", source="a.puffin", offset=4), "a.puffin at byte 4: magic"),
        (DecodeError("magic", expected="x"), "magic: expected x"),
        (DecodeError("magic", actual=0), "magic: found 0"),
        (
            ChecksumMismatch("CRC-32", source="s3://b/x.bin", offset=44, expected="0x00000001", actual="0x00000002"),
            "s3://b/x.bin at byte 44: CRC-32: expected 0x00000001, found 0x00000002",
        ),
    ],
)
def test_a_message_says_where_what_expected_and_found(error: DecodeError, text: str) -> None:
    assert str(error) == text


@each(
    "error",
    [
        *(leaf("bitmap key", source="x.bin", offset=12, expected="at most 5", actual=7) for leaf in LEAVES),
        UsageError("position -1 is negative"),
        MissingExtra("pyarrow", "arrow"),
    ],
)
def test_errors_keep_every_field_when_pickled_or_copied(error: Exception) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert (str(twin), vars(twin)) == (str(error), vars(error))

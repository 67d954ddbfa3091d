"""The tests that the package itself would have."""

import pytest
from varset import FORMAT

from dvcodec.testing import LAWS, Case

CASE = Case(
    FORMAT,
    golden={
        bytes.fromhex("767301 00 14c7bc20"): [],
        bytes.fromhex("767301 03 01 01 ac02 26bba30b"): [1, 3, 304],
    },
    corrupt=[b"", b"vs", bytes.fromhex("767301 00 00000000")],
)


@pytest.mark.parametrize("law", LAWS)
def test_law(law):
    LAWS[law](CASE)

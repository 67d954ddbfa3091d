"""The thresholds of data files worth rewriting."""

from __future__ import annotations

import pytest

from dvcodec import UsageError
from dvcodec.ops.convert import WORTH_REWRITING, check_thresholds


def test_thresholds() -> None:
    check_thresholds(WORTH_REWRITING, 0)
    check_thresholds(0, 1)
    check_thresholds(1, 1)


@pytest.mark.parametrize(("ratio", "least"), [(-0.1, 1), (1.1, 1), (float("nan"), 1), (0.5, -1)])
def test_wrong_thresholds(ratio: float, least: int) -> None:
    with pytest.raises(UsageError, match="min_ratio"):
        check_thresholds(ratio, least)

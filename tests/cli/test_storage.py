"""What ``-v`` and ``-vv`` write to standard error."""

from __future__ import annotations

import logging

import pytest

from dvcodec.cli.storage import _logged


@pytest.mark.parametrize(("verbose", "shown"), [(0, []), (1, ["one"]), (2, ["one", "two"])])
def test_levels_of_the_log(verbose: int, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("dvcodec")
    level = logger.level
    with _logged(verbose):
        logger.info("one")
        logger.debug("two")
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "object stores" not in line] == [f"dvcodec: {word}" for word in shown]
    assert len(lines) == len(shown) + (verbose > 0), "and the requests, at the end"
    assert (logger.level, logger.handlers) == (level, [])

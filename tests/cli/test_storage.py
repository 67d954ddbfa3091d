"""What of the log is written to standard error, by default and with ``-v`` and ``-vv``."""

from __future__ import annotations

import logging

import pytest

from dvcodec.cli.storage import _logged


@pytest.mark.parametrize(("verbose", "shown"), [(0, ["zero"]), (1, ["zero", "one"]), (2, ["zero", "one", "two"])])
def test_levels_of_the_log(verbose: int, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("dvcodec")
    level = logger.level
    with _logged(verbose):
        logger.warning("zero")
        logger.info("one")
        logger.debug("two")
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "object stores" not in line] == [f"dvcodec: {word}" for word in shown]
    assert len(lines) == len(shown) + (verbose > 0), "and the requests, at the end"
    assert (logger.level, logger.handlers) == (level, [])


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_record_of_the_log_is_one_line_of_plain_text(verbose: int, capsys: pytest.CaptureFixture[str]) -> None:
    with _logged(verbose):
        logging.getLogger("dvcodec.tables").warning("%s: ignored", "x\x1b[31m\nok  b")
    assert capsys.readouterr().err.splitlines()[0] == r"dvcodec: x\x1b[31m\nok  b: ignored"

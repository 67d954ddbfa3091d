"""The short and the long run, the folders of real files, and the count of flipped bits after a run."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import amounts

settings.register_profile("long", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", settings.get_profile("long"), max_examples=amounts.examples(100), derandomize=True)

HERE = Path(__file__).parent
collect_ignore = ["stranger"]
# Where no keys are given, clients of object stores ask the machine that they run on for some, far away from here.
os.environ["AWS_METADATA_ENDPOINT"] = "http://127.0.0.1:1"
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
LONGEST_ID = 60
FLIPS = "single-bit flips"
"""Property of tests that count what becomes of flipped bits: how many are refused, harmless, and other values."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked `long` too, and all tests at length")


def pytest_configure(config: pytest.Config) -> None:
    """Before the test modules, which ask how much to try, are imported."""
    amounts.long = config.getoption("--long")
    settings.load_profile("long" if amounts.long else "gate")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not amounts.long:
        left_out = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if not item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left_out)


def pytest_make_parametrize_id(val: object) -> str | None:
    """A short name for long bytes and texts: they would fill every report and the memory of all workers."""
    if isinstance(val, (bytes, str)) and len(val) > LONGEST_ID:
        data = val if isinstance(val, bytes) else val.encode("utf-8", "surrogatepass")
        return f"{len(val)}-{zlib.crc32(data):08x}"
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of bits that were flipped in formats with a checksum."""
    passed = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    counts = [value for report in passed for name, value in report.user_properties if name == FLIPS]
    if counts:
        refused, harmless, other = (sum(column) for column in zip(*counts, strict=True))
        total = refused + harmless + other
        terminalreporter.write_line(
            f"{FLIPS} under a checksum: {total:,} in {len(counts)} vectors; {refused:,} found, {harmless:,} without "
            f"effect, {other:,} missed: {(total - other) / total:.2%} found or harmless"
        )


@pytest.fixture(scope="session")
def vectors() -> Path:
    """Test data of other projects, and files that their programs wrote (see README.md there)."""
    return HERE / "vectors" / "upstream"


@pytest.fixture(scope="session")
def own_vectors() -> Path:
    """Files that `make vectors` had released reference implementations write."""
    return HERE / "vectors"

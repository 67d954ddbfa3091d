"""Profiles of hypothesis, the folders of real files, and the count of flipped bits after a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", settings.get_profile("default"), max_examples=20)  # for the other Pythons
settings.load_profile("default")

HERE = Path(__file__).parent
# Where no keys are given, clients of object stores ask the machine that they run on for some, far away from here.
os.environ["AWS_METADATA_ENDPOINT"] = "http://127.0.0.1:1"
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
FLIPS = "single-bit flips"
"""Property of tests that count what becomes of flipped bits: how many are refused, harmless, and other values."""


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

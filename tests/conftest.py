"""Fixtures: where the real files are, and how strict a missing tool is taken."""

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


def vectors_folder() -> Path | None:
    """The folder of real files named by DVCODEC_VECTORS, or one that lies beside the checkout."""
    named = os.environ.get("DVCODEC_VECTORS")
    folder = Path(named) if named else HERE.parent.parent / "shared" / "vectors"
    return folder.resolve() if folder.is_dir() else None


@pytest.fixture(scope="session")
def vectors() -> Path:
    """Real files by the reference implementations (more than the repository holds); skips without them."""
    folder = vectors_folder()
    if folder is None:
        pytest.skip("DVCODEC_VECTORS names no folder")
    return folder


@pytest.fixture(scope="session")
def own_vectors() -> Path:
    """The vectors committed here, written by released reference implementations."""
    return HERE / "vectors"

"""Which dvcodec is under test: the checkout, or (in the gate) the installed wheel."""

from __future__ import annotations

import os
from importlib.metadata import files, metadata, version
from pathlib import Path

import pytest

import dvcodec

EXPECTED = os.environ.get("DVCODEC_EXPECT_INSTALLED") == "1"


@pytest.mark.skipif(not EXPECTED, reason="DVCODEC_EXPECT_INSTALLED is not set")
def test_the_installed_wheel_is_under_test() -> None:
    assert "site-packages" in Path(dvcodec.__file__).parts


def test_metadata() -> None:
    assert version("dvcodec") == dvcodec.__version__
    found = metadata("dvcodec")
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == ">=3.10"
    extras = set(found.get_all("Provides-Extra") or [])
    assert extras >= {"arrow", "remote", "cli", "fast", "spark", "tables", "all"}


@pytest.mark.skipif(not EXPECTED, reason="DVCODEC_EXPECT_INSTALLED is not set")
def test_the_wheel_is_pure_and_typed() -> None:
    names = [str(path) for path in files("dvcodec") or []]
    assert "dvcodec/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.endswith((".so", ".pyd"))]
    assert "Root-Is-Purelib: true" in next(p for p in files("dvcodec") or [] if p.name == "WHEEL").read_text()

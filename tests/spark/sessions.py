"""What Spark sessions of tests are started with: the settings in `conf`, and this Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CONF = Path(__file__).parent / "conf"


def set_up() -> None:
    """Have the sessions of this process, and of those that inherit its environment, started so."""
    os.environ.update(variables())


def variables() -> dict[str, str]:
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join([str(CONF), *(one for one in before if one not in ("", str(CONF)))])
    return {"SPARK_CONF_DIR": str(CONF), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}


def environment() -> dict[str, str]:
    """Of a process with a session of its own: nothing that this process has set for its Spark."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")} | variables()

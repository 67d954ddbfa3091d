"""Every decoder against adversarial inputs, in 256 MB of address space, each within a second; see `attack.py`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from limits.cases import CASES
from limits.making import REFUSED

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="address space is capped as Linux does it"),
    pytest.mark.xdist_group("limits"),
]
TESTS = Path(__file__).parent.parent


def attack(*names: str) -> dict[str, dict[str, Any]]:
    """Run cases in a process of their own; what became of each, by name. The process has to live to its end."""
    path = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "limits.attack", *names],
        cwd=TESTS,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    found = {result["name"]: result for result in map(json.loads, done.stdout.splitlines())}
    assert found.pop("", {}).get("outcome") == "done", f"ended after {list(found)[-1:]}: {done.stderr[-2000:]}"
    return found


def test_every_decoder_refuses_in_time_and_in_little_memory() -> None:
    """By the check that the case names, which is well below the cap."""
    results = attack()
    assert results.keys() == CASES.keys()
    wrong = {
        name: found
        for name, found in results.items()
        if found["outcome"] != CASES[name].expected.outcome
        or not re.match(CASES[name].expected.pattern, found["message"])
    }
    assert wrong == {}


def test_every_bomb_names_its_error() -> None:
    assert all(case.expected != REFUSED for name, case in CASES.items() if "bomb" in name)


def test_the_cap_and_the_clock_are_real() -> None:
    """What the others are held against does hit who takes too much, or too long."""
    found = attack("control: memory", "control: time", "control: another error")
    assert [found[f"control: {what}"]["outcome"] for what in ("memory", "time", "another error")] == [
        "raised",
        "late",
        "raised",
    ]
    assert found["control: memory"]["message"].startswith(("MemoryError", "_ArrayMemoryError"))

"""SECURITY.md names a test for each claim, and each test is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
TEXT = (TESTS.parent / "SECURITY.md").read_text()
NAMED = set(re.findall(r"`(test_\w+)`", TEXT))


def names_in(*folders: str) -> set[str]:
    found = set()
    for path in (path for folder in folders for path in (TESTS / folder).glob("test_*.py")):
        tree = ast.parse(path.read_text())
        found |= {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        }
    return found


def test_every_test_that_is_named_is_there() -> None:
    assert len(NAMED) > 20
    assert sorted(NAMED - names_in("security", "limits", "lake", "core", "zap", "cli", "tables/lance", ".")) == []


def test_every_claim_under_a_defence_names_its_test_or_says_what_it_is_not() -> None:
    defended = TEXT.partition("## What is defended")[2].partition("## What is not defended")[0]
    claims = re.findall(r"^- (.*(?:\n  .*)*)", defended, re.MULTILINE)
    assert len(claims) > 15
    assert [claim for claim in claims if "`test_" not in claim and "is not a signature" not in claim] == []

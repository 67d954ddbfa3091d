"""SECURITY.md names a test for each claim, and each test is there."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
TEXT = (TESTS.parent / "SECURITY.md").read_text()
NAMED = set(re.findall(r"`(test_\w+)`", TEXT))


def names() -> set[str]:
    found = set()
    for path in TESTS.rglob("test_*.py"):
        tree = ast.parse(path.read_text())
        found |= {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        }
    return found


def test_every_test_that_is_named_is_there() -> None:
    assert len(NAMED) > 20
    assert sorted(NAMED - names()) == []


_TABLE = TEXT.partition("### Native code")[2].partition("###")[0]
NATIVE = re.findall(r"^\| (.*) \| .* \| (.*) \|$", _TABLE, re.MULTILINE)
"""Library and guard, below a line for the names of the columns and one of dashes."""
COMPILED = {"cramjam", "duckdb", "fastavro", "isal", "pyarrow", "pyroaring", "zlib", "json"}
OF_THE_CALLER = {"boto3", "deltalake", "numpy", "obstore", "pandas", "pyspark"}
"""They see no bytes of files in a format: requests and answers, values that the caller passes."""
PURE = {"dvcodec", "fsspec", "pyiceberg", "rich", "typer", "typing_extensions"}


def test_native_code_that_sees_files_is_listed_with_its_guard() -> None:
    rows = NATIVE[2:]
    assert len(rows) > 12
    assert [library for library, guard in rows if "`test_" not in guard] == []
    packages = {*COMPILED, "pylance"}
    assert [name for name in packages if not any(name in library.lower() for library, _ in rows)] == []


def test_packages_are_known_as_native_or_not() -> None:
    found = set()
    for path in (TESTS.parent / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module or "")
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require_extra":
                found |= {str(one.value) for one in node.args[:1] if isinstance(one, ast.Constant)}
    packages = {name.partition(".")[0] for name in found} - sys.stdlib_module_names
    assert packages - PURE - OF_THE_CALLER == (COMPILED - {"zlib", "json"}) | {"lance"}


def test_every_claim_under_a_defence_names_its_test_or_says_what_it_is_not() -> None:
    defended = TEXT.partition("## What is defended")[2].partition("## What is not defended")[0]
    claims = re.findall(r"^- (.*(?:\n  .*)*)", defended, re.MULTILINE)
    assert len(claims) > 15
    assert [claim for claim in claims if "`test_" not in claim and "is not a signature" not in claim] == []

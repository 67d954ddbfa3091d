"""Every format has the same functions with the same parameters, and reads back by location what it has written."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from dvcodec import (
    CardinalityMismatch,
    LimitExceeded,
    Limits,
    RowSet,
    Truncated,
    Unsupported,
    UsageError,
    delta,
    iceberg,
    paimon,
)

PAGE = Path(__file__).parents[1] / "docs" / "api" / "index.md"
FORMATS = ("iceberg", "delta", "paimon")
# The tests of a wheel lie beside no pages.
in_the_tree = pytest.mark.skipif(not PAGE.exists(), reason="not in the project's tree")
VECTORS = {"s3://b/one.parquet": RowSet([1, 5]), "s3://b/two.parquet": RowSet(range(100, 9000)), "none": RowSet()}


def tables_of_the_page() -> list[list[list[str]]]:
    """The tables of docs/api/index.md as rows of cells, without the lines below their headings."""
    blocks = re.findall(r"(?:^\|.*\n)+", PAGE.read_text() if PAGE.exists() else "", re.MULTILINE)
    split = [[[cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines()] for block in blocks]
    return [[heading, *rows] for heading, _, *rows in split]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def doors() -> list[Any]:
    """Module, call as the page writes it, options and returned type of each cell of the table of formats."""
    found = []
    for heading, *rows in tables_of_the_page():
        if heading[1:4] == ["`iceberg`", "`delta`", "`paimon`"]:
            for _, *calls, options, returned in rows:
                for module, cell in zip(FORMATS, calls, strict=True):
                    for call in quoted(cell):
                        values = (module, call, quoted(options), *quoted(returned))
                        found.append(pytest.param(*values, id=f"{module}.{call}"))
    return found


def first_arguments() -> tuple[dict[str, str], dict[str, str]]:
    """First word of a function's name -> name of its first parameter; function -> the same where it is an exception."""
    (rows,) = (rows for heading, *rows in tables_of_the_page() if heading[:2] == ["functions", "first argument"])
    rules = {word.rstrip("*"): quoted(first)[0] for words, first, *_ in rows for word in quoted(words)}
    calls = [call.rstrip(")").partition("(") for *_, cell in rows for call in quoted(cell)]
    return rules, {name: first for name, _, first in calls}


@in_the_tree
@pytest.mark.parametrize(("module", "call", "options", "returned"), doors())
def test_formats_have_the_doors_of_the_page(module: str, call: str, options: list[str], returned: str) -> None:
    """A call is written `name(positional, positional=default, keyword=, ...)`; dots are more keywords."""
    name, arguments = call.rstrip(")").split("(")
    stated = arguments.split(", ")
    public = importlib.import_module(f"dvcodec.{module}")
    assert name in public.__all__
    signature = inspect.signature(getattr(public, name))
    keywords = {one.name for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY}
    positional = [
        one.name if one.default is one.empty else f"{one.name}={one.default}"
        for one in signature.parameters.values()
        if one.name not in keywords
    ]
    named = {one.rstrip("=") for one in stated if one.endswith("=")}
    assert [one for one in stated if not one.endswith("=") and one != "..."] == positional
    assert named | {*options} <= keywords
    assert ("..." in stated) is bool(keywords - named)
    assert signature.return_annotation == returned


@in_the_tree
def test_the_page_has_what_the_formats_share() -> None:
    """Options and functions that all of them have; an empty cell is a function that the module does not have."""
    on_page: dict[str, dict[str, list[str]]] = {}
    for one in doors():
        module, call, options, _ = one.values
        on_page.setdefault(call.partition("(")[0], {})[module] = options
    modules = {name: importlib.import_module(f"dvcodec.{name}") for name in FORMATS}
    functions = {
        name: {public for public in module.__all__ if inspect.isfunction(getattr(module, public))}
        for name, module in modules.items()
    }
    assert set.intersection(*functions.values()) == {
        name for name, cells in on_page.items() if len(cells) == len(FORMATS)
    }
    for name, cells in on_page.items():
        assert {*cells} == {module for module in FORMATS if name in functions[module]}, name
        shared = [
            {one.name for one in parameters.values() if one.kind is one.KEYWORD_ONLY}
            for module in cells
            for parameters in [inspect.signature(getattr(modules[module], name)).parameters]
        ]
        assert set.intersection(*shared) == {*next(iter(cells.values()))}, name


@in_the_tree
def test_a_first_parameter_has_one_name_for_each_idea() -> None:
    rules, exceptions = first_arguments()
    assert {*rules} == {"decode", "load", "open", "read", "write"}
    for name in (*FORMATS, "lance", "puffin"):
        module = importlib.import_module(f"dvcodec.{name}")
        for public in module.__all__:
            value, verb = getattr(module, public), public.partition("_")[0]
            if inspect.isfunction(value) and verb in rules:
                expected = exceptions.pop(f"{name}.{public}", rules[verb])
                assert next(iter(inspect.signature(value).parameters)) == expected, f"{name}.{public}"
    assert not exceptions


def test_what_decodes_has_its_inverse() -> None:
    for name in ("iceberg", "delta", "paimon", "lance", "puffin"):
        names = importlib.import_module(f"dvcodec.{name}").__all__
        decoders = {one.removeprefix("decode") for one in names if one.startswith("decode")}
        encoders = {one.removeprefix("encode") for one in names if one.startswith("encode")}
        assert decoders == encoders, name


@pytest.mark.parametrize("module", [iceberg, delta, paimon], ids=FORMATS)
def test_locations_are_read_back(module: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "vectors")
    locations = module.write_deletion_vectors(path, VECTORS)
    assert {location.data_file: module.load(location) for location in locations} == VECTORS
    rest = () if module is iceberg else (locations,)
    assert module.read_deletion_vectors(path, *rest) == VECTORS
    with pytest.raises(LimitExceeded):
        module.load(max(locations, key=lambda one: one.size), limits=Limits(max_vector_bytes=20))


def test_manifest_entries_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "x.puffin"
    for location in iceberg.write_deletion_vectors(path, VECTORS):
        entry = iceberg.manifest_entry(location)
        rows = VECTORS[entry["referenced_data_file"]]
        assert iceberg.load(entry) == iceberg.load(entry, path.read_bytes()) == rows
        with pytest.raises(CardinalityMismatch):
            iceberg.load(entry | {"record_count": 7})
        with pytest.raises(Truncated):
            iceberg.load(entry | {"content_offset": 10**6})
        with pytest.raises(Unsupported):
            iceberg.load(entry | {"file_path": "http://host/x.puffin"})
        with pytest.raises(UsageError, match="content_offset must be of type int"):
            iceberg.load(entry | {"content_offset": None})

"""The door for formats: those of dvcodec keep the laws; a package of strangers is installed and used as any other."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from dvcodec import (
    DvcodecError,
    Format,
    Limits,
    NotCanonical,
    RowSet,
    VectorRef,
    decode,
    formats,
    iceberg,
    sniff,
)
from dvcodec.core.cursor import BytesLike
from dvcodec.io import Source
from dvcodec.ops.read import BUILT_IN, encodings, format_of
from dvcodec.testing import LAWS, Case

STRANGER = Path(__file__).parent / "stranger"
GOLDEN: Mapping[str, Mapping[str, list[int]]] = {
    "blob": {"00000024d1d339640100000000000000000000003a30000001000000000001001000000001000200712fa6e8": [1, 2]},
    "mumbling": {"01 03 00 00 02 00 01 00 01 80 00 22 ff": [0, 34, 511]},
    "roaring64": {"0100000000000000 00000000 3a300000010000000000000010000000 0700": [7]},
    "roaring32": {"3a300000010000000000000010000000 0700": [7], "3a30000000000000": []},
    "clickhouse32": {"00 02 05000000 07000000": [5, 7]},
    "doris": {"01 05000000": [5], "00": []},
}


def case_of(name: str) -> Case:
    found = format_of(name)
    golden = {bytes.fromhex(data): rows for data, rows in GOLDEN.get(name, {}).items()}
    return Case(found, golden or {found.write(RowSet([3, 5])): [3, 5]})


@pytest.mark.parametrize("name", encodings())
def test_formats_keep_the_laws(name: str) -> None:
    case = case_of(name)
    for law in LAWS.values():
        law(case)


@pytest.mark.parametrize("name", BUILT_IN)
def test_formats_go_to_other_processes(name: str) -> None:
    assert pickle.loads(pickle.dumps(BUILT_IN[name])).title == BUILT_IN[name].title


def test_a_law_that_is_broken_is_named() -> None:
    careless = Format(
        name="careless",
        title="a format without checks",
        decode=lambda buf, **_: RowSet(list(bytes(buf))),
        encode=lambda rows: bytes(rows.to_numpy().tolist()[::-1]),
        highest=255,
    )
    case = Case(careless, golden={b"\x02\x01": [1, 2]}, corrupt=[b"\x01\x01"])
    broken = set()
    for name, law in LAWS.items():
        try:
            law(case)
        except (AssertionError, DvcodecError) as error:
            broken.add(name)
            assert str(error)
    assert broken == {"golden_files", "round_trip", "trailing_bytes", "the_door"}


def test_a_file_of_several_vectors_keeps_the_laws() -> None:
    """Limits are those of each vector. Nothing else is said of this format by the laws that need it installed."""

    def locate(source: Source, limits: Limits) -> list[VectorRef]:
        del limits
        first = source.read(0, 1)[0]
        return [VectorRef(several.kind, 1, first), VectorRef(several.kind, 1 + first, source.size - 1 - first)]

    def decode_bytes(buf: BytesLike, *, limits: Limits, source: str | None = None, base: int = 0) -> RowSet:
        del limits
        values = list(bytes(buf))
        if not values or values != sorted(set(values)):
            raise NotCanonical("rows", source=source, offset=base)
        return RowSet(values)

    several = Format(name="several", title="two vectors", decode=decode_bytes, locate=locate, highest=255)
    case = Case(several, golden={b"\2\1\2\7\10\11": [1, 2, 7, 8, 9]}, corrupt=[b"\2\1"])
    for name in LAWS.keys() - {"the_door", "truncation", "trailing_bytes"}:
        LAWS[name](case)


def test_built_in_formats_are_known_without_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise AssertionError("entry points were loaded")

    monkeypatch.setattr(formats, "_installed", refused)
    for found in BUILT_IN.values():
        if found.encode is not None:
            assert sniff(found.write(RowSet([7, 9]))).kind is found.kind
    assert decode(iceberg.encode(RowSet([1]))) == RowSet([1])


# ---------------------------------------------------------------------- a package of strangers


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the stranger's, installed by pip from a copy of its sources."""
    folder = tmp_path_factory.mktemp("installed")
    sources = folder / "sources"
    shutil.copytree(STRANGER, sources)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "site"), str(sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder of packages, with its packages."""
    known = [str(folder / "site"), *(path for path in sys.path if path and not path.endswith("tests"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(known)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)


def test_the_tests_of_the_package_pass(installed: Path) -> None:
    done = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "sources/tests")
    assert done.returncode == 0, done.stdout
    assert f"{len(LAWS)} passed" in done.stdout


def test_the_library_takes_its_files(installed: Path) -> None:
    program = """
import copy, pickle
import dvcodec, varset
from dvcodec import RowSet

data = varset.encode(RowSet([1, 5, 9]))
kind = dvcodec.sniff(data).kind
assert kind == "varset" == kind.value and kind is dvcodec.ContainerKind("varset")
assert kind is pickle.loads(pickle.dumps(kind)) is copy.deepcopy(kind) and kind not in list(dvcodec.ContainerKind)
assert dvcodec.decode(data) == RowSet([1, 5, 9]) == dvcodec.read_rows(data)[None]
assert dvcodec.describe(data)[0].size == len(data)
damaged = data[:4] + b"\\x02" + data[5:]
(finding,) = dvcodec.verify(damaged).findings
assert (finding.name, finding.offset) == ("crc", len(data) - 4)
try:
    dvcodec.decode(data, cardinality=4)
except dvcodec.CardinalityMismatch as error:
    print(error)
"""
    done = run(installed, "-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "at byte 0: cardinality: expected 4 (metadata), found 3\n"


def test_the_command_line_takes_its_files(installed: Path) -> None:
    (installed / "rows.blob").write_bytes(iceberg.encode(RowSet([1, 5, 9])))
    for command, shown in {
        "convert rows.blob -o rows.vs --to varset": "wrote rows.vs",
        "inspect rows.vs": "varset, rows as varints",
        "diff rows.vs rows.blob": "no difference",
    }.items():
        done = run(installed, "-m", "dvcodec", *command.split())
        assert (done.returncode, done.stderr) == (0, ""), command
        assert shown in done.stdout
    (installed / "other").write_bytes(b"something else, of no format")
    done = run(installed, "-m", "dvcodec", "inspect", "other")
    assert done.returncode == 2
    assert "a varset file" in done.stderr
    done = run(installed, "-m", "dvcodec", "convert", "rows.vs", "-o", "x", "--to", "varsett")
    assert done.stderr.endswith("hudi, varset\n")


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        ("raise RuntimeError('no\\nluck')", "RuntimeError: no luck"),
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("FORMAT = 5", "broken:FORMAT is not a dvcodec.Format, but int"),
        ("import dvcodec; FORMAT = dvcodec.Format(name='x', title='', decode=len)", "is not that of its entry point"),
    ],
)
def test_a_broken_package_is_named_in_one_line(module: str, problem: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    info = site / "broken-1.5.dist-info"
    info.mkdir(parents=True)
    (site / "broken.py").write_text(module)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text("[dvcodec.formats]\nbroken = broken:FORMAT\n")
    (tmp_path / "other").write_bytes(b"something else, of no format")
    (tmp_path / "good").write_bytes(iceberg.encode(RowSet([1])))
    assert run(tmp_path, "-m", "dvcodec", "positions", "good").stderr == ""
    done = run(tmp_path, "-m", "dvcodec", "inspect", "other")
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert "format broken of the package broken 1.5 cannot be loaded: " in first
    assert problem in first
    assert "container: expected" in second
    done = run(tmp_path, "-m", "dvcodec", "convert", "good", "-o", "x", "--to", "broken")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("dvcodec: format broken of the package broken 1.5 cannot be loaded")


def test_a_failing_function_is_blamed_on_its_package(tmp_path: Path) -> None:
    info = tmp_path / "site" / "hasty-2.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "site" / "hasty.py").write_text(
        "import dvcodec\n"
        "FORMAT = dvcodec.Format(name='hasty', title='hasty', decode=lambda buf, **_: [][1],\n"
        "    sniff=lambda source, head, limits: head[5] == 104, encode=lambda rows: rows.nothing)\n"
    )
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hasty\nVersion: 2\n")
    (info / "entry_points.txt").write_text("[dvcodec.formats]\nhasty = hasty:FORMAT\n")
    (tmp_path / "short").write_bytes(b"abc")
    (tmp_path / "long").write_bytes(b"abcdehij")
    (tmp_path / "good").write_bytes(iceberg.encode(RowSet([1])))
    done = run(tmp_path, "-m", "dvcodec", "inspect", "short")
    assert "format hasty of the package hasty 2 fails: IndexError: index out of range" in done.stderr
    assert done.returncode == 2
    done = run(tmp_path, "-m", "dvcodec", "inspect", "long")
    assert done.stderr == "dvcodec: format hasty of the package hasty 2 fails: IndexError: list index out of range\n"
    done = run(tmp_path, "-m", "dvcodec", "convert", "good", "-o", "x", "--to", "hasty")
    assert done.stderr.startswith("dvcodec: format hasty of the package hasty 2 fails: AttributeError: ")

"""What hostile names can do to who looks at them: claims of SECURITY.md on the terminal, JSON and the report."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from cli_runner import run
from dvcodec import DecodeError, RowSet, delta, paimon
from dvcodec.tables import open_table
from dvcodec.tables.auditing import audit
from samples.delta_table import DeltaBuilder, rows_from
from samples.iceberg_table import Commit, build_iceberg
from samples.locations import delta_data_file

NAMES = {
    "colour": "a\x1b[31mred",
    "title": "a\x1b]0;owned\x07",
    "8-bit control": "a\x9b31mred",
    "overwritten line": "a\rok    b",
    "more lines": "a\nok  b: all valid",
    "right to left": "a\u202egnp.b",
    "markup": "[bold red]a[/x][link=http://evil.example]b[/link]",
    "script": "<script>alert(1)</script>",
    "attribute": '"><img src=x onerror=alert(1)>',
    "end of script": "</script><svg onload=alert(1)>",
    "comment": "<!--",
    "formula": "=cmd|' /C calc'!A0",
}
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal or a reader of text takes for an order; tab and line break are the output's own."""


def table_of(folder: Path, name: str) -> str:
    """A Delta table with two data files of that name, one of them gone, and a vector for each."""
    made = DeltaBuilder(folder)
    made.create()
    added = [made.write_file(f"{name}{number}.parquet", rows_from(100 * number, 20)) for number in range(2)]
    made.commit(*({"add": item} for item in added))
    made.delete({item["path"]: RowSet([1, 2]) for item in added})
    (folder / f"{name}1.parquet").unlink()
    return str(folder)


@pytest.fixture(params=list(NAMES.values()), ids=list(NAMES))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return table_of(tmp_path / "t", request.param.replace("/", "\N{DIVISION SLASH}"))


def test_no_name_reaches_the_terminal_as_control_characters(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in [
        ["audit", "--all"],
        ["table"],
        ["log"],
        ["convert-table", "--to", "iceberg"],
        ["export-live", "-o", "x.parquet"],
    ]:
        options = ["-o", "out"] if command[0] == "convert-table" else []
        result = run(command[0], table, *command[1:], *options)
        assert result.code in (0, 1, 2)
        assert result.out or result.err
        assert not CONTROL.search(result.out + result.err)
        assert not re.search(r"^ok  b", result.out + result.err, re.MULTILINE)
        if command[0] in ("audit", "table", "log"):
            result = run(command[0], table, "--json")
            assert result.json
            assert not CONTROL.search(result.out.replace("\n", ""))


@pytest.mark.skipif(sys.platform == "win32", reason="names that Windows does not have")
@pytest.mark.parametrize("options", [[], ["-v"], ["-vv"]])
def test_no_name_in_the_log_reaches_the_terminal_as_control_characters(tmp_path: Path, options: list[str]) -> None:
    """Names of metadata files that are ignored, of which the first are shown."""
    crafted = build_iceberg(tmp_path / "t", Commit(data={"a": 20}))
    for name in (text.replace("/", "\N{DIVISION SLASH}") for text in (*NAMES.values(), *"abcdefgh")):
        shutil.copy(crafted.metadata, crafted.metadata.with_name(f"\x07{name}.metadata.json"))
    result = run("table", crafted.folder, *options)
    assert result.code == 0
    warning = result.err.splitlines()[0]
    assert re.search(r"dvcodec: .*: ignored \\x07.* and 15 more: names without a version", warning)
    assert not CONTROL.search(result.out + result.err)
    assert not re.search(r"^ok  b", result.err, re.MULTILINE)


def test_an_error_names_its_place_on_one_line_of_the_terminal(tmp_path: Path) -> None:
    delta_data_file(tmp_path / "t", "http://evil.example/\x1b[31m\nok    all valid")
    result = run("table", tmp_path / "t")
    assert result.code == 2
    assert not CONTROL.search(result.err)
    assert len(result.err.strip().splitlines()) == 1


SECRET = b"password=hunter2 and nothing else that matters, for more than eight bytes\n" * 9


def shown_of(secret: bytes, text: str) -> list[str]:
    """What a text shows of a file: four of its bytes as text, hexadecimal digits or a number."""
    windows = {secret[i : i + 4] for i in range(len(secret) - 4)}
    numbers = {str(int.from_bytes(window, order)) for window in windows for order in ("big", "little")}
    found = numbers.intersection(re.findall(r"[0-9]+", text))
    digits = re.sub(r"[\s\W]|0x", "", text)
    found |= {window.hex() for window in windows if window.hex() in digits}
    return sorted(found | {word for word in ("hunter2", "passw", "nothing") if word in text})


def test_a_finding_shows_a_path_and_never_what_is_in_another_file(tmp_path: Path) -> None:
    """A local table may name any local file; a finding says that it is not a vector, and shows nothing of it."""
    secret = tmp_path / "secret.txt"
    secret.write_bytes(SECRET)
    made = DeltaBuilder(tmp_path / "t")
    made.create()
    added = made.write_file("a.parquet", rows_from(0, 5))
    for offset in (0, 1, 4, 9, 600):
        descriptor = {"storageType": "p", "pathOrInlineDv": f"file://{secret}", "offset": offset}
        added |= {"deletionVector": descriptor | {"sizeInBytes": 34, "cardinality": 1}}
        made.commit({"add": added})
        found = audit(open_table(made.root))
        assert {finding.check for finding in found.findings} >= {"length", "container"}
        text = json.dumps(found.to_dict())
        assert "secret.txt" in text
        assert shown_of(SECRET, text) == []
        for command in (["audit"], ["log"], ["export-live", "-o", str(tmp_path / "x.parquet")]):
            result = run(command[0], made.root, *command[1:])
            assert result.out + result.err
            assert shown_of(SECRET, result.out + result.err) == []
        shutil.copy(secret, made.root / "b.parquet")


TABLES = Path(__file__).parent.parent / "vectors/tables"
LINKED = [
    "delta/spark-4.4.0/checkpointed/table",
    "iceberg/spark-1.12.0/upgraded/table",
    "lance/pylance-14.0.2/life",
    "paimon/java-1.4.2/changed64/table",
    "scorch/bleve-2.6.1/small-v16",
]


@pytest.mark.parametrize("name", LINKED)
def test_a_link_in_a_table_shows_nothing_of_the_file_it_leads_to(name: str, tmp_path: Path) -> None:
    """Each file of a table in turn is a link to a secret: metadata, data files and vectors."""
    (tmp_path / "secret.txt").write_bytes(SECRET)
    root = tmp_path / "t"
    shutil.copytree(TABLES / name, root)
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        kept = path.read_bytes()
        path.unlink()
        path.symlink_to(tmp_path / "secret.txt")
        result = run("audit", root, "--json", "--deep")
        assert result.out + result.err
        assert shown_of(SECRET, result.out + result.err) == [], path
        path.unlink()
        path.write_bytes(kept)


def test_a_descriptor_shows_nothing_of_a_file_outside_its_table(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_bytes(SECRET)
    descriptor = delta.Descriptor("p", f"file://{tmp_path}/secret.txt", 34, 1, 4)
    with pytest.raises(DecodeError, match="found something else") as caught:
        delta.load(descriptor, str(tmp_path / "t"))
    assert shown_of(SECRET, str(caught.value)) == []


@pytest.mark.parametrize("index", [paimon.DELETION_VECTORS, paimon.HASH])
def test_checking_an_index_manifest_shows_nothing_of_other_files(index: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_bytes(SECRET)
    vectors = (paimon.DeletionVectorMeta("a.parquet", 4, 34, 1),) if index == paimon.DELETION_VECTORS else None
    entry = paimon.IndexManifestEntry(index, "index-0", 100, 1, vectors=vectors, external_path=f"file://{secret}")
    path = tmp_path / "t/manifest/index-manifest-0"
    path.parent.mkdir(parents=True)
    paimon.write_index_manifest(path, [entry])
    result = run("verify", path)
    assert result.code == 1
    assert "something else" in result.out
    assert shown_of(SECRET, result.out + result.err) == []

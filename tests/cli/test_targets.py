"""What a user may name: files, parts of files, folders of whole tables."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cases import each
from cli_runner import VECTORS, A, B, delta_file, flipped, puffin_file, run
from dvcodec import RowSet, UsageError, iceberg
from dvcodec.cli.targets import TableFolders, Target, expand, only, open_target
from dvcodec.formats import ContainerKind
from samples import delta_log
from samples.delta_log import NEW, OLD
from samples.iceberg_table import VECTOR, Commit, build_iceberg

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="not a file name on Windows")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("b.dv", "a.dv", "c.txt", "sub/d.dv", "sub/.hidden", "sub/deep/e.dv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("a.dv", [Target("a.dv")]),
        ("missing", [Target("missing")]),
        ("*.dv", [Target("a.dv"), Target("b.dv")]),
        ("sub/**", [Target("sub/d.dv"), Target("sub/deep/e.dv")]),
        ("sub/.h*", [Target("sub/.hidden")]),
        ("a**", [Target("a.dv")]),
        ("**/*.dv", [Target("a.dv"), Target("b.dv"), Target("sub/d.dv"), Target("sub/deep/e.dv")]),
        ("sub", [Target(f"sub/{name}", found=True) for name in (".hidden", "d.dv", "deep/e.dv")]),
        ("-", [Target("-")]),
        ("-@4:39", [Target("-", 4, 39)]),
        ("a.dv@4", [Target("a.dv", 4)]),
        ("a.dv@4:39", [Target("a.dv", 4, 39)]),
        ("a@b@4:39", [Target("a@b", 4, 39)]),
        ("none.dv@x:3", [Target("none.dv@x:3")]),
        ("@4", [Target("@4")]),
        ("memory://bucket/a.dv@4:39", [Target("memory://bucket/a.dv", 4, 39)]),
        ("file:/tmp/a.dv@4", [Target("file:/tmp/a.dv", 4)]),
        ("memory://a@b/c", [Target("memory://a@b/c")]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.usefixtures("folder")
@needs_posix
def test_expand(name: str, targets: list[Target]) -> None:
    assert expand([name]) == targets


@needs_posix
@pytest.mark.parametrize("name", ["a@4", "a@4:39", "[ab].dv", "x*", "part:0.bin", "s3:x", "-x"])
def test_a_file_that_is_there_means_itself(name: str, folder: Path) -> None:
    (folder / name).write_bytes(iceberg.encode(RowSet([3])))
    assert expand([name]) == [Target(name)]
    assert run("positions", "--", name).out == "3\n"


@needs_posix
@pytest.mark.parametrize("name", ["sub", "sub/**", "**/*.dv"])
def test_links_in_circles(name: str, folder: Path) -> None:
    before = expand([name])
    (folder / "sub" / "deep" / "back").symlink_to(folder / "sub")
    assert expand([name]) == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "empty"),
        ("*.no", "no such files"),
        ("none", "no files in this"),
        ("a.dv@a:b", "^a.dv@a:b: after @ expected OFFSET or OFFSET:SIZE in bytes, found 'a:b'$"),
        ("a.dv@-1", "found '-1'"),
        ("a.dv@4:", "found '4:'"),
    ],
)
def test_expand_refuses(name: str, said: str, folder: Path) -> None:
    (folder / "none" / "in" / "here").mkdir(parents=True)
    with pytest.raises(UsageError, match=said):
        expand([name])


@pytest.mark.parametrize("name", ["sub/deep", "*.dv"])
@pytest.mark.usefixtures("folder")
def test_only_refuses_folders_and_several(name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name.replace('*', '[*]')}: expected one file, found"):
        only(name)


@each(
    ("name", "rows"),
    [
        ("bin@1", [0, 1, 2, 7]),
        ("bin@1:48", [0, 1, 2, 7]),
        ("bin@1:40", [0, 1, 2, 7]),  # as a Delta log has it: without length field and CRC
        ("bin@49", [42]),
        ("bin@49:34", [42]),
        ("puffin@52:42", [42]),
        ("wrapped@3", [9]),  # behind something else
        ("map@5:8", []),  # a bare bitmap in the middle
    ],
)
def test_part_of_a_file(name: str, rows: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    delta_file(tmp_path / "bin")
    puffin_file(tmp_path / "puffin")
    (tmp_path / "wrapped").write_bytes(b"xyz" + iceberg.encode(RowSet([9])) + b"more")
    (tmp_path / "map").write_bytes(b"12345" + bytes(8) + b"more")
    lines = "".join(f"{row}\n" for row in rows)
    assert run("positions", name).out == lines
    file, _, place = name.partition("@")
    assert run("positions", "--", f"-@{place}", stdin=Path(file).read_bytes()).out == lines
    assert run("verify", name).code == 0


@each("place", ["0:0", "0:7", "0:40", "1:39", "1:47", "1:49", "85", "90"])
@each("command", ["inspect", "positions", "verify", "convert"])
def test_parts_that_are_not_a_whole_vector(command: str, place: str, tmp_path: Path) -> None:
    name = f"{delta_file(tmp_path / 'bin')}@{place}"
    options = ["--to", "blob", "-o", str(tmp_path / "out")] if command == "convert" else []
    result = run(command, name, *options)
    assert result.code == (1 if command == "verify" else 2)
    assert (result.out if command == "verify" else result.complaint).count(" expected ") == 1
    assert not (tmp_path / "out").exists()


def test_part_that_is_a_container_itself(tmp_path: Path) -> None:
    inner = puffin_file(tmp_path / "inner").read_bytes()
    outer = tmp_path / "outer"
    outer.write_bytes(b"head" + inner + b"tail")
    with open_target(Target(str(outer), 4, len(inner))) as found:
        assert found is not None
        assert found.container.kind is ContainerKind.PUFFIN
        assert {ref.offset: rows for ref, rows in found.rows()} == {8: VECTORS[A], 56: VECTORS[B]}
    assert run("verify", f"{outer}@4:{len(inner)}").code == 0


@each("command", ["inspect", "positions", "verify", "convert"])
def test_errors_in_a_part_have_the_offset_of_the_file(command: str, tmp_path: Path) -> None:
    bad = flipped(delta_file(tmp_path / "bin"), 70, to=tmp_path / "bad")
    options = ["--to", "blob", "-o", str(tmp_path / "out")] if command == "convert" else []
    result = run(command, f"{bad}@49", *options)
    assert result.code == (1 if command == "verify" else 2)
    assert "at byte 87: CRC-32" in (result.out if command == "verify" else result.complaint)


@each("content", [b"", b"\0" * 100], ids=["empty", "zeroed"])
@each(
    "name",
    [
        "data/deletes.puffin",
        "ab/deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin",
        "t.lance/_deletions/0-1-2.arrow",
        "t.lance/_deletions/0-1-2.bin",
        "index/store/00000000000a.zap",
    ],
)
def test_a_file_of_a_folder_with_the_name_of_vectors_is_damaged_when_it_is_nothing(
    name: str, content: bytes, tmp_path: Path
) -> None:
    lost = tmp_path / name
    lost.parent.mkdir(parents=True)
    lost.write_bytes(content)
    puffin_file(tmp_path / "valid.puffin")
    (tmp_path / "notes.bin").write_bytes(content)
    verified = run("verify", tmp_path)
    assert verified.code == 1
    assert f"FAIL  {lost}  unknown container" in verified.out
    assert verified.out.endswith("2 files, 1 with findings\n")
    assert verified.complaint == "1 other file without deletion vectors"
    assert run("inspect", "--json", tmp_path).code == 2
    # Whoever wants vectors has no word on segments.
    assert run("stats", tmp_path).code == (0 if name.endswith(".zap") else 2)


@each("name", ["plain.dv", "with space.dv", "per%cent.dv", "größe.dv", "a#b.dv", "a?b.dv"])
def test_file_url(name: str, tmp_path: Path) -> None:
    if sys.platform == "win32" and "?" in name:
        pytest.skip("not a file name on Windows")
    file = tmp_path / name
    file.write_bytes(iceberg.encode(RowSet([5])))
    url = file.as_uri()
    assert run("positions", url).out == "5\n"
    assert run("positions", f"{url}@0").out == "5\n"
    assert run("positions", url.replace("file:///", "file:/")).out == "5\n", "as Java writes them"
    assert run("positions", url.replace("file:///", "FILE://localhost/")).out == "5\n"
    assert name in run("inspect", url).out


@needs_posix
def test_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, puffin_file(tmp_path / "f").read_bytes())
    os.close(writing)
    try:
        assert run("stats", "--json", f"/dev/fd/{reading}").json["total"]["cardinality"] == 5
    finally:
        os.close(reading)


@needs_posix
def test_a_pipe_by_its_name_is_refused(tmp_path: Path) -> None:
    """Without a writer it would block."""
    os.mkfifo(tmp_path / "pipe")
    done = run("verify", tmp_path / "pipe")
    assert done.code == 2
    assert f"{tmp_path / 'pipe'}: Not a regular file" in done.err


# --- commands on files, given the folder of a whole table: what is superseded, what is missing, what checks the table


COMMANDS = ("verify", "inspect", "stats", "positions", "ranges")
SCORCH = Path(__file__).parents[1] / "vectors" / "tables" / "scorch"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return delta_log.restored_table(tmp_path / "orders")


def note(name: object, text: str, what: str = "Delta table, snapshot 2") -> str:
    return f"dvcodec: {name}: this folder is a table ({what}): {text}; to check the table: dvcodec audit {name}"


@pytest.mark.parametrize("command", COMMANDS)
def test_superseded_vectors(lake: Path, command: str) -> None:
    result = run(command, lake)
    assert result.code == 0
    text = note(lake, "1 of 2 vectors superseded, not in this snapshot")
    assert result.err.splitlines() == [text, "dvcodec: 5 other files without deletion vectors"]
    assert run(command, lake.parent).err == result.err
    single = run(command, lake / NEW)
    assert (single.code, single.err) == (0, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_json(lake: Path, command: str) -> None:
    found = run(command, lake, "--json").json
    items = found["vectors"] if command == "stats" else found
    if command == "inspect":
        items = [{"source": one["source"]} | vector for one in items for vector in one["vectors"]]
    wanted: list[object] = [0, 1] if command == "verify" else [False, True]
    assert [(item["source"], item["superseded"]) for item in items] == list(
        zip([str(lake / NEW), str(lake / OLD)], wanted, strict=True)
    )
    single = run(command, lake / NEW, "--json")
    assert "superseded" not in single.out


def test_files_that_are_gone(lake: Path) -> None:
    """Not a clean bill for a table whose rows nobody can read."""
    (lake / NEW).unlink()
    result = run("verify", lake)
    assert result.code == 1
    assert result.out.splitlines()[1:] == [
        f"FAIL  {lake / NEW}  unknown container, 1 of 1 check failed",
        "  FAIL  missing-file: file: file of 1 vector of the table's current snapshot: expected a file, found none",
        "2 files, 1 with findings",
    ]
    (lake / OLD).unlink()
    result = run("verify", lake)
    assert (result.code, result.out.splitlines()[-1]) == (1, "1 file, 1 with findings")
    assert result.err.splitlines() == [note(lake, "no vector in these files")]
    (report,) = run("verify", lake, "--json").json
    assert (report["source"], report["ok"]) == (str(lake / NEW), False)
    assert [check["name"] for check in report["checks"]] == ["missing-file"]
    result = run("stats", lake)
    assert result.code == 2
    assert result.err.splitlines()[1] == "dvcodec: no deletion vectors in 5 files"


def test_a_table_that_cannot_be_read(lake: Path) -> None:
    log = sorted((lake / "_delta_log").iterdir())
    whole = log[0].read_text()
    log[0].write_text("{")
    result = run("verify", lake)
    assert result.code == 2
    assert "unknown which of its vectors are superseded (" in result.err
    assert run("stats", lake).code == 0
    assert {item["superseded"] for item in run("stats", lake, "--json").json["vectors"]} == {None}
    features = '"readerFeatures":["sorcery"],"writerFeatures":["sorcery"]'
    protocol = f'{{"protocol":{{"minReaderVersion":3,"minWriterVersion":7,{features}}}}}\n'
    log[0].write_text(protocol + "".join(line for line in whole.splitlines(True) if '"protocol"' not in line))
    result = run("verify", lake)
    assert result.code == 0
    assert "sorcery" in result.err


def test_other_kinds_of_tables(tmp_path: Path) -> None:
    build_iceberg(tmp_path / "t", VECTOR, Commit(vectors={"a": RowSet([1, 2, 3])}))
    result = run("positions", tmp_path / "t")
    what = "Iceberg table, snapshot 102"
    assert result.err.splitlines()[0] == note(tmp_path / "t", "1 of 2 vectors superseded, not in this snapshot", what)
    build_iceberg(tmp_path / "none")
    result = run("verify", tmp_path / "none")
    assert result.code == 2
    assert result.err.splitlines()[0] == note(tmp_path / "none", "no vector in these files", "Iceberg table")
    result = run("verify", next(SCORCH.rglob("root.bolt")).parent)
    assert "its deleted documents are in root.bolt, not in these files" in result.err


def test_many_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(12):
        build_iceberg(tmp_path / f"{number:02}")
    TableFolders(expand([str(tmp_path)])).report()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "dvcodec: 2 more tables: dvcodec audit checks them"
    TableFolders([Target(str(tmp_path / "00" / "metadata" / "v1.metadata.json"))]).report()
    assert capsys.readouterr().err == ""

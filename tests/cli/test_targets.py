"""What a user may name, and that a part of a file is read like the whole."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cases import each
from cli_runner import VECTORS, A, B, delta_file, flipped, puffin_file, run
from dvcodec import RowSet, Truncated, UsageError, iceberg
from dvcodec.cli.targets import Part, Target, expand, only, open_source_of, open_target
from dvcodec.io import open_source
from dvcodec.ops.read import ContainerKind

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
        ("[ab].dv", [Target("a.dv"), Target("b.dv")]),
        ("sub/**", [Target("sub/d.dv"), Target("sub/deep/e.dv")]),
        ("sub/.h*", [Target("sub/.hidden")]),
        ("./*.dv", [Target("a.dv"), Target("b.dv")]),
        ("a**", [Target("a.dv")]),
        ("**/*.dv", [Target("a.dv"), Target("b.dv"), Target("sub/d.dv"), Target("sub/deep/e.dv")]),
        ("sub/deep", [Target("sub/deep/e.dv", found=True)]),
        (
            "sub",
            [
                Target("sub/.hidden", found=True),
                Target("sub/d.dv", found=True),
                Target("sub/deep/e.dv", found=True),
            ],
        ),
        ("-", [Target("-")]),
        ("-@4:39", [Target("-", 4, 39)]),
        ("a.dv@4", [Target("a.dv", 4)]),
        ("a.dv@4:39", [Target("a.dv", 4, 39)]),
        ("a.dv@0", [Target("a.dv", 0)]),
        ("a@b@4:39", [Target("a@b", 4, 39)]),
        ("a@b", [Target("a@b")]),
        ("none.dv@x:3", [Target("none.dv@x:3")]),
        ("@4", [Target("@4")]),
        ("s3://bucket/a.puffin", [Target("s3://bucket/a.puffin")]),
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


@needs_posix
def test_link_to_a_file_of_a_folder_is_read(folder: Path) -> None:
    (folder / "sub" / "link.dv").symlink_to(folder / "a.dv")
    (folder / "sub" / "broken.dv").symlink_to(folder / "none")
    assert "sub/link.dv" in [target.path for target in expand(["sub"])]
    assert "sub/broken.dv" not in [target.path for target in expand(["sub"])]


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


@pytest.mark.parametrize("name", ["sub", "sub/deep", "*.dv", "**/*"])
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
        ("bin@49:42", [42]),
        ("bin@49:34", [42]),
        ("puffin@4", [0, 1, 2, 7]),
        ("puffin@4:48", [0, 1, 2, 7]),
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


@each("place", ["0:0", "0:1", "0:7", "1:1", "1:7", "0:40", "1:39", "1:47", "1:49", "85", "90"])
@each("command", ["inspect", "stats", "positions", "ranges", "verify", "convert"])
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


@each("command", ["inspect", "stats", "positions", "ranges", "verify", "convert"])
def test_errors_in_a_part_have_the_offset_of_the_file(command: str, tmp_path: Path) -> None:
    bad = flipped(delta_file(tmp_path / "bin"), 70, to=tmp_path / "bad")
    options = ["--to", "blob", "-o", str(tmp_path / "out")] if command == "convert" else []
    result = run(command, f"{bad}@49", *options)
    assert result.code == (1 if command == "verify" else 2)
    assert "at byte 87: CRC-32" in (result.out if command == "verify" else result.complaint)


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="standard input is closed"), open_source_of(Target("-")):
        pass


def test_part_is_bounded() -> None:
    with open_source(b"0123456789") as source:
        part = Part(source, 3, 4)
        assert bytes(part.read(0, 4)) == b"3456"
        assert bytes(part.read(4, 0)) == b""
        for offset, size in ((0, 5), (4, 1), (-1, 2), (5, 0)):
            with pytest.raises(Truncated):
                part.read(offset, size)


def test_damaged_file_of_a_folder_is_not_skipped(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    good = puffin_file(lake / "deletes.puffin")
    (lake / "cut.puffin").write_bytes(good.read_bytes()[:-1])
    assert run("verify", lake).code == 1
    assert run("inspect", lake).complaint.startswith(f"{lake / 'cut.puffin'} at byte ")


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


def test_remote_url(tmp_path: Path) -> None:
    import fsspec

    files = fsspec.filesystem("memory")
    files.pipe_file("/dvcodec-targets/deletes.puffin", puffin_file(tmp_path / "f").read_bytes())
    url = "memory://dvcodec-targets/deletes.puffin"
    try:
        assert run("inspect", "--json", url).json[0]["source"] == url
        assert run("positions", f"{url}@52:42").out == "42\n"
        assert run("verify", url).code == 0
        assert run("convert", url, "--to", "delta", "-o", "memory://dvcodec-targets/d.bin").code == 0
        assert run("positions", "memory://dvcodec-targets/d.bin@1").out == "0\n1\n2\n7\n"
        assert run("diff", url, tmp_path / "f").code == 0
    finally:
        files.rm("/dvcodec-targets", recursive=True)


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
@pytest.mark.parametrize("command", ["verify", "inspect", "positions", "stats"])
def test_a_pipe_by_its_name_is_refused(tmp_path: Path, command: str) -> None:
    """Without a writer it would block."""
    os.mkfifo(tmp_path / "pipe")
    done = run(command, str(tmp_path / "pipe"))
    assert done.code == 2
    assert f"{tmp_path / 'pipe'}: Not a regular file" in done.err

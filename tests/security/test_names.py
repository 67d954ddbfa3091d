"""Names that no file can have, paths that Windows would connect to, and what is not a regular file."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cases import each
from cli_runner import run
from dvcodec import LimitExceeded, NotCanonical, RowSet, Unsupported, UsageError, delta, iceberg, paimon, sniff
from dvcodec.core.json_text import parse_json
from dvcodec.io import Storage, open_source
from dvcodec.io.sink import sync_folder
from dvcodec.io.target import check_reach, check_step, local_path, network_host
from dvcodec.tables import open_table

NETWORK = (
    *(r"\\host\x", "//host/x", r"\/host/x", r"\\?\UNC\host\x"),
    *("file:////host/x", "file://localhost//host/x", "file:/%2fhost/x", "file:%2F%2fhost/x", "file:///%5Chost/x"),
)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "s3://bucket/\ud800", "memory://a\0b"])
def test_a_name_that_no_file_can_have(name: str) -> None:
    for opened in (sniff, open_table, local_path, lambda name: Storage().read(name)):
        with pytest.raises(UsageError, match="NUL character or a lone surrogate") as caught:
            opened(name)
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", [iceberg, delta, paimon])
def test_a_data_file_whose_name_no_metadata_can_have(kind: Any, tmp_path: Path) -> None:
    """Lone surrogates are how Python spells names of bytes; what Java writes for them names another file."""
    with pytest.raises(UsageError, match=r"^'a\\udcff': a data file whose name is not UTF-8$"):
        kind.write_deletion_vectors(tmp_path / "x", {"é": RowSet([1]), "a\udcff": RowSet([2])})
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="names of bytes")
def test_names_that_are_not_utf8_are_opened(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff"
    Path(os.fsdecode(path)).write_bytes(b"abc")
    with open_source(os.fsdecode(path)) as source:
        assert bytes(source.read(0, 3)) == b"abc"


@each("path", NETWORK)
def test_metadata_names_no_network_path(path: str) -> None:
    assert network_host(path) in ("host", "?")
    for home in ("/t", r"C:\t", None, "s3://lake/t", "//other/t"):
        with pytest.raises(Unsupported, match="path in metadata"):
            check_reach(path, home, frozenset({"file"}))
        with pytest.raises(NotCanonical, match="expected no network path"):
            check_step(path, home or "/t")


def test_a_table_on_a_share_names_its_own() -> None:
    check_reach("//HOST/share/x", r"\\host\share\t")
    for path in ("/x", "x", r"C:\x", "file:///x", "file:/x", "s3://b//x", "a//b", r"\x"):
        assert network_host(path) is None


def test_memory_that_runs_out_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    for opened in (open_source, Storage().open):
        with pytest.raises(LimitExceeded, match=r"a: memory: expected enough for what is read"), opened(str(path)):
            raise MemoryError

    def run_out(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("json.loads", run_out)
        with pytest.raises(LimitExceeded, match=r"t\.json: memory: expected enough for the values of the schema"):
            parse_json(b"{}", "t.json", "schema")
    monkeypatch.setattr("dvcodec.cli.inspect.Tour", run_out)
    found = run("stats", path)
    assert found.code == 2
    assert found.complaint == "not enough memory"


@pytest.mark.skipif(sys.platform == "win32", reason="folders are not synced there")
def test_a_folder_that_is_not_synced_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(number: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", lambda _: fail(errno.EIO))
    with pytest.raises(OSError, match="syncing the folder") as caught:
        sync_folder(tmp_path)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(tmp_path))
    monkeypatch.setattr("os.fsync", lambda _: fail(errno.EINVAL))
    sync_folder(tmp_path)
    sync_folder(tmp_path / "nothing")

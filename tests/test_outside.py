"""Errors about files outside a table's folder."""

from __future__ import annotations

import pickle
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from dvcodec.core.errors import BadMagic, DecodeError
from dvcodec.io import Storage, open_source
from dvcodec.io.opening import open_mapped
from dvcodec.io.target import HIDDEN, ask_once, hide_values, is_outside


def test_a_file_is_outside_where_its_links_lead(tmp_path: Path) -> None:
    for name in ("t", "t2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_bytes(b"")
    (tmp_path / "t" / "link").symlink_to(tmp_path / "t2" / "a")
    (tmp_path / "other").symlink_to(tmp_path / "t")
    home = str(tmp_path / "t")
    assert not is_outside(f"{home}/a", home)
    assert not is_outside(f"file://{home}/a", home)
    assert not is_outside(f"{home}/a", str(tmp_path / "other"))
    assert not is_outside(str(tmp_path / "other" / "a"), home)
    assert not is_outside("/a", "/")
    assert is_outside(f"{home}/link", home)
    assert is_outside(str(tmp_path / "t2" / "a"), home)
    assert is_outside("/a\0", home)
    assert is_outside(f"{home}/a", "s3://lake/t")
    assert is_outside("s3://lake/t", home)


def fail(source: str) -> DecodeError:
    return BadMagic("magic", source=source, offset=4, expected="d1d33964", actual="726f6f74")


def test_values_of_a_file_outside_are_not_shown(tmp_path: Path) -> None:
    inside, outside = str(tmp_path / "t" / "a"), str(tmp_path / "b")
    with pytest.raises(BadMagic) as caught, hide_values(inside, str(tmp_path / "t")):
        raise fail(inside)
    assert caught.value.actual == "726f6f74"
    with pytest.raises(BadMagic) as caught, hide_values(outside, None):
        raise fail(outside)
    assert caught.value.actual == "726f6f74"
    with pytest.raises(BadMagic) as caught, hide_values(outside, str(tmp_path / "t")):
        raise fail(outside)
    for _ in range(2):  # the second time, it is known
        with ask_once(), pytest.raises(BadMagic) as caught, hide_values(outside, str(tmp_path / "t")):
            raise fail(outside)
    error = caught.value
    assert (error.what, error.source, error.offset) == ("magic", outside, 4)
    assert (error.expected, error.actual) == (None, HIDDEN)


def ways_to_open(path: str, storage: Storage) -> dict[str, AbstractContextManager[object]]:
    return {
        "storage": storage.open(path),
        "source": open_source(path, storage_options=storage),
        "mapped": open_mapped(path, storage_options=storage),
    }


@pytest.mark.parametrize("opened", ["storage", "source", "mapped"])
def test_every_way_to_open_a_file_of_a_table_hides_values(tmp_path: Path, opened: str) -> None:
    (tmp_path / "b").write_bytes(b"root:x:0")
    path = str(tmp_path / "b")
    whole = Storage()
    for storage in (whole.of_table(str(tmp_path / "t")), pickle.loads(pickle.dumps(whole.of_table("/t")))):
        with pytest.raises(BadMagic) as caught, ways_to_open(path, storage)[opened]:
            raise fail(path)
        assert caught.value.actual == HIDDEN
    with pytest.raises(BadMagic, match="726f6f74"), whole.open(path):
        raise fail(path)

"""Finding the latest metadata file by names and version hint."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import pytest

from cases import each
from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.io import Storage, read_up_to
from dvcodec.io.store import ObjectChanged, Reason
from dvcodec.tables import Folder
from dvcodec.tables.iceberg import latest as latest_metadata
from dvcodec.tables.iceberg.latest import check_newest, find_metadata

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


@each(
    ("names", "hint", "latest"),
    [
        (["v1.metadata.json", "v2.metadata.json"], None, "v2.metadata.json"),
        (["v9.metadata.json", "v10.metadata.json"], None, "v10.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json", "v3.metadata.json"], "2", "v3.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json", "v9.metadata.json"], "1\n", "v2.metadata.json"),
        (["v1.metadata.json", "v3.metadata.json"], "", "v3.metadata.json"),
        ([f"00000-{UUID}.metadata.json", f"00011-{UUID}.metadata.json"], " \n", f"00011-{UUID}.metadata.json"),
        (["v1.metadata.json", "v2.gz.metadata.json"], "2", "v2.gz.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json.gz"], None, "v2.metadata.json.gz"),
        ([f"00000-{UUID}.metadata.json", f"00011-{UUID}.metadata.json"], None, f"00011-{UUID}.metadata.json"),
        ([f"00011-{UUID}.gz.metadata.json", "snap-1.avro", "x.json"], None, f"00011-{UUID}.gz.metadata.json"),
        ([f"00000-{UUID}.metadata.json", "00001-b.metadata.json"], f"00000-{UUID}", f"00000-{UUID}.metadata.json"),
        (["00000-a.metadata.json", "00001-b.metadata.json"], "00000-a.metadata.json", "00000-a.metadata.json"),
        (["v1.metadata.json", "v\uff12.metadata.json", "0000\uff12-b.metadata.json"], None, "v1.metadata.json"),
    ],
)
def test_the_latest_file(tmp_path: Path, names: list[str], hint: str | None, latest: str) -> None:
    fill(tmp_path, names, hint)
    assert find_metadata(Folder(str(tmp_path))) == str(tmp_path / "metadata" / latest)


@pytest.mark.parametrize("times", [9, 10])
def test_a_hint_that_is_replaced_while_it_is_read(times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By commits of other writers, between two requests to a store."""
    fill(tmp_path, ["v1.metadata.json", "v2.metadata.json"], "1")
    answers: list[BaseException | None] = [ObjectChanged("s3://b/t", "read", Reason.CHANGED, "")] * times
    read = Mock(wraps=read_up_to, side_effect=[*answers, DEFAULT])
    monkeypatch.setattr(latest_metadata, "read_up_to", read)
    with pytest.raises(ObjectChanged) if times == 10 else nullcontext():
        assert find_metadata(Folder(str(tmp_path))) == str(tmp_path / "metadata/v2.metadata.json")
    assert read.call_count == 10


@each("hint", ["7", "x", "-1", "9" * 5000, "\u0663", "\uff11"])
def test_a_hint_at_nothing(tmp_path: Path, hint: str) -> None:
    fill(tmp_path, ["v1.metadata.json"], hint)
    with pytest.raises(NotCanonical, match=r"version-hint.text: version hint: expected an existing version"):
        find_metadata(Folder(str(tmp_path)))


@pytest.mark.parametrize(
    ("hint", "shown"),
    [("7", "7"), ("9" * 18, "9" * 18), ("9" * 19, "something else"), ("ghp_0123456789abcdef", "something else")],
)
def test_of_a_hint_only_a_number_is_shown(tmp_path: Path, hint: str, shown: str) -> None:
    fill(tmp_path, ["v1.metadata.json"], hint)
    with pytest.raises(NotCanonical, match=f"found {shown}$"):
        find_metadata(Folder(str(tmp_path)))


def test_two_files_of_one_version(tmp_path: Path) -> None:
    fill(tmp_path, ["00002-a.metadata.json", "00002-b.metadata.json"], None)
    with pytest.raises(UsageError, match=r"00002-a.metadata.json and 00002-b.metadata.json share version 2"):
        find_metadata(Folder(str(tmp_path)))


def test_no_metadata(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no .*metadata.json below metadata"):
        find_metadata(Folder(str(tmp_path)))


def fill(folder: Path, names: list[str], hint: str | None) -> None:
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / "metadata" / name).touch()
    if hint is not None:
        (folder / "metadata" / "version-hint.text").write_text(hint)


@pytest.mark.parametrize(
    ("own", "others", "newer"),
    [
        ("v2.metadata.json", ["v1.metadata.json"], None),
        ("v2.metadata.json", ["v1.metadata.json", "v3.metadata.json", "v10.metadata.json"], "v10.metadata.json"),
        (f"00001-{UUID}.metadata.json", ["00001-b.metadata.json"], "00001-b.metadata.json"),
        ("own.metadata.json", ["v1.metadata.json"], "v1.metadata.json"),
        ("own.metadata.json", ["other.json"], None),
    ],
)
def test_newer_metadata_beside(tmp_path: Path, own: str, others: list[str], newer: str | None) -> None:
    fill(tmp_path, [own, *others], None)
    location = str(tmp_path / "metadata" / own)
    if newer is None:
        check_newest(location, Storage())
    else:
        with pytest.raises(UsageError, match=f"{own}: {newer} beside it may be newer"):
            check_newest(location, Storage())

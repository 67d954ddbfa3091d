"""Files that are written together: all of them, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from dvcodec.tables.writing import new_files


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_was_written_is_removed(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "old").touch()

    def write() -> None:
        with new_files() as written:
            written.append(str(tmp_path / "a"))
            (tmp_path / "a").touch()
            written.append(str(tmp_path / "never written"))
            raise error

    with pytest.raises(error):
        write()
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_what_ends_well_stays(tmp_path: Path) -> None:
    with new_files() as written:
        written.append(str(tmp_path / "a"))
        (tmp_path / "a").touch()
    assert (tmp_path / "a").exists()

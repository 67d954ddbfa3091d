"""Whatever a log holds, it ends in a value or a `DecodeError`; files that are named and not there are an `OSError`."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from dvcodec.core.errors import DecodeError, UsageError
from dvcodec.tables.delta import open as open_delta
from samples.delta_table import build_delta

FORMS = ("classic", "parts", "json", "parquet")
JUNK = st.one_of(
    st.sampled_from([None, True, 0, -1, 1.5, 2**63, 10**30, "", "i", "p", "name", "decimal(99,1)", "{", "9" * 5000]),
    st.sampled_from(["\ud800", "a\0b", "%ff", "..", "/etc/passwd", "file://host/x", "foo://bar"]),
    st.sampled_from([[], {}, [1], {"a": 1}, {"type": "struct", "fields": []}]),
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tables by the form of their only metadata; ``commits`` has no checkpoint."""
    made = {}
    for form in ("commits", *FORMS):
        table = build_delta(tmp_path_factory.mktemp(form.split()[0]) / "t", partitioned=True)
        if form != "commits":
            table.checkpoint(form)
            for version in range(5):
                table.commit_file(version).unlink()
        made[form] = table.root
    return made


def read_all(root: Path) -> None:
    table = open_delta(str(root))
    for info in table.snapshots()[-2:]:
        snapshot = table.snapshot(info.id)
        snapshot.schema()
        # Named files may be anywhere, and not there; nothing is fetched in these tests.
        for vector in snapshot.vectors:
            with suppress(OSError, UsageError, DecodeError):
                snapshot.read(vector)
            with suppress(OSError, UsageError, DecodeError):
                list(snapshot.check_container(vector.location, [vector]))
        for file in snapshot.data_files:
            with suppress(OSError, UsageError, DecodeError):
                list(snapshot.rows(file))
    table.referenced()


def survives(root: Path, change: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "t"
        shutil.copytree(root, copy)
        change(copy / "_delta_log")
        try:
            read_all(copy)
        except DecodeError as error:
            assert str(error)
        except OSError as error:  # no such file, or no name for one
            assert "_sidecars" in str(error.filename)


def replaced(value: Any, data: st.DataObject) -> Any:
    """Put junk somewhere into JSON, in the JSON that stands in its strings too."""
    if isinstance(value, str) and value.startswith("{") and data.draw(st.booleans()):
        return json.dumps(replaced(json.loads(value), data))
    if not isinstance(value, (dict, list)) or not value or data.draw(st.integers(0, 9)) == 0:
        return data.draw(JUNK)
    key: Any = data.draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
    changed = value.copy()
    if isinstance(changed, dict) and data.draw(st.integers(0, 4)) == 0:
        del changed[key]
    else:
        changed[key] = replaced(value[key], data)
    return changed


@settings(max_examples=examples(60))
@given(data=st.data())
def test_lines(tables: dict[str, Path], data: st.DataObject) -> None:
    root = tables[data.draw(st.sampled_from(["commits", "json"]))]

    def change(log: Path) -> None:
        file = data.draw(st.sampled_from(sorted(log.glob("*.json"))))
        lines = file.read_text().splitlines()
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = json.dumps(replaced(json.loads(lines[at]), data))
        file.write_text("\n".join(lines))

    survives(root, change)


@settings(max_examples=examples(60))
@given(data=st.data())
def test_bytes(tables: dict[str, Path], data: st.DataObject) -> None:
    root = tables[data.draw(st.sampled_from(sorted(tables)))]

    def change(log: Path) -> None:
        file = data.draw(st.sampled_from(sorted(path for path in log.rglob("*") if path.is_file())))
        content = bytearray(file.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        file.write_bytes(content[: data.draw(st.sampled_from([len(content)] * 4 + [len(content) // 2]))])

    survives(root, change)

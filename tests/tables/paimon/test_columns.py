"""Manifests in columns have the entries that they have one by one, and snapshots in columns what their values say."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each
from dvcodec.core import avro, avro_columns
from dvcodec.core.errors import DecodeError
from dvcodec.tables import Folder, open_table
from dvcodec.tables.columns import FileColumns, VectorColumns
from dvcodec.tables.paimon import manifests
from dvcodec.tables.paimon.manifests import Entries
from samples.paimon_table import MANIFEST_SCHEMA, PaimonFile, build_paimon
from tables.delta.test_columns import of_files, of_vectors

NONE = {"_MIN_VALUES": bytes(12), "_MAX_VALUES": bytes(12), "_NULL_COUNTS": [0, None]}


def entry(number: int, **more: Any) -> dict[str, Any]:
    """The record of a data file; every seventh is deleted by another one, before or after it."""
    chance = random.Random(number // 7)
    file = {
        "_FILE_NAME": f"data-{chance.getrandbits(90):024x}-{number % 7}.parquet",
        "_FILE_SIZE": chance.getrandbits(20),
        "_ROW_COUNT": chance.getrandbits(number % 40),
        "_SCHEMA_ID": number % 3,
        "_LEVEL": number % 6,
        "_EXTRA_FILES": [],
        "_DELETE_ROW_COUNT": None if number % 5 else number,
        "_FIRST_ROW_ID": None if number % 4 else 100 * number,
        "_MIN_KEY": bytes(12),
        "_MAX_KEY": chance.randbytes(9),
        "_KEY_STATS": NONE,
        "_VALUE_STATS": NONE | {"_MIN_VALUES": b"data-" * (number % 4)},
        "_MIN_SEQUENCE_NUMBER": 0,
        "_MAX_SEQUENCE_NUMBER": number,
    }
    partition = b"\0\0\0\1" + bytes(8) + b"p%d\0\0\0\0\0\x82" % (number % 4)
    return {
        "_VERSION": 2,
        "_KIND": 0,
        "_PARTITION": partition,
        "_BUCKET": number % 3 - 1,
        "_TOTAL_BUCKETS": 3,
        "_FILE": file | more,
    }


def written(folder: Path, entries: list[dict[str, Any]]) -> Folder:
    (folder / "manifest").mkdir(exist_ok=True)
    (folder / "manifest/m").write_bytes(avro.encode(MANIFEST_SCHEMA, entries, codec="zstandard"))
    return Folder(str(folder))


def outcome(folder: Folder) -> list[Any] | str:
    """The entries of a manifest and which are live, or how it is refused."""
    try:
        found = manifests.read_manifest(folder, "m")
        return [list(found), found.identities(), found.live().tolist()]
    except DecodeError as error:
        return f"{type(error).__name__} {error}"


def by_entry(folder: Folder) -> list[Any] | str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifests, "read_in_columns", lambda *_: None)
        return outcome(folder)


def test_entries_in_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [entry(number) for number in range(300)]
    entries += [entry(number) | {"_KIND": 1} for number in range(0, 300, 7)]
    random.Random(1).shuffle(entries)
    folder = written(tmp_path, entries)
    expected = by_entry(folder)
    monkeypatch.setattr(manifests, "read_entry", None)
    assert outcome(folder) == expected
    assert isinstance(expected, list)
    assert len(expected[2]) == 300 - 43
    assert sorted(expected[2]) == expected[2]


def test_entries_of_several_manifests(tmp_path: Path) -> None:
    parts = []
    for first, count in ((0, 200), (200, 20), (400, 0), (300, 150)):
        more = {"_EXTRA_FILES": ["x.index"], "_EXTERNAL_PATH": "/elsewhere/f"} if count == 20 else {}
        parts.append(manifests.read_manifest(written(tmp_path, [entry(first + n, **more) for n in range(count)]), "m"))
    found = Entries.joined(parts)
    assert list(found) == [one for part in parts for one in part]
    assert found.identities() == [one.identity for one in found]
    numbers = found.live()[::3]
    assert list(found.take(numbers)) == [found[number] for number in numbers.tolist()]


@each(
    "change",
    [
        {"_EXTRA_FILES": ["a.index"]},
        {"_EXTRA_FILES": ["../a"]},
        {"_EMBEDDED_FILE_INDEX": b""},
        {"_EXTERNAL_PATH": "s3://b/x"},
        {"_WRITE_COLS": []},
        {"_FILE_NAME": ""},
        {"_FILE_NAME": "data-\n.parquet"},
        {"_FILE_NAME": "data-/x"},
        {"_FILE_SIZE": -1},
        {"_VERSION": 1},
        {"_KIND": 2},
        {"_BUCKET": -2},
    ],
    ids=str,
)
def test_unusual_entries(tmp_path: Path, change: dict[str, Any]) -> None:
    """Some are refused, some are read, and that the same way."""
    for place in (0, 150, 199):
        entries = [entry(number) for number in range(200)]
        of_entry = entries[place] if set(change) & set(entries[place]) else entries[place]["_FILE"]
        of_entry |= change
        folder = written(tmp_path, entries)
        assert outcome(folder) == by_entry(folder)


@settings(max_examples=40)
@given(data=st.data())
def test_damaged_manifests(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("m")
    folder = written(place, [])
    content = avro.encode(MANIFEST_SCHEMA, [entry(number) for number in range(8)], codec="null")
    stored = bytearray(content)
    for _ in range(data.draw(st.integers(1, 2))):
        stored[data.draw(st.integers(len(stored) // 2, len(stored) - 17))] = data.draw(st.integers(0, 255))
    (place / "manifest/m").write_bytes(stored)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_columns, "_FEW", 1)
        assert outcome(folder) == by_entry(folder)


def test_columns_of_snapshots(tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array([1, 2, 3], pa.int32()), "p": ["x"] * 3})
    files = [
        PaimonFile(f"{number}.parquet", rows, [number % 3], (f"p{number % 2}",), f"p=p{number % 2}", number % 2)
        for number in range(5)
    ]
    columns = [(0, "a", "INT"), (1, "p", "STRING")]
    path = build_paimon(tmp_path / "t", columns, [files[:2], files], partition_keys=["p"])
    snapshot = open_table(path).snapshot()
    assert of_files(snapshot.file_columns) == of_files(FileColumns(tuple(snapshot.data_files)))
    assert len(snapshot.vectors) == 5
    objects = VectorColumns(tuple(snapshot.vectors), snapshot.numbers)
    assert of_vectors(snapshot.vector_columns) == of_vectors(objects)

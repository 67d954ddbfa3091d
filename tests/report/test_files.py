"""The columns for the script."""

from __future__ import annotations

import json

import numpy as np

from cases import each
from dvcodec import RowSet
from dvcodec.core.text import plain
from dvcodec.report.files import columns, shades
from samples.audits import HOSTILE, ROOT, audit_of, file_of, hostile, small


def test_every_column_has_a_value_for_every_file() -> None:
    for audit in (small(), hostile(), audit_of()):
        found = columns(audit.scan, "", [])
        lists = [
            value
            for name, value in found.items()
            if name not in ("folder", "places", "errors", "rewrite", "containers")
        ]
        assert {len(value) for value in [*lists, *found["containers"]]} == {len(audit.scan.files)}
        json.dumps(found, allow_nan=False)


def test_columns() -> None:
    found = columns(small().scan, f"{ROOT}/data/", [f"{ROOT}/data/00002-c.parquet"])
    assert found["path"] == ["00000-a.parquet", "00001-b.parquet", "00002-c.parquet"]
    assert found["deleted"] == [50_000, 0, 2_500]
    assert found["rows"] == [100_000, 100_000, 2_500]
    assert found["strip"][1:] == ["", "5" * 64]
    assert found["containers"] == [[0, 0, 0], [0, 0, 0], [2, 0, 1]]
    assert found["places"] == [f"{ROOT}/data/deletes.puffin"]
    assert found["vectors"] == [[[0, 4, 81, 50_000]], [], [[0, 90, 39, 2_500]]]
    assert found["rewrite"] == [2]


def test_what_is_deleted_by_unreadable_vectors_is_not_known() -> None:
    found = columns(audit_of(file_of("a", RowSet([1]), errors=("CRC-32\n",))).scan, "", [])
    assert found["deleted"] == [None]
    assert found["errors"] == {0: ["CRC-32\\n"]}


def test_names_are_plain() -> None:
    found = columns(hostile().scan, "", [])
    assert found["path"] == [plain(f"{text}/{text}") for text in HOSTILE]
    assert all(path.isprintable() for path in found["path"])


@each(
    ("share", "shade"),
    [
        (0, 0),
        (1e-30, 1),
        (0.0099, 1),
        (0.01, 2),
        (0.0999, 2),
        (0.1, 3),
        (0.499, 3),
        (0.5, 4),
        (0.9999, 4),
        (1, 5),
        (2, 5),
    ],
)
def test_shades(share: float, shade: int) -> None:
    density = np.array([share, 1], np.float32)
    assert shades(density) == f"{shade}5"


def test_no_shades() -> None:
    assert shades(np.zeros(64, np.float32)) == shades(np.zeros(0, np.float32)) == ""

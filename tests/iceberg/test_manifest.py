"""The order of blobs in files by Java's writer, and values for manifests."""

from __future__ import annotations

import hashlib
import random

import pytest

from cases import each
from dvcodec import DvLocation, UsageError
from dvcodec.iceberg import java_blob_order, manifest_entry


@each(
    ("rows_of_last", "order"),
    [(1, [9, 0, 10, 1, 11, 2, 12, 3, 4, 5, 6, 7, 8]), (2, [9, 1, 2, 3, 4, 5, 6, 7, 8, 0, 10, 11, 12])],
)
def test_last_file_with_two_rows_doubles_the_table_once_more(rows_of_last: int, order: list[int]) -> None:
    deletes = {f"file-{i}": 1 for i in range(12)} | {"file-12": rows_of_last}
    assert java_blob_order(deletes) == [f"file-{i}" for i in order]


@each(("count", "order"), [(7, "K~0xxxxxxx!q"), (8, "~xxxxxxxx!K0q"), (10, "xxxxxxxxxx!0q~K")])
def test_colliding_names_double_a_small_table(count: int, order: str) -> None:
    """Eight of them do, but not in a table of 64: there the bucket becomes a tree."""
    colliding = ["".join("Aa" if i >> bit & 1 else "BB" for bit in range(4)) for i in range(count)]
    found = java_blob_order(dict.fromkeys([*colliding, *(f"x/{name}" for name in "0Kq~!")], 1))
    assert "".join("x" if path in colliding else path[2:] for path in found) == order
    assert [path for path in found if path in colliding] == colliding[::-1]


def test_many_names_and_counts() -> None:
    """As OpenJDK 17's HashMap has them, which was followed statement by statement for these."""
    chosen, found = random.Random(3), hashlib.sha256()
    for _ in range(200):
        names = ["".join(chosen.choices("AaBC\u00e9\U0001f600/0123", k=5)) for _ in range(chosen.randrange(60))]
        found.update("\n".join(java_blob_order({name: chosen.choice([0, 1, 1, 2, 9]) for name in names})).encode())
    assert found.hexdigest() == "b32a37095b1c700f1b0d881c78b7df511846885862878bedb84e52ee12ffc3e4"


def test_entry_needs_the_data_file() -> None:
    with pytest.raises(UsageError, match=r"x\.bin at byte 1"):
        manifest_entry(DvLocation("delta", "x.bin", 1, 42, 1))

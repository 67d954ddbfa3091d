"""Manifest values, and the order of blobs in files by Java's writer."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from cases import each
from dvcodec import DvLocation, UsageError
from dvcodec.iceberg import java_blob_order, manifest_entry


class Node:
    """An entry of a bucket: a linked list, as in java.util.HashMap."""

    def __init__(self, code: int, key: str, following: Node | None) -> None:
        self.code = code
        self.key = key
        self.next = following


class Treeified(Exception):
    """A bucket became a tree, whose order is another story."""


class JavaHashMap:
    """`computeIfAbsent`, `resize` and iteration of OpenJDK 17's java.util.HashMap, statement by statement."""

    def __init__(self) -> None:
        self.table: list[Node | None] | None = None
        self.size = 0
        self.threshold = 0

    @staticmethod
    def hash_code(text: str) -> int:
        units = text.encode("utf-16-le", "surrogatepass")
        code = 0
        for at in range(0, len(units), 2):
            code = (31 * code + int.from_bytes(units[at : at + 2], "little")) & 0xFFFFFFFF
        return code

    def compute_if_absent(self, key: str) -> None:
        code = self.hash_code(key)
        code ^= code >> 16
        table = self.table
        if table is None or self.size > self.threshold:
            table = self.resize()
        i = (len(table) - 1) & code
        first = table[i]
        chained = 0
        e = first
        while e is not None:
            if e.code == code and e.key == key:
                return
            chained += 1
            e = e.next
        table[i] = Node(code, key, first)
        if chained >= 7:
            self.treeify_bin()
        self.size += 1

    def treeify_bin(self) -> None:
        assert self.table is not None
        if len(self.table) >= 64:
            raise Treeified
        self.resize()

    def resize(self) -> list[Node | None]:
        old = self.table
        if old is None:
            self.table = [None] * 16
            self.threshold = 12
            return self.table
        new: list[Node | None] = [None] * (2 * len(old))
        self.threshold *= 2
        for j, head in enumerate(old):
            low: list[Node] = []
            high: list[Node] = []
            e = head
            while e is not None:
                (high if e.code & len(old) else low).append(e)
                e = e.next
            new[j] = self.link(low)
            new[j + len(old)] = self.link(high)
        self.table = new
        return new

    @staticmethod
    def link(nodes: list[Node]) -> Node | None:
        head: Node | None = None
        for node in reversed(nodes):
            node.next = head
            head = node
        return head

    def keys(self) -> list[str]:
        found = []
        for head in self.table or []:
            e = head
            while e is not None:
                found.append(e.key)
                e = e.next
        return found


def replayed(deletes: dict[str, int]) -> list[str]:
    """Delete row by row, as an engine calls BaseDVFileWriter."""
    by_path = JavaHashMap()
    for path, rows in deletes.items():
        for _ in range(max(rows, 1)):
            by_path.compute_if_absent(path)
    return by_path.keys()


# ---------------------------------------------------------------------- order


@pytest.mark.parametrize("name", ["one", "three", "forty"])
def test_committed_file_stands_as_java_wrote_it(own_vectors: Path, name: str) -> None:
    folder = own_vectors / "iceberg/java-1.12.0"
    (entry,) = [e for e in json.loads((folder / "manifest.json").read_text()) if e["file"] == f"{name}.puffin"]
    deletes = {path: sum(stop - start for start, stop in ranges) for path, ranges in entry["vectors"].items()}
    written = [e["referenced_data_file"] for e in json.loads((folder / f"{name}.json").read_text())]
    assert java_blob_order(deletes) == written == replayed(deletes)


def test_last_file_with_two_rows_doubles_the_table_once_more() -> None:
    one = {chr(97 + i): 1 for i in range(13)}
    two = {**one, "m": 2}
    assert len(one) == 13
    other = {f"file-{i}": 1 for i in range(13)}
    more = {**other, "file-12": 2}
    assert java_blob_order(two) == replayed(two)
    assert java_blob_order(other) == replayed(other) != replayed(more) == java_blob_order(more)


@each("count", range(2, 10))
def test_colliding_names_double_a_small_table(count: int) -> None:
    colliding = ["".join("Aa" if i >> bit & 1 else "BB" for bit in range(4)) for i in range(count)]
    assert len({JavaHashMap.hash_code(path) for path in colliding}) == 1
    deletes = dict.fromkeys([*colliding, *(f"other-{i}" for i in range(5))], 1)
    assert java_blob_order(deletes) == replayed(deletes)
    assert [path for path in java_blob_order(deletes) if path in colliding] == colliding[::-1]


def test_colliding_names_do_not_double_a_table_of_64() -> None:
    """There the bucket becomes a tree; the other files stand where they stood."""
    colliding = ["".join("Aa" if i >> bit & 1 else "BB" for bit in range(4)) for i in range(10)]
    others = [f"other-{i}" for i in range(20)]
    before = dict.fromkeys([*colliding[:-1], *others], 1)
    found = java_blob_order(dict.fromkeys([*colliding, *others], 1))
    assert [path for path in found if path in others] == [path for path in replayed(before) if path in others]


def test_random_names_and_counts() -> None:
    chosen = random.Random(3)
    for _ in range(200):
        count = chosen.randrange(60)
        deletes = {chosen.randbytes(4).hex(): chosen.choice([1, 1, 2, 9]) for _ in range(count)}
        assert java_blob_order(deletes) == replayed(deletes)


PATHS = st.text("AaBC\u00e9\U0001f600", max_size=4) | st.sampled_from(["AaAa", "BBBB", "AaBB", "BBAa"])


@given(st.dictionaries(PATHS, st.integers(0, 3), max_size=40))
def test_any_names_and_counts(deletes: dict[str, int]) -> None:
    try:
        expected = replayed(deletes)
    except Treeified:
        reject()
    assert java_blob_order(deletes) == expected


# ---------------------------------------------------------------------- manifest entry


def test_entry_names_every_value() -> None:
    location = DvLocation("iceberg", "s3://b/t/data/x.puffin", 4, 50, 5, "s3://b/t/data/f.parquet", 388)
    assert manifest_entry(location) == {
        "content": 1,
        "file_path": "s3://b/t/data/x.puffin",
        "file_format": "PUFFIN",
        "record_count": 5,
        "file_size_in_bytes": 388,
        "referenced_data_file": "s3://b/t/data/f.parquet",
        "content_offset": 4,
        "content_size_in_bytes": 50,
    }


def test_entry_needs_the_data_file() -> None:
    with pytest.raises(UsageError, match=r"x\.bin at byte 1"):
        manifest_entry(DvLocation("delta", "x.bin", 1, 42, 1))

"""Paimon's index files that Java and pypaimon wrote, and the rows in them."""

from __future__ import annotations

from pathlib import Path

from dvcodec import RowSet

KEY = 1 << 32
MAGIC32, MAGIC64 = b"\x5e\x43\xf2\xd0", b"\xd1\xd3\x39\x64"
BITMAP_ROWS: dict[str, RowSet] = {
    "data-aaa-0.parquet": RowSet([0, 3, 7, 100, 65535, 65536, 70000]),
    "data-bbb-1.parquet": RowSet(range(1000, 21000)),
    "data-ccc-2.parquet": RowSet(range(0, 60000, 3)),
    "data-empty-3.parquet": RowSet(),
    "data-max-4.parquet": RowSet([2147483647]),
    "data-gap-5.parquet": RowSet([5, 3 * KEY + 9]) | RowSet(range(3 * KEY + 100, 3 * KEY + 400)),
    "data-hi-6.parquet": RowSet([2 * KEY + 1]),
    "data-edge-7.parquet": RowSet([KEY - 1, KEY]),
}
INDEX_FILES = {
    "java-0.9.0/index-java09-100-0": 32,
    "java-0.9.0/index-java09-100-1": 32,
    "java-0.9.0/index-java09-2097152-0": 32,
    "java-2.1-snapshot/index-java21src-32-100-0": 32,
    "java-2.1-snapshot/index-java21src-32-100-1": 32,
    "java-2.1-snapshot/index-java21src-32-2097152-0": 32,
    "java-2.1-snapshot/index-java21src-64-100-0": 64,
    "java-2.1-snapshot/index-java21src-64-100-1": 64,
    "java-2.1-snapshot/index-java21src-64-100-2": 64,
    "java-2.1-snapshot/index-java21src-64-100-3": 64,
    "java-2.1-snapshot/index-java21src-64-2097152-0": 64,
}
"""Java's index files -> bits of their vectors. In the name: bits (0.9 had 32 alone), target size, number."""
PYPAIMON_FILES = (
    "pypaimon-2.1.0/db.db/t1/index/index-4a578b78-f49c-4071-be9d-a87eb3d73a88-1",
    "pypaimon-2.1.0/db.db/t1/index/index-b680e74d-6c4e-4944-9268-f35db365d88d-1",
    "pypaimon-2.1.0/db.db/part/index/index-476c4ea5-2c5c-42b4-a422-c6f5234123fc-1",
    "pypaimon-2.1.0/db.db/part/index/index-ce5fc84f-9e26-4257-a472-d2fc391815f8-1",
)


def metas_of(index: Path) -> list[tuple[str, int, int, int | None]]:
    """The line of an index file in the .tsv beside it: name, size, count, then file:offset:length[:cardinality]."""
    for table in index.parent.glob("metas-*.tsv"):
        for line in table.read_text().splitlines():
            name, size, count, *entries = line.split("\t")
            if name == index.name:
                assert (int(size), int(count)) == (index.stat().st_size, len(entries))
                parts = [entry.split(":") for entry in entries]
                return [(p[0], int(p[1]), int(p[2]), int(p[3]) if len(p) > 3 else None) for p in parts]
    raise AssertionError(index)

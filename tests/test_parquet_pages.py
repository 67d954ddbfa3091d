"""Headers of Parquet pages: crafted column chunks, in which pyarrow reads other pages than a careless reader."""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path
from typing import Any

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec import LimitExceeded, NotCanonical
from dvcodec.core.limits import Budget
from dvcodec.iceberg import read_position_deletes
from dvcodec.io import open_source
from dvcodec.io.parquet import parquet_file, parquet_metadata
from dvcodec.io.parquet_footer import ColumnChunk, column_chunks
from dvcodec.io.parquet_pages import PageSizes, page_sizes
from samples.parquet_footer import COLUMNS, META_DATA, ROW_GROUPS, Tree, _read, footer

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
BYTES, INT64, ZSTD = 12, 4, 12  # zigzag of 6, 2 and 6
VECTORS = Path(__file__).parent / "vectors"
HUGE = 1 << 28


def numbers(*values: int) -> Tree:
    """A struct of 32-bit numbers, from field 1 on."""
    return {i: (I32, value << 1) for i, value in enumerate(values, 1)}


def header(page_type: int, unpacked: int, stored: int, own: tuple[int, Tree]) -> Tree:
    return numbers(page_type, unpacked, stored) | {own[0]: (STRUCT, own[1])}


def page(content: bytes, *, stored: bytes | None = None, unpacked: int | None = None, values: int = 1) -> bytes:
    """A page of version 1 with PLAIN values."""
    packed = bytes(cramjam.zstd.compress(content)) if stored is None else stored
    own = 5, numbers(values, 0, 3, 3)
    return footer(header(0, len(content) if unpacked is None else unpacked, len(packed), own)) + packed


def text(size: int) -> bytes:
    return struct.pack("<I", size) + b"a" * size


def deletes(pages: bytes, *, data: int = 0, dictionary: int | None = None, more: Tree | None = None) -> bytes:
    """Position deletes of one row; `pages` are those of the column of paths, and offsets count from the first."""
    positions = page(struct.pack("<q", 5))

    def column(kind: int, name: bytes, start: int, size: int, extra: Tree) -> Tree:
        meta: Tree = {1: (I32, kind), 2: (LIST, (I32, [0])), 3: (LIST, (BINARY, [name])), 4: (I32, ZSTD), 5: (I64, 2)}
        meta |= {6: (I64, size << 1), 7: (I64, size << 1), 9: (I64, start << 1)} | extra
        return {2: (I64, start << 1), META_DATA: (STRUCT, meta)}

    extra = {} if dictionary is None else {11: (I64, dictionary + 4 << 1)}
    columns = [
        column(BYTES, b"file_path", 4 + data, len(pages), extra | (more or {})),
        column(INT64, b"pos", 4 + len(pages), len(positions), {}),
    ]
    schema: list[Tree] = [
        {4: (BINARY, b"s"), 5: (I32, 4)},
        {1: (I32, BYTES), 3: (I32, 0), 4: (BINARY, b"file_path"), 6: (I32, 0)},
        {1: (I32, INT64), 3: (I32, 0), 4: (BINARY, b"pos")},
    ]
    group: Tree = {COLUMNS: (LIST, (STRUCT, columns)), 2: (I64, 200), 3: (I64, 2)}
    tree: Tree = {1: (I32, 2), 2: (LIST, (STRUCT, schema)), 3: (I64, 2), ROW_GROUPS: (LIST, (STRUCT, [group]))}
    end = footer(tree)
    return b"PAR1" + pages + positions + end + struct.pack("<I", len(end)) + b"PAR1"


def bomb() -> bytes:
    """A page that unpacks to 256 MiB."""
    content = struct.pack("<I", HUGE - 4) + bytes(HUGE - 4)
    return page(b"", stored=bytes(cramjam.zstd.compress(content)), unpacked=HUGE)


SKIPPED = footer(header(1, 0, 0, (5, numbers(1_000_000, 0, 3, 3))))
"""An index page, which pyarrow skips, with the header of a data page of many values."""


def test_a_file_of_one_page() -> None:
    (rows,) = read_position_deletes(deletes(page(text(3)))).items()
    assert (rows[0], list(rows[1])) == ("aaa", [5])


def test_pyarrow_starts_at_the_page_that_comes_first() -> None:
    """Whichever of the two offsets is smaller."""
    first, decoy = page(text(3)), page(text(5))
    data = deletes(first + decoy, dictionary=len(first))
    assert pq.read_table(io.BytesIO(data))["file_path"].to_pylist() == ["aaa"]
    with open_source(data) as source:
        assert column_chunks(parquet_file(source), "f")[0][0].start == 4


def test_pyarrow_skips_the_pages_of_other_types() -> None:
    data = deletes(SKIPPED + page(text(3)))
    assert pq.read_table(io.BytesIO(data))["file_path"].to_pylist() == ["aaa"]


def test_of_a_column_without_values_no_page_is_read() -> None:
    """pyarrow writes none for a table without rows, at offset 0."""
    assert (
        read_position_deletes(written({"file_path": pa.array([], pa.string()), "pos": pa.array([], pa.int64())})) == {}
    )
    data = deletes(bomb(), more={5: (I64, 0)})
    before = pa.default_memory_pool().max_memory()
    assert read_position_deletes(data) == {}
    assert pa.default_memory_pool().max_memory() < max(before + 1, HUGE)


def evading() -> dict[str, bytes]:
    first = bomb()
    return {
        "an offset of a dictionary behind the page": deletes(first + page(text(5)), dictionary=len(first)),
        "an index page that claims values": deletes(SKIPPED + first),
        "a page behind as many values as the footer claims": deletes(page(text(3), values=0) + first),
    }


@pytest.mark.parametrize("name", evading())
def test_no_page_is_hidden_from_the_budget(name: str) -> None:
    data = evading()[name]
    assert len(data) < 64_000
    with pytest.raises(LimitExceeded, match=r"work for pages \(Limits\.max_base_work and max_work_per_byte\)"):
        read_position_deletes(data)


@pytest.mark.parametrize("kind", [I32, I64])
def test_a_field_that_comes_twice(kind: int) -> None:
    """pyarrow takes the last one of the right type."""
    again = bytes([kind, 2 << 1, 5 << 1])  # the second field: its type, its number, its value
    with pytest.raises(NotCanonical, match="number of a field: expected each number once, within 16 bits, found 2"):
        walk(footer(numbers(0, 7, 7))[:-1] + again + b"\0")


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (numbers(0, 7, 0) | {2: (I64, 14)}, "(-1, 0, 0)"),
        (numbers(0, 7, 0) | {3: (I64, 14)}, "(7, -1, 0)"),
        (numbers(0, 7, 0) | {5: (STRUCT, numbers(-1))}, "(7, 0, -1)"),
        (numbers(0, -7, 0), "(-7, 0, 0)"),
    ],
)
def test_sizes_that_are_negative_or_of_another_type(head: Tree, found: str) -> None:
    message = f"header of a page: expected two sizes and a number of values, found {found}"
    with pytest.raises(NotCanonical, match=re.escape(message)):
        walk(footer(head))


@pytest.mark.parametrize(
    ("page_type", "own"), [(0, (8, numbers(9))), (3, (5, numbers(9))), (0, (5, {1: (I64, 18)})), (1, (5, numbers(9)))]
)
def test_values_are_those_of_the_header_of_the_type(page_type: int, own: tuple[int, Tree]) -> None:
    assert walk(footer(header(page_type, 0, 0, own))).rows == 0


def walk(data: bytes, values: int = 1, **options: Any) -> PageSizes:
    chunk = ColumnChunk(("a",), 2, 0, len(data), values, None, None, None, False)
    return page_sizes(memoryview(data), [{0: chunk}], "f", budget=Budget(len(data), "f"), **options)


def test_what_is_added_up() -> None:
    """A dictionary, pages of both versions, one of them of prefixes, and one of another type."""
    pages = [
        header(2, 100, 0, (7, numbers(9, 0))),
        header(0, 300, 0, (5, numbers(20, 8))),
        header(3, 50, 0, (8, numbers(7, 0, 7, 7))),
        header(1, 400, 0, (6, {})),
    ]
    data = b"".join(map(footer, pages))
    assert walk(data) == PageSizes(500, 150, 27, 0, {})
    assert walk(data, repeated={0}) == PageSizes(500, 150, 0, 27, {0: 27 * 150})
    assert walk(data, numbers={0}) == PageSizes(500, 0, 27, 0, {}), "a row of numbers takes as much as its columns do"


def test_what_is_behind_a_chunk_that_lacks_values() -> None:
    """pyarrow reads another hundred bytes, because old writers left out the header of the dictionary."""
    one = footer(header(0, 5, 0, (5, numbers(1, 0))))
    chunk = ColumnChunk(("a",), 2, 0, len(one), 2, None, None, None, False)
    data = one + footer(header(0, 9999, 0, (5, numbers(1, 0)))) + bytes(200)
    budget = Budget(len(data), "f")
    assert page_sizes(memoryview(data), [{0: chunk}], "f", budget=budget).at_once == 9999
    assert page_sizes(memoryview(data), [{0: chunk._replace(values=1)}], "f", budget=budget).at_once == 5


def test_chunks_that_share_pages_are_charged_again() -> None:
    """A thousand row groups may name the same pages."""
    one = footer(header(0, 1 << 20, 0, (5, numbers(1, 0))))
    chunk = ColumnChunk(("a",), 2, 0, len(one), 1, None, None, None, False)
    with pytest.raises(LimitExceeded, match="work for pages"):
        page_sizes(memoryview(one), [{0: chunk}] * 1000, "f", budget=Budget(len(one), "f"))


def written(columns: dict[str, Any], **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="zstd", store_schema=False, **options)
    return out.getvalue()


def test_values_of_one_row_are_charged() -> None:
    """A list of millions of equal numbers takes a few bytes."""
    data = written({"file_path": ["a"], "pos": pa.array([[7] * 1_000_000])})
    assert len(data) < 1000
    with pytest.raises(LimitExceeded, match="work for values"):
        read_position_deletes(data)


def test_rows_that_the_footer_does_not_count_are_charged() -> None:
    data = written({"a": [7] * 1_000_000})
    size = struct.unpack("<I", data[-8:-4])[0]
    tree, _ = _read(data[-8 - size : -8], 0, STRUCT)
    tree[3] = I64, 2
    body = footer(tree)
    with (
        pytest.raises(LimitExceeded, match="work for rows"),
        open_source(data[: -8 - size] + body + struct.pack("<I", len(body)) + b"PAR1") as source,
    ):
        parquet_metadata(source, 512)


def test_files_of_real_writers_are_within_the_budget() -> None:
    """And the walk counts as many rows as their footers."""
    flat = 0
    for path in sorted(VECTORS.rglob("*.parquet")):
        try:
            names = pq.read_schema(path).names
        except pa.ArrowException:
            continue
        data = memoryview(path.read_bytes())
        with open_source(str(path)) as source:
            file, _, _ = parquet_metadata(source, Budget.RECORD)
            sizes = page_sizes(data, column_chunks(file, "f"), "f", budget=Budget(len(data), "f"))
        if names and not any(file.schema.column(i).max_repetition_level for i in range(len(file.schema))):
            assert sizes.rows == file.metadata.num_rows, path
            flat += 1
    assert flat > 50

"""Everything that writes files, as one table: what it needs, what it writes, how a whole file is recognised."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dvcodec import RowSet, iceberg, lance, paimon, puffin, verify, zap
from dvcodec.tables import open_table
from dvcodec.tables.convert import ENTRIES, convert_table
from samples import delta_log

__all__ = ["PARTIAL", "VECTORS", "WRITERS", "Writer", "check_folder", "params"]

PARTIAL = re.compile(r"\..+\.[0-9a-f]{16}\.partial")
"""Names of what a killed writer may leave: hidden, and with no format's suffix."""
A, B = "s3://lake/t/a.parquet", "s3://lake/t/b.parquet"
VECTORS = {A: RowSet(range(0, 200_000, 7)), B: RowSet(range(5, 90_000, 3))}
"""Of some ten kilobytes each: more than one write of a buffered file."""
OLD = b"what was there before"


@dataclass(frozen=True, slots=True)
class Writer:
    """One way to write.

    Attributes:
        name: for test ids.
        prepare: makes the inputs in a folder.
        write: writes from the folder of inputs to an empty folder (or one with the old file in it).
        file: the file it writes; None for writers of several, whose names are fresh each time.
        check: raises if a file is not whole.
        own: the input that is at the file's place before, for a writer that reads what it replaces.
    """

    name: str
    prepare: Callable[[Path], object]
    write: Callable[[Path, Path], object]
    file: str | None
    check: Callable[[Path], object]
    own: str | None = None

    def old(self, folder: Path) -> bytes:
        """Return what the file has before, given the folder of inputs."""
        return OLD if self.own is None else (folder / self.own).read_bytes()


# ---------------------------------------------------------------------------------------------------- whole?


def check_vectors(path: Path) -> None:
    result = verify(path)
    assert result.ok, result


def check_segment(path: Path) -> None:
    assert zap.verify_segment(path).ok


def check_entries(path: Path) -> None:
    """The file of a conversion that is written last: what it names is there, and whole."""
    lines = path.read_text().splitlines(keepends=True)
    assert all(line.endswith("\n") for line in lines)
    for file in {json.loads(line)["path"] for line in lines}:
        check_vectors(Path(file))


def check_any(path: Path) -> None:
    if path.suffix in (".arrow", ".bin") and path.parent.name == "_deletions":
        lance.read_deletion_file(path)
    elif path.name == ENTRIES:
        check_entries(path)
    elif path.suffix == ".json":
        json.loads(path.read_text())
    elif path.suffix == ".zap":
        check_segment(path)
    else:
        check_vectors(path)


def check_folder(writer: Writer, folder: Path, *, partials: bool) -> list[Path]:
    """Check every file below a folder; return those that are whole. Partial files are allowed or not."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    left = [path for path in files if PARTIAL.fullmatch(path.name)]
    assert partials or not left, f"litter: {left}"
    whole = [path for path in files if path not in left]
    for path in whole:
        writer.check(path)
    return whole


# ---------------------------------------------------------------------------------------------------- inputs


def nothing_in(_: Path) -> None:
    """For writers that need no input."""


def vectors_in(folder: Path) -> None:
    iceberg.write_deletion_vectors(folder / "in.puffin", VECTORS)


def table_in(folder: Path) -> None:
    delta_log.restored_table(folder / "t")


def documents(first: int, count: int) -> list[zap.Document]:
    """Documents of many different words: a segment of more than one write."""
    return [
        zap.Document(f"d{number}".encode(), (zap.text_field("t", f"one w{number} w{number % 7} {number * 7919:x}"),))
        for number in range(first, first + count)
    ]


def segments_in(folder: Path) -> None:
    zap.write_segment(folder / "a.zap", documents(0, 400))
    zap.write_segment(folder / "b.zap", documents(400, 400))


# ---------------------------------------------------------------------------------------------------- writers


def rewrite_in_place(_: Path, out: Path) -> None:
    puffin.rewrite_paths(out / "x.puffin", out / "x.puffin", {A: "s3://new/a.parquet"})


def merge_in_place(folder: Path, out: Path) -> None:
    with zap.Segment.open(out / "a.zap") as a, zap.Segment.open(folder / "b.zap") as b:
        zap.merge_segments(out / "a.zap", [a, b], [RowSet([1, 2]), None])


def convert_all(folder: Path, out: Path) -> None:
    convert_table(open_table(str(folder / "t")), "iceberg", str(out / "new"), reference_in_place=False)


WRITERS = (
    Writer(
        "iceberg",
        nothing_in,
        lambda _, out: iceberg.write_deletion_vectors(out / "x.puffin", VECTORS),
        "x.puffin",
        check_vectors,
    ),
    Writer("rewrite-in-place", vectors_in, rewrite_in_place, "x.puffin", check_vectors, "in.puffin"),
    Writer(
        "paimon-files",
        nothing_in,
        lambda _, out: paimon.write_index_files(str(out), VECTORS, layout="bitmap64", target_size=1000),
        None,
        check_any,
    ),
    Writer("zap-merge-in-place", segments_in, merge_in_place, "a.zap", check_segment, "a.zap"),
    Writer("convert-table", table_in, convert_all, None, check_any),
)
"""One file, in place, several. All write by `io.open_sink`."""


def params(writers: Iterable[Writer]) -> list[Any]:
    """Parameters of a test of writers."""
    return [pytest.param(writer, id=writer.name) for writer in writers]

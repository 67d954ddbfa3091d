"""Everything that writes files, as one table: what it needs, what it writes, how a whole file is recognised."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cli_runner import flipped, run
from dvcodec import RowSet, convert, delta, iceberg, lance, paimon, puffin, report, verify, zap
from dvcodec.ops.convert import ConvertTarget as Target
from dvcodec.tables import open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.convert import ENTRIES, convert_table
from dvcodec.tables.convert import Target as TableTarget
from dvcodec.tables.live import export_live
from samples import delta_log

__all__ = ["PARTIAL", "VECTORS", "WRITERS", "CommandFailed", "Writer", "check_folder", "length_of", "params"]

PARTIAL = re.compile(r"\..+\.[0-9a-f]{16}\.partial")
"""Names of what a killed writer may leave: hidden, and with no format's suffix."""
A, B = "s3://lake/t/a.parquet", "s3://lake/t/b.parquet"
VECTORS = {A: RowSet(range(0, 200_000, 7)), B: RowSet(range(5, 90_000, 3))}
"""Of some ten kilobytes each: more than one write of a buffered file."""
WHEN = datetime(2026, 1, 2, tzinfo=timezone.utc)
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
        exact: whether the same inputs give the same bytes; Avro has a random marker, a report the time of day.
    """

    name: str
    prepare: Callable[[Path], object]
    write: Callable[[Path, Path], object]
    file: str | None
    check: Callable[[Path], object]
    own: str | None = None
    exact: bool = True

    def old(self, folder: Path) -> bytes:
        """Return what the file has before, given the folder of inputs."""
        return OLD if self.own is None else (folder / self.own).read_bytes()


# ---------------------------------------------------------------------------------------------------- whole?


def check_vectors(path: Path) -> None:
    result = verify(path)
    assert result.ok, result


def check_segment(path: Path) -> None:
    assert zap.verify_segment(path).ok


def check_page(path: Path) -> None:
    assert path.read_text().rstrip().endswith("</html>")


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


def damaged_in(folder: Path) -> None:
    table = delta_log.restored_table(folder / "t")
    flipped(table / delta_log.NEW, 20, to=table / delta_log.NEW)


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


def write_zstd(_: Path, out: Path) -> None:
    with puffin.PuffinWriter(out / "x.puffin", {"created-by": "tests"}) as writer:
        for number, data in enumerate((b"one", bytes(range(256)) * 200, b"three")):
            writer.add("note-v1", data, fields=[number], snapshot_id=1, sequence_number=2, compression="zstd")


def check_puffin(path: Path) -> None:
    with puffin.open_puffin(path) as reader:
        assert [len(reader.read(blob)) for blob in reader.blobs] == [3, 51200, 5]


def rewrite_in_place(_: Path, out: Path) -> None:
    puffin.rewrite_paths(out / "x.puffin", out / "x.puffin", {A: "s3://new/a.parquet"})


def write_lance(kind: lance.deletions.Kind) -> Callable[[Path, Path], object]:
    def write(_: Path, out: Path) -> None:
        (out / "_deletions").mkdir(exist_ok=True)
        lance.write_deletion_file(str(out), VECTORS[A], fragment=1, read_version=2, kind=kind)

    return write


def write_manifest(_: Path, out: Path) -> None:
    entries = [paimon.IndexManifestEntry("HASH", f"index-{number}", 100, 25, b"\0" * 20, 0) for number in range(2000)]
    paimon.write_index_manifest(out / "index-manifest-1", entries, codec="null")


def check_manifest(path: Path) -> None:
    assert len(paimon.read_index_manifest(path)) == 2000


def merge_in_place(folder: Path, out: Path) -> None:
    with zap.Segment.open(out / "a.zap") as a, zap.Segment.open(folder / "b.zap") as b:
        zap.merge_segments(out / "a.zap", [a, b], [RowSet([1, 2]), None])


def convert_to(to: Target, name: str) -> Callable[[Path, Path], object]:
    return lambda folder, out: convert(folder / "in.puffin", to, out / name)


def convert_all(to: TableTarget) -> Callable[[Path, Path], object]:
    def write(folder: Path, out: Path) -> None:
        convert_table(open_table(str(folder / "t")), to, str(out / "new"), reference_in_place=False)

    return write


def write_report(folder: Path, out: Path) -> None:
    report.write(out / "x.html", audit(open_table(str(folder / "t"))), made=WHEN)


def export(folder: Path, out: Path) -> None:
    export_live(open_table(str(folder / "t")), out / "x.parquet")


def command(line: str, code: int = 0) -> Callable[[Path, Path], object]:
    """Run the command line; ``IN`` and ``OUT`` stand for the folders."""

    def write(folder: Path, out: Path) -> None:
        result = run(*(word.replace("IN/", f"{folder}/").replace("OUT/", f"{out}/") for word in line.split()))
        if result.code != code:
            raise CommandFailed(result.code, result.err)

    return write


class CommandFailed(Exception):
    """A command ended with another exit code than it should: the code, and standard error."""


WRITERS = (
    Writer(
        "iceberg",
        vectors_in,
        lambda _, out: iceberg.write_deletion_vectors(out / "x.puffin", VECTORS),
        "x.puffin",
        check_vectors,
    ),
    Writer("puffin-zstd", nothing_in, write_zstd, "x.puffin", check_puffin),
    Writer("rewrite-in-place", vectors_in, rewrite_in_place, "x.puffin", check_vectors, "in.puffin"),
    Writer(
        "delta",
        nothing_in,
        lambda _, out: delta.write_deletion_vectors(out / "x.bin", VECTORS),
        "x.bin",
        check_vectors,
    ),
    Writer(
        "paimon",
        nothing_in,
        lambda _, out: paimon.write_deletion_vectors(out / "index-1", VECTORS),
        "index-1",
        check_vectors,
    ),
    Writer(
        "paimon-files",
        nothing_in,
        lambda _, out: paimon.write_index_files(str(out), VECTORS, layout="bitmap64", target_size=1000),
        None,
        check_any,
    ),
    Writer("paimon-manifest", nothing_in, write_manifest, "index-manifest-1", check_manifest, exact=False),
    Writer("lance-arrow", nothing_in, write_lance("arrow"), None, check_any),
    Writer("lance-bitmap", nothing_in, write_lance("bin"), None, check_any),
    Writer(
        "zap-write",
        nothing_in,
        lambda _, out: zap.write_segment(out / "x.zap", documents(0, 400)),
        "x.zap",
        check_segment,
    ),
    Writer("zap-merge-in-place", segments_in, merge_in_place, "a.zap", check_segment, "a.zap"),
    Writer("convert-delta", vectors_in, convert_to("delta", "x.bin"), "x.bin", check_vectors),
    Writer("convert-paimon32", vectors_in, convert_to("paimon32", "index-1"), "index-1", check_vectors),
    Writer("convert-table-iceberg", table_in, convert_all("iceberg"), None, check_any),
    Writer("convert-table-paimon", table_in, convert_all("paimon32"), None, check_any),
    Writer("report", table_in, write_report, "x.html", check_page),
    Writer("export-live", table_in, export, "x.parquet", pq.read_table),
    # The same by the command line: every command that writes.
    Writer("cli-convert", vectors_in, command("convert IN/in.puffin --to delta -o OUT/x.bin"), "x.bin", check_vectors),
    Writer(
        "cli-merge", vectors_in, command("merge IN/in.puffin IN/in.puffin -o OUT/x.puffin"), "x.puffin", check_vectors
    ),
    Writer(
        "cli-rewrite-paths",
        vectors_in,
        command("rewrite-paths IN/in.puffin --from s3://lake/ --to s3://new/ -o OUT/x.puffin"),
        "x.puffin",
        check_vectors,
    ),
    Writer("cli-report", table_in, command("report IN/t -o OUT/x.html"), "x.html", check_page, exact=False),
    Writer("cli-export-live", table_in, command("export-live IN/t -o OUT/x.parquet"), "x.parquet", pq.read_table),
    Writer("cli-convert-table", table_in, command("convert-table IN/t --to paimon64 -o OUT/new"), None, check_any),
    Writer(
        "cli-zap-merge",
        segments_in,
        command("zap merge IN/a.zap IN/b.zap --drop IN/a.zap=1-3 -o OUT/x.zap --numbers OUT/n.json"),
        None,
        check_any,
    ),
)

BRIEF = {"iceberg", "rewrite-in-place", "paimon-files", "zap-merge-in-place", "export-live", "cli-zap-merge"}
"""Those of the gate: one file, in place, several, by Arrow, by the command line. All write by `io.open_sink`."""


def length_of(writer: Writer) -> list[pytest.MarkDecorator]:
    """Marks of a test of a writer."""
    return [] if writer.name in BRIEF else [pytest.mark.long]


def params(writers: Iterable[Writer]) -> list[Any]:
    """Parameters of a test of writers."""
    return [pytest.param(writer, id=writer.name, marks=length_of(writer)) for writer in writers]

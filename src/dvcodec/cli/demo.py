"""`dvcodec demo`: all steps on real files, each result checked against the data."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dvcodec import arrow, delta, iceberg, lance, paimon
from dvcodec.cli.render import bytes_text, number, say
from dvcodec.cli.steps import expect, show_vectors, step
from dvcodec.core.extras import pa, pq, require_extra
from dvcodec.core.rowset import RowSet
from dvcodec.ops.convert import convert
from dvcodec.ops.verify import verify

__all__ = ["run"]

FILES, ROWS, ROW_GROUP = 3, 400_000, 100_000
COUNTRIES = ("DE", "FR", "IT", "ES", "PL", "NL")
DELTA_FILE = f"deletion_vector_{uuid.uuid5(uuid.NAMESPACE_URL, 'dvcodec demo')}.bin"
"""A fixed name in Delta's form (see `delta.new_file`), so that a second run overwrites the first."""


def run(folder: Path) -> None:
    """Run the demo; every claim it prints is checked against the data."""
    require_extra("pyarrow.parquet", "arrow")
    folder.mkdir(parents=True, exist_ok=True)
    with step(f"wrote {FILES} Parquet files of {number(ROWS)} rows"):
        paths = _write_data(folder)
    with step("deleted rows: four customers, all of Spain in the second file, the last week of the third"):
        vectors = {str(path): _deleted(path, i) for i, path in enumerate(paths)}
    show_vectors(vectors, ROWS)

    puffin = folder / "deletes.puffin"
    with step(f"wrote {puffin}"):
        locations = iceberg.write_deletion_vectors(puffin, vectors)
    for entry in map(iceberg.manifest_entry, locations):
        place = f"offset {number(entry['content_offset'])}, size {number(entry['content_size_in_bytes'])}"
        rows = f"{number(entry['record_count'])} rows"
        say(f"    manifest: {entry['referenced_data_file']}: {place}, {rows}")

    bin_file, back = folder / DELTA_FILE, folder / "back.puffin"
    with step("converted to a Delta vector file and back: the same bytes"):
        there = convert(puffin, "delta", bin_file)
        convert(bin_file, "puffin", back, data_files=[str(location.data_file) for location in there])
        expect(back.read_bytes() == puffin.read_bytes(), "the round trip gives the same file")
    for location in there:
        absolute = replace(location, path=str(folder.resolve() / DELTA_FILE))
        descriptor = delta.Descriptor.from_location(absolute, str(folder.resolve()))
        say(f"    log: {descriptor.to_json()}")

    indexes = [_there_and_back(folder, puffin, bits) for bits in (32, 64)]

    with step("verified all of them"):
        for path in (puffin, bin_file, back, *indexes):
            report = verify(path, row_count=ROWS)
            expect(report.ok, f"{path} is valid")
    with step("flipped one bit; verify reports:"):
        damaged = bytearray(puffin.read_bytes())
        damaged[locations[1].offset + locations[1].size // 2] ^= 0x10
        findings = verify(damaged).findings
        expect([check.name for check in findings][:1] == ["crc"], "the CRC does not match")
    for check in findings:
        text = f" {check.name} at byte {check.offset}: expected {check.expected}, found {check.actual}"
        say("    ", ("FAIL", "bold red"), text)

    with step("read the live rows back, row group by row group, and compared them with the data"):
        read_back = iceberg.read_deletion_vectors(puffin)
        live = sum(_check_live(path, read_back[str(path)], i) for i, path in enumerate(paths))
    _row_ids(next(iter(vectors.values())))
    print()
    say(f"{number(live)} of {number(FILES * ROWS)} rows live.")
    say(f"Next: dvcodec inspect {folder}")


def _there_and_back(folder: Path, puffin: Path, bits: int) -> Path:
    """Convert to a Paimon index file, print its index manifest's entries, and convert back."""
    index, back = folder / f"index-{bits}", folder / f"back-{bits}.puffin"
    copied = "the payload is copied" if bits == 64 else "re-encoded"
    with step(f"converted to Paimon vectors of {bits} bits and back ({copied}): the same bytes"):
        there = convert(puffin, "paimon64" if bits == 64 else "paimon32", index)
        convert(index, "puffin", back, data_files=[str(location.data_file) for location in there])
        expect(back.read_bytes() == puffin.read_bytes(), "the round trip gives the same file")
        metas = [paimon.DeletionVectorMeta.from_location(location) for location in there]
        expect(paimon.read_deletion_vectors(index, metas) == iceberg.read_deletion_vectors(puffin), "rows are the same")
    for meta in metas:
        place = f"offset {number(meta.offset)}, length {number(meta.length)}, {number(meta.cardinality)} rows"
        say(f"    index manifest: {meta.data_file}: {place}")
    return index


def _row_ids(deleted: RowSet) -> None:
    """Compact a fragment of stable row ids by its deleted rows, as Lance does, and read the ids back."""
    with step("dropped the same rows from a Lance row-id sequence, and read the live ids back"):
        sequence = lance.RowIdSequence.from_values(range(ROWS)).mask(deleted)
        data = lance.encode_row_ids(sequence)
        live = np.flatnonzero(~deleted.mask(0, ROWS))
        expect(np.array_equal(lance.decode_row_ids(data).to_numpy(), live), "the ids are those of the live rows")
        expect(sequence.get(sequence.count - 1) == int(live[-1]), "the last row has the last id")
    kinds = ", ".join(type(segment).__name__.removesuffix("Segment") for segment in sequence.segments)
    say(f"    {number(sequence.count)} row ids in {bytes_text(len(data))}, as {kinds}")


def _write_data(folder: Path) -> list[Path]:
    paths = []
    for i in range(FILES):
        random = np.random.default_rng(i)
        data = pa.table(
            {
                "order": np.arange(i * ROWS, (i + 1) * ROWS),
                "customer": random.integers(0, 1000, ROWS),
                "country": pa.array(random.integers(0, len(COUNTRIES), ROWS)).cast(pa.int8()),
                "day": np.sort(random.integers(0, 90, ROWS)),
                "amount": random.gamma(2.0, 40.0, ROWS).round(2),
            }
        )
        path = folder / f"orders-{i}.parquet"
        pq.write_table(data, path, row_group_size=ROW_GROUP)
        paths.append(path)
    return paths


def _predicate(batch: Any, i: int) -> Any:
    """Return the rows to delete, as a mask."""
    customer, country, day = (batch[name].to_numpy() for name in ("customer", "country", "day"))
    wanted = np.isin(customer, (7, 77, 512, 900))
    if i == 1:
        wanted |= country == COUNTRIES.index("ES")
    if i == 2:
        wanted |= day >= 83
    return wanted


def _groups(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield each row group with the physical position of its first row."""
    with pq.ParquetFile(path) as file:
        start = 0
        for group in range(file.num_row_groups):
            data = file.read_row_group(group)
            yield start, data
            start += data.num_rows


def _deleted(path: Path, i: int) -> RowSet:
    parts = (RowSet.from_mask(_predicate(data, i), start) for start, data in _groups(path))
    return RowSet().union(*parts)


def _check_live(path: Path, rows: RowSet, i: int) -> int:
    count = 0
    for start, data in _groups(path):
        live = arrow.live_rows(data, rows, start=start)
        expect(live.equals(data.filter(~_predicate(data, i))), f"the live rows of {path} are those not deleted")
        count += live.num_rows
    return count

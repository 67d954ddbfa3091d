"""Small vectors are read many at once: what a scan and an audit say is the same as of one after the other."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import each
from dvcodec import RowSet, delta
from dvcodec.report import columns, share_bars, vector_sizes
from dvcodec.tables import Snapshot, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.snapshots import reading, scanning
from dvcodec.tables.snapshots.changes import SnapshotChange, history
from dvcodec.tables.snapshots.reading import FewRead, VectorRead, read_vectors
from dvcodec.tables.snapshots.scanning import Scan, rewrite_candidates, scan, totals
from samples.delta_table import Action, DeltaBuilder

FILES, PER_CONTAINER = 45, 15


def some_rows(chance: random.Random) -> RowSet:
    """Few of few rows, some beyond them; sometimes many, or a position beyond 32 bits."""
    kind = chance.randrange(12)
    if kind == 0:
        return RowSet()
    if kind == 1:
        return RowSet(range(0, chance.choice((9000, 20_000)), 2))
    if kind == 2:
        return RowSet.from_ranges([(3, 70_000)])
    if kind == 3:
        return RowSet([1, (1 << 32) + 5])
    return RowSet(chance.sample(range(chance.choice((30, 70, 990))), chance.randrange(1, 9)))


def write_table(folder: Path, chance: random.Random, *, checkpoint: bool) -> None:
    """Write a table in which descriptors and vector files are damaged here and there; it has no data files."""
    builder = DeltaBuilder(folder)
    builder.create()
    actions: list[dict[str, Action]] = []
    for first in range(0, FILES, PER_CONTAINER):
        content, name = bytearray([1]), uuid.UUID(int=first + 1)
        for number in range(first, first + PER_CONTAINER):
            actions += added(number, name, content, chance)
        damage(content, chance)
        (folder / f"deletion_vector_{name}.bin").write_bytes(content)
    builder.commit(*actions)
    if checkpoint:
        builder.live = {str(number): action["add"] for number, action in enumerate(actions)}
        builder.checkpoint()


def added(number: int, name: uuid.UUID, content: bytearray, chance: random.Random) -> Iterator[dict[str, Action]]:
    """Yield the actions of a data file, at most two; its vector is appended to the content of the vector file."""
    stats = chance.choice(("{}", *(f'{{"numRecords":{rows}}}' for rows in (30, 70, 1000, 1000, 1000, 100_000))))
    action: Action = {"path": f"{number}.parquet", "partitionValues": {}, "size": 9, "stats": stats}
    action |= {"modificationTime": 1, "dataChange": True}
    kind, rows = chance.randrange(20), some_rows(chance)
    if kind == 0:
        yield {"add": action}
        return
    if kind == 1 and len(rows) < 1000:
        encoded = delta.encode(rows)[4:-4]
        inline = {"storageType": "i", "pathOrInlineDv": delta.encode_z85(encoded), "sizeInBytes": len(encoded)}
        yield {"add": action | {"deletionVector": inline | {"cardinality": len(rows)}}}
        return
    encoded = delta.encode(rows, layout=chance.choice(("portable", "portable", "portable", "native")))
    vector: Action = {"storageType": "u", "pathOrInlineDv": delta.encode_z85(name.bytes)}
    vector |= {"offset": len(content), "sizeInBytes": len(encoded) - 8, "cardinality": len(rows)}
    if kind == 2:
        vector["cardinality"] += 1
    elif kind == 3:
        vector["sizeInBytes"] += chance.choice((-4, -1, 1, 46))
    elif kind == 4:
        vector["offset"] += chance.choice((-1, 1, 1 << 20))
    content += encoded
    yield {"add": action | {"deletionVector": vector}}
    if kind == 5:
        yield {"add": action | {"deletionVector": vector | {"offset": len(content)}}}
        content += delta.encode(rows)


def damage(content: bytearray, chance: random.Random) -> None:
    kind = chance.randrange(4)
    if kind == 0:
        content[0] ^= 2
    if kind == 1:
        del content[chance.randrange(len(content)) :]
    elif kind < 3:
        for _ in range(3):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def said(found: Scan) -> dict[str, Any]:
    """What a scan says, findings in an order that does not depend on how many are read at once."""
    files = []
    for file in found.files:
        values = {one.name: getattr(file, one.name) for one in fields(file)}
        files.append({**values, "density": file.density.tolist()})
    return {
        "files": files,
        "lost": sorted(map(repr, found.lost)),
        "findings": sorted(map(repr, found.findings)),
        "totals": totals(found),
        "worth": [(one.file.data_file.path, one.reasons) for one in rewrite_candidates(found, min_ratio=0.01)],
        "others": (found.unreadable, found.unopened, found.table, found.info),
        "page": columns(found, "", ["1.parquet"]),
        "bars": (share_bars(found), sorted(vector_sizes(found))),
    }


def told(change: SnapshotChange) -> dict[str, Any]:
    """What a change says, without the rows."""
    values = {one.name: getattr(change, one.name) for one in fields(change)}
    files = [replace(file, deleted_rows=None, restored_rows=None) for file in change.files]
    sums = change.deleted, change.restored, change.exact
    return {**values, "files": files, "unreadable": sorted(map(repr, change.unreadable)), "sums": sums}


def one_by_one(snapshot: Snapshot, **how: Any) -> Iterator[VectorRead]:
    return read_vectors(snapshot, snapshot.vectors, **how)


@each("seed", range(24))
def test_many_at_once_are_as_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    folder, chance = tmp_path / str(seed), random.Random(seed)
    write_table(folder, chance, checkpoint=seed % 2 == 0)
    table = open_table(str(folder))
    at_once = sum(len(read.numbers) for read in reading.read_and_count(table.snapshot()) if isinstance(read, FewRead))
    assert at_once
    found, checked = said(scan(table)), audit(table, orphans=False)
    assert checked.findings
    with monkeypatch.context() as patch:
        patch.setattr(scanning, "read_and_count", one_by_one)
        assert said(scan(table)) == found
        again = audit(table, orphans=False)
    assert sorted(map(repr, again.findings)) == sorted(map(repr, checked.findings))
    assert again.counts == checked.counts
    changes = [told(change) for change in history(table)]
    assert changes == [told(change) for change in history(table, keep_rows=True)]
    first = told(next(history(table, since=table.snapshots()[-1].id)))
    assert first == changes[-1]


def test_progress_counts_all_vectors(tmp_path: Path) -> None:
    write_table(tmp_path, random.Random(1), checkpoint=True)
    table, seen = open_table(str(tmp_path)), list[tuple[int, int]]()
    vectors = len(table.snapshot().vectors)
    assert len(scan(table, progress=lambda done, total: seen.append((done, total))).files) == FILES
    assert seen[-1] == (vectors, vectors)
    assert seen == sorted(seen)


def test_a_file_that_is_gone_is_an_error_of_each_vector(tmp_path: Path) -> None:
    write_table(tmp_path, random.Random(1), checkpoint=True)
    for path in tmp_path.glob("*.bin"):
        path.unlink()
    table = open_table(str(tmp_path))
    vectors = table.snapshot().vectors
    in_files = [vector for vector in vectors if vector.location]
    found = scan(table)
    assert {finding.check for finding in found.findings} >= {"missing-file"}
    assert found.unreadable == sum(finding.check == "missing-file" for finding in found.findings) == len(in_files)
    assert np.sum([file.min_deleted for file in found.files]) == sum(
        vector.cardinality or 0 for vector in vectors if not vector.location
    )

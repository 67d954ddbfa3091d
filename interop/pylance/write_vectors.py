"""Rewrites tests/vectors/lance/pylance-VERSION: `.venv/bin/python interop/pylance/write_vectors.py`.

Every byte of the vectors comes from pylance, and so does the truth: what `Scanner` returns, not what a manifest says.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from lance.file import LanceFileReader
from lance.fragment import RowIdSequence

import lance

HERE = Path(__file__).parent
TARGET = HERE.parent.parent / "tests" / "vectors" / "lance" / f"pylance-{lance.__version__}"
TOP = 2**64 - 1
Ranges = list[list[int]]

README = f"""# Lance
Written by pylance {lance.__version__}, through `interop/pylance/write_vectors.py`, which rewrites these files.
(Names of deletion files are random, so they differ each time.)

`manifest.json` has three parts:

* `sequences`: ids, as ranges from start to the id after the last in the order of the rows, and the bytes that
  `lance.fragment.RowIdSequence(ids).to_inline_metadata()` makes of them.
* `datasets`: folders with `_versions` and `_deletions` only. For each version the live rows that pylance's scanner
  returned: row addresses and row ids as ranges, and as pairs of how many and which the versions that created and last
  updated the rows (all except the addresses are null without stable row ids).
* `row_addresses`: items of column `bitmaps` of a BITMAP index page, and the row addresses (or row ids) that a scan with
  a filter on the indexed value returned.

Proves: the five kinds of segments and their ties, both naming schemes, both kinds of deletion files, sequences through
delete, update, merge_insert and compaction, version sequences, spilled sequences (their rows are known, their bytes are
not in the manifest), row-address maps by address and by id.
Does not prove: manifests by other releases (0.39 writes the file version 0.1), base paths, sequences in their own
files (no release writes them), maps with whole fragments (none could be obtained), and that pylance reads what dvcodec
writes, which `tests/interop/test_pylance.py` proves live.
"""


def gaps(slots: int, *holes: int) -> list[int]:
    """All of `slots` values but the holes."""
    return [value for value in range(slots) if value not in holes]


SEQUENCES: list[tuple[str, list[int], str]] = [
    ("empty", [], "no ids are no bytes"),
    ("one", [42], "a range of one id"),
    ("range", list(range(10)), "a range from 0: the start is left out"),
    ("range-high", list(range(2**40, 2**40 + 1000)), "long varints"),
    ("range-to-the-end", [TOP - 2, TOP - 1], "the largest end a range can have"),
    ("last-id", [TOP], "the exclusive end would not fit: a sorted array"),
    ("last-ids", [TOP - 1, TOP], "two ids that touch and are no range"),
    ("tie-holes", gaps(128, 5, 9, 60, 99), "4 holes cost as much as 128 bits: holes"),
    ("tie-holes-lost", gaps(120, 5, 9, 60, 99), "4 holes cost more than 120 bits: bitmap"),
    ("tie-bitmap", [0, 9, 30, 63], "64 bits cost as much as 4 values: bitmap"),
    ("tie-bitmap-lost", [0, 9, 30, 64], "65 bits cost more than 4 values: sorted array"),
    ("two", [0, 2], "bitmap"),
    ("bit-order", [1, 2, 4, 5, 6, 7, 8, 9, 10, 12], "the least significant bit comes first"),
    ("holes-high", [2**40 + value for value in gaps(2000, 3, 700, 1998)], "holes are values from a base"),
    ("sorted-16", [0, 65535], "the largest spread of 16 bits"),
    ("sorted-32", [7, 7 + 65536, 7 + 2**32 - 1], "the largest spread of 32 bits"),
    ("sorted-64", [7, 7 + 2**32], "64 bits, no base"),
    ("holes-32", gaps(70_001, 1, 69_999), "holes further apart than 16 bits"),
    ("array-16", [1, 0, 2], "one descent: an array"),
    ("array-32", [2**32 - 1, 0], "an array of 32 bits"),
    ("array-64", [TOP, 0, 2**63], "an array of 64 bits"),
]


def ranges(ids: list[int]) -> Ranges:
    """Ids in their order as runs that ascend by one."""
    found: Ranges = []
    for value in ids:
        if found and found[-1][1] == value:
            found[-1][1] += 1
        else:
            found.append([value, value + 1])
    return found


def sequences() -> list[dict[str, Any]]:
    """Have pylance encode the sequences."""
    return [
        {
            "name": name,
            "proves": proves,
            "ids": ranges(ids),
            "hex": bytes(json.loads(RowIdSequence(ids).to_inline_metadata().json())["Inline"]).hex(),
        }
        for name, ids, proves in SEQUENCES
    ]


def table(keys: Any, value: int = 0) -> pa.Table:
    """Rows with these keys."""
    keys = np.asarray(keys, np.int64)
    return pa.table({"key": keys, "value": np.full(len(keys), value, np.int64)})


def upsert(path: str, keys: Any) -> None:
    """Update the rows that are there, insert the others."""
    merge = lance.dataset(path).merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(table(keys, 9))


def life(path: str, **options: Any) -> None:
    """What happens to a dataset with stable row ids."""
    lance.write_dataset(table(range(300)), path, enable_stable_row_ids=True, max_rows_per_file=130, **options)
    lance.dataset(path).delete("key % 7 = 3 OR key IN (0, 129, 130)")
    lance.dataset(path).update({"value": "5"}, where="key % 50 = 8")
    upsert(path, [305, 4, 200, 301, 12, 11])
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=150, num_threads=1)
    lance.write_dataset(table(range(400, 420)), path, mode="append")
    lance.dataset(path).delete("key > 150 AND key < 190 AND key % 2 = 0")
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=10_000, num_threads=1)
    upsert(path, [7, 6, 1000])


def deletions(path: str, **options: Any) -> None:
    """Deletion files around 5,000 rows, without stable row ids."""
    lance.write_dataset(table(range(12_000)), path, max_rows_per_file=6000, **options)
    lance.dataset(path).delete("key IN (3, 4, 500, 777)")
    lance.dataset(path).delete("key >= 6000 AND key < 11000")
    lance.dataset(path).delete("key = 11500")
    lance.dataset(path).delete("key < 5000")


def spilled(path: str) -> None:
    """Sequences that leave the manifest."""
    lance.write_dataset(table(range(200)), path, enable_stable_row_ids=True, max_rows_per_file=100)
    lance.dataset(path).update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "16"})
    lance.dataset(path).delete("key % 3 = 1")
    lance.dataset(path).optimize.compact_files(num_threads=1)


LINEAGE = ["_row_created_at_version", "_row_last_updated_at_version"]


def scan(path: str, version: int) -> dict[str, Any]:
    """The live rows of a version, as ranges where they are many."""
    dataset = lance.dataset(path, version=version)
    stable = dataset.has_stable_row_ids
    columns = LINEAGE if stable else ["key"]
    found = dataset.scanner(columns=columns, with_row_id=True, with_row_address=True).to_table().sort_by("_rowaddr")
    lineage = {name.strip("_"): runs(found[name].to_pylist()) if stable else None for name in LINEAGE}
    ids = ranges(found["_rowid"].to_pylist()) if stable else None
    return {"version": version, "addresses": ranges(found["_rowaddr"].to_pylist()), "row_ids": ids, **lineage}


def runs(values: list[int]) -> list[list[int]]:
    """Values as pairs of how many and which."""
    found: list[list[int]] = []
    for value in values:
        if found and found[-1][1] == value:
            found[-1][0] += 1
        else:
            found.append([1, value])
    return found


def keep(path: Path, name: str) -> dict[str, Any]:
    """Copy what is of interest here, and say what pylance returns of it."""
    for folder in ("_versions", "_deletions"):
        if (path / folder).is_dir():
            shutil.copytree(path / folder, TARGET / name / folder)
    versions = [entry["version"] for entry in lance.dataset(str(path)).versions()]
    return {"name": name, "versions": [scan(str(path), version) for version in versions]}


def row_addresses(scratch: Path) -> list[dict[str, Any]]:
    """Items of a BITMAP index, with row addresses and with stable row ids."""
    found = []
    for stable in (False, True):
        path = scratch / f"index-{stable}"
        keys = np.arange(1200)
        groups = np.where(keys < 800, keys % 3, 7)
        data = pa.table({"key": keys, "group": groups})
        dataset = lance.write_dataset(data, str(path), enable_stable_row_ids=stable, max_rows_per_file=500)
        dataset.create_scalar_index("group", "BITMAP")
        (page,) = path.glob("_indices/*/bitmap_page_lookup.lance")
        items = LanceFileReader(str(page)).read_all().to_table()
        for group, item in zip(items["keys"].to_pylist(), items["bitmaps"].to_pylist(), strict=True):
            rows = dataset.scanner(filter=f"group = {group}", with_row_id=True, with_row_address=True).to_table()
            column = "_rowid" if stable else "_rowaddr"
            name = f"row-addresses-{'ids' if stable else 'addresses'}-{group}.bin"
            (TARGET / name).write_bytes(item)
            found.append({"file": name, "rows": ranges(sorted(rows[column].to_pylist()))})
    return found


def main() -> None:
    """Rewrite everything."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        life(str(scratch / "life"))
        life(str(scratch / "life-v1"), enable_v2_manifest_paths=False)
        deletions(str(scratch / "deletions"))
        spilled(str(scratch / "spilled"))
        datasets = [keep(scratch / name, name) for name in ("life", "life-v1", "deletions", "spilled")]
        parts = {"sequences": sequences(), "datasets": datasets, "row_addresses": row_addresses(scratch)}
    lines = []
    for name, entries in parts.items():
        body = ",\n".join(f"  {json.dumps(entry, separators=(',', ':'))}" for entry in entries)
        lines.append(f' "{name}": [\n{body}\n ]')
    (TARGET / "manifest.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    (TARGET / "README.md").write_text(README)


if __name__ == "__main__":
    main()

"""A zap segment of 100,000 documents: written, read back column by column, merged. `make bench`.

Rounds are interleaved; medians. The text field has 20 tokens with locations, words by Zipf's law; the tag field has doc
values. Where the Go programs of `interop/go` are built, zapx merges the same files beside it, as a process of its own.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dvcodec import RowSet, zap
from dvcodec.core.cursor import Cursor
from dvcodec.zap import vellum
from side_by_side import Task, medians

DOCS = 100_000
TOKENS = 20
WORDS = 20_000
VERSION = 15
GO = Path(__file__).parent.parent / "interop" / "go" / "bin" / f"zap{VERSION}"
TEXT, TAG = zap.FieldOptions(15), zap.FieldOptions(11)


def documents(count: int) -> Iterator[zap.Document]:
    """Documents of one text field, one tag, and an id."""
    random = np.random.default_rng(1)
    words = [b"w%05d" % i for i in range(WORDS)]
    for i, tokens in enumerate(np.minimum(random.zipf(1.3, (count, TOKENS)) - 1, WORDS - 1).tolist()):
        places: dict[int, list[int]] = {}
        for position, word in enumerate(tokens):
            places.setdefault(word, []).append(position)
        terms = tuple(
            zap.Term(words[word], len(found), tuple(zap.Location(p + 1, 7 * p, 7 * p + 6) for p in found))
            for word, found in places.items()
        )
        value = b" ".join(words[word] for word in tokens)
        tag = b"tag%d" % (i % 7)
        fields = (
            zap.Field("body", value, options=TEXT, terms=terms, length=TOKENS),
            zap.Field("tag", tag, options=TAG, terms=(zap.Term(tag),), length=1),
        )
        yield zap.Document(b"doc-%08d" % i, fields)


def drain(segment: zap.Segment, table: str) -> int:
    """Read one table; rows."""
    return sum(batch.num_rows for batch in segment.to_arrow(table))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    made = list(documents(count))
    with tempfile.TemporaryDirectory() as folder:
        path, merged, merged_by_go = (Path(folder) / name for name in ("a.zap", "b.zap", "c.zap"))
        zap.write_segment(path, made, VERSION)
        segment = zap.Segment.open(path)
        drops = RowSet(range(0, count, 10))
        counts = {name: drain(segment, name) for name in ("terms", "postings", "locations", "stored", "doc_values")}
        keys = np.sort(np.random.default_rng(2).choice(16**12, 1_000_000, replace=False))
        pairs = [b"%012x" % key for key in keys.tolist()]
        some, values = pairs[:: len(pairs) // 100_000], np.arange(100_000, dtype=np.uint64)
        blob = vellum.build(pairs, np.arange(len(pairs), dtype=np.uint64))
        fst = vellum.Fst.open(Cursor(blob))
        tasks: dict[str, tuple[Task, int, str]] = {
            "write documents": (lambda: zap.write_segment(io.BytesIO(), made, VERSION), count, "documents"),
            **{
                f"read {name}": (lambda name=name: drain(segment, name), rows, "keys" if name == "terms" else name)  # type: ignore[misc]
                for name, rows in counts.items()
            },
            "verify": (lambda: zap.verify_segment(path), counts["postings"], "postings"),
            "merge, a tenth dropped": (lambda: zap.merge_segments([segment], [drops], merged), count, "documents"),
            "vellum: enumerate": (lambda: sum(len(block) for block in fst.blocks()), len(pairs), "keys"),
            "  one by one": (lambda: sum(1 for _ in fst.range(stop=b"1")), len(pairs) // 16, "keys"),
            "vellum: build": (lambda: vellum.build(some, values), len(some), "keys"),
        }
        if GO.exists():
            command = {"op": "merge", "inputs": [{"path": str(path), "drops": drops.to_numpy().tolist()}]}
            line = json.dumps({**command, "out": str(merged_by_go)})
            tasks["  zapx, a process of its own"] = (
                lambda: subprocess.run([str(GO)], input=line, text=True, check=True, capture_output=True),
                count,
                "documents",
            )
        print(f"{segment}, {path.stat().st_size / 1e6:.1f} MB; " + ", ".join(f"{n:,} {k}" for k, n in counts.items()))
        for name, median in medians({name: task for name, (task, _, _) in tasks.items()}).items():
            _, rows, what = tasks[name]
            print(f"  {name:30} {median:10.1f} ms {1000 * rows / median:14,.0f} {what}/s")


if __name__ == "__main__":
    main()

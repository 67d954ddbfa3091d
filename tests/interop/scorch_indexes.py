"""Scorch indexes made by bleve, each with a life of its own: batches of documents to index and to delete."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from interop.driver import GoBleve

Batch = list[dict[str, Any]]
KEEP: dict[str, Any] = {"numSnapshotsToKeep": 1000}
"""Every epoch stays."""
NO_MERGES: dict[str, Any] = {"scorchMergePlanOptions": {"maxSegmentsPerTier": 1000, "segmentsPerMergeTask": 1000}}


def document(number: int, generation: int) -> dict[str, Any]:
    """Text, a number, a flag and a list."""
    return {
        "title": f"document {number} of {generation}",
        "n": number / 4,
        "flag": number % 2 == 0,
        "list": [f"item {i}" for i in range(number % 3)],
    }


def put(numbers: Iterable[int], generation: int = 0, prefix: str = "d") -> Batch:
    return [{"id": f"{prefix}{number}", "doc": document(number, generation)} for number in numbers]


def drop(numbers: Iterable[int], prefix: str = "d") -> Batch:
    return [{"id": f"{prefix}{number}", "doc": None} for number in numbers]


def life() -> list[Batch]:
    """Deletes, updates, a segment without documents left, ids that were there before."""
    return [
        put(range(12)),
        drop(range(0, 12, 5)),
        put(range(6, 15), 1) + drop([1]),
        drop(range(15)) + put([3], 2),
        put(range(4), 3),
    ]


def small() -> list[Batch]:
    """A few epochs, in a file of few pages."""
    return [put(range(9)), drop([1, 4, 8]), put([2, 10, 11], 1) + drop([7])]


COMMITTED = {"small-v15": (15, small), "small-v16": (16, small), "small-v17": (17, small)}


def make(bleve: GoBleve, path: Path, version: int, batches: list[Batch], scratch: Path, **options: Any) -> Path:
    """Make an index, or go on with it, batch by batch; `mapping` is one in bleve's JSON, the rest its configuration."""
    source = scratch / "batches.json"
    source.write_text(json.dumps(batches))
    mapping = options.pop("mapping", None)
    bleve.ask("life", path=path, batches=source, version=version, config=KEEP | options, mapping=mapping)
    return path


def truth(bleve: GoBleve, path: Path, scratch: Path) -> list[dict[str, Any]]:
    """What bleve says of every epoch: its segments with all their documents, and the live documents by id."""
    out = scratch / "epochs.json"
    bleve.ask("epochs", path=path, out=out)
    found: list[dict[str, Any]] = json.loads(out.read_bytes())
    return found

"""The summary of a snapshot: what a commit changed, and the totals.

Specification: Iceberg table spec, appendix F, "Optional Snapshot Summary Fields"; the counts are those of Iceberg
Java's ``SnapshotSummary``: the size of a vector is that of its blob.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dvcodec._version import __version__
from dvcodec.tables.iceberg.change import number_of
from dvcodec.tables.iceberg.manifest_list import DATA
from dvcodec.tables.iceberg.manifests import POSITION_DELETES, PUFFIN

__all__ = ["summarize"]

_TOTALS = {
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


def summarize(
    operation: str,
    added: Iterable[Mapping[str, Any]],
    removed: Iterable[Mapping[str, Any]],
    previous: Mapping[str, Any],
    *,
    manifests: Mapping[str, int],
) -> dict[str, str]:
    """Return the summary of a snapshot.

    Args:
        operation: ``delete``, ``replace``.
        added: entries of new files, with ``spec_id``.
        removed: entries of files that are gone.
        previous: summary of the snapshot before; totals that it lacks, or that are not text, are left out.
        manifests: how many were ``created``, ``kept`` and ``replaced``.
    """
    counts: Counter[str] = Counter()
    partitions = set()
    for word, entries in (("added", added), ("removed", removed)):
        for entry in entries:
            counts.update(_counts(word, entry["data_file"]))
            partitions.add((entry["spec_id"], repr(sorted(entry["data_file"]["partition"].items()))))
    summary = {name: str(count) for name, count in counts.items() if count}
    summary["changed-partition-count"] = str(len(partitions))
    summary |= {f"manifests-{what}": str(count) for what, count in manifests.items()}
    for total, (plus, minus) in _TOTALS.items():
        text = previous.get(total)
        before = number_of(text, -1) if isinstance(text, str) else -1
        after = before + counts[plus] - counts[minus] if before >= 0 else -1
        if after >= 0:
            summary[total] = str(after)
    return {"operation": operation, **summary, "engine-name": "dvcodec", "engine-version": __version__}


def _counts(word: str, file: Mapping[str, Any]) -> dict[str, int]:
    rows, size = file["record_count"], file["file_size_in_bytes"]
    if file["content"] == DATA:
        verb = "added" if word == "added" else "deleted"
        return {f"{verb}-data-files": 1, f"{verb}-records": rows, f"{word}-files-size": size}
    kind = "position" if file["content"] == POSITION_DELETES else "equality"
    vector = file["file_format"].lower() == PUFFIN
    if vector and file["content_size_in_bytes"] is not None:
        size = file["content_size_in_bytes"]
    return {
        f"{word}-dvs" if vector else f"{word}-{kind}-delete-files": 1,
        f"{word}-delete-files": 1,
        f"{word}-{kind}-deletes": rows,
        f"{word}-files-size": size,
    }

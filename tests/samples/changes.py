"""Changes of snapshots as plain values, to compare two ways of finding them."""

from __future__ import annotations

from typing import Any

from dvcodec.tables.snapshots.changes import SnapshotChange


def sorted_values(change: SnapshotChange) -> dict[str, Any]:
    """Return a change as plain values, with its data files sorted by path."""
    found = change.to_dict()
    for name in ("added", "removed"):
        found[name] = sorted(found[name])
    found["files"] = sorted(found["files"], key=lambda file: str(file["data_file"]))
    return found

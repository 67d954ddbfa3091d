"""What a snapshot changed, to be compared with what it changed by another way."""

from __future__ import annotations

from typing import Any

from dvcodec.tables.changes import SnapshotChange


def told(change: SnapshotChange) -> dict[str, Any]:
    """A change, with its data files in an order of their own."""
    found = change.to_dict()
    for name in ("added", "removed"):
        found[name] = sorted(found[name])
    found["files"] = sorted(found["files"], key=lambda file: str(file["data_file"]))
    return found

"""A process that deletes from a Lance dataset while others do; a module of its own, because each process imports it."""

from __future__ import annotations

__all__ = ["delete_keys"]


def delete_keys(path: str, turns: int, first: int, ours: bool) -> None:
    """Delete `turns` keys from `first` on, one a commit, until each is in; by dvcodec or by pylance."""
    import pyarrow.compute as pc

    import lance as pylance
    from dvcodec import CommitConflict
    from dvcodec.tables import open_table

    for key in range(first, first + turns):
        while True:
            try:
                if ours:
                    open_table(path).delete(pc.field("key") == key, retries=0)
                else:
                    pylance.dataset(path).delete(f"key = {key}")
            except (CommitConflict, OSError):
                continue
            break

"""Run a delete: plan, write and commit, and again after a conflict."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from dvcodec.core.errors import CommitConflict, DecodeError
from dvcodec.io import remove
from dvcodec.tables.deleting.committer import Backoff, Committer, StreamBatch, Written
from dvcodec.tables.deleting.engine import interrupting
from dvcodec.tables.deleting.plan import Finder, Plan, plan_again, plan_deletes
from dvcodec.tables.model import Deletion
from dvcodec.tables.snapshots.reading import Progress
from dvcodec.tables.table import Snapshot
from dvcodec.tables.writing import committing

LOG = logging.getLogger("dvcodec.delete")

Isolation: TypeAlias = Literal["snapshot", "serializable"]
"""``snapshot``: rows that others add meanwhile stay; ``serializable``: a data file that others add meanwhile, and that
may have such rows, fails the delete."""


@interrupting()
def run(
    committer: Committer[Any],
    finder: Finder,
    *,
    isolation: Isolation = "snapshot",
    dry_run: bool = False,
    retries: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    batch: StreamBatch | None = None,
) -> Deletion:
    """Delete the rows that a finder finds, in one commit.

    Args:
        committer: of the table.
        finder: which rows.
        isolation: see `Isolation`.
        dry_run: plan only.
        retries: conflicts after which the last one is raised; None = as the table says, see `Committer.retries`.
        threads: data files searched at a time, see `plan_deletes`.
        progress: called with how many data files have been searched, and of how many.
        batch: of a stream: recorded in the commit; if the table has it, nothing is done.

    Raises:
        UsageError: the table or the question does not allow it.
        CommitConflict: another writer changed what this delete depends on.
        CommitUnknown: it could not be found out whether the commit is in.
        DecodeError, OSError: the table is corrupt, cannot be read or written.
    """
    backoff = Backoff()
    committer.batch = batch

    def is_in(base: Snapshot) -> bool:
        last = None if batch is None else committer.last_batch(base, batch.query)
        return batch is not None and last is not None and last >= batch.number

    def wait(base: Snapshot, conflict: CommitConflict | FileNotFoundError) -> None:
        # Others may have committed since the base, and removed files that it needs.
        if isinstance(conflict, FileNotFoundError) and committer.current().info.id == base.info.id:
            raise conflict
        wanted = committer.retries(base)
        backoff.wait(conflict, wanted if retries is None else replace(wanted, number=retries))
        LOG.info("%s: conflict %d: %s", base.table.location, backoff.lost, conflict)

    def search() -> Plan:
        while True:
            base = committer.current()
            committer.check(base)
            if is_in(base):
                return Plan(base, (), 0, 0)
            finder.prepare(base)
            try:
                return plan_deletes(base, finder, threads=threads, progress=progress)
            except FileNotFoundError as gone:
                wait(base, gone)

    plan = search()
    while plan.deletes and not dry_run:
        try:
            snapshot, size = attempt(committer, plan)
            return plan.deletion(snapshot, backoff.lost, size)
        except (CommitConflict, FileNotFoundError) as conflict:
            wait(plan.base, conflict)
        newest = committer.current()
        committer.check(newest)
        plan = Plan(newest, (), 0, 0) if is_in(newest) else _resolve(finder, plan, newest, isolation, search)
    return plan.deletion(None, backoff.lost, repeated=is_in(plan.base))


def _resolve(finder: Finder, plan: Plan, newest: Snapshot, isolation: Isolation, search: Callable[[], Plan]) -> Plan:
    """Return the plan for the newest snapshot, after others have committed.

    Raises:
        CommitConflict: a data file of named positions is gone, or `serializable` and rows may have been added.
    """
    if finder.can_search_again:
        finder.prepare(newest)
    if isolation == "serializable":
        added = (file for path, file in newest.files.items() if path not in plan.base.files)
        found = next((file for file in added if finder.may_match(newest, file)), None)
        if found is not None:
            raise CommitConflict(
                f"{newest.table.location}: {found.path} was added meanwhile and may have rows to delete"
            )
    moved = plan_again(plan, newest, finder) if not finder.can_search_again or _is_alike(plan.base, newest) else None
    if moved is not None:
        return moved
    if not finder.can_search_again:
        gone = [one.data_file.path for one in plan.deletes if one.data_file.path not in newest.files]
        raise CommitConflict(
            f"{newest.table.location}: replaced meanwhile, with their row positions: {', '.join(gone[:3])}"
        )
    return search()


def _is_alike(base: Snapshot, newest: Snapshot) -> bool:
    """Whether two snapshots have the same columns; False if those of the older one can no longer be read."""
    try:
        return newest.has_columns_of(base)
    except (DecodeError, OSError):
        return False


def attempt(committer: Committer[Any], plan: Plan) -> tuple[int, int]:
    """Write and commit a plan once; return the id of the new snapshot and the bytes written.

    New files are removed if nothing was committed, and kept if that is not known.

    Raises:
        CommitConflict, CommitUnknown, DecodeError, UsageError, OSError: see `Committer.write` and `Committer.commit`.
    """
    storage = plan.base.table.folder.storage
    files: list[str] = []
    try:
        partial = [one for one in plan.deletes if not one.whole]
        written = committer.write(plan.base, partial, files) if partial else Written({}, 0)
        with committing(files):
            snapshot = committer.commit(plan.base, plan.deletes, written, files)
    except BaseException:
        for path in files:
            remove(path, storage_options=storage)
        raise
    return snapshot, written.bytes_written

"""The commands zap compact and zap repair, which write a whole index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dvcodec.cli.common import complain, storage
from dvcodec.cli.render import counter, print_json, say
from dvcodec.cli.targets import Json
from dvcodec.cli.zap.shared import zap
from dvcodec.core.text import counted, plain
from dvcodec.tables.folder import Folder, folder_location
from dvcodec.tables.scorch.rewrite import IndexPlan, RewrittenIndex, commit_rewrite, plan_compaction, plan_repair

Index = Annotated[str, typer.Argument(metavar="INDEX", help="Folder of a scorch index on this machine.")]
Commit = Annotated[bool, typer.Option("--commit", help="Do it; by default nothing is written.")]


@zap.command()
def compact(
    index: Index,
    commit: Commit = False,
    merge: Annotated[bool, typer.Option("--merge", help="Write all segments as one.")] = False,
    as_json: Json = False,
) -> None:
    """Show which segments have deleted documents; with --commit, write them without, and a new snapshot of the index.

    Stop what has the index open. Older snapshots are removed, and the segments that only they need.
    """
    plan = plan_compaction(Folder(folder_location(index), storage=storage()), merge=merge)
    done = None
    if commit and plan.actions:
        with counter("writing") as progress:
            done = commit_rewrite(plan, progress=progress)
    _show(plan, done, as_json)


@zap.command()
def repair(
    index: Index,
    commit: Commit = False,
    accept_restored_rows: Annotated[
        bool, typer.Option("--accept-restored-rows", help="Also if deleted documents may become live again.")
    ] = False,
    accept_lost_documents: Annotated[
        bool, typer.Option("--accept-lost-documents", help="Also if documents of a damaged segment are left out.")
    ] = False,
    mapping: Annotated[
        Path | None,
        typer.Option("--mapping", metavar="FILE", help="The index mapping as JSON, if root.bolt has none any more."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how an index with a missing or damaged segment or root.bolt can be repaired; with --commit, do it.

    Stop what has the index open. All of it is read. Damaged files stay, as NAME.damaged. Exit code 1 if something is
    wrong, unless all of it was repaired.
    """
    with counter("verifying") as progress:
        plan = plan_repair(
            Folder(folder_location(index), storage=storage()),
            mapping=None if mapping is None else mapping.read_bytes(),
            progress=progress,
        )
    done = None
    if commit and plan.actions:
        done = commit_rewrite(
            plan, accept_restored_documents=accept_restored_rows, accept_lost_documents=accept_lost_documents
        )
    _show(plan, done, as_json)
    raise typer.Exit(1 if plan.unfixed or (plan.actions and done is None) else 0)


def _show(plan: IndexPlan, done: RewrittenIndex | None, as_json: bool) -> None:
    if as_json:
        print_json(plan.to_dict() | ({} if done is None else {"commit": done.to_dict()}))
        return
    for action in plan.actions:
        say("  ", (action.action, "bold"), f"  {action.message}")
    for message in plan.unfixed:
        say("  ", ("left", "bold yellow"), f"  {message}")
    if not plan.actions:
        print("nothing to do")
    elif done is None:
        flags = [
            flag
            for flag, wanted in (
                ("--accept-restored-rows", any(action.restores_documents for action in plan.actions)),
                ("--accept-lost-documents", any(action.loses_documents for action in plan.actions)),
            )
            if wanted
        ]
        print(f"nothing was written yet: add {' '.join(['--commit', *flags])}")
    else:
        segments = f"{counted(len(done.written), 'segment')} written, {len(done.removed)} removed"
        print(f"done, snapshot {done.snapshot}: {segments}")
        for name in done.set_aside:
            complain(f"{plain(plan.index)}: set aside: {name}.damaged")

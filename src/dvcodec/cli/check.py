"""The command that checks: verify."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from dvcodec.cli.app import DataFile, Json, Names, Rows, app, tell_skipped
from dvcodec.cli.render import console, print_json, track
from dvcodec.cli.targets import Target, expand, open_source_of, open_target
from dvcodec.core.errors import DecodeError
from dvcodec.core.report import Report, Status
from dvcodec.ops.verify import verify_source


@app.command()
def verify(
    targets: Names,
    rows: Rows = None,
    cardinality: Annotated[
        int | None, typer.Option("--cardinality", min=0, help="Rows that the manifest or log promises.")
    ] = None,
    data_file: DataFile = None,
    every: Annotated[bool, typer.Option("--all", help="Show the checks that passed too.")] = False,
    as_json: Json = False,
) -> None:
    """Check files: length, CRC, magic, structure, cardinality, and the rules for Puffin metadata."""
    reports, skipped = [], 0
    found = expand(targets)
    for target in track(found, len(found), "verifying"):
        report = _verify(target, rows, cardinality, data_file)
        if report is None:
            skipped += 1
            continue
        reports.append(report)
        if not as_json:
            _print_report(report, every)
    if as_json:
        print_json([report.to_dict() for report in reports])
    else:
        bad = sum(not report.ok for report in reports)
        print(f"{len(reports):,} {'file' if len(reports) == 1 else 'files'}, {bad or 'none'} with findings")
    tell_skipped(skipped)
    if any(not report.ok for report in reports):
        raise typer.Exit(1)


def _verify(target: Target, rows: int | None, cardinality: int | None, data_file: str | None) -> Report | None:
    if target.found and not _holds_vectors(target):
        return None
    with open_source_of(target) as source:
        return verify_source(source, cardinality=cardinality, row_count=rows, data_file=data_file)


def _holds_vectors(target: Target) -> bool:
    """Whether a file of a folder is a container at all; a damaged one is."""
    try:
        with open_target(target) as found:
            return found is not None
    except DecodeError:
        return True


_SIGNS = {Status.PASS: "[green]pass[/]", Status.FAIL: "[bold red]FAIL[/]", Status.NOT_APPLICABLE: "[dim]n/a[/]"}


def _print_report(report: Report, every: bool) -> None:
    out = console()
    sign = "[green]ok[/]" if report.ok else "[bold red]FAIL[/]"
    passed = sum(check.status is Status.PASS for check in report.checks)
    out.print(f"{sign}  [bold]{escape(report.source)}[/]  {report.kind or 'unknown container'}, {passed} checks passed")
    for check in report.checks if every else report.findings:
        place = "" if check.offset is None else f" at byte {check.offset}"
        text = f"  {_SIGNS[check.status]}  {check.name}: {escape(check.subject)}{place}"
        if check.status is Status.FAIL:
            text += f": {escape(check.message or '')}: expected {escape(str(check.expected))}"
            text += f", found {escape(str(check.actual))}"
        out.print(text, soft_wrap=True)

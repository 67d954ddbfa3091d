"""The command verify."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from dvcodec.cli.json_text import print_json
from dvcodec.cli.manifest import read_manifest
from dvcodec.cli.render import say
from dvcodec.cli.shared import DataFile, Json, Names, Rows, Tour, check_text
from dvcodec.cli.storage import storage
from dvcodec.cli.targets import Part, Target, open_source_of, open_target
from dvcodec.core.errors import DecodeError
from dvcodec.core.report import Check, Report, Status
from dvcodec.core.text import counted
from dvcodec.ops.read import VectorRef
from dvcodec.ops.verify import verify_source


def verify(
    targets: Names,
    rows: Rows = None,
    cardinality: Annotated[
        int | None,
        typer.Option(
            "--cardinality",
            min=0,
            help="Rows according to the manifest or log, for one vector: choose it by --data-file or path@offset.",
        ),
    ] = None,
    data_file: DataFile = None,
    every: Annotated[bool, typer.Option("--all", help="Show the checks that passed too.")] = False,
    as_json: Json = False,
) -> None:
    """Check files: length, CRC, magic, structure, cardinality, Puffin's rules; all parts of a segment; a manifest.

    A Paimon index manifest or a Lance manifest is checked against the files that it references; those of folders are
    skipped.
    """
    results: list[tuple[Report, dict[str, int | None]]] = []

    def add(report: Report, superseded: dict[str, int | None]) -> None:
        results.append((report, superseded))
        if not as_json:
            _print_report(report, every)

    tour = Tour(targets, "verifying", silent=as_json)
    for target in tour:
        with tour.turn():
            manifest = read_manifest(target)
            if manifest is not None:
                add(manifest.verify(), {})
                continue
            refs = _vectors_in(target) if target.found else ()
            if refs is None:
                tour.skipped += 1
                continue
            report = _verify(target, rows, cardinality, data_file)
            add(report, _superseded(tour, target, refs))
    with tour.turn():
        for report in tour.tables.missing():
            add(report, {})
    bad = sum(not report.ok for report, _ in results)
    if as_json:
        print_json([report.to_dict() | superseded for report, superseded in results])
    elif results:
        print(f"{counted(len(results), 'file')}, {bad or 'none'} with findings")
    tour.finish(1 if bad else 0)


def _verify(target: Target, rows: int | None, cardinality: int | None, data_file: str | None) -> Report:
    try:
        with open_source_of(target) as source:
            report = verify_source(
                source, cardinality=cardinality, row_count=rows, data_file=data_file, limits=storage().limits
            )
    except DecodeError as err:  # the part is not within the file
        return Report(err.source or target.path, None, (Check.from_error("container", "file", err),))
    return _moved(report, source.base) if isinstance(source, Part) else report


def _superseded(tour: Tour, target: Target, refs: tuple[VectorRef, ...]) -> dict[str, int | None]:
    """Count, for JSON, the vectors of a file that are not in the table's current snapshot; {} outside of tables."""
    marks = [mark for ref in refs for mark in tour.tables.seen(target.path, ref.offset).values()]
    return {"superseded": None if None in marks else sum(map(bool, marks))} if marks else {}


def _moved(report: Report, base: int) -> Report:
    """Make the offsets of a part's report relative to the file."""
    checks = (check if check.offset is None else replace(check, offset=check.offset + base) for check in report.checks)
    return Report(f"{report.source}@{base}", report.kind, tuple(checks))


def _vectors_in(target: Target) -> tuple[VectorRef, ...] | None:
    """Return the vectors in a file of a folder: () if it is corrupt, None if it is not a container."""
    try:
        with open_target(target, segments=True) as found:
            return None if found is None else found.container.vectors
    except DecodeError:
        return ()


_SIGNS = {
    Status.PASS: ("pass", "green"),
    Status.FAIL: ("FAIL", "bold red"),
    Status.NOT_APPLICABLE: ("n/a", "dim"),
}


def _print_report(report: Report, every: bool) -> None:
    made = counted(sum(check.status is not Status.NOT_APPLICABLE for check in report.checks), "check")
    result = f"{made} passed" if report.ok else f"{len(report.findings)} of {made} failed"
    sign = ("ok    ", "green") if report.ok else ("FAIL  ", "bold red")
    say(sign, (report.source, "bold"), f"  {report.kind or 'unknown container'}, {result}")
    for check in report.checks if every else report.findings:
        say("  ", _SIGNS[check.status], f"  {check_text(check)}")
